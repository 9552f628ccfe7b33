"""The high watermark over time: every such row of the worked examples, and the rule version by version."""

from __future__ import annotations

import pytest
from tests.support.observations import at, find_deviations

from replica_audit.protocol.high_watermark_rule import Observation, ReplicaProgress, rule_of
from replica_audit.protocol.timeline import DeviationRuns, recompute_timeline

NEWEST = rule_of((4, 3))
LONG_AGO = 60_000


def marks(*observations, rule=NEWEST):
    return [row.hw_recomputed for row in recompute_timeline(observations, rule)]


def deviations(*observations, rule=NEWEST):
    return [row.deviation for row in recompute_timeline(observations, rule)]


def test_the_mark_is_the_least_log_end_of_the_isr():
    (row,) = recompute_timeline([at(0, {0: 105, 1: 104, 2: 100, 3: 85}, (0, 1, 2), observed=100)], NEWEST)
    assert (row.hw_recomputed, row.limiting_broker_id, row.deviation) == (100, 2, None)


def test_the_slowest_replica_in_sync_limits_the_mark():
    (row,) = recompute_timeline([at(0, {0: 5, 1: 3, 2: 4}, (0, 1, 2))], NEWEST)
    assert (row.hw_recomputed, row.limiting_broker_id) == (3, 1)


def test_isr_shrink_moves_the_mark_without_a_record():
    ends = {0: 9, 1: 7, 2: 6}
    rows = list(recompute_timeline([at(0, ends, (0, 1, 2), observed=6), at(1, ends, (0, 1), observed=7)], NEWEST))
    assert [(row.hw_recomputed, row.occasion, row.deviation) for row in rows] == [(6, "start", None), (7, "isr", None)]


@pytest.mark.parametrize(("version", "mark"), [((0, 10), 8), ((2, 8), 8), ((3, 6), 8), ((4, 3), 8)])
def test_a_catching_up_outsider_holds_the_mark(version, mark):
    ends = {0: 10, 1: 10, 2: 8}
    seen = at(LONG_AGO, ends, (0, 1), caught_up={2: LONG_AGO - 9_000})
    assert marks(seen, rule=rule_of(version)) == [mark]


def outsider_at_8(time, mark, end=10, **more):
    """Broker 2, outside the ISR, caught up 9 s before `LONG_AGO` and is at 8."""
    caught_up = {2: LONG_AGO - 9_000}
    return at(
        LONG_AGO + time, {0: end, 1: end, 2: 8}, (0, 1), caught_up=caught_up, observed=mark, lag_time_ms=30_000, **more
    )


@pytest.mark.parametrize("version", [(0, 10), (2, 6), (2, 8), (3, 5)])
def test_a_mark_that_passes_a_catching_up_outsider_is_ahead_before_3_6(version):
    seen = outsider_at_8(0, 8), outsider_at_8(1, 10)
    assert deviations(*seen, rule=rule_of(version)) == [None, "ahead"]
    # By the next observation its time was up: since when is not known.
    assert deviations(seen[0], outsider_at_8(30_000, 10), rule=rule_of(version)) == [None, None]


def test_of_an_outsider_that_may_or_may_not_hold_nothing_is_concluded():
    for version in ((3, 6), (4, 3), None):
        for eligible in ({}, {"eligible": (2,)}, {"ineligible": (2,)}):
            for mark in (8, 10):
                seen = [outsider_at_8(0, 8, **eligible), outsider_at_8(1, mark, 11, **eligible)]
                seen += [outsider_at_8(2, mark, 12, **eligible)]
                assert deviations(*seen, rule=rule_of(version)) == [None, None, None]
        late = [outsider_at_8(time, 7, 10 + time, min_insync_replicas=2) for time in (0, 1, 2)]
        assert deviations(*late, rule=rule_of(version)) == [None, "stuck", "stuck"]
        # The ISR is not whole, and nobody says how large it has to be.
        ungiven = [one._replace(min_insync_replicas=None) for one in late]
        assert set(deviations(*ungiven, rule=rule_of(version))) == ({None, "stuck"} if version == (3, 6) else {None})


def test_a_first_observation_judges_nothing():
    wrong = at(0, {0: 9, 1: 8}, (0, 1), observed=30), at(0, {0: 9, 1: 8}, (0, 1), observed=2)
    for one in wrong:
        assert deviations(one) == [None]
        assert deviations(one, at(1, {0: 20, 1: 20}, (1, 0), observed=3, leader=1, epoch=1)) == [None, None]
        # Without an epoch every observation may be of a leadership of its own.
        nameless = [
            at(time, {0: 9, 1: 8}, (0, 1), observed=mark, epoch=None) for time, mark in ((0, 8), (1, 2), (2, 9))
        ]
        assert deviations(*nameless) == [None, None, None]


