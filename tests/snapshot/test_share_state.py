"""The share coordinator's log: a real broker's records, states that replace each other, deletion, damage."""

from __future__ import annotations

import base64
import struct
from pathlib import Path

from tests.support.encoder import Record, encode_batch
from tests.support.share_groups import share_key, share_state, share_update

from replica_audit.model import GroupOffset
from replica_audit.snapshot.internal_topics import ReadCopy, find_copies
from replica_audit.snapshot.share_state import SHARE_OFFSETS, ShareOffset, name_topics
from replica_audit.snapshot.storage import Snapshot

#: Written by brokers of Kafka 4.3.1: `shg` read 150 records, `shu` 60 and then 100, `shv` 100 and then 50.
REAL = Path(__file__).parent / "share_state"
S, U = "NU8kA8UKSOiplVa3Bi5kFw", "IczSjrGgQ46Mkqo8RhHodQ"


def _read(path: Path, *parts: bytes) -> ReadCopy[ShareOffset]:
    folder = path / "broker-1" / "__share_group_state-0"
    folder.mkdir(parents=True)
    (folder / "00000000000000000000.log").write_bytes(b"".join(parts))
    snapshot = Snapshot.open(path)
    (copy,) = find_copies(snapshot, ["broker-1"], SHARE_OFFSETS.name)
    return SHARE_OFFSETS.read(snapshot, copy)


def _batch(base: int, *records: tuple[bytes, bytes | None]) -> bytes:
    return encode_batch(base, tuple(Record(key, value, 1000 + base) for key, value in records), 0)


def _reached(path: Path, *values: tuple[int, bytes | None]) -> list[tuple[int, int | None]]:
    """Offset and epoch after these states and changes, by the version of their keys."""
    batches = (_batch(at, (share_key(kind, "g", U, 0), value)) for at, (kind, value) in enumerate(values))
    return [(one.reached_offset, one.leader_epoch) for one in _read(path, *batches).said]


def test_a_real_brokers_log_gives_what_its_tools_print(tmp_path: Path) -> None:
    parts = [_read(tmp_path / p, base64.b64decode((REAL / f"kafka-4.3.1-{p}.log.b64").read_text())) for p in "01"]
    assert [one.extent.unread for one in parts] == [(), ()]
    assert [said for one in parts for said in one.said] == [
        ShareOffset("shu", U, 0, 160, 0, 1795994951330),
        ShareOffset("shg", S, 1, 150, 0, 1795994826658),
        ShareOffset("shv", U, 0, 150, 0, 1795994960710),
    ]


def test_records_above_the_start_that_a_group_is_done_with_count(tmp_path: Path) -> None:
    """Available ones (0), which it will be given again, do not."""
    state = share_state(7, 10, (10, 19, 0), (20, 29, 2), (30, 34, 4), (35, 39, 0))
    assert _reached(tmp_path / "state", (0, state)) == [(35, 7)]
    changes = [(0, share_state(7, 10)), (1, share_update(8, -1, (15, 19, 2))), (1, share_update(8, 12))]
    assert _reached(tmp_path / "changed", *changes) == [(20, 8)]


def test_a_state_replaces_what_was_before_and_a_tombstone_ends_it(tmp_path: Path) -> None:
    far = (1, share_update(3, 500))
    assert _reached(tmp_path / "back", far, (0, share_state(3, 20))) == [(20, 3)]
    assert _reached(tmp_path / "gone", far, (0, None)) == []


def test_who_sets_an_offset_says_nothing_of_an_epoch(tmp_path: Path) -> None:
    """Its state has epoch 0, whoever leads; a change of epoch 0 is of a leader."""
    assert _reached(tmp_path / "set", (0, share_state(0, 70))) == [(70, None)]
    assert _reached(tmp_path / "read", (0, share_state(0, 70)), (1, share_update(0, 75))) == [(75, 0)]


def test_what_cannot_be_taken_apart_is_told_and_the_rest_is_read(tmp_path: Path) -> None:
    later = struct.pack(">h", 1) + share_state(0, 5)[2:]
    found = _read(
        tmp_path,
        _batch(0, (share_key(0, "new", U, 0), later)),
        _batch(1, (share_key(1, "cut", U, 0), share_update(1, 5)[:-4])),
        _batch(2, (share_key(1, "g", U, 0), share_update(1, 5)), (struct.pack(">h", 9), b"of a later version")),
    )
    assert [one.group for one in found.said] == ["g"]
    assert [(position is not None) for _, position, _ in found.extent.unread] == [True, True]
    assert "version 0, found 1" in found.extent.unread[0][2]


def test_offsets_of_topics_that_are_not_there_belong_to_nobody() -> None:
    one = ShareOffset("g", U, 3, 40, 2, 1000)
    assert list(name_topics([one, one._replace(topic_id=S)], {U: "orders"})) == [
        GroupOffset("g", "orders", 3, 40, 2, 1000, U, "share")
    ]
