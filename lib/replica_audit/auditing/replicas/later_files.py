"""Epoch files that were copied after their log had been cut, or begun anew: they are of a later moment than it (C.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from replica_audit.batch_header import or_absent

if TYPE_CHECKING:
    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts


class LaterEntry(NamedTuple):
    """An entry of an epoch file that its log contradicts and another replica bears out."""

    leader_epoch: int
    start_offset: int
    broker_id: int
    """Broker of the other replica."""


def later_entry(facts: ReplicaFacts, replicas: Sequence[ReplicaFacts]) -> LaterEntry | None:
    """The first entry of a replica's epoch file that is later than its log; None where none is.

    The log has records of an earlier epoch at that offset, or ends below the first entry, and another one of `replicas` has those of
    the entry's epoch, or the same entry: so the log was cut, or begun anew, between the copies of the two files. A damaged file does
    not say what another broker has. A broker that was down has cut nothing between them. An entry of an epoch that the log has gone
    past is not later than it: only an unclean election takes a log back to that, and then its records were lost.
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
        own = facts.lineage.epoch_for_offset(start) if start < facts.log_end_offset else None
        is_first = (epoch, start) == entries[0]
        if epoch > last and (own is not None or (is_past_end and is_first)):
            for other in replicas:
                has_records = start < other.log_end_offset and other.lineage.epoch_for_offset(start) == epoch
                if other is not facts and (has_records or (epoch, start) in other.file_entries):
                    return LaterEntry(epoch, start, other.broker_id)
        if epoch > last and is_first and start == facts.log_end_offset and facts.lineage:
            # A leader that writes nothing has such an entry, too; but there the epoch begins.
            for other in replicas:
                begins = other.lineage.start_of(epoch)
                if begins is not None and begins < start:
                    return LaterEntry(epoch, begins, other.broker_id)
    return None


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
