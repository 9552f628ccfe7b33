"""Verdict, choice, losses and breaks for each rule: where it is true, and where something harmless looks the same."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support import metadata_log as write
from tests.support.collected import collect_snapshot
from tests.support.controllers import APPLIED, BEGIN, LATE, LATE_ID, TOPIC_ID, VOTERS, elected, moved
from tests.support.encoder import Record, encode_batch
from tests.support.fixtures import FIXTURES
from tests.support.metadata_log import MetadataLog
from tests.support.new_disks import add_disk
from tests.support.samples import SAMPLES
from tests.support.snapshots import Replica, make_uuid, write_manifest, write_snapshot

from replica_audit.cli.main import main
from replica_audit.config import Settings
from replica_audit.elect.election_plan import plan_elections
from replica_audit.errors import UsageError
from replica_audit.quorum.answer_model import QuorumAnswer, QuorumStateFile, answer_object, read_answer
from replica_audit.quorum.log_dir_commands import set_directory_id
from replica_audit.quorum.quorum_answer import answer_quorum
from replica_audit.report.quorum_text import render_quorum, tell_lost
from replica_audit.runner.in_process import audit_all
from replica_audit.snapshot.discovery import discover
from replica_audit.snapshot.metadata.quorum import name_nodes
from replica_audit.snapshot.storage import Snapshot
from replica_audit.text import render_time

DAY_MS = 86_400_000
CLUSTER = "CLUSTERAAAAAAAAAAAAAAA"
WHOLE = BEGIN + LATE
IDS = {node: make_uuid(f"directory {node}") for node in VOTERS}
DYNAMIC = write.leader_change(0, 100, VOTERS) + write.voters_record(1, IDS)
DYNAMIC += write.batch(2, write.new_topic("t", TOPIC_ID, (1, 2), 1))
LATE_LATER = write.batch(9, write.new_topic("late", LATE_ID, (1, 2), 2))
ONLY_T = write.new_topic("t", TOPIC_ID, (1, 2), 1)
APPLIED_T = Replica(topic="t", topic_id=TOPIC_ID)


def answer(path: Path, **options: str) -> QuorumAnswer:
    snapshot = Snapshot.open(str(path))
    return answer_quorum(snapshot, discover(snapshot), **options)


def log(content: bytes, epoch: int | None = None, **fields: object) -> MetadataLog:
    return MetadataLog({0: content}, voters=VOTERS, leader_epoch=epoch, cluster_id=CLUSTER, **fields)


def written(
    path: Path,
    metadata: Mapping[int, MetadataLog | bytes],
    brokers: Mapping[int, object] | None = None,
    **options: object,
) -> QuorumAnswer:
    logs = {node: log(one) if isinstance(one, bytes) else one for node, one in metadata.items()}
    write_snapshot(path, brokers or {}, metadata=logs, cluster_id=CLUSTER, **options)
    return answer(path)


def actions(found: QuorumAnswer) -> list[str]:
    return [step.action for step in found.steps]


def commands(found: QuorumAnswer, action: str) -> str:
    return "\n".join(command for step in found.steps if step.action == action for command in step.commands)


def test_a_sound_cluster_is_quiet(tmp_path: Path) -> None:
    found = written(tmp_path, {node: WHOLE for node in (*VOTERS, 1, 2)}, {1: APPLIED, 2: APPLIED}, clean=(1, 2))
    assert (found.verdict, found.choice, found.steps, found.lost) == ("agree", None, (), None)
    assert {(one.role, one.history, one.parts_at) for one in found.copies} == {
        ("controller", 1, None),
        ("broker", 1, None),
    }
    assert all(one.lost.is_nothing and not one.breaks and not one.refused for one in found.copies)


def test_one_voter_that_lags_or_one_blank_disk_of_a_static_quorum_is_nothing_to_decide(tmp_path: Path) -> None:
    lagging = written(tmp_path / "1", {100: WHOLE, 101: WHOLE, 102: BEGIN, 1: WHOLE}, {1: APPLIED}, clean=(1,))
    assert lagging.verdict == "agree"
    blank = written(tmp_path / "2", {100: WHOLE, 101: WHOLE, 102: log(b""), 1: WHOLE}, {1: APPLIED}, clean=(1,))
    assert blank.verdict == "agree" and blank.without_log == (102,)


def test_a_tail_that_no_majority_holds_is_nothing_to_decide(tmp_path: Path) -> None:
    """Raft cuts it: another epoch, no snapshot, no broker that applied it."""
    kept = BEGIN + elected(3, 101, 2)
    found = written(tmp_path, {100: WHOLE, 101: kept, 102: kept, 1: kept}, {1: APPLIED_T}, clean=(1,))
    assert found.verdict == "agree" and "is normal in Raft" in found.reason
    assert "to be committed: 2 records of node 100 (offsets 3 to 4). " in found.reason
    torn = {100: WHOLE, 101: kept, 102: BEGIN, 1: BEGIN}
    both = written(tmp_path / "both", torn, {1: APPLIED_T}, clean=(1,))
    assert "1 record of node 101 (offset 3) and 2 records of node 100 (offsets 3 to 4). " in both.reason
    # The last leader was alone with them. A cluster that ran is copied one node after the other: there it tells nothing.
    alone = {100: WHOLE, 101: BEGIN, 102: BEGIN, 1: BEGIN}
    told = (
        "All copies agree, as far as they go. Nothing shows that 2 records of node 100 (offsets 3 to 4) were committed"
    )
    assert told in written(tmp_path / "rest", alone, {1: APPLIED_T}, clean=(1,)).reason
    assert written(tmp_path / "ran", alone, {1: APPLIED_T}).reason == "All copies agree."


def test_what_nothing_shows_to_be_committed_is_named(tmp_path: Path) -> None:
    """By its number alone nobody can tell whether it is worth a thought; idle records are not."""
    found = written(tmp_path / "1", {100: WHOLE, 101: BEGIN, 102: BEGIN, 1: BEGIN}, {1: APPLIED_T}, clean=(1,))
    assert found.is_tentative and "loses 1 topic: late" in render_quorum(found)
    idle = {100: BEGIN + write.batch(3, [write.no_op()]), 101: BEGIN, 102: BEGIN, 1: BEGIN}
    quiet = written(tmp_path / "2", idle, {1: APPLIED_T}, clean=(1,))
    assert (quiet.is_tentative, quiet.reason) == (False, "All copies agree.")


@pytest.mark.parametrize("is_whole", [False, True])
def test_what_brokers_that_run_have_and_a_majority_of_the_voters_lacks_is_named(is_whole: bool, tmp_path: Path) -> None:
    """Voters from a backup, and no file of a broker shows what they lack: brokers die that are told to truncate it. Or skew."""
    config = BEGIN + write.batch(3, [write.config(2, "t", "retention.ms", "1")])
    voters = {100: log(config, 1), 101: log(BEGIN, 1), 102: log(config if is_whole else BEGIN, 1)}
    found = written(tmp_path, {**voters, 1: log(config, 1)}, {1: APPLIED_T})
    assert found.verdict == "agree" and found.is_tentative is not is_whole
    assert ("are not on a majority of the voters here. If these ran" in found.reason) is not is_whole
    if not is_whole:
        assert "loses 1 configuration: topic t: retention.ms" in render_quorum(found)
        # A broker has records before they are committed, too, and cuts those without a harm.
        (told,) = {one for copy in found.copies for one in copy.breaks if "die" in one}
        assert told.startswith(
            "node 1 has records from offset 3 on that it does not have: if these were committed, a broker"
        )
        asked = answer(tmp_path, node_id=100)
        assert (asked.verdict, asked.choice.node_id, asked.lost.is_nothing) == ("choose", 100, True)
        # What is proven is not enough here: each gets the log as far as it goes.
        assert [step.controllers for step in asked.steps if step.action == "seed"] == [(101,), (102,)]
        stale = answer(tmp_path, node_id=101)
        assert "continues that of node 101: choose that" in stale.no_plan


def test_voters_that_keep_their_quorum_state_count_on_from_it(tmp_path: Path) -> None:
    """Node 102 stood for election in epoch 2 and was given no vote: where it leads, with what it has, that is in epoch 3 or later."""
    config = BEGIN + write.batch(3, [write.config(2, "t", "retention.ms", "1")])
    voters = {100: log(BEGIN, 1), 101: log(BEGIN, 1), 102: log(config, 2)}
    found = written(tmp_path, {**voters, 1: log(config, 1)}, {1: APPLIED_T})
    assert found.verdict == "agree" and found.is_tentative
    told = {one.node_id: any("never register" in text for text in one.breaks) for one in found.copies}
    assert told == {100: True, 101: True, 102: False, 1: True}
    # Others that are given its log are not given the state.
    asked = answer(tmp_path, node_id=102)
    assert any("never register" in text for one in asked.copies if one.node_id == 102 for text in one.breaks)


@pytest.mark.parametrize(("down", "is_named"), [(1, False), (2, True)])
def test_a_voter_that_was_down_long_before_the_copy_does_not_hide_that_the_others_are_only_copied_first(
    tmp_path: Path, down: int, is_named: bool
) -> None:
    """The others may have what a broker got after their copies: a majority, where a single one of three was down."""
    copied = render_time(write.TIME_MS + DAY_MS, "seconds")
    said = [
        {"broker_id": node, "log_dir": path, "kind": "live", "started": copied, "finished": copied}
        for node, path in {1: "broker-1", **{one: f"controller-{one}" for one in VOTERS}}.items()
    ]
    ran = BEGIN + write.batch(3, [write.no_op()], time_ms=write.TIME_MS + DAY_MS)
    whole = ran + write.batch(4, [write.config(2, "t", "retention.ms", "1")], time_ms=write.TIME_MS + DAY_MS + 500)
    voters = {**dict.fromkeys(VOTERS[:down], BEGIN), **dict.fromkeys(VOTERS[down:], ran)}
    written(tmp_path, {**voters, 1: whole}, {1: APPLIED_T})
    write_manifest(tmp_path, brokers=said)
    found = answer(tmp_path)
    assert found.verdict == "agree" and found.is_tentative is is_named, found.reason
    assert ("are not on a majority of the voters here" in found.reason) is is_named, found.reason


@pytest.mark.parametrize(("older_ms", "is_named"), [(DAY_MS, True), (3_000, False)])
def test_a_leader_with_a_clock_an_hour_ahead_does_not_hide_that_voters_are_from_a_backup(
    tmp_path: Path, older_ms: int, is_named: bool
) -> None:
    """By that clock the copies of the voters began before the broker got what they lack. Of a quorum that ran a copy has what was written
    shortly before it began."""
    copied = render_time(write.TIME_MS + older_ms, "seconds")
    said = [
        {"broker_id": node, "log_dir": path, "kind": "live", "started": copied, "finished": copied}
        for node, path in {1: "broker-1", **{one: f"controller-{one}" for one in VOTERS}}.items()
    ]
    ahead_ms = DAY_MS // 24 if is_named else 0
    config = [write.config(2, "t", "retention.ms", "1")]
    whole = BEGIN + write.batch(3, config, time_ms=write.TIME_MS + older_ms + ahead_ms)
    found = written(tmp_path, {**dict.fromkeys(VOTERS, BEGIN), 1: whole}, {1: APPLIED_T})
    write_manifest(tmp_path, brokers=said)
    found = answer(tmp_path)
    assert found.verdict == "agree" and found.is_tentative is is_named, found.reason
    assert ("are not on a majority of the voters here" in found.reason) is is_named, found.reason


FIVE = (100, 101, 102, 103, 104)
OF_FIVE = write.history(ONLY_T, voters=FIVE)


@pytest.mark.parametrize(
    ("begin", "holding", "lacking", "told"),
    [
        (
            BEGIN,
            (101,),
            (100, 102),
            "node 101 holds it, and so did node 100 as the leader of epoch 1, whatever it has now",
        ),
        (BEGIN, (101,), (102,), "node 101 holds it, and so did node 100"),
        (BEGIN, (101,), (100,), "node 101 holds it, and so did node 100"),
        (BEGIN, (100,), (101, 102), None),
        (OF_FIVE, (101,), (100, 102, 103, 104), None),
        (OF_FIVE, (101, 103), (100, 102, 104), "nodes 101 and 103 hold it, and so did node 100"),
    ],
    ids=["leader cut", "leader gone", "other gone", "leader alone", "two of five", "three of five"],
)
def test_a_leader_held_what_others_have_of_its_epoch(
    tmp_path: Path, begin: bytes, holding: Sequence[int], lacking: Sequence[int], told: str | None
) -> None:
    """Raft: who is cut below what it let others fetch lost its end, so that a majority held what fewer have now."""
    whole = log(begin + LATE, 1)
    metadata = {**dict.fromkeys(holding, whole), **dict.fromkeys(lacking, log(begin, 1))}
    found = written(tmp_path / "rest", metadata | {1: begin}, {1: APPLIED_T}, clean=(1,))
    assert (found.verdict == "choose") is (told is not None), found.reason
    if told:
        assert told in found.reason and found.choice.node_id == 101 and found.lost.is_nothing
        assert any(one.lost.topics for one in found.copies if one.node_id in lacking)
    # Copied one after the other while they ran, who was copied first has less.
    assert "so did node" not in written(tmp_path / "ran", metadata | {1: begin}, {1: APPLIED_T}).reason


def test_idle_records_that_their_leader_lost_are_nothing_to_decide(tmp_path: Path) -> None:
    idle = BEGIN + write.batch(3, [write.no_op()])
    found = written(tmp_path, {100: BEGIN, 101: idle, 102: BEGIN, 1: BEGIN}, {1: APPLIED_T}, clean=(1,))
    assert (found.verdict, found.reason) == ("agree", "All copies agree.")


@pytest.mark.parametrize(("late", "verdict"), [(101, "choose"), (100, "agree")], ids=["follower", "leader"])
def test_an_election_without_what_a_majority_had_held_is_a_fork(tmp_path: Path, late: int, verdict: str) -> None:
    """The leader lost its end and elected with a voter that never had it. What the leader alone had is cut, as in any Raft."""
    others = [node for node in VOTERS if node != late]
    metadata = {late: log(WHOLE, 1), **dict.fromkeys(others, log(BEGIN + elected(3, 102, 2), 2))}
    found = written(tmp_path, metadata | {1: BEGIN}, {1: APPLIED_T}, clean=(1,))
    assert found.verdict == verdict, found.reason
    if verdict == "choose":
        assert (
            found.choice.node_id == late
            and "it parts at offset 3 from what was committed: node 101 holds" in found.reason
        )


def test_of_two_histories_that_leaders_held_once_neither_is_called_applied(tmp_path: Path) -> None:
    """The leader of both epochs lost its end twice; no broker is here."""
    again = BEGIN + elected(3, 100, 2)
    late = again + write.batch(4, write.new_topic("new", LATE_ID, (1, 2), 1), epoch=2)
    found = written(tmp_path, {101: log(WHOLE, 1), 100: log(again, 2), 102: log(late, 2)})
    assert found.verdict == "keep_both" and "each of them has committed records that another lacks" in found.reason, (
        found.reason
    )


@pytest.mark.parametrize("applied", [False, True])
def test_what_a_majority_has_by_now_is_not_given_up_for_what_another_held(tmp_path: Path, applied: bool) -> None:
    """Two of three voters went on without what the third had fetched of a leader that lost its power, perhaps before it was committed."""
    new = make_uuid("new topic")
    since = write.batch(4, write.new_topic("new", new, (1, 2), 1), epoch=2)
    late = log(BEGIN + elected(3, 102, 2) + since, 2)
    metadata = {101: log(WHOLE, 1), 100: late, 102: late, 1: late}
    brokers = {1: [APPLIED_T, *([Replica(topic="new", topic_id=new)] if applied else [])]}
    found = written(tmp_path, metadata, brokers, clean=(1,))
    assert found.verdict == "agree" and "2 records of node 101 (offsets 3 to 4)" in found.reason, found.reason


@pytest.mark.parametrize(
    ("kind", "stopped", "at_rest"),
    [
        (None, APPLIED_T, True),
        # The high watermark was written after the last recovery point: the flag is of a stop since.
        (None, replace(APPLIED_T, high_watermark=9, recovery_point=5), False),
        ("stopped", replace(APPLIED_T, high_watermark=9, recovery_point=5), True),
        ("live", APPLIED_T, False),
    ],
)
def test_a_flag_of_a_stop_during_the_copies_shows_no_rest(
    tmp_path: Path, kind: str | None, stopped: Replica, at_rest: bool
) -> None:
    said = [] if kind is None else [{"broker_id": 1, "log_dir": "./broker-1/", "kind": kind}]
    write_manifest(tmp_path, brokers=said)
    found = written(tmp_path, {100: WHOLE, 101: BEGIN, 102: BEGIN, 1: WHOLE}, {1: stopped}, clean=(1,))
    assert ("Nothing shows that" in found.reason) is at_rest, found.reason


@pytest.mark.parametrize("good", [100, 1])
def test_a_stale_majority(tmp_path: Path, good: int) -> None:
    """Q1, Q2: who has everything is chosen, a controller or, where none is left, a broker."""
    metadata = {101: BEGIN, 102: BEGIN, 1: WHOLE} | ({100: WHOLE} if good == 100 else {100: BEGIN})
    found = written(tmp_path, metadata, {1: APPLIED}, clean=(1,))
    assert found.verdict == "choose" and found.choice is not None and found.choice.node_id == good
    assert found.choice.role == ("controller" if good == 100 else "broker")
    assert found.lost is not None and found.lost.is_nothing
    stale = next(one for one in found.copies if one.node_id == 102)
    assert [(one.topic, one.topic_id) for one in stale.lost.topics] == [("late", LATE_ID)]
    assert any("applied records from offset 3 on" in one and "die" in one for one in stale.breaks)
    assert any("ends at 3" in one for one in stale.refused)
    seeded = [step.controllers[0] for step in found.steps if step.action == "seed"]
    assert seeded == ([101, 102] if good == 100 else [100, 101, 102])
    assert "--exclude=quorum-state" in commands(found, "pack") and f"LOG_DIR_OF_{good}" in commands(found, "pack")
    assert actions(found)[:2] == ["copy", "stop"] and not any("standalone" in one for one in repr(found.steps).split())
    # The log goes where it belongs before anything is started, the one that was chosen first.
    assert actions(found).index("start") > max(at for at, one in enumerate(actions(found)) if one == "seed")


def test_a_blank_disk_and_a_stale_one_are_a_majority_that_must_not_elect(tmp_path: Path) -> None:
    """Q2, Q3: the only voter that has everything is down; a blank one that has it all again is harmless."""
    blank = log(b"", directory_id=IDS[101])
    found = written(tmp_path / "1", {100: WHOLE, 101: blank, 102: BEGIN, 1: WHOLE}, {1: APPLIED}, clean=(1,))
    assert found.verdict == "choose" and found.choice.node_id == 100
    assert "102 lacks some of it" in found.reason and "101 counts as lost" in found.reason
    assert [step.controllers for step in found.steps if step.action == "seed"] == [(101,), (102,)]
    back = written(tmp_path / "2", {100: WHOLE, 101: WHOLE, 102: BEGIN, 1: WHOLE}, {1: APPLIED}, clean=(1,))
    assert back.verdict == "agree"


@pytest.mark.parametrize(
    ("node", "has_new"), [(100, True), (102, True), (100, False)], ids=["right log", "gets the log", "no other"]
)
def test_a_controller_is_started_with_the_disk_that_has_its_log(tmp_path: Path, node: int, has_new: bool) -> None:
    """Its disk was replaced by an empty one, and both were captured."""
    name = f"broker-{node}-new"
    if has_new:
        add_disk(tmp_path, broker=node)
    found = written(tmp_path, {100: WHOLE, 101: BEGIN, 102: BEGIN, 1: WHOLE}, {1: APPLIED}, clean=(1,))
    assert found.verdict == "choose" and found.choice.node_id == 100
    (copy,) = (step for step in found.steps if step.action == "copy")
    told = f"LOG_DIR_OF_{node} means in this plan what the snapshot has as controller-{node}, wherever it is mounted, not {name},"
    assert (told in copy.text) == has_new, copy.text
    started = {one: step.before for step in found.steps if step.action == "start" for one in step.controllers}
    right = f"Node {node} starts with the log directory that the snapshot has as controller-{node}, or with a copy of it, in its place: with "
    right += f"{name} instead, empty as in the snapshot, it votes for a node that lacks committed records"
    assert (right in started[node]) == has_new, started
    assert not any(
        " instead, empty as in the snapshot" in text
        for one, before in started.items()
        if one != node
        for text in before
    )


def test_a_controller_is_started_with_room_for_the_recovery_of_its_log(tmp_path: Path) -> None:
    """On a full disk 4.0 and later empty it, whether or not it was stopped in order."""
    written(tmp_path, {100: WHOLE, 101: BEGIN, 102: BEGIN, 1: WHOLE}, {1: APPLIED}, clean=(1,))
    for version, asks in {"4.3.1": True, None: True, "3.9.1": False}.items():
        found = answer(tmp_path, kafka_version=version)
        started = {one: step.before for step in found.steps if step.action == "start" for one in step.controllers}
        asked = {
            one
            for one, before in started.items()
            if any(
                text.startswith(f"There is room on the disk with the metadata log of node {one}:") for text in before
            )
        }
        assert asked == ({100, 101, 102} if asks else set()), started


@pytest.mark.parametrize(("other", "rest"), [(BEGIN, "choose"), (WHOLE, "agree")])
def test_swapped_disks_of_controllers_are_put_back_first(other: bytes, rest: str, tmp_path: Path) -> None:
    """Where nothing else has to be decided, too: neither of the two starts, and without them nobody leads."""
    metadata = {100: WHOLE, 101: other, 102: other, 1: WHOLE}
    found = written(tmp_path / "own", metadata, {1: APPLIED}, clean=(1,))
    assert "check_disks" not in actions(found)
    write_snapshot(
        tmp_path / "swapped",
        {1: APPLIED},
        metadata={n: log(one) for n, one in metadata.items()},
        cluster_id=CLUSTER,
        clean=(1,),
    )
    one, two, between = (tmp_path / "swapped" / name for name in ("controller-100", "controller-101", "between"))
    for source, target in ((one, between), (two, one), (between, two)):
        source.rename(target)
    swapped = answer(tmp_path / "swapped")
    first = swapped.steps[0]
    assert swapped.verdict == found.verdict == rest
    assert ("Start and stop nothing until" in render_quorum(swapped)) == (rest == "choose")
    assert (first.action, first.controllers) == ("check_disks", (100, 101)), first
    assert (
        "controller-100 in this snapshot is of node 101; controller-101 in this snapshot is of node 100" in first.text
    )


def test_records_of_partitions_that_would_be_set_aside_are_counted(tmp_path: Path) -> None:
    batches = [encode_batch(0, [Record(None, b"1"), Record(None, b"2"), Record(None, b"3")], 0)]
    held = Replica(batches, topic="late", topic_id=LATE_ID)
    found = written(tmp_path, {101: BEGIN, 102: BEGIN, 100: WHOLE, 1: WHOLE}, {1: held}, clean=(1,))
    stale = next(one for one in found.copies if one.node_id == 102)
    assert [(one.broker_id, one.topic, one.records) for one in stale.lost.stray] == [(1, "late", 3)]


def test_a_segment_that_cannot_be_counted_is_quarantined(tmp_path: Path) -> None:
    held = Replica([encode_batch(0, [Record(None, b"1")], 0)], topic="late", topic_id=LATE_ID)
    written(tmp_path, {101: BEGIN, 102: BEGIN, 100: WHOLE, 1: WHOLE}, {1: held}, clean=(1,))
    snapshot = Snapshot.open(str(tmp_path))
    inventory = discover(snapshot)
    segment = next(tmp_path.glob("*/late-0/*.log"))
    segment.unlink()
    found = answer_quorum(snapshot, inventory)
    assert [one.path for one in found.quarantine] == [str(segment.relative_to(tmp_path))]
    assert "not counted" in found.quarantine[0].reason


def test_copies_that_may_only_have_been_made_earlier_are_said_to_be_so(tmp_path: Path) -> None:
    """The cluster ran, and the last records are little older than the newest; after a day it is no order of copying."""
    ran = written(tmp_path / "1", {100: BEGIN, 101: BEGIN, 102: BEGIN, 1: WHOLE}, {1: APPLIED})
    assert ran.verdict == "choose" and "nothing has to be done: copy them once more" in ran.reason
    first_stop = next(step for step in ran.steps if step.action == "stop")
    assert any("a second snapshot, controllers last, says the same" in one for one in first_stop.before)
    tomorrow = write.batch(3, write.new_topic("late", LATE_ID, (1, 2), 2), time_ms=write.TIME_MS + DAY_MS)
    old = written(tmp_path / "2", {100: BEGIN, 101: BEGIN, 102: BEGIN, 1: BEGIN + tomorrow}, {1: APPLIED})
    assert old.verdict == "choose" and "copy them once more" not in old.reason
    assert not next(step for step in old.steps if step.action == "stop").before


def test_lost_disks_are_asked_for_first(tmp_path: Path) -> None:
    found = written(tmp_path, {102: BEGIN, 1: WHOLE}, {1: APPLIED}, clean=(1,))
    assert found.choice.node_id == 1 and found.without_log == (100, 101)
    assert actions(found)[:2] == ["capture", "copy"] and found.steps[0].controllers == (100, 101)
    assert f"format --cluster-id {CLUSTER}" in commands(found, "seed")
    assert "no-initial-controllers" not in commands(found, "seed")


def test_an_epoch_that_a_node_has_seen_is_written_into_the_seeds(tmp_path: Path) -> None:
    """Q7, R4; without such an epoch the seeds have no quorum-state."""
    stale = {101: log(BEGIN, 1), 102: log(BEGIN, 1)}
    found = written(tmp_path / "1", {**stale, 100: log(WHOLE, 1), 1: log(WHOLE, 4)}, {1: APPLIED}, clean=(1,))
    files = {name: json.loads(text) for step in found.steps for name, text in step.files.items()}
    assert set(files) == {f"quorum-state-{node}" for node in VOTERS}
    assert {(one["leaderEpoch"], one["votedId"], one["data_version"]) for one in files.values()} == {(4, -1, 0)}
    assert [one["voterId"] for one in files["quorum-state-100"]["currentVoters"]] == [100, 101, 102]
    lines = [line.strip() for line in render_quorum(found).splitlines()]
    assert (
        f"printf '%s\\n' '{json.dumps(files['quorum-state-101'], separators=(',', ':'))}' > quorum-state-101" in lines
    )
    assert any("never register" in one for one in next(one for one in found.copies if one.node_id == 100).breaks)
    logs = {one.broker_id: (one.log_end_offset, one.leader_epoch) for step in found.steps for one in step.after}
    assert logs == dict.fromkeys(VOTERS, (found.choice.end_offset, 4))
    assert (
        f"then: __cluster_metadata-0 of node 101 ends at {found.choice.end_offset}, and counts on from epoch 4" in lines
    )
    harmless = written(tmp_path / "2", {**stale, 100: log(WHOLE, 1), 1: log(WHOLE, 1)}, {1: APPLIED}, clean=(1,))
    assert not any(step.files for step in harmless.steps) and "mend_epoch" not in actions(harmless)


def test_voters_that_forgot_an_epoch_count_on_from_it_though_all_logs_agree(tmp_path: Path) -> None:
    """Q7 without a lost record: nothing but the numbers keeps brokers from registering. Of a running cluster it is an election."""
    metadata = {node: log(WHOLE, 1) for node in VOTERS} | {1: log(WHOLE, 6)}
    found = written(tmp_path / "1", metadata, {1: APPLIED}, clean=(1,))
    assert found.verdict == "choose" and "reached controller epoch 6, and the voters know none above 1" in found.reason
    assert actions(found) == ["copy", "stop", *["mend_epoch"] * 3, *["start"] * 3, "check", "check", "start", "verify"]
    ends = {one.node_id: one.end_offset for one in found.copies}
    assert {one.broker_id: one.log_end_offset for step in found.steps for one in step.after} == {
        n: ends[n] for n in VOTERS
    }
    ran = written(tmp_path / "2", metadata, {1: APPLIED})
    one_knows = written(tmp_path / "3", metadata | {102: log(WHOLE, 6)}, {1: APPLIED}, clean=(1,))
    assert (ran.verdict, one_knows.verdict) == ("agree", "agree")
    assert "unless an election took place while they were copied" in ran.reason and "election" not in one_knows.reason


def test_voters_are_those_of_the_history_that_is_right(tmp_path: Path) -> None:
    """D5z: one disk formatted with --standalone, which elects itself until its epoch is the greatest."""
    alone = write.leader_change(0, 100, (100,), epoch=9, time_ms=write.TIME_MS + DAY_MS)
    metadata = {100: MetadataLog({0: alone}, voters=(100,), leader_epoch=9, cluster_id=CLUSTER)}
    found = written(tmp_path, metadata | {101: log(WHOLE, 1), 102: log(WHOLE, 1), 1: WHOLE}, {1: APPLIED}, clean=(1,))
    assert found.verdict == "choose" and found.choice.node_id == 101 and found.voters == VOTERS
    assert next(step for step in found.steps if step.action == "empty").controllers == (100,)


def test_a_broker_whose_metadata_lies_apart_is_a_broker(tmp_path: Path) -> None:
    apart = log(WHOLE, 1, log_dir="metadata-of-1")
    found = written(tmp_path, {100: BEGIN, 101: BEGIN, 102: BEGIN, 1: apart}, {1: APPLIED}, clean=(1,))
    assert found.choice.role == "broker" and "broker-1-metadata.tgz" in commands(found, "copy")


def test_nodes_that_were_formatted_with_another_cluster_id_are_named(tmp_path: Path) -> None:
    """Given the chosen log they would not join; and where they are the most, the old cluster's log is not passed over."""
    other = "OTHERAAAAAAAAAAAAAAAAA"
    blank = MetadataLog({0: b""}, voters=VOTERS, cluster_id=other)
    found = written(tmp_path / "1", {100: WHOLE, 101: blank, 102: blank, 1: WHOLE}, {1: APPLIED}, clean=(1,))
    assert found.choice.node_id == 100 and actions(found) == ["capture", "copy"]
    assert other in found.no_plan and "no voter joins" in found.no_plan
    assert "If these are two clusters, disks were swapped" in found.no_plan
    # Format refuses a directory with another cluster's id, with --ignore-formatted too.
    assert (
        "into the meta.properties of each of their log directories, and of its copy in this snapshot" in found.no_plan
    )
    assert {one.path for one in found.quarantine} == {"controller-101", "controller-102"}
    anew = MetadataLog({0: elected(0, 101, 1)}, voters=VOTERS, cluster_id=other)
    most = written(tmp_path / "2", dict.fromkeys(VOTERS, anew) | {1: WHOLE}, {1: APPLIED}, clean=(1,))
    assert most.verdict == "agree" and "some were formatted with a new id: keep every disk" in most.reason


