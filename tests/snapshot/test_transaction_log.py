"""Open transactions by batch headers, and the coordinator's log that says which of them are over."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from tests.support.coordinator_log import KEY, NAME, log_value
from tests.support.encoder import Record, encode_batch, encode_marker, flip
from tests.support.scanned import FIXTURES, batches_of, scan_file, truth

from replica_audit.model import SegmentSummary
from replica_audit.segments.open_transactions import TransactionFinder, open_at_end
from replica_audit.segments.summary import Summariser, summary_from_json, summary_to_json
from replica_audit.snapshot.file_tree import TreeEntry
from replica_audit.snapshot.storage import Snapshot
from replica_audit.snapshot.transaction_log import (
    find_transaction_logs,
    latest_states,
    read_transaction_states,
)


def _data(base: int, producer: int, epoch: int = 0, count: int = 2, time: int = 1000) -> bytes:
    return encode_batch(
        base,
        count,
        0,
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=0,
        transactional=True,
        timestamp_ms=time,
    )


def _summary(path: Path, base: int, *batches: bytes) -> SegmentSummary:
    file = path / f"{base:020d}.log"
    file.write_bytes(b"".join(batches))
    summariser = Summariser(file.name, base, file.stat().st_size)
    for item in scan_file(file):
        summariser.add(item)
    return summary_from_json(summary_to_json(summariser.finish()))


def test_what_no_marker_follows_is_open(tmp_path):
    summary = _summary(
        tmp_path,
        0,
        _data(0, 1),
        _data(2, 2, time=2000),
        encode_marker(4, "COMMIT", 0, producer_id=1, producer_epoch=0),
        encode_batch(5, 2, 0, producer_id=9, producer_epoch=0, base_sequence=0),
        _data(7, 2, epoch=1, time=3000),
    )
    (found,) = summary.open_transactions
    assert (found.producer_id, found.first_epoch, found.last_epoch) == (2, 0, 1)
    assert (found.first_offset, found.last_offset, found.last_timestamp_ms) == (2, 8, 3000)
    assert summary.ended_producers == ((1, 0),)


def test_a_marker_in_a_later_segment_ends_what_an_earlier_one_left_open(tmp_path):
    segments = [
        _summary(tmp_path, 0, _data(0, 1), _data(2, 2), _data(4, 3)),
        _summary(tmp_path, 6, encode_marker(6, "ABORT", 0, producer_id=1, producer_epoch=0), _data(7, 2)),
        _summary(
            tmp_path, 9, _data(9, 3), encode_marker(11, "COMMIT", 0, producer_id=3, producer_epoch=0), _data(12, 1)
        ),
    ]
    found = open_at_end(segments)
    assert {producer: (one.first_offset, one.last_offset) for producer, one in found.items()} == {
        1: (12, 13),
        2: (2, 8),
    }


def test_a_batch_with_a_wrong_checksum_neither_opens_nor_ends_anything(tmp_path):
    broken = flip(_data(2, 2))
    summary = _summary(tmp_path, 0, _data(0, 1), broken, _data(4, 1))
    assert [one.producer_id for one in summary.open_transactions] == [1]


def test_a_log_without_transactions_has_none():
    finder = TransactionFinder()
    finder.watch(batches_of(scan_file(FIXTURES / "diverged-unclean" / "broker-0" / "ledger-0" / NAME)))
    assert finder.open_transactions() == finder.ended_producers() == ()


def test_brokers_say_the_same_of_real_logs():
    """The last stable offset that clients were told is where the first open transaction begins."""
    seen = 0
    for capture in ("healthy-running", "txn-failover-1-unclean", "txn-failover-2-healed", "compacted-skewed-1"):
        for partition, told in truth(capture)["watermarks_from_clients"].items():
            leader = truth(capture)["leader_isr"][partition]["leader"]
            stable = told.get("last_stable_offset")
            if stable is None or leader < 0:
                continue
            finder = TransactionFinder()
            for path in sorted((FIXTURES / capture / f"broker-{leader}" / partition).glob("*.log")):
                finder.watch(batches_of(scan_file(path)))
            first = min((one.first_offset for one in finder.open_transactions()), default=told["high_watermark"])
            assert min(first, told["high_watermark"]) == stable, f"{capture} {partition}"
            seen += bool(finder.open_transactions())
    assert seen >= 5


def _flexible_value(producer: int, epoch: int, state: int, previous: int | None = None) -> bytes:
    """`TransactionLogValue` of version 1 for the partition orders-1, with the tagged previous producer id."""
    text = struct.pack(">hqhib", 1, producer, epoch, 60_000, state)
    text += b"\x02" + b"\x07orders" + b"\x02" + struct.pack(">i", 1) + b"\x00" + struct.pack(">qq", 5000, 4000)
    if previous is None:
        return text + b"\x00"
    # Tags in ascending order; 2 is ClientTransactionVersion.
    return text + b"\x02" + b"\x00\x08" + struct.pack(">q", previous) + b"\x02\x02" + struct.pack(">h", 2)


def _states(root: Path, *batches: bytes, producers=(7, 8, 9)):
    folder = root / "__transaction_state-3"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / NAME).write_bytes(b"".join(batches))
    snapshot = Snapshot.open(root)
    (segment,) = find_transaction_logs(snapshot, [""])
    return list(read_transaction_states(snapshot, segment, set(producers)))


def test_states_of_the_producers_asked_for(tmp_path):
    ongoing = Record(KEY, log_value(7, 2, 1, {"orders": [0, 4], "x": [1]}))
    other = Record(KEY, log_value(70, 0, 1, {}))
    done = Record(KEY, log_value(7, 2, 4, {}, updated=6000))
    states = _states(
        tmp_path, encode_batch(10, [ongoing, other], 3), encode_batch(12, [done, Record(KEY, None)], 4, codec="gzip")
    )
    assert [(one.state, one.offset, one.leader_epoch, one.producer_epoch) for one in states] == [
        ("Ongoing", 10, 3, 2),
        ("CompleteCommit", 12, 4, 2),
    ]
    assert states[0].partitions == (("orders", 0), ("orders", 4), ("x", 1))
    assert latest_states(states)[7].updated_ms == 6000
    assert latest_states(reversed(states))[7].state == "CompleteCommit"


def test_a_producer_whose_epochs_ran_out_is_followed_to_its_successor(tmp_path):
    states = _states(
        tmp_path,
        encode_batch(0, [Record(KEY, _flexible_value(8, 32767, 2))], 0),
        encode_batch(1, [Record(KEY, _flexible_value(9, 0, 4, previous=8))], 0),
    )
    latest = latest_states(states)
    assert (latest[8].state, latest[8].producer_epoch) == ("CompleteCommit", -1)
    assert (latest[9].state, latest[9].producer_epoch, latest[9].partitions) == ("CompleteCommit", 0, (("orders", 1),))


def test_the_newer_leaders_word_counts_among_copies(tmp_path):
    old = _states(tmp_path / "a", encode_batch(50, [Record(KEY, log_value(7, 0, 1, {"orders": [0]}))], 1))
    new = _states(tmp_path / "b", encode_batch(40, [Record(KEY, log_value(7, 0, 5, {}))], 2))
    assert latest_states([*old, *new])[7].state == "CompleteAbort"


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\0",
        struct.pack(">h", 9),
        log_value(7, 0, 1, {"orders": [0]})[:20],
        log_value(7, 0, 88, {}),
        b"\0\1" + b"\xff" * 30,
    ],
)
def test_what_is_no_state_is_passed_over(tmp_path, value):
    good = Record(KEY, log_value(8, 0, 0, {}))
    states = _states(tmp_path, encode_batch(0, [Record(KEY, value)], 0), encode_batch(1, [good], 0))
    assert [(one.producer_id, one.state) for one in states] == [(8, "Empty")]


def test_only_current_directories_of_the_topic_are_read(tmp_path):
    for name in (
        "__transaction_state-0",
        "__transaction_state-1.0123456789abcdef0123456789abcdef-delete",
        "orders-0",
        "__transaction_state",
    ):
        (tmp_path / "disk" / name).mkdir(parents=True)
        (tmp_path / "disk" / name / NAME).write_bytes(b"")
    (tmp_path / "disk" / "__transaction_state-0" / "00000000000000000000.log.deleted").write_bytes(b"")
    found = find_transaction_logs(Snapshot.open(tmp_path), ["disk", "disk", "gone"])
    assert found == [TreeEntry(f"disk/__transaction_state-0/{NAME}", 0, False)]


def test_a_real_coordinator_says_what_its_client_was_told():
    capture = "txn-failover-2-healed"
    root = FIXTURES / capture
    snapshot = Snapshot.open(root)
    states = latest_states(
        state
        for segment in find_transaction_logs(snapshot, ["broker-0", "broker-1", "broker-2"])
        for state in read_transaction_states(snapshot, segment, range(10))
    )
    listing = truth(capture)["coordinator_says"][1]
    for producer, state in ((0, "CompleteAbort"), (1, "CompleteCommit"), (2, "CompleteCommit")):
        assert f"producerId={producer}, transactionState={state}" in listing
        assert states[producer].state == state
