"""Encoder of Kafka record batches and legacy message sets: the inverse of what the audit reads.

Written from the format's definition (`DefaultRecordBatch`, `DefaultRecord`, `LegacyRecord`, `EndTransactionMarker`) and
sharing no code with the decoders under test, so that a common mistake cannot cancel out.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import cramjam
import google_crc32c

#: Timestamp of all made-up records unless told otherwise: 2023-11-14T22:13:20Z.
TIMESTAMP_MS = 1_700_000_000_000

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
LOG_APPEND_TIME_BIT, TRANSACTIONAL_BIT, CONTROL_BIT, DELETE_HORIZON_BIT = 0x08, 0x10, 0x20, 0x40
MARKER_TYPES = {"ABORT": 0, "COMMIT": 1}


@dataclass(frozen=True, slots=True)
class Record:
    """One record to encode; `timestamp_ms` None means the batch's, `offset_delta` None means its place in the batch."""

    key: bytes | None = None
    value: bytes | None = b""
    timestamp_ms: int | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    offset_delta: int | None = None


def encode_varint(number: int) -> bytes:
    """Zig-zag variable-length encoding, for both varint and varlong."""
    number = number << 1 if number >= 0 else ((-number) << 1) - 1
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _encode_bytes(content: bytes | None) -> bytes:
    return encode_varint(-1) if content is None else encode_varint(len(content)) + content


@lru_cache(maxsize=1 << 15)
def encode_record(record: Record, offset_delta: int, timestamp_delta: int) -> bytes:
    """One record of a v2 batch, length first."""
    headers = [
        encode_varint(len(name.encode())) + name.encode() + _encode_bytes(value) for name, value in record.headers
    ]
    body = b"".join(
        (
            b"\0",
            encode_varint(timestamp_delta),
            encode_varint(offset_delta),
            _encode_bytes(record.key),
            _encode_bytes(record.value),
            encode_varint(len(headers)),
            *headers,
        )
    )
    return encode_varint(len(body)) + body


def compress(codec: str, content: bytes, magic: int = 2, xerial: bool = True) -> bytes:
    """`content` in the framing that Kafka's Java client gives it; `xerial=False` is librdkafka's bare snappy block."""
    if codec == "none":
        return content
    if codec == "gzip":
        return gzip.compress(content, mtime=0)
    if codec == "snappy":
        block = bytes(cramjam.snappy.compress_raw(content))
        if not xerial:
            return block
        return b"\x82SNAPPY\0" + struct.pack(">iii", 1, 1, len(block)) + block
    if codec == "lz4":
        # FLG 60, BD 40: independent blocks of up to 64 KiB, no checksums. In magic 0 the header checksum is computed
        # over the frame magic too (KAFKA-3160).
        header_checksum = b"\x1a" if magic == 0 else b"\x82"
        frame = bytearray(b"\x04\x22\x4d\x18\x60\x40" + header_checksum)
        for start in range(0, len(content), 1 << 16):
            chunk = content[start : start + (1 << 16)]
            block = bytes(cramjam.lz4.compress_block(chunk, store_size=False))
            stored = len(block) >= len(chunk)
            frame += struct.pack("<I", len(chunk) | 0x80000000 if stored else len(block)) + (chunk if stored else block)
        return bytes(frame) + struct.pack("<I", 0)
    if codec == "zstd":
        return bytes(cramjam.zstd.compress(content))
    raise ValueError(f"no codec {codec!r}; one of {', '.join(CODECS)}")


@lru_cache(maxsize=1 << 12)
def make_records(count: int, mark: str = "") -> tuple[Record, ...]:
    """`count` small records whose values carry `mark`: another mark, another checksum."""
    return tuple(Record(f"k{number}".encode(), f"{mark}#{number}".encode()) for number in range(count))


