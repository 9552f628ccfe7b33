"""What the audit of one partition wants to see before it concludes: which batches, whose transactions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from replica_audit.auditing.comparing.candidates import chunks_of_candidates
from replica_audit.auditing.comparing.epoch_rot import doubtful_epochs
from replica_audit.auditing.comparing.replays import replay_all
from replica_audit.auditing.comparing.wanted_chunks import chunks_for_keys, needed_chunks
from replica_audit.auditing.replicas.copies_of_partition import Grouping, group_replicas
from replica_audit.auditing.replicas.facts import CopyKey, ReplicaFacts
from replica_audit.auditing.replicas.written_epochs import EpochRot
from replica_audit.formats.segments.open_transactions import open_at_end

if TYPE_CHECKING:
    from replica_audit.auditing.partition import PartitionEvidence


def needed_batches(evidence: PartitionEvidence) -> dict[CopyKey, set[int]]:
    """Chunks whose batches `audit_partition` wants to see, by copy; empty when digests and lineages say it all."""
    grouping = group_evidence(evidence)
    wanted: dict[CopyKey, set[int]] = {}
    if grouping.reference is None:
        return wanted
    groupings = [grouping]
    if doubts := epoch_doubts(evidence, grouping):
        # Whether an epoch was changed, and so who is the reference and where it cuts, only the batches will tell.
        restored = group_evidence(evidence, _by_copy(doubts))
        groupings = [*grouping.turned(), *restored.turned()]
    for grouping in groupings:
        for follower, chunks in pair_needs(evidence, grouping):
            if chunks:
                of_reference, of_follower = chunks_for_keys(grouping.reference.facts, follower)
                wanted.setdefault(grouping.reference.facts.key, set()).update(chunks, of_reference)
                wanted.setdefault(follower.key, set()).update(chunks, of_follower)
        for key, chunks in candidate_chunks(evidence, grouping).items():
            wanted.setdefault(key, set()).update(chunks)
    return wanted


def candidate_chunks(evidence: PartitionEvidence, grouping: Grouping) -> dict[CopyKey, set[int]]:
    """Chunks whose batches the costs of an election want to see, by copy."""
    if grouping.reference is None:
        return {}
    return chunks_of_candidates(grouping.reference, grouping.compared, evidence.protocol, evidence.is_tiered)


def group_evidence(evidence: PartitionEvidence, rot: Mapping[CopyKey, Sequence[EpochRot]] | None = None) -> Grouping:
    """The copies of a partition sorted out; `rot`: batches whose epoch is known to have been changed, by copy."""
    return group_replicas(
        evidence.replicas, evidence.leadership, evidence.times, at_rest=bool(evidence.quiesced), rot=rot or {}
    )


def epoch_doubts(evidence: PartitionEvidence, grouping: Grouping) -> list[EpochRot]:
    """Stretches of which only batches tell whether their epoch was changed on a disk."""
    return doubtful_epochs(grouping.compared, evidence.leadership, at_rest=bool(evidence.quiesced))


def _by_copy(doubts: Iterable[EpochRot]) -> dict[CopyKey, list[EpochRot]]:
    found: dict[CopyKey, dict[tuple[int, int], EpochRot]] = defaultdict(dict)
    for one in doubts:
        found[one.key].setdefault((one.start_offset, one.end_offset), one)
    return {key: list(parts.values()) for key, parts in found.items()}


def open_producers(evidence: PartitionEvidence) -> set[int]:
    """Producers of whose transactions `audit_partition` wants to know what the coordinator says."""
    reference = group_evidence(evidence).reference
    return set() if reference is None else set(open_at_end(reference.facts.segments))


def pair_needs(evidence: PartitionEvidence, grouping: Grouping) -> Iterator[tuple[ReplicaFacts, set[int]]]:
    """Each follower with the chunks that its comparison wants to see."""
    for follower in grouping.followers:
        replays = replay_all(grouping.reference, follower, evidence.is_tiered)
        yield follower, needed_chunks(grouping.reference, follower, replays)