def test_controllers_without_any_topic_may_be_those_of_a_migration(tmp_path: Path) -> None:
    """Before brokers are migrated from ZooKeeper the metadata log has the state of the migration only."""
    before = write.history([write.message(21, 0, b"\x01" + write.tags())], voters=VOTERS)
    found = written(tmp_path / "1", dict.fromkeys(VOTERS, before), {1: APPLIED_T, 2: APPLIED_T}, clean=(1, 2))
    assert found.verdict == "none" and "being moved from ZooKeeper" in found.reason
    lost = written(tmp_path / "2", dict.fromkeys(VOTERS, BEGIN), {1: APPLIED}, clean=(1,))
    assert lost.verdict == "none" and "ZooKeeper" not in lost.reason


def test_the_same_epoch_with_another_history_served_by_both_is_kept_both(tmp_path: Path) -> None:
    """Q8: brokers have what the voters lack, and the other way round."""
    other_id = make_uuid("other")
    other = write.batch(3, write.new_topic("other", other_id, (1, 2), 1))
    forked = BEGIN + other + elected(5, 101, 2)
    metadata = {node: forked for node in VOTERS} | {1: WHOLE, 2: forked}
    both = {1: APPLIED, 2: Replica(topic="other", topic_id=other_id)}
    found = written(tmp_path / "1", metadata, both, clean=(1, 2))
    assert (found.verdict, found.choice) == ("keep_both", None) and found.no_plan is not None
    assert "stop producers" in found.no_plan
    assert actions(found) == ["copy"] and "late" in found.reason and "other" in found.reason
    assert {tuple(topic.topic for topic in one.lost.topics) for one in found.copies} == {("late",), ("other",)}
    one_sided = written(tmp_path / "2", metadata, {1: APPLIED, 2: APPLIED}, clean=(1, 2))
    assert one_sided.verdict == "choose" and one_sided.choice.node_id == 1


