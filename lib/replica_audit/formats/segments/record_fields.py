"""Records of magic 2 taken apart, one after the other, as they lie in a batch that is not compressed.

Kafka: `DefaultRecord.readFrom`, `DefaultRecordBatch.RecordIterator`, `ByteUtils.readVarint`.
"""

from __future__ import annotations

from collections.abc import Iterator

from replica_audit.wording import count as counted

#: Timestamp delta (ms), offset delta, key, value (None for null), and the headers' names and values in turn.
RecordFields = tuple[int, int, "bytes | None", "bytes | None", "tuple[bytes | None, ...]"]

_INT_BITS, _LONG_BITS = 32, 64


class RecordError(ValueError):
    """A batch whose records cannot be decoded, though its checksum may be right; the text says why, without content."""


class UnexpandedError(RecordError):
    """A batch that is not expanded, for it expands to more than the bound: Kafka may well decode it."""


def read_records(data: bytes, count: int) -> Iterator[RecordFields]:
    """The fields of the `count` records that fill `data`.

    Raises RecordError for what Kafka could not read either: a count or a length that does not fit, a varint that is
    too long, a header without a name, bytes left at the end of a record or of the batch.
    """
    if count < 0:
        raise RecordError(f"expected a number of records, found {count}")
    position, last, number = 0, len(data), 0
    try:
        for number in range(count):
            # This loop sees every record that is compared: varints of one and two bytes are read without a call.
            if (size := data[position]) < 0x80:
                position += 1
            elif (high := data[position + 1]) < 0x80:
                size += (high - 1) << 7
                position += 2
            else:
                size, position = _varint(data, position, _INT_BITS)
            end = position + (size >> 1)
            if size & 1 or end > last:
                raise RecordError(f"record {number} has a length that does not fit into its batch")
            position += 1  # attributes, of which none is in use
            if (timestamp := data[position]) < 0x80:
                position += 1
            elif (high := data[position + 1]) < 0x80:
                timestamp += (high - 1) << 7
                position += 2
            else:
                timestamp, position = _varint(data, position, _LONG_BITS)
            if (offset := data[position]) < 0x80:
                position += 1
            elif (high := data[position + 1]) < 0x80:
                offset += (high - 1) << 7
                position += 2
            else:
                offset, position = _varint(data, position, _INT_BITS)
            if (size := data[position]) < 0x80:
                position += 1
            elif (high := data[position + 1]) < 0x80:
                size += (high - 1) << 7
                position += 2
            else:
                size, position = _varint(data, position, _INT_BITS)
            key = None
            if not size & 1:
                start = position
                position += size >> 1
                key = data[start:position]
            if (size := data[position]) < 0x80:
                position += 1
            elif (high := data[position + 1]) < 0x80:
                size += (high - 1) << 7
                position += 2
            else:
                size, position = _varint(data, position, _INT_BITS)
            value = None
            if not size & 1:
                start = position
                position += size >> 1
                value = data[start:position]
            headers: tuple[bytes | None, ...] = ()
            if data[position]:
                headers, position = _headers(data, position)
            else:
                position += 1
            if position != end:
                raise RecordError(f"the fields of record {number} do not end where the record does")
            yield (timestamp >> 1) ^ -(timestamp & 1), (offset >> 1) ^ -(offset & 1), key, value, headers
    except IndexError:
        raise RecordError(f"the batch ends within record {number}, of {count}") from None
    if position != last:
        raise RecordError(f"{counted(last - position, 'byte')} left after the last of {counted(count, 'record')}")


def _varint(data: bytes, position: int, bits: int) -> tuple[int, int]:
    """The varint at `position`, zig-zag and all, and where it ends."""
    value = 0
    for shift in range(0, bits, 7):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> bits:
                break
            return value, position
    raise RecordError(f"expected a varint of at most {bits} bits, found a longer one")


def _headers(data: bytes, position: int) -> tuple[tuple[bytes | None, ...], int]:
    """Names and values of a record's headers, in turn, and where they end."""
    count, position = _varint(data, position, _INT_BITS)
    if count & 1:
        raise RecordError("a record has a negative number of headers")
    parts: list[bytes | None] = []
    for _ in range(count >> 1):
        for is_name in (True, False):
            if (size := data[position]) < 0x80:
                position += 1
            else:
                size, position = _varint(data, position, _INT_BITS)
            if not size & 1:
                start = position
                position += size >> 1
                parts.append(data[start:position])
            elif is_name:
                raise RecordError("a header has no name")
            else:
                parts.append(None)
    return tuple(parts), position
