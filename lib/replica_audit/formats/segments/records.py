"""Records of one batch, decoded only where batches of two replicas differ, and never kept as they are.

A batch is expanded here, within a bound, and aiokafka's parser reads what comes out; a row keeps the fields that are no
content, and keyed hashes of the key and of the content. The hash key lives as long as one comparison, so a row says
whether two records are equal and nothing else. Kafka: `DefaultRecord`, `AbstractLegacyRecordBatch.DeepRecordsIterator`.
"""

from __future__ import annotations

import hashlib
import os
import struct

import numpy as np

from replica_audit.formats.segments.attributes import CODEC_MASK, CONTROL, LOG_APPEND_TIME, TRANSACTIONAL
from replica_audit.formats.segments.batches import HEADER_BYTES, HEADER_DTYPE, MAGIC_AT, PREFIX_BYTES
from replica_audit.formats.segments.codecs import GREATEST_EXPANSION, decompress
from replica_audit.formats.segments.legacy import entry_value, parse_wrapper

#: One record. Absent is -1. `key`, `content` and `headers` are keyed hashes; `content` covers key and value, so that
#: it stays the same when a record is converted to a format without headers.
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

_CONTROL_KEY = struct.Struct(">hh")
_LEGACY_PREFIX = struct.Struct(">qiIbb")
_TIMESTAMP = struct.Struct(">q")
_INNER = struct.Struct(">qi")
_SEQUENCES = 1 << 31
#: In place of a length: no part is so long.
_NULL = b"\xff" * 8


class RecordError(ValueError):
    """A batch whose records cannot be decoded, though its checksum may be right; the text says why, without content."""


class RecordHasher:
    """64-bit hashes under a key that is made at random for this object and never leaves it.

    A plain hash of a short key can be guessed; rows of two hashers cannot be compared.
    """

    __slots__ = ("_keyed", "nothing")

    def __init__(self) -> None:
        self._keyed = hashlib.blake2b(digest_size=8, key=os.urandom(32))
        self.nothing = self.hash()

    def __reduce__(self):
        raise TypeError("the key of a RecordHasher does not leave its process")

    def hash(self, *parts: bytes | None) -> int:
        """The hash of `parts` in their order, null told from empty."""
        digest = self._keyed.copy()
        for part in parts:
            digest.update(_NULL if part is None else len(part).to_bytes(8, "big") + part)
        return int.from_bytes(digest.digest(), "big")


def decode_records(entry: bytes, hasher: RecordHasher, limit: int = GREATEST_EXPANSION) -> np.ndarray:
    """The records of one whole entry of any magic, as `RECORD_DTYPE` in their order; a retained empty batch has none.

    `limit` bounds the bytes that a compressed entry expands to. Raises RecordError for an entry that Kafka could not
    read either: an unknown or broken codec, lengths or counts that do not fit, offsets outside the batch.
    """
    if len(entry) <= MAGIC_AT:
        raise RecordError(f"{len(entry)} bytes are not a batch")
    magic = entry[MAGIC_AT]
    try:
        rows = _decode_new(entry, hasher, limit) if magic >= 2 else _decode_legacy(entry, magic, hasher, limit)
    except RecordError:
        raise
    except (ValueError, IndexError, struct.error, AssertionError) as error:
        raise RecordError(_reason(error)) from None
    except (OverflowError, MemoryError):
        raise RecordError("a record announces more bytes than there can be") from None
    except Exception as error:  # aiokafka's errors have no base class of their own outside its client
        if type(error).__module__.startswith("aiokafka."):
            raise RecordError(_reason(error)) from None
        raise
    return np.array(rows, RECORD_DTYPE)


def _reason(error: Exception) -> str:
    # The text of a decoding error may carry the bytes that could not be decoded.
    if isinstance(error, UnicodeError):
        return "the name of a header is not UTF-8"
    return str(error) or type(error).__name__