def forked(tmp_path: Path) -> None:
    """Voters and broker 2 have topic other, broker 1 has topic late with two records."""
    other_id = make_uuid("other")
    other = write.batch(3, write.new_topic("other", other_id, (1, 2), 1))
    metadata = {node: BEGIN + other + elected(5, 101, 2) for node in (*VOTERS, 2)} | {1: WHOLE}
    held = Replica([encode_batch(0, [Record(None, b"1"), Record(None, b"2")], 0)], topic="late", topic_id=LATE_ID)
    written(tmp_path, metadata, {1: held, 2: Replica(topic="other", topic_id=other_id)}, clean=(1, 2))


def test_people_choose_between_histories_and_what_is_given_up_is_copied(tmp_path: Path) -> None:
    """Of the voters' history brokers of the other one fetch the log anew; of a broker's, voters get it; records are named."""
    forked(tmp_path)
    left_open = answer(tmp_path)
    assert "quorum --choose 100 has the plan for that of nodes 2, 100, 101 and 102" in left_open.no_plan
    assert "quorum --choose 1 has" in left_open.no_plan
    voters = answer(tmp_path, node_id=100)
    assert (voters.verdict, voters.choice.node_id, voters.choice.asked, voters.no_plan) == ("choose", 100, True, None)
    assert [(one.broker_id, one.topic, one.records) for one in voters.lost.stray] == [(1, "late", 2)]
    assert actions(voters) == ["copy", "stop", "copy", "empty", "start", "check", "check", "start", "start", "verify"]
    assert [step.brokers for step in voters.steps if step.action in ("stop", "empty")] == [(1,), (1,)]
    assert "broker-1-given-up.tgz -C LOG_DIR_OF_1 -- ./late-0" in commands(voters, "copy")
    assert render_quorum(voters).startswith("The requested choice: the log of controller 100")
    broker = answer(tmp_path, node_id=1)
    assert [step.controllers for step in broker.steps if step.action == "seed"] == [(100,), (101,), (102,)]
    assert [step.brokers for step in broker.steps if step.action == "empty"] == [(2,)]
    assert "broker-2-given-up.tgz -C LOG_DIR_OF_2 -- ./other-0" in commands(broker, "copy")
    with pytest.raises(UsageError, match="node 7 has no metadata log here"):
        answer(tmp_path, node_id=7)


def test_what_only_the_other_history_assigns_to_a_broker_is_given_up_too(tmp_path: Path) -> None:
    """A partition that was added, and a replica that was moved: brokers set both aside, though the topic is known."""
    forked(tmp_path)
    reassigned = [write.change(TOPIC_ID, isr=(3,), replicas=(3,), leader=3)]
    reassigned.append(write.partition(TOPIC_ID, (1,), 1, number=1))
    there = WHOLE + write.batch(5, reassigned)
    for node in (1, 3):
        shutil.rmtree(tmp_path / f"broker-{node}", ignore_errors=True)
    held = Replica(BATCH, topic="t", topic_id=TOPIC_ID)
    brokers = {1: [held, replace(held, partition=1), APPLIED], 3: held}
    written(tmp_path, {1: there, 3: there}, brokers, clean=(1, 3))
    found = answer(tmp_path, node_id=100)
    assert [(one.broker_id, one.topic, one.partition, one.records) for one in found.lost.stray] == [
        (1, "late", 0, 0),
        (1, "t", 1, 1),
        (3, "t", 0, 1),
    ]
    copied = commands(found, "copy")
    assert "broker-1-given-up.tgz -C LOG_DIR_OF_1 -- ./late-0 ./t-1" in copied and "LOG_DIR_OF_3 -- ./t-0" in copied


STRAY = ".0123456789abcdef0123456789abcdef-stray"
BATCH = [encode_batch(0, [Record(None, b"1")], 0)]
SET_ASIDE = Replica(BATCH, topic="late", topic_id=LATE_ID, suffix=STRAY)


def test_after_voters_forgot_a_topic_its_stray_directories_are_named_though_all_logs_agree(tmp_path: Path) -> None:
    """Q4. A topic that was deleted while its broker was down is in the log."""
    forgot = written(tmp_path / "1", dict.fromkeys((*VOTERS, 1), BEGIN), {1: [APPLIED_T, SET_ASIDE]}, clean=(1,))
    assert forgot.verdict == "agree" and "1 directory of late aside as -stray, which no log here knows" in forgot.reason
    gone = WHOLE + write.batch(5, [write.remove_topic(LATE_ID)])
    deleted = written(tmp_path / "2", dict.fromkeys((*VOTERS, 1), gone), {1: [APPLIED_T, SET_ASIDE]}, clean=(1,))
    assert deleted.verdict == "agree" and "stray" not in deleted.reason


def test_a_directory_of_a_partition_that_was_added_to_a_topic_shows_what_was_committed(tmp_path: Path) -> None:
    """R2: of a topic that a log knows it may lack a partition; one of a deleted topic it does not lack."""
    added = BEGIN + write.batch(3, [write.partition(TOPIC_ID, (1, 2), 1, number=1)])
    held = {1: [APPLIED_T, Replica(topic="t", topic_id=TOPIC_ID, partition=1)]}
    lacking = BEGIN + elected(3, 101, 2)
    metadata = {100: added, 101: lacking, 102: lacking, 1: added}
    found = written(tmp_path / "1", metadata, held, clean=(1,))
    assert found.verdict == "choose" and found.choice.node_id == 100
    assert found.copies[1].refused[0] == "it does not know partition t-1, which node 1 applied"
    none = written(tmp_path / "2", dict.fromkeys((*VOTERS, 1), BEGIN), held, clean=(1,))
    assert none.verdict == "none" and "does not know partition t-1" in none.reason
    deleted = lacking + write.batch(4, [write.remove_topic(TOPIC_ID)], epoch=2)
    gone = written(tmp_path / "3", dict.fromkeys((*VOTERS, 1), deleted), held, clean=(1,))
    assert gone.verdict == "agree" and not any(one.refused for one in gone.copies)
    aside = [APPLIED_T, Replica(topic="t", topic_id=TOPIC_ID, partition=1, suffix=STRAY)]
    stray = written(tmp_path / "4", dict.fromkeys((*VOTERS, 1), BEGIN), {1: aside}, clean=(1,))
    assert (
        stray.verdict == "agree"
        and "1 directory of t-1 aside as -stray, which no log here knows: the voters" in stray.reason
    )
    removed = dict.fromkeys((*VOTERS, 1), deleted) | {102: BEGIN}
    older = written(tmp_path / "5", removed, {1: aside}, clean=(1,))
    assert older.verdict == "agree" and "stray" not in older.reason


def test_a_configuration_that_no_voter_has_is_named_and_what_says_nothing_is_not(tmp_path: Path) -> None:
    """All are at rest, and brokers have it from a controller, as they have records that only show that it lives."""
    config = BEGIN + write.batch(3, [write.config(2, "t", "retention.ms", "1")])
    found = written(tmp_path / "1", dict.fromkeys(VOTERS, BEGIN) | {1: config}, {1: APPLIED_T}, clean=(1,))
    assert found.verdict == "choose" and found.choice.node_id == 1
    assert found.copies[0].lost.configurations == ("topic t: retention.ms",)
    idle = BEGIN + write.batch(3, [write.no_op()])
    quiet = written(tmp_path / "2", dict.fromkeys(VOTERS, BEGIN) | {1: idle}, {1: APPLIED_T}, clean=(1,))
    assert quiet.verdict == "agree"
    ran = written(tmp_path / "3", dict.fromkeys(VOTERS, BEGIN) | {1: config}, {1: APPLIED_T})
    assert ran.verdict == "agree"


def test_an_older_disk_that_knows_stray_directories_is_chosen_and_they_are_put_back(tmp_path: Path) -> None:
    """Q4, and then the disk of 100 is found: the voters that went on without topic late forgot what had been committed."""
    went_on = BEGIN + elected(3, 101, 2, write.TIME_MS + DAY_MS) + moved(4, epoch=2, time_ms=write.TIME_MS + DAY_MS)
    metadata = {100: log(WHOLE, 1), 101: log(went_on, 2), 102: log(went_on, 2), 1: log(went_on, 2)}
    found = written(tmp_path / "1", metadata, {1: [APPLIED_T, SET_ASIDE]}, clean=(1,))
    assert found.verdict == "choose" and found.choice.node_id == 100
    assert "does not know topic late" in " ".join(found.copies[1].refused)
    assert [step.brokers for step in found.steps if step.action in ("stop", "empty", "put_back")][1:] == [(1,)] * 3
    # Its own stop is no sign that it hangs.
    stops = ["five minutes" in step.text for step in found.steps if step.action == "stop"]
    assert stops == [False, True]
    assert commands(found, "put_back") == f"mv -T -- LOG_DIR_OF_1/late-0{STRAY} LOG_DIR_OF_1/late-0"
    assert actions(found).index("put_back") < actions(found).index("start")
    begun = written(tmp_path / "2", metadata, {1: [APPLIED_T, SET_ASIDE, replace(APPLIED, batches=BATCH)]}, clean=(1,))
    assert actions(begun) == ["copy"] and "broker 1 has late-0 beside broker-1/late-0." in begun.no_plan


def test_a_directory_of_a_topic_that_no_log_knows_is_named_before_it_becomes_stray(tmp_path: Path) -> None:
    """Of a running cluster the logs may only have been copied earlier, so that there is a choice; what it forgets is told all the same."""
    blank = log(b"", directory_id=IDS[101])
    found = written(
        tmp_path, {100: BEGIN, 101: blank, 102: b"", 1: BEGIN}, {1: [APPLIED_T, replace(APPLIED, batches=BATCH)]}
    )
    assert found.verdict == "choose" and "it does not know topic late" in found.reason
    assert [(one.broker_id, one.topic, one.records) for one in found.lost.stray] == [(1, "late", 1)]
    assert not found.lost.is_nothing and any("become -stray" in one for one in found.copies[0].breaks)
    assert "loses nothing" not in render_quorum(found)


def test_leader_epochs_that_a_choice_gives_out_again_are_named(tmp_path: Path) -> None:
    """Two histories of which one counted the epochs of t-0 on: followers would not see where records of one epoch differ."""
    forked(tmp_path)
    counted = Replica([encode_batch(0, [Record(None, b"1")], 7)], topic="t", topic_id=TOPIC_ID)
    write_snapshot(tmp_path / "more", {3: counted})
    shutil.copytree(tmp_path / "more/broker-3", tmp_path / "broker-3")
    found = answer(tmp_path, node_id=100)
    assert any("leader epochs of t-0 are given out again above 0" in one for one in found.copies[0].breaks)


def test_breaks_are_clauses_that_each_say_of_what(tmp_path: Path) -> None:
    """They follow a colon; where many partitions break in the same way three are named."""
    state = [write.topic("t", TOPIC_ID), *(write.partition(TOPIC_ID, (1, 2), 1, number=at) for at in range(5))]
    begin = write.history(state, voters=VOTERS)
    held = [Replica(topic="t", topic_id=TOPIC_ID, partition=at, epochs=((0, 0), (7, 0))) for at in range(5)]
    metadata = dict.fromkeys(VOTERS, log(begin, 1)) | {1: log(begin, 6)}
    breaks = written(tmp_path, metadata, {1: held}, clean=(1,)).copies[0].breaks
    assert breaks[-3] == "the leader epochs of 2 more partitions are given out again, too"
    assert len(breaks) == 7 and not any(one[0].isupper() for one in breaks)


def test_a_stray_directory_of_a_reassigned_partition_stays_where_it_is(tmp_path: Path) -> None:
    """Its broker is no replica any more."""
    metadata = {101: BEGIN, 102: BEGIN, 100: WHOLE, 1: WHOLE}
    found = written(tmp_path, metadata, {1: APPLIED, 3: [APPLIED_T, SET_ASIDE]}, clean=(1, 3))
    assert found.verdict == "choose" and "put_back" not in actions(found)


def test_a_log_that_another_continues_or_that_is_spliced_is_not_put_in_place(tmp_path: Path) -> None:
    written(tmp_path / "1", {100: WHOLE, 101: BEGIN, 102: BEGIN, 1: WHOLE}, {1: APPLIED}, clean=(1,))
    stale = answer(tmp_path / "1", node_id=102)
    assert actions(stale) == ["copy"] and "the log of node 100 continues that of node 102" in stale.no_plan
    assert render_quorum(stale).startswith(
        "No plan: the log of controller 102 is asked for, but cannot be put in place"
    )
    agreeing = written(tmp_path / "2", dict.fromkeys((*VOTERS, 1), WHOLE), {1: APPLIED}, clean=(1,))
    asked = answer(tmp_path / "2", node_id=101)
    assert agreeing.verdict == "agree" and replace(asked, reason=agreeing.reason) == agreeing
    assert asked.reason.endswith("--choose 101 has no effect: nothing has to be chosen.")
    written(tmp_path / "3", {100: BEGIN, 101: BEGIN, 102: WHOLE[:-1] + b"x"}, {1: APPLIED}, clean=(1,))
    assert "--choose 101 has no effect: the right log is not among" in answer(tmp_path / "3", node_id=101).reason


