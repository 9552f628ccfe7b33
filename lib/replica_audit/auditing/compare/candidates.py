"""Copies of a partition under each choice of leader: where each would be cut, and the chunks whose batches the costs need."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from replica_audit.auditing.compare.replays import CandidateCuts, cuts_of_candidates
from replica_audit.auditing.compare.wanted_chunks import chunks_of_candidates

if TYPE_CHECKING:
    from replica_audit.auditing.replicas.reference import Reference
    from replica_audit.auditing.replicas.replica_facts import CopyKey, ReplicaFacts


@dataclass(frozen=True)
class Candidates:
    """Replicas each of which may lead, and copies beside them."""

    reference: Reference
    replicas: tuple[ReplicaFacts, ...]
    """By broker id."""
    beside: tuple[ReplicaFacts, ...]
    """Copies that Kafka does not serve from. They are not candidates; records that only they hold are lost."""
    protocol: str
    tiered: bool

    @property
    def copies(self) -> tuple[ReplicaFacts, ...]:
        """The replicas, then the copies beside them."""
        return (*self.replicas, *self.beside)

    @cached_property
    def cuts(self) -> CandidateCuts:
        """Offset to which each copy is cut under each candidate."""
        return cuts_of_candidates(self.reference, self.replicas, self.protocol, self.tiered, self.beside)

    @cached_property
    def chunks(self) -> dict[CopyKey, set[int]]:
        """Chunks whose batches the costs of all candidates need, by copy."""
        return chunks_of_candidates(self.reference, self.copies, lambda: self.cuts)

    def has_just(self, other: Candidates) -> bool:
        """True if `other` has the same copies and the same reference."""
        same = self.reference is other.reference and len(self.copies) == len(other.copies)
        return same and all(one is two for one, two in zip(self.copies, other.copies, strict=True))
