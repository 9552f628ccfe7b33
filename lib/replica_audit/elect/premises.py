"""The premises of a plan: leaders, ISRs, epochs and log ends as it found them, and which of them have changed since."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from replica_audit.elect.cost_matrix import Matrix
from replica_audit.elect.plan_model import Plan, PlannedPartition, PlannedReplica
from replica_audit.model import TopicPartition
from replica_audit.results import Results, place_of

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


def rests_on(results: Results, matrix: Matrix, places: Collection[TopicPartition]) -> list[PlannedPartition]:
    """The premises of a plan for `places`: leader, ISR, and start and end of every log."""
    elr = {place: state.elr for place, state in results.states()}
    return [
        PlannedPartition(
            row.topic,
            row.partition,
            topic_id=row.topic_id,
            leader_id=row.leader_id,
            leader_epoch=row.leader_epoch,
            isr=None if row.isr is None else tuple(row.isr),
            elr=tuple(elr.get(place, ())),
            replicas=tuple(
                PlannedReplica(
                    broker,
                    replica.log_start_offset,
                    replica.log_end_offset,
                    tuple((epoch, start) for epoch, start in replica.epochs),
                )
                for broker, replica in sorted(matrix.replicas[place].items())
            ),
        )
        for row in results.partitions
        if (place := place_of(row)) in places
    ]


@dataclass(frozen=True, slots=True)
class ChangedPremise:
    """A premise of a plan that no longer holds."""

    topic: str | None
    """None for the cluster."""
    partition: int | None
    broker_id: int | None
    """None for the partition itself."""
    what: str
    before: object
    now: object


def moved_since(before: Plan, cluster_id: str | None, rests_on: Iterable[PlannedPartition]) -> Iterator[ChangedPremise]:
    """Differences between the premises of `before` and those that a plan of the present snapshot would have.

    Values unknown to either side are not compared.
    """
    present = {place_of(one): one for one in rests_on}
    if before.cluster_id and cluster_id and before.cluster_id != cluster_id:
        yield ChangedPremise(None, None, None, "cluster", before.cluster_id, cluster_id)
    for then in before.rests_on:
        today = present.get(place_of(then))
        if today is None:
            yield ChangedPremise(then.topic, then.partition, None, "partition", "in the snapshot", "not in this one")
            continue
        for name in ("topic_id", "leader_id", "leader_epoch", "isr", "elr"):
            old = getattr(then, name)
            new = getattr(today, name)
            # Having no leader is a value too, if the epoch is known.
            if old != new and (name == "leader_id" or None not in (old, new)):
                yield ChangedPremise(then.topic, then.partition, None, _WORDS[name], old, new)
        yield from _moved_replicas(then, today)


def _moved_replicas(then: PlannedPartition, today: PlannedPartition) -> Iterator[ChangedPremise]:
    replicas = {one.broker_id: one for one in today.replicas}
    for replica in then.replicas:
        broker = replica.broker_id
        other = replicas.pop(replica.broker_id, None)
        if other is None:
            yield ChangedPremise(then.topic, then.partition, broker, "replica", "in the snapshot", "not in this one")
            continue
        for name in ("log_start_offset", "log_end_offset", "epochs"):
            old = getattr(replica, name)
            new = getattr(other, name)
            if old != new:
                yield ChangedPremise(then.topic, then.partition, broker, _WORDS[name], old, new)
    for broker in sorted(replicas):
        yield ChangedPremise(then.topic, then.partition, broker, "replica", "not in the snapshot", "in this one")
