"""Chunks of two logs that have to be compared batch by batch, as their digests differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replica_audit.auditing.replicas.offset_ranges import shared_start
from replica_audit.model import CHUNK_OFFSETS, ChunkDigest

if TYPE_CHECKING:
    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts


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
        theirs = reference.chunks.get(number)
        own = follower.chunks.get(number)
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
