"""Chunks whose batches a comparison needs: those that differ, unless verified by an earlier audit, and those that a cut splits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from replica_audit.auditing.compare.remote_storage import chunks_below
from replica_audit.auditing.compare.replays import first_dropped, replay_lineage
from replica_audit.auditing.replicas.offset_ranges import shared_start
from replica_audit.auditing.replicas.reference import Reference
from replica_audit.auditing.replicas.replica_facts import CopyKey, ReplicaFacts
from replica_audit.model import CHUNK_OFFSETS, ChunkDigest, SegmentSummary
from replica_audit.protocol.truncation import Replay
from replica_audit.segments.digests import merge_chunks


class Pair(NamedTuple):
    """Two copies to compare."""

    reference: Reference
    follower: ReplicaFacts
    replays: Mapping[str, Replay]
    """By protocol."""
    chunks: set[int]
    """Chunks whose batches the comparison needs from both."""


def chunks_at(facts: ReplicaFacts, offset: int) -> set[int]:
    """Chunks with batches on both sides of `offset`."""
    return {number for number, chunk in facts.chunks.items() if chunk.base_offset < offset <= chunk.last_offset}


def chunks_to(facts: ReplicaFacts, offset: int) -> set[int]:
    """Chunks of the segment with `offset`, below it, if transactions end in it: only its batches show which are open there."""
    below = [segment for segment in facts.segments if segment.base_offset < offset]
    if offset >= facts.log_end_offset or not below or not below[-1].ended_producers:
        return set()
    start = below[-1].base_offset
    return {
        number for number, chunk in facts.chunks.items() if chunk.base_offset < offset and chunk.last_offset >= start
    }


def differing_chunks(reference: ReplicaFacts, follower: ReplicaFacts) -> set[int]:
    """Chunks to align by batches: their digests differ within the comparable range, or only the follower is that long.

    Batches of the reference above the follower's end are lag, and those below either log's start are retention.
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
    """Chunks with damage that equal digests would hide: both copies have it, or it is in a field outside the digest."""
    return {item.base_offset // CHUNK_OFFSETS for _, item in facts.irregularities if item.kind in ("crc", "field")}


def needed_chunks(
    reference: Reference,
    follower: ReplicaFacts,
    replays: Mapping[str, Replay],
    verified: Collection[int] = frozenset(),
) -> set[int]:
    """Chunks whose batches the comparison needs from both: those that differ and were not `verified` before, those that differ
    from the reference's part in remote storage, and those that a cut or an end splits."""
    differing = differing_chunks(reference.facts, follower).difference(verified)
    below = chunks_below(reference.facts, follower, replay_lineage(reference.facts, tiered=True))
    cuts = set().union(*(chunks_at(follower, first_dropped(follower, outcome)) for outcome in replays.values()))
    return differing | below | cuts | chunks_at(reference.facts, follower.log_end_offset)


def chunks_for_keys(reference: ReplicaFacts, follower: ReplicaFacts) -> tuple[set[int], set[int]]:
    """Chunks needed for the latest values of keys in addition to `needed_chunks`, if any differ: (the reference's, the follower's).

    Equal chunks are read from the reference only; above the shorter log's end from the longer one.
    """
    if not ((reference.compacted or follower.compacted) and differing_chunks(reference, follower)):
        return set(), set()
    floor = shared_start(reference, follower)
    return (
        {number for number, chunk in reference.chunks.items() if chunk.last_offset >= floor},
        {number for number, chunk in follower.chunks.items() if chunk.last_offset >= reference.log_end_offset},
    )


class VerifiedCopy(NamedTuple):
    """A replica as seen by an earlier audit: equal to the reference up to `end_offset`, with its chunks then."""

    end_offset: int
    chunks: Mapping[int, ChunkDigest]


def verified_copies(segments: Iterable[tuple[CopyKey, int, SegmentSummary]]) -> dict[CopyKey, VerifiedCopy]:
    """Verified copies of one partition, from rows of that audit: key, end of the common prefix, summary of a segment."""
    ends: dict[CopyKey, int] = {}
    chunks: dict[CopyKey, list[Iterable[ChunkDigest]]] = defaultdict(list)
    for key, end, summary in segments:
        ends[key] = end
        chunks[key].append(summary.chunks)
    return {key: VerifiedCopy(end, merge_chunks(chunks[key])) for key, end in ends.items()}


def verified_chunks(
    verified: Mapping[CopyKey, VerifiedCopy], reference: ReplicaFacts, follower: ReplicaFacts
) -> frozenset[int]:
    """Chunks that need no comparison: completely below the verified end of both, and unchanged since on both.

    Empty if anything else below has changed, except by retention, and for compacted logs, where the latest value of a key
    depends on the whole log.
    """
    theirs = verified.get(reference.key)
    own = verified.get(follower.key)
    if theirs is None or own is None or reference.compacted or follower.compacted:
        return frozenset()
    end = min(theirs.end_offset, own.end_offset)
    found: list[set[int]] = []
    for facts, copy in ((reference, theirs), (follower, own)):
        below = {number: chunk for number, chunk in facts.chunks.items() if chunk.last_offset < end}
        same = {number for number, chunk in below.items() if copy.chunks.get(number) == chunk}
        # Retention may have deleted the first part of the chunk in which the log starts now.
        if below.keys() - same - {facts.local_start_offset // CHUNK_OFFSETS}:
            return frozenset()
        found.append(same)
    return frozenset(found[0] & found[1])