@pytest.mark.parametrize(("before", "after"), [((0, 0), (1, 1)), ((1, 0), (0, 1)), ((0, 0), (0, 1)), ((0, 1), (0, 0))])
def test_another_leader_or_epoch_is_another_leadership_whichever_is_greater(before, after):
    ends = {0: 20, 1: 20}
    seen = [at(0, ends, (0, 1), observed=20, leader=before[0], epoch=before[1])]
    seen += [at(1, ends, (0, 1), observed=3, leader=after[0], epoch=after[1])]
    rows = list(recompute_timeline(seen, NEWEST))
    assert [(row.occasion, row.deviation) for row in rows] == [("start", None), ("leader", None)]


def test_a_lagging_outsider_does_not():
    assert marks(at(LONG_AGO, {0: 10, 1: 10, 2: 8}, (0, 1), caught_up={2: 0})) == [10]
    assert marks(at(LONG_AGO, {0: 10, 1: 10, 2: 8}, (0, 1))) == [10]


def test_the_lag_time_is_that_of_the_version_or_of_the_observation():
    seen = {2: LONG_AGO - 20_000}
    assert marks(at(LONG_AGO, {0: 10, 1: 10, 2: 8}, (0, 1), caught_up=seen), rule=rule_of((2, 4))) == [10]
    assert marks(at(LONG_AGO, {0: 10, 1: 10, 2: 8}, (0, 1), caught_up=seen), rule=rule_of((2, 5))) == [8]
    assert marks(at(LONG_AGO, {0: 10, 1: 10, 2: 8}, (0, 1), caught_up=seen, lag_time_ms=15_000)) == [10]


@pytest.mark.parametrize(("version", "mark"), [((3, 5), 8), ((3, 6), 10), ((4, 0), 10)])
def test_an_outsider_that_may_not_join_holds_nothing_since_3_6(version, mark):
    seen = at(LONG_AGO, {0: 10, 1: 10, 2: 8}, (0, 1), caught_up={2: LONG_AGO}, ineligible=(2,))
    assert marks(seen, rule=rule_of(version)) == [mark]


@pytest.mark.parametrize(("version", "mark"), [((2, 6), 10), ((2, 7), 8), ((3, 9), 8)])
def test_a_pending_expansion_holds_the_mark_since_2_7(version, mark):
    assert marks(at(0, {0: 10, 1: 10, 2: 8}, (0, 1), pending_isr=(2,)), rule=rule_of(version)) == [mark]


@pytest.mark.parametrize(("version", "expected"), [((3, 6), [5, 9]), ((3, 7), [5, 5]), ((4, 3), [5, 5])])
def test_below_min_isr_the_mark_stands_still_since_3_7(version, expected):
    settings = {"min_insync_replicas": 2, "caught_up": {1: 0, 2: 0}, "lag_time_ms": 30_000}
    first = at(LONG_AGO, {0: 5, 1: 5, 2: 5}, (0, 1, 2), observed=5, **settings)
    then = at(LONG_AGO + 1, {0: 9, 1: 5, 2: 5}, (0,), observed=5, **settings)
    moved = at(LONG_AGO + 2, {0: 12, 1: 5, 2: 5}, (0,), observed=9, **settings)
    found = ["stuck", "stuck"] if expected[1] == 9 else [None, "ahead"]
    assert deviations(first, then, moved, rule=rule_of(version)) == [None, *found]
    unseen = then._replace(replicas=tuple(each._replace(high_watermark=None) for each in then.replicas))
    assert marks(first, unseen, rule=rule_of(version)) == expected


def test_of_an_unknown_version_the_gate_accuses_nobody():
    first = at(0, {0: 5, 1: 5, 2: 5}, (0, 1, 2), observed=5, min_insync_replicas=2)
    for mark in (5, 9):
        then = at(1, {0: 9, 1: 5, 2: 5}, (0,), observed=mark, min_insync_replicas=2)
        assert deviations(first, then, rule=rule_of(None)) == [None, None]
    then = at(1, {0: 9, 1: 5, 2: 5}, (0,), observed=10, min_insync_replicas=2)
    assert deviations(first, then, rule=rule_of(None)) == [None, "ahead"]


def test_the_mark_may_have_moved_before_the_gate_closed():
    first = at(0, {0: 5, 1: 5}, (0, 1), observed=5, min_insync_replicas=2)
    moved = at(1, {0: 9, 1: 9}, (0,), observed=9, min_insync_replicas=2)
    assert deviations(first, moved, rule=rule_of((4, 3))) == [None, None]
    more = at(2, {0: 12, 1: 9}, (0,), observed=12, min_insync_replicas=2)
    assert deviations(first, moved, more, rule=rule_of((4, 3))) == [None, None, "ahead"]
    beyond = at(1, {0: 9, 1: 8}, (0,), observed=9, min_insync_replicas=2)
    assert deviations(first, beyond, rule=rule_of((4, 3))) == [None, "ahead"]


