"""Batch headers from a broker's answer, with their checksums computed and the records dropped."""

from __future__ import annotations

import struct
from io import BytesIO

import numpy as np
from numpy.typing import NDArray

from replica_audit.errors import FormatError
from replica_audit.model import Damage
from replica_audit.segments.record_batch import BATCH_DTYPE
from replica_audit.segments.scan import scan_segment

_FRAME = struct.Struct(">qi")


def read_batches(records: bytes) -> NDArray[np.void]:
    """The complete batches (`BATCH_DTYPE`) in a broker's answer; an incomplete last one is left out.

    Raises FormatError for malformed bytes.
    """
    end = _end_of_whole(records)
    if not end:
        return np.empty(0, BATCH_DTYPE)
    first, _ = _FRAME.unpack_from(records)
    found = []
    for item in scan_segment(BytesIO(records[:end]), end, first):
        if isinstance(item, Damage):
            raise FormatError("the broker's answer", item.position, "whole batches", item.reason, "observe again")
        found.append(item)
    return np.concatenate(found)


def _end_of_whole(records: bytes) -> int:
    """Position after the last complete batch."""
    at = 0
    while at + _FRAME.size <= len(records):
        _, length = _FRAME.unpack_from(records, at)
        following = at + _FRAME.size + length
        if length < 0 or following > len(records):
            break
        at = following
    return at
