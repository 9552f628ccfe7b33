"""Runs: ranges of offsets that differ in one way, and what proves that their records were committed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from replica_audit.closed_sets import DifferenceKind, ProofKind

if TYPE_CHECKING:
    from replica_audit.auditing.comparing.cause import Cause
    from replica_audit.auditing.comparing.tallies import Tally
    from replica_audit.formats.segments.batch_rows import Batches


#: Kinds of differences that are other records at the same offsets.
CONFLICTS = ("epoch", "content")


@dataclass(frozen=True, slots=True)
class Proof:
    """What shows that records were committed."""

    kind: ProofKind
    """checkpoint: a high watermark; lost_tail: one past the end of the log that had it; sole_isr: their leader was alone in
    the ISR."""
    broker_id: int
    """Whose checkpoint, or which leader."""
    text: str
    """A clause such as "its own high watermark reached 100"."""
    value: str
    path: str | None = None
    evidence: tuple[str, ...] = ()
    """Sentences with what it rests on, where that is more than one value."""


@dataclass(frozen=True, slots=True)
class Run:
    """A maximal range of offsets that differ in one way, with one leader epoch on either side."""

    start_offset: int
    end_offset: int
    leader_epoch: int | None
    replica_epoch: int | None
    tally: Tally
    committed_end: int | None
    """Offsets below this one were proven committed; None where nothing is proven."""
    committed_records: int
    kind: DifferenceKind
    """Of its differences: epoch, content, hole_here, hole_there or format."""
    survives: bool
    """It begins below the offset that the follower keeps under the chosen protocol."""
    compacted: bool
    """The follower's log is, or was once."""
    batches: Batches
    """The follower's, without `written_again`; none where it has nothing."""
    written_again: Batches
    """Those that the reference has, too, in its own epoch: no record of them is lost."""
    cause: Cause | None = None
    """None without a history of leadership, and where the run is not a conflict."""
    proof: Proof | None = None
    """Of `committed_end`."""
    likely: Proof | None = None
    """What makes it likely that all of it was committed, and does not prove it."""

    @property
    def committed_range(self) -> tuple[int, int] | None:
        """[start, end) of what was proven committed of it; None where nothing is proven."""
        return None if self.committed_end is None else (self.start_offset, min(self.end_offset, self.committed_end))

    @property
    def data_records(self) -> int:
        """Its records without those that end transactions, which no producer waits for."""
        return self.batches.records_between(self.start_offset, self.end_offset)

    @property
    def conflicting(self) -> bool:
        return self.kind in CONFLICTS

    @property
    def is_written_again(self) -> bool:
        """Whether the reference has all of it in its own epoch."""
        return bool(self.written_again) and not self.batches

    def lacks_below(self, offset: int) -> bool:
        """Whether the reference lacks a batch of it that begins below `offset`."""
        return bool((self.batches.starts < offset).any())
