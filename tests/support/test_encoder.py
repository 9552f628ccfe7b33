"""The encoder against bytes that kafka-clients 3.9.1 wrote."""

from __future__ import annotations

import gzip
import struct

import cramjam
import google_crc32c
import pytest
from tests.support.encoder import (
    TIMESTAMP_MS,
    Record,
    compress,
    encode_batch,
    encode_legacy,
    encode_marker,
    encode_varint,
    encode_wrapper,
)

PLAIN = (
    "00000000000000640000004c0000000302d4575bef0000000000010000018bcfe568000000018bcfe56805ffffffffffffffffffffffffffff"
    "0000000222000000046b310476310402680278026e0110000a02046b320100"
)
TRANSACTIONAL = (
    "00000000000000660000003c0000000302d0e5b8a90010000000000000018bcfe5680a0000018bcfe5680a0000000000000007000100000000"
    "0000000114000000046b3304763300"
)
COMMIT = (
    "00000000000000670000004200000004022ed0019f0030000000000000018bcfe568140000018bcfe5681400000000000000070001ffffffff"
    "000000012000000008000000010c00000000000900"
)
COMPRESSED = {
    "gzip": "0000000000000068000000590000000402a5c99e3d0001000000010000018bcfe568000000018bcfe56801fffffffffffffffffff"
    "fffffffff"
    "000000021f8b08000000000000fff3636060604a7448240018841898989892589292180086d7ec4f32000000",
    "snappy": "000000000000006a0000005e00000004027c19a3990002000000010000018bcfe568000000018bcfe56801fffffffffffffffff"
    "fffffff"
    "ffff0000000282534e4150505900000000010000000100000019321c4e000000026140617a0100280012000202026204626200",
    "lz4": "000000000000006c000000580000000402e9803cd30003000000010000018bcfe568000000018bcfe56801ffffffffffffffffffff"
    "ffffff"
    "ff0000000204224d18604082180000008f4e0000000261406101000cb0001200020202620462620000000000",
    "zstd": "000000000000006e0000005600000004021a9dbbf20004000000010000018bcfe568000000018bcfe56801fffffffffffffffffff"
    "fffffff"
    "ff0000000228b52ffd0058cc0000984e00000002614061001200020202620462620001000de002010000",
}
EMPTY_RETAINED = (
    "0000000000000070000000310000000502e45d9d50000000000002ffffffffffffffff0000018bcfe5681e0000000000000007000100000005"
    "00000000"
)
LEGACY = {
    (0, "lz4"): "0000000000000007000000527ed7276a0003ffffffff0000004404224d1860401a35000000120001009106000000130a5561a"
    "70f00"
    "9001610000000461616108000002009007000000112804c6ef0d009000016200000002626200000000",
    (1, "lz4"): "000000000000000f0000006217b2c79201030000018bcfe56801ffffffff0000004c04224d186040823d00000016000100e01"
    "b0311"
    "10af01000000018bcfe5681800900161000000046161610800000200001e005019ec82c8d3090001270001090070620000000262620000000"
    "0",
    (1, "gzip"): "000000000000000b00000056d806576901010000018bcfe56801ffffffff000000401f8b08000000000000ff636080036966"
    "418"
    "1f58c400663f7f9a7192011c64420c192080450252059c9374d272ec3958119494082292909005073c6bd4c000000",
}


def test_two_records_with_headers_and_a_null_value_are_as_kafka_writes_them():
    records = (
        Record(b"k1", b"v1", TIMESTAMP_MS, (("h", b"x"), ("n", None))),
        Record(b"k2", None, TIMESTAMP_MS + 5),
    )
    assert encode_batch(100, records, 3).hex() == PLAIN


def test_a_transactional_batch_is_as_kafka_writes_it():
    batch = encode_batch(
        102,
        (Record(b"k3", b"v3"),),
        3,
        timestamp_ms=TIMESTAMP_MS + 10,
        producer_id=7,
        producer_epoch=1,
        base_sequence=0,
        transactional=True,
    )
    assert batch.hex() == TRANSACTIONAL


def test_a_commit_marker_is_as_kafka_writes_it():
    marker = encode_marker(
        103, "COMMIT", 4, producer_id=7, producer_epoch=1, coordinator_epoch=9, timestamp_ms=TIMESTAMP_MS + 20
    )
    assert marker.hex() == COMMIT


def test_an_empty_retained_batch_is_as_kafka_writes_it():
    batch = encode_batch(
        112,
        (),
        5,
        timestamp_ms=TIMESTAMP_MS + 30,
        producer_id=7,
        producer_epoch=1,
        base_sequence=5,
        last_offset_delta=2,
    )
    assert batch.hex() == EMPTY_RETAINED


