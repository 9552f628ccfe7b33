"""Conclusions from one observation and the one before: who holds the high watermark, what was due, and what bounds it."""

from __future__ import annotations

import itertools

import pytest
from tests.support.observations import at

from replica_audit.protocol.high_watermark_rule import Observation, ReplicaProgress, rule_of
from replica_audit.protocol.timeline import TimelineRow, recompute_timeline

NEWEST = (4, 3)
#: Milliseconds; far enough from 0 that replicas can have caught up long before.
NOW = 100_000


def rows(*observations: Observation, version: tuple[int, ...] | None = NEWEST) -> list[TimelineRow]:
    return list(recompute_timeline(observations, rule_of(version)))


def last(*observations: Observation, version: tuple[int, ...] | None = NEWEST) -> TimelineRow:
    return rows(*observations, version=version)[-1]


def unobserved(one: Observation, *brokers: int) -> Observation:
    """The observation without the rows of these brokers."""
    return one._replace(replicas=tuple(row for row in one.replicas if row.broker_id not in brokers))


@pytest.mark.parametrize(("version", "lag_ms"), [((2, 4), 10_000), ((2, 5), 30_000)])
def test_a_replica_counts_as_caught_up_for_the_lag_time_and_not_a_millisecond_longer(version, lag_ms):
    for since, limiting in ((lag_ms, 1), (lag_ms + 1, None)):
        seen = at(NOW, {0: 9, 1: 7}, (0,), caught_up={1: NOW - since}, eligible=(1,))
        assert last(seen, version=version).limiting_broker_id == limiting
        assert last(seen, version=version).hw_recomputed == (9 if limiting is None else 7)


def test_who_may_or_may_not_hold_the_mark_is_reckoned_with_but_not_named():
    for version, eligible, mark, limiting in [
        ((4, 3), None, 7, None),
        ((4, 3), True, 7, 1),
        ((4, 3), False, 9, None),
        (None, None, 7, None),
        (None, True, 7, 1),
        (None, False, 7, None),
        ((3, 5), None, 7, 1),
        ((3, 5), False, 7, 1),
    ]:
        seen = at(NOW, {0: 9, 1: 7}, (0,), caught_up={1: NOW})
        seen = seen._replace(replicas=tuple(row._replace(eligible=eligible) for row in seen.replicas))
        row = last(seen, version=version)
        assert (row.hw_recomputed, row.limiting_broker_id) == (mark, limiting), (version, eligible)


def test_of_an_unknown_version_a_pending_expansion_holds_the_mark():
    row = last(at(0, {0: 9, 1: 7}, (0,), pending_isr=(1,)), version=None)
    assert (row.hw_recomputed, row.limiting_broker_id) == (7, 1)


def test_the_slowest_is_named_also_where_it_has_nothing_and_only_below_the_leaders_end():
    assert last(at(0, {0: 2, 1: 2, 2: 0}, (0, 1, 2))).limiting_broker_id == 2
    assert last(at(0, {0: 2, 1: 2, 2: 2}, (0, 1, 2))).limiting_broker_id is None


@pytest.mark.parametrize("isr", [None, (), (1,)])
def test_without_an_isr_that_has_the_leader_nothing_is_reckoned(isr):
    row = last(at(0, {0: 9, 1: 7}, isr))
    assert (row.hw_recomputed, row.isr) == (None, isr)


def test_an_empty_partition_has_a_mark_of_0_and_a_new_leader_none_before_its_first_fetch():
    assert last(at(0, {0: 0}, (0,))).hw_recomputed == 0
    seen = [at(time, {0: 5 + time, 1: 5}, (0, 1), known={1: -1}, min_insync_replicas=1) for time in (0, 1)]
    assert [row.hw_recomputed for row in rows(*seen)] == [None, None]


