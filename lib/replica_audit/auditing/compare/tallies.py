"""Sums over batches, and over a log with only some chunks read."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
    from replica_audit.segments.batch_rows import Batches


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
    return Tally(*batches.sums)


def tally_from(facts: ReplicaFacts, offset: int, batches: Batches, loaded: Collection[int]) -> Tally:
    """Records and bytes that truncation to `offset` drops: every batch whose last offset is at or above it.

    `batches` are those of the chunks in `loaded`; every other chunk is on one side of `offset`, and its digest has the counts.
    """
    total = tally_batches(batches.above(offset))
    for number, chunk in facts.chunks.items():
        if number not in loaded and chunk.last_offset >= offset:
            total += Tally(chunk.record_count, chunk.size_bytes, chunk.first_timestamp_ms, chunk.last_timestamp_ms)
    return total


def _least(one: int | None, other: int | None) -> int | None:
    return min((value for value in (one, other) if value is not None), default=None)


def _greatest(one: int | None, other: int | None) -> int | None:
    return max((value for value in (one, other) if value is not None), default=None)
