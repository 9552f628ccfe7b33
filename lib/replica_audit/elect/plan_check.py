"""The differences between a plan's premises and a later snapshot: epochs, log ends, ISR (`elect --check`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from replica_audit.elect.plan_model import Plan, PlannedPartition

_WORDS = {
    "topic_id": "topic id",
    "leader_id": "leader",
    "leader_epoch": "leader epoch",
    "isr": "ISR",
    "elr": "eligible leader replicas",
    "log_start_offset": "log start",
    "log_end_offset": "log end",
    "epochs": "leader epochs",
}


@dataclass(frozen=True, slots=True)
class Difference:
    """A premise of a plan that does not hold any more."""

    topic: str | None
    """None for the cluster."""
    partition: int | None
    broker_id: int | None
    """None for the partition itself."""
    what: str
    before: object
    now: object


def moved_since(before: Plan, cluster_id: str | None, rests_on: Iterable[PlannedPartition]) -> Iterator[Difference]:
    """Differences between the premises of `before` and those that a plan of the present snapshot would have.

    Values that either side does not know are not compared.
    """
    present = {(one.topic, one.partition): one for one in rests_on}
    if before.cluster_id and cluster_id and before.cluster_id != cluster_id:
        yield Difference(None, None, None, "cluster", before.cluster_id, cluster_id)
    for then in before.rests_on:
        today = present.get((then.topic, then.partition))
        if today is None:
            yield Difference(then.topic, then.partition, None, "partition", "in the snapshot", "not in this one")
            continue
        for name in ("topic_id", "leader_id", "leader_epoch", "isr", "elr"):
            old, new = getattr(then, name), getattr(today, name)
            # Without a leader is a state of its own if the epoch is known.
            if old != new and (name == "leader_id" or None not in (old, new)):
                yield Difference(then.topic, then.partition, None, _WORDS[name], old, new)
        yield from _moved_replicas(then, today)


def _moved_replicas(then: PlannedPartition, today: PlannedPartition) -> Iterator[Difference]:
    replicas = {one.broker_id: one for one in today.replicas}
    for replica in then.replicas:
        broker, other = replica.broker_id, replicas.pop(replica.broker_id, None)
        if other is None:
            yield Difference(then.topic, then.partition, broker, "replica", "in the snapshot", "not in this one")
            continue
        for name in ("log_start_offset", "log_end_offset", "epochs"):
            old, new = getattr(replica, name), getattr(other, name)
            if old != new:
                yield Difference(then.topic, then.partition, broker, _WORDS[name], old, new)
    for broker in sorted(replicas):
        yield Difference(then.topic, then.partition, broker, "replica", "not in the snapshot", "in this one")