@pytest.mark.parametrize(("version", "mark"), [((3, 6), 9), ((3, 7), None), (None, None)])
def test_below_min_isr_nothing_is_reckoned_where_the_version_may_have_the_gate(version, mark):
    assert last(at(0, {0: 9, 1: 9}, (0,), min_insync_replicas=2), version=version).hw_recomputed == mark
    for enough in (None, 1, 2):
        assert last(at(0, {0: 9, 1: 9}, (0, 1), min_insync_replicas=enough), version=version).hw_recomputed == 9


def test_a_pending_expansion_is_reckoned_with_also_where_the_isr_is_unknown():
    def seen(time):
        ends = {0: 30 + time, 1: 20}
        return at(NOW + time, ends, None, pending_isr=(1,), observed=20, lag_time_ms=10_000, min_insync_replicas=2)

    assert last(seen(0), seen(15_001)).is_held


def test_an_observation_without_its_leader_says_nothing():
    seen = [unobserved(at(time, {0: 9, 1: 5 + time}, (0, 1), observed=5), 0) for time in (0, 1)]
    assert [(row.hw_recomputed, row.hw_observed, row.deviation) for row in rows(*seen)] == [(None, None, None)] * 2


def test_a_row_shows_the_isr_in_order_and_0_where_no_sequence_is_given():
    row = last(at(0, {0: 9, 2: 9}, (2, 0)))
    assert (row.isr, row.sequence) == ((0, 2), 0)


@pytest.mark.parametrize(
    ("before", "after", "occasion"),
    [
        ((0, 1, 2), (0, 2), "isr"),
        ((0, 2), (0, 1, 2), "isr"),
        ((0, 1), (0, 2), "isr"),
        ((0, 1), (1, 0), "none"),
        (None, (0, 1), "isr"),
        ((0, 1), None, "isr"),
        (None, (), "isr"),
    ],
)
def test_a_change_of_the_isr_is_an_occasion_in_either_direction(before, after, occasion):
    ends = {0: 9, 1: 9, 2: 9}
    assert last(at(0, ends, before), at(1, ends, after)).occasion == occasion


# What is due.


def waiting(time, ends, isr, **more):
    """A mark of 5 that may lie below what is due."""
    return at(NOW + time, ends, isr, observed=5, **{"min_insync_replicas": 1, "lag_time_ms": 30_000, **more})


def test_a_leader_tries_when_a_fetch_comes_from_another_offset_whichever_way():
    for before, after in ((6, 8), (8, 6)):
        row = last(waiting(0, {0: 9, 1: before}, (0, 1)), waiting(1, {0: 9, 1: after}, (0, 1)))
        assert (row.deviation, row.hw_recomputed) == ("stuck", after)


def test_without_a_record_a_fetch_or_a_change_of_the_isr_nothing_is_due():
    same = waiting(0, {0: 9, 1: 8}, (0, 1)), waiting(1, {0: 9, 1: 8}, (0, 1))
    assert last(*same).deviation is None
    # Neither the ISR nor the replica was seen before: nobody knows that either changed.
    assert last(same[0]._replace(isr=None), same[1]).deviation is None
    assert last(unobserved(same[0], 1), same[1]).deviation is None
    for known in ({1: None}, {1: 8}):
        seen = [waiting(time, {0: 9, 1: 8}, (0, 1), known=known if time else {1: None}) for time in (0, 1)]
        assert last(*seen).deviation is None


@pytest.mark.parametrize(
    ("version", "found"), [((2, 6), "stuck"), ((2, 8), None), ((3, 0), "stuck"), ((4, 3), "stuck")]
)
def test_a_change_of_the_isr_makes_the_leader_try_but_not_in_2_7_and_2_8(version, found):
    ends = {0: 9, 1: 8, 2: 8}
    assert last(waiting(0, ends, (0, 1)), waiting(1, ends, (0, 1, 2)), version=version).deviation == found
    assert last(waiting(0, ends, (0, 1, 2)), waiting(1, ends, (0, 1)), version=version).deviation == found


