"""Copies of the metadata log that contradict each other: which can be right, whoever agrees on them (META-FORK, R1 to R7)."""

from __future__ import annotations

from tests.support import metadata_log as write
from tests.support.controllers import (
    APPLIED,
    BEGIN,
    LATE,
    LATE_ID,
    TIME_MS,
    TOPIC_ID,
    VOTERS,
    discovered,
    elected,
    moved,
    with_snapshot,
)
from tests.support.snapshots import Replica

from replica_audit.snapshot.inventory import Inventory


def reason(inventory: Inventory, node: int | None = None) -> str:
    """Reason for the reported fork, for the copy of `node`."""
    (row,) = inventory.quarantine
    assert row.code == "META-FORK" and node in (None, row.broker_id), row
    return row.reason


SEEDED_ELECTION = elected(3, 101, 2) + moved(4, 1, 2)


def test_voters_that_were_seeded_from_one_stale_disk_lack_what_brokers_applied(tmp_path):
    """They agree, are all voters, and have the later epoch."""
    seeded = BEGIN + SEEDED_ELECTION
    logs = {**dict.fromkeys(VOTERS, seeded), 1: BEGIN + LATE, 2: BEGIN + LATE}
    found = discovered(tmp_path, logs, {2: APPLIED})
    told = reason(found, 1)
    assert (
        f"The log of nodes 100, 101 and 102 cannot be the right one: it does not know topic late (id {LATE_ID}), which"
        in told
    )
    assert "Only the log of nodes 1 and 2 lacks nothing that is known here. Before voters start with" in told
    assert sorted(one.topic for one in found.leaderships) == ["late", "t"], "leadership is by the log that is left"


def test_of_three_voters_the_one_that_has_all_is_kept_though_two_agree_on_less(tmp_path):
    """Their new epoch is later than that of the survivor, which was down meanwhile and would cut itself."""
    seeded = BEGIN + SEEDED_ELECTION
    logs = {100: BEGIN + LATE, 101: seeded, 102: seeded, 2: BEGIN + LATE}
    found = discovered(tmp_path, logs, {2: APPLIED})
    assert "Only the log of nodes 2 and 100 lacks nothing that is known here." in reason(found, 2)
    assert sorted(one.topic for one in found.leaderships) == ["late", "t"]


def test_a_history_that_goes_on_with_another_is_no_way_out(tmp_path):
    """Brokers kept their old history below the new one's end, and followed from there: no log is right."""
    old = BEGIN + LATE + elected(5, 101, 2)
    new = BEGIN + elected(3, 101, 2) + moved(4, 1, 2) + moved(5, 2, 2)
    shared = moved(6, 1, 2) + moved(7, 2, 2)
    logs = {**dict.fromkeys(VOTERS, new + shared), 1: old + shared, 2: old + shared}
    told = reason(discovered(tmp_path, logs, {2: APPLIED}), 100)
    assert "The log of nodes 1 and 2 cannot be the right one: it is spliced from two histories: offsets 3 to 5" in told
    assert "The log of nodes 100, 101 and 102 cannot be the right one: it does not know topic late" in told
    assert told.endswith("So no copy here is right as it is.")
    assert "majority's history" not in told


def test_a_controller_that_began_alone_holds_its_own_beginning(tmp_path):
    """Its time goes back where the cluster's records follow, though it was elected in the same epoch as the old leader."""
    whole = BEGIN + moved(3) + elected(4, 101, 2, TIME_MS + 10)
    alone = write.leader_change(0, 102, (102,), time_ms=TIME_MS + 60_000) + BEGIN[len(elected(0, 100, 1)) :]
    spliced = alone + moved(3) + elected(4, 101, 2, TIME_MS + 10)
    told = reason(discovered(tmp_path, {100: whole, 101: whole, 102: spliced, 1: whole}), 102)
    assert "The log of node 102 cannot be the right one: it is spliced from two histories: offsets 0 to 0" in told
    assert told.endswith("Only the log of nodes 1, 100 and 101 lacks nothing that is known here.")


def test_where_nothing_tells_which_of_two_logs_is_spliced_neither_counts(tmp_path):
    one, other = (BEGIN + moved(3, leader) + moved(4, 1) for leader in (1, 2))
    told = reason(discovered(tmp_path, {1: one, 2: other}))
    assert told.count("one of the two is spliced from two histories") == 2
    assert told.endswith("So no copy here is right as it is.")


def test_a_snapshot_was_taken_of_committed_records_only(tmp_path):
    old, new = BEGIN + moved(3), BEGIN + elected(3, 101, 2)
    told = reason(discovered(tmp_path, {100: with_snapshot(old, 4, 1), 101: new, 102: new}), 100)
    assert "The log of nodes 101 and 102 cannot be the right one: it parts at offset 3 from what" in told
    assert "Only the log of node 100 lacks nothing that is known here." in told


def test_epochs_order_what_is_left_unless_one_begins_twice(tmp_path):
    old, new = BEGIN + elected(3, 101, 2) + moved(4, 2, 2), BEGIN + elected(3, 100, 3)
    ordered = reason(discovered(tmp_path / "ordered", {100: new, 101: old, 102: old}))
    assert "may be the right one; the last epoch and end are the greatest on node 100." in ordered
    twice = BEGIN + moved(3, 2) + elected(4, 100, 2), BEGIN + elected(3, 101, 2) + moved(4, 1, 2)
    told = reason(discovered(tmp_path / "twice", {100: twice[0], 101: twice[1], 102: twice[1]}))
    assert "controller epoch 2 begins at two offsets, so that a later epoch or end proves nothing" in told


def test_a_leader_epoch_that_a_broker_has_was_given_out(tmp_path):
    lost = BEGIN + elected(3, 101, 2)
    whole = BEGIN + moved(3) + moved(4, 1)
    replica = Replica(epochs=((0, 0), (2, 10)), topic="t", topic_id=TOPIC_ID)
    logs = {100: with_snapshot(whole, 5, 1), 101: lost, 102: lost}
    told = reason(discovered(tmp_path, logs, {2: replica}), 100)
    assert "it does not know leader epoch 2 of t-0, which node 2 applied" in told


def test_the_directory_of_a_deleted_topic_accuses_no_log(tmp_path):
    whole = BEGIN + LATE + write.batch(5, [write.remove_topic(LATE_ID)])
    other = whole + moved(6), whole + elected(6, 101, 2)
    logs = {100: with_snapshot(other[0], 7, 1), 101: other[1], 102: other[1]}
    told = reason(discovered(tmp_path, logs, {2: APPLIED}))
    assert "late" not in told


def test_the_tail_of_a_leader_that_was_cut_off_is_no_fork(tmp_path):
    logs = {100: BEGIN + LATE, 101: BEGIN + elected(3, 101, 2), 102: BEGIN + elected(3, 101, 2)}
    assert not discovered(tmp_path, logs).quarantine
