"""Consumer groups of one partition: their positions in the leader's log, and whether the records they read still exist (KIP-320).

Clients react differently (docs/semantics.md H12); the position is a fact of the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from replica_audit.auditing.compare.replays import answering_lineage
from replica_audit.literals import GroupEffect
from replica_audit.model import GroupOffset
from replica_audit.protocol.lineage import Lineage
from replica_audit.schema import GroupOffsetRow

if TYPE_CHECKING:
    from replica_audit.auditing.compare.comparison import Comparison
    from replica_audit.auditing.compare.divergent_ranges import DivergentRange
    from replica_audit.auditing.replicas.reference import Reference
    from replica_audit.model import Leadership


class LostRange(NamedTuple):
    """Offsets [start, end) of records that another log has or had, and this one lacks."""

    start_offset: int
    end_offset: int
    replaced_ms: int | None = None
    """Time at which other records were written instead, or at which a leader without them was elected; None if unknown."""


class Position(NamedTuple):
    """Position of one group in a log."""

    offset: GroupOffset
    effect: GroupEffect | None
    """None for an offset of an earlier topic of the same name."""
    parted_at: int | None = None
    """First offset that an affected group may have read in another version."""
    proven: bool = True


def group_position(
    offset: GroupOffset,
    lineage: Lineage,
    log_end_offset: int,
    lost: Iterable[LostRange],
    *,
    one_moment: bool,
) -> Position:
    """Determine the position of a group in a log, given the lineage with which its leader would answer, and the lost ranges.

    `one_moment`: no skew of the copies explains that the group is ahead of the log. By the first line that fits:

    | leader epoch of the record read last | committed offset | effect |
    |---|---|---|
    | ends below the committed offset on this log | above the log end | past_end |
    | ends below the committed offset on this log | within the log | epoch_differs |
    | never was on this log, and records are lost below the offset | as in the two lines above | likewise |
    | any | above the log end; one moment, or lost records reach past that end | past_end |
    | any | above the log end | unaffected |
    | any | nothing is lost below it | unaffected |
    | unknown | lost records below it were replaced after the commit | epoch_differs, not proven |
    | any | within the log | read_lost |
    """
    at = offset.committed_offset
    passed = sorted(part for part in lost if part.start_offset < at)
    first = passed[0].start_offset if passed else None
    answer = lineage.end_offset_for(offset.leader_epoch, log_end_offset)
    if answer is not None and offset.leader_epoch != lineage.latest_epoch:
        # For an epoch that the log never had, Kafka answers with the one before it, which a client may take for agreement. If
        # nothing is lost below the offset, that epoch had no records: a group that started at the log's end may commit it.
        # That of a share group may have no records, whatever is lost.
        is_foreign = answer[0] != offset.leader_epoch and first is not None and offset.kind == "consumer"
        if answer[1] < at or is_foreign:
            parted = min(answer[1], at)
            if is_foreign and first is not None:
                parted = min(parted, first)
            return Position(offset, "past_end" if at > log_end_offset else "epoch_differs", parted)
    if at > log_end_offset:
        # A group advances while copies are made; only lost records, or copies of one moment, distinguish that from a loss.
        known = one_moment or any(part.end_offset > log_end_offset for part in passed)
        if not known:
            return Position(offset, "unaffected")
        return Position(offset, "past_end", min(log_end_offset, first or log_end_offset))
    if not passed:
        return Position(offset, "unaffected")
    # The group committed before other records replaced those that it must have read.
    before = any(part.replaced_ms is not None and offset.committed_ms < part.replaced_ms for part in passed)
    if answer is None and offset.leader_epoch is None and before:
        return Position(offset, "epoch_differs", first, proven=False)
    return Position(offset, "read_lost", first)


def group_positions(
    offsets: Iterable[GroupOffset],
    reference: Reference,
    leadership: Leadership | None,
    lost: Sequence[LostRange],
    *,
    tiered: bool,
    one_moment: bool,
) -> Iterator[Position]:
    """Position of each group in the present leader's log, by group name."""
    lineage = answering_lineage(reference.facts, tiered)
    if not reference.predates:
        lineage = reference.complete(lineage)
    # A group may have offsets of an earlier topic of the name, too.
    for one in sorted(offsets, key=lambda one: (one.group, one.kind, one.committed_offset, one.topic_id or "")):
        if _is_of_earlier_topic(one, reference.facts.directory.topic_id, leadership):
            yield Position(one, None)
        else:
            yield group_position(one, lineage, reference.facts.log_end_offset, lost, one_moment=one_moment)


def lost_ranges(comparisons: Iterable[Comparison]) -> tuple[LostRange, ...]:
    """Offsets that other replicas hold and the reference lacks, from the runs that count as lost."""
    found = {
        LostRange(run.start_offset, run.end_offset, _replaced_ms(item, run))
        for item in comparisons
        for run in item.runs
        if run.is_lost and run.data_records
    }
    return tuple(sorted(found, key=lambda part: (part.start_offset, part.end_offset, part.replaced_ms or 0)))


def _replaced_ms(item: Comparison, run: DivergentRange) -> int | None:
    """Time at which a leader without the run's records was elected, else at which other records were written instead."""
    if run.cause is not None and run.cause.election is not None:
        return run.cause.election.time_ms
    theirs = item.alignment.reference
    instead = theirs.where(theirs.ends > run.start_offset)
    return next((min(batch.timestamps) for batch in instead if batch.timestamps), None)


def _is_of_earlier_topic(one: GroupOffset, topic_id: str | None, leadership: Leadership | None) -> bool:
    """True if an offset was committed for an earlier topic of the same name."""
    if one.topic_id is not None and topic_id is not None:
        return one.topic_id != topic_id
    history = leadership.history if leadership else ()
    return bool(history) and history[0].occasion == "created" and one.committed_ms < history[0].time_ms


def group_rows(positions: Iterable[Position]) -> Iterator[GroupOffsetRow]:
    """Yield a row for each position."""
    for one in positions:
        at = one.offset
        said = at.committed_offset, at.leader_epoch, at.committed_ms
        yield GroupOffsetRow(at.group, at.topic, at.partition, *said, one.effect, one.parted_at, at.kind)
