"""Metadata logs of real clusters: against the official tool's text, against listings, against what was done to them."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import pytest
from tests.support.scanned import CAPTURES, FIXTURES, truth
from tests.support.some import some

from replica_audit.model import Leadership
from replica_audit.snapshot.discovery import discover
from replica_audit.snapshot.inventory import Inventory
from replica_audit.snapshot.metadata.image import MetadataImage
from replica_audit.snapshot.metadata.kraft_records import (
    BrokerState,
    ConfigSet,
    ElrCleared,
    FeatureSet,
    Message,
    PartitionChanged,
    PartitionSet,
    TopicCreated,
    TopicRemoved,
    Transaction,
    Voters,
)
from replica_audit.snapshot.metadata.log_copies import read_copy, read_entries, scan_headers
from replica_audit.snapshot.metadata.metadata_log import read_metadata
from replica_audit.snapshot.storage import Snapshot
from replica_audit.snapshot.topics_describe import parse_topics_describe

DUMPS = sorted((Path(__file__).parent / "dumps").glob("*.txt"))
KRAFT = [name for name in CAPTURES if any((FIXTURES / name).glob("*/__cluster_metadata-0"))]
#: All brokers were stopped after the listing was made.
STOPPED = ("healthy", "diverged-healed", "diverged-multi-healed", "diverged-multi2-healed")
#: The listing was asked before the controller had noticed that a broker was killed.
LISTED_BEFORE = (*STOPPED, "jbod-killed")


@cache
def inventory(capture: str) -> Inventory:
    return discover(Snapshot.open(str(FIXTURES / capture)))


@cache
def leaderships(capture: str) -> dict[str, Leadership]:
    """By partition's name, those of the metadata log."""
    found = [one for one in inventory(capture).leaderships if one.source == "metadata_log"]
    return {f"{one.topic}-{one.partition}": one for one in found}


def test_the_captures_and_dumps_are_here():
    assert len(KRAFT) > 45
    assert len(DUMPS) >= 13


# --- the official tool's text


_RECORD = re.compile(r"\| offset: (\d+) CreateTime: (\d+) .*?(?:payload: |LeaderChange: )(\{.*\})$")


def dumped(path: Path) -> dict[str, list[tuple[int, int, Message | Voters | None]]]:
    """(offset, time, what the tool's JSON says) of every record of interest, by the file that it is of."""
    files: dict[str, list] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("Dumping "):
            current = files.setdefault(line.removeprefix("Dumping "), [])
        match = _RECORD.match(line)
        if match:
            content = json.loads(match[3])
            said = (
                Voters(ids(content["voters"], "voterId"), content.get("leaderId"))
                if "voters" in content
                else expected(content["type"], content["data"])
            )
            if said is not None:
                current.append((int(match[1]), int(match[2]), said))
    return files


def ids(entries: list, name: str) -> tuple[int, ...]:
    return tuple(sorted(entry[name] for entry in entries))


def numbers(data: dict, name: str, absent=None):
    return absent if data.get(name) is None else tuple(data[name])


def expected(kind: str, data: dict) -> Message | None:
    """The message that the tool's JSON describes; tagged fields at their default are not in it."""
    place = (data.get("topicId"), data.get("partitionId"))
    if kind == "PARTITION_RECORD":
        return PartitionSet(
            *place,
            replicas=tuple(data["replicas"]),
            isr=tuple(data["isr"]),
            removing=numbers(data, "removingReplicas", ()),
            adding=numbers(data, "addingReplicas", ()),
            leader=data["leader"],
            leader_epoch=data["leaderEpoch"],
            partition_epoch=data["partitionEpoch"],
            directories=numbers(data, "directories", ()),
            recovering=data.get("leaderRecoveryState", 0) == 1,
            elr=numbers(data, "eligibleLeaderReplicas", ()),
            last_known_elr=numbers(data, "lastKnownElr", ()),
        )
    if kind == "PARTITION_CHANGE_RECORD":
        state = data.get("leaderRecoveryState", -1)
        return PartitionChanged(
            *place,
            isr=numbers(data, "isr"),
            leader=data.get("leader"),
            replicas=numbers(data, "replicas"),
            removing=numbers(data, "removingReplicas"),
            adding=numbers(data, "addingReplicas"),
            recovering=None if state == -1 else state == 1,
            elr=numbers(data, "eligibleLeaderReplicas"),
            last_known_elr=numbers(data, "lastKnownElr"),
            directories=numbers(data, "directories"),
        )
    if kind == "REGISTER_BROKER_RECORD":
        dirs = numbers(data, "logDirs", ())
        return BrokerState(
            data["brokerId"], data["fenced"], data.get("inControlledShutdown", False), dirs, registered=True
        )
    if kind == "BROKER_REGISTRATION_CHANGE_RECORD":
        says = {1: True, -1: False}
        fenced, stopping = says.get(data.get("fenced")), says.get(data.get("inControlledShutdown"))
        return BrokerState(data["brokerId"], fenced, stopping, numbers(data, "logDirs"))
    simple = {
        "TOPIC_RECORD": lambda: TopicCreated(data["name"], data["topicId"]),
        "REMOVE_TOPIC_RECORD": lambda: TopicRemoved(data["topicId"]),
        "CONFIG_RECORD": lambda: ConfigSet(data["resourceType"], data["resourceName"], data["name"], data["value"]),
        "FEATURE_LEVEL_RECORD": lambda: FeatureSet(data["name"], data["featureLevel"]),
        "CLEAR_ELR_RECORD": lambda: ElrCleared(data["topicName"]),
        "BEGIN_TRANSACTION_RECORD": lambda: Transaction("begin"),
        "END_TRANSACTION_RECORD": lambda: Transaction("end"),
        "ABORT_TRANSACTION_RECORD": lambda: Transaction("abort"),
    }
    return simple[kind]() if kind in simple else None