def test_waiting_below_min_isr_is_not_stuck():
    seen = [at(1_000 * n, {0: 20 + n, 1: 20}, (0,), observed=20, min_insync_replicas=2) for n in range(100)]
    assert set(deviations(*seen, rule=rule_of((4, 3)))) == {None}


def test_min_isr_is_never_more_than_the_replication_factor():
    assert marks(at(0, {0: 9}, (0,), min_insync_replicas=2)) == [9]


@pytest.mark.parametrize("base", [0, 10])
def test_two_rounds_of_propagation(base):
    steps = [
        (base, base, base, base),
        (base + 1, base, base, base),
        (base + 1, base, base + 1, base),
        (base + 1, base + 1, base + 1, base + 1),
    ]
    observations = [
        at(time, {0: end, 1: own}, (0, 1), known={1: known}, observed=mark)
        for time, (end, known, own, mark) in enumerate(steps)
    ]
    rows = list(recompute_timeline(observations, NEWEST))
    assert [row.hw_recomputed for row in rows] == [base, base, base, base + 1]
    assert [row.occasion for row in rows] == ["start", "append", "none", "fetch"]
    assert not any(row.deviation for row in rows)


def test_a_new_leader_keeps_its_mark_and_moves_only_when_all_in_sync_have_fetched():
    before = at(0, {0: 9, 1: 9, 2: 9}, (0, 1, 2), observed=9)
    elected = at(1, {0: 9, 1: 9, 2: 9}, (1, 2), known={2: -1, 0: -1}, observed=7, leader=1, epoch=1)
    fetched = at(2, {0: 9, 1: 9, 2: 9}, (1, 2), known={2: 9, 0: -1}, observed=9, leader=1, epoch=1)
    rows = list(recompute_timeline([fetched, elected, before], NEWEST))
    assert [(row.hw_recomputed, row.occasion) for row in rows] == [(9, "start"), (7, "leader"), (9, "fetch")]
    assert [row.deviation for row in rows] == [None, None, None]


def test_a_new_leader_keeps_its_mark_also_above_what_a_member_has():
    """A member that lost its tail, or was cut to its own high watermark, comes back below it: no doing of the leader."""
    for version in ((0, 10), (2, 8), (4, 3), None):
        seen = [at(time, {1: 9, 2: 8}, (1, 2), known={2: -1}, observed=9, leader=1, epoch=1) for time in (1, 2)]
        fetched = at(3, {1: 12, 2: 8}, (1, 2), observed=9, leader=1, epoch=1)
        assert deviations(*seen, fetched, rule=rule_of(version)) == [None, None, None]
        further = at(4, {1: 12, 2: 8}, (1, 2), observed=10, leader=1, epoch=1)
        assert deviations(*seen, fetched, further, rule=rule_of(version))[-1] == "ahead"


def test_ahead_stuck_and_regressed_are_told_with_their_time_and_extent():
    def step(time, mark, end=20, fetched=20):
        return at(time, {0: end, 1: fetched}, (0, 1), observed=mark)

    seen = [
        step(0, 20),
        step(1, 20, 30, 25),
        step(2, 20, 31, 25),
        step(3, 28, 32, 25),
        step(4, 24, 33, 25),
        step(5, 26, 33, 26),
    ]
    rows = list(recompute_timeline(seen, NEWEST))
    assert [row.deviation for row in rows] == [None, "stuck", "stuck", "ahead", "regressed", None]
    stuck, ahead, regressed = find_deviations(rows)
    assert (stuck.deviation, stuck.held, stuck.start_ms, stuck.end_ms, stuck.observations) == ("stuck", False, 1, 2, 2)
    assert stuck.lasting and not find_deviations(rows[:2])[0].lasting
    # It waited before anything more was due.
    (late,) = find_deviations(recompute_timeline([step(0, 20), step(1, 20, 30, 20), step(2, 20, 31, 25)], NEWEST))
    assert (late.deviation, late.held, late.start_ms) == ("stuck", False, 2)
    assert [(run.held, run.lasting) for run in (ahead, regressed)] == [(False, True)] * 2
    assert (stuck.least_observed, stuck.greatest_recomputed, stuck.limiting_broker_id) == (20, 25, 1)
    assert (ahead.least_recomputed, ahead.greatest_observed) == (25, 28)
    assert (regressed.least_observed, regressed.greatest_recomputed) == (24, 25)
    for limit, kept in ((0, 0), (2, 2), (3, 3), (9, 3)):
        found = DeviationRuns(limit)
        for row in rows:
            found.add(row)
        assert found.finish() == [stuck, ahead, regressed][:kept] and found.count == 3


