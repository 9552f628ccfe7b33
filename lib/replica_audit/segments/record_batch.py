"""Record batches of magic 2: the 61-byte header, decoded for many batches at once, and its CRC-32C.

A segment file is a chain of entries; every entry, of whatever version, begins with an offset (8 bytes), the length of what
follows the first 12 bytes (4), and has its magic at byte 16. Kafka: `DefaultRecordBatch`, `FileLogInputStream`.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from itertools import repeat

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from replica_audit.batch_header import BATCH_FIELDS

#: One batch, or one legacy entry, of a segment file: the fields of `Batch` in native byte order.
BATCH_DTYPE = np.dtype([(name, stored.code) for name, stored in BATCH_FIELDS.items()])

_ON_DISK = sorted((stored.disk, name) for name, stored in BATCH_FIELDS.items() if stored.disk is not None)

#: The header on disk, big-endian and packed (61 bytes).
HEADER_DTYPE = np.dtype([(disk.name or name, ">" + disk.code) for disk, name in _ON_DISK])

HEADER_BYTES = HEADER_DTYPE.itemsize
#: Bytes before the part that `length` counts.
PREFIX_BYTES = 12
_POSITIONS = {disk.name or name: disk.position for disk, name in _ON_DISK}
_LENGTH_AT = _POSITIONS["length"]
MAGIC_AT = _POSITIONS["magic"]
#: The CRC of magic 2 covers everything from here on.
CRC_FROM = _POSITIONS["attributes"]
#: Smallest entry of any version: prefix and a magic-0 message without key and value.
LEAST_ENTRY_BYTES = PREFIX_BYTES + 14

#: An offset index has offsets relative to the segment's base as int32, so no segment spans more.
GREATEST_SPAN = 2**31 - 1

#: The greatest sequence number of a producer, 2^31-1, is followed by 0.
SEQUENCES = 1 << 31

_COPIED = tuple(name for disk, name in _ON_DISK if disk.name is None)


def follow_lengths(data: bytes, start: int, limit: int) -> tuple[NDArray[np.int64], int]:
    """Starts of the complete entries in `data` that the length fields lead to from `start`, and the end of the last one.

    Stops before an entry that does not end within `data` or is shorter than the smallest entry, or after `limit` entries.
    Besides the CRC, this loop is the only Python work per entry.
    """
    unpack = struct.Struct(">i").unpack_from
    least = LEAST_ENTRY_BYTES - PREFIX_BYTES
    # Positions of length fields rather than entries: saves an addition for each. Past the end of `data` there is none.
    fields: list[int] = []
    append = fields.append
    field = start + _LENGTH_AT
    with suppress(struct.error):
        for _ in repeat(None, min(limit, len(data))):
            (length,) = unpack(data, field)
            if length < least:
                break
            append(field)
            field += PREFIX_BYTES + length
    if fields and field - _LENGTH_AT > len(data):
        field = fields.pop()
    return np.array(fields, dtype=np.int64) - _LENGTH_AT, field - _LENGTH_AT


def gather_headers(data: bytes, starts: NDArray[np.int64]) -> NDArray[np.void]:
    """The 61 bytes at each of `starts` as an array of `HEADER_DTYPE`; each must lie within `data`."""
    if not len(starts):
        return np.empty(0, HEADER_DTYPE)
    # A view with a header at every byte of `data`; only those at `starts` are copied.
    headers = np.ndarray((len(data) - HEADER_BYTES + 1,), HEADER_DTYPE, data, strides=(1,))
    return headers[starts]


def decode_headers(
    headers: NDArray[np.void], positions: NDArray[np.int64]
) -> tuple[NDArray[np.void], NDArray[np.bool_]]:
    """Headers of magic 2 as `BATCH_DTYPE`, `crc_valid` still False, and a mask of those with an impossible frame.

    An impossible frame has an offset below 0 or past int64 (`last_offset` wraps there), or a last offset below the base.
    """
    batches = np.zeros(len(headers), BATCH_DTYPE)
    for name in _COPIED:
        batches[name] = headers[name]
    batches["position"] = positions
    batches["size"] = headers["length"].astype(np.int64) + PREFIX_BYTES
    batches["last_offset"] = batches["base_offset"] + headers["last_offset_delta"]
    return batches, (batches["base_offset"] < 0) | (batches["last_offset"] < batches["base_offset"])


def decode_batches(
    data: bytes, starts: NDArray[np.int64], file_position: int | NDArray[np.int64]
) -> tuple[NDArray[np.void], NDArray[np.bool_]]:
    """Batches of magic 2 at `starts` of `data`, which contains each of them completely. `file_position` is that of `data`
    in its file, or an array with one for each batch.

    Returns the `BATCH_DTYPE` array with `crc_valid` set, and the mask of `decode_headers`.
    """
    batches, broken = decode_headers(gather_headers(data, starts), starts + file_position)
    ends = (starts + batches["size"]).tolist()
    value = google_crc32c.value
    crcs = [value(data[a:b]) for a, b in zip((starts + CRC_FROM).tolist(), ends, strict=True)]
    batches["crc_valid"] = batches["crc"] == np.array(crcs, dtype=np.int64)
    return batches, broken
