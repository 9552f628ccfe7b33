"""Chunks whose batches a comparison needs: those that differ, unless verified by an earlier audit, and those that a cut splits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import permutations
from typing import NamedTuple

from replica_audit.auditing.compare.remote_storage import chunks_below, chunks_within
from replica_audit.auditing.compare.replays import CandidateCuts, first_dropped, lacked_below_start, replay_lineage
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
    return differing | below | cut_chunks(reference, follower, replays)


def cut_chunks(reference: Reference, follower: ReplicaFacts, replays: Mapping[str, Replay]) -> set[int]:
    """Chunks that a cut of the follower, or its end, splits."""
    cuts = set().union(*(chunks_at(follower, first_dropped(follower, outcome)) for outcome in replays.values()))
    return cuts | chunks_at(reference.facts, follower.log_end_offset)


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
    """Verified copies of one partition, from the key, the end of the common prefix and the summary of each segment then."""
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


def chunks_of_candidates(
    reference: Reference,
    replicas: Sequence[ReplicaFacts],
    cuts_of: Callable[[], CandidateCuts],
) -> dict[CopyKey, set[int]]:
    """Chunks whose batches the costs of all candidates need, by copy: all holders of a chunk, or none.

    | chunk | wanted |
    |---|---|
    | its holders have different batches there | yes |
    | the reference does not hold it | yes |
    | a replica has records there, below another's log start, that this one never had | yes |
    | where logs end alike and no chunk is wanted for the reasons above, any other | no |
    | an end, log start or recorded high watermark of any copy goes through a copy of it | yes |
    | a cut of a copy goes through its own | yes |
    | any other: the reference and whoever else holds it have the same | no: its digest counts it |

    `cuts_of` returns `cuts_of_candidates`, and is called only if logs differ and some chunk is not wanted anyway.
    """
    holders: dict[int, list[ReplicaFacts]] = defaultdict(list)
    for facts in replicas:
        for number in facts.chunks:
            holders[number].append(facts)
    wanted = {number for number, some in holders.items() if _is_unlike(number, some, reference.facts)}
    wanted |= {
        number
        for facts, other in permutations(replicas, 2)
        if (lacked := lacked_below_start(facts, other)) is not None
        for number in chunks_within(lacked) & other.chunks.keys()
    }
    if not wanted and len({facts.log_end_offset for facts in replicas}) < 2:
        return {}
    if not wanted >= holders.keys():
        edges = _edges(replicas)
        cuts: dict[CopyKey, set[int]] = defaultdict(set)
        for ways in cuts_of():
            for of_candidate in ways.values():
                for key, cut in of_candidate.items():
                    cuts[key].add(cut)
        for facts in replicas:
            for offset in edges | cuts[facts.key]:
                wanted |= chunks_at(facts, offset)
    found: dict[CopyKey, set[int]] = defaultdict(set)
    for facts in replicas:
        found[facts.key] |= wanted & facts.chunks.keys()
    return {key: chunks for key, chunks in found.items() if chunks}


def _is_unlike(number: int, holders: Sequence[ReplicaFacts], reference: ReplicaFacts) -> bool:
    """True if the holders of a chunk have different batches there, or the reference is not a holder."""
    contents = {(facts.chunks[number].digest, facts.chunks[number].batch_count) for facts in holders}
    return len(contents) > 1 or all(facts is not reference for facts in holders)


def _edges(replicas: Sequence[ReplicaFacts]) -> set[int]:
    """Offsets at which logs start and end, as found and as recovered, and their recorded high watermarks."""
    found = {offset for facts in replicas for offset in (facts.log_start_offset, facts.following_end_offset)}
    found |= {facts.recovering.following_end_offset for facts in replicas if facts.may_recover}
    marks = (facts.directory.high_watermark_checkpoint for facts in replicas)
    return found | {mark for mark in marks if mark is not None}
