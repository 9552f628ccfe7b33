"""Elections out of histories: who, when, clean or not."""

from __future__ import annotations

import pytest
from tests.support.histories import history

from replica_audit.protocol.election import CleanElections, elections, first_known_epoch, last_led


@pytest.mark.parametrize(
    ("changes", "clean", "from_last_known"),
    [
        ([{"leader_id": 2, "isr": (2, 3)}], True, False),
        ([{"isr": (1,)}, {"leader_id": 2, "isr": (2,), "recovering": True}], False, False),
        ([{"leader_id": None, "isr": (), "elr": (1, 2)}, {"leader_id": 2, "isr": (2,), "elr": (1,)}], True, False),
        ([{"leader_id": None, "isr": (), "elr": (1,)}, {"leader_id": 2, "isr": (2,), "elr": ()}], False, False),
        (
            [{"leader_id": None, "isr": (), "last_known_elr": (1,)}, {"leader_id": 1, "isr": (1,), "recovering": True}],
            False,
            True,
        ),
        # Without eligible leader replicas the last in-sync replica stays in the ISR and comes back cleanly.
        ([{"leader_id": None, "isr": (1,)}, {"leader_id": 1}], True, False),
        # The recovery state is the controller's own word.
        ([{"leader_id": 2, "isr": (2,), "recovering": True}], False, False),
        (
            [{"isr": (1,)}, {"recovering": True, "occasion": "changed"}, {"leader_id": 1}, {"leader_id": 2}],
            False,
            False,
        ),
    ],
)
def test_clean_is_who_was_in_sync_or_eligible(changes, clean, from_last_known):
    (one,) = elections(history(*changes))
    assert (one.clean, one.from_last_known) == (clean, from_last_known)


@pytest.mark.parametrize(
    ("begun", "ended", "clean"),
    [
        # The leader has 4 join the ISR, which ends the reassignment and removes the leader: one record does it all (4.3.1).
        ({"replicas": (4, 2, 1), "adding": (4,), "removing": (1, 3)}, {"replicas": (4, 2), "isr": (4, 2)}, True),
        ({"replicas": (4, 1, 2, 3), "adding": (4,), "removing": (1, 2, 3)}, {"replicas": (4,), "isr": (4,)}, True),
        # Nothing is added: 4 comes back into the ISR, and the others are removed.
        ({"isr": (1, 2), "replicas": (4, 1, 2), "removing": (1, 2)}, {"replicas": (4,), "isr": (4,)}, True),
        # Elected uncleanly by the controller's own word.
        (
            {"replicas": (4, 2, 1), "adding": (4,), "removing": (1, 3)},
            {"replicas": (4, 2), "isr": (4,), "recovering": True},
            False,
        ),
        # It goes on, or was given up.
        (
            {"replicas": (4, 2, 1), "adding": (4,), "removing": (1,)},
            {"isr": (4,), "adding": (4,), "removing": (1,)},
            False,
        ),
        ({"isr": (2,), "replicas": (4, 2, 1), "adding": (4,)}, {"isr": (4,), "adding": (4,)}, False),
        (
            {"isr": (2,), "replicas": (4, 2, 1), "adding": (4,), "removing": (1,)},
            {"replicas": (4, 1), "isr": (4,)},
            False,
        ),
    ],
)
def test_the_end_of_a_reassignment_elects_who_joins_the_isr_with_it(begun, ended, clean):
    states = history(begun, {"leader_id": 4, "adding": (), "removing": (), **ended})
    assert [one.clean for one in elections(states)] == [clean]


@pytest.mark.parametrize(
    ("leaderless", "came_back"),
    [
        ({"isr": (1,)}, True),
        ({"isr": (1,), "leader_stopped": True}, False),
        ({"isr": (), "elr": (1,)}, False),
        ({"isr": (), "last_known_elr": (1,)}, False),
    ],
)
def test_a_sole_in_sync_replica_comes_back_from_a_crash_unless_it_was_stopped(leaderless, came_back):
    (one,) = elections(
        history({"isr": (1,)}, {"leader_id": None, **leaderless}, {"leader_id": 1, "leader_stopped": False})
    )
    assert one.came_back is came_back


def test_nobody_comes_back_where_no_leader_before_or_no_epoch_of_its_own_shows_that_there_was_none():
    led, none, again = history({"leader_id": None, "isr": (1,)}, {"leader_id": 1})
    assert [(one.came_back, one.had_all) for one in elections((led, none, again))] == [(True, (1, 2, 3))]
    assert [(one.came_back, one.had_all) for one in elections((none, again))] == [(False, ())]
    same_epoch = none._replace(leader_epoch=led.leader_epoch)
    assert [one.came_back for one in elections((led, same_epoch, again))] == [False]


def test_an_election_says_who_led_before_and_who_was_in_sync():
    (one,) = elections(
        history({"isr": (1, 2)}, {"leader_id": None, "isr": (), "elr": (2,)}, {"leader_id": 2, "isr": (2,), "elr": ()})
    )
    assert (one.leader_epoch, one.leader_id, one.time_ms, one.metadata_offset) == (2, 2, 1003, 13)
    assert (one.previous_leader_id, one.previous_isr, one.previous_elr) == (1, (), (2,))


def test_what_is_no_election():
    assert not elections(())
    assert not elections(history())
    assert not elections(history({"isr": (1,)}, {"leader_id": 1}, {"leader_id": None, "isr": ()}))
    assert not elections(history({"leader_id": 2, "isr": (2,), "uncommitted": True}))


def test_what_a_history_reaches_back_to():
    assert first_known_epoch(()) is None
    assert first_known_epoch(history()) == -1
    late = history({"leader_id": 2}, {"leader_id": 3})[1:]
    assert first_known_epoch(late) == 1
    assert [one.leader_epoch for one in elections(late)] == [2]


def test_the_last_leader():
    states = history(
        {"isr": (1, 2)},
        {"leader_id": 1, "isr": (1,)},
        {"leader_id": None, "isr": ()},
        {"leader_id": 3, "isr": (3,), "uncommitted": True},
    )
    assert last_led(states) == states[2]
    assert last_led(()) is None


def test_a_history_that_begins_with_a_snapshot_knows_the_elections_after_it():
    states = history(
        {"leader_id": 2}, {"leader_id": 3, "isr": (1, 2)}, {"leader_id": 1, "isr": (1,), "occasion": "changed"}
    )
    since = (states[1]._replace(occasion="snapshot"), *states[2:])
    assert first_known_epoch(since) == 1
    assert first_known_epoch(states) == -1, "the first state counts, not the last"


def test_clean_elections_are_known_between_epochs():
    # 1 clean; 2 unclean; 3 clean; 4 unclean.
    states = history(
        {"leader_id": 2, "isr": (2,)},
        {"leader_id": 3, "isr": (1, 3)},
        {"leader_id": 1, "isr": (1,)},
        {"leader_id": 2, "isr": (2,)},
    )
    clean = CleanElections.of(states)
    assert (clean.known_from, clean.unclean_epochs) == (-1, (2, 4))
    assert clean.between(-1, 1) and clean.between(0, 1) and clean.between(2, 3)
    assert not clean.between(0, 2) and not clean.between(1, 2) and not clean.between(1, 3) and not clean.between(3, 4)
    assert clean.between(4, 9)


def test_what_was_before_the_history_is_not_known_to_be_clean():
    late = CleanElections(3, ())
    assert late.between(3, 5) and late.between(4, 5)
    assert not late.between(2, 5)
    assert not CleanElections(None, ()).between(0, 1)
