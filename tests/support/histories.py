"""Histories of a partition, as the metadata log has them."""

from __future__ import annotations

from replica_audit.model import PartitionState


def history(*changes: dict) -> tuple[PartitionState, ...]:
    """States of a partition on brokers 1, 2, 3: the first led by 1 in epoch 0, each change on top of the one before."""
    fields = {"leader_id": 1, "leader_epoch": 0, "isr": (1, 2, 3), "elr": (), "last_known_elr": (), "recovering": False}
    fields |= {"replicas": (1, 2, 3), "adding": (), "removing": (), "directories": (), "configs": {}}
    states = []
    for number, change in enumerate(({}, *changes)):
        uncommitted, occasion = (
            change.pop("uncommitted", False),
            change.pop("occasion", "changed" if number else "created"),
        )
        if "leader_id" in change:
            fields["leader_epoch"] += 1
        fields.update(change)
        states.append(
            PartitionState(
                time_ms=1000 + number,
                metadata_offset=10 + number,
                occasion=occasion,
                partition_epoch=number,
                uncommitted=uncommitted,
                **fields,
            )
        )
    return tuple(states)