@pytest.mark.parametrize(("version", "found"), [((2, 6), "stuck"), ((2, 7), None), ((2, 8), None), ((3, 0), "stuck")])
def test_who_left_the_isr_may_have_held_the_mark_at_the_last_try_in_2_7_and_2_8(version, found):
    caught_up = {1: 0}
    before = waiting(0, {0: 9, 1: 5}, (0, 1), caught_up=caught_up)
    after = waiting(1, {0: 10, 1: 5}, (0,), caught_up=caught_up)
    assert last(before, after, version=version).deviation == found


def test_what_is_not_known_of_an_outsider_leaves_open_what_is_due():
    known = [waiting(time, {0: 9 + time, 1: 5}, (0,), caught_up={1: 0}) for time in (0, 1)]
    assert last(*known).deviation == "stuck"
    assert last(*(one._replace(min_insync_replicas=None) for one in known)).deviation is None
    assert last(known[0]._replace(min_insync_replicas=None), known[1]).deviation is None
    assert last(known[0], known[1]._replace(min_insync_replicas=None)).deviation is None
    assert last(known[0], unobserved(known[1], 1)).deviation is None
    for unknown in ({"known": {1: None}, "caught_up": {1: 0}}, {"caught_up": {}}):
        seen = [waiting(time, {0: 9 + time, 1: 5}, (0,), **unknown) for time in (0, 1)]
        assert last(*seen).deviation is None, unknown
    # Without a mark or anything due before, nobody knows whether the outsider was far enough to join.
    first = known[0]._replace(replicas=tuple(row._replace(high_watermark=None) for row in known[0].replicas))
    assert last(first, known[1]).deviation is None


@pytest.mark.parametrize(("caught_up", "found"), [(NOW - 30_000, None), (NOW - 30_001, "stuck")])
def test_an_outsider_may_hold_the_mark_while_it_counted_as_caught_up_at_the_observation_before(caught_up, found):
    seen = [waiting(time, {0: 9 + time, 1: 5}, (0,), caught_up={1: caught_up}) for time in (0, 1)]
    assert last(*seen, version=(3, 5)).deviation == found
    # Either observation may give another lag time, or none; the longer one counts.
    for one, lag_time in itertools.product((0, 1), (40_000, None)):
        longer = [each._replace(lag_time_ms=lag_time) if number == one else each for number, each in enumerate(seen)]
        assert last(*longer, version=(3, 5)).deviation is None


@pytest.mark.parametrize(
    ("before", "fetched", "joins"),
    [(4, 5, True), (4, 6, True), (7, 6, True), (None, 6, True), (6, 6, False), (3, 4, False)],
)
def test_an_outsider_whose_fetch_reached_the_mark_may_have_been_about_to_join_since_2_7(before, fetched, joins):
    first = waiting(0, {0: 9, 1: before}, (0,), caught_up={1: 0})
    then = waiting(1, {0: 10, 1: fetched}, (0,), caught_up={1: 0})
    assert last(first, then, version=(2, 6)).hw_recomputed == 10
    assert last(first, then).hw_recomputed == (max(5, fetched) if joins else 10)
    if before is None:
        assert last(unobserved(first, 1), then).hw_recomputed == 6


def test_what_was_due_at_0_is_a_mark_that_an_outsider_did_not_reach():
    def seen(time, end, fetched, mark):
        ends = {0: end, 1: fetched, 2: 0}
        return at(NOW + time, ends, (0, 1), observed=mark, min_insync_replicas=1, caught_up={2: 0}, lag_time_ms=30_000)

    row = last(seen(0, 1, 0, None), seen(1, 2, 0, None), seen(2, 3, 2, 1))
    assert (row.deviation, row.hw_recomputed) == ("stuck", 2)


# Who holds it for too long.


