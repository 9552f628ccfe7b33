"""What the history of a partition in the metadata log comes to: who leads now."""

from __future__ import annotations

from replica_audit.model import Leadership, PartitionState


def leadership_of_history(
    topic: str,
    partition: int,
    topic_id: str | None,
    history: tuple[PartitionState, ...],
    fenced: tuple[int, ...] | None,
) -> Leadership:
    """The last committed state of a history, which has one, with the history; of a deleted topic nobody is in sync or assigned."""
    last = next(state for state in reversed(history) if not state.uncommitted)
    exists = last.occasion != "deleted"
    return Leadership(
        topic=topic,
        partition=partition,
        source="metadata_log",
        leader_id=last.leader_id,
        leader_epoch=last.leader_epoch,
        isr=last.isr if exists else None,
        elr=last.elr,
        last_known_elr=last.last_known_elr,
        replicas=last.replicas if exists else None,
        topic_id=topic_id,
        configs=last.configs,
        history=history,
        fenced=fenced,
    )