def test_the_choice_that_was_asked_for_has_its_own_reason(tmp_path: Path) -> None:
    """Not that of the best: a history may be refused that people decide for, or none may be the best."""
    seeded = BEGIN + moved(3) + elected(4, 101, 2, write.TIME_MS + DAY_MS)
    written(tmp_path / "1", dict.fromkeys(VOTERS, seeded) | {1: WHOLE}, {1: APPLIED}, clean=(1,))
    choice = answer(tmp_path / "1", node_id=101).choice
    assert choice.reason.startswith("The best is the log of node 1. It is of the only history that lacks nothing")
    assert choice.reason.count("nodes 100, 101 and 102 cannot be the right one: it does not know topic late") == 1
    assert render_quorum(answer(tmp_path / "1", node_id=101)).count("requested choice") == 1
    one, other = BEGIN + elected(3, 100, 2) + moved(4, epoch=2) + moved(5, epoch=2), BEGIN + moved(3)
    written(tmp_path / "2", {100: one} | dict.fromkeys((101, 102), other + elected(4, 101, 2)))
    assert answer(tmp_path / "2").verdict == "keep_both"
    reason = answer(tmp_path / "2", node_id=100).choice.reason
    assert (
        reason.startswith("No log is the best. The logs of node 100 and nodes 101 and 102 differ")
        and "keep" not in reason
    )


def test_every_doubt_about_copies_that_agree_is_told(tmp_path: Path) -> None:
    metadata = dict.fromkeys(VOTERS, log(BEGIN, 1)) | {1: log(BEGIN, 6)}
    found = written(tmp_path, metadata, {1: [APPLIED_T, SET_ASIDE]})
    assert "unless an election took place" in found.reason and "Delete no such directory" in found.reason


def behind_snapshot(end: int, epoch: int, content: bytes, state: list[bytes], **fields: object) -> MetadataLog:
    """A log that begins at `end`, behind a snapshot of `state`, as every log does that is some weeks old."""
    own = {(end, epoch): write.snapshot(state, epoch=epoch)}
    return MetadataLog({end: content}, own, VOTERS, cluster_id=CLUSTER, **fields)


@pytest.mark.parametrize("epoch", [1, 10])
def test_blank_voters_that_elected_an_empty_history_while_the_right_log_begins_behind_a_snapshot(
    tmp_path: Path, epoch: int
) -> None:
    """D1d, D5z: no offset in common; by its epochs, or else by its times, the short log did not come before the other."""
    state = [*ONLY_T, *write.new_topic("late", LATE_ID, (1, 2), 2)]
    right = behind_snapshot(1000, 4, elected(1000, 100, 5) + moved(1001, epoch=5), state, leader_epoch=5)
    tomorrow = write.TIME_MS + DAY_MS
    empty = log(elected(0, 101, 1, tomorrow) + elected(1, 102, epoch, tomorrow), epoch)
    found = written(tmp_path, {100: right, 1: right, 101: empty, 102: empty}, {1: [APPLIED, APPLIED_T]}, clean=(1,))
    assert found.verdict == "choose" and found.choice.node_id == 100
    assert [one.history for one in found.copies] == ([2, 1, 1, 2] if epoch == 10 else [1, 2, 2, 1])
    assert {one.topic for one in found.copies[1].lost.topics} == {"t", "late"}
    assert [step.controllers for step in found.steps if step.action == "seed"] == [(101,), (102,)]


def test_a_log_whose_checkpoint_is_damaged_is_given_to_nobody(tmp_path: Path) -> None:
    """Cut short as a disk filled: of two equal logs the one with a sound beginning is chosen; of one alone no voter starts."""
    sound = behind_snapshot(1000, 4, elected(1000, 100, 5), ONLY_T, leader_epoch=5)
    hurt = replace(sound, snapshots={(1000, 4): write.snapshot(ONLY_T, epoch=4)[:-60]})
    stale = {101: BEGIN, 102: BEGIN}
    found = written(tmp_path / "1", {100: hurt, 1: sound, **stale}, {1: APPLIED_T}, clean=(1,))
    assert found.verdict == "choose" and found.choice.node_id == 1
    assert [step.controllers for step in found.steps if step.action == "seed"] == [(100,), (101,), (102,)]
    longer = replace(hurt, segments={1000: elected(1000, 100, 5) + moved(1001, epoch=5)})
    alone = written(tmp_path / "2", {100: longer, 1: sound, **stale}, {1: APPLIED_T}, clean=(1,))
    assert (
        actions(alone) == ["copy"]
        and "put a sound one of another node there whose number is 1000 to 1002" in alone.no_plan
    )
    from_start = log(WHOLE, 1, snapshots={(3, 1): write.snapshot(ONLY_T)[:-60]})
    whole = written(tmp_path / "3", {100: from_start, 101: BEGIN, 102: BEGIN}, {1: APPLIED}, clean=(1,))
    assert actions(whole)[-1] == "copy" and "since the log has everything from offset 0 on" in whole.no_plan


@pytest.mark.parametrize("cut", [60, 0], ids=["damaged", "sound"])
def test_a_damaged_checkpoint_is_loaded_though_the_log_goes_back_further(cut: int, tmp_path: Path) -> None:
    """4.3.1: without its metadata.version its node ends; else it goes on with what is before the damage, and tells nobody."""
    content = write.snapshot(ONLY_T)
    hurt = log(WHOLE, 1, snapshots={(3, 1): content[: len(content) - cut]})
    fine = log(WHOLE, 1)
    two = written(tmp_path / "two", {100: fine, 101: hurt, 102: hurt, 1: fine}, {1: APPLIED}, clean=(1,))
    one = written(tmp_path / "one", {100: fine, 101: fine, 102: hurt, 1: hurt}, {1: APPLIED}, clean=(1,))
    assert one.verdict == "agree" and ("the newest .checkpoint of nodes 1 and 102 is damaged" in one.reason) is bool(
        cut
    )
    assert two.verdict == ("choose" if cut else "agree")
    if cut:
        assert two.choice.node_id == 100 and "The newest .checkpoint of nodes 101 and 102 is damaged" in two.reason
        assert [step.controllers for step in two.steps if step.action == "seed"] == [(101,), (102,)]
        broker = written(tmp_path / "broker", {100: fine, 101: hurt, 102: hurt, 1: hurt}, {1: APPLIED}, clean=(1,))
        assert [step.brokers for step in broker.steps if step.action == "empty"] == [(1,)]


def test_a_stale_log_that_ends_before_the_others_begin_is_of_their_history(tmp_path: Path) -> None:
    """A node that was down for weeks: it holds nothing that the others contradict."""
    right = behind_snapshot(1000, 4, elected(1000, 100, 5, write.TIME_MS + DAY_MS), ONLY_T, leader_epoch=5)
    found = written(tmp_path, {100: right, 101: right, 102: BEGIN, 1: right}, {1: APPLIED_T}, clean=(1,))
    assert (found.verdict, found.quarantine) == ("agree", ())
    assert {one.history for one in found.copies} == {1}


def test_a_topic_that_was_deleted_before_a_snapshot_is_not_missing_in_it(tmp_path: Path) -> None:
    """Broker 2 was down when topic x was deleted; who still has its deletion in the log is not right for that."""
    x = make_uuid("x")
    old = write.leader_change(0, 100, VOTERS)
    old += write.batch(1, [*ONLY_T, *write.new_topic("x", x, (1, 2), 1)])
    old += write.batch(5, [write.remove_topic(x)])
    later = MetadataLog({6: moved(6) + elected(7, 101, 2)}, {(6, 1): write.snapshot(ONLY_T)}, VOTERS, 2, CLUSTER)
    metadata = {100: log(old + moved(6) + moved(7, 1), 1), 101: later, 102: later, 1: later}
    brokers = {1: APPLIED_T, 2: [APPLIED_T, Replica(topic="x", topic_id=x)]}
    found = written(tmp_path, metadata, brokers, clean=(1, 2))
    assert found.verdict == "agree" and not any(one.refused for one in found.copies if one.node_id != 100)


def test_a_backup_of_a_node_beside_its_present_log_is_no_log_that_the_node_starts_with(tmp_path: Path) -> None:
    """The plan asks for backups; which directory a node starts with nothing here tells, so no step may presume it."""
    backup = log(WHOLE, 1, log_dir="controller-100-backup")
    written(tmp_path, {node: BEGIN for node in (*VOTERS, 1)}, {1: APPLIED}, clean=(1,))
    write.write_metadata_log(tmp_path, 100, backup)
    found = answer(tmp_path)
    assert found.verdict == "choose" and found.choice.path == "controller-100-backup/__cluster_metadata-0"
    assert actions(found) == ["copy"] and "node 100 has several logs here" in found.no_plan


def test_the_chosen_log_of_a_node_without_an_id_has_no_plan(tmp_path: Path) -> None:
    written(tmp_path, {node: BEGIN for node in (*VOTERS, 1)}, {1: APPLIED}, clean=(1,))
    write.write_metadata_log(tmp_path, 103, log(WHOLE, 1, log_dir="found"))
    (tmp_path / "found/meta.properties").unlink()
    found = answer(tmp_path)
    assert found.verdict == "choose" and found.choice.node_id is None
    assert "meta.properties" in found.no_plan and "None" not in render_quorum(found)
    assert "  found/__cluster_metadata-0\n    loses nothing" in render_quorum(found)


def test_a_newer_log_that_cannot_be_read_may_hold_more(tmp_path: Path) -> None:
    """Whether it is a record of a kind that is not known here, or damage in the middle: it is not passed over."""
    unknown = WHOLE + write.batch(5, [write.message(3, 9, b"\x01\x02")])
    damaged = WHOLE[: len(BEGIN) + 30] + b"xxxx" + WHOLE[len(BEGIN) + 34 :] + moved(5)
    for number, newest in enumerate((unknown, damaged)):
        found = written(
            tmp_path / f"{number}", {100: newest, 101: BEGIN, 102: BEGIN, 1: BEGIN}, {1: APPLIED_T}, clean=(1,)
        )
        assert found.verdict == "agree" and not found.steps
        assert "log of node 100 goes further" in found.reason and 100 not in found.without_log
        lacking = written(tmp_path / f"{number}-lacking", {100: newest, 1: BEGIN}, {1: APPLIED_T}, clean=(1,))
        assert lacking.verdict == "none" and "log of node 100 goes further" in lacking.reason
        assert actions(lacking) == ["capture", "copy"] and "cannot be read" in lacking.no_plan


def test_a_log_whose_end_cannot_be_read_is_looked_for_elsewhere(tmp_path: Path) -> None:
    """A disk that fails: nobody knows how far it went, so what is left is not said to be all there was."""
    failing = BEGIN + b"\x01" * 100
    agreeing = written(tmp_path / "1", {100: failing, 101: BEGIN, 102: BEGIN, 1: BEGIN}, {1: APPLIED_T}, clean=(1,))
    assert agreeing.verdict == "agree" and "node 100 cannot be read to its end" in agreeing.reason
    left = written(tmp_path / "2", {100: failing, 102: BEGIN, 1: WHOLE}, {1: APPLIED}, clean=(1,))
    assert left.verdict == "choose" and "Node 100 cannot be read" not in left.reason
    assert "how far it goes is not known" in left.reason
    assert left.steps[0].action == "capture" and left.steps[0].controllers == (100, 101)


@pytest.mark.parametrize("damage", ["checksum", "hole"])
def test_logs_of_a_majority_that_are_damaged_in_one_place_are_not_passed_over(damage: str, tmp_path: Path) -> None:
    """Nothing shows what was there, in no copy; where one voter of three is damaged the others have the majority."""
    cut = LATE[:-3] + b"xxx" if damage == "checksum" else b""
    damaged = BEGIN + cut + moved(5)
    found = written(tmp_path / "1", dict.fromkeys((*VOTERS, 1), damaged), {1: APPLIED_T}, clean=(1,))
    assert found.verdict == "none" and "log of nodes 100, 101 and 102 is damaged" in found.reason
    assert actions(found) == ["copy"] and "cannot be read" in found.no_plan
    one = written(tmp_path / "2", {100: damaged, 101: BEGIN, 102: BEGIN, 1: BEGIN}, {1: APPLIED_T}, clean=(1,))
    assert one.verdict == "agree" and "goes further" in one.reason


def test_an_older_log_that_cannot_be_read_is_only_quarantined(tmp_path: Path) -> None:
    damaged = BEGIN[:-3] + b"xxx"
    found = written(tmp_path, {100: WHOLE, 101: WHOLE, 102: damaged, 1: WHOLE}, {1: APPLIED}, clean=(1,))
    assert found.verdict == "agree" and len(found.quarantine) == 1


def test_a_voter_of_which_only_partitions_were_copied_is_asked_for_its_metadata(tmp_path: Path) -> None:
    """metadata.log.dir is apart from log.dirs."""
    partitions = {1: APPLIED, 101: APPLIED, 102: APPLIED}
    found = written(tmp_path, {100: WHOLE, 1: WHOLE}, partitions, clean=(1, 101, 102))
    assert actions(found)[:2] == ["capture", "copy"] and found.steps[0].controllers == (101, 102)
    # The disk that it is on may be empty.
    assert all(f"SERVER_PROPERTIES_OF_{node} --ignore-formatted" in commands(found, "seed") for node in (101, 102))


def test_stopping_voters_that_are_brokers_too_is_said_to_stop_them(tmp_path: Path) -> None:
    late = write.batch(3, write.new_topic("late", LATE_ID, (100, 101), 100))
    logs = {100: BEGIN + late, 101: BEGIN, 102: BEGIN}
    metadata = {node: log(one, 1, log_dir=f"broker-{node}") for node, one in logs.items()}
    found = written(tmp_path, metadata, {100: [APPLIED_T, APPLIED], 101: APPLIED_T, 102: APPLIED_T}, clean=VOTERS)
    stop = next(step for step in found.steps if step.action == "stop")
    assert "Nodes 100, 101 and 102 are brokers too, and serve nothing while they are stopped" in stop.text
    assert render_quorum(found).startswith("One copy is the best: the log of combined node 100")


def test_voters_that_are_brokers_too_start_after_the_copy_that_elect_orders_them_by(tmp_path: Path) -> None:
    """Who starts first may lead, and cut what the others have of a partition."""
    metadata = {100: log(WHOLE, 1, log_dir="broker-100")} | {
        node: MetadataLog({0: b""}, voters=VOTERS, cluster_id=CLUSTER, log_dir=f"broker-{node}") for node in (101, 102)
    }
    found = written(tmp_path, metadata, dict.fromkeys(VOTERS, APPLIED_T), clean=VOTERS)
    ordered = [at for at, one in enumerate(found.steps) if one.commands == ("replica-audit elect AFTER",)]
    starts = [at for at, one in enumerate(found.steps) if one.action == "start"]
    assert len(ordered) == 1 and ordered[0] < min(starts)
    assert "nodes 100, 101 and 102 too, which are brokers as well as voters" in found.steps[ordered[0]].text
    assert (
        "first start those that lose nothing by its table, instead of the order below" in found.steps[ordered[0]].text
    )
    assert all("You have made the copies that elect asks for" in found.steps[at].before[0] for at in starts)


def test_the_configuration_that_only_a_broker_has_is_given_to_the_voters(tmp_path: Path) -> None:
    """A majority holds what is proven, and the chosen log goes on; without more in it the voters only count on from its epoch."""
    more = write.batch(4, [write.config(2, "t", "retention.ms", "1")], epoch=6)
    ended = {node: log(BEGIN, 1) for node in VOTERS}
    found = written(tmp_path / "1", ended | {1: log(BEGIN + elected(3, 101, 6) + more, 6)}, {1: APPLIED_T}, clean=(1,))
    assert found.verdict == "choose" and found.choice.node_id == 1
    assert [step.controllers[0] for step in found.steps if step.action == "seed"] == [100, 101, 102]
    same = written(tmp_path / "2", ended | {1: log(BEGIN + elected(3, 101, 6), 6)}, {1: APPLIED_T}, clean=(1,))
    assert [step.controllers[0] for step in same.steps if step.action == "mend_epoch"] == [100, 101, 102]
    assert {json.loads(text)["leaderEpoch"] for step in same.steps for text in step.files.values()} == {6}


