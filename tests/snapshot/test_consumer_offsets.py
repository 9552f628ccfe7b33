"""The group coordinator's log: each version of its records, tombstones, transactions, several copies, damage."""

from __future__ import annotations

import base64
import struct
from pathlib import Path

from tests.support.encoder import Record, encode_batch, encode_marker, flip

from replica_audit.model import GroupOffset
from replica_audit.snapshot.consumer_offsets import GROUP_OFFSETS
from replica_audit.snapshot.internal_topics import ReadCopy, find_copies, newest
from replica_audit.snapshot.storage import Snapshot

NAME = "00000000000000000000.log"
#: Written by a broker of Kafka 4.3.1: a Java consumer that read 60 records, offsets set and deleted by the tools.
REAL = Path(__file__).parent / "consumer_offsets" / "kafka-4.3.1.log.b64"
TOPIC_ID = "AZ-wGHy3T7mzuasE77aJkA"


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _key(group: str, topic: str = "orders", partition: int = 0, version: int = 1) -> bytes:
    return struct.pack(">h", version) + _text(group) + _text(topic) + struct.pack(">i", partition)


def _value(version: int, offset: int, epoch: int = -1, note: str = "secret") -> bytes:
    """OffsetCommitValue; what the client wrote beside the offset must appear nowhere."""
    data = struct.pack(">hq", version, offset) + (struct.pack(">i", epoch) if version >= 3 else b"")
    if version >= 4:
        note_bytes = note.encode()
        return data + bytes([len(note_bytes) + 1]) + note_bytes + struct.pack(">q", 1000 + offset) + b"\0"
    return data + _text(note) + struct.pack(">q", 1000 + offset) + (struct.pack(">q", 9) if version == 1 else b"")


def _batch(base: int, *pairs: tuple[bytes, bytes | None], epoch: int = 0, **more) -> bytes:
    return encode_batch(base, tuple(Record(key, value) for key, value in pairs), epoch, **more)


def _read(path: Path, *parts: bytes, broker: int = 1) -> ReadCopy[GroupOffset]:
    folder = path / f"broker-{broker}" / "__consumer_offsets-7"
    folder.mkdir(parents=True)
    (folder / NAME).write_bytes(b"".join(parts))
    snapshot = Snapshot.open(path)
    (copy,) = find_copies(snapshot, [f"broker-{broker}"], GROUP_OFFSETS.name)
    return GROUP_OFFSETS.read(snapshot, copy)


def test_a_real_brokers_log_gives_what_its_tools_print(tmp_path: Path) -> None:
    found = _read(tmp_path, base64.b64decode(REAL.read_text()))
    assert (found.copy.partition, found.extent.leader_epoch, found.extent.end_offset, found.extent.unread) == (
        7,
        2,
        9,
        (),
    )
    assert found.said == (
        GroupOffset("java-reader", "ledger", 0, 0, None, 1795375963922, TOPIC_ID),
        GroupOffset("java-reader", "ledger", 1, 60, None, 1795375963922, TOPIC_ID),
        GroupOffset("java-reader", "ledger", 2, 0, None, 1795375963922, TOPIC_ID),
        GroupOffset("tool-set", "ledger", 0, 45, None, 1795375965971, TOPIC_ID),
    )


def test_every_version_of_a_commit_is_read(tmp_path: Path) -> None:
    pairs = [(_key(f"g{version}", version=min(version, 1)), _value(version, 10 + version, 5)) for version in range(5)]
    found = _read(tmp_path, _batch(0, *pairs))
    assert [(one.group, one.committed_offset, one.leader_epoch, one.committed_ms) for one in found.said] == [
        ("g0", 10, None, 1010),
        ("g1", 11, None, 1011),
        ("g2", 12, None, 1012),
        ("g3", 13, 5, 1013),
        ("g4", 14, 5, 1014),
    ]
    assert "secret" not in repr(found)


def test_the_last_commit_counts_and_a_tombstone_ends_it(tmp_path: Path) -> None:
    found = _read(
        tmp_path,
        _batch(0, (_key("a"), _value(3, 10)), (_key("b"), _value(3, 20))),
        _batch(2, (_key("a"), _value(3, 11)), (_key("b"), None), codec="gzip"),
        _batch(4, (struct.pack(">h", 2) + _text("a"), b"\0\3of a group"), (struct.pack(">h", 9) + _text("a"), None)),
    )
    assert [(one.group, one.committed_offset) for one in found.said] == [("a", 11)]
    assert not found.extent.unread


def test_offsets_of_a_transaction_count_from_its_commit_on(tmp_path: Path) -> None:
    def part(base: int, producer: int, group: str, offset: int) -> bytes:
        pair = (_key(group), _value(3, offset))
        return _batch(base, pair, producer_id=producer, producer_epoch=0, base_sequence=0, transactional=True)

    found = _read(
        tmp_path,
        part(0, 1, "kept", 5),
        part(1, 2, "aborted", 6),
        part(2, 3, "open", 7),
        encode_marker(3, "COMMIT", 0, producer_id=1, producer_epoch=0),
        encode_marker(4, "ABORT", 0, producer_id=2, producer_epoch=0),
    )
    assert [(one.group, one.committed_offset) for one in found.said] == [("kept", 5)]


def test_of_several_copies_the_one_of_the_latest_epoch_counts(tmp_path: Path) -> None:
    short = _read(tmp_path / "a", _batch(0, (_key("g"), _value(3, 9)), epoch=3))
    longer = _read(tmp_path / "b", _batch(0, (_key("g"), _value(3, 1))), _batch(1, (_key("h"), _value(3, 2))))
    assert newest([longer, short]) == newest([short, longer]) == [short]


def test_what_cannot_be_taken_apart_is_told_and_the_rest_is_read(tmp_path: Path) -> None:
    broken = flip(_batch(1, (_key("g"), _value(3, 2))), -2)
    found = _read(
        tmp_path,
        _batch(0, (_key("g"), _value(3, 1))),
        broken,
        _batch(2, (_key("new"), struct.pack(">h", 9) + b"what comes next")),
        _batch(3, (_key("h"), _value(3, 4))),
    )
    assert [(one.group, one.committed_offset) for one in found.said] == [("g", 1), ("h", 4)]
    assert [reason for _, _, reason in found.extent.unread] == [
        "the batch's checksum is wrong",
        "expected a committed offset of version 0 to 4, found 9",
    ]
