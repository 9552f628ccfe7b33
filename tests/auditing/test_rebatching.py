"""Batches that differ though their offsets agree: their records decide (DIV-BATCHING, DIV-FORMAT, DIV-CONTENT)."""

from __future__ import annotations

import pytest
from tests.support.encoder import Record, encode_batch, encode_legacy, encode_wrapper
from tests.support.rebatched import DELETE, _records, rebatched
from tests.support.record_reads import note_reads
from tests.support.scenario import Answer, audit, written
from tests.support.snapshots import Replica

from replica_audit.auditing.compare.record_comparison import RecordComparison


def _old(start: int, end: int, magic: int = 1, odd: tuple[int, ...] = ()) -> list[bytes]:
    return [
        encode_legacy(offset, record.value, record.key, magic=magic)
        for offset, record in zip(range(start, end), _records(start, end, odd), strict=True)
    ]


def _wrapped(start: int, end: int, codec: str = "gzip", magic: int = 1, odd: tuple[int, ...] = (), **options) -> bytes:
    messages = [(record.key, record.value) for record in _records(start, end, odd)]
    return encode_wrapper(start, messages, codec, magic=magic, **options)


def _audit(path, leader, follower, **options) -> Answer:
    brokers = {1: Replica(leader), 2: Replica(follower)}
    return audit(path, brokers, configs=options.pop("configs", DELETE), **options)


@pytest.mark.parametrize(
    "follower",
    [
        rebatched(0, 20, 3),
        rebatched(0, 20, 20),
        rebatched(0, 20, 5, codec="zstd"),
        [*rebatched(0, 7, 7, codec="lz4"), *rebatched(7, 20, 2)],
    ],
    ids=["smaller", "larger", "recompressed", "mixed"],
)
def test_equal_records_in_other_batches(tmp_path, follower):
    answer = _audit(tmp_path, rebatched(0, 20, 5), follower)
    severity, confidence, start, end = answer.one("DIV-BATCHING", 2)
    assert (severity, confidence, start, end) == ("low", "proven", 0, 20)
    assert answer.runs(2) == []
    assert answer.replica(2)["common_prefix_end"] == 20
    assert answer.verdict == "CONSISTENT"
    assert answer.codes("medium") == set()


def test_one_record_in_other_batches_is_other_content_and_counts_alone(tmp_path):
    answer = _audit(tmp_path, rebatched(0, 30, 5), rebatched(0, 30, 10, odd=(13,)))
    assert [run[:5] for run in answer.runs(2)] == [("DIV-CONTENT", 13, 14, 0, 0)]
    (row,) = answer.tables["divergences"]
    assert (row["record_count"], row["lost_records"], row["lost_committed"]) == (1, 1, 0)
    assert answer.one("DIV-CONTENT", 2)[0] == "critical"
    assert answer.one("DIV-BATCHING", 2)[2:] == (0, 30)
    assert answer.replica(2)["common_prefix_end"] == 13
    assert answer.verdict == "COMMITTED_DIVERGENCE"


def test_a_differing_record_in_equal_bounds_is_found_to_the_offset(tmp_path):
    answer = _audit(
        tmp_path, rebatched(0, 20, 5), [*rebatched(0, 5, 5), *rebatched(5, 10, 5, odd=(8,)), *rebatched(10, 20, 5)]
    )
    assert [run[:5] for run in answer.runs(2)] == [("DIV-CONTENT", 8, 9, 0, 0)]


