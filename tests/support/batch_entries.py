"""Batches given by their header fields, and segment files of them, summarised as a scan does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tests.support.made_cases import LARGE

from replica_audit.model import SegmentSummary
from replica_audit.segments.record_batch import BATCH_DTYPE
from replica_audit.segments.summary import Summariser


@dataclass(frozen=True)
class Entry:
    """A batch of magic 2 or a legacy message; `crc` stands for its content."""

    base: int
    last: int
    epoch: int
    crc: int
    count: int | None = None
    """Records, by default one for each offset."""
    magic: int = 2
    attributes: int = 0
    producer: tuple[int, int, int] = (-1, -1, -1)
    """Producer id, producer epoch, base sequence."""
    sound: bool = True

    @property
    def end(self) -> int:
        return self.last + 1


def rows_of(entries: Sequence[Entry]) -> np.ndarray:
    """`BATCH_DTYPE` rows of the entries of one file."""
    rows, position = [], 0
    for entry in entries:
        count = entry.end - entry.base if entry.count is None else entry.count
        size = 61 + 3 * count
        epoch = entry.epoch if entry.magic == 2 else -1
        head = (position, size, entry.base, entry.last, epoch, entry.magic, entry.crc, entry.sound, entry.attributes)
        rows.append((*head, 1_000 + entry.base, 1_000 + entry.last, *entry.producer, count, False))
        position += size
    return np.array(rows, BATCH_DTYPE)


def segment_of(broker: int, base: int, rows: np.ndarray) -> SegmentSummary:
    """A segment file of `LARGE` with these rows, whose name is `base`."""
    summariser = Summariser(f"broker-{broker}/{LARGE}/{base:020d}.log", base, int(rows["size"].sum()))
    summariser.add(rows)
    return summariser.finish()
