"""Producer ids in brokers' files prove what controllers gave out: where they do, and where they prove nothing."""

from __future__ import annotations

import struct
from pathlib import Path

import google_crc32c
import pytest
from tests.support import metadata_log as write
from tests.support.controllers import BEGIN, TOPIC_ID, VOTERS, elected
from tests.support.fixtures import FIXTURES
from tests.support.metadata_log import MetadataLog
from tests.support.snapshots import Replica, write_manifest, write_snapshot

from replica_audit.quorum.answer_model import QuorumAnswer
from replica_audit.quorum.quorum_answer import answer_quorum
from replica_audit.snapshot.discovery import discover
from replica_audit.snapshot.inventory import Inventory
from replica_audit.snapshot.producer_snapshots import greatest_producer, parse_producers
from replica_audit.snapshot.storage import Snapshot

REPLICA = Replica(topic="t", topic_id=TOPIC_ID)
GIVEN = BEGIN + write.batch(3, [write.producer_ids(1000)])
LATER = GIVEN + write.batch(4, [write.producer_ids(2000)])


def producers(*ids: int) -> bytes:
    entries = b"".join(struct.pack(">qhiqiqiq", one, 0, 0, 0, 0, 0, -1, -1) for one in ids)
    body = struct.pack(">i", len(ids)) + entries
    return struct.pack(">hI", 1, google_crc32c.value(body)) + body


def copied(
    path: Path, logs: dict[int, bytes], content: bytes = b"", *, quiesced: bool | None = True, **more: object
) -> tuple[QuorumAnswer, Inventory]:
    """Broker 1 with `content` as the producer snapshot of t-0."""
    path.mkdir(exist_ok=True)
    write_manifest(path, quiesced=quiesced)
    metadata = {node: MetadataLog({0: one}, voters=VOTERS, cluster_id="C" * 22) for node, one in logs.items()}
    write_snapshot(path, {1: [REPLICA]}, metadata=metadata, cluster_id="C" * 22, **more)
    if content:
        (directory,) = path.glob("broker-1/**/t-0")
        (directory / f"{5:020d}.snapshot").write_bytes(content)
        (directory / f"{4:020d}.snapshot").write_bytes(producers(1 << 40))
    snapshot = Snapshot.open(str(path))
    inventory = discover(snapshot)
    return answer_quorum(snapshot, inventory), inventory


def codes(inventory: Inventory) -> list[tuple[str, int | None]]:
    return [(row.code, row.broker_id) for row in inventory.quarantine]


def test_voters_without_the_block_of_a_producer_lack_what_was_committed(tmp_path: Path) -> None:
    stale = dict.fromkeys(VOTERS, GIVEN) | {1: LATER}
    found, inventory = copied(tmp_path / "block", stale, producers(3, 1500))
    assert found.verdict == "choose" and found.choice.node_id == 1
    assert "broker 1 has producer id 1500 in broker-1/t-0, of the block of record 4" in found.choice.reason
    assert codes(inventory) == [("META-STALE", node) for node in VOTERS]
    # An id of a block that they have.
    found, inventory = copied(tmp_path / "before", stale | {100: LATER}, producers(3, 999))
    assert found.verdict == "agree" and not codes(inventory)


def test_while_nodes_run_a_later_block_may_be_skew(tmp_path: Path) -> None:
    found, inventory = copied(tmp_path, dict.fromkeys(VOTERS, GIVEN) | {1: LATER}, producers(1500), quiesced=None)
    assert [code for code, _ in codes(inventory)] == ["CAP-SKEW"] * 3
    assert "this is only the order in which they were copied" in found.choice.reason


def test_an_id_that_no_log_has_given_out_is_told(tmp_path: Path) -> None:
    told = "broker 1 has producer id 2000 in broker-1/t-0, and by every log here controllers have given out only ids below 2000"
    same = dict.fromkeys((*VOTERS, 1), LATER)
    found, _ = copied(tmp_path / "beyond", same, producers(2000))
    assert found.verdict == "agree" and told in found.reason
    assert any("producer ids are given out again" in one for one in found.copies[0].breaks)
    for name, content, quiesced in (
        ("known", producers(1999), True),
        ("none", b"", True),
        ("live", producers(2000), None),
        ("torn", producers(2000)[:-1], True),
        ("rotten", producers(2000)[:-1] + b"\1", True),
    ):
        found, _ = copied(tmp_path / name, same, content, quiesced=quiesced)
        assert (found.verdict, found.reason) == ("agree", "All copies agree."), name
    found, _ = copied(tmp_path / "first", dict.fromkeys((*VOTERS, 1), BEGIN), producers(0))
    assert "controllers have given out no ids: " in found.reason


@pytest.mark.parametrize(("state", "is_told"), [(0, True), (2, False), (1, False), (3, False)])
def test_ids_of_a_cluster_that_was_migrated_may_be_of_zookeeper(state: int, is_told: bool, tmp_path: Path) -> None:
    """Before 3.5.2 the begin of ZooKeeper's latest block was taken over in place of its end (KAFKA-15552)."""
    migrated = LATER + write.batch(5, [write.zk_migration(state)])
    found, _ = copied(tmp_path, dict.fromkeys((*VOTERS, 1), migrated), producers(2500))
    assert ("has producer id 2500" in found.reason) is is_told


def test_of_two_histories_the_one_with_the_block_of_a_producer_is_right(tmp_path: Path) -> None:
    """A majority of voters without it, in a later epoch, is what a lost disk leaves behind."""
    forked = GIVEN + elected(4, 101, 3) + write.batch(5, [write.config(2, "t", "retention.ms", "1")], epoch=3)
    logs = {100: LATER, 101: forked, 102: forked, 1: LATER}
    found, _ = copied(tmp_path / "id", logs, producers(1500))
    assert (found.verdict, found.choice.node_id) == ("choose", 100)
    refused = next(one.refused for one in found.copies if one.node_id == 101)
    assert refused[0] == "it has not given out the ids below 2000, though broker 1 has producer id 1500 in broker-1/t-0"
    plain, _ = copied(tmp_path / "none", logs, producers(999))
    assert plain.choice is None or plain.choice.node_id != 100


def test_an_id_of_a_block_that_two_histories_gave_out_proves_neither(tmp_path: Path) -> None:
    again = GIVEN + elected(4, 101, 3) + write.batch(5, [write.producer_ids(2000)], epoch=3)
    third = GIVEN + elected(4, 102, 4) + write.batch(5, [write.config(2, "t", "retention.ms", "1")], epoch=4)
    found, _ = copied(tmp_path, {100: LATER, 101: again, 102: third, 1: LATER}, producers(1500))
    assert not any("of the block of record" in (one.proof or "") for one in found.copies)
    assert [one.node_id for one in found.copies if any("has not given out" in why for why in one.refused)] == [102]


def test_brokers_files_of_real_clusters_name_ids_that_were_given_out() -> None:
    path = FIXTURES / "healthy"
    snapshot = Snapshot.open(str(path))
    seen = greatest_producer(snapshot, discover(snapshot).replicas)
    assert seen is not None and seen.producer_id == 1003
    assert parse_producers(producers(7, 9), "x") == [7, 9]