def test_who_has_partitions_that_are_given_up_is_stopped_first(tmp_path: Path) -> None:
    """Their copies are of stopped brokers; also of one whose metadata log is not here, and one that agrees with the choice."""
    blank = log(b"", directory_id=IDS[101])
    held = [APPLIED_T, replace(APPLIED, batches=BATCH)]
    found = written(tmp_path, {100: BEGIN, 101: blank, 102: b"", 1: BEGIN}, {1: held, 2: held})
    stopped: set[int] = set()
    for step in found.steps:
        for condition in step.before:
            if "stopped, and their producers" in condition:
                assert step.brokers == (1, 2) and stopped.issuperset(step.brokers)
        stopped |= {*step.brokers, *step.controllers} if step.action == "stop" else set()
    assert not any("stays as it is" in step.text for step in found.steps)


def test_copies_of_what_is_given_up_name_each_disk_and_overwrite_nothing(tmp_path: Path) -> None:
    forked(tmp_path)
    another = replace(APPLIED, partition=1, batches=BATCH)
    write_snapshot(tmp_path / "more", {1: another}, cluster_id=CLUSTER)
    (tmp_path / "more/broker-1").rename(tmp_path / "broker-1-b")
    found = answer(tmp_path, node_id=100)
    step = next(step for step in found.steps if "broker-1-given-up.tgz" in repr(step.commands))
    assert [one.split(" -C ")[1] for one in step.commands] == ["LOG_DIR_OF_1 -- ./late-0", "LOG_DIR_OF_1 -- ./late-1"]
    assert "the log directory that has what the command names" in step.text
    assert any("No archive with these names exists yet" in one for one in step.before)
    assert "become -stray (before Kafka 3.7 brokers delete them), no" in step.text
    for version, fate in (
        ("3.6.2", "brokers before Kafka 3.7 delete their"),
        ("3.7.0", "their directories become -stray, no"),
    ):
        assert fate in repr(answer(tmp_path, node_id=100, kafka_version=version).steps)


def test_two_stray_directories_of_one_partition_are_not_put_back(tmp_path: Path) -> None:
    went_on = BEGIN + elected(3, 101, 2, write.TIME_MS + DAY_MS) + moved(4, epoch=2, time_ms=write.TIME_MS + DAY_MS)
    metadata = {100: log(WHOLE, 1), 101: log(went_on, 2), 102: log(went_on, 2), 1: log(went_on, 2)}
    twice = replace(SET_ASIDE, suffix=STRAY.replace("0", "1"))
    found = written(tmp_path, metadata, {1: [APPLIED_T, SET_ASIDE, twice]}, clean=(1,))
    assert actions(found) == ["copy"] and "broker 1 has several directories of late-0" in found.no_plan


def test_a_broker_of_which_only_partitions_were_copied_is_asked_for_its_metadata(tmp_path: Path) -> None:
    """It may have applied more than any copy here; what it applied is not claimed to be known."""
    metadata = {100: WHOLE, 101: BEGIN, 102: BEGIN, 1: WHOLE}
    found = written(tmp_path, metadata, {1: APPLIED, 2: APPLIED}, clean=(1, 2))
    assert (found.steps[0].action, found.steps[0].brokers, found.steps[0].controllers) == ("capture", (2,), ())
    assert (
        "Node 1 stays as it is, up or down: the chosen log has all that it applied"
        in next(step for step in found.steps if step.action == "stop").text
    )
    assert [step.brokers for step in found.steps if step.action == "start" and step.brokers] == [(1,), (2,)]


@pytest.mark.parametrize(("state", "is_told"), [(1, True), (2, False), (3, False)])
def test_zookeeper_is_compared_first_while_controllers_write_to_it(state: int, is_told: bool, tmp_path: Path) -> None:
    """A controller that leads with an older log deletes from ZooKeeper topics that it does not know (KRaftMigrationZkWriter)."""
    stale = BEGIN + write.batch(3, [write.zk_migration(2)]) + write.batch(4, [write.zk_migration(state)])
    found = written(tmp_path / "lost", {102: stale})
    first = found.steps[0]
    assert found.verdict == "choose"
    assert (first.action == "check" and first.text.startswith("Copy what ZooKeeper has")) is is_told
    assert not written(tmp_path / "sound", dict.fromkeys(VOTERS, stale)).steps


def test_where_no_log_is_right_the_newest_can_be_gone_on_with(tmp_path: Path) -> None:
    """What it loses is named and copied first: topics that it does not know, and partitions whose leader epochs it gives out again."""
    late = Replica(BATCH, topic="late", topic_id=LATE_ID)
    ahead = Replica(BATCH, epochs=((0, 0), (7, 1)), topic="t", topic_id=TOPIC_ID)
    found = written(tmp_path, dict.fromkeys(VOTERS, log(BEGIN, 1)), {1: [late, ahead], 2: APPLIED_T}, clean=(1, 2))
    assert found.verdict == "none" and "quorum --choose 100 has the plan for the log of node 100" in found.no_plan
    asked = answer(tmp_path, node_id=100)
    assert (asked.verdict, asked.choice.node_id, asked.choice.asked, asked.no_plan) == ("choose", 100, True, None)
    assert [(one.topic, one.records) for one in asked.lost.stray] == [("late", 1)]
    assert any("the leader epochs of t-0 are given out again above 0" in one for one in asked.copies[0].breaks)
    copied = commands(asked, "copy")
    assert "broker-1-given-up.tgz -C LOG_DIR_OF_1 -- ./late-0" in copied
    assert "broker-1-ahead.tgz -C LOG_DIR_OF_1 -- ./t-0" in copied and "LOG_DIR_OF_2 -- ./t-0" not in copied
    assert next(step for step in asked.steps if step.action == "stop").brokers == (1,)
    order = next(step for step in asked.steps if "replica-audit elect AFTER" in step.commands)
    assert "put back that file of each from the copy" in order.text
    assert "begins with 8 or more" in order.text and "in sync again and brokers have forgotten" in order.before[0]
    # By the same logs elect points to quorum, as it has to where nobody came from there.
    refused = plan_elections(audit_all(str(tmp_path), Settings(kafka_version="4.3.1")))
    assert "says to start no controller and to run quorum, this plan has done that" in order.text
    assert refused.steps[0].text.startswith("Start no controller")
    assert refused.steps[0].text.endswith("where its plan asked for this answer, go on with that plan")
    starts = [at for at, step in enumerate(asked.steps) if step.action == "start" and step.brokers]
    assert starts and asked.steps.index(order) < min(starts)


def test_brokers_forget_producers_where_their_ids_are_given_out_again(tmp_path: Path) -> None:
    """A new producer with the id of one of before has its first batches acknowledged as repeated ones, and not written."""
    setting = "--entity-default --alter --add-config producer.id.expiration.ms=1000"
    told = "producer ids are given out again"
    write_again = dict.fromkeys(VOTERS, log(BEGIN, 1))
    written(tmp_path / "none", write_again, {1: APPLIED, 2: APPLIED_T}, clean=(1, 2))
    asked = answer(tmp_path / "none", node_id=100)
    assert told in asked.copies[0].breaks[-2]
    # No copy has the deletion of a topic, say, of which brokers keep nothing.
    assert asked.copies[0].breaks[-1].startswith("other changes since then are not known: configurations")
    assert "of the metadata log in all" not in render_quorum(asked)
    forget = next(step for step in asked.steps if step.action == "forget_producers")
    assert setting in forget.commands[1] and "starts again only ten minutes" in forget.before[0]
    assert [step.action for step in asked.steps][-2:] == ["forget_producers", "verify"]
    assert "# before Kafka 3.5:" in forget.commands
    # The other history of a fork has given out blocks that the chosen one has not.
    given = BEGIN + elected(3, 101, 2) + write.batch(4, [write.producer_ids(2000)])
    short = BEGIN + elected(3, 102, 3) + write.batch(4, [write.no_op()])
    for asked_for, is_lost in ((100, True), (1, False)):
        path = tmp_path / str(asked_for)
        written(path, dict.fromkeys(VOTERS, short) | {1: given}, {1: APPLIED_T}, clean=(1,))
        found = answer(path, node_id=asked_for)
        assert (found.lost.producer_id_blocks > 0) is is_lost
        assert ("forget_producers" in actions(found)) is is_lost
        own = next(one for one in found.copies if one.node_id == asked_for)
        assert any(told in one for one in own.breaks) is is_lost


def test_of_a_log_whose_end_cannot_be_read_nobody_goes_on_with_less(tmp_path: Path) -> None:
    metadata = {100: log(BEGIN, 1), 101: log(BEGIN, 1), 102: log(WHOLE[:-1] + b"x", 1)}
    found = written(tmp_path, metadata, {1: APPLIED}, clean=(1,))
    assert found.verdict == "none" and "--choose" not in found.no_plan
    assert answer(tmp_path, node_id=100).verdict == "none"


def test_nothing_is_lost_for_certain_only_where_a_majority_has_its_own_log(tmp_path: Path) -> None:
    """A voter that was removed, or one of three, is all that is here: what others committed since then shows nowhere."""
    removed = DYNAMIC + write.voters_record(4, {node: IDS[node] for node in (100, 101)})
    gone = written(tmp_path / "removed", {102: log(removed, directory_id=IDS[102])})
    one = written(tmp_path / "one", {101: WHOLE})
    for found in (gone, one):
        assert (
            found.verdict == "choose"
            and "is the only one here: if it is from a backup, or others went on" in found.reason
        )
        assert "all that the others hold" not in found.reason
        assert "loses nothing that the copies here have\n" in render_quorum(found)
    with_broker = written(tmp_path / "broker", {101: WHOLE, 1: WHOLE}, {1: APPLIED}, clean=(1,))
    assert "is all that is here" not in with_broker.reason and "holds all that the others hold" in with_broker.reason
    assert "loses nothing that the copies here have\n" in render_quorum(with_broker)
    standalone = write.leader_change(0, 100, (100,), epoch=9, time_ms=write.TIME_MS + DAY_MS)
    spoilt = MetadataLog({0: standalone}, voters=(100,), leader_epoch=9, cluster_id=CLUSTER)
    most = written(tmp_path / "most", {100: spoilt, 101: WHOLE, 102: WHOLE, 1: WHOLE}, {1: APPLIED}, clean=(1,))
    assert most.is_whole and "loses nothing but 1 record" in render_quorum(most)


ALONE = write.history(ONLY_T)


@pytest.mark.parametrize("migrating", [False, True])
def test_the_only_log_here_is_not_started_before_it_is_known_what_else_there_is(
    migrating: bool, tmp_path: Path
) -> None:
    """The only controller, from a backup: nothing in the snapshot can show what it lacks."""
    states = [write.zk_migration(1)] if migrating else []
    content = ALONE + write.batch(3, [*states, *(write.register_broker(broker) for broker in range(1000, 2000))])
    only = MetadataLog({0: content}, voters=(100,), leader_epoch=1, cluster_id=CLUSTER)
    found = written(tmp_path / "alone", {100: only})
    assert (found.verdict, found.no_plan) == ("agree", None)
    assert (
        "The copy of node 100 is the only one here: if it is from a backup, or others went on while its node was down, nothing here "
        "shows what it lacks" in found.reason
    )
    assert actions(found) == ["check", "capture"][not migrating :]
    assert (
        "of nodes 1000 to 1999, of brokers first of those that were up last, or a backup of it" in found.steps[-1].text
    )
    assert found.steps[-1].brokers == tuple(range(1000, 2000))
    # A broker's own copy, or what it applied, would show it.
    for name, more, brokers in (("copy", {1: content}, {}), ("partitions", {}, {1: APPLIED_T})):
        known = written(tmp_path / name, {100: only} | more, brokers)
        assert "all that is here" not in known.reason and not known.steps


@pytest.mark.parametrize(
    ("kept", "told"),
    [
        ({"/brokers/topics/t/partitions/0/state": {"leader": 1, "leader_epoch": 0, "isr": [1]}}, None),
        (
            {"/brokers/topics/t/partitions/0/state": {"leader": 1, "leader_epoch": 3, "isr": [1]}},
            "leader epoch 3 of t-0",
        ),
        ({"/brokers/topics/t/partitions/1/state": {"leader": 1, "leader_epoch": 0, "isr": [1]}}, "partition t-1"),
        ({"/brokers/topics/late/partitions/0/state": {"leader": 1, "leader_epoch": 0, "isr": [1]}}, "topic late"),
    ],
    ids=["the same", "epoch", "partition", "topic"],
)
@pytest.mark.parametrize("migrating", [False, True])
def test_what_zookeeper_has_and_no_log_is_named_before_a_controller_deletes_it(
    kept: Mapping[str, object], told: str | None, migrating: bool, tmp_path: Path
) -> None:
    """Q9. A cluster that has left ZooKeeper may have old states of it."""
    content = BEGIN + write.batch(3, [write.zk_migration(1 if migrating else 3)])
    logs = dict.fromkeys(VOTERS, log(content, 1))
    lost = told if migrating else None
    for quiesced in (True, False):
        path = tmp_path / str(quiesced)
        path.mkdir()
        (path / "zookeeper.json").write_text(json.dumps(kept))
        write_manifest(path, quiesced=quiesced)
        found = written(path, logs)
        assert found.verdict == ("none" if lost and quiesced else "agree")
        assert (f"ZooKeeper has {lost}, which no log here has" in found.reason) is (lost is not None), found.reason
        assert (actions(found)[:1] == ["check"]) is (lost is not None)
        assert (found.no_plan is not None) is bool(lost and quiesced)
        if lost:
            assert found.steps[0].text.startswith("This cluster is migrating from ZooKeeper")
            assert not quiesced or "let brokers go back to ZooKeeper" in found.no_plan


def test_nodes_are_named_by_runs_and_many_are_counted() -> None:
    assert name_nodes([1, 2, 3, 4, 7]) == "nodes 1, 2, 3, 4 and 7"
    assert name_nodes([*range(1000), 1001]) == "nodes 0 to 999 and 1001"
    assert name_nodes(range(0, 100, 2)).endswith(", 36, 38 and 30 more")


def changed(
    path: Path, before: Mapping[int, str], now: Mapping[int, str], stale: Sequence[int], **options: object
) -> QuorumAnswer:
    """A quorum whose voters were `before` and are `now`; the disks of `stale` are from before the change."""
    begin = write.leader_change(0, 100, tuple(before)) + write.voters_record(1, before) + write.batch(2, ONLY_T)
    later = begin + write.voters_record(4, now) + write.batch(5, [write.change(TOPIC_ID, leader=2)])
    logs = {node: log(begin if node in stale else later, 1, directory_id=IDS[node]) for node in VOTERS}
    return written(path, logs | {1: later}, {1: APPLIED_T}, **options)


