"""Offsets that a log holds of a leader epoch, and ranges without others."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING

from replica_audit.model import OffsetRange

if TYPE_CHECKING:
    from replica_audit.auditing.replicas.facts import ReplicaFacts


def offsets_of_epoch(facts: ReplicaFacts, leader_epoch: int) -> list[OffsetRange]:
    """Offsets of an epoch that a log has, by its lineage."""
    entries = [*facts.lineage, (None, facts.log_end_offset)]
    return [OffsetRange(start, end) for (epoch, start), (_, end) in pairwise(entries) if epoch == leader_epoch]


def without(ranges: Iterable[OffsetRange], taken: Iterable[OffsetRange]) -> list[OffsetRange]:
    """`ranges` in their order, without what `taken` covers of them."""
    left = list(ranges)
    for one in taken:
        cut = []
        for part in left:
            cut.append(OffsetRange(part.start_offset, min(part.end_offset, max(part.start_offset, one.start_offset))))
            cut.append(OffsetRange(max(part.start_offset, min(part.end_offset, one.end_offset)), part.end_offset))
        left = [part for part in cut if part.start_offset < part.end_offset]
    return left
