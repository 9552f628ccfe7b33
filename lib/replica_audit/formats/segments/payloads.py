"""Records of one batch as they are: keys, values and headers, for whoever was asked for payloads.

Kafka: `DefaultRecordBatch`, `AbstractLegacyRecordBatch.DeepRecordsIterator`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from replica_audit.batch_header import CODEC_MASK, CONTROL, LOG_APPEND_TIME, TRANSACTIONAL
from replica_audit.formats.segments.batches import HEADER_BYTES, HEADER_DTYPE, MAGIC_AT, PREFIX_BYTES
from replica_audit.formats.segments.codecs import GREATEST_EXPANSION, ExpansionError, decompress
from replica_audit.formats.segments.legacy import entry_content, entry_timestamp, parse_wrapper, wrapped_value
from replica_audit.formats.segments.record_fields import RecordError, UnexpandedError, read_records

_LEGACY_PREFIX = struct.Struct(">qiIbb")
_INNER = struct.Struct(">qi")
_SEQUENCES = 1 << 31


class Payload(NamedTuple):
    """One record. Absent numbers are -1, absent bytes None."""

    offset: int
    leader_epoch: int
    magic: int
    timestamp: int
    appended: bool
    """`timestamp` is the broker's (LogAppendTime), not the producer's."""
    producer_id: int
    producer_epoch: int
    sequence: int
    transactional: bool
    control: bool
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    """In their order, duplicates kept."""


def decode_payloads(entry: bytes, limit: int = GREATEST_EXPANSION) -> Iterator[Payload]:
    """The records of one whole entry of any magic, one after the other; a retained empty batch has none.

    `limit` bounds the bytes that a compressed entry expands to; UnexpandedError past them. Raises RecordError, at the
    record in question, for an entry that Kafka could not read either: an unknown or broken codec, lengths or counts that
    do not fit, offsets outside the batch.
    """
    if len(entry) <= MAGIC_AT:
        raise RecordError(f"{len(entry)} bytes are not a batch")
    magic = entry[MAGIC_AT]
    try:
        yield from _decode_new(entry, limit) if magic >= 2 else _decode_legacy(entry, magic, limit)
    except RecordError:
        raise
    except ExpansionError as error:
        raise UnexpandedError(str(error)) from None
    except UnicodeError:
        # Its own text would have the bytes.
        raise RecordError("the name of a header is not UTF-8") from None
    except ValueError as error:
        raise RecordError(str(error)) from None
    except struct.error:
        raise RecordError("the entry ends within a field") from None


def _decode_new(entry: bytes, limit: int) -> Iterator[Payload]:
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
        timestamp = greatest_ms if appended else first_ms + timestamp_delta
        sequence = -1 if first_sequence < 0 else (first_sequence + offset_delta) % _SEQUENCES
        named = tuple(_named(headers))
        yield Payload(
            *(offset, epoch, 2, timestamp, appended, producer_id, producer_epoch, sequence),
            *(transactional, control, key, value, named),
        )


def _named(headers: tuple[bytes | None, ...]) -> Iterator[tuple[str, bytes | None]]:
    for name, value in zip(headers[::2], headers[1::2], strict=True):
        assert name is not None  # `read_records` refuses a header without a name
        yield name.decode("utf-8"), value


def _decode_legacy(entry: bytes, magic: int, limit: int) -> Iterator[Payload]:
    offset, _, _, _, attributes = _LEGACY_PREFIX.unpack_from(entry)
    appended = magic == 1 and bool(attributes & LOG_APPEND_TIME)
    view = memoryview(entry)
    own_ms = entry_timestamp(view, magic)
    if not attributes & CODEC_MASK:
        yield _legacy_payload(view, magic, offset, own_ms, appended)
        return
    # Checks the wrapper by all of Kafka's rules, so that what is read below fits.
    first = parse_wrapper(view, offset, magic, attributes, limit).base_offset
    inside = memoryview(decompress(attributes & CODEC_MASK, wrapped_value(view, magic), limit))
    shift = first - _INNER.unpack_from(inside, 0)[0]
    position = 0
    while position < len(inside):
        inner_offset, size = _INNER.unpack_from(inside, position)
        message = inside[position : position + PREFIX_BYTES + size]
        timestamp = own_ms if appended else entry_timestamp(message, magic)
        yield _legacy_payload(message, magic, inner_offset + shift, timestamp, appended)
        position += len(message)


def _legacy_payload(message: memoryview, magic: int, offset: int, timestamp: int, appended: bool) -> Payload:
    key, value = (None if part is None else bytes(part) for part in entry_content(message, magic))
    return Payload(offset, -1, magic, timestamp, appended, -1, -1, -1, False, False, key, value, ())