@pytest.mark.parametrize(
    ("before", "now", "stale"),
    [
        (VOTERS, (100,), (101, 102)),  # two were removed
        ((100,), VOTERS, (100,)),  # the first was formatted with --standalone, and others were added
        ((100, 101), (100, 102), (101,)),  # it needs the vote of one that has more
        (VOTERS, (100, 101), (102,)),
        (VOTERS, VOTERS, (102,)),
    ],
)
def test_nodes_that_would_elect_by_the_voters_of_before_are_not_started_with_their_logs(
    before: tuple[int, ...], now: tuple[int, ...], stale: tuple[int, ...], tmp_path: Path
) -> None:
    """A leader beside that of the voters of now, with the epochs of now: a majority that holds everything does not hinder it."""
    ids = {node: IDS[node] for node in before}, {node: IDS[node] for node in now}
    found = changed(tmp_path, *ids, stale, clean=(1,))
    elects = len(stale) > len(before) // 2
    assert found.verdict == ("choose" if elects else "agree"), found.reason
    if elects:
        told = "may elect a leader among themselves" if len(stale) > 1 else "elects itself as soon as it starts"
        assert told in found.reason and found.choice is not None and found.choice.node_id not in stale
        put_aside = [node for step in found.steps if step.action == "empty" for node in step.controllers]
        assert put_aside == list(stale)
        stopped = [node for step in found.steps if step.action == "stop" for node in (*step.controllers, *step.brokers)]
        assert stopped == list(stale)


def test_voters_that_did_not_change_are_not_said_to_have(tmp_path: Path) -> None:
    """A majority lacks what a .checkpoint shows to be committed; where voters changed that is named as the proof."""
    whole = MetadataLog({0: WHOLE}, {(5, 1): write.snapshot(ONLY_T)}, VOTERS, 1, cluster_id=CLUSTER)
    found = written(tmp_path / "same", {100: whole, 101: BEGIN, 102: BEGIN}, {1: APPLIED_T}, clean=(1,))
    assert (
        found.verdict == "choose" and "own log" not in found.reason and "a majority of the voters" not in found.reason
    )
    later = DYNAMIC + write.voters_record(4, {100: IDS[100], 102: IDS[102]}) + moved(5)
    newest = log(later, 1, directory_id=IDS[100], snapshots={(6, 1): write.snapshot(ONLY_T)})
    metadata = {100: newest, 102: log(b"", directory_id=IDS[102]), 101: log(DYNAMIC, 1, directory_id=IDS[101])}
    removed = replace(metadata[101], directory_id=IDS[102])
    changed = written(tmp_path / "changed", metadata | {102: removed}, {1: APPLIED_T}, clean=(1,))
    assert "6-0000000001.checkpoint was taken of it" in changed.reason and "By their own logs" in changed.reason
    behind = replace(newest, segments={6: b""})
    only = written(tmp_path / "behind", metadata | {100: behind, 102: removed}, {1: APPLIED_T}, clean=(1,))
    assert only.verdict == "choose", only.reason


def test_voters_of_before_that_every_configuration_names_anew_do_not_elect_by_their_logs(tmp_path: Path) -> None:
    """Without KIP-853 a node takes the voters from controller.quorum.voters, whatever its log says."""
    begin = write.history(ONLY_T)
    later = begin + write.leader_change(3, 100, VOTERS) + write.batch(4, [write.change(TOPIC_ID, leader=2)])
    found = written(tmp_path, {100: begin, 101: later, 102: later, 1: later}, {1: APPLIED_T}, clean=(1,))
    assert (found.verdict, found.steps) == ("agree", ())


def test_what_one_of_three_voters_holds_is_proven_by_what_brokers_applied_not_by_a_majority(tmp_path: Path) -> None:
    begin = write.leader_change(0, 100, (100,)) + write.voters_record(1, {100: IDS[100]}) + write.batch(2, ONLY_T)
    created = write.new_topic("late", LATE_ID, (1, 2), 1)
    later = begin + write.voters_record(4, IDS) + write.batch(5, created)
    logs = {node: log(one, 1, directory_id=IDS[node]) for node, one in {100: begin, 101: later}.items()}
    found = written(tmp_path, logs | {1: later}, {1: APPLIED}, clean=(1,))
    assert found.reason.startswith("Node 100 lacks what was committed: broker 1 has a directory of late-0")
    assert "majority" not in found.reason


def test_the_disk_of_a_voter_from_before_it_was_replaced_is_not_that_of_the_voter(tmp_path: Path) -> None:
    """By its own log it votes still; the one that took its place may hold more."""
    directory = make_uuid("new 102")
    later = DYNAMIC + write.voters_record(4, IDS | {102: directory})
    metadata = {101: log(later, 1, directory_id=IDS[101]), 102: log(DYNAMIC, 1, directory_id=IDS[102])}
    found = written(tmp_path, metadata | {1: later}, {1: APPLIED_T}, clean=(1,))
    said = " ".join(render_quorum(found).split())
    assert f"Node 102 cannot vote: its directory.id is {IDS[102]}, and that of the voter {directory}." in said
    assert (found.steps[0].action, found.steps[0].controllers) == ("capture", (100, 102))


def test_brokers_that_were_not_captured_are_looked_for_where_controllers_are_lost(tmp_path: Path) -> None:
    """The only controller left is from a backup: what became of topics since then, only brokers know."""
    registered = write.batch(3, [write.register_broker(1), write.register_broker(2), write.register_broker(3)])
    stale = BEGIN + registered + write.batch(6, [write.unregister_broker(3)])
    found = written(tmp_path / "left", {102: stale})
    first = found.steps[0]
    assert (found.verdict, first.action, first.brokers, first.controllers) == ("choose", "capture", (1, 2), (100, 101))
    one = written(tmp_path / "one", {102: stale, 1: stale}, {1: APPLIED_T}, clean=(1,))
    assert (one.steps[0].action, one.steps[0].brokers) == ("capture", (2,))
    every = written(tmp_path / "every", {102: stale, 1: stale, 2: stale, 100: BEGIN, 101: BEGIN}, {1: APPLIED_T})
    assert "capture" not in actions(every)


def test_a_snapshot_shows_what_was_committed(tmp_path: Path) -> None:
    """R3."""
    checkpoint = {(5, 1): write.snapshot(write.new_topic("t", TOPIC_ID, (1, 2), 1))}
    forked = BEGIN + moved(3) + elected(4, 101, 2)
    metadata = {100: MetadataLog({0: WHOLE}, checkpoint, VOTERS)}
    found = written(tmp_path, metadata | {101: forked, 102: forked})
    assert found.verdict == "choose" and found.choice.node_id == 100
    assert any("was committed" in reason for reason in found.copies[1].refused)
    assert found.copies[0].proven_end == 5 and found.copies[0].proof.endswith("committed records only")


def test_seeds_prove_no_majority(tmp_path: Path) -> None:
    """R5: a voter notes an epoch before it writes its records, and one directory is one vote."""
    put_there = written(tmp_path / "1", {100: log(WHOLE, 1), 101: log(WHOLE, 0), 102: log(BEGIN, 1)})
    assert [one.seeded is not None for one in put_there.copies] == [False, True, False]
    shared = make_uuid("shared")
    same = {node: log(WHOLE, 1, directory_id=shared if node != 102 else None) for node in VOTERS}
    copied = written(tmp_path / "2", same)
    assert [one.seeded is not None for one in copied.copies] == [True, True, False]
    fetched = written(tmp_path / "3", {node: log(WHOLE, 1, directory_id=IDS[node]) for node in VOTERS})
    assert not any(one.seeded for one in fetched.copies) and fetched.verdict == "agree"


def test_two_blank_voters_of_a_dynamic_quorum_get_their_old_directory_ids(tmp_path: Path) -> None:
    """D1c, D1e: and never --standalone; the survivor is started first and stays up."""
    metadata = {100: log(DYNAMIC, 1, directory_id=IDS[100])}
    metadata |= {node: log(b"", directory_id=make_uuid(f"new {node}")) for node in (101, 102)}
    found = written(tmp_path, metadata | {1: DYNAMIC}, {1: APPLIED_T})
    assert found.is_dynamic and found.choice.node_id == 100 and found.without_log == (101, 102)
    for node in (101, 102):
        assert f"$adirectory.id={IDS[node]}" in commands(found, "seed")
    starts = [step for step in found.steps if step.action == "start"]
    assert starts[0].controllers == (100,) and "Node 100 is up and stays up" in starts[1].before
    # Where all have new addresses nobody would lead for ever: the log has the old ones.
    reached = [[one for one in step.before if "reach node" in one] for step in starts]
    assert [len(one) for one in reached] == [0, 1, 1, 0]
    assert reached[1][0].startswith("The other voters reach node 101 at voter-101:9093, where the chosen log has it. ")
    assert "standalone" not in repr(found.steps)


def test_voters_of_a_static_quorum_are_looked_for_where_the_settings_of_every_node_have_them(tmp_path: Path) -> None:
    """Nodes that stay up would look for a voter on a new host at its old address."""
    found = written(tmp_path, {100: log(WHOLE, 1), 101: log(b""), 1: WHOLE, 2: WHOLE}, {1: APPLIED, 2: APPLIED})
    told = {
        step.controllers or step.brokers: [
            one for one in step.before if one.startswith("controller.quorum.voters of every")
        ]
        for step in found.steps
        if step.action == "start"
    }
    assert {nodes for nodes, conditions in told.items() if conditions} == {(101,), (102,)}
    assert (
        "the address at which node 102 is now" in told[(102,)][0]
        and "started again only: one after the other, as soon" in told[(102,)][0]
        and "a broker that does not find it there ends five minutes after SIGTERM" in told[(102,)][0]
    )


def test_the_only_voter_is_looked_for_by_no_other(tmp_path: Path) -> None:
    begin = write.leader_change(0, 100, (100,)) + write.voters_record(1, {100: IDS[100]}) + write.batch(2, ONLY_T)
    blank = MetadataLog({0: b""}, voters=(100,), cluster_id=CLUSTER, directory_id=make_uuid("new"))
    found = written(tmp_path, {100: blank, 1: begin}, {1: APPLIED_T}, clean=(1,))
    assert [step.controllers for step in found.steps if step.action == "seed"] == [(100,)]
    assert not any("reach node" in one for step in found.steps for one in step.before)
    assert "Voter: 100, known by its directory; node 100 has no log here." in render_quorum(found)
    barred = next(one for copy in found.copies for one in copy.breaks if "cannot vote" in one)
    assert (
        "no majority can elect a leader as it is. Such a voter's meta.properties has to get the directory.id that it"
        in barred
    )


def test_blank_voters_that_elected_an_empty_history_are_seeded_from_the_survivor(tmp_path: Path) -> None:
    """D1d: a majority agrees on it, and knows none of the topics that brokers applied."""
    old = DYNAMIC + elected(4, 100, 3)
    empty = write.leader_change(0, 101, VOTERS, time_ms=write.TIME_MS + DAY_MS) + write.voters_record(1, IDS)
    metadata = {100: log(old, 3, directory_id=IDS[100]), 1: log(old, 3)}
    metadata |= {node: log(empty, 1, directory_id=IDS[node]) for node in (101, 102)}
    found = written(tmp_path, metadata, {1: APPLIED_T}, clean=(1,))
    assert found.verdict == "choose" and found.choice.node_id == 100
    assert [step.controllers for step in found.steps if step.action == "seed"] == [(101,), (102,)]
    assert "does not know topic t" in " ".join(found.copies[1].refused)


def test_the_same_epoch_of_two_leaders_is_decided_by_what_brokers_applied(tmp_path: Path) -> None:
    """D3: stale voters elected one in an epoch that another had led, and end later; without brokers nothing tells."""
    stale = DYNAMIC + elected(4, 102, 3, write.TIME_MS + DAY_MS) + moved(5, epoch=3) + moved(6, 1, epoch=3)
    whole = DYNAMIC + elected(4, 100, 3)
    whole += write.batch(5, write.new_topic("late", LATE_ID, (1, 2), 2), epoch=3)
    metadata = {100: log(whole, 3, directory_id=IDS[100]), 1: log(whole, 3)}
    metadata |= {node: log(stale, 3, directory_id=IDS[node]) for node in (101, 102)}
    found = written(tmp_path / "1", metadata, {1: APPLIED}, clean=(1,))
    assert found.verdict == "choose" and found.choice.node_id == 100
    assert found.copies[1].parts_at == 4 and [one.topic for one in found.copies[1].lost.topics] == ["late"]


def test_a_survivor_that_was_formatted_anew_gets_its_own_id_back(tmp_path: Path) -> None:
    """D5b: with another id nobody elects, though it has everything; its log stays where it is."""
    survivor = log(DYNAMIC + moved(4), 1, directory_id=make_uuid("new 100"))
    found = written(tmp_path, {100: survivor, 1: DYNAMIC}, {1: APPLIED_T})
    assert found.choice.node_id == 100 and found.copies[0].may_vote is False
    own = next(step for step in found.steps if step.action == "seed" and step.controllers == (100,))
    assert "put-aside" not in repr(own) and own.irreversible is None
    assert own.commands == (
        f"sed -i -e '$adirectory.id={IDS[100]}' -e '/^directory[.]id=/d' LOG_DIR_OF_100/meta.properties",
    )


def test_the_chosen_log_is_never_unpacked_over_another(tmp_path: Path) -> None:
    """Carried out a second time, or in a directory where an earlier plan was: bash stops before the two logs are mixed."""
    found = written(tmp_path / "snapshot", {101: BEGIN, 102: BEGIN, 100: WHOLE, 1: WHOLE}, {1: APPLIED}, clean=(1,))
    host = shutil.copytree(tmp_path / "snapshot", tmp_path / "host")
    for node, kind in ((100, "controller"), (102, "controller")):
        (host / f"{kind}-{node}").rename(host / f"LOG_DIR_OF_{node}")

    def carry_out() -> None:
        steps = [one for one in found.steps if one.action == "pack" or one.controllers == (102,)]
        script = "\n".join(command for one in steps if one.action in ("pack", "seed") for command in one.commands)
        subprocess.run(["bash", "-c", script], cwd=host, check=False, capture_output=True)

    printed = " ".join(word for word in render_quorum(found).split() if word != "\\")
    assert "put-aside-102 && tar -xzf chosen-metadata.tgz -C LOG_DIR_OF_102" in printed
    carry_out()
    own = host / "LOG_DIR_OF_102/__cluster_metadata-0"
    assert (own / f"{0:020d}.log").read_bytes() == WHOLE and not (own / "quorum-state").exists()
    (own / "quorum-state").write_text("of now")
    (own / f"{5:020d}.log").write_bytes(b"of now")
    (own / f"{0:020d}.log").write_bytes(b"of now")
    carry_out()
    assert {file.read_bytes() for file in own.iterdir()} == {b"of now"}
    assert (host / "put-aside-102" / f"{0:020d}.log").read_bytes() == BEGIN


@pytest.mark.parametrize("lines", ["directory.id=new\nnode.id=100\n", "node.id=100\ndirectory.id=new", "node.id=100\n"])
def test_the_old_directory_id_is_written_whether_there_is_another_or_none(tmp_path: Path, lines: str) -> None:
    file = tmp_path / "LOG_DIR_OF_100/meta.properties"
    file.parent.mkdir()
    file.write_text(lines)
    subprocess.run(["bash", "-c", set_directory_id(100, IDS[100])], cwd=tmp_path, check=True)
    assert sorted(file.read_text().splitlines()) == [f"directory.id={IDS[100]}", "node.id=100"]


