"""Records of one batch: decoded to digests for comparing replicas, decoded completely if payloads are wanted, and encoded.

A compressed batch is expanded within a bound. A compared record keeps its fields other than content, and keyed hashes of the key and of
the content; the hash key lives as long as one comparison, so that hashes show nothing but equality. Kafka: `DefaultRecord.readFrom`,
`DefaultRecordBatch.RecordIterator`, `DefaultRecordBatch.writeHeader`, `ByteUtils`, `AbstractLegacyRecordBatch.DeepRecordsIterator`.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple, NoReturn

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from replica_audit.batch_header import CODEC_MASK, CONTROL, LOG_APPEND_TIME, TRANSACTIONAL
from replica_audit.segments.compression import GREATEST_EXPANSION, ExpansionError, decompress
from replica_audit.segments.message_set import entry_content, entry_timestamp, parse_wrapper, wrapped_value
from replica_audit.segments.record_batch import CRC_FROM, HEADER_BYTES, HEADER_DTYPE, MAGIC_AT, PREFIX_BYTES, SEQUENCES
from replica_audit.text import count as counted

#: Timestamp delta (ms), offset delta, key, value (None for null), and the headers' names and values in turn.
RecordFields = tuple[int, int, "bytes | None", "bytes | None", "tuple[bytes | None, ...]"]
_INT_BITS, _LONG_BITS = 32, 64


class RecordError(ValueError):
    """A batch whose records cannot be decoded, though its checksum may be right; the message gives the reason without content."""


class UnexpandedError(RecordError):
    """A batch that would expand beyond the bound; Kafka may well decode it."""


def read_records(data: bytes, count: int) -> Iterator[RecordFields]:
    """The fields of the `count` records that fill `data`.

    Raises RecordError for what Kafka could not read either: a count or a length that does not fit, a varint that is too long, a
    header without a name, bytes left at the end of a record or of the batch.
    """
    if count < 0:
        raise RecordError(f"expected a number of records, found {count}")
    position, last, number = 0, len(data), 0
    try:
        for number in range(count):
            # This loop sees every compared record: varints of one and two bytes are read without a call.
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
            position += 1  # attributes, all unused
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
    """The zig-zag varint at `position`, and its end."""
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
    """Names and values of a record's headers, in turn, and their end."""
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


#: One record. Absent is -1. `key`, `content` and `headers` are keyed hashes; `content` covers key and value, so that it stays
#: the same when a record is converted to a format without headers.
RECORD_DTYPE = np.dtype(
    [
        ("offset", "i8"),
        ("leader_epoch", "i4"),
        ("magic", "i1"),
        ("timestamp", "i8"),
        ("producer_id", "i8"),
        ("producer_epoch", "i2"),
        ("sequence", "i4"),
        ("has_key", "?"),
        ("has_value", "?"),
        ("transactional", "?"),
        ("control", "?"),
        ("marker", "i2"),
        ("key", "u8"),
        ("content", "u8"),
        ("headers", "u8"),
    ]
)
#: Types of control records that end a transaction (`ControlRecordType`).
ABORT, COMMIT = 0, 1
_CODES = {"i8": "q", "i4": "i", "i2": "h", "i1": "b", "b1": "?", "u8": "8s"}
#: A row of RECORD_DTYPE, without padding; hashes are packed as bytes.
_ROW = struct.Struct("=" + "".join(_CODES[field[1][1:]] for field in RECORD_DTYPE.descr))
_CONTROL_KEY = struct.Struct(">hh")
_LEGACY_PREFIX = struct.Struct(">qiIbb")
_INNER = struct.Struct(">qi")
#: Stands for a length that no part can have.
_NULL = b"\xff" * 8


