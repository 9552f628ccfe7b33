"""Legacy message sets: entries of magic 0 and 1, plain or compressed wrappers, as rows of `BATCH_DTYPE`.

An entry is offset, size, CRC-32, magic, attributes, (v1: timestamp), key, value. A compressed wrapper carries the last offset
of its inner messages, so its base offset needs the inner ones: those of magic 1 are relative, of magic 0 absolute. Kafka:
`LegacyRecord`, `AbstractLegacyRecordBatch.DeepRecordsIterator`.
"""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from replica_audit.batch_header import ABSENT, CODEC_MASK, LOG_APPEND_TIME, Batch
from replica_audit.segments.compression import GREATEST_EXPANSION, decompress
from replica_audit.segments.record_batch import BATCH_DTYPE, HEADER_BYTES, MAGIC_AT, PREFIX_BYTES, decode_batches
from replica_audit.text import count

#: Size of an entry without key and value, by magic.
OVERHEAD_BYTES = {0: PREFIX_BYTES + 14, 1: PREFIX_BYTES + 22}

_PREFIX = struct.Struct(">qiIbb")
_ROW = struct.Struct(">i")
_INNER = struct.Struct(">qi")
_TIMESTAMP = struct.Struct(">q")
_TIMESTAMP_AT = 18


class Inner(NamedTuple):
    """Messages of a compressed wrapper: offsets are absolute, the timestamp is the first message's (-1 for magic 0)."""

    base_offset: int
    record_count: int
    base_timestamp: int


def entry_content(entry: memoryview, magic: int) -> tuple[memoryview | None, memoryview | None]:
    """Key and value of a complete entry, None if null. Raises ValueError for lengths that do not fit."""
    position = OVERHEAD_BYTES[magic] - 8
    parts: list[memoryview | None] = []
    for _ in range(2):
        if position + 4 > len(entry):
            raise ValueError("the entry ends before its lengths")
        (length,) = _ROW.unpack_from(entry, position)
        position += 4
        start, position = position, position + max(length, 0)
        if length < -1 or position > len(entry):
            raise ValueError("the length of its key or value does not fit into the entry")
        parts.append(None if length == -1 else entry[start:position])
    if position != len(entry):
        raise ValueError(f"{count(len(entry) - position, 'byte')} left after the value")
    return parts[0], parts[1]


def entry_timestamp(entry: memoryview, magic: int) -> int:
    """The timestamp of a complete entry in ms; -1 for magic 0, which has none."""
    return _TIMESTAMP.unpack_from(entry, _TIMESTAMP_AT)[0] if magic else -1


def wrapped_value(entry: memoryview, magic: int) -> memoryview:
    """The value of a compressed wrapper: the messages inside it. Raises ValueError if it has none."""
    _, value = entry_content(entry, magic)
    if value is None:
        raise ValueError("a compressed wrapper has no value")
    return value


def parse_wrapper(
    entry: memoryview, offset: int, magic: int, attributes: int, limit: int = GREATEST_EXPANSION
) -> Inner:
    """Offsets and number of the messages inside a compressed wrapper; keys and values are skipped.

    Raises ValueError (also CodecError) for a wrapper that Kafka would reject: without value or messages, with a message of
    another magic or nested compression, or with an offset below that of its last message (librdkafka's 0 excepted).
    """
    inside = decompress(attributes & CODEC_MASK, wrapped_value(entry, magic), limit)
    position = count = 0
    first, last, timestamp = None, -1, -1
    while position < len(inside):
        if position + OVERHEAD_BYTES[magic] > len(inside):
            raise ValueError(f"message {count} of a compressed wrapper is cut off")
        last, size = _INNER.unpack_from(inside, position)
        following = position + PREFIX_BYTES + size
        if following - position < OVERHEAD_BYTES[magic] or following > len(inside):
            raise ValueError(f"message {count} of a compressed wrapper has a size that does not fit into it")
        inner_magic, inner_attributes = inside[position + MAGIC_AT], inside[position + MAGIC_AT + 1]
        if inner_magic != magic or inner_attributes & CODEC_MASK:
            raise ValueError(f"message {count} of a compressed wrapper has another magic or is compressed")
        if first is None:
            first, timestamp = last, entry_timestamp(memoryview(inside)[position:following], magic)
        count += 1
        position = following
    if first is None:
        raise ValueError("a compressed wrapper is empty")
    if magic == 0:
        return Inner(first, count, -1)
    if offset < last and offset != 0:
        raise ValueError(f"a wrapper's offset {offset} is below its last message's {last}")
    start = 0 if offset < last else offset - last
    return Inner(start + first, count, timestamp)


