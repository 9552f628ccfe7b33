"""Epoch files that were copied after their log had been cut, or begun anew: they are of a later moment than it (C.2)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

from replica_audit.batch_header import or_absent

if TYPE_CHECKING:
    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts


class LaterEntry(NamedTuple):
    """An entry of an epoch file that its log contradicts and another replica bears out."""

    leader_epoch: int
    start_offset: int
    """Begin of that epoch, also on the other replica; the file's first entry has moved up with the log start."""
    broker_id: int
    """Broker of the other replica."""


def later_entry(facts: ReplicaFacts, replicas: Sequence[ReplicaFacts]) -> LaterEntry | None:
    """The first entry of a replica's epoch file that is later than its log; None where none is.

    The log has records of an earlier epoch at that offset, or ends below the first entry, and another one of `replicas` has those of
    the entry's epoch, or the same entry, or that epoch from below the first entry on: so the log was cut, or begun anew, between the
    copies of the two files. A damaged file does not say what another broker has. A broker that was down has cut nothing between them.
    An entry of an epoch that the log has gone past is not later than it: only an unclean election takes a log back to that, and then
    its records were lost.
    """
    return None if facts.is_at_rest else entry_of_other(facts, replicas)


def entry_of_other(facts: ReplicaFacts, replicas: Sequence[ReplicaFacts]) -> LaterEntry | None:
    """`later_entry`, also of a broker that is known to have been down."""
    if not facts.file_increases:
        return None
    entries = facts.file_entries
    last = or_absent(facts.last_leader_epoch)
    for epoch, start in entries:
        is_past_end = start > facts.log_end_offset and not facts.end_is_open
        is_inside = start < facts.log_end_offset and facts.lineage.epoch_for_offset(start) is not None
        is_first = (epoch, start) == entries[0]
        if epoch > last and (is_inside or (is_past_end and is_first)):
            for other in replicas:
                has_records = start < other.log_end_offset and other.lineage.epoch_for_offset(start) == epoch
                if other is not facts and (has_records or (epoch, start) in other.file_entries):
                    return LaterEntry(epoch, start, other.broker_id)
        is_at_end = start == facts.log_end_offset and bool(facts.lineage)
        if epoch > last and is_first and (is_inside or is_past_end or is_at_end):
            # The log start has moved since, into that epoch. At the log end, a leader that writes nothing has such an entry, too; but
            # there the epoch begins.
            for other in replicas:
                begins = other.lineage.start_of(epoch)
                if begins is not None and begins < start:
                    return LaterEntry(epoch, begins, other.broker_id)
    return None


def below_committed(
    facts: ReplicaFacts, contradicted: Collection[tuple[int, int]], replicas: Sequence[ReplicaFacts]
) -> tuple[int, ReplicaFacts] | None:
    """(offset, replica): where a log would have been cut if its epoch file, which contradicts it at these entries, were of a later moment; and
    the one of the other `replicas` with the highest checkpoint above, whose records there are the log's.

    None without one: a log's own checkpoint may be as late as its file. And where the file has no later epoch than the log: it may be
    the earlier one.
    """
    entries = facts.file_entries
    if not entries or entries[-1][0] <= or_absent(facts.last_leader_epoch):
        return None
    # Below the first entry, the log start has moved.
    cut = min((start for _, start in contradicted if start >= entries[0][1]), default=facts.log_end_offset)
    epoch = facts.lineage.epoch_for_offset(cut)
    marks = {}
    for other in replicas:
        mark = other.marked_end
        is_same = cut < min(facts.log_end_offset, other.log_end_offset) and other.lineage.epoch_for_offset(cut) == epoch
        if other is not facts and is_same and mark > cut:
            marks[mark] = other
    return (cut, marks[max(marks)]) if marks else None


def emptied_by(facts: ReplicaFacts, replicas: Sequence[ReplicaFacts]) -> ReplicaFacts | None:
    """A replica beside which a follower's whole log goes, so that its epoch file has no entry for a while; None without one.

    A later epoch begins there at or below the first offset of the log, or that replica begins at or above its end.
    """
    return None if facts.is_at_rest else passed_by(facts, replicas)


def passed_by(facts: ReplicaFacts, replicas: Sequence[ReplicaFacts]) -> ReplicaFacts | None:
    """`emptied_by`, also of a broker that is known to have been down."""
    last = or_absent(facts.last_leader_epoch)
    for other in replicas:
        cuts = any(epoch > last and start <= facts.log_start_offset for epoch, start in other.epoch_entries)
        # The epoch file is cut at once where the log start moves, the checkpoint of that comes later.
        begins = min((start for _, start in other.file_entries), default=0)
        if other is not facts and (cuts or max(begins, other.log_start_offset) >= facts.log_end_offset):
            return other
    return None
