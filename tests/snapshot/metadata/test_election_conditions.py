"""The next election of a quorum: epochs that its voters forgot (R4), and voters that were formatted anew (KIP-853)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.support import metadata_log as write
from tests.support.controllers import APPLIED, BEGIN, LATE, TIME_MS, TOPIC_ID, discovered, elected, moved
from tests.support.snapshots import make_uuid

from replica_audit.snapshot.inventory import Inventory

OLD = {node: make_uuid(f"directory of {node}") for node in (100, 101, 102)}
NEW = {node: make_uuid(f"new directory of {node}") for node in (100, 101, 102)}
DYNAMIC = (
    write.leader_change(0, 100, tuple(OLD))
    + write.voters_record(1, OLD)
    + write.batch(2, write.new_topic("t", TOPIC_ID, (1, 2), 1))
)
#: Records 4 and 5, of which `APPLIED` is proof.
APPLIED_LATER = write.batch(4, write.new_topic("late", APPLIED.topic_id, (1, 2), 2))


def at_rest(
    path: Path,
    logs: Mapping[int, bytes],
    directories: Mapping[int, str] | None = None,
    epochs: Mapping[int, int] | None = None,
) -> Inventory:
    """Directories and last seen epochs are those of nodes. All are stopped; broker 2 has a directory of topic late."""
    directories, epochs = directories or {}, epochs or {}
    copies = {
        node: write.MetadataLog({0: content}, directory_id=directories.get(node), leader_epoch=epochs.get(node))
        for node, content in logs.items()
    }
    return discovered(path, copies, {2: APPLIED}, clean=[2])


def told(inventory: Inventory, code: str) -> str:
    return " ".join(row.reason for row in inventory.quarantine if row.code == code)


@pytest.mark.parametrize("voted", [1, 2, 7])
def test_seeds_have_to_begin_above_every_epoch_that_a_node_has_seen(tmp_path, voted):
    """The right log ends in epoch 1. Seeded with it alone, voters count on from there; brokers saw the epoch `voted`."""
    seeded = BEGIN + elected(3, 101, 2) + moved(4, 1, 2)
    logs = {100: seeded, 101: seeded, 102: seeded, 2: BEGIN + LATE}
    reason = told(at_rest(tmp_path, logs, epochs={2: voted}), "META-FORK")
    least, nodes = max(voted, 2), "node 2 reached" if voted > 2 else "reached"
    assert f"ends in controller epoch 1, set leaderEpoch in their quorum-state to {least} or more" in reason
    assert nodes in reason


def test_nothing_is_said_of_epochs_where_the_right_log_ends_in_the_last_one(tmp_path):
    seeded = BEGIN + elected(3, 101, 2) + moved(4, 1, 2)
    whole = BEGIN + LATE + elected(5, 100, 3)
    reason = told(at_rest(tmp_path, {100: whole, 101: seeded, 102: seeded, 2: whole}, epochs={2: 3}), "META-FORK")
    assert "Only the log of nodes 2 and 100" in reason and "leaderEpoch" not in reason


@pytest.mark.parametrize(
    ("epoch", "later_ms", "forgot"),
    [(2, 60_000, True), (1, 60_000, True), (3, 60_000, False), (2, 0, False), (2, 1_000, False)],
)
def test_an_election_in_an_epoch_that_was_reached_before_shows_a_lost_quorum_state(tmp_path, epoch, later_ms, forgot):
    """Not one in a later epoch, and not within what clocks differ by."""
    old = BEGIN + elected(3, 100, 2) + moved(4, 2, 2)
    new = BEGIN + elected(3, 101, epoch, TIME_MS + later_ms) + moved(4, 1, epoch, TIME_MS + later_ms)
    reason = told(at_rest(tmp_path, {100: old, 1: old, 101: new, 102: new}), "META-FORK")
    lost = f"In the log of nodes 101 and 102, node 101 was elected in controller epoch {epoch} at"
    assert (lost in reason) == forgot, reason
    assert "In the log of nodes 1 and 100" not in reason, "the earlier election forgot nothing"


def test_of_two_logs_the_one_whose_voters_forgot_nothing_comes_first(tmp_path):
    """Whatever their last epochs and ends: the forgetful one goes on to epoch 9 here."""
    late = TIME_MS + 60_000
    old = BEGIN + moved(3, 2) + elected(4, 100, 4)
    new = BEGIN + moved(3, 1) + elected(4, 101, 2, late) + elected(5, 101, 9, late)
    (row,) = discovered(tmp_path, {100: old, 101: new, 102: new}).quarantine
    assert "that of node 100 comes first, since an epoch that follows a lost quorum-state proves nothing" in row.reason


@pytest.mark.parametrize("replaced", [(), (102,), (101, 102), (100, 101, 102)])
def test_voters_that_were_formatted_anew_do_not_vote(tmp_path, replaced):
    """They hold less than the brokers applied; with their old directories they would elect that."""
    directories = {node: (NEW if node in replaced else OLD)[node] for node in OLD}
    whole = DYNAMIC + APPLIED_LATER
    logs = {**dict.fromkeys(OLD, DYNAMIC), 2: whole}
    reason = told(at_rest(tmp_path, logs, directories), "META-STALE")
    assert "committed at least to 6" in reason, "as controllers that lack it they are stale all the same"
    assert all((f"{node} votes from {OLD[node]}, and has {NEW[node]}" in reason) == (node in replaced) for node in OLD)
    assert ("no majority can elect a leader as it is" in reason) == (len(replaced) > 1)
    assert ("remove-controller, then add-controller" in reason) == (len(replaced) == 1)


def test_a_replaced_voter_whose_new_directory_was_added_votes(tmp_path):
    added = write.voters_record(4, {**OLD, 102: NEW[102]})
    added += write.batch(5, write.new_topic("late", APPLIED.topic_id, (1, 2), 2))
    found = at_rest(tmp_path, dict.fromkeys(OLD, DYNAMIC + added), {**OLD, 102: NEW[102]})
    assert not found.quarantine


def test_an_election_later_in_the_log_takes_no_directory_away(tmp_path):
    """A LeaderChangeMessage names voters by id alone."""
    later = write.leader_change(4, 100, tuple(OLD), epoch=2)
    tail = write.batch(5, [write.change(TOPIC_ID, leader=2)], epoch=2)
    logs = {100: DYNAMIC + later + tail, 101: DYNAMIC + later, 102: DYNAMIC + later + tail}
    (one,) = at_rest(tmp_path / "votes", logs, OLD).leaderships
    assert not one.history[-1].uncommitted, "two of three hold it"
    (one,) = at_rest(tmp_path / "replaced", {**logs, 102: DYNAMIC + later}, OLD).leaderships
    assert one.history[-1].uncommitted, "one of three holds it"
    (one,) = at_rest(tmp_path / "unknown", {**logs, 102: DYNAMIC + later}, {**NEW, 100: OLD[100]}).leaderships
    assert not one.history[-1].uncommitted, "the voters' own disks are gone, and may have held it"


def test_two_copies_of_one_directory_are_one_vote(tmp_path):
    """A controller's directory that was copied for another one agrees with it, whatever was committed."""
    tail = moved(3)
    same = dict.fromkeys((100, 101), OLD[100])
    static = write.leader_change(0, 102, tuple(OLD)) + BEGIN[len(elected(0, 100, 1)) :]
    logs = {100: static, 101: static, 102: static + tail}
    (one,) = at_rest(tmp_path / "three", logs, OLD).leaderships
    assert one.history[-1].uncommitted
    (one,) = at_rest(
        tmp_path / "two", {100: static, 101: static, 102: static + tail}, same | {102: OLD[102]}
    ).leaderships
    assert one.history[-1].uncommitted, "two votes of three, one of which has it"


def test_voters_are_known_from_the_snapshot_that_a_log_goes_on_from(tmp_path):
    directories = {**OLD, 102: NEW[102]}
    begin = (
        write.control(0, write.SNAPSHOT_HEADER, b"\x00\x00" + TIME_MS.to_bytes(8, "big") + write.tags())
        + write.voters_record(1, OLD)
        + write.batch(2, write.new_topic("t", TOPIC_ID, (1, 2), 1))
        + write.control(4, write.SNAPSHOT_FOOTER, b"\x00\x00" + write.tags())
    )
    rest = write.leader_change(9, 100, tuple(OLD), epoch=2)
    last = write.batch(10, write.new_topic("late", APPLIED.topic_id, (1, 2), 2), epoch=2)
    copies = {
        node: write.MetadataLog({9: content}, {(9, 1): begin}, directory_id=directories.get(node))
        for node, content in {100: rest, 101: rest, 102: rest, 2: rest + last}.items()
    }
    reason = told(discovered(tmp_path, copies, {2: APPLIED}, clean=[2]), "META-STALE")
    assert f"102 votes from {OLD[102]}, and has {NEW[102]}" in reason
