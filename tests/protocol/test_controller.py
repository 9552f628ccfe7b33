"""Whom the controller elects as brokers stop and start: what was tried on real brokers (docs/semantics.md, H)."""

from __future__ import annotations

import pytest

from replica_audit.protocol.controller import (
    NextLeader,
    Registration,
    catch_up,
    elect,
    next_leader,
    prefer,
    start_broker,
    stop_broker,
)

LED = Registration((0, 1, 2), 1, 5, frozenset({1, 2}))
LEADERLESS = LED._replace(leader_id=None, isr=frozenset({1}))


def test_an_unclean_election_changes_nothing_while_there_is_a_leader() -> None:
    assert elect(LED, {0, 1, 2}, unclean=True) == LED


def test_without_a_leader_the_first_live_one_in_the_assignment_is_elected() -> None:
    assert next_leader(LEADERLESS, {2, 0}, unclean=True) == NextLeader(0, "unclean")
    assert next_leader(LEADERLESS, {2}, unclean=True) == NextLeader(2, "unclean")
    dead_eligible = LEADERLESS._replace(isr=frozenset(), elr=frozenset({1}), has_elr=True)
    assert elect(dead_eligible, {0, 2}, unclean=True).leader_id == 0
    led = elect(LEADERLESS, {2}, unclean=True)
    assert (led.leader_id, led.leader_epoch, led.isr) == (2, 6, frozenset({2}))


def test_without_a_leader_a_preferred_election_does_nothing() -> None:
    assert prefer(LEADERLESS, {0, 1, 2}) == LEADERLESS


def test_a_preferred_election_moves_to_the_first_in_sync_only() -> None:
    assert prefer(LED._replace(replicas=(2, 1, 0)), {0, 1, 2}).leader_id == 2
    assert prefer(LED, {0, 1, 2}) == LED


@pytest.mark.parametrize(("allowed", "leader"), [(True, 0), (False, None)])
def test_where_unclean_elections_are_allowed_whoever_returns_first_leads(allowed: bool, leader: int | None) -> None:
    down = LEADERLESS._replace(unclean=allowed)
    assert start_broker(down, 0, {0}, clean=True).leader_id == leader


def test_the_last_known_leader_is_elected_when_nobody_is_in_sync_or_eligible() -> None:
    lost = LEADERLESS._replace(isr=frozenset(), last_known=(1,), has_elr=True)
    assert next_leader(lost, {0, 1}, unclean=False) == NextLeader(1, "last_known")
    assert next_leader(lost, {0, 2}, unclean=False) is None
    assert next_leader(lost._replace(elr=frozenset({2})), {0, 1}, unclean=True) == NextLeader(0, "unclean")
    assert next_leader(lost._replace(last_known=(1, 2)), {0, 1}, unclean=False) is None
    assert next_leader(lost._replace(has_elr=False), {1}, unclean=False) is None
    led = elect(lost, {1})
    assert (led.isr, led.elr, led.last_known) == (frozenset({1}), frozenset(), ())


def test_a_last_leader_that_stopped_cleanly_is_eligible_and_leads_again() -> None:
    alone = LED._replace(isr=frozenset({1}), has_elr=True)
    down = stop_broker(alone, 1, set())
    assert (down.leader_id, down.isr, down.elr, down.last_known) == (None, frozenset(), frozenset({1}), (1,))
    back = start_broker(down, 1, {0, 1}, clean=True)
    assert (back.leader_id, back.isr, back.elr) == (1, frozenset({1}), frozenset())
    assert start_broker(down, 0, {0}, clean=True).leader_id is None


def test_one_that_was_killed_is_not_eligible_when_it_returns() -> None:
    down = stop_broker(LED._replace(isr=frozenset({1}), has_elr=True), 1, set())
    assert next_leader(start_broker(down, 1, {1}, clean=False), {1}, unclean=False) is not None
    both = down._replace(elr=frozenset({0, 1}))
    back = start_broker(both, 1, {1}, clean=False)
    assert (back.leader_id, back.elr) == (None, frozenset({0}))


def test_without_eligible_replicas_the_last_in_sync_stays_so() -> None:
    down = stop_broker(LED._replace(isr=frozenset({1})), 1, {0})
    assert (down.leader_id, down.isr) == (None, frozenset({1}))
    assert start_broker(down, 1, {0, 1}, clean=False).leader_id == 1


def test_a_leader_that_stops_is_followed_by_the_next_in_sync() -> None:
    after = stop_broker(LED, 1, {0, 2})
    assert (after.leader_id, after.leader_epoch, after.isr) == (2, 6, frozenset({2}))


def test_below_min_isr_those_that_leave_are_eligible_until_enough_are_back() -> None:
    led = LED._replace(isr=frozenset({0, 1}), min_isr=2, has_elr=True)
    left = stop_broker(led, 0, {1, 2})
    assert (left.leader_id, left.isr, left.elr) == (1, frozenset({1}), frozenset({0}))
    assert catch_up(left, {1, 2}).elr == frozenset()
    assert catch_up(stop_broker(left, 1, {2}), {2}).isr == frozenset()


def test_every_change_of_leader_also_to_none_is_one_epoch_more() -> None:
    alone = LED._replace(isr=frozenset({1}))
    assert stop_broker(alone, 1, {0}).leader_epoch == 6
    assert prefer(LED._replace(replicas=(2, 1, 0)), {0, 1, 2}).leader_epoch == 6
    assert stop_broker(LED, 2, {0, 1}).leader_epoch == 5, "the leader stays"


