"""Records of every format and codec against bytes of kafka-clients, an independent decoder, and bytes that are none."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record import MemoryRecords
from tests.support.encoder import (
    CODECS,
    TIMESTAMP_MS,
    Record,
    encode_batch,
    encode_legacy,
    encode_marker,
    encode_wrapper,
)
from tests.support.hashing import NumberedHasher
from tests.support.legacy_wrappers import V0_LZ4, V1_GZIP, V1_LZ4
from tests.support.scanned import CAPTURES, FIXTURES, batches_of, scan_file

from replica_audit.segments.records import (
    ABORT,
    COMMIT,
    RECORD_DTYPE,
    RecordError,
    decode_records,
)

TWO_RECORDS = (
    "00000000000000640000004c0000000302d4575bef0000000000010000018bcfe568000000018bcfe56805ffffffffffffffffffffffffffff"
    "0000000222000000046b310476310402680278026e0110000a02046b320100"
)
TRANSACTIONAL = (
    "00000000000000660000003c0000000302d0e5b8a90010000000000000018bcfe5680a0000018bcfe5680a0000000000000007000100000000"
    "0000000114000000046b3304763300"
)
COMMIT_MARKER = (
    "00000000000000670000004200000004022ed0019f0030000000000000018bcfe568140000018bcfe5681400000000000000070001ffffffff"
    "000000012000000008000000010c00000000000900"
)
COMPRESSED = {
    "gzip": "0000000000000068000000590000000402a5c99e3d0001000000010000018bcfe568000000018bcfe56801ffffffffffffffffffff"
    "ffffffff000000021f8b08000000000000fff3636060604a7448240018841898989892589292180086d7ec4f32000000",
    "snappy": "000000000000006a0000005e00000004027c19a3990002000000010000018bcfe568000000018bcfe56801ffffffffffffffffff"
    "ffffffffff0000000282534e4150505900000000010000000100000019321c4e000000026140617a0100280012000202026204626200",
    "lz4": "000000000000006c000000580000000402e9803cd30003000000010000018bcfe568000000018bcfe56801ffffffffffffffffffff"
    "ffffffff0000000204224d18604082180000008f4e0000000261406101000cb0001200020202620462620000000000",
    "zstd": "000000000000006e0000005600000004021a9dbbf20004000000010000018bcfe568000000018bcfe56801ffffffffffffffffffff"
    "ffffffff0000000228b52ffd0058cc0000984e00000002614061001200020202620462620001000de002010000",
}
EMPTY = (
    "0000000000000070000000310000000502e45d9d50000000000002ffffffffffffffff0000018bcfe5681e0000000000000007000100000005"
    "00000000"
)


@pytest.fixture
def hasher() -> NumberedHasher:
    return NumberedHasher()


def test_records_of_a_batch_that_kafka_wrote(hasher):
    rows = decode_records(bytes.fromhex(TWO_RECORDS), hasher)
    assert rows.dtype == RECORD_DTYPE
    assert rows["offset"].tolist() == [100, 101]
    assert rows["timestamp"].tolist() == [TIMESTAMP_MS, TIMESTAMP_MS + 5]
    assert set(rows["leader_epoch"].tolist()) == {3}
    assert rows["has_key"].tolist() == [True, True]
    assert rows["has_value"].tolist() == [True, False]
    assert rows["key"].tolist() == [hasher.hash(b"k1"), hasher.hash(b"k2")]
    assert rows["content"].tolist() == [hasher.hash(b"k1", b"v1"), hasher.hash(b"k2", None)]
    assert rows["headers"].tolist() == [hasher.hash(b"h", b"x", b"n", None), hasher.hash()]
    assert rows["sequence"].tolist() == rows["producer_id"].tolist() == [-1, -1]


def test_a_transactional_record_and_the_marker_after_it(hasher):
    (record,) = decode_records(bytes.fromhex(TRANSACTIONAL), hasher)
    assert (record["producer_id"], record["producer_epoch"], record["sequence"]) == (7, 1, 0)
    assert (bool(record["transactional"]), bool(record["control"]), record["marker"]) == (True, False, -1)
    (marker,) = decode_records(bytes.fromhex(COMMIT_MARKER), hasher)
    assert (bool(marker["transactional"]), bool(marker["control"]), marker["marker"]) == (True, True, COMMIT)
    aborted = encode_marker(5, "ABORT", 2, producer_id=7, producer_epoch=1)
    assert decode_records(aborted, hasher)["marker"].tolist() == [ABORT]


@pytest.mark.parametrize("codec", COMPRESSED)
def test_every_codec_as_kafka_frames_it(codec, hasher):
    rows = decode_records(bytes.fromhex(COMPRESSED[codec]), hasher)
    base = {"gzip": 104, "snappy": 106, "lz4": 108, "zstd": 110}[codec]
    assert rows["offset"].tolist() == [base, base + 1]
    assert rows["key"].tolist() == [hasher.hash(b"a"), hasher.hash(b"b")]


def test_an_empty_retained_batch_has_no_records(hasher):
    assert len(decode_records(bytes.fromhex(EMPTY), hasher)) == 0


@pytest.mark.parametrize(("text", "base", "magic"), [(V0_LZ4, 6, 0), (V1_LZ4, 14, 1), (V1_GZIP, 10, 1)])
def test_wrappers_that_kafka_wrote(text, base, magic, hasher):
    rows = decode_records(bytes.fromhex(text), hasher)
    assert rows["offset"].tolist() == [base, base + 1]
    assert rows["content"].tolist() == [hasher.hash(b"a", b"aaaa"), hasher.hash(b"b", b"bb")]
    assert rows["timestamp"].tolist() == ([-1, -1] if magic == 0 else [TIMESTAMP_MS, TIMESTAMP_MS + 1])
    assert set(rows["magic"].tolist()) == {magic}


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize(("codec", "xerial"), [("gzip", True), ("snappy", True), ("snappy", False), ("lz4", True)])
def test_a_thinned_wrapper_keeps_the_offsets_of_its_messages(magic, codec, xerial, hasher):
    messages = [(b"a", b"1"), (b"b", None), (None, b"3")]
    entry = encode_wrapper(40, messages, codec, magic=magic, offset_deltas=[1, 4, 6], xerial=xerial)
    rows = decode_records(entry, hasher)
    assert rows["offset"].tolist() == [41, 44, 46]
    assert rows["has_key"].tolist() == [True, True, False]
    assert rows["has_value"].tolist() == [True, False, True]


def test_a_wrapper_with_log_append_time_gives_its_own_time_to_all(hasher):
    entry = encode_wrapper(0, [(b"a", b"1"), (b"b", b"2")], "gzip", timestamp_ms=9_000, log_append_time=True)
    assert decode_records(entry, hasher)["timestamp"].tolist() == [9_000, 9_000]


def test_log_append_time_of_a_batch_is_its_greatest(hasher):
    records = [Record(b"a", b"1", timestamp_ms=5_000), Record(b"b", b"2", timestamp_ms=7_000)]
    rows = decode_records(encode_batch(0, records, 0, log_append_time=True), hasher)
    assert rows["timestamp"].tolist() == [7_000, 7_000]


def test_a_delete_horizon_does_not_move_timestamps(hasher):
    records = [
        Record(b"a", None, timestamp_ms=5_000, offset_delta=2),
        Record(b"b", b"2", timestamp_ms=7_000, offset_delta=5),
    ]
    plain = decode_records(encode_batch(80, records, 3, last_offset_delta=6), hasher)
    cleaned = decode_records(encode_batch(80, records, 3, last_offset_delta=6, delete_horizon_ms=999_999), hasher)
    assert plain.tolist() == cleaned.tolist()
    assert plain["timestamp"].tolist() == [5_000, 7_000]


def test_sequences_wrap_and_keep_to_their_offsets(hasher):
    records = [Record(b"a", b"1", offset_delta=0), Record(b"b", b"2", offset_delta=3)]
    entry = encode_batch(10, records, 0, producer_id=4, producer_epoch=0, base_sequence=2**31 - 2)
    assert decode_records(entry, hasher)["sequence"].tolist() == [2**31 - 2, 1]


def test_hashes_of_one_hasher_only_can_be_compared():
    one, other = NumberedHasher(), NumberedHasher()
    assert one.hash(b"key") == one.hash(b"key")
    assert one.hash(b"key") != other.hash(b"key")
    assert (
        len({one.hash(), one.hash(None), one.hash(b""), one.hash(b"", b""), one.hash(b"a", b"b"), one.hash(b"ab")}) == 6
    )
    with pytest.raises(TypeError, match="does not leave its process"):
        pickle.dumps(one)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_nothing_is_expanded_past_the_bound(codec, hasher):
    bomb = [Record(b"k", bytes(1 << 20))]
    entry = encode_batch(0, bomb, 0, codec=codec)
    assert len(entry) < 1 << 17
    assert len(decode_records(entry, hasher)) == 1
    with pytest.raises(RecordError, match="expands to more than 65536 bytes"):
        decode_records(entry, hasher, limit=1 << 16)
    if codec != "zstd":
        with pytest.raises(RecordError, match="expands to more than 65536 bytes"):
            decode_records(encode_wrapper(0, [(b"k", bytes(1 << 20))], codec), hasher, limit=1 << 16)


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (encode_batch(0, 2, 0, record_count=3), None),
        (encode_batch(0, 2, 0, record_count=1), None),
        (encode_batch(0, 2, 0, last_offset_delta=0), "has offset 1 in a batch of 0 to 0"),
        (encode_batch(0, [Record(b"a", b"1", offset_delta=3), Record(b"b", b"2", offset_delta=3)], 0), "has offset 3"),
        (encode_batch(0, 2, 0, attributes=7), "codec 7 does not exist"),
        (encode_batch(0, 2, 0, attributes=1), None),
        (encode_batch(0, 2, 0)[:60], "60 bytes"),
        (b"", "0 bytes"),
        (encode_legacy(0, b"value")[:-3], None),
    ],
)
def test_what_kafka_could_not_read_is_refused_without_its_content(entry, reason, hasher):
    with pytest.raises(RecordError) as raised:
        decode_records(entry, hasher)
    assert str(raised.value)
    assert reason is None or reason in str(raised.value)
    assert "#0" not in str(raised.value), "an error's text holds no content"


_CONTENTS = st.one_of(st.none(), st.binary(max_size=40))


@settings(max_examples=300, deadline=None)
@given(
    records=st.lists(
        st.builds(
            Record,
            key=_CONTENTS,
            value=_CONTENTS,
            timestamp_ms=st.integers(0, 2**41),
            headers=st.lists(st.tuples(st.text(max_size=5), _CONTENTS), max_size=3).map(tuple),
        ),
        min_size=1,
        max_size=12,
    ),
    codec=st.sampled_from(list(CODECS)),
    xerial=st.booleans(),
    gaps=st.lists(st.integers(1, 50), min_size=12, max_size=12),
)
def test_what_is_encoded_is_decoded(records, codec, xerial, gaps):
    hasher = NumberedHasher()
    offsets = np.cumsum(gaps[: len(records)]).tolist()
    placed = [
        Record(one.key, one.value, one.timestamp_ms, one.headers, offset)
        for one, offset in zip(records, offsets, strict=True)
    ]
    rows = decode_records(encode_batch(1000, placed, 5, codec=codec, xerial=xerial), hasher)
    assert rows["offset"].tolist() == [1000 + offset for offset in offsets]
    assert rows["timestamp"].tolist() == [one.timestamp_ms for one in records]
    assert rows["key"].tolist() == [hasher.hash(one.key) for one in records]
    assert rows["content"].tolist() == [hasher.hash(one.key, one.value) for one in records]
    assert rows["has_value"].tolist() == [one.value is not None for one in records]


@settings(max_examples=500, deadline=None)
@given(st.data())
def test_damaged_bytes_are_refused_or_read_and_nothing_else(data):
    codec = data.draw(st.sampled_from(list(CODECS)))
    magic = data.draw(st.sampled_from([0, 1, 2]))
    if magic == 2:
        entry = bytearray(encode_batch(7, 4, 1, codec=codec))
    elif codec in ("none", "zstd"):
        entry = bytearray(encode_legacy(7, b"value", b"key", magic=magic))
    else:
        entry = bytearray(encode_wrapper(7, [(b"a", b"1"), (b"b", b"2")], codec, magic=magic))
    for _ in range(data.draw(st.integers(1, 4))):
        entry[data.draw(st.integers(17, len(entry) - 1))] = data.draw(st.integers(0, 255))
    try:
        rows = decode_records(bytes(entry), NumberedHasher(), limit=1 << 20)
    except RecordError:
        return
    assert rows.dtype == RECORD_DTYPE


def _kafka_python(entry: bytes, hasher: NumberedHasher) -> list[tuple]:
    """Records of one entry by kafka-python's decoder."""
    rows = []
    for batch in MemoryRecords(entry):
        for record in batch:
            timestamp = -1 if record.timestamp is None else record.timestamp
            row = (record.offset, timestamp, hasher.hash(record.key), hasher.hash(record.key, record.value))
            headers = [part for name, content in record.headers for part in (name.encode(), content)]
            rows.append((*row, hasher.hash(*headers)))
    return rows


def _sample(capture: str) -> list:
    """Segments of a capture, one of every topic."""
    chosen = {}
    for path in sorted((FIXTURES / capture).glob("broker-*/**/*.log")):
        if "__cluster_metadata" not in str(path) and path.stat().st_size:
            chosen.setdefault(path.parent.name, path)
    return list(chosen.values())


@pytest.mark.parametrize("capture", [name for name in CAPTURES if not name.startswith(("corrupted", "live"))])
def test_an_independent_decoder_reads_the_same_of_real_segments(capture):
    hasher = NumberedHasher()
    read = 0
    for path in _sample(capture):
        data = path.read_bytes()
        for batch in batches_of(scan_file(path)):
            entry = data[batch["position"] : batch["position"] + batch["size"]]
            rows = decode_records(entry, hasher)
            assert len(rows) == batch["record_count"]
            if len(rows):
                assert batch["base_offset"] <= rows["offset"][0]
                assert rows["offset"][-1] <= batch["last_offset"]
            names = ("offset", "timestamp", "key", "content", "headers")
            own = list(zip(*(rows[name].tolist() for name in names), strict=True))
            assert own == _kafka_python(entry, hasher), f"{path} at {batch['position']}"
            read += len(rows)
    assert read
