"""Record batches of magic 2 written: the inverse of `records`, not compressed (`DefaultRecordBatch.writeHeader`)."""

from __future__ import annotations

from collections.abc import Sequence

import google_crc32c
import numpy as np

from replica_audit.batch_header import LOG_APPEND_TIME, TRANSACTIONAL
from replica_audit.segments.record_batch import CRC_FROM, HEADER_BYTES, HEADER_DTYPE, PREFIX_BYTES
from replica_audit.segments.records import Payload

_MAGIC = 2


def encode_batch(records: Sequence[Payload]) -> bytes:
    """One batch of `records`, which are of one leader epoch, producer and transaction, by ascending offsets; at least one.

    Offsets between them stay free, as a cleaner leaves them. Raises ValueError where the offsets do not fit into
    one batch.
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
        "magic": _MAGIC,
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