def test_of_several_eligible_ones_those_that_are_not_elected_stay_eligible() -> None:
    led = elect(LEADERLESS._replace(isr=frozenset(), elr=frozenset({1, 2}), has_elr=True), {0, 2})
    assert (led.leader_id, led.isr, led.elr) == (2, frozenset({2}), frozenset({1}))


def test_after_an_unclean_election_nobody_is_eligible() -> None:
    led = elect(LEADERLESS._replace(isr=frozenset(), elr=frozenset({1}), has_elr=True), {0, 2}, unclean=True)
    assert (led.leader_id, led.isr, led.elr) == (0, frozenset({0}), frozenset())


def test_without_anybody_known_nobody_is_elected() -> None:
    assert next_leader(LEADERLESS._replace(isr=frozenset(), has_elr=True), {0, 1, 2}, unclean=False) is None


@pytest.mark.parametrize(
    ("right", "clean"), [("stays", True), ("isr", True), ("elr", True), ("last_known", False), ("unclean", False)]
)
def test_elections_of_those_that_are_entitled_are_clean(right: str, clean: bool) -> None:
    assert NextLeader(1, right).clean is clean


@pytest.mark.parametrize(
    ("isr", "min_isr", "has_elr"),
    [
        # As many as the minimum are left, and more.
        ({0, 1, 2}, 2, True),
        ({0, 1, 2}, 1, True),
        # Too few, but without eligible leader replicas.
        ({0, 1}, 2, False),
    ],
)
def test_who_leaves_an_isr_that_is_large_enough_is_not_eligible(isr: set[int], min_isr: int, has_elr: bool) -> None:
    led = LED._replace(isr=frozenset(isr), min_isr=min_isr, has_elr=has_elr)
    after = stop_broker(led, 0, {1, 2})
    assert (after.leader_id, after.elr) == (1, frozenset())


def test_a_minimum_that_is_not_given_is_one() -> None:
    assert stop_broker(LED._replace(has_elr=True), 2, {0, 1}).elr == frozenset()


def test_the_last_leader_is_noted_only_when_the_isr_becomes_empty() -> None:
    left = stop_broker(LED._replace(has_elr=True), 1, {0})
    assert (left.leader_id, left.isr, left.last_known) == (None, frozenset({2}), ())
    before = LEADERLESS._replace(last_known=(2,), has_elr=True)
    assert stop_broker(before, 1, set()).last_known == (2,)


def test_of_those_alive_only_replicas_catch_up_and_with_enough_of_them_nobody_is_eligible() -> None:
    led = Registration((0, 1, 2, 3), 1, 5, frozenset({1}), frozenset({0}), min_isr=2, has_elr=True)
    back = catch_up(led, {1, 2, 3, 7})
    assert (back.isr, back.elr) == (frozenset({1, 2, 3}), frozenset())
    assert catch_up(led._replace(min_isr=4), {1, 2, 3}).elr == frozenset({0})


def test_a_reassignment_ends_when_all_that_it_adds_is_in_sync_and_what_it_removes_is_gone() -> None:
    moving = Registration((1, 2, 0), 1, 5, frozenset({0, 1}), adding=frozenset({2}), removing=frozenset({0}))
    assert catch_up(moving, {0, 1}).replicas == (1, 2, 0)
    ended = catch_up(moving, {0, 1, 2})
    assert (ended.replicas, ended.isr, ended.leader_id) == ((1, 2), frozenset({1, 2}), 1)
    assert not ended.adding and not ended.removing
    grown = catch_up(moving._replace(removing=frozenset()), {0, 1, 2})
    assert (grown.replicas, grown.isr, grown.adding) == ((1, 2, 0), frozenset({0, 1, 2}), frozenset())


def test_a_leader_that_a_reassignment_removes_is_followed_by_one_in_sync() -> None:
    moving = Registration((1, 2, 0), 0, 5, frozenset({0}), adding=frozenset({1, 2}), removing=frozenset({0}))
    ended = catch_up(moving, {0, 1, 2})
    assert (ended.replicas, ended.leader_id, ended.leader_epoch) == ((1, 2), 1, 6)
    # With nobody else in sync it goes on.
    only = Registration((1, 0), 0, 5, frozenset({0}), removing=frozenset({0}))
    assert catch_up(only, {0}) == only


def test_whoever_has_the_partition_on_a_log_dir_that_is_offline_is_passed_over_until_the_broker_starts_with_it() -> (
    None
):
    alone = LEADERLESS._replace(offline=frozenset({1}))
    assert next_leader(alone, {0, 1, 2}, unclean=False) is None
    assert next_leader(LEADERLESS._replace(offline=frozenset({0})), {0, 2}, unclean=True) == NextLeader(2, "unclean")
    assert start_broker(alone, 2, {1, 2}, clean=True).leader_id is None
    assert start_broker(alone, 1, {1, 2}, clean=True).leader_id == 1
    lost = LEADERLESS._replace(isr=frozenset(), last_known=(1,), has_elr=True, offline=frozenset({1}))
    assert next_leader(lost, {1}, unclean=False) is None


def test_on_a_log_dir_that_is_offline_nobody_catches_up_or_is_preferred() -> None:
    led = LED._replace(isr=frozenset({1}), offline=frozenset({2}))
    assert catch_up(led, {0, 1, 2}).isr == {0, 1}
    assert prefer(LED._replace(replicas=(2, 1, 0), offline=frozenset({2})), {0, 1, 2}).leader_id == 1
