"""Headers of magic 2 against bytes that kafka-clients 3.9.1 wrote."""

from __future__ import annotations

import io

import numpy as np
import pytest
from tests.support.encoder import encode_batch

from replica_audit.segments.record_batch import BATCH_DTYPE, HEADER_DTYPE, decode_batches, follow_lengths
from replica_audit.segments.scan import scan_segment

TIMESTAMP = 1_700_000_000_000

GOLDEN = {
    "plain": (
        "00000000000000640000004c0000000302d4575bef0000000000010000018bcfe568000000018bcfe56805ffffffffffffffffffffffff"
        "ffff0000000222000000046b310476310402680278026e0110000a02046b320100",
        (0, 88, 100, 101, 3, 2, 3562494959, True, 0, TIMESTAMP, TIMESTAMP + 5, -1, -1, -1, 2),
    ),
    "transactional": (
        "00000000000000660000003c0000000302d0e5b8a90010000000000000018bcfe5680a0000018bcfe5680a0000000000000007000100000"
        "0000000000114000000046b3304763300",
        (0, 72, 102, 102, 3, 2, 3504715945, True, 0x10, TIMESTAMP + 10, TIMESTAMP + 10, 7, 1, 0, 1),
    ),
    "commit marker": (
        "00000000000000670000004200000004022ed0019f0030000000000000018bcfe568140000018bcfe5681400000000000000070001ffff"
        "ffff000000012000000008000000010c00000000000900",
        (0, 78, 103, 103, 4, 2, 785383839, True, 0x30, TIMESTAMP + 20, TIMESTAMP + 20, 7, 1, -1, 1),
    ),
    "zstd": (
        "000000000000006e0000005600000004021a9dbbf20004000000010000018bcfe568000000018bcfe56801ffffffffffffffffffffffff"
        "ffff0000000228b52ffd0058cc0000984e00000002614061001200020202620462620001000de002010000",
        (0, 98, 110, 111, 4, 2, 0x1A9DBBF2, True, 4, TIMESTAMP, TIMESTAMP + 1, -1, -1, -1, 2),
    ),
    "empty retained": (
        "0000000000000070000000310000000502e45d9d50000000000002ffffffffffffffff0000018bcfe5681e000000000000000700010000"
        "000500000000",
        (0, 61, 112, 114, 5, 2, 0xE45D9D50, True, 0, -1, TIMESTAMP + 30, 7, 1, 5, 0),
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_a_header_written_by_kafka_is_read_field_by_field(name):
    text, expected = GOLDEN[name]
    data = bytes.fromhex(text)
    (batches,) = scan_segment(io.BytesIO(data), len(data), 100)
    assert batches.dtype == BATCH_DTYPE
    assert batches[0].item() == (*expected, False)


def test_several_batches_are_decoded_at_once_with_positions_in_the_file():
    data = b"".join(bytes.fromhex(text) for text, _ in GOLDEN.values())
    starts, end = follow_lengths(b"?" * 7 + data, 7, 1 << 62)
    batches, broken = decode_batches(b"?" * 7 + data, starts, 1000 - 7)
    assert end == 7 + len(data) and not broken.any() and batches["crc_valid"].all()
    assert batches["position"].tolist() == [1000, 1088, 1160, 1238, 1336]
    assert batches["last_offset"].tolist() == [expected[3] for _, expected in GOLDEN.values()]


def test_headers_are_61_bytes_and_rows_keep_the_agreed_columns():
    assert HEADER_DTYPE.itemsize == 61
    kinds = {name: BATCH_DTYPE[name].str.lstrip("<>|=") for name in BATCH_DTYPE.names}
    assert kinds == {
        "position": "i8", "size": "i8", "base_offset": "i8", "last_offset": "i8", "leader_epoch": "i4", "magic": "i1",
        "crc": "i8", "crc_valid": "b1", "attributes": "i2", "base_timestamp": "i8", "max_timestamp": "i8",
        "producer_id": "i8", "producer_epoch": "i2", "base_sequence": "i4", "record_count": "i4",
        "crc_unchecked": "b1",
    }  # fmt: skip
    assert all(BATCH_DTYPE[name].isnative for name in BATCH_DTYPE.names)


@pytest.mark.parametrize("length", [-(2**31), -12, 0, 13, 2**31 - 1])
def test_following_stops_before_a_length_that_cannot_be(length):
    batch = encode_batch(0, 1, 0)
    data = batch + batch[:8] + length.to_bytes(4, "big", signed=True) + batch[12:]
    starts, end = follow_lengths(data, 0, 1 << 62)
    assert starts.tolist() == [0] and end == len(batch)


def test_a_last_offset_past_int64_or_below_the_base_is_an_impossible_frame():
    data = encode_batch(2**63 - 2, 3, 0) + encode_batch(5, 1, 0, last_offset_delta=-1) + encode_batch(2**63 - 4, 3, 0)
    starts, _ = follow_lengths(data, 0, 1 << 62)
    batches, broken = decode_batches(data, starts, 0)
    assert broken.tolist() == [True, True, False]
    assert batches["crc_valid"].all() and isinstance(batches, np.ndarray)
