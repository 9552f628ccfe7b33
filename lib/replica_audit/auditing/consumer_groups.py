"""Consumer groups of one partition: committed offsets as rows, and their positions on the leader's log (KIP-320)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from replica_audit.auditing.compare.group_positions import LostRange, Position, group_position
from replica_audit.auditing.compare.loss import is_lost
from replica_audit.auditing.compare.replays import answering_lineage
from replica_audit.model import GroupOffset
from replica_audit.schema import GroupOffsetRow

if TYPE_CHECKING:
    from replica_audit.auditing.case import Case
    from replica_audit.auditing.compare.comparison import Comparison
    from replica_audit.auditing.compare.divergent_ranges import DivergentRange


def with_groups(case: Case, offsets: Iterable[GroupOffset]) -> Case:
    """`case` with the position of each group on the present leader's log."""
    lost = lost_ranges(case)
    first = min((part.start_offset for part in lost), default=None)
    return replace(case, groups=tuple(_positions(case, sorted(offsets), lost)), lost_from=first)


def _positions(case: Case, offsets: Sequence[GroupOffset], lost: Sequence[LostRange]) -> Iterator[Position]:
    reference = case.reference
    lineage = answering_lineage(reference.facts, case.is_tiered)
    if not reference.predates:
        lineage = reference.complete(lineage)
    end = reference.facts.log_end_offset
    for one in offsets:
        if _is_of_earlier_topic(one, case):
            yield Position(one, None)
        else:
            yield group_position(one, lineage, end, lost, one_moment=case.one_moment or case.quiesced)


def group_rows(case: Case) -> Iterator[GroupOffsetRow]:
    """A row for each consumer group."""
    for one in case.groups:
        at = one.offset
        yield GroupOffsetRow(
            at.group,
            at.topic,
            at.partition,
            at.committed_offset,
            at.leader_epoch,
            at.committed_ms,
            one.effect,
            one.parted_at,
        )


def lost_ranges(case: Case) -> tuple[LostRange, ...]:
    """Offsets that other replicas hold and the reference lacks, from the runs that count as lost."""
    found = {
        LostRange(run.start_offset, run.end_offset, _replaced_ms(item, run))
        for item in case.comparisons
        for run in item.runs
        if is_lost(run) and run.data_records
    }
    return tuple(sorted(found, key=lambda part: (part.start_offset, part.end_offset, part.replaced_ms or 0)))


def _replaced_ms(item: Comparison, run: DivergentRange) -> int | None:
    """Time at which a leader without the records of a run began, else at which it wrote in their place."""
    if run.cause is not None and run.cause.election is not None:
        return run.cause.election.time_ms
    theirs = item.alignment.reference
    instead = theirs.where(theirs.ends > run.start_offset)
    return next((min(batch.timestamps) for batch in instead if batch.timestamps), None)


def _is_of_earlier_topic(one: GroupOffset, case: Case) -> bool:
    """True if an offset was committed before this topic was created under the same name."""
    topic_id = case.reference.facts.directory.topic_id
    if one.topic_id is not None and topic_id is not None:
        return one.topic_id != topic_id
    history = case.leadership.history if case.leadership else ()
    return bool(history) and history[0].occasion == "created" and one.committed_ms < history[0].time_ms