def test_one_voter_formatted_anew_is_removed_before_it_is_added(tmp_path: Path) -> None:
    """D4a; with its old directory id it votes at once (D4n) and nothing is to be done."""
    sound = {node: log(DYNAMIC, 1, directory_id=IDS[node]) for node in (100, 101)} | {1: DYNAMIC}
    anew = written(tmp_path / "1", sound | {102: log(b"", directory_id=make_uuid("new 102"))}, {1: APPLIED_T})
    assert (anew.verdict, anew.choice) == ("rejoin", None)
    told = commands(anew, "replace_voter").split("\n")
    assert f"and that of the voter {IDS[102]}." in " ".join(render_quorum(anew).split())
    assert "remove-controller" in told[0] and IDS[102] in told[0] and told[1].endswith("add-controller")
    assert f"with directory.id={IDS[102]}, is lost: if it is not, put it back" in anew.steps[0].before[0]
    old = written(tmp_path / "2", sound | {102: log(b"", directory_id=IDS[102])}, {1: APPLIED_T})
    assert old.verdict == "agree" and not old.steps
    # Those that have the log keep their quorum-state.
    voted = {node: log(DYNAMIC, 2, directory_id=IDS[node]) for node in (100, 101)} | {1: DYNAMIC}
    later = written(tmp_path / "3", voted | {102: log(b"", directory_id=make_uuid("new 102"))}, {1: APPLIED_T})
    assert later.verdict == "rejoin"
    assert not [one.breaks for one in later.copies if one.node_id in (100, 101) and "never register" in str(one.breaks)]


def test_the_disk_of_a_voter_from_before_is_not_said_to_be_formatted_anew(tmp_path: Path) -> None:
    directory = make_uuid("new 102")
    later = DYNAMIC + write.voters_record(4, IDS | {102: directory})
    right = {node: log(later, 1, directory_id=IDS[node]) for node in (100, 101)} | {1: later}
    found = written(tmp_path, right | {102: log(DYNAMIC, 1, directory_id=IDS[102])}, {1: APPLIED_T}, clean=(1,))
    assert found.verdict == "rejoin" and "formatted again, or is an old one" in found.reason
    assert not any("formatted" in step.text for step in found.steps)


def test_a_splice_is_found_by_records_and_its_node_fetches_the_log_anew(tmp_path: Path) -> None:
    """D4s: own beginning, another's continuation, though epochs and ends are equal."""
    later = moved(4) + moved(5, 1)
    right = {node: log(DYNAMIC + later, 1, directory_id=IDS[node]) for node in (100, 101)}
    own = write.leader_change(0, 102, VOTERS, time_ms=write.TIME_MS + DAY_MS) + write.voters_record(1, {102: IDS[102]})
    own += write.batch(2, [write.feature("metadata.version", 25)] * 2, time_ms=write.TIME_MS + DAY_MS)
    spliced = log(own + later, 1, directory_id=IDS[102])
    found = written(tmp_path, right | {102: spliced, 1: DYNAMIC + later}, {1: APPLIED_T})
    assert found.verdict == "choose" and found.choice.node_id == 100
    assert found.copies[2].parts_at == 0 and "spliced" in " ".join(found.copies[2].refused)
    assert [(step.action, step.controllers) for step in found.steps if step.action in ("stop", "empty")] == [
        ("stop", (102,)),
        ("empty", (102,)),
    ]


def test_what_is_secret_is_counted_and_never_told(tmp_path: Path) -> None:
    acl = write.message(18, 0, write.uuid(make_uuid("acl")) + b"\x02" + write.string("secret-resource"))
    scram = write.message(11, 0, write.string("secret-user") + b"\x01" + write.string("salt"))
    quota = write.message(
        14,
        0,
        b"\x02"
        + write.string("user")
        + write.string("secret-user")
        + write.tags()
        + write.string("rate")
        + bytes(9)
        + write.tags(),
    )
    ids = write.producer_ids(3000)
    more = write.batch(
        3,
        [
            acl,
            scram,
            quota,
            ids,
            write.config(2, "t", "retention.ms", "secret-value"),
            write.feature("metadata.version", 29),
        ],
    )
    found = written(
        tmp_path,
        {101: BEGIN, 102: BEGIN, 100: BEGIN + more + LATE_LATER, 1: BEGIN + more + LATE_LATER},
        {1: APPLIED},
        clean=(1,),
    )
    lost = next(one for one in found.copies if one.node_id == 102).lost
    assert (lost.acls, lost.scram_users, lost.quotas, lost.producer_id_blocks) == (1, 1, 1, 3)
    assert lost.configurations == ("topic t: retention.ms",) and lost.features == ("metadata.version 29",)
    assert "secret" not in json.dumps(answer_object(found))


def test_changes_of_leaders_isr_and_partitions_are_named(tmp_path: Path) -> None:
    changes = moved(3) + write.batch(4, [write.change(TOPIC_ID, isr=(2,))])
    changes += write.batch(5, [write.partition(TOPIC_ID, (1, 2), 1, number=1)])
    late = write.batch(6, write.new_topic("late", LATE_ID, (1, 2), 2))
    whole = BEGIN + changes + late
    found = written(tmp_path, {101: BEGIN, 102: BEGIN, 100: whole, 1: whole}, {1: APPLIED}, clean=(1,))
    lost = next(one for one in found.copies if one.node_id == 102).lost
    assert (lost.leader_changes, lost.isr_changes, lost.partitions) == ((("t", 0),), (("t", 0),), (("t", 1),))
    assert lost.records == 5


def test_a_check_finds_what_has_moved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    metadata = {101: BEGIN, 102: BEGIN, 100: WHOLE, 1: WHOLE}
    found = written(tmp_path / "before", metadata, {1: APPLIED}, clean=(1,))
    plan = tmp_path / "plan.json"
    assert main(["quorum", str(tmp_path / "before"), "--plan", str(plan)]) == 0
    assert read_answer(str(plan)) == found
    assert main(["quorum", str(tmp_path / "before"), "--check", str(plan)]) == 0
    written(tmp_path / "after", {**metadata, 100: BEGIN}, {1: APPLIED}, clean=(1,))
    capsys.readouterr()
    assert main(["quorum", str(tmp_path / "after"), "--check", str(plan)]) == 1
    assert "metadata log's end of broker 100 was 5, is 3" in " ".join(capsys.readouterr().out.split())
    plan.write_text('{"schema_version": 1}')
    assert main(["quorum", str(tmp_path / "before"), "--check", str(plan)]) == 2


def test_what_cannot_be_read_is_quarantined_with_file_and_position(tmp_path: Path) -> None:
    damaged = BEGIN[:-3] + b"xxx" + LATE
    found = written(tmp_path, {100: WHOLE, 101: WHOLE, 102: damaged, 1: WHOLE}, {1: APPLIED}, clean=(1,))
    (row,) = found.quarantine
    assert row.path == "controller-102/__cluster_metadata-0/00000000000000000000.log" and row.position
    assert found.verdict == "agree"


MIDDLE = BEGIN[:-3] + b"xxx" + LATE


@pytest.mark.parametrize(
    "damaged",
    [
        MIDDLE,
        WHOLE[:-7],
        WHOLE + bytes(64),
        BEGIN + b"\x01" * 100,
        BEGIN + write.batch(3, [write.message(3, 9, b"\x01\x02")]),
        b"",
    ],
    ids=["middle", "torn", "preallocated", "garbage", "unknown", "blank"],
)
@pytest.mark.parametrize("others", [BEGIN, WHOLE], ids=["stale", "whole"])
def test_evidence_of_a_damaged_log_has_the_answer_of_its_copy(tmp_path: Path, damaged: bytes, others: bytes) -> None:
    """What the collector takes of a metadata log is all of it, what is wrong with it too."""
    held = Replica(BATCH, topic="late", topic_id=LATE_ID)
    behind = behind_snapshot(3, 1, elected(3, 101, 2), ONLY_T)
    hurt = replace(behind, snapshots={(3, 1): write.snapshot(ONLY_T)[:-60]})
    copies = tmp_path / "copies"
    written(copies, {100: damaged, 101: others, 102: hurt, 1: others}, {1: [APPLIED_T, held]}, clean=(1,))
    for state in copies.glob("controller-101/*/quorum-state"):
        state.write_text("nonsense")
    found = answer(copies)
    evidence = answer(collect_snapshot(copies, tmp_path / "evidence"))
    assert answer_object(evidence) == answer_object(found)


def test_a_snapshot_without_a_metadata_log_is_refused(tmp_path: Path) -> None:
    write_snapshot(tmp_path, {1: APPLIED_T})
    with pytest.raises(UsageError, match="has no __cluster_metadata-0: copy it from every controller"):
        answer(tmp_path)


@pytest.mark.parametrize(
    "name", ["quorum3-1-unclean", "quorum3-2-healed", "quorum3-3-uncommitted", "quorum3-4-back", "healthy"]
)
def test_captures_of_sound_quorums_are_quiet(name: str) -> None:
    found = answer(FIXTURES / name)
    assert (found.verdict, found.choice, found.steps, found.quarantine) == ("agree", None, (), ())


def test_the_sample_has_the_answer_that_was_worked_out_by_hand() -> None:
    sample = SAMPLES / "lost-quorum"
    expected = json.loads((sample / "expected-quorum.json").read_text())
    found = answer_object(answer(sample))
    assert {name: found["choice"][name] for name in expected["choice"]} == expected["choice"]
    assert (found["verdict"], found["without_log"]) == (expected["verdict"], expected["without_log"])
    assert {str(one["node_id"]): one["proven_end"] for one in found["copies"]} == expected["proven_end"]
    lost = found["copies"][0]["lost"]
    assert {
        "topics": [one["topic"] for one in lost["topics"]],
        **{
            name: [f"{one['topic']}-{one['partition']}" for one in lost[name]]
            for name in ("leader_changes", "isr_changes")
        },
        "records": lost["records"],
        "stray_records": sum(one["records"] for one in lost["stray"]),
    } == expected["lost_with_102"]
    assert [step["controllers"][0] for step in found["steps"] if step["action"] == "seed"] == expected["seeded"]


def acl(name: str) -> bytes:
    return write.message(18, 0, write.uuid(make_uuid(name)) + b"\x02" + write.string("resource"))


def test_what_is_lost_to_several_other_histories_counts_once_each(tmp_path: Path) -> None:
    """Two others with an ACL of their own, and a third that both have; their records of the metadata log, too."""
    one = BEGIN + write.batch(3, [acl("both"), acl("one")], time_ms=write.TIME_MS + 1)
    other = BEGIN + write.batch(3, [acl("both"), acl("other")], time_ms=write.TIME_MS + 2)
    metadata = {100: WHOLE, 101: one, 102: other, 1: WHOLE}
    found = written(tmp_path, metadata, {1: APPLIED}, clean=(1,))
    assert found.verdict == "choose" and found.choice.node_id == 100
    assert (found.lost.acls, found.lost.records) == (3, 4)


def test_delegations_and_voters_that_a_choice_forgets_are_told(tmp_path: Path) -> None:
    """Tokens are counted; a voter that was added and one that was removed are named (KIP-853)."""
    ids = {node: make_uuid(f"directory {node}") for node in (100, 101, 103)}
    whose = (
        write.string("secret-owner")
        + write.string("secret-requester")
        + write.uvarint(2)
        + write.string("secret-renewer")
    )
    token = write.message(10, 0, whose + bytes(24) + write.string("secret-id") + write.tags())
    later = DYNAMIC + write.voters_record(4, ids) + write.batch(5, [token])
    metadata = {node: log(DYNAMIC, 1, directory_id=IDS[node]) for node in (100, 101, 102)}
    found = written(tmp_path, metadata | {1: log(later, 1)}, {1: APPLIED_T}, clean=(1,))
    stale = next(one for one in found.copies if one.node_id == 100)
    assert (stale.lost.delegations, stale.lost.voters) == (1, (102, 103))
    assert not stale.lost.is_nothing and "what became of the voters 102 and 103" in " ".join(tell_lost(stale.lost))
    assert "secret" not in json.dumps(answer_object(found))


def test_a_history_whose_records_cannot_be_applied_is_not_refused_for_that(tmp_path: Path) -> None:
    """A majority wrote records of a version that is not known here: whether it holds what brokers applied nobody can tell."""
    unknown = BEGIN + elected(3, 101, 1, write.TIME_MS + DAY_MS) + write.batch(4, [write.message(3, 9, b"\x01\x02")])
    metadata = {100: WHOLE + moved(5), 101: unknown, 102: unknown, 1: WHOLE + moved(5)}
    found = written(tmp_path, metadata, {1: APPLIED}, clean=(1,))
    assert (found.verdict, found.choice) == ("none", None) and actions(found) == ["copy"]
    assert "nodes 101 and 102" in found.reason and "PartitionRecord of version 9" in found.reason
    assert all(one.lost is None for one in found.copies) and "loses nothing" not in render_quorum(found)


def test_voters_of_before_that_would_elect_among_themselves_are_stopped_and_emptied(tmp_path: Path) -> None:
    """The quorum was moved to other nodes; by the logs that the old ones have they are voters still, and a majority."""
    ids = {node: make_uuid(f"directory {node}") for node in (100, 103, 104)}
    late = write.new_topic("late", LATE_ID, (1, 2), 2)
    moved_on = DYNAMIC + write.voters_record(4, ids) + write.batch(5, late)
    metadata = {node: log(DYNAMIC, 1, directory_id=IDS[node]) for node in (101, 102)}
    metadata |= {node: log(b"", directory_id=make_uuid(f"new {node}")) for node in ids}
    found = written(tmp_path, metadata | {1: log(moved_on, 1)}, {1: [APPLIED, APPLIED_T]}, clean=(1,))
    assert found.verdict == "choose" and found.choice.node_id == 1 and found.voters == (100, 103, 104)
    stopped = {node for step in found.steps if step.action == "stop" for node in (*step.controllers, *step.brokers)}
    assert stopped == {100, 101, 102, 103, 104}
    assert [step.controllers for step in found.steps if step.action == "empty"] == [(101,), (102,)]
    assert "101" not in next(step.text for step in found.steps if "as it is" in step.text)


@pytest.mark.parametrize("content", ["", "{"], ids=["empty", "torn"])
def test_a_quorum_state_that_cannot_be_read_is_replaced_before_its_node_starts(tmp_path: Path, content: str) -> None:
    """`FileQuorumStateStore` refuses it, and the node does not start; after a power loss it may be empty."""

    def answered(name: str, metadata: Mapping[int, MetadataLog], *nodes: int) -> QuorumAnswer:
        written(tmp_path / name, metadata, {1: APPLIED}, clean=(1,))
        for node in nodes:
            (tmp_path / name / f"controller-{node}/__cluster_metadata-0/quorum-state").write_text(content)
        return answer(tmp_path / name)

    whole = {node: log(WHOLE, 1) for node in (*VOTERS, 1)}
    one = answered("1", whole, 100)
    assert one.verdict == "agree" and "quorum-state of node 100 cannot be read" in one.reason
    two = answered("2", whole, 100, 101)
    assert two.verdict == "choose" and "nodes 100 and 101 cannot be read" in two.reason
    best = answered("3", whole | {101: log(b"", 1), 102: log(BEGIN, 1), 1: log(BEGIN, 1)}, 100)
    assert best.choice.node_id == 100
    assert [step.controllers for step in two.steps if step.action == "seed"] == [(100,), (101,)]
    assert two.choice.node_id == 102 and not any(step.files for step in two.steps)
    own = next(step for step in best.steps if step.action == "seed" and step.controllers == (100,))
    assert json.loads(own.files["quorum-state-100"])["leaderEpoch"] == 1 and "put-aside" not in repr(own)