class RecordHasher:
    """64-bit hashes under a random key that never leaves this object.

    A plain hash of a short key can be guessed; rows of two hashers cannot be compared.
    """

    __slots__ = ("_keyed", "nothing")

    def __init__(self) -> None:
        self._keyed = hashlib.blake2b(digest_size=8, key=os.urandom(32)).copy
        self.nothing = self._keyed().digest()

    def __reduce__(self) -> NoReturn:
        raise TypeError("the key of a RecordHasher does not leave its process")

    def digest(self, *parts: bytes | None) -> bytes:
        """Hash of `parts` in order, as the bytes of a field of RECORD_DTYPE; null and empty differ."""
        digest = self._keyed()
        for part in parts:
            digest.update(_NULL if part is None else len(part).to_bytes(8, "big") + part)
        return digest.digest()

    def digests(self, key: bytes | None, value: bytes | None) -> tuple[bytes, bytes]:
        """`digest(key)` and `digest(key, value)`, hashing the key only once."""
        digest = self._keyed()
        digest.update(_NULL if key is None else len(key).to_bytes(8, "big") + key)
        content = digest.copy()
        content.update(_NULL if value is None else len(value).to_bytes(8, "big") + value)
        return digest.digest(), content.digest()


def decode_records(entry: bytes, hasher: RecordHasher, limit: int = GREATEST_EXPANSION) -> NDArray[np.void]:
    """The records of a complete entry of any magic, as `RECORD_DTYPE` in order; empty for a retained empty batch.

    `limit` bounds the bytes that a compressed entry expands to; beyond it UnexpandedError is raised. Raises RecordError for an
    entry that Kafka could not read either: an unknown or broken codec, lengths or counts that do not fit, offsets outside the batch.
    """
    if len(entry) <= MAGIC_AT:
        raise RecordError(f"{len(entry)} bytes are not a batch")
    magic = entry[MAGIC_AT]
    try:
        rows = _decode_new(entry, hasher, limit) if magic >= 2 else _decode_legacy(entry, magic, hasher, limit)
    except RecordError:
        raise
    except ExpansionError as error:
        raise UnexpandedError(str(error)) from None
    except ValueError as error:
        raise RecordError(str(error)) from None
    except struct.error:
        raise RecordError("the entry ends within a field, or an offset or a timestamp has more than 64 bits") from None
    return np.frombuffer(b"".join(rows), RECORD_DTYPE)


def _decode_new(entry: bytes, hasher: RecordHasher, limit: int) -> list[bytes]:
    if len(entry) < HEADER_BYTES:
        raise RecordError(f"{len(entry)} bytes are not a batch of magic 2")
    fields = np.frombuffer(entry, HEADER_DTYPE, 1).item()
    base, _, epoch, _, _, attributes, last_delta, first_ms, greatest_ms = fields[:9]
    producer_id, producer_epoch, first_sequence, count = fields[9:]
    last, append_time = base + last_delta, bool(attributes & LOG_APPEND_TIME)
    transactional, control = bool(attributes & TRANSACTIONAL), bool(attributes & CONTROL)
    inside = decompress(attributes & CODEC_MASK, entry[HEADER_BYTES:], limit)
    rows: list[bytes] = []
    pack, digests = _ROW.pack, hasher.digests
    previous = base - 1
    for timestamp_delta, offset_delta, key, value, headers in read_records(inside, count):
        offset = base + offset_delta
        if not previous < offset <= last:
            raise RecordError(f"record {len(rows)} has offset {offset} in a batch of {base} to {last}")
        previous = offset
        row = pack(
            offset,
            epoch,
            2,
            greatest_ms if append_time else first_ms + timestamp_delta,
            producer_id,
            producer_epoch,
            -1 if first_sequence < 0 else (first_sequence + offset_delta) % SEQUENCES,
            key is not None,
            value is not None,
            transactional,
            control,
            _CONTROL_KEY.unpack_from(key)[1] if control and key is not None and len(key) >= 4 else -1,
            *digests(key, value),
            hasher.digest(*headers) if headers else hasher.nothing,
        )
        rows.append(row)
    return rows