@pytest.mark.parametrize("dump", DUMPS, ids=lambda path: path.stem)
def test_every_record_says_what_the_official_tool_says(dump):
    capture = dump.name.rpartition(".txt")[0].rpartition(".")[0]
    compared = 0
    for name, said in dumped(dump).items():
        path = FIXTURES / capture / name
        with path.open("rb") as stream:
            headers, damage, _ = scan_headers(
                stream, path.stat().st_size, 0 if path.suffix == ".checkpoint" else int(path.name[:20])
            )
            assert not damage
            entries = [
                (entry.offset, entry.time_ms, entry.message)
                for entry in read_entries(stream, name, headers)
                # Before 4.1 the tool shows nothing of a change of leader.
                if isinstance(entry.message, Message)
                or (isinstance(entry.message, Voters) and "kafka-3" not in capture)
            ]
        assert entries == said, name
        compared += len(said)
    assert compared > 40


# --- listings and what was done


@pytest.mark.parametrize("capture", KRAFT)
def test_nothing_of_a_real_metadata_log_is_unreadable_or_forked(capture):
    assert not [row for row in inventory(capture).quarantine if "__cluster_metadata-0" in row.path]


@pytest.mark.parametrize("capture", KRAFT)
def test_the_last_state_is_that_of_the_listing(capture):
    text = (FIXTURES / capture / "kafka-topics-describe.txt").read_text(encoding="utf-8")
    listed = parse_topics_describe(text, "listing").leaderships
    assert listed
    for one in listed:
        known = leaderships(capture)[f"{one.topic}-{one.partition}"]
        states = [state for state in known.history if not state.uncommitted]
        said = (one.leader_id, one.isr, set(one.elr), set(one.last_known_elr), set(one.replicas))
        found = [(s.leader_id, s.isr, set(s.elr), set(s.last_known_elr), set(s.replicas)) for s in states]
        assert (said in found) if capture in LISTED_BEFORE else (said == found[-1]), f"{one.topic}-{one.partition}"
        assert known.topic_id == one.topic_id
        topic_configs = dict(one.configs)
        assert {name: value for name, value in known.configs.items() if name in topic_configs} == {
            name: value for name, value in topic_configs.items() if name in known.configs
        }
        assert {"cleanup.policy", "unclean.leader.election.enable"} & set(topic_configs) <= set(known.configs)


@pytest.mark.parametrize("capture", STOPPED)
def test_a_stopped_cluster_ends_without_leader(capture):
    for one in some(leaderships(capture).values()):
        assert one.leader_id is None and one.isr == () and len(one.elr) == 1
        assert one.fenced == tuple(sorted(one.replicas))


@pytest.mark.parametrize("capture", KRAFT)
def test_every_phase_has_its_leader_and_isr_in_the_history_in_that_order(capture):
    phases = truth(capture).get("phases") or {}
    at: dict[str, int] = {}
    seen = 0
    for name, phase in phases.items():
        for partition, (leader, isr) in (phase.get("leader_isr") or {}).items():
            if partition not in leaderships(capture) or (
                capture.startswith("recreated") and name == "first life" and "orders" in partition
            ):
                continue
            history = leaderships(capture)[partition].history
            states = [(state.leader_id, state.isr) for state in history]
            found = next(
                (
                    n
                    for n, state in enumerate(states)
                    if n >= at.get(partition, 0) and state == (leader, tuple(sorted(isr)))
                ),
                None,
            )
            assert found is not None, (name, partition, leader, isr, states[at.get(partition, 0) :])
            at[partition] = found
            seen += 1
    assert seen or not phases


