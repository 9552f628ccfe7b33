"""Positions of consumer groups on a log, and whether the records they read are still there (KIP-320), whoever leads.

Clients differ in how they react (docs/semantics.md H12); the position is a fact of the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from replica_audit.literals import GroupEffect
from replica_audit.model import GroupOffset
from replica_audit.protocol.lineage import Lineage

UNAFFECTED: Final = "unaffected"
PAST_END: Final = "past_end"
EPOCH_DIFFERS: Final = "epoch_differs"
READ_LOST: Final = "read_lost"


@dataclass(frozen=True, slots=True, order=True)
class LostRange:
    """Offsets [start, end) of records that another log has, or had, and this one has not."""

    start_offset: int
    end_offset: int
    replaced_ms: int | None = None
    """Time at which others were written in their place, or at which a leader without them began; None if unknown."""


@dataclass(frozen=True, slots=True)
class Position:
    """Position of one group."""

    offset: GroupOffset
    effect: GroupEffect | None
    """None for an offset of an earlier topic of that name."""
    parted_at: int | None = None
    """First offset that the group may have read in another version, where it is affected."""
    proven: bool = True


def group_position(
    offset: GroupOffset,
    lineage: Lineage,
    log_end_offset: int,
    lost: Iterable[LostRange],
    *,
    one_moment: bool,
) -> Position:
    """Position of a group on a log, given the lineage that its leader would answer with, and the lost ranges.

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
        # For an epoch that the log never had Kafka answers with the one before it, which a client may take for an agreement.
        # If nothing is lost below, that epoch had no records: a group that began at the log's end may commit it.
        foreign = answer[0] != offset.leader_epoch and first is not None
        if answer[1] < at or foreign:
            parted = min([answer[1], at, *([first] if foreign and first is not None else [])])
            return Position(offset, PAST_END if at > log_end_offset else EPOCH_DIFFERS, parted)
    if at > log_end_offset:
        # A group goes on while copies are made; only what is lost, or copies of one moment, tell that from a loss.
        known = one_moment or any(part.end_offset > log_end_offset for part in passed)
        return (
            Position(offset, PAST_END, min(log_end_offset, first or log_end_offset))
            if known
            else Position(offset, UNAFFECTED)
        )
    if not passed:
        return Position(offset, UNAFFECTED)
    if answer is None and offset.leader_epoch is None and _read_before(offset, passed, at):
        return Position(offset, EPOCH_DIFFERS, first, proven=False)
    return Position(offset, READ_LOST, first)


def _read_before(offset: GroupOffset, passed: Sequence[LostRange], at: int) -> bool:
    """True if the group committed before anything replaced records that it must have read."""
    return any(part.replaced_ms is not None and offset.committed_ms < part.replaced_ms for part in passed)
