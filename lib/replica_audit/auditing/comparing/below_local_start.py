"""A follower's records where the reference has only remote segments: their epochs still tell whether the two part there.

The reference's epoch file covers its whole log, the part in remote storage too (KIP-405).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from replica_audit.auditing.comparing.alignment import Difference
from replica_audit.formats.segments.batch_rows import Batches
from replica_audit.model import CHUNK_OFFSETS

if TYPE_CHECKING:
    from replica_audit.auditing.replicas.facts import ReplicaFacts
    from replica_audit.protocol.lineage import Lineage


def remote_range(reference: ReplicaFacts, follower: ReplicaFacts) -> tuple[int, int]:
    """[start, end) of what the reference has in remote storage only and the follower in its files; empty where start >= end."""
    return max(reference.log_start_offset, follower.local_start_offset), reference.local_start_offset


def chunks_below(reference: ReplicaFacts, follower: ReplicaFacts, lineage: Lineage) -> set[int]:
    """The follower's chunks with records there of another epoch than `lineage`, the reference's, has at their offsets."""
    low, high = remote_range(reference, follower)
    wanted = set()
    for start, end, epoch in _stretches(follower, low, high):
        if any(had != epoch for _, _, had in epoch_parts(lineage, start, end)):
            wanted |= set(range(start // CHUNK_OFFSETS, (end - 1) // CHUNK_OFFSETS + 1))
    return wanted & follower.chunks.keys()


def differences_below(
    reference: ReplicaFacts, follower: ReplicaFacts, lineage: Lineage, batches: Batches
) -> Iterator[Difference]:
    """The parts of the follower's `batches` there that are of another epoch than the reference's log has at their offsets."""
    low, high = remote_range(reference, follower)
    for batch in batches.where((batches.starts < high) & (batches.ends > low)):
        start, end = max(batch.base_offset, low), min(batch.end_offset, high)
        if start < end and batch.crc_valid and batch.epoch is not None:
            for first, last, epoch in epoch_parts(lineage, start, end):
                if epoch != batch.epoch:
                    yield Difference("epoch", first, last, epoch, batch.epoch, Batches.of((batch,)))


def _stretches(facts: ReplicaFacts, low: int, high: int) -> Iterator[tuple[int, int, int]]:
    """(start, end, epoch) of a log's epochs within [low, high)."""
    entries = [*facts.lineage, (-1, facts.log_end_offset)]
    for (epoch, start), (_, end) in zip(entries, entries[1:], strict=False):
        if max(start, low) < min(end, high):
            yield max(start, low), min(end, high), epoch


def epoch_parts(lineage: Lineage, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """(start, end, epoch) of a lineage within [start, end), as far as it has an epoch there."""
    if start >= end:
        return
    bounds = [start, *(first for _, first in lineage if start < first < end), end]
    for first, last in zip(bounds, bounds[1:], strict=False):
        epoch = lineage.epoch_for_offset(first)
        if epoch is not None:
            yield first, last, epoch
