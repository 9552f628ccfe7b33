"""Magic 0 and 1 against bytes that kafka-clients wrote, and wrappers that Kafka would refuse."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest
from tests.support.encoder import compress, encode_batch, encode_legacy, encode_wrapper
from tests.support.legacy_wrappers import V0_LZ4, V1_GZIP, V1_LZ4

from replica_audit.model import Damage
from replica_audit.segments.compression import CodecError, decompress
from replica_audit.segments.message_set import parse_wrapper
from replica_audit.segments.scan import scan_segment

TIMESTAMP = 1_700_000_000_000
MESSAGES = [(b"a", b"aaaa"), (b"b", b"bb"), (None, None)]


def _scan(data: bytes, base_offset: int = 0) -> list:
    return list(scan_segment(io.BytesIO(data), len(data), base_offset))


@pytest.mark.parametrize(
    ("text", "base", "last", "magic", "first_timestamp", "timestamp"),
    [
        (V0_LZ4, 6, 7, 0, -1, -1),
        (V1_LZ4, 14, 15, 1, TIMESTAMP, TIMESTAMP + 1),
        (V1_GZIP, 10, 11, 1, TIMESTAMP, TIMESTAMP + 1),
    ],
    ids=["v0 lz4", "v1 lz4", "v1 gzip"],
)
def test_a_wrapper_written_by_kafka_gives_its_inner_offsets(text, base, last, magic, first_timestamp, timestamp):
    data = bytes.fromhex(text)
    if text == V1_GZIP and len(data) != struct.unpack_from(">i", data, 8)[0] + 12:
        pytest.fail("the golden bytes were copied wrongly")
    (rows,) = _scan(data)
    row = rows[0]
    assert (row["base_offset"], row["last_offset"], row["magic"], row["record_count"]) == (base, last, magic, 2)
    assert bool(row["crc_valid"])
    assert (row["base_timestamp"], row["max_timestamp"]) == (first_timestamp, timestamp)
    absent = ("leader_epoch", "producer_id", "producer_epoch", "base_sequence")
    assert [int(row[name]) for name in absent] == [-1, -1, -1, -1]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize(("codec", "xerial"), [("gzip", True), ("snappy", True), ("snappy", False), ("lz4", True)])
def test_wrappers_of_every_codec_and_plain_entries_stand_in_one_array(magic, codec, xerial):
    data = (
        encode_legacy(20, b"v", b"k", magic=magic)
        + encode_wrapper(21, MESSAGES, codec, magic=magic, xerial=xerial)
        + encode_wrapper(30, MESSAGES, codec, magic=magic, xerial=xerial, offset_deltas=(1, 4, 9))
    )
    (rows,) = _scan(data, 20)
    assert rows["base_offset"].tolist() == [20, 21, 31]
    assert rows["last_offset"].tolist() == [20, 23, 39]
    assert rows["record_count"].tolist() == [1, 3, 3]
    assert rows["crc_valid"].all() and set(rows["magic"].tolist()) == {magic}


def test_a_log_that_was_upgraded_is_read_through_all_its_versions():
    data = encode_legacy(0, b"x", magic=0) + encode_wrapper(1, MESSAGES, "gzip", magic=1) + encode_batch(4, 3, 7)
    rows = np.concatenate(_scan(data))
    assert rows["magic"].tolist() == [0, 1, 2]
    assert rows["base_offset"].tolist() == [0, 1, 4]
    assert rows["leader_epoch"].tolist() == [-1, -1, 7]


def test_the_wrapper_timestamp_counts_where_the_broker_stamped_it():
    (rows,) = _scan(encode_wrapper(0, MESSAGES, "gzip", timestamp_ms=TIMESTAMP, log_append_time=True))
    assert rows["base_timestamp"].tolist() == [TIMESTAMP] and rows["max_timestamp"].tolist() == [TIMESTAMP]


def _wrapper(offset: int, inner: bytes, codec: int = 1, magic: int = 1) -> bytes:
    return encode_legacy(offset, compress("gzip", inner), magic=magic, attributes=codec)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (_wrapper(3, b""), "empty"),
        (_wrapper(3, encode_legacy(0, b"a long value", magic=0)), "another magic"),
        (_wrapper(3, encode_legacy(0, b"v", magic=1)[:-1]), "has a size"),
        (_wrapper(3, encode_legacy(0, b"v") + b"\0" * 5), "cut off"),
        (_wrapper(3, encode_legacy(0, b"v", attributes=1)), "compressed"),
        (_wrapper(3, encode_legacy(5, b"v")), "below"),
        (encode_legacy(3, None, attributes=1), "no value"),
        (_wrapper(3, encode_legacy(0, b"v"), codec=3), "LZ4"),
        (_wrapper(3, encode_legacy(0, b"v"), codec=5), "codec 5"),
    ],
    ids=["empty", "other magic", "cut", "rest", "nested", "offset", "null", "other codec", "no codec"],
)
def test_a_wrapper_that_kafka_would_refuse_is_not_opened_but_still_a_row(entry, words):
    with pytest.raises(ValueError, match=words):
        parse_wrapper(memoryview(entry), 3, 1, entry[17])
    (rows,) = _scan(encode_legacy(0, b"x") + entry)
    assert rows["record_count"].tolist() == [1, -1]
    assert rows["base_offset"].tolist() == [0, 1], "taken to begin where the entry before ends"
    assert rows["last_offset"].tolist() == [0, 3]


def test_the_wrapper_offset_0_of_librdkafka_is_let_pass():
    inner = encode_legacy(0, b"v") + encode_legacy(1, b"w")
    entry = _wrapper(0, inner)
    assert parse_wrapper(memoryview(entry), 0, 1, 1).base_offset == 0


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("magic", [0, 2])
def test_every_codec_expands_and_refuses_more_than_its_bound(codec, magic):
    number = {"gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}[codec]
    content = bytes(range(256)) * 4096
    packed = compress(codec, content, magic=magic)
    assert decompress(number, packed) == content
    assert decompress(number, packed, len(content)) == content
    with pytest.raises(CodecError, match="more than"):
        decompress(number, packed, len(content) - 1)
    with pytest.raises(CodecError):
        decompress(number, packed[: len(packed) // 2])


def test_a_bomb_is_refused_without_being_expanded():
    bomb = compress("gzip", b"\0" * (64 << 20))
    with pytest.raises(CodecError, match="more than 1000 bytes"):
        decompress(1, bomb, 1000)


def test_gzip_members_that_follow_each_other_are_one_stream():
    assert decompress(1, compress("gzip", b"one") + compress("gzip", b"two")) == b"onetwo"


def test_a_magic_byte_flipped_to_a_legacy_one_keeps_the_offsets_of_the_batch():
    flipped = bytearray(encode_batch(3, 4, 2))
    flipped[16] = 0
    items = _scan(encode_batch(0, 3, 2) + bytes(flipped) + encode_batch(7, 1, 2))
    assert not any(isinstance(item, Damage) for item in items)
    rows = np.concatenate(items)
    assert rows["base_offset"].tolist() == [0, 3, 7] and rows["last_offset"].tolist() == [2, 6, 7]
    assert rows["crc_valid"].tolist() == [True, False, True] and rows["magic"].tolist() == [2, 0, 2]
