"""What replicas have below the reference's log start, where nothing is left to compare it with: how far it was committed (F.0).

A log start is at most the high watermark, so all below it was committed, of the reference's own history. Another log is of
that history up to where the last epoch that both have ends in one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from replica_audit.auditing.leadership.high_watermark_bounds import unseen_below
from replica_audit.auditing.replicas.written_epochs import lineage_of_batches
from replica_audit.model import OffsetRange
from replica_audit.protocol.lineage import Lineage

if TYPE_CHECKING:
    from replica_audit.auditing.compare.comparison import Comparison
    from replica_audit.auditing.leadership.checkpoints_past_end import LostMark
    from replica_audit.auditing.replicas.reference import Reference
    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts


class _Mark(NamedTuple):
    """Everything below `proven_end` of a log with this lineage was committed."""

    lineage: Lineage
    proven_end: int


def with_unproven_below_start(
    comparisons: Sequence[Comparison], reference: Reference, replicas: Sequence[ReplicaFacts], lost: Sequence[LostMark]
) -> tuple[Comparison, ...]:
    """The same, each with what it has below the reference's log start and nothing proves committed.

    `replicas` are the reference and those that follow it, `lost` the marks of what they lost.
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
    """Up to where a log's own marks prove it committed: one past its end speaks of what it no longer has."""
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
