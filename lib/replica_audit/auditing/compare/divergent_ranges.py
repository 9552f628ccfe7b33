"""Ranges of offsets that differ in one way, and proofs that their records were committed (F.4)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from replica_audit.auditing.compare.alignment import CONFLICTS, Difference
from replica_audit.literals import DifferenceKind, ProofKind
from replica_audit.model import OffsetRange
from replica_audit.schema import Evidence
from replica_audit.segments.batch_rows import Batches

if TYPE_CHECKING:
    from replica_audit.auditing.compare.divergence_cause import Cause
    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
    from replica_audit.segments.batch_rows import Tally


class CommitProof(NamedTuple):
    """Proof that records were committed."""

    kind: ProofKind
    """checkpoint: a high watermark, or how far a cleaner came, below one; lost_tail: a high watermark past the end of the log that
    had it; sole_isr: the leader was alone in the ISR."""
    broker_id: int
    """Broker with the checkpoint, or the leader."""
    text: str
    """A clause, e.g. "its own high watermark reached 100"."""
    value: str
    path: str | None = None
    evidence: tuple[str, ...] = ()
    """Sentences on the facts behind it, if there is more to say than `value`."""
    certain: bool = True
    """False if something that is not visible here would explain it too."""

    def told(self) -> list[Evidence]:
        """`evidence` in the form for a finding."""
        return [Evidence("leadership", text=text, broker_id=self.broker_id, value=self.value) for text in self.evidence]


class DivergentRange(NamedTuple):
    """A maximal range of offsets that differ in one way, with one leader epoch on either side."""

    start_offset: int
    end_offset: int
    leader_epoch: int | None
    replica_epoch: int | None
    tally: Tally
    committed_end: int | None
    """End of the offsets proven committed; None without proof."""
    committed_records: int
    kind: DifferenceKind
    """Kind of the differences: epoch, content, hole_here, hole_there or format."""
    survives: bool
    """True if it starts below the offset to which the follower keeps its log under the chosen protocol."""
    compacted: bool
    """True if the follower's log is or was compacted."""
    batches: Batches
    """Batches of the follower, without `written_again`; empty if it has none."""
    written_again: Batches
    """Batches that the reference has in its own epoch, so that none of their records is lost."""
    cause: Cause | None = None
    """None without leadership history, and for runs that are not conflicts."""
    proof: CommitProof | None = None
    """Proof for `committed_end`."""
    likely: CommitProof | None = None
    """Evidence that all of the run was probably committed, short of a proof."""

    @property
    def offsets(self) -> OffsetRange:
        return OffsetRange(self.start_offset, self.end_offset)

    @property
    def committed_range(self) -> OffsetRange | None:
        """Offsets proven committed; None without proof."""
        if self.committed_end is None:
            return None
        return OffsetRange(self.start_offset, min(self.end_offset, self.committed_end))

    @property
    def is_uncommitted(self) -> bool:
        """True if a clean election left its records behind, and nothing proves any of them committed."""
        return self.cause is not None and self.cause.excludes_commitment and self.committed_end is None

    @property
    def is_lost(self) -> bool:
        """True if its records count as lost: not if a clean election left them behind uncommitted."""
        return self.kind != "hole_here" and not (self.kind == "epoch" and self.is_uncommitted)

    @property
    def data_records(self) -> int:
        """Number of its records without markers."""
        return self.batches.records_between(self.start_offset, self.end_offset)

    @property
    def conflicting(self) -> bool:
        return self.kind in CONFLICTS

    @property
    def is_written_again(self) -> bool:
        """True if the reference has all of it in its own epoch."""
        return bool(self.written_again) and not self.batches


def runs_of(
    differences: tuple[Difference, ...],
    stretches: tuple[OffsetRange, ...],
    cut: int,
    deleted_to: int,
    follower: ReplicaFacts,
    leader_end: int,
) -> tuple[DivergentRange, ...]:
    """Form runs from a follower's `differences`, in order.

    The follower keeps its log up to `cut`. One of both logs begins at `deleted_to`, so nothing is missing below.
    `stretches` are the conflicting ranges; the reference's log ends at `leader_end`.
    """
    groups: list[list[Difference]] = []
    for item in (part for one in differences for part in one.parted(cut)):
        is_hole = not item.conflicting and item.end_offset <= deleted_to
        is_cleaned = item.conflicting and not item.batches
        if item.is_of_storage or is_hole or is_cleaned:
            continue
        last = groups[-1][-1] if groups else None
        if (
            last is not None
            and item.start_offset <= last.end_offset
            and (item.kind, item.leader_epoch, item.replica_epoch) == (last.kind, last.leader_epoch, last.replica_epoch)
            and (item.start_offset >= cut) == (last.start_offset >= cut)
        ):
            groups[-1].append(item)
        else:
            groups.append([item])
    return tuple(_run(group, stretches, cut, deleted_to, follower, leader_end) for group in groups)


def _run(
    group: list[Difference],
    stretches: tuple[OffsetRange, ...],
    cut: int,
    deleted_to: int,
    follower: ReplicaFacts,
    leader_end: int,
) -> DivergentRange:
    first = group[0]
    start = first.start_offset
    end = max(item.end_offset for item in group)
    batches = Batches.joined([item.batches for item in group])
    lacking = Batches.joined([item.batches for item in group if not item.written_again]).once()
    again = Batches.joined([item.batches for item in group if item.written_again]).once()
    tally = batches.tally
    if any(item.compared for item in group):
        tally = replace(tally, record_count=batches.records_between(start, end))
    committed_end = proof = None
    if first.conflicting:
        stretch = next(part for part in stretches if part.holds(start))
        directory = follower.directory
        end_here = min(stretch.end_offset, follower.log_end_offset)
        # Once it has followed the reference past the stretch, its high watermark may be the reference's, over other records.
        followed = stretch.end_offset < min(follower.log_end_offset, leader_end)
        for mark, what, file in (
            (directory.high_watermark_checkpoint, "high watermark", directory.high_watermark_file),
            (follower.committed_by_cleaner, "cleaner, which stays below the high watermark,", directory.cleaner_file),
        ):
            if mark is None or not max(start, committed_end or 0) < mark <= end_here:
                continue
            if (lacking.starts < mark).any():
                committed_end = mark
                text = f"its own {what} reached {mark}"
                proof = CommitProof("checkpoint", follower.broker_id, text, str(mark), file.path, certain=not followed)
    return DivergentRange(
        start_offset=start,
        end_offset=end,
        leader_epoch=first.leader_epoch,
        replica_epoch=first.replica_epoch,
        tally=tally,
        committed_end=committed_end,
        committed_records=0 if committed_end is None else lacking.records_between(start, committed_end),
        kind=first.kind,
        survives=start < cut and end > deleted_to,
        compacted=follower.compacted,
        batches=lacking,
        written_again=again,
        proof=proof,
    )
