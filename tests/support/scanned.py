"""Segments of the captures, for the tests of this room."""

from __future__ import annotations

import re
from pathlib import Path
from typing import BinaryIO

import numpy as np
from tests.support.fixtures import CAPTURES, FIXTURES, truth

from replica_audit.model import Damage, SegmentSummary
from replica_audit.segments.record_batch import BATCH_DTYPE
from replica_audit.segments.scan import WINDOW_BYTES, scan_segment
from replica_audit.segments.summary import Summariser

__all__ = [
    "CAPTURES",
    "DUMP_LINE",
    "FIXTURES",
    "MESSAGE_LINE",
    "batches_of",
    "damage_of",
    "scan_file",
    "summarise_segment",
    "truth",
]

DUMP_LINE = re.compile(
    r"(?:baseOffset: (?P<base>\d+) lastOffset: (?P<last>\d+)(?: count: (?P<count>\d+))? "
    r"baseSequence: (?P<sequence>-?\d+) lastSequence: -?\d+ "
    r"producerId: (?P<producer>-?\d+) producerEpoch: (?P<producer_epoch>-?\d+) "
    r"partitionLeaderEpoch: (?P<epoch>-?\d+) .*?|offset: (?P<offset>\d+) )"
    r"position: (?P<position>\d+) \w+: (?P<time>-?\d+) "
    r"(?:isvalid: (?P<early>\w+) )?size: (?P<size>\d+) magic: (?P<magic>\d+) compresscodec: (?P<codec>\w+) "
    r"crc: (?P<crc>\d+)(?: isvalid: (?P<valid>\w+))?"
)

#: 0.10 has other words: a line is an entry, or in its deep listing a message with the position of its wrapper.
MESSAGE_LINE = re.compile(
    r"offset: (?P<offset>\d+) position: (?P<position>\d+) \w+: (?P<time>-?\d+) isvalid: (?P<valid>\w+) "
    r"payloadsize: -?\d+ magic: (?P<magic>\d+) compresscodec: \w+ crc: (?P<crc>\d+)"
)


def scan_file(path: Path, window: int = 8 << 20) -> list[np.ndarray | Damage]:
    """Everything that the scan gives of a segment file."""
    with path.open("rb") as stream:
        return list(scan_segment(stream, path.stat().st_size, int(path.name[:20]), window))


def batches_of(items: list[np.ndarray | Damage]) -> np.ndarray:
    """The batches among the items of a scan, in one array."""
    return np.concatenate([np.empty(0, BATCH_DTYPE), *(item for item in items if not isinstance(item, Damage))])


def damage_of(items: list[np.ndarray | Damage]) -> list[Damage]:
    """The damage among the items of a scan."""
    return [item for item in items if isinstance(item, Damage)]


def summarise_segment(
    stream: BinaryIO, path: str, base_offset: int, size_bytes: int, window: int = WINDOW_BYTES
) -> SegmentSummary:
    """Scan a segment file and summarise it."""
    summariser = Summariser(path, base_offset, size_bytes)
    for item in scan_segment(stream, size_bytes, base_offset, window):
        summariser.add(item)
    return summariser.finish()
