"""Sums over batches, and over a log that reads only some of its chunks."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from replica_audit.segments.batch_rows import Batches
from replica_audit.segments.digests import rows_of_chunks

if TYPE_CHECKING:
    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts


@dataclass(frozen=True, slots=True)
class Tally:
    """Numbers of records and bytes of batches, and the span of their timestamps (None without any)."""

    record_count: int = 0
    size_bytes: int = 0
    first_timestamp_ms: int | None = None
    last_timestamp_ms: int | None = None

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.record_count + other.record_count,
            self.size_bytes + other.size_bytes,
            _least(self.first_timestamp_ms, other.first_timestamp_ms),
            _greatest(self.last_timestamp_ms, other.last_timestamp_ms),
        )


def tally_batches(batches: Batches) -> Tally:
    """Sum over complete `batches`."""
    rows = batches.rows
    if not len(rows):
        return Tally()
    records = int(np.maximum(rows["record_count"], 0).sum(dtype=np.int64))
    size = int(rows["size"].sum())
    times = batches.timestamps()
    return Tally(records, size, int(times.min()), int(times.max())) if len(times) else Tally(records, size)


def tally_from(facts: ReplicaFacts, offset: int, batches: Batches, loaded: Collection[int]) -> Tally:
    """Records and bytes that truncation to `offset` drops: every batch whose last offset is at or above it.

    `batches` include those of the chunks in `loaded`; every other chunk is on one side of `offset`, and its digest has its numbers.
    """
    dropped = batches.ends > offset
    total = tally_batches(Batches(rows_of_chunks(batches.rows[dropped], loaded))) if dropped.any() else Tally()
    for number, chunk in facts.chunks.items():
        if number not in loaded and chunk.last_offset >= offset:
            total += Tally(chunk.record_count, chunk.size_bytes, chunk.first_timestamp_ms, chunk.last_timestamp_ms)
    return total


def _least(one: int | None, other: int | None) -> int | None:
    return min((value for value in (one, other) if value is not None), default=None)


def _greatest(one: int | None, other: int | None) -> int | None:
    return max((value for value in (one, other) if value is not None), default=None)
