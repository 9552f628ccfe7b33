"""Which chunks of two logs have to be looked at batch by batch, and sums over a log that need no batches elsewhere."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from replica_audit.auditing.replicas.shared_range import shared_start
from replica_audit.batch_header import Batch
from replica_audit.model import CHUNK_OFFSETS, ChunkDigest

if TYPE_CHECKING:
    from replica_audit.auditing.replicas.facts import ReplicaFacts


@dataclass(frozen=True, slots=True)
class Tally:
    """Batches counted: records, bytes, and the span of their timestamps (None where there are none)."""

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


def tally_batches(batches: Iterable[Batch]) -> Tally:
    """Sum over `batches`, each counted whole."""
    records = size = 0
    times: list[int] = []
    for batch in batches:
        records += max(0, batch.record_count)
        size += batch.size
        times.extend(batch.timestamps)
    return Tally(records, size, min(times, default=None), max(times, default=None))


def tally_from(
    facts: ReplicaFacts,
    offset: int,
    batches: Iterable[Batch],
    loaded: Collection[int],
    counted: Mapping[int, Tally] = MappingProxyType({}),
) -> Tally:
    """What truncation to `offset` drops of `facts`: every batch whose last offset is at or above it.

    `batches` has those of the chunks in `loaded`, whatever else it has; every other chunk lies whole on one side of
    `offset`, and its batches were `counted`, or its digest counts them.
    """
    total = tally_batches(
        batch for batch in batches if batch.last_offset >= offset and batch.base_offset // CHUNK_OFFSETS in loaded
    )
    for number, chunk in facts.chunks.items():
        if number not in loaded and chunk.last_offset >= offset:
            total += counted.get(number) or Tally(
                chunk.record_count, chunk.size_bytes, chunk.first_timestamp_ms, chunk.last_timestamp_ms
            )
    return total


def chunks_at(facts: ReplicaFacts, offset: int) -> set[int]:
    """Chunks with batches on both sides of `offset`: a cut there goes through them."""
    return {number for number, chunk in facts.chunks.items() if chunk.base_offset < offset <= chunk.last_offset}


def differing_chunks(reference: ReplicaFacts, follower: ReplicaFacts) -> set[int]:
    """Chunks to align batch by batch: digests differ within the comparable range, or only the follower is that long.

    What only the reference has above the follower's end is lag, and what lies below either log's start is retention.
    """
    floor = shared_start(reference, follower)
    odd = _chunks_of_oddities(reference) | _chunks_of_oddities(follower)
    chosen = set()
    for number in reference.chunks.keys() | follower.chunks.keys():
        theirs, own = reference.chunks.get(number), follower.chunks.get(number)
        if max(chunk.last_offset for chunk in (theirs, own) if chunk) < floor:
            continue
        if own is None and number * CHUNK_OFFSETS >= follower.log_end_offset:
            continue
        if not _same(theirs, own) or number in odd:
            chosen.add(number)
    return chosen


def _same(one: ChunkDigest | None, other: ChunkDigest | None) -> bool:
    return (
        one is not None
        and other is not None
        and (one.digest, one.batch_count, one.base_offset, one.last_offset)
        == (other.digest, other.batch_count, other.base_offset, other.last_offset)
    )


def _chunks_of_oddities(facts: ReplicaFacts) -> set[int]:
    """Chunks with damage that equal digests would hide: both copies carry it, or it is in a field that is not digested."""
    return {item.base_offset // CHUNK_OFFSETS for _, item in facts.irregularities if item.kind in ("crc", "field")}


def _least(one: int | None, other: int | None) -> int | None:
    return min((value for value in (one, other) if value is not None), default=None)


def _greatest(one: int | None, other: int | None) -> int | None:
    return max((value for value in (one, other) if value is not None), default=None)
