"""Records of magic 2 taken apart: varints of every length, what Kafka reads, and what it refuses."""

from __future__ import annotations

import struct

import pytest
from tests.support.encoder import TIMESTAMP_MS, Record, encode_batch, encode_varint
from tests.support.hashing import NumberedHasher

from replica_audit.segments.record_batch import HEADER_BYTES
from replica_audit.segments.records import RecordError, decode_records, read_records


def fields(*parts: bytes | int) -> bytes:
    """A record of these fields, behind its length and attributes."""
    body = b"\0" + b"".join(encode_varint(part) if isinstance(part, int) else part for part in parts)
    return encode_varint(len(body)) + body


@pytest.mark.parametrize("number", [0, 63, 64, 8191, 8192, 2**20 - 1, 2**31 - 1])
@pytest.mark.parametrize("sign", [1, -1])
def test_deltas_of_every_length(number, sign):
    ((timestamp, offset, *rest),) = read_records(fields(sign * number, sign * number, -1, -1, 0), 1)
    assert (timestamp, offset) == (sign * number, sign * number) and rest == [None, None, ()]


@pytest.mark.parametrize("timestamp", [2**40, -(2**40), 2**63 - 1, -(2**63)])
def test_a_timestamp_may_be_long_and_an_offset_may_not(timestamp):
    assert next(read_records(fields(timestamp, 0, -1, -1, 0), 1))[0] == timestamp
    with pytest.raises(RecordError, match="a varint of at most 32 bits"):
        list(read_records(fields(0, timestamp, -1, -1, 0), 1))
    with pytest.raises(RecordError, match="a varint of at most 64 bits"):
        list(read_records(b"\x30\0" + b"\xff" * 10 + b"\1\0\1\1\0" + bytes(9), 1))


@pytest.mark.parametrize("size", [0, 1, 63, 64, 127, 8191, 8192, 1 << 20])
def test_keys_values_and_headers_of_every_length(size):
    content = bytes(size)
    one = fields(0, 0, size, content, size, content, 2, size, content, size, content, 1, b"n", -1)
    found = list(read_records(one * 2, 2))
    assert found == [(0, 0, content, content, (content, content, b"n", None))] * 2


def test_a_length_below_zero_is_null_as_it_is_for_kafka():
    """`Utils.readBytes` makes null of every negative size."""
    assert list(read_records(fields(0, 0, -2, -7, 1, 1, b"n", -3), 1)) == [(0, 0, None, None, (b"n", None))]


def test_the_name_of_a_header_need_not_be_utf_8():
    """Kafka decodes a name only when somebody asks for it, and then by replacement."""
    record = fields(0, 0, -1, -1, 1, 2, b"\xff\xfe", -1)
    entry = encode_batch(0, 1, 0)[:HEADER_BYTES] + record
    hasher = NumberedHasher()
    assert decode_records(entry, hasher)["headers"].tolist() == [hasher.hash(b"\xff\xfe", None)]


@pytest.mark.parametrize(
    ("data", "count", "reason"),
    [
        (b"", -1, "expected a number of records, found -1"),
        (b"", 1, "the batch ends within record 0, of 1"),
        (fields(0, 0, -1, -1, 0), 2, "the batch ends within record 1, of 2"),
        (fields(0, 0, -1, -1, 0) + b"x", 1, "1 byte left after the last of 1 record"),
        (fields(0, 0, -1, -1, 0) + b"xy", 0, None),
        (encode_varint(-1) + bytes(8), 1, "record 0 has a length that does not fit"),
        (encode_varint(40) + bytes(8), 1, "record 0 has a length that does not fit"),
        (fields(0, 0, -1, -1, 0, 5), 1, "the fields of record 0 do not end where the record does"),
        (fields(0, 0, 3, b"ab", -1, 0), 1, None),
        (fields(0, 0, -1, -1, -1), 1, "a negative number of headers"),
        (fields(0, 0, -1, -1, 1, -1, -1), 1, "a header has no name"),
        (fields(0, 0, -1, -1, 2, 1, b"n", -1), 1, None),
    ],
)
def test_what_kafka_refuses_is_refused(data, count, reason):
    with pytest.raises(RecordError, match=reason):
        list(read_records(data, count))


def test_a_time_past_64_bits_is_refused():
    entry = bytearray(encode_batch(0, [Record(b"k", b"v", timestamp_ms=TIMESTAMP_MS + 1)], 0))
    entry[27:35] = struct.pack(">q", 2**63 - 1)
    with pytest.raises(RecordError, match="has more than 64 bits"):
        decode_records(bytes(entry), NumberedHasher())
