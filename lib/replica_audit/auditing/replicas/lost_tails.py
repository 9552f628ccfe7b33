"""Replicas that lost the end of their own log: a checkpointed high watermark lies past it, and no truncation tells why."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from replica_audit.auditing.replicas.facts import ReplicaFacts
    from replica_audit.auditing.replicas.reference import Reference


def is_tail_lost(reference: Reference, replicas: Iterable[ReplicaFacts], facts: ReplicaFacts) -> bool:
    """Whether a replica had records up to its checkpointed high watermark that its log has not, and no truncation tells why.

    `replicas` are all that were compared, the reference among them.
    """
    checkpoint = facts.directory.high_watermark_checkpoint
    if checkpoint is None or facts.end_is_open or checkpoint <= facts.log_end_offset:
        return False
    return not _is_just_truncated(reference, replicas, facts, checkpoint)


def _is_just_truncated(
    reference: Reference, replicas: Iterable[ReplicaFacts], facts: ReplicaFacts, checkpoint: int
) -> bool:
    """Whether a truncation explains a checkpoint past the log end: it writes the recovery point at once, and a later
    epoch is why. No truncation explains a checkpoint that no other replica ever reached.
    """
    if facts.directory.recovery_point_checkpoint != facts.log_end_offset or facts.directory.clean_shutdown:
        return False
    last = -1 if facts.last_leader_epoch is None else facts.last_leader_epoch
    others = [other for other in replicas if other is not facts]
    reached = max(
        (max(other.log_end_offset, other.directory.high_watermark_checkpoint or 0) for other in others), default=0
    )
    return checkpoint <= reached and any(
        epoch > last and start <= checkpoint for epoch, start in reference.complete(reference.facts.lineage)
    )