@pytest.mark.parametrize("leader", [100, 101])
def test_the_quorum_state_of_who_keeps_its_log_does_not_name_one_that_forgets(tmp_path: Path, leader: int) -> None:
    """Measured on 4.3.1: told that it leads in its own epoch a node that does not know of it ends (`hasConsistentLeader`)."""
    metadata = {100: log(WHOLE, 1), 101: log(b"", 0), 102: log(BEGIN, 1), 1: log(WHOLE, 1)}
    written(tmp_path, metadata, {1: APPLIED}, clean=(1,))
    file = tmp_path / "controller-100/__cluster_metadata-0/quorum-state"
    file.write_text(json.dumps({**json.loads(file.read_text()), "leaderId": leader}))
    found = answer(tmp_path)
    assert [step.controllers for step in found.steps if step.action == "seed"] == [(101,), (102,)]
    mended = [step for step in found.steps if step.action == "mend_epoch"]
    assert [step.controllers for step in mended] == ([] if leader == 100 else [(100,)])
    for step in mended:
        state = json.loads(step.files["quorum-state-100"])
        assert (state["leaderEpoch"], state["leaderId"], state["votedId"]) == (1, -1, -1)
        assert "ends as soon as another node names it as the leader" in step.text


def test_every_copy_is_told_side_by_side(tmp_path: Path) -> None:
    """Epoch, end, what is proven, where it parts, voters with their directories, and for whom its node voted."""
    stale = DYNAMIC + elected(4, 102, 2)
    metadata = {node: log(DYNAMIC + LATE_AT_4, 1, directory_id=IDS[node]) for node in (100, 101)}
    metadata |= {102: log(stale, 2, directory_id=IDS[102]), 1: log(DYNAMIC + LATE_AT_4, 1)}
    written(tmp_path, metadata, {1: [APPLIED, APPLIED_T]}, clean=(1,))
    file = tmp_path / "controller-102/__cluster_metadata-0/quorum-state"
    file.write_text(json.dumps({**json.loads(file.read_text()), "votedId": 102, "leaderId": -1}))
    found = answer(tmp_path)
    one = next(one for one in found.copies if one.node_id == 102)
    assert (one.role, one.directory_id, one.start_offset, one.end_offset, one.last_epoch) == (
        "controller",
        IDS[102],
        0,
        5,
        2,
    )
    assert (one.parts_at, one.proven_end, one.history, one.may_vote) == (4, 4, 1, True)
    assert (one.voters, dict(one.voter_directories)) == (VOTERS, IDS)
    assert one.quorum_state == QuorumStateFile(2, None, 102)
    row = next(line for line in render_quorum(found).splitlines() if line.split()[:1] == ["102"])
    assert row.split() == ["102", "controller", "[0,", "5)", "2", "4", "1", "4", "2", "102"]


LATE_AT_4 = write.batch(4, write.new_topic("late", LATE_ID, (1, 2), 2))


def test_what_breaks_with_a_copy_whose_next_epoch_another_has_used(tmp_path: Path) -> None:
    """Q8: where the numbers meet nobody is told; and Q3, the longer log is cut in silence."""
    ahead = WHOLE + elected(5, 100, 2)
    found = written(
        tmp_path,
        {100: log(ahead, 2), 101: log(BEGIN, 1), 102: log(BEGIN, 1), 1: log(ahead, 2)},
        {1: APPLIED},
        clean=(1,),
    )
    stale = next(one for one in found.copies if one.node_id == 101)
    assert [
        part
        for part in ("die", "exists already on nodes 1 and 100", "is not above 2", "without a warning", "-stray")
        if part not in " ".join(stale.breaks)
    ] == []
    assert not next(one for one in found.copies if one.node_id == 100).breaks


def test_what_repairs_nodes_by_itself_is_paused_first_and_commands_are_of_the_version(tmp_path: Path) -> None:
    written(tmp_path, {101: BEGIN, 102: BEGIN, 100: WHOLE, 1: WHOLE}, {1: APPLIED}, clean=(1,))
    found = answer(tmp_path, kafka_version="4.3.1")
    first = next(step for step in found.steps if step.action == "copy")
    assert any("Strimzi's Cluster Operator" in one for one in first.before)
    assert "scale the Cluster Operator to 0 replicas" in " ".join(render_quorum(found).split())
    assert "--bootstrap-controller CONTROLLER:PORT describe" in commands(found, "check")
    assert "kafka-server-stop.sh --node-id=101" in commands(found, "stop")
    older = answer(tmp_path, kafka_version="3.6.0")
    assert "--bootstrap-server HOST:PORT describe" in commands(older, "check") and "kill -TERM" in commands(
        older, "stop"
    )


def test_brokers_that_vote_and_lost_their_partitions_are_first_started_as_controllers_only(tmp_path: Path) -> None:
    """By the log they are in sync, and may lead what they no longer have: those that have it would be cut to nothing."""
    state = write.new_topic("t", TOPIC_ID, VOTERS, 100)
    begin = write.history(state, voters=VOTERS)
    held = Replica(BATCH, topic="t", topic_id=TOPIC_ID)
    metadata = {100: log(begin, 1, log_dir="broker-100")}
    bare = written(tmp_path / "1", metadata, {100: held}, clean=(100,))
    assert "nodes 100, 101 and 102 too" in next(one.text for one in bare.steps if "elect AFTER" in repr(one.commands))
    starts = [one for one in bare.steps if one.action == "start"]
    assert [(*one.controllers, *one.brokers) for one in starts] == [(100,), (101,), (102,), (101,), (102,)]
    assert ["process.roles=controller" in repr(one.commands) for one in starts] == [False, True, True, False, False]
    assert all(one.before[0].startswith("No log directory of node 10") for one in starts[1:3])
    assert bare.steps[0].action == "capture" and bare.steps[0].brokers == (101, 102)
    assert [one.commands[0] for one in starts[3:]] == ["kill -TERM PID_OF_101", "kill -TERM PID_OF_102"]
    assert all(
        "Every partition that another node has is led, and not by nodes 101 and 102" in one.before[0]
        for one in starts[3:]
    )
    assert "--describe --topic t" in commands(bare, "check")
    whole = written(tmp_path / "2", metadata, dict.fromkeys(VOTERS, held), clean=VOTERS)
    assert "process.roles" not in repr(whole.steps)
    only_metadata = written(tmp_path / "3", metadata, clean=VOTERS)
    assert only_metadata.verdict == "choose" and "process.roles" not in repr(only_metadata.steps)
    looked = only_metadata.steps[0]
    assert (looked.action, looked.brokers) == ("capture", VOTERS) and "of which this snapshot has none" in looked.text
    for step in only_metadata.steps:
        if step.action == "start":
            assert any("still has its partitions" in condition for condition in step.before)


def test_a_broker_that_votes_and_has_no_partitions_here_is_named_where_no_log_has_to_be_chosen(tmp_path: Path) -> None:
    """A majority has the metadata; the third node is in sync by it, and if it is empty may lead."""
    state = write.new_topic("t", TOPIC_ID, VOTERS, 102)
    begin = write.history(state, voters=VOTERS)
    held = Replica(BATCH, topic="t", topic_id=TOPIC_ID)
    metadata = {node: log(begin, 1, log_dir=f"broker-{node}") for node in (100, 101)}
    found = written(tmp_path / "1", metadata, {100: held, 101: held}, clean=(100, 101))
    assert found.verdict == "agree" and not found.steps
    assert "But node 102, a broker too, has no partitions here" in found.reason
    every = metadata | {102: log(begin, 1, log_dir="broker-102")}
    for number, (logs, nodes) in enumerate(((every, VOTERS), (every, ()))):
        sound = written(tmp_path / f"sound-{number}", logs, dict.fromkeys(nodes, held), clean=nodes)
        assert sound.verdict == "agree" and "no partitions here" not in sound.reason


LED_BY_101 = write.history(write.new_topic("t", TOPIC_ID, VOTERS, 101, isr=(101,)), voters=VOTERS)
HELD_T, HELD_LATE = Replica(BATCH, topic="t", topic_id=TOPIC_ID), Replica(BATCH, topic="late", topic_id=LATE_ID)


def with_log_dir(path: Path, node: int, name: str, directory_id: str) -> QuorumAnswer:
    """The answer once another log directory of a node, without partitions, is in the snapshot."""
    (path / name).mkdir()
    lines = ("version=1", f"node.id={node}", f"cluster.id={CLUSTER}", f"directory.id={directory_id}", "")
    (path / name / "meta.properties").write_text("\n".join(lines))
    return answer(path)


@pytest.mark.parametrize("registered", [False, True])
def test_partitions_of_a_disk_that_was_not_captured_are_not_taken_for_lost(tmp_path: Path, registered: bool) -> None:
    """The voter that alone is in sync has its metadata log apart; of the log directories that it registered all have to be here."""
    late = write.new_topic("late", LATE_ID, VOTERS, 101, isr=(101,))
    late += [write.register_broker(101, log_dirs=(IDS[101], IDS[102]))] if registered else []
    whole = LED_BY_101 + write.batch(3, late)
    metadata = {100: log(LED_BY_101, 1, log_dir="broker-100"), 101: log(whole, 1, log_dir="metadata-101")}
    found = written(tmp_path, metadata, {100: [HELD_T, HELD_LATE]}, clean=(100,))
    assert found.choice.node_id == 101 and actions(found) == ["capture", "capture", "copy"]
    assert found.steps[0].brokers == (101, 102) and "log directories of nodes 101 and 102" in found.steps[0].text
    assert "partitions of node 101 are not in this snapshot" in found.no_plan
    assert (IDS[101] in found.no_plan) == registered
    lost = with_log_dir(tmp_path, 101, "broker-101", IDS[101])
    if registered:
        assert IDS[102] in lost.no_plan and actions(lost)[-1] == "copy"
        lost = with_log_dir(tmp_path, 101, "broker-101-b", IDS[102])
    assert lost.no_plan is None
    start = next(one for one in lost.steps if one.action == "start" and one.controllers == (101,))
    assert "process.roles=controller" in repr(start.commands) and "in the ISR of 2 partitions" in start.text


def test_partitions_that_are_put_back_are_not_taken_for_lost(tmp_path: Path) -> None:
    """All that a voter has is in -stray directories of a topic that the chosen log knows."""
    whole = LED_BY_101 + write.batch(3, write.new_topic("late", LATE_ID, VOTERS, 101, isr=(101,)))
    metadata = {node: log(LED_BY_101, 1, log_dir=f"broker-{node}") for node in VOTERS}
    metadata[100] = replace(metadata[100], segments={0: whole})
    brokers = {100: [HELD_T, HELD_LATE], 101: SET_ASIDE, 102: HELD_T}
    found = written(tmp_path, metadata, brokers, clean=VOTERS)
    assert "put_back" in actions(found) and "process.roles" not in repr(found.steps)


def test_what_the_isr_says_of_a_voter_without_partitions_is_read_from_the_log(tmp_path: Path) -> None:
    begin = write.history(write.new_topic("t", TOPIC_ID, VOTERS, 100, isr=(100, 102)), voters=VOTERS)
    found = written(tmp_path, {100: log(begin, 1, log_dir="broker-100")}, {100: HELD_T}, clean=(100,))
    texts = {one.controllers[0]: one.text for one in found.steps if one.action == "start" and one.controllers}
    assert "in the ISR of 1 partition," in texts[102] and "unclean" not in texts[102]
    assert "in no ISR" in texts[101] and "unclean" in texts[101]


def test_a_voter_that_has_the_log_and_no_partitions_starts_as_a_controller_only_with_a_majority(tmp_path: Path) -> None:
    """It is stopped first: up with both roles it may lead already."""
    begin = write.history(write.new_topic("t", TOPIC_ID, VOTERS, 100), voters=VOTERS)
    whole = begin + write.batch(3, write.new_topic("late", LATE_ID, VOTERS, 100))
    fork = begin + elected(3, 102, 1, write.TIME_MS + 5) + write.batch(4, [write.change(TOPIC_ID, leader=102)])
    metadata = {100: log(whole, 1, log_dir="broker-100"), 101: log(whole, 1, log_dir="metadata-101")}
    metadata[102] = log(fork, 1, log_dir="broker-102")
    written(tmp_path, metadata, {100: [HELD_T, HELD_LATE], 102: HELD_T}, clean=(100, 102))
    assert "partitions of node 101 are not in this snapshot" in answer(tmp_path).no_plan
    found = with_log_dir(tmp_path, 101, "broker-101", IDS[101])
    stop = next(one for one in found.steps if one.action == "stop")
    assert stop.controllers == (101, 102)
    starts = [one for one in found.steps if one.action == "start"]
    assert [(*one.controllers, *one.brokers) for one in starts] == [(100,), (101,), (102,), (101,)]
    assert ["process.roles=controller" in repr(one.commands) for one in starts] == [False, True, False, False]
    assert "Nodes 100 and 101 are up and have a leader" in starts[2].before


def test_a_voter_from_a_backup_that_the_others_name_as_leader_is_started_after_an_election(tmp_path: Path) -> None:
    """D6 (4.3.1: the one that led was restored from before its election, and ended); of running nodes it is a copy of before."""
    written(tmp_path, {100: WHOLE, 101: WHOLE, 102: BEGIN, 1: WHOLE}, {1: APPLIED}, clean=(1,))
    for node in (100, 101):
        file = tmp_path / f"controller-{node}/__cluster_metadata-0/quorum-state"
        file.write_text(json.dumps({**json.loads(file.read_text()), "leaderId": 102, "leaderEpoch": 2}))
    for quiesced in (True, False):
        write_manifest(tmp_path, quiesced=quiesced)
        found = answer(tmp_path)
        assert found.verdict == "agree" and not found.steps
        assert ("name node 102, whose disk is older than that, as the leader of epoch 2" in found.reason) is quiesced


def test_a_blank_voter_that_the_others_name_as_leader_is_started_after_an_election(tmp_path: Path) -> None:
    """D6, where a majority has the log; a voter that noted itself that it led is not led astray."""
    written(tmp_path, {100: WHOLE, 101: WHOLE, 102: log(b""), 1: WHOLE}, {1: APPLIED}, clean=(1,))
    states = {node: tmp_path / f"controller-{node}/__cluster_metadata-0/quorum-state" for node in VOTERS}

    def name_leader(*nodes: int) -> QuorumAnswer:
        for node in nodes:
            state = {**json.loads(states[node].read_text()), "leaderId": 102, "leaderEpoch": 1}
            states[node].write_text(json.dumps(state))
        return answer(tmp_path)

    found = name_leader(100, 101)
    assert found.verdict == "agree" and not found.steps
    assert "But the quorum-states of nodes 100 and 101 name node 102, whose metadata log is empty, as" in found.reason
    assert "epoch 2" in found.reason
    assert "name node 102" not in name_leader(102).reason


def test_who_fetches_the_log_starts_after_those_that_have_it(tmp_path: Path) -> None:
    """The longest copy is of a voter that was formatted anew; the others are a majority, and have to lead."""
    idle = DYNAMIC + write.batch(4, [write.no_op()])
    metadata = {node: log(DYNAMIC, 1, directory_id=IDS[node]) for node in (101, 102)}
    metadata |= {100: log(idle, 1, directory_id=make_uuid("new 100")), 1: log(DYNAMIC, 6)}
    found = written(tmp_path, metadata, {1: APPLIED_T}, clean=(1,))
    assert found.choice.node_id == 100
    starts = [one for one in found.steps if one.action == "start" and one.controllers]
    assert [one.controllers for one in starts] == [(101,), (102,), (100,)]
    assert "Nodes 101 and 102 are up and have a leader" in starts[2].before
