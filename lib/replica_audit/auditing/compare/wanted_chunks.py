"""Which chunks the comparison of two logs wants to see batch by batch."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from replica_audit.auditing.compare.chunks import chunks_at, differing_chunks
from replica_audit.auditing.compare.remote_storage import chunks_below
from replica_audit.auditing.compare.replays import first_dropped, replay_lineage
from replica_audit.auditing.replicas.offset_ranges import shared_start
from replica_audit.auditing.replicas.reference import Reference
from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
from replica_audit.protocol.truncation import Replay


def needed_chunks(
    reference: Reference,
    follower: ReplicaFacts,
    replays: Mapping[str, Replay],
    verified: Collection[int] = frozenset(),
) -> set[int]:
    """Chunks whose batches the comparison wants of both: those that differ, except those `verified` before, those that part
    from what the reference has in remote storage, and those that a cut or an end goes through.
    """
    differing = differing_chunks(reference.facts, follower).difference(verified)
    below = chunks_below(reference.facts, follower, replay_lineage(reference.facts, tiered=True))
    return differing | below | cut_chunks(reference, follower, replays)


def cut_chunks(reference: Reference, follower: ReplicaFacts, replays: Mapping[str, Replay]) -> set[int]:
    """Chunks that a cut of the follower or its end goes through."""
    cuts = set().union(*(chunks_at(follower, first_dropped(follower, outcome)) for outcome in replays.values()))
    return cuts | chunks_at(reference.facts, follower.log_end_offset)


def chunks_for_keys(reference: ReplicaFacts, follower: ReplicaFacts) -> tuple[set[int], set[int]]:
    """Chunks that latest values per key want besides `needed_chunks`, where any differ: of the reference, of the follower.

    What is equal on both is looked at on the reference only; above the shorter log's end on the longer one.
    """
    if not ((reference.compacted or follower.compacted) and differing_chunks(reference, follower)):
        return set(), set()
    floor = shared_start(reference, follower)
    return (
        {number for number, chunk in reference.chunks.items() if chunk.last_offset >= floor},
        {number for number, chunk in follower.chunks.items() if chunk.last_offset >= reference.log_end_offset},
    )