def held(time, end, **more):
    """A mark of 20 below the leader's end, with a replica that may hold it for 15 s."""
    return at(NOW + time, {0: 30 + time, 1: end}, (0, 1), observed=20, lag_time_ms=10_000, **more)


@pytest.mark.parametrize("end", [12, 20])
def test_a_member_at_or_below_the_mark_holds_it(end):
    found = [last(held(0, end), held(time, end)) for time in (15_000, 15_001)]
    assert [row.deviation for row in found] == [None, "stuck"]
    assert found[1].limiting_broker_id == 1 and found[1].lasting and found[1].waiting_since_ms == NOW


@pytest.mark.parametrize(("since", "found"), [(20_000, "stuck"), (15_001, "stuck"), (15_000, None), (9_000, None)])
def test_a_member_that_caught_up_within_the_time_to_hold_is_not_accused(since, found):
    time = 15_001
    assert last(held(0, 20), held(time, 20, caught_up={1: NOW + time - since})).deviation == found


def test_who_is_past_the_mark_or_outside_the_isr_or_not_known_does_not_hold_it():
    assert last(held(0, 20), held(15_001, 20)).is_held
    outside = [held(time, 20)._replace(isr=(0,)) for time in (0, 15_001)]
    unknown = [held(time, 20, known={1: None}) for time in (0, 15_001)]
    without_isr = [held(time, 20)._replace(isr=None) for time in (0, 15_001)]
    past = [held(0, 20), held(15_001, 21)]
    for seen in (outside, unknown, without_isr, past):
        assert not last(*seen).is_held


def test_who_was_not_seen_to_hold_the_mark_from_the_beginning_is_not_accused():
    assert last(unobserved(held(0, 20), 1), held(15_001, 20)).deviation is None
    assert last(held(0, 20), unobserved(held(1, 20), 1), held(15_001, 20)).deviation is None


def test_the_time_of_waiting_begins_again_when_the_mark_moves_either_way_and_goes_on_unobserved():
    def seen(time, mark):
        return at(NOW + time, {0: 30, 1: 25}, (0, 1), known={1: None}, observed=mark)

    for mark in (19, 21):
        assert [row.waiting_since_ms for row in rows(seen(0, 20), seen(1, 20), seen(2, mark))] == [NOW, NOW, NOW + 2]
    assert [row.waiting_since_ms for row in rows(seen(0, 20), seen(1, None), seen(2, 20))] == [NOW, None, NOW + 2]


# What bounds it.


def test_of_several_replicas_the_slowest_member_bounds_the_mark_wherever_its_row_is():
    for ends, isr in (({0: 9, 1: 2, 2: 9, 3: 7}, (0, 2, 3)), ({0: 9, 1: 7, 2: 2, 3: 9}, (0, 1, 3))):
        first, then = (at(time, ends, isr, observed=mark) for time, mark in ((0, 5), (1, 9)))
        row = last(first, then)
        assert (row.deviation, row.hw_recomputed) == ("ahead", 7)


def test_a_replica_of_which_nothing_is_known_or_that_went_back_takes_no_bound_from_the_next():
    first, unknown = (
        at(time, {0: 9, 1: 8, 2: 7}, (0, 1, 2), observed=mark, known={1: None}) for time, mark in ((0, 5), (1, 9))
    )
    assert last(first, unknown).hw_recomputed == 7
    back = at(1, {0: 9, 1: 6, 2: 7}, (0, 1, 2), observed=9)
    assert last(first._replace(replicas=at(0, {0: 9, 1: 8, 2: 7}, (), observed=5).replicas), back).hw_recomputed == 7


@pytest.mark.parametrize("minimum", [-1, 0, 1])
def test_a_minimum_below_2_needs_nobody_beside_the_leader(minimum):
    seen = [at(time, {0: 9, 1: 3}, (0,), observed=mark, min_insync_replicas=minimum) for time, mark in ((0, 5), (1, 9))]
    assert last(*seen).deviation is None