def _decompress_v2(codec: str, content: bytes) -> bytes:
    if codec == "gzip":
        return gzip.decompress(content)
    if codec == "snappy":
        assert content[:16] == b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
        assert struct.unpack(">i", content[16:20])[0] == len(content) - 20
        return bytes(cramjam.snappy.decompress_raw(content[20:]))
    return bytes(getattr(cramjam, codec).decompress(content))


@pytest.mark.parametrize("codec", sorted(COMPRESSED))
def test_a_compressed_batch_differs_from_kafkas_in_the_compressed_bytes_only(codec):
    golden = bytes.fromhex(COMPRESSED[codec])
    base_offset, size, epoch, magic, crc = struct.unpack(">qiibI", golden[:21])
    assert (size, magic, crc) == (len(golden) - 12, 2, google_crc32c.value(golden[21:])), "the golden bytes themselves"

    records = (Record(b"a", b"a" * 32), Record(b"b", b"bb", TIMESTAMP_MS + 1))
    batch = encode_batch(base_offset, records, epoch, codec=codec)

    assert batch[:8] == golden[:8] and batch[12:17] == golden[12:17] and batch[21:61] == golden[21:61]
    assert struct.unpack(">i", batch[8:12])[0] == len(batch) - 12
    assert struct.unpack(">I", batch[17:21])[0] == google_crc32c.value(batch[21:])
    assert _decompress_v2(codec, batch[61:]) == _decompress_v2(codec, golden[61:])


def test_kafkas_lz4_and_snappy_frames_begin_as_ours_do():
    content = b"0123456789" * 20
    assert compress("lz4", content)[:7].hex() == "04224d18604082"
    assert compress("lz4", content, magic=0)[:7].hex() == "04224d1860401a"
    assert compress("snappy", content)[:16] == bytes.fromhex(COMPRESSED["snappy"])[61:77]
    assert compress("snappy", content, xerial=False) == compress("snappy", content)[20:]


def test_an_lz4_frame_of_several_blocks_reads_back():
    content = b"".join(struct.pack(">I", number * 2654435761 & 0xFFFFFFFF) for number in range(50_000))
    assert bytes(cramjam.lz4.decompress(compress("lz4", content))) == content


@pytest.mark.parametrize(("magic", "codec"), sorted(LEGACY))
def test_a_legacy_wrapper_holds_the_message_set_that_kafkas_holds(magic, codec):
    golden = bytes.fromhex(LEGACY[magic, codec])
    offset = struct.unpack(">q", golden[:8])[0]
    overhead = 12 + (14 if magic == 0 else 22)
    messages = [(b"a", b"a" * 4), (b"b", b"bb")]

    ours = encode_wrapper(offset - 1, messages, codec, magic=magic)
    inner = _legacy_inner(codec, golden[overhead:])

    assert ours[:8] == golden[:8]
    assert _legacy_inner(codec, ours[overhead:])[: len(inner)] == _retimed(inner, magic)
    assert ours[16:18] == golden[16:18]


def _legacy_inner(codec: str, content: bytes) -> bytes:
    if codec == "gzip":
        return gzip.decompress(content)
    return bytes(cramjam.lz4.decompress(content[:6] + b"\x82" + content[7:]))


def _retimed(inner: bytes, magic: int) -> bytes:
    """The same message set with every timestamp at TIMESTAMP_MS, as the encoder under test was asked for."""
    if magic == 0:
        return inner
    out = b""
    while inner:
        offset, size = struct.unpack(">qi", inner[:12])
        body = inner[26 : 12 + size]
        key_length = struct.unpack(">i", body[:4])[0]
        out += encode_legacy(offset, body[8 + key_length :], body[4 : 4 + key_length], magic=1)
        inner = inner[12 + size :]
    return out


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (2**31 - 1, "feffffff0f"),
        (-(2**63), "ff" * 9 + "01"),
    ],
)
def test_zig_zag_numbers_take_as_many_bytes_as_they_need(number, expected):
    assert encode_varint(number).hex() == expected


def test_another_mark_gives_another_checksum_and_the_same_mark_the_same_bytes():
    assert encode_batch(5, 3, 0, mark="a") == encode_batch(5, 3, 0, mark="a")
    assert encode_batch(5, 3, 0, mark="a")[17:21] != encode_batch(5, 3, 0, mark="b")[17:21]
    # The leader epoch and the base offset are outside the checksum, as in Kafka.
    assert encode_batch(5, 3, 0)[17:] == encode_batch(9, 3, 4)[17:]
