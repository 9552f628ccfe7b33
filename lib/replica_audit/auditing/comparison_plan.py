"""Data that the audit of a partition needs before it concludes: batches by chunk, and producers of open transactions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

from replica_audit.auditing.compare.epoch_corruption import doubtful_epochs
from replica_audit.auditing.compare.replays import cuts_of_candidates, replay_all
from replica_audit.auditing.compare.wanted_chunks import (
    chunks_for_keys,
    chunks_of_candidates,
    needed_chunks,
    verified_chunks,
)
from replica_audit.auditing.replica_grouping import ReplicaGrouping, group_replicas
from replica_audit.segments.open_transactions import open_at_end

if TYPE_CHECKING:
    from replica_audit.auditing.evidence import PartitionEvidence
    from replica_audit.auditing.replicas.reference import Reference
    from replica_audit.auditing.replicas.replica_facts import CopyKey, ReplicaFacts
    from replica_audit.auditing.replicas.written_epochs import CorruptEpoch


def plan_audit(evidence: PartitionEvidence) -> ComparisonPlan:
    """Plan for auditing a partition; `auditing.conclude.conclude` takes it with the data that it asks for."""
    return ComparisonPlan(evidence)


class Pair(NamedTuple):
    """Two copies that are compared, and the chunks that their comparison wants to see."""

    reference: Reference
    follower: ReplicaFacts
    chunks: set[int]


@dataclass(frozen=True)
class ComparisonPlan:
    """Replicas of a partition grouped, and the chunks that their comparison needs. Properties are lazy."""

    evidence: PartitionEvidence
    rot: Mapping[CopyKey, Sequence[CorruptEpoch]] = field(default_factory=dict)
    """Batches whose epoch is known to have been changed, by copy."""

    @cached_property
    def grouping(self) -> ReplicaGrouping:
        """The reference, its followers, and the copies that are not compared."""
        given = self.evidence
        at_rest = bool(given.quiesced)
        return group_replicas(
            given.replicas, given.leadership, given.times, at_rest=at_rest, rot=self.rot, put_aside=given.put_aside
        )

    @cached_property
    def doubts(self) -> tuple[CorruptEpoch, ...]:
        """Stretches of which only batches tell whether their epoch was changed on a disk."""
        at_rest = bool(self.evidence.quiesced)
        return tuple(doubtful_epochs(self.grouping.compared, self.evidence.leadership, at_rest=at_rest))

    @cached_property
    def pairs(self) -> tuple[Pair, ...]:
        """The reference and each follower, then each copy beside them, with the chunks that their comparison wants to see."""
        return tuple(self._pairs_of(self.grouping))

    @cached_property
    def batches(self) -> dict[CopyKey, set[int]]:
        """Chunks whose batches `conclude` wants to see, by copy; empty when digests and lineages say it all."""
        wanted: dict[CopyKey, set[int]] = {}
        groupings = [self.grouping]
        if self.doubts:
            # Only the batches will show whether an epoch was changed, and so who is the reference and where it cuts.
            restored = ComparisonPlan(self.evidence, _by_copy(self.doubts)).grouping
            groupings = [*self.grouping.turned(), *restored.turned()]
        for grouping in groupings:
            pairs = self.pairs if grouping is self.grouping else self._pairs_of(grouping)
            for reference, follower, chunks in pairs:
                if chunks:
                    of_reference, of_follower = chunks_for_keys(reference.facts, follower)
                    wanted.setdefault(reference.facts.key, set()).update(chunks, of_reference)
                    wanted.setdefault(follower.key, set()).update(chunks, of_follower)
            for key, chunks in self._candidates_of(grouping).items():
                wanted.setdefault(key, set()).update(chunks)
        return wanted

    @cached_property
    def producers(self) -> frozenset[int]:
        """Producers of whose transactions `conclude` wants to know what the coordinator says."""
        return frozenset(producer for facts in self.grouping.compared for producer in open_at_end(facts.segments))

    def _candidates_of(self, grouping: ReplicaGrouping) -> dict[CopyKey, set[int]]:
        if grouping.reference is None:
            return {}
        asked = (grouping.reference, grouping.compared)
        cuts = partial(cuts_of_candidates, *asked, self.evidence.protocol, self.evidence.is_tiered)
        return chunks_of_candidates(grouping.reference, (*grouping.compared, *grouping.beside), cuts)

    def _pairs_of(self, grouping: ReplicaGrouping) -> Iterator[Pair]:
        reference = grouping.reference
        if reference is None:
            return
        for follower in (*grouping.followers, *grouping.beside):
            replays = replay_all(reference, follower, self.evidence.is_tiered)
            verified = verified_chunks(self.evidence.verified, reference.facts, follower)
            yield Pair(reference, follower, needed_chunks(reference, follower, replays, verified))


def _by_copy(doubts: Iterable[CorruptEpoch]) -> dict[CopyKey, list[CorruptEpoch]]:
    found: dict[CopyKey, dict[tuple[int, int], CorruptEpoch]] = defaultdict(dict)
    for one in doubts:
        found[one.key].setdefault((one.start_offset, one.end_offset), one)
    return {key: list(parts.values()) for key, parts in found.items()}
