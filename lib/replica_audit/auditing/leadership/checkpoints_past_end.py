"""What a checkpointed high watermark past its own log end proves: that replica had the records, and lost them (F.0)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from replica_audit.auditing.compare.divergent_ranges import CommitProof
from replica_audit.auditing.leadership.commitment import proven_to
from replica_audit.auditing.replicas.lost_tails import lineage_as_found, surely_lost_to
from replica_audit.protocol.election import CleanElections

if TYPE_CHECKING:
    from replica_audit.auditing.compare.comparison import Comparison
    from replica_audit.auditing.compare.divergent_ranges import DivergentRange
    from replica_audit.auditing.replicas.reference import Reference
    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
    from replica_audit.protocol.lineage import Lineage


@dataclass(frozen=True, slots=True)
class LostMark:
    """A high watermark that a replica had reached before it lost the end of its log."""

    facts: ReplicaFacts
    checkpoint: int
    proven_end: int
    """Everything below it on `lineage` was committed; less than the checkpoint where an unclean election came in between,
    by which the replica may have been cut since."""
    lineage: Lineage
    """As its epoch file has it, what is lost included."""

    def has(self, batch_epoch: int | None, offset: int) -> bool:
        """Whether a record of another log was one of this one's committed ones."""
        known = batch_epoch is not None and batch_epoch >= 0 and offset < self.proven_end
        return known and self.lineage.epoch_for_offset(offset) == batch_epoch


def lost_marks(reference: Reference, replicas: Sequence[ReplicaFacts]) -> tuple[LostMark, ...]:
    """Of every replica that lost its tail beyond doubt, and whose epoch file tells of which epochs that was."""
    clean = CleanElections.of(reference.history)
    found = []
    for facts in replicas:
        checkpoint, lineage = surely_lost_to(reference, replicas, facts), lineage_as_found(facts)
        if checkpoint is not None and lineage is not None:
            doubtful = [start for (before, _), (epoch, start) in pairwise(lineage) if not clean.between(before, epoch)]
            found.append(LostMark(facts, checkpoint, min([checkpoint, *doubtful]), lineage))
    return tuple(found)


def with_lost_marks(comparisons: Sequence[Comparison], marks: Sequence[LostMark]) -> tuple[Comparison, ...]:
    """The same, each conflicting run with what the marks prove of its records, wherever they are held."""
    found = list(comparisons)
    for mark in marks:
        found = [_with_mark(item, mark) for item in found]
    return tuple(found)


def _with_mark(item: Comparison, mark: LostMark) -> Comparison:
    ends = [
        min(batch.end_offset, mark.proven_end)
        for run in item.runs
        if _may_share(run)
        for batch in run.batches
        if mark.has(batch.epoch, batch.base_offset)
    ]
    if not ends:
        return item
    # Whoever has a record of an epoch has what its leader had below it.
    end, proof = max(ends), _proof(item, mark)
    return replace(item, runs=tuple(_proven_below(run, end, proof) for run in item.runs))


def _may_share(run: DivergentRange) -> bool:
    """Whether a record of the run is that of the same epoch and offset elsewhere: two that differ there are not."""
    return run.conflicting and run.kind != "content"


def _proven_below(run: DivergentRange, end: int, proof: CommitProof) -> DivergentRange:
    end = min(end, run.end_offset)
    further = _may_share(run) and end > max(run.start_offset, run.committed_end or 0)
    return proven_to(run, end, proof) if further else run


def _proof(item: Comparison, mark: LostMark) -> CommitProof:
    broker_id, checkpoint, end = mark.facts.broker_id, mark.checkpoint, mark.facts.log_end_offset
    own = item.follower is mark.facts
    whose = (
        "its own high watermark" if own else f"the high watermark of broker {broker_id}, which had the same records,"
    )
    lost = "it" if own else f"broker {broker_id}"
    return CommitProof(
        "lost_tail",
        broker_id,
        f"{whose} reached {checkpoint}, before {lost} lost its log from {end} on",
        str(checkpoint),
        mark.facts.directory.high_watermark_file.path,
    )
