"""Proofs by checkpoints whose log lost its end, was deleted below its start, or is missing: what was committed there (F.0, F.5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from replica_audit.auditing.compare.divergent_ranges import CommitProof
from replica_audit.auditing.leadership.broker_log_evidence import lineage_entries
from replica_audit.auditing.leadership.commitment import proven_to
from replica_audit.auditing.leadership.high_watermark_bounds import unseen_below
from replica_audit.auditing.replicas.lost_tails import lineage_as_found, surely_lost_to
from replica_audit.auditing.replicas.written_epochs import lineage_of_batches
from replica_audit.model import OffsetRange
from replica_audit.protocol.election import CleanElections, elections
from replica_audit.protocol.lineage import Lineage

if TYPE_CHECKING:
    from replica_audit.auditing.compare.comparison import Comparison
    from replica_audit.auditing.compare.divergent_ranges import DivergentRange
    from replica_audit.auditing.replicas.reference import Reference
    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
    from replica_audit.model import Leadership
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
    """Lineage by its epoch file, lost records included."""

    def has(self, batch_epoch: int | None, offset: int) -> bool:
        """True if a record of another log was one of this log's committed ones."""
        known = batch_epoch is not None and batch_epoch >= 0 and offset < self.proven_end
        return known and self.lineage.epoch_for_offset(offset) == batch_epoch


def lost_marks(reference: Reference, replicas: Sequence[ReplicaFacts]) -> tuple[LostMark, ...]:
    """High watermarks of replicas that certainly lost their tail and whose epoch file names the epochs of it."""
    clean = CleanElections.of(reference.history)
    found = []
    for facts in replicas:
        checkpoint = surely_lost_to(reference, replicas, facts)
        lineage = lineage_as_found(facts)
        if checkpoint is not None and lineage is not None:
            doubtful = [start for (before, _), (epoch, start) in pairwise(lineage) if not clean.between(before, epoch)]
            found.append(LostMark(facts, checkpoint, min([checkpoint, *doubtful]), lineage))
    return tuple(found)


def with_lost_marks(comparisons: Sequence[Comparison], marks: Sequence[LostMark]) -> tuple[Comparison, ...]:
    """`comparisons`, each conflicting run with what the marks prove of its records, whoever holds them."""
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
    end = max(ends)
    proof = _proof(item, mark)
    return replace(item, runs=tuple(_proven_below(run, end, proof) for run in item.runs))


def _may_share(run: DivergentRange) -> bool:
    """True if a record of the run is the one of that epoch and offset elsewhere; not if the two differ there."""
    return run.conflicting and run.kind != "content"


def _proven_below(run: DivergentRange, end: int, proof: CommitProof) -> DivergentRange:
    end = min(end, run.end_offset)
    further = _may_share(run) and end > max(run.start_offset, run.committed_end or 0)
    return proven_to(run, end, proof) if further else run


def _proof(item: Comparison, mark: LostMark) -> CommitProof:
    broker_id = mark.facts.broker_id
    checkpoint = mark.checkpoint
    end = mark.facts.log_end_offset
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


_HIGH_WATERMARKS = "replication-offset-checkpoint"


@dataclass(frozen=True, slots=True)
class OrphanedMark:
    """Offsets [start, end) that lay below a broker's high watermark, where the reference has, or would write, other records."""

    broker_id: int
    log_dir: str
    start_offset: int
    end_offset: int
    leader_epoch: int
    """Epoch of the election that left them behind."""


def orphaned_marks(
    orphans: Mapping[tuple[int, str, str], int], leadership: Leadership | None, reference: Reference
) -> Iterator[OrphanedMark]:
    """Proven marks of brokers that were in sync, are assigned, and have been fenced from before the election until now.

    Such a mark is of the log that the election left, and of this topic, whose id the metadata log knows. `orphans` as in
    `Case`, without brokers that have the partition on another disk.
    """
    if leadership is None or leadership.topic_id is None or reference.outdated:
        return
    history = [state for state in leadership.history if not state.uncommitted]
    since = leadership.fenced_since
    for (broker_id, log_dir, file), mark in sorted(orphans.items()):
        fenced_at = since.get(broker_id)
        if file != _HIGH_WATERMARKS or fenced_at is None or broker_id not in (leadership.replicas or ()):
            continue
        was_in_sync = any(broker_id in state.isr for state in history if state.metadata_offset < fenced_at)
        later = [one.leader_epoch for one in elections(history) if one.metadata_offset >= fenced_at]
        starts = [(start, epoch) for epoch, start in lineage_entries(reference) if later and epoch >= min(later)]
        if was_in_sync and starts and min(starts)[0] < mark:
            start, epoch = min(starts)
            yield OrphanedMark(broker_id, log_dir, start, mark, epoch)


class _Mark(NamedTuple):
    """Everything below `proven_end` of a log with this lineage was committed."""

    lineage: Lineage
    proven_end: int


def with_unproven_below_start(
    comparisons: Sequence[Comparison], reference: Reference, replicas: Sequence[ReplicaFacts], lost: Sequence[LostMark]
) -> tuple[Comparison, ...]:
    """`comparisons`, each with what it has below the reference's log start without proof that it was committed.

    `replicas` are the reference and its followers, `lost` the marks of what they lost.
    """
    start = reference.facts.log_start_offset
    apart = [item for item in comparisons if item.follower.log_start_offset < start]
    apart = [item for item in apart if unseen_below(reference, item) >= 0]
    if not apart:
        return tuple(comparisons)
    one_history = {item.follower.key for item in comparisons if unseen_below(reference, item) < 0}
    marks = [_Mark(one.lineage, one.proven_end) for one in lost]
    for facts in replicas:
        ends = [*_ends(facts), *([start] if facts.key in one_history else [])]
        marks.append(_Mark(_lineage(facts), max(ends, default=0)))
    found = {}
    for item in apart:
        own = _lineage(item.follower)
        ends = [*_ends(item.follower), *(own.shared_with(one.lineage, one.proven_end) for one in marks)]
        if (end := max(ends)) < start:
            found[item.follower.key] = OffsetRange(end, start)
    return tuple(replace(item, unproven_below_start=found.get(item.follower.key)) for item in comparisons)


def _ends(facts: ReplicaFacts) -> Iterator[int]:
    """Offsets below which a log's own checkpoints prove it committed; one past its end speaks of records it no longer has."""
    for mark in (facts.directory.high_watermark_checkpoint, facts.log_start_offset):
        if mark is not None and mark <= facts.log_end_offset:
            yield mark


def _lineage(facts: ReplicaFacts) -> Lineage:
    """The epochs of all batches that are left, those below the log start too; below the first of them, the file's."""
    written = lineage_of_batches(facts.epoch_starts)
    if facts.found_lineage is None or not facts.file_increases:
        return written
    first = next((start for _, start in written), None)
    return Lineage.of((*(entry for entry in facts.found_lineage if first is None or entry[1] < first), *written))