@pytest.mark.parametrize(
    ("odd", "runs"),
    [
        ((10,), [(10, 11)]),
        ((12,), [(12, 13)]),
        ((14,), [(14, 15)]),
        ((10, 14), [(10, 11), (14, 15)]),
        ((14, 15, 16), [(14, 17)]),
        (tuple(range(10, 15)), [(10, 15)]),
    ],
)
def test_only_records_that_differ_count(tmp_path, odd, runs):
    """Whatever else is in their batches: in the cost matrix, too, and where a checkpoint proves them committed."""
    answer = _audit(tmp_path, rebatched(0, 20, 5), rebatched(0, 20, 5, odd=odd))
    assert [run[1:3] for run in answer.runs(2)] == runs
    (partition,) = answer.tables["partitions"]
    assert partition["lost_records"] == len(odd)
    assert sum(row["lost_records"] for row in answer.tables["divergences"]) == len(odd)
    assert sum(row["record_count"] for row in answer.tables["divergences"]) == len(odd)
    assert (answer.replica(2)["lost_held"], answer.replica(2)["lost_only_here"]) == (len(odd), len(odd))


@pytest.mark.parametrize("field", ["timestamp", "headers", "producer", "sequence", "transaction"])
def test_what_belongs_to_a_record_besides_key_and_value(tmp_path, field):
    plain = {"producer_id": 4, "producer_epoch": 0, "base_sequence": 7, "transactional": True}
    other = dict(plain)
    records = _records(0, 5)
    changed = list(records)
    if field == "timestamp":
        changed[3] = Record(records[3].key, records[3].value, timestamp_ms=5)
    elif field == "headers":
        changed[3] = Record(records[3].key, records[3].value, headers=(("h", None),))
    else:
        name, value = {
            "producer": ("producer_id", 5),
            "sequence": ("base_sequence", 8),
            "transaction": ("transactional", False),
        }[field]
        other[name] = value
    answer = _audit(tmp_path, [encode_batch(0, records, 0, **plain)], [encode_batch(0, changed, 0, **other)])
    assert answer.one("DIV-CONTENT", 2)[2:] == ((3, 4) if field in ("timestamp", "headers") else (0, 5))


@pytest.mark.parametrize(
    "old",
    [
        _old(0, 20),
        _old(0, 20, magic=0),
        [_wrapped(0, 8), *_old(8, 20)],
        [_wrapped(0, 20, "lz4", magic=0)],
        [_wrapped(0, 20, "snappy", xerial=False)],
    ],
    ids=["v1", "v0", "v1 wrapper", "v0 lz4", "v1 snappy"],
)
@pytest.mark.parametrize("old_leads", [False, True])
def test_equal_records_in_another_format(tmp_path, old, old_leads):
    new, old = Replica(rebatched(0, 20, 5)), Replica(old, epochs=None, first_base_offset=0)
    answer = audit(tmp_path, {1: old, 2: new} if old_leads else {1: new, 2: old}, configs=DELETE)
    assert answer.one("DIV-FORMAT") == ("info", "proven", 0, 20)
    assert answer.tables["divergences"] == []
    assert not {code for code in answer.codes() if code.startswith("DIV-")}


def test_another_record_in_another_format_is_a_conflict(tmp_path):
    brokers = {1: Replica(rebatched(0, 20, 5)), 2: Replica(_old(0, 20, odd=(6, 7)), epochs=None, high_watermark=20)}
    answer = audit(tmp_path, brokers, configs=DELETE)
    assert [run[:5] for run in answer.runs(2)] == [("DIV-HIDDEN", 6, 8, 0, None)]
    assert answer.verdict == "COMMITTED_DIVERGENCE"


def test_a_log_after_an_upgrade_whose_old_part_was_stored_otherwise(tmp_path):
    leader = [*_old(0, 12), *rebatched(12, 20, 4, epoch=3)]
    follower = [_wrapped(0, 6), _wrapped(6, 12, "snappy"), *rebatched(12, 20, 4, epoch=3)]
    brokers = {1: Replica(leader, epochs=[(3, 12)]), 2: Replica(follower, epochs=[(3, 12)], first_base_offset=0)}
    answer = audit(tmp_path, brokers, configs=DELETE)
    assert answer.one("DIV-BATCHING", 2)[2:] == (0, 12)
    assert answer.runs(2) == []
    assert answer.codes("medium") == set()