def _decode_legacy(entry: bytes, magic: int, hasher: RecordHasher, limit: int) -> list[bytes]:
    pack, digests, nothing = _ROW.pack, hasher.digests, hasher.nothing
    rows = []
    for offset, at_ms, key, value in _legacy_messages(entry, magic, limit):
        present = key is not None, value is not None, False, False
        rows.append(pack(offset, -1, magic, at_ms, -1, -1, -1, *present, -1, *digests(key, value), nothing))
    return rows


def _legacy_messages(entry: bytes, magic: int, limit: int) -> Iterator[tuple[int, int, bytes | None, bytes | None]]:
    """Offset, timestamp, key and value of an entry of magic 0 or 1, or of each message inside it if it is a wrapper."""
    offset, _, _, _, attributes = _LEGACY_PREFIX.unpack_from(entry)
    view = memoryview(entry)
    own_ms = entry_timestamp(view, magic)
    if not attributes & CODEC_MASK:
        yield offset, own_ms, *_content(view, magic)
        return
    # Checks the wrapper by all of Kafka's rules, so the reads below fit.
    first = parse_wrapper(view, offset, magic, attributes, limit).base_offset
    inside = memoryview(decompress(attributes & CODEC_MASK, wrapped_value(view, magic), limit))
    shift = first - _INNER.unpack_from(inside, 0)[0]
    is_append_time = magic == 1 and attributes & LOG_APPEND_TIME
    position = 0
    while position < len(inside):
        inner_offset, size = _INNER.unpack_from(inside, position)
        message = inside[position : position + PREFIX_BYTES + size]
        yield (
            inner_offset + shift,
            own_ms if is_append_time else entry_timestamp(message, magic),
            *_content(message, magic),
        )
        position += len(message)


def _content(message: memoryview, magic: int) -> tuple[bytes | None, bytes | None]:
    key, value = entry_content(message, magic)
    return None if key is None else bytes(key), None if value is None else bytes(value)


class Payload(NamedTuple):
    """One record. Absent numbers are -1, absent bytes None."""

    offset: int
    leader_epoch: int
    magic: int
    timestamp: int
    appended: bool
    """True if `timestamp` is the broker's (LogAppendTime), not the producer's."""
    producer_id: int
    producer_epoch: int
    sequence: int
    transactional: bool
    control: bool
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    """Headers in order, with duplicates."""


def decode_payloads(entry: bytes, limit: int = GREATEST_EXPANSION) -> Iterator[Payload]:
    """The records of a complete entry of any magic, one at a time; none for a retained empty batch.

    `limit` bounds the bytes that a compressed entry expands to; beyond it UnexpandedError is raised. Raises RecordError, at the
    record in question, for an entry that Kafka could not read either: an unknown or broken codec, lengths or counts that do not
    fit, offsets outside the batch.
    """
    if len(entry) <= MAGIC_AT:
        raise RecordError(f"{len(entry)} bytes are not a batch")
    magic = entry[MAGIC_AT]
    try:
        yield from _whole_records(entry, limit) if magic >= 2 else _whole_legacy_records(entry, magic, limit)
    except RecordError:
        raise
    except ExpansionError as error:
        raise UnexpandedError(str(error)) from None
    except UnicodeError:
        # The original text would have the bytes.
        raise RecordError("the name of a header is not UTF-8") from None
    except ValueError as error:
        raise RecordError(str(error)) from None
    except struct.error:
        raise RecordError("the entry ends within a field") from None


