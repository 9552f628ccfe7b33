"""Record batches of magic 2 written: the inverse of `payloads`, not compressed (`DefaultRecordBatch.writeHeader`)."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import google_crc32c

from replica_audit.formats.segments.attributes import LOG_APPEND_TIME, TRANSACTIONAL
from replica_audit.formats.segments.payloads import Payload

_PREFIX = struct.Struct(">qiibI")
_CHECKED = struct.Struct(">hiqqqhii")
_MAGIC = 2
#: What `length` counts of the part that no CRC covers: leader epoch, magic and CRC.
_UNCHECKED_BYTES = 9


def encode_batch(records: Sequence[Payload]) -> bytes:
    """One batch of `records`, which are of one leader epoch, producer and transaction, by ascending offsets; at least one.

    Offsets between them stay free, as a cleaner leaves them. Raises ValueError for an offset or a sequence that does not
    fit into a batch.
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
    checked = _CHECKED.pack(
        *(attributes, delta, base_timestamp, max(record.timestamp for record in records)),
        *(first.producer_id, first.producer_epoch, first.sequence, len(records)),
    )
    checked += content
    crc = google_crc32c.value(checked)
    return _PREFIX.pack(first.offset, len(checked) + _UNCHECKED_BYTES, first.leader_epoch, _MAGIC, crc) + checked


def _encode_record(record: Payload, offset_delta: int, timestamp_delta: int) -> bytes:
    parts = [b"\0", _varint(timestamp_delta), _varint(offset_delta), _sized(record.key), _sized(record.value)]
    parts.append(_varint(len(record.headers)))
    for name, value in record.headers:
        parts += (_sized(name.encode()), _sized(value))
    body = b"".join(parts)
    return _varint(len(body)) + body


def _sized(content: bytes | None) -> bytes:
    return _varint(-1) if content is None else _varint(len(content)) + content


def _varint(number: int) -> bytes:
    """Zig-zag, seven bits a byte, for varint and varlong (`ByteUtils.writeVarlong`)."""
    number = number << 1 if number >= 0 else (-number << 1) - 1
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