def _decode_new(entry: bytes, hasher: RecordHasher, limit: int) -> list[tuple]:
    # Imported here: most audits decode nothing, and the client around the parser takes its time to load.
    from aiokafka.record._crecords import DefaultRecordBatch

    if len(entry) < HEADER_BYTES:
        raise RecordError(f"{len(entry)} bytes are not a batch of magic 2")
    header = np.frombuffer(entry[:HEADER_BYTES], HEADER_DTYPE).copy()
    attributes = int(header["attributes"][0])
    if attributes & CODEC_MASK:
        # The parser would expand without a bound, so it is given a batch that is not compressed.
        records = decompress(attributes & CODEC_MASK, entry[HEADER_BYTES:], limit)
        header["attributes"] = attributes & ~CODEC_MASK
        header["length"] = HEADER_BYTES - PREFIX_BYTES + len(records)
        entry = header.tobytes() + records
    base, epoch, last_delta = (int(header[name][0]) for name in ("base_offset", "leader_epoch", "last_offset_delta"))
    producer_id, producer_epoch, first_sequence = (
        int(header[name][0]) for name in ("producer_id", "producer_epoch", "base_sequence")
    )
    control, transactional = bool(attributes & CONTROL), bool(attributes & TRANSACTIONAL)
    rows = []
    previous = base - 1
    for record in DefaultRecordBatch(entry):
        offset = record.offset
        if not previous < offset <= base + last_delta:
            raise RecordError(f"record {len(rows)} has offset {offset} in a batch of {base} to {base + last_delta}")
        previous = offset
        key, value = record.key, record.value
        headers = (
            [part for name, content in record.headers for part in (name.encode(), content)] if record.headers else ()
        )
        marker = _CONTROL_KEY.unpack_from(key)[1] if control and key is not None and len(key) >= 4 else -1
        sequence = -1 if first_sequence < 0 else (first_sequence + offset - base) % _SEQUENCES
        rows.append(
            (offset, epoch, 2, record.timestamp, producer_id, producer_epoch, sequence)
            + (key is not None, value is not None, transactional, control, marker)
            + (hasher.hash(key), hasher.hash(key, value), hasher.hash(*headers) if headers else hasher.nothing)
        )
    return rows


def _decode_legacy(entry: bytes, magic: int, hasher: RecordHasher, limit: int) -> list[tuple]:
    offset, _, _, _, attributes = _LEGACY_PREFIX.unpack_from(entry)
    if not attributes & CODEC_MASK:
        entry_value(memoryview(entry), magic)  # the parser takes lengths as they are
        return [_legacy_row(entry, magic, offset, None, hasher)]
    view = memoryview(entry)
    # Checks the wrapper by all of Kafka's rules, so that what is read below fits.
    first = parse_wrapper(view, offset, magic, attributes, limit).base_offset
    inside = decompress(attributes & CODEC_MASK, entry_value(view, magic), limit)
    override = None
    if magic == 1 and attributes & LOG_APPEND_TIME:
        (override,) = _TIMESTAMP.unpack_from(entry, _LEGACY_PREFIX.size)
    rows: list[tuple] = []
    position = 0
    shift = first - _INNER.unpack_from(inside, 0)[0]
    while position < len(inside):
        inner_offset, size = _INNER.unpack_from(inside, position)
        following = position + PREFIX_BYTES + size
        message = inside[position:following]
        entry_value(memoryview(message), magic)
        rows.append(_legacy_row(message, magic, inner_offset + shift, override, hasher))
        position = following
    return rows


def _legacy_row(message: bytes, magic: int, offset: int, timestamp: int | None, hasher: RecordHasher) -> tuple:
    from aiokafka.record._crecords import LegacyRecordBatch

    (record,) = LegacyRecordBatch(message, magic)
    if timestamp is None:
        timestamp = -1 if record.timestamp is None else record.timestamp
    key, value = record.key, record.value
    return (
        (offset, -1, magic, timestamp, -1, -1, -1)
        + (key is not None, value is not None, False, False, -1)
        + (hasher.hash(key), hasher.hash(key, value), hasher.nothing)
    )