def test_what_holds_the_mark_for_longer_than_a_replica_may_is_stuck_by_that_replica():
    seen = [at(0, {0: 20, 1: 20}, (0, 1), observed=20, lag_time_ms=30_000)]
    seen += [at(1_000 * n, {0: 20 + n, 1: 20}, (0, 1), observed=20, lag_time_ms=30_000) for n in range(1, 60)]
    rows = list(recompute_timeline(seen, NEWEST))
    assert {row.deviation for row in rows[:47]} == {None} and {row.deviation for row in rows[47:]} == {"stuck"}
    (run,) = find_deviations(rows)
    assert run.held and run.start_ms == 1_000 and run.limiting_broker_id == 1 and run.leader_log_end_offset == 79


def test_without_the_leaders_view_nothing_is_stuck_but_too_much_is_ahead():
    def step(time, own, mark):
        replicas = (ReplicaProgress(0, None, 20, None, mark), ReplicaProgress(1, None, own))
        return Observation(time, 0, 0, (0, 1), replicas)

    assert deviations(step(0, 10, 8), step(1, 15, 8), step(2, 15, 16)) == [None, None, None]
    assert deviations(step(0, 10, 8), step(1, 15, 16), step(2, 15, 16)) == [None, None, "ahead"]
    # Nothing at all is known of broker 1: it may have everything.
    lone = Observation(3, 0, 0, (0, 1), (ReplicaProgress(0, None, 20, None, 19),))
    assert deviations(lone) == [None]


def below_three(time, mark, ends, isr, **more):
    """One of three replicas, of which all have to be in sync."""
    return at(time, ends, isr, observed=mark, min_insync_replicas=3, **more)


@pytest.mark.parametrize(("mark", "found"), [(5, None), (8, None), (9, "ahead"), (12, "ahead")])
def test_when_the_gate_closed_the_mark_was_no_more_than_as_many_as_are_needed_have_fetched(mark, found):
    first = below_three(0, 5, {0: 5, 1: 5, 2: 5}, (0, 1, 2))
    # The ISR alone would allow 9; broker 2, which the gate needs, has 8. Before 3.7 broker 2 may still count as caught up.
    then = below_three(1, mark, {0: 12, 1: 9, 2: 8}, (0, 1))
    assert deviations(first, then) == [None, found]
    assert deviations(first, then, rule=rule_of((3, 6)))[1] == (
        "ahead" if mark == 12 else "stuck" if mark < 8 else None
    )


def test_the_slowest_that_is_not_needed_bounds_nothing_when_the_gate_closed():
    first = at(0, {0: 5, 1: 5, 2: 5}, (0, 1, 2), observed=5, min_insync_replicas=2)
    for mark, found in ((9, None), (10, "ahead")):
        then = at(1, {0: 12, 1: 9, 2: 6}, (0,), observed=mark, min_insync_replicas=2)
        assert deviations(first, then) == [None, found]


def test_what_a_replica_without_a_row_has_fetched_is_not_known():
    first = at(0, {0: 5, 1: 5, 2: 5}, (0, 1, 2), observed=5, min_insync_replicas=2)
    then = at(1, {0: 12, 1: 6}, (0,), observed=12, min_insync_replicas=2)
    assert deviations(first, then) == [None, None]
    # Of two that are needed besides the leader one is known.
    first, then = (one._replace(min_insync_replicas=3) for one in (first, then))
    assert deviations(first, then) == [None, "ahead"]
    assert deviations(first, then._replace(min_insync_replicas=None)) == [None, None]


def test_a_replica_that_went_back_bounds_nothing_when_the_gate_closed():
    first = below_three(0, 5, {0: 8, 1: 8, 2: 5}, (0, 1, 2))
    then = below_three(1, 7, {0: 12, 1: 6, 2: 7}, (0, 2))
    assert deviations(first, then) == [None, None]
    assert deviations(first, below_three(1, 8, {0: 12, 1: 6, 2: 7}, (0, 2))) == [None, "ahead"]


@pytest.mark.parametrize(("settings", "found"), [((3, 2), None), ((2, 3), None), ((3, 3), "ahead")])
def test_of_a_minimum_that_changed_the_lower_one_bounds(settings, found):
    first = at(0, {0: 5, 1: 5, 2: 5}, (0, 1, 2), observed=5, min_insync_replicas=settings[0])
    then = at(1, {0: 12, 1: 9, 2: 8}, (0,), observed=9, min_insync_replicas=settings[1])
    assert deviations(first, then) == [None, found]
