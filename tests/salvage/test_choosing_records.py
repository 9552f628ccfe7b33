"""Which records are salvaged: transactions, compaction, copies that Kafka has put aside, and what cannot be read."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.encoder import Record, encode_batch, encode_legacy, encode_marker, encode_wrapper, flip
from tests.support.led_by_first import COMMON, HEX, LEADER, led_by_first, replica
from tests.support.snapshots import Replica, make_uuid

from replica_audit.cli.main import main


def salvaged(snapshot: Path, *options: str, status: int = 0) -> tuple[dict[str, Any], list[tuple[int, bytes | None]]]:
    """The manifest, and offset and value of every record of orders-0, after `salvage --payloads`."""
    target = snapshot.parent / f"out-{len(list(snapshot.parent.iterdir()))}"
    assert main(["salvage", str(snapshot), "--to", str(target), "--payloads", "--quiet", *options]) == status
    manifest = json.loads((target / "manifest.json").read_text())
    path = target / "orders-0" / "records.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return manifest, [
        (one["offset"], None if one["value"] is None else base64.b64decode(one["value"])) for one in lines
    ]


def _values(mark: str, offsets: range, first: int) -> list[tuple[int, bytes]]:
    return [(offset, f"{mark}#{offset - first}".encode()) for offset in offsets]


EPOCH_0 = ((0, 0),)
EPOCH_1_FROM_10 = ((0, 0), (1, 10))
COMPACTED = {"cleanup.policy": "compact"}


def _transactions(number: int, **more: Any) -> dict[str, Any]:
    return {"producer_id": number, "producer_epoch": 0, "base_sequence": 0, "transactional": True, **more}


def _marker(base: int, outcome: str, leader_epoch: int, producer_epoch: int = 0) -> bytes:
    return encode_marker(base, outcome, leader_epoch, producer_id=1, producer_epoch=producer_epoch)


THREE = [encode_batch(0, 5, 0, mark="a"), encode_batch(5, 3, 0, mark="b"), encode_batch(8, 4, 0, mark="c")]
SIX = tuple(Record(f"k{n}".encode(), f"v{n}".encode()) for n in range(6))
SAME = tuple(Record(b"k", f"v{n}".encode()) for n in range(4))
LONGER = [*COMMON, encode_batch(10, 2, 0, mark="more")]
OPEN = encode_batch(10, 2, 0, mark="old", **_transactions(1))
ENDED = [encode_batch(0, 2, 0, **_transactions(1)), _marker(2, "COMMIT", 0)]
KEPT = (Record(b"k0", b"v0"), Record(b"k9", b"v9", offset_delta=9))
WHOLE = encode_batch(10, 4, 0, mark="old")
OLD_FORMAT = [encode_legacy(0, b"same", magic=1), encode_legacy(1, b"same", magic=1)]
WRAPPED = encode_wrapper(2, [(b"k", f"w{n}".encode()) for n in range(4)], "gzip", magic=1)


def _led(*tail: bytes) -> Replica:
    """A leader that begins epoch 1 at 10."""
    return replica([*COMMON, encode_batch(10, 1, 1, mark="leader"), *tail], EPOCH_1_FROM_10)


#: The replicas, the leader first; how they were captured, and options of the command; records that are salvaged; what the
#: manifest says of the partition.
CASES: dict[str, tuple[tuple[Replica, ...], dict[str, Any], tuple[str, ...], list[tuple[int, bytes]], dict[str, Any]]] = {
    "the tail of an earlier epoch": (
        (LEADER, replica([*COMMON, encode_batch(10, 8, 0, mark="old")], EPOCH_0)), {}, (),
        _values("old", range(10, 18), 10), {"reasons": {"other_record": 5, "past_end": 3}},
    ),
    "the same records in other batches, but one": (
        (
            replica([encode_batch(0, SIX[:3], 0), encode_batch(3, SIX[3:], 0)], EPOCH_0),
            replica([encode_batch(0, (*SIX[:4], Record(b"k4", b"other"), SIX[5]), 0, codec="lz4", producer_id=-1)], EPOCH_0),
        ), {}, (), [(4, b"other")], {},
    ),
    "the same records in a later epoch": (
        tuple(
            replica([*COMMON, encode_batch(10, SAME, epoch, producer_id=7, producer_epoch=0, base_sequence=0)], starts)
            for epoch, starts in ((1, EPOCH_1_FROM_10), (0, EPOCH_0))
        ), {}, (), [], {},
    ),
    "a hole of the leader": (
        (replica([THREE[0], THREE[2]], EPOCH_0), replica(THREE, EPOCH_0)), {}, (),
        _values("b", range(5, 8), 5), {"reasons": {"hole": 3}},
    ),
    "a batch that the leader cannot read": (
        (replica([THREE[0], flip(THREE[1]), THREE[2]], EPOCH_0), replica(THREE, EPOCH_0)), {}, (),
        _values("b", range(5, 8), 5), {"reasons": {"unreadable_there": 3}},
    ),
    "past the end in the leader's epoch, which may be skew": (
        (replica(COMMON, EPOCH_0), replica(LONGER, EPOCH_0)), {}, (), [], {"left_out": {"ahead": 2}},
    ),
    "the same, asked for": (
        (replica(COMMON, EPOCH_0), replica(LONGER, EPOCH_0)), {}, ("--include-ahead",),
        _values("more", range(10, 12), 10), {},
    ),
    "the same, of copies of one moment": (
        (replica(COMMON, EPOCH_0), replica(LONGER, EPOCH_0)), {"quiesced": True}, (),
        _values("more", range(10, 12), 10), {},
    ),
    **{
        f"a transaction that the coordinator ended on the new leader by {outcome}": (
            (_led(_marker(11, outcome, 1)), replica([*COMMON, OPEN], EPOCH_0)), {}, (), found, {},
        )
        for outcome, found in (("COMMIT", _values("old", range(10, 12), 10)), ("ABORT", []))
    },
    "a marker that the producer got before the fork decides nothing": (
        (
            replica([*ENDED, encode_batch(3, 2, 1, mark="leader")], ((0, 0), (1, 3))),
            replica([*ENDED, encode_batch(3, 2, 0, mark="old", **_transactions(1))], EPOCH_0),
        ), {}, (), [], {"left_out": {"open_transaction": 2}},
    ),
    "a marker of the producer's next transaction decides nothing": (
        (
            replica(
                [*COMMON, encode_batch(10, 1, 1, mark="leader", **_transactions(1, base_sequence=2)), _marker(11, "COMMIT", 1)],
                EPOCH_1_FROM_10,
            ),
            replica([*COMMON, OPEN], EPOCH_0),
        ), {}, (), [], {"left_out": {"open_transaction": 2}},
    ),
    **{
        f"a marker of producer epoch {epoch} for data of epoch 1": (
            (
                _led(_marker(11, "COMMIT", 1, epoch)),
                replica([*COMMON, encode_batch(10, 2, 0, mark="old", **_transactions(1, producer_epoch=1))], EPOCH_0),
            ), {}, (), found, {},
        )
        for epoch, found in ((0, []), (1, _values("old", range(10, 12), 10)), (2, _values("old", range(10, 12), 10)))
    },
    # Other values than the leader's: a log that is wrong.
    "what a cleaner removed": (
        (
            replica([encode_batch(0, KEPT, 0, last_offset_delta=9), encode_batch(10, 2, 0, mark="end")], EPOCH_0),
            replica([encode_batch(0, 10, 0), encode_batch(10, 2, 0, mark="end")], EPOCH_0),
        ), {"configs": COMPACTED}, (), [(0, b"#0"), (9, b"#9")], {"left_out": {"cleaned": 8}},
    ),
    "a broken batch that another copy has whole": (
        (LEADER, *(replica([*COMMON, one], EPOCH_0) for one in (flip(WHOLE), WHOLE))), {}, (),
        _values("old", range(10, 14), 10), {},
    ),
    "messages of old formats": (
        (
            replica([*OLD_FORMAT, encode_legacy(2, b"w0", b"k", magic=1), encode_legacy(3, b"leader", magic=1)], ()),
            replica([*OLD_FORMAT, WRAPPED], ()),
        ), {}, (), [(3, b"w1"), (4, b"w2"), (5, b"w3")], {},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("replicas", "captured", "options", "records", "said"), CASES.values(), ids=CASES)
def test_what_is_salvaged(
    tmp_path: Path,
    replicas: tuple[Replica, ...],
    captured: dict[str, Any],
    options: tuple[str, ...],
    records: list[tuple[int, bytes]],
    said: dict[str, Any],
) -> None:
    manifest, found = salvaged(led_by_first(tmp_path / "s", *replicas, **captured), *options)
    (row,) = manifest["partitions"]
    assert found == records
    assert {name: row[name] for name in said} == said
    assert manifest["unread"] == []


def test_aborted_and_open_transactions_are_left_out_and_counted(tmp_path: Path) -> None:
    tail = [
        encode_batch(10, 2, 0, mark="committed", **_transactions(1)),
        encode_batch(12, 3, 0, mark="aborted", **_transactions(2)),
        encode_marker(15, "COMMIT", 0, producer_id=1, producer_epoch=0),
        encode_marker(16, "ABORT", 0, producer_id=2, producer_epoch=0),
        encode_batch(17, 4, 0, mark="open", **_transactions(3)),
    ]
    snapshot = led_by_first(tmp_path / "s", LEADER, replica([*COMMON, *tail], ((0, 0),)))
    manifest, found = salvaged(snapshot)
    assert found == _values("committed", range(10, 12), 10)
    (row,) = manifest["partitions"]
    assert row["left_out"] == {"aborted_transaction": 3, "control": 2, "open_transaction": 4}
    assert row["transactions"] == {"committed": 1}
    manifest, found = salvaged(snapshot, "--include-aborted")
    assert [offset for offset, _ in found] == [10, 11, 12, 13, 14, 17, 18, 19, 20]
    assert manifest["partitions"][0]["transactions"] == {"aborted": 1, "committed": 1, "open": 1}


def test_of_a_compacted_topic_each_record_says_whether_its_key_has_a_later_value(tmp_path: Path) -> None:
    mine = (Record(b"a", b"old a"), Record(b"b", b"old b"), Record(b"c", b"old c"))
    theirs = (Record(b"x", b"x"), Record(b"a", b"new a"), Record(b"c", None))
    leader = replica([*COMMON, encode_batch(10, theirs, 1)], ((0, 0), (1, 10)))
    follower = replica([*COMMON, encode_batch(10, mine, 0)], ((0, 0),))
    manifest, found = salvaged(led_by_first(tmp_path / "s", leader, follower, configs=COMPACTED))
    assert [value for _, value in found] == [b"old a", b"old b", b"old c"]
    assert [row["later_value"] for row in manifest["records"]] == [True, False, True]
    assert manifest["partitions"][0]["later_value"] == 2


def test_every_directory_that_kafka_puts_aside_is_a_source(tmp_path: Path) -> None:
    for suffix in (f".{HEX}-stray", f".{HEX}-delete", f".{HEX}-future"):
        aside = replica([*COMMON, encode_batch(10, 3, 0, mark="aside")], ((0, 0),), suffix=suffix)
        snapshot = led_by_first(tmp_path / suffix[-6:].strip("-"), LEADER, aside=[aside])
        manifest, found = salvaged(snapshot)
        assert found == _values("aside", range(10, 13), 10)
        (copy,) = manifest["partitions"][0]["copies"]
        assert copy["kind"] == suffix.rpartition("-")[2]


def test_deleted_segments_of_the_leader_itself_are_a_source(tmp_path: Path) -> None:
    snapshot = led_by_first(tmp_path / "s", LEADER)
    deleted = snapshot / "broker-1" / "orders-0" / f"{10:020}.log.deleted"
    deleted.write_bytes(encode_batch(10, 3, 0, mark="cut"))
    _, found = salvaged(snapshot)
    assert found == _values("cut", range(10, 13), 10)


def test_segments_that_the_followers_retention_deleted_are_no_source(tmp_path: Path) -> None:
    follower = replica([encode_batch(14, 4, 0, mark="old")], ((0, 14),), log_start=14)
    snapshot = led_by_first(tmp_path / "s", LEADER, follower)
    deleted = snapshot / "broker-2" / "orders-0" / f"{10:020}.log.deleted"
    deleted.write_bytes(encode_batch(10, 4, 0, mark="expired"))
    manifest, found = salvaged(snapshot)
    assert found == _values("old", range(14, 18), 14)
    assert manifest["partitions"][0]["left_out"] == {"below_log_start": 4}


def test_a_directory_of_another_topic_id_is_left_alone_and_told(tmp_path: Path) -> None:
    aside = replica(
        [encode_batch(0, 3, 0, mark="other")], ((0, 0),), topic_id=make_uuid("another life"), suffix=f".{HEX}-stray"
    )
    snapshot = led_by_first(tmp_path / "s", LEADER, aside=[aside])
    manifest, found = salvaged(snapshot)
    assert found == []
    assert [one["topic_id"] for one in manifest["partitions"][0]["other_topics"]] == [make_uuid("another life")]


def test_two_brokers_hold_other_records_at_the_same_offsets(tmp_path: Path) -> None:
    leader = replica([*COMMON, encode_batch(10, 2, 3, mark="leader")], ((0, 0), (3, 10)))
    second = replica([*COMMON, encode_batch(10, 3, 1, mark="one")], ((0, 0), (1, 10)))
    third = replica([*COMMON, encode_batch(10, 4, 2, mark="two")], ((0, 0), (2, 10)))
    manifest, found = salvaged(led_by_first(tmp_path / "s", leader, second, third))
    assert found == _values("one", range(10, 13), 10) + _values("two", range(10, 14), 10)
    assert [row["copy"] for row in manifest["records"]] == [0] * 3 + [1] * 4


def test_two_different_records_of_one_epoch_and_offset_are_both_kept(tmp_path: Path) -> None:
    second = replica([*COMMON, encode_batch(10, 2, 0, mark="one")], ((0, 0),))
    third = replica([*COMMON, encode_batch(10, 3, 0, mark="two")], ((0, 0),))
    _, found = salvaged(led_by_first(tmp_path / "s", LEADER, second, third))
    assert sorted(found) == sorted(_values("one", range(10, 12), 10) + _values("two", range(10, 13), 10))


def test_a_batch_whose_checksum_is_wrong_is_1(tmp_path: Path) -> None:
    broken = flip(encode_batch(14, 3, 0, mark="old"))
    tail = [WHOLE, broken, encode_batch(17, 2, 0, mark="end")]
    snapshot = led_by_first(tmp_path / "s", LEADER, replica([*COMMON, *tail], ((0, 0),)))
    manifest, found = salvaged(snapshot, status=1)
    assert [offset for offset, _ in found] == [10, 11, 12, 13, 17, 18]
    assert manifest["totals"]["expected"] == 9 and manifest["totals"]["written"] == 6
    (row,) = manifest["unread"]
    assert (row["start_offset"], row["end_offset"], row["records"]) == (14, 17, 3)


def test_a_segment_that_cannot_be_read_is_3(tmp_path: Path) -> None:
    snapshot = led_by_first(tmp_path / "s", LEADER, replica(COMMON, ((0, 0),)))
    path = snapshot / "broker-2" / "orders-0" / f"{0:020}.log"
    path.unlink()
    path.symlink_to("/nowhere/at/all.log")
    manifest, found = salvaged(snapshot, status=3)
    assert found == [] and len(manifest["unread"]) >= 1


def test_that_no_copy_holds_any_is_not_said_of_what_could_not_be_read(tmp_path: Path, capsys: Any) -> None:
    snapshot = led_by_first(tmp_path / "s", LEADER, replica(COMMON, ((0, 0),)))
    assert main(["salvage", str(snapshot), "--to", str(tmp_path / "whole")]) == 0
    assert "No copy in the snapshot holds a record" in capsys.readouterr().out
    path = snapshot / "broker-2" / "orders-0" / f"{0:020}.log"
    path.unlink()
    path.symlink_to("/nowhere/at/all.log")
    assert main(["salvage", str(snapshot), "--to", str(tmp_path / "part")]) == 3
    told = " ".join(capsys.readouterr().out.split())
    assert "No copy" not in told
    assert "No record was found that is not in its leader's log, but not everything could be read" in told
    assert "Not readable, may hold records: broker-2/orders-0" in told


def test_nothing_to_do_is_0(tmp_path: Path) -> None:
    manifest, found = salvaged(led_by_first(tmp_path / "s", LEADER, LEADER))
    assert found == [] and manifest["records"] == [] and manifest["unread"] == []


def _resent(base: int, epoch: int, mark: str = "sent", **more: Any) -> bytes:
    return encode_batch(
        base, 3, epoch, mark=mark, **{"producer_id": 5, "producer_epoch": 0, "base_sequence": 0, **more}
    )


@pytest.mark.parametrize(
    ("old", "new", "left"),
    [
        ([_resent(10, 0)], [_resent(11, 1)], []),
        ([_resent(10, 0)], [_resent(11, 1, timestamp_ms=1_700_000_900_000)], [10, 11, 12]),
        (
            [_resent(10, 0, log_append_time=True)],
            [_resent(11, 1, timestamp_ms=1_700_000_900_000, log_append_time=True)],
            [],
        ),
        ([_resent(10, 0)], [_resent(11, 1, codec="gzip")], []),
        ([_resent(10, 0)], [_resent(11, 1, "other")], [10, 11, 12]),
        ([_resent(10, 0)], [_resent(11, 1, producer_epoch=1)], [10, 11, 12]),
        ([_resent(10, 0), _resent(13, 0)], [_resent(11, 1)], [13, 14, 15]),
        ([_resent(10, 0), _resent(13, 0, "second")], [_resent(11, 1, "second"), _resent(14, 1)], []),
        ([_resent(10, 0), encode_batch(13, 2, 0, mark="old")], [_resent(11, 1)], [13, 14]),
    ],
    ids=[
        "sent again",
        "other times",
        "brokers' times",
        "codec",
        "records",
        "epoch",
        "once of two",
        "two",
        "and a tail",
    ],
)
def test_what_the_leader_has_at_another_offset_is_not_lacking(
    old: list[bytes], new: list[bytes], left: list[int], tmp_path: Path
) -> None:
    leader = replica([*COMMON, encode_batch(10, 1, 1, mark="leader"), *new], ((0, 0), (1, 10)))
    _, found = salvaged(led_by_first(tmp_path / "s", leader, replica([*COMMON, *old], ((0, 0),))))
    assert [offset for offset, _ in found] == left


@pytest.mark.parametrize(
    ("here", "there", "count"),
    [
        ("COMMIT", "COMMIT", 0),
        ("ABORT", "ABORT", 0),
        ("COMMIT", "ABORT", 3),
        ("COMMIT", None, 3),
        ("ABORT", "COMMIT", 0),
    ],
)
def test_a_transaction_that_was_sent_again_ended_alike(
    here: str, there: str | None, count: int, tmp_path: Path
) -> None:
    sent = {"transactional": True}
    ends = [encode_marker(14, there, 1, producer_id=5, producer_epoch=0)] if there else []
    leader = replica([*COMMON, encode_batch(10, 1, 1, mark="leader"), _resent(11, 1, **sent), *ends], ((0, 0), (1, 10)))
    tail = [_resent(10, 0, **sent), encode_marker(13, here, 0, producer_id=5, producer_epoch=0)]
    _, found = salvaged(led_by_first(tmp_path / "s", leader, replica([*COMMON, *tail], ((0, 0),))))
    assert len(found) == count