@pytest.mark.parametrize("capture", KRAFT)
def test_histories_go_forward(capture):
    assert leaderships(capture)
    for one in leaderships(capture).values():
        for before, after in zip(one.history, one.history[1:]):
            assert before.time_ms <= after.time_ms and before.metadata_offset <= after.metadata_offset
            bumped = after.leader_epoch - before.leader_epoch
            assert bumped in (0, 1)
            assert bumped or after.leader_id == before.leader_id or after.occasion == "deleted"
            assert after.partition_epoch - before.partition_epoch == (after.occasion == "changed")
            assert set(after.isr) <= set(after.replicas)
        assert one.history[0].occasion == "created"
        assert one.history[-1].partition_epoch == one.history[0].partition_epoch + sum(
            state.occasion == "changed" for state in one.history
        )


# --- several nodes


@pytest.mark.parametrize("capture", KRAFT)
def test_every_snapshot_is_the_state_that_the_log_gives_there(capture):
    snapshot = Snapshot.open(str(FIXTURES / capture))
    copies = [read_copy(snapshot, log) for log in inventory(capture).metadata_logs]
    full = next(
        copy for copy in copies if copy.start_offset == 0 and copy.newness == max(one.newness for one in copies)
    )
    for copy in some(copies):
        for one in copy.snapshots:
            replayed = MetadataImage()
            replayed.apply_log(full.entries(snapshot, 0, one.end_offset), None)
            taken = MetadataImage()
            with snapshot.open_file(one.path) as stream:
                headers, _, _ = scan_headers(stream, stream.seek(0, 2), 0)
                assert taken.apply_snapshot(read_entries(stream, one.path, headers), one.end_offset)
            assert last_states(taken) == last_states(replayed), one.path
            assert taken.features == replayed.features


def last_states(image: MetadataImage) -> dict:
    return {
        (one.topic, one.partition, one.topic_id): (
            *(
                getattr(one.history[-1], name)
                for name in ("leader_id", "leader_epoch", "partition_epoch", "isr", "elr", "last_known_elr")
            ),
            *(getattr(one.history[-1], name) for name in ("replicas", "directories", "recovering")),
            dict(one.configs),
            one.fenced,
        )
        for one in image.leaderships()
    }


@pytest.mark.parametrize("capture", KRAFT)
def test_any_one_copy_tells_the_end_of_a_prefix_of_the_same_history(capture):
    """Each node's copy alone, dead brokers' too: what it says is a part of what all say together."""
    snapshot = Snapshot.open(str(FIXTURES / capture))
    whole = leaderships(capture)
    for log in some(inventory(capture).metadata_logs):
        reading = read_metadata(snapshot, [log])
        assert not reading.quarantine
        for one in reading.leaderships:
            together = whole.get(f"{one.topic}-{one.partition}")
            if together is None or together.topic_id != one.topic_id:
                # Deleted since, or a topic that only the dead controller of quorum3-3 has in its tail.
                assert capture.startswith(("recreated", "quorum3-3"))
                continue
            epochs = {
                state.partition_epoch: (state.leader_id, state.leader_epoch, state.isr) for state in together.history
            }
            for state in one.history:
                assert epochs[state.partition_epoch] == (state.leader_id, state.leader_epoch, state.isr)


def test_the_tail_of_the_dead_controller_never_was():
    capture = "quorum3-3-uncommitted"
    snapshot = Snapshot.open(str(FIXTURES / capture))
    logs = {log.log_dir: log for log in inventory(capture).metadata_logs}
    alone = read_metadata(snapshot, [logs["controller-102"]]).leaderships
    topics = {one.topic: one.topic_id for one in alone}
    present = {one.topic: one.topic_id for one in leaderships(capture).values()}
    assert topics["never-committed"] != present["never-committed"]
    assert topics["unclean-history"] == present["unclean-history"]


def test_a_log_that_begins_late_is_made_whole_by_another_copy():
    capture = "quorum3-2-healed"
    snapshot = Snapshot.open(str(FIXTURES / capture))
    logs = {log.log_dir: log for log in inventory(capture).metadata_logs}
    late = read_metadata(snapshot, [logs["controller-102"]]).leaderships
    assert {one.history[0].occasion for one in late} == {"snapshot"}
    both = read_metadata(snapshot, [logs["controller-102"], logs["broker-0"]]).leaderships
    assert {one.history[0].occasion for one in both} == {"created"}
    assert [one.history for one in both] == [
        leaderships(capture)[f"{one.topic}-{one.partition}"].history for one in both
    ]
