"""Ranges of offsets in a log: those of an epoch, those that are damaged, and those shared with another log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from replica_audit.model import OffsetRange

if TYPE_CHECKING:
    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
    from replica_audit.model import Damage, SegmentSummary


def offsets_of_epoch(facts: ReplicaFacts, leader_epoch: int) -> list[OffsetRange]:
    """The range of an epoch in a log, by its lineage; empty if the log does not have it."""
    start = facts.lineage.start_of(leader_epoch)
    last = facts.lineage.end_offset_for(leader_epoch, facts.log_end_offset)
    return [] if start is None or last is None else [OffsetRange(start, last[1])]


def shared_start(one: ReplicaFacts, other: ReplicaFacts) -> int:
    """First offset at which both logs can have a record, where a comparison starts."""
    return max(one.local_start_offset, other.local_start_offset)


def deleted_end(one: ReplicaFacts, other: ReplicaFacts) -> int:
    """The later of the two logs' starts, by their epoch files; nothing is missing below it."""
    return max(one.start_by_epoch_file, other.start_by_epoch_file)


def shared_end(one: ReplicaFacts, other: ReplicaFacts) -> int:
    """End of the shorter of two logs; above it the follower lags or is ahead."""
    return min(one.log_end_offset, other.log_end_offset)


def damaged_stretches(
    segments: Sequence[SegmentSummary], found_end: int
) -> Iterator[tuple[SegmentSummary, Damage, OffsetRange]]:
    """Each damage with the offsets that it had: up to the next sound batch in the segment or, without one, to the next segment."""
    borders = [*(segment.base_offset for segment in segments[1:]), found_end]
    for segment, border in zip(segments, borders):
        for damage in segment.damage:
            start = segment.base_offset if damage.expected_offset is None else damage.expected_offset
            end = border if damage.next_offset is None else damage.next_offset
            yield segment, damage, OffsetRange(start, max(start, end))


def traces_of_segment(facts: ReplicaFacts, replicas: Iterable[ReplicaFacts], stretch: OffsetRange) -> list[str]:
    """Clauses on traces of a segment with offsets of `stretch`: files beside it, or records of other `replicas`.

    A replica whose own gap spans `stretch` has none there. Empty without traces, or if compaction explains the gap. On a
    running broker the cleaner may have removed a complete segment since it wrote the copied checkpoint.
    """
    start, end = stretch
    bases = [base for base in facts.directory.index_bases if stretch.holds(base)]
    if facts.is_cleaned(start, end) or (not bases and facts.is_live and facts.may_be_cleaned(start, end)):
        return []
    holders = [
        other.broker_id
        for other in replicas
        if other is not facts
        and other.local_start_offset < end
        and other.log_end_offset > start
        and not any(gap.start_offset <= start and end <= gap.end_offset for gap in (*other.gaps, *other.missing))
    ]
    shown = [f"index or snapshot files of segment {base} are there without its .log" for base in bases]
    return shown + [f"broker {broker} has records in this range" for broker in holders]