def _whole_records(entry: bytes, limit: int) -> Iterator[Payload]:
    if len(entry) < HEADER_BYTES:
        raise RecordError(f"{len(entry)} bytes are not a batch of magic 2")
    fields = np.frombuffer(entry, HEADER_DTYPE, 1).item()
    base, _, epoch, _, _, attributes, last_delta, first_ms, greatest_ms = fields[:9]
    producer_id, producer_epoch, first_sequence, count = fields[9:]
    appended = bool(attributes & LOG_APPEND_TIME)
    transactional, control = bool(attributes & TRANSACTIONAL), bool(attributes & CONTROL)
    inside = decompress(attributes & CODEC_MASK, entry[HEADER_BYTES:], limit)
    previous = base - 1
    for timestamp_delta, offset_delta, key, value, headers in read_records(inside, count):
        offset = base + offset_delta
        if not previous < offset <= base + last_delta:
            raise RecordError(f"a record has offset {offset} in a batch of {base} to {base + last_delta}")
        previous = offset
        yield Payload(
            offset=offset,
            leader_epoch=epoch,
            magic=2,
            timestamp=greatest_ms if appended else first_ms + timestamp_delta,
            appended=appended,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            sequence=-1 if first_sequence < 0 else (first_sequence + offset_delta) % SEQUENCES,
            transactional=transactional,
            control=control,
            key=key,
            value=value,
            headers=tuple(_named(headers)),
        )


def _named(headers: tuple[bytes | None, ...]) -> Iterator[tuple[str, bytes | None]]:
    for name, value in zip(headers[::2], headers[1::2], strict=True):
        assert name is not None  # `read_records` rejects a header without a name
        yield name.decode("utf-8"), value


def _whole_legacy_records(entry: bytes, magic: int, limit: int) -> Iterator[Payload]:
    appended = magic == 1 and bool(_LEGACY_PREFIX.unpack_from(entry)[-1] & LOG_APPEND_TIME)
    for offset, at_ms, key, value in _legacy_messages(entry, magic, limit):
        yield Payload(offset, -1, magic, at_ms, appended, -1, -1, -1, False, False, key, value, ())


def encode_batch(records: Sequence[Payload]) -> bytes:
    """One batch of `records`: at least one, in ascending order of offset, of one leader epoch, producer and transaction.

    Offsets between them stay unused, as a cleaner leaves them. Raises ValueError if the offsets do not fit into one batch.
    """
    first, last = records[0], records[-1]
    base_timestamp = first.timestamp
    content = b"".join(
        _encode_record(record, record.offset - first.offset, record.timestamp - base_timestamp) for record in records
    )
    delta = last.offset - first.offset
    if not 0 <= delta < 1 << 31:
        raise ValueError(f"offsets {first.offset} to {last.offset} do not fit into one batch")
    attributes = (LOG_APPEND_TIME if first.appended else 0) | (TRANSACTIONAL if first.transactional else 0)
    fields = {
        "base_offset": first.offset,
        "length": HEADER_BYTES - PREFIX_BYTES + len(content),
        "leader_epoch": first.leader_epoch,
        "magic": 2,
        "attributes": attributes,
        "last_offset_delta": delta,
        "base_timestamp": base_timestamp,
        "max_timestamp": max(record.timestamp for record in records),
        "producer_id": first.producer_id,
        "producer_epoch": first.producer_epoch,
        "base_sequence": first.sequence,
        "record_count": len(records),
    }
    header = np.zeros(1, HEADER_DTYPE)
    for name, value in fields.items():
        header[name] = value
    header["crc"] = google_crc32c.value(header.tobytes()[CRC_FROM:] + content)
    return header.tobytes() + content


def _encode_record(record: Payload, offset_delta: int, timestamp_delta: int) -> bytes:
    parts = [
        b"\0",
        _encode_varint(timestamp_delta),
        _encode_varint(offset_delta),
        _sized(record.key),
        _sized(record.value),
        _encode_varint(len(record.headers)),
    ]
    for name, value in record.headers:
        parts += (_sized(name.encode()), _sized(value))
    body = b"".join(parts)
    return _encode_varint(len(body)) + body


def _sized(content: bytes | None) -> bytes:
    return _encode_varint(-1) if content is None else _encode_varint(len(content)) + content


def _encode_varint(number: int) -> bytes:
    """Zig-zag encoding, seven bits per byte, for varint and varlong (`ByteUtils.writeVarlong`)."""
    number = number << 1 if number >= 0 else (-number << 1) - 1
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
