"""The common prefix of two simulated logs, and the lineages of one."""

from __future__ import annotations

from tests.property.replica import Replica

from replica_audit.protocol.lineage import Lineage


def lineage_of_batches(replica: Replica) -> Lineage:
    return Lineage.of((batch.leader_epoch, batch.base_offset) for batch in replica.batches)


def lineage_of_cache(replica: Replica) -> Lineage:
    """The epoch file as the loader leaves it."""
    return Lineage(tuple(replica.cache)).truncate_from_end(replica.disk_end)


def common_prefix_end(follower: Replica, leader: Replica) -> int | None:
    """First offset from which the follower's records are not the leader's; None where the logs do not overlap."""
    start = max(follower.log_start, leader.log_start)
    if min(follower.disk_end, leader.disk_end) <= start:
        return None
    held = {batch.content for batch in leader.batches}
    foreign = [b.base_offset for b in follower.batches if b.end_offset > start and b.content not in held]
    return max(start, foreign[0]) if foreign else min(follower.disk_end, leader.disk_end)