def test_records_that_are_missing_inside_other_batches_are_a_hole(tmp_path):
    """The leader's batch reaches past what the follower has of it."""
    follower = [*rebatched(0, 5, 5), *rebatched(5, 8, 3), *rebatched(10, 20, 5)]
    answer = _audit(tmp_path / "here", rebatched(0, 20, 5), follower)
    assert [run[:5] for run in answer.runs(2)] == [("DIV-HIDDEN", 8, 10, 0, None)]
    answer = _audit(tmp_path / "there", follower, rebatched(0, 20, 5))
    assert [run[:5] for run in answer.runs(2)] == [("DIV-HIDDEN", 8, 10, None, 0)]


def test_a_topic_that_was_compacted_once_has_no_holes_where_a_cleaner_was(tmp_path):
    thin = encode_batch(5, [_records(5, 6)[0]], 0, last_offset_delta=4)
    answer = _audit(tmp_path, rebatched(0, 20, 5), [*rebatched(0, 5, 5), thin, *rebatched(10, 20, 5)])
    assert answer.runs(2) == [], answer


def test_a_log_start_inside_a_differing_batch(tmp_path):
    leader = Replica(rebatched(0, 20, 10), log_start=7)
    answer = audit(tmp_path, {1: leader, 2: Replica(rebatched(0, 20, 10, odd=(3,)), log_start=7)}, configs=DELETE)
    assert answer.runs(2) == [], answer
    again = audit(
        tmp_path / "above", {1: leader, 2: Replica(rebatched(0, 20, 10, odd=(3, 8)), log_start=7)}, configs=DELETE
    )
    assert [run[:3] for run in again.runs(2)] == [("DIV-CONTENT", 8, 9)]


def test_where_records_cannot_be_decoded_the_headers_word_stands(tmp_path):
    broken = encode_batch(5, _records(5, 10), 0, record_count=5, attributes=1)
    answer = _audit(tmp_path, rebatched(0, 20, 5), [*rebatched(0, 5, 5), broken, *rebatched(10, 20, 5)])
    assert [run[:3] for run in answer.runs(2)] == [("DIV-CONTENT", 5, 10)]
    assert answer.one("LOG-FIELD", 2)[2:] == (5, 10)


def test_a_file_that_changed_under_the_audit_is_unreadable(tmp_path, monkeypatch):
    other = rebatched(0, 20, 10, odd=(3,))
    path = tmp_path / "broker-2" / "orders-0" / "00000000000000000000.log"
    rows = RecordComparison.rows

    def changed(self, facts, batches, keys=None):
        path.write_bytes(b"".join(rebatched(0, 20, 10, odd=(4,))))
        return rows(self, facts, batches, keys)

    monkeypatch.setattr(RecordComparison, "rows", changed)
    answer = _audit(tmp_path, rebatched(0, 20, 10), other)
    assert answer.one("CAP-UNREADABLE", 2)[0] == "high"
    assert [run[:3] for run in answer.runs(2)] == [("DIV-CONTENT", 0, 10)], "the headers' word stands"


def test_nothing_is_read_where_batches_agree_or_epochs_tell(tmp_path, monkeypatch):
    asked = note_reads(monkeypatch)
    shared = written(0, 20, 0)
    old = Replica([*shared, *written(20, 30, 0, "old ")], high_watermark=20)
    brokers = {1: Replica([*shared, *written(20, 40, 1)], high_watermark=20), 2: old, 3: Replica(shared[:3])}
    answer = audit(tmp_path, brokers, isr=(1,), configs=DELETE)
    assert [run[:3] for run in answer.runs(2)] == [("DIV-EPOCH", 20, 30)] and asked == []


def test_only_differing_batches_are_read(tmp_path, monkeypatch):
    asked = note_reads(monkeypatch)
    answer = _audit(
        tmp_path, rebatched(0, 200, 5), [*rebatched(0, 95, 5), *rebatched(95, 105, 2), *rebatched(105, 200, 5)]
    )
    assert answer.one("DIV-BATCHING", 2)[2:] == (95, 105)
    assert sorted(read[:2] for read in asked) == [(1, 95), (1, 100), *((2, base) for base in range(95, 105, 2))]