def encode_batch(
    base_offset: int,
    records: Sequence[Record] | int,
    leader_epoch: int,
    *,
    timestamp_ms: int = TIMESTAMP_MS,
    codec: str = "none",
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    log_append_time: bool = False,
    last_offset_delta: int | None = None,
    delete_horizon_ms: int | None = None,
    record_count: int | None = None,
    attributes: int | None = None,
    crc: int | None = None,
    mark: str = "",
    xerial: bool = True,
) -> bytes:
    """One batch of magic 2 with a right CRC-32C.

    `records` is the records or how many to make up (their values then carry `mark`). `timestamp_ms` is the base
    timestamp. `last_offset_delta`, `record_count`, `attributes` and `crc` override what follows from the records, to
    make compacted and damaged batches; without records the batch is an empty retained one (`writeEmptyHeader`).
    """
    if isinstance(records, int):
        records = make_records(records, mark)
    deltas = [place if one.offset_delta is None else one.offset_delta for place, one in enumerate(records)]
    times = [timestamp_ms if one.timestamp_ms is None else one.timestamp_ms for one in records]
    base_timestamp = timestamp_ms if records else -1
    if delete_horizon_ms is not None:
        base_timestamp = delete_horizon_ms
    content = b"".join(
        encode_record(one, delta, time_ms - base_timestamp)
        for one, delta, time_ms in zip(records, deltas, times, strict=True)
    )
    if last_offset_delta is None:
        last_offset_delta = deltas[-1] if deltas else 0
    if attributes is None:
        attributes = (
            CODECS[codec]
            | (LOG_APPEND_TIME_BIT if log_append_time else 0)
            | (TRANSACTIONAL_BIT if transactional else 0)
            | (CONTROL_BIT if control else 0)
            | (DELETE_HORIZON_BIT if delete_horizon_ms is not None else 0)
        )
    checked = struct.pack(
        ">hiqqqhii",
        attributes,
        last_offset_delta,
        base_timestamp,
        max(times, default=timestamp_ms),
        producer_id,
        producer_epoch,
        base_sequence,
        len(records) if record_count is None else record_count,
    ) + (compress(codec, content, xerial=xerial) if records else b"")
    if crc is None:
        crc = google_crc32c.value(checked)
    return struct.pack(">qiibI", base_offset, len(checked) + 9, leader_epoch, 2, crc) + checked


def encode_marker(
    base_offset: int,
    kind: str,
    leader_epoch: int,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int = 0,
    timestamp_ms: int = TIMESTAMP_MS,
) -> bytes:
    """The control batch that ends a transaction; `kind` is COMMIT or ABORT."""
    record = Record(struct.pack(">hh", 0, MARKER_TYPES[kind]), struct.pack(">hi", 0, coordinator_epoch))
    return encode_batch(
        base_offset,
        (record,),
        leader_epoch,
        timestamp_ms=timestamp_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def encode_legacy(
    offset: int,
    value: bytes | None,
    key: bytes | None = None,
    *,
    magic: int = 1,
    timestamp_ms: int = TIMESTAMP_MS,
    attributes: int = 0,
) -> bytes:
    """One entry of a message set of magic 0 or 1, CRC-32 (IEEE) from the magic byte on."""
    checked = struct.pack(">bb", magic, attributes)
    if magic == 1:
        checked += struct.pack(">q", timestamp_ms)
    for content in (key, value):
        checked += struct.pack(">i", -1) if content is None else struct.pack(">i", len(content)) + content
    return struct.pack(">qiI", offset, len(checked) + 4, zlib.crc32(checked)) + checked


def encode_wrapper(
    base_offset: int,
    messages: Sequence[tuple[bytes | None, bytes | None]],
    codec: str,
    *,
    magic: int = 1,
    timestamp_ms: int = TIMESTAMP_MS,
    offset_deltas: Sequence[int] | None = None,
    log_append_time: bool = False,
    xerial: bool = True,
) -> bytes:
    """A compressed message set of magic 0 or 1: one entry, at the last offset, whose value holds (key, value) messages.

    Inner offsets are absolute in magic 0 and relative in magic 1. `offset_deltas` leaves gaps, as compaction does.
    """
    deltas = list(range(len(messages))) if offset_deltas is None else list(offset_deltas)
    inner = b"".join(
        encode_legacy(delta + (base_offset if magic == 0 else 0), value, key, magic=magic, timestamp_ms=timestamp_ms)
        for delta, (key, value) in zip(deltas, messages, strict=True)
    )
    return encode_legacy(
        base_offset + deltas[-1],
        compress(codec, inner, magic, xerial),
        magic=magic,
        timestamp_ms=timestamp_ms,
        attributes=CODECS[codec] | (LOG_APPEND_TIME_BIT if log_append_time else 0),
    )


def flip(data: bytes, at: int = -1) -> bytes:
    """`data` with another lowest bit in the byte at `at`: of a batch, unless told otherwise, the last one of its last record."""
    changed = bytearray(data)
    changed[at] ^= 1
    return bytes(changed)