def test_a_member_that_was_not_seen_before_bounds_the_mark():
    first, then = at(0, {0: 9}, (0,), observed=5), at(1, {0: 9, 1: 7}, (0, 1), observed=9)
    row = last(first, then)
    assert (row.deviation, row.hw_recomputed) == ("ahead", 7)


@pytest.mark.parametrize(
    ("before", "after"), [((8, 8), (7, 8)), ((8, 8), (7, None)), ((7, 8), (7, 7)), ((None, 8), (7, 7))]
)
def test_a_replica_that_went_back_by_its_own_end_or_by_what_its_leader_knows_bounds_nothing(before, after):
    def seen(time, mark, ends):
        replicas = ReplicaProgress(0, None, 9, None, mark), ReplicaProgress(1, ends[0], ends[1])
        return Observation(time, 0, 0, (0, 1), replicas)

    assert last(seen(0, 5, before), seen(1, 9, after)).deviation is None
    assert last(seen(0, 5, after), seen(1, 9, after)).deviation == "ahead"


@pytest.mark.parametrize(("lag", "found"), [(30_000, "ahead"), (30_001, None)])
def test_an_outsider_that_counted_as_caught_up_all_the_time_bounds_the_mark_before_3_6(lag, found):
    settings = {"caught_up": {1: NOW + 1 - lag}, "lag_time_ms": 30_000}
    first = at(NOW, {0: 9, 1: 7}, (0,), observed=5, **settings)
    then = at(NOW + 1, {0: 9, 1: 7}, (0,), observed=9, **settings)
    assert last(first, then, version=(3, 5)).deviation == found
    for one in (0, 1):
        unknown = [
            each._replace(lag_time_ms=None) if one == number else each for number, each in enumerate((first, then))
        ]
        assert last(*unknown, version=(3, 5)).deviation is None


def test_what_every_member_has_bounds_the_mark_of_before_where_the_leaders_view_is_unknown():
    def seen(time, mark, ends, isr=(0, 1, 2), known=None):
        return at(time, {0: 20, **ends}, isr, observed=mark, known=known or dict.fromkeys(ends))

    first, then = seen(0, 5, {1: 8, 2: 9}), seen(1, 12, {1: 8, 2: 9})
    after = seen(2, 12, {1: 10, 2: 9})
    assert [(row.deviation, row.hw_recomputed) for row in rows(first, then, after)] == [
        (None, 5),
        (None, 12),
        ("ahead", 9),
    ]
    for reached in (9, 10):
        seen_at = [first, seen(1, reached, {1: 8, 2: 9}), seen(2, reached, {1: 10, 2: 9})]
        assert last(*seen_at).deviation == ("ahead" if reached > 9 else None)
    assert last(first, seen(1, 9, {1: 8, 2: 9}), after).deviation is None, "it moved since it was read"
    unseen = seen(2, 12, {1: None, 2: 9})
    assert last(first, then, unseen).hw_recomputed == 9
    assert last(first, then, seen(2, 12, {1: 7, 2: 13})).deviation is None, "a member that went back"
    # Of those outside the ISR, and without an ISR of all, nothing follows.
    assert [row.deviation for row in rows(*(one._replace(isr=(0,)) for one in (first, then, after)))] == [None] * 3
    assert [row.deviation for row in rows(*(one._replace(isr=None) for one in (first, then, after)))] == [None] * 3
    one_outside = [one._replace(isr=(0, 2)) for one in (first, then, seen(2, 12, {1: 3, 2: 13}))]
    assert [row.deviation for row in rows(*one_outside)] == [None] * 3
    # What the leader knows of a member bounds by itself, and takes nothing from the others.
    known = [seen(number, mark, {1: 20, 2: 9}, known={1: 20, 2: None}) for number, mark in ((0, 5), (1, 12), (2, 12))]
    assert last(*known).deviation == "ahead"
