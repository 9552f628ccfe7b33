"""Replicas that lost the end of their own log: a checkpointed high watermark lies past it, and no truncation tells why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from replica_audit.protocol.election import first_known_epoch
from replica_audit.protocol.lineage import Lineage, increases

if TYPE_CHECKING:
    from replica_audit.auditing.replicas.facts import ReplicaFacts
    from replica_audit.auditing.replicas.reference import Reference


def is_tail_lost(reference: Reference, replicas: Iterable[ReplicaFacts], facts: ReplicaFacts) -> bool:
    """Whether a replica had records up to its checkpointed high watermark that its log has not, and no truncation tells why.

    `replicas` are all that were compared, the reference among them. No truncation explains a checkpoint that no other
    replica ever reached.
    """
    checkpoint = facts.directory.high_watermark_checkpoint
    if checkpoint is None or facts.end_is_open or checkpoint <= _least_end(facts):
        return False
    others = [other for other in replicas if other is not facts]
    reached = max(
        (max(other.log_end_offset, other.directory.high_watermark_checkpoint or 0) for other in others), default=0
    )
    return checkpoint > reached or not _may_have_been_cut(reference, others, facts, checkpoint)


def surely_lost_to(reference: Reference, replicas: Iterable[ReplicaFacts], facts: ReplicaFacts) -> int | None:
    """The checkpointed high watermark of a replica that lost its tail beyond doubt; None of any other.

    Its recovery point lies past the end, its broker was stopped cleanly, or the whole history has no leader that may have
    cut it.
    """
    checkpoint, recovery_point = (
        facts.directory.high_watermark_checkpoint,
        facts.directory.recovery_point_checkpoint,
    )
    if checkpoint is None or facts.end_is_open or checkpoint <= _least_end(facts):
        return None
    flushed = recovery_point is not None and recovery_point > facts.log_end_offset
    others = [other for other in replicas if other is not facts]
    if flushed or facts.directory.clean_shutdown:
        return checkpoint
    known = _knows_leaders_since(reference, facts)
    return checkpoint if known and not _may_have_been_cut(reference, others, facts, checkpoint) else None


def _least_end(facts: ReplicaFacts) -> int:
    """Where a log ends at least: what it lost below its own start had been deleted before."""
    return max(facts.log_end_offset, facts.log_start_offset)


def lineage_as_found(facts: ReplicaFacts) -> Lineage | None:
    """The lineage of a log before it lost its end: its epoch file keeps the entries of what is gone until the next start."""
    entries = facts.directory.checkpoint_epochs
    return Lineage.of(entries) if entries and increases(entries) else None


def _may_have_been_cut(
    reference: Reference, others: Iterable[ReplicaFacts], facts: ReplicaFacts, checkpoint: int
) -> bool:
    """Whether a truncation explains a checkpoint past the log end: it takes the recovery point and the later entries of the
    epoch file along, and is done for another leader, whose epoch begins where the log ends or, where that is not known, may
    do so.
    """
    recovery_point = facts.directory.recovery_point_checkpoint
    if facts.directory.clean_shutdown or (recovery_point is not None and recovery_point > facts.log_end_offset):
        return False
    found = lineage_as_found(facts)
    if found is not None and any(start > facts.log_end_offset for _, start in found):
        return False
    return any(
        start is None or facts.log_end_offset <= start <= checkpoint
        for start in _starts_of_later_leaders(reference, others, facts)
    )


def _starts_of_later_leaders(
    reference: Reference, others: Iterable[ReplicaFacts], facts: ReplicaFacts
) -> Iterator[int | None]:
    """Where epochs after a log's last one began that another broker led in; None where no log tells."""
    last = _last_epoch(facts)
    known = [*reference.complete(reference.facts.lineage), *(entry for one in others for entry in _entries(one))]
    if not _knows_leaders_since(reference, facts):
        yield from (start for epoch, start in reference.complete(reference.facts.lineage) if epoch > last)
        return
    led = {state.leader_epoch for state in reference.history if state.leader_id not in (None, facts.broker_id)}
    for later in sorted(epoch for epoch in led if epoch > last):
        yield min((start for epoch, start in known if epoch == later), default=None)


def _knows_leaders_since(reference: Reference, facts: ReplicaFacts) -> bool:
    """Whether the history has every leader since the last epoch of a log."""
    known_from = first_known_epoch(reference.history)
    return known_from is not None and known_from <= _last_epoch(facts)


def _entries(facts: ReplicaFacts) -> tuple[tuple[int, int], ...]:
    return (*facts.lineage, *(facts.directory.checkpoint_epochs or ()))


def _last_epoch(facts: ReplicaFacts) -> int:
    return -1 if facts.last_leader_epoch is None else facts.last_leader_epoch
