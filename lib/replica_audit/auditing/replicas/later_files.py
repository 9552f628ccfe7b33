"""Epoch files copied after their log had been cut or had started over, so that they are newer than its copy (C.2)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

from replica_audit.batch_header import or_absent

if TYPE_CHECKING:
    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts


class LaterEntry(NamedTuple):
    """An entry of an epoch file that its own log contradicts and another replica confirms."""

    leader_epoch: int
    start_offset: int
    """Start of that epoch; the other replica's, if the log start has raised the file's first entry."""
    broker_id: int
    """Broker of the other replica."""


def later_entry(facts: ReplicaFacts, replicas: Sequence[ReplicaFacts]) -> LaterEntry | None:
    """The first entry of a replica's epoch file that is newer than its copied log; None without one.

    The log has records of an earlier epoch at that offset, or ends below the first entry, and another of `replicas` confirms the
    epoch: it has records of it there, the same entry, or the epoch from below the first entry on. So the log was cut or started
    over between the copies of the two files: a damaged file would not match another replica. Excluded are brokers that were down
    when copied, and epochs that the log has passed: only an unclean election takes it back to one, which loses records.
    """
    return None if facts.is_at_rest else entry_of_other(facts, replicas)


def entry_of_other(facts: ReplicaFacts, replicas: Sequence[ReplicaFacts]) -> LaterEntry | None:
    """Like `later_entry`, but also for brokers known to have been down."""
    if not facts.file_increases:
        return None
    entries = facts.file_entries
    last = or_absent(facts.last_leader_epoch)
    for epoch, start in entries:
        is_past_end = start > facts.log_end_offset and not facts.end_is_open
        is_inside = start < facts.log_end_offset and bool(facts.lineage)
        is_first = (epoch, start) == entries[0]
        if epoch > last and (is_inside or (is_past_end and is_first)):
            for other in replicas:
                has_records = start < other.log_end_offset and other.lineage.epoch_for_offset(start) == epoch
                if other is not facts and (has_records or (epoch, start) in other.file_entries):
                    return LaterEntry(epoch, start, other.broker_id)
        is_at_end = start == facts.log_end_offset and bool(facts.lineage)
        if epoch > last and is_first and (is_inside or is_past_end or is_at_end):
            # The log start has moved into that epoch since. A leader that writes nothing also has an entry at the log end,
            # but its epoch begins there.
            for other in replicas:
                begins = other.lineage.start_of(epoch)
                if begins is not None and begins < start:
                    return LaterEntry(epoch, begins, other.broker_id)
    return None


def below_committed(
    facts: ReplicaFacts, contradicted: Collection[tuple[int, int]], replicas: Sequence[ReplicaFacts]
) -> tuple[int, ReplicaFacts] | None:
    """(offset, replica): where the log would have been cut if its epoch file, which contradicts it at the `contradicted`
    entries, were newer; and the replica with the highest checkpoint above that offset and the log's records at it.

    None without one (the log's own checkpoint may be as new as the file), or if the file has no later epoch than the log:
    then it may be the older one.
    """
    entries = facts.file_entries
    if not entries or entries[-1][0] <= or_absent(facts.last_leader_epoch):
        return None
    # Entries below the file's first one were dropped as the log start moved.
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
    """A replica that makes a follower drop its whole log, so that its epoch file is empty for a while; None without one.

    A later epoch begins there at or below the first offset of the log, or that replica begins at or above its end.
    """
    return None if facts.is_at_rest else passed_by(facts, replicas)


def passed_by(facts: ReplicaFacts, replicas: Sequence[ReplicaFacts]) -> ReplicaFacts | None:
    """Like `emptied_by`, but also for brokers known to have been down."""
    last = or_absent(facts.last_leader_epoch)
    for other in replicas:
        cuts = any(epoch > last and start <= facts.log_start_offset for epoch, start in other.epoch_entries)
        # When the log start moves, the epoch file is cut at once, and the checkpoint is written later.
        begins = min((start for _, start in other.file_entries), default=0)
        if other is not facts and (cuts or max(begins, other.log_start_offset) >= facts.log_end_offset):
            return other
    return None