def decode_entries(
    data: bytes, starts: NDArray[np.int64], sizes: NDArray[np.int64], file_position: int, expected: int | None
) -> tuple[NDArray[np.void], NDArray[np.bool_]]:
    """Entries of magic 0 and 1 at `starts` of `data`, which lies at `file_position` of its file and contains each entry completely.

    Returns rows of `BATCH_DTYPE` with the CRC-32's verdict, and a mask of the entries with an impossible frame (offset below 0, smaller
    than their version's overhead). `last_offset` is the entry's own. A wrapper that cannot be opened (`record_count` -1) is assumed to
    begin at `expected`, the end of the preceding entry, so that it makes no false gap.
    """
    entries = np.zeros(len(starts), BATCH_DTYPE)
    broken = np.zeros(len(starts), bool)
    view = memoryview(data)
    rows = []
    for index, (start, size) in enumerate(zip(starts.tolist(), sizes.tolist(), strict=True)):
        offset, _, crc, magic, attributes = _PREFIX.unpack_from(data, start)
        entry = view[start : start + size]
        valid = zlib.crc32(entry[MAGIC_AT:]) == crc
        broken[index] = offset < 0 or size < OVERHEAD_BYTES[magic]
        timestamp = -1 if broken[index] else entry_timestamp(entry, magic)
        base, count, base_timestamp = offset, 1, timestamp
        if attributes & CODEC_MASK and not broken[index]:
            base, count, base_timestamp = _open_wrapper(entry, offset, magic, attributes, expected)
            if attributes & LOG_APPEND_TIME:
                base_timestamp = timestamp
        rows.append(
            Batch(
                position=file_position + start,
                size=size,
                base_offset=base,
                last_offset=offset,
                leader_epoch=ABSENT,
                magic=magic,
                crc=crc,
                crc_valid=valid,
                attributes=attributes & 0xFF,
                base_timestamp=base_timestamp,
                max_timestamp=timestamp,
                producer_id=ABSENT,
                producer_epoch=ABSENT,
                base_sequence=ABSENT,
                record_count=count,
            )
        )
        expected = offset + 1
    if rows:
        entries[:] = rows
    _read_as_new(data, starts, file_position, entries, broken)
    return entries, broken


def _read_as_new(
    data: bytes, starts: NDArray[np.int64], file_position: int, entries: NDArray[np.void], broken: NDArray[np.bool_]
) -> None:
    """Use the fields of magic 2 for entries that are such batches except for their magic byte, which no CRC covers.

    They remain entries with a wrong CRC, as for Kafka, and keep the magic found, but get the offsets of their headers.
    """
    suspects = np.flatnonzero(~entries["crc_valid"] & (entries["size"] >= HEADER_BYTES))
    if len(suspects):
        batches, impossible = decode_batches(data, starts[suspects], file_position)
        flipped = batches["crc_valid"].copy()
        batches["crc_valid"] = False
        entries[suspects[flipped]] = batches[flipped]
        broken[suspects[flipped]] = impossible[flipped]


def _open_wrapper(entry: memoryview, offset: int, magic: int, attributes: int, expected: int | None) -> Inner:
    try:
        inner = parse_wrapper(entry, offset, magic, attributes)
    except ValueError:
        # Marked by record_count -1, which the summary reports as an impossible field.
        inner = Inner(-1, -1, -1)
    if 0 <= inner.base_offset <= offset:
        return inner
    return Inner(offset if expected is None or expected > offset else expected, -1, -1)
