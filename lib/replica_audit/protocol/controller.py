"""The controller's view of one partition as brokers stop, start and are elected (docs/semantics.md, H).

Kafka: `PartitionChangeBuilder.electLeader` and `ReplicationControlManager` (KRaft, KIP-966 for eligible leader replicas);
the controller of ZooKeeper's time does the same without eligible ones (`Election.leaderForOffline`).
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import NamedTuple


class Registration(NamedTuple):
    """A partition as the controller registers it. Its leader epoch grows with every change of leader, including one to no leader."""

    replicas: tuple[int, ...]
    """Replicas in the order of the assignment."""
    leader_id: int | None
    leader_epoch: int
    isr: frozenset[int]
    elr: frozenset[int] = frozenset()
    last_known: tuple[int, ...] = ()
    """LastKnownElr: its only member is the last leader before nobody could lead."""
    min_isr: int = 1
    unclean: bool = False
    """unclean.leader.election.enable, as it is in force."""
    has_elr: bool = False
    """True if eligible leader replicas (KIP-966) are in force in the cluster."""
    adding: frozenset[int] = frozenset()
    """Replicas that a reassignment adds; a subset of `replicas`."""
    removing: frozenset[int] = frozenset()
    """Replicas that a reassignment removes, with their logs, once all of `adding` are in sync; a subset of `replicas`."""
    offline: frozenset[int] = frozenset()
    """Replicas whose log dir is offline: they neither lead nor follow, however long their broker is up (KIP-858)."""

    @property
    def entitled(self) -> frozenset[int]:
        """Replicas that can be elected cleanly: the ISR or, where it is empty, the eligible leader replicas (KIP-966)."""
        return self.isr or self.elr


class NextLeader(NamedTuple):
    """The leader that an election chooses, and its right to lead: stays, isr, elr, last_known or unclean."""

    broker_id: int
    right: str

    @property
    def clean(self) -> bool:
        return self.right in ("stays", "isr", "elr")


def next_leader(partition: Registration, alive: AbstractSet[int], *, unclean: bool) -> NextLeader | None:
    """The leader that an election among the brokers `alive` chooses; None if there is none. With `unclean` any live
    replica may be elected (`PartitionChangeBuilder.electLeader`; H2, H4, H6, H19)."""
    alive = alive - partition.offline
    entitled = partition.entitled
    if partition.leader_id in entitled & alive:
        return NextLeader(partition.leader_id, "stays")
    for broker in partition.replicas:
        if broker in entitled and broker in alive:
            return NextLeader(broker, "isr" if partition.isr else "elr")
    if partition.has_elr and not entitled and len(partition.last_known) == 1 and partition.last_known[0] in alive:
        return NextLeader(partition.last_known[0], "last_known")
    if unclean:
        first = next((broker for broker in partition.replicas if broker in alive), None)
        return None if first is None else NextLeader(first, "unclean")
    return None


def elect(partition: Registration, alive: AbstractSet[int], *, unclean: bool = False) -> Registration:
    """The partition after an election; unchanged where its leader stays (H1; `PartitionChangeBuilder.electLeader`).
    `unclean`: an operator asked for an unclean election, regardless of the setting."""
    found = next_leader(partition, alive, unclean=unclean or partition.unclean)
    if found is None:
        if partition.leader_id is None:
            return partition
        return partition._replace(leader_id=None, leader_epoch=partition.leader_epoch + 1)
    if found.right == "stays":
        return partition
    led = partition._replace(leader_id=found.broker_id, leader_epoch=partition.leader_epoch + 1, last_known=())
    if found.right == "isr":
        return led
    alone = frozenset({found.broker_id})
    return led._replace(isr=alone, elr=partition.elr - alone if found.right == "elr" else frozenset())


def prefer(partition: Registration, alive: AbstractSet[int]) -> Registration:
    """The partition after a preferred election: the first replica of the assignment leads if it is in sync; a partition without
    a leader stays as it is (`PartitionChangeBuilder.Election.PREFERRED`; H3, H9)."""
    first = partition.replicas[0]
    if partition.leader_id in (None, first) or first not in (partition.isr & alive) - partition.offline:
        return partition
    return partition._replace(leader_id=first, leader_epoch=partition.leader_epoch + 1)


def stop_broker(partition: Registration, broker_id: int, alive: AbstractSet[int]) -> Registration:
    """The partition after a broker was fenced or stopped (`ReplicationControlManager.generateLeaderAndIsrUpdates`). `alive` are
    the brokers that remain. The last in-sync replica stays in the ISR, or becomes eligible (KIP-966)."""
    left = partition.isr - {broker_id}
    if broker_id not in partition.isr or (not left and not partition.has_elr):
        return elect(partition, alive)
    elr, last_known = partition.elr, partition.last_known
    if partition.has_elr and len(left) < partition.min_isr:
        elr = (elr | partition.isr) - left
    if not left and partition.leader_id is not None:
        last_known = (partition.leader_id,)
    after = elect(partition._replace(isr=left, elr=elr), alive)
    return after._replace(last_known=last_known if after.leader_id is None else ())


def start_broker(partition: Registration, broker_id: int, alive: AbstractSet[int], *, clean: bool) -> Registration:
    """The partition after a broker came back with all its log dirs; `alive` includes it. A broker that was killed is neither in sync nor
    eligible (KIP-966)."""
    back = frozenset({broker_id})
    if partition.has_elr and not clean:
        partition = partition._replace(isr=partition.isr - back, elr=partition.elr - back)
    if partition.offline:
        partition = partition._replace(offline=partition.offline - back)
    return elect(partition, alive)


def catch_up(partition: Registration, alive: AbstractSet[int]) -> Registration:
    """The partition after every live replica has fetched to the leader's log end and joined the ISR; unchanged without a leader
    (`Partition.maybeExpandIsr`)."""
    if partition.leader_id is None:
        return partition
    isr = partition.isr | ((frozenset(partition.replicas) & alive) - partition.offline)
    enough = len(isr) >= partition.min_isr
    caught_up = partition._replace(isr=isr, elr=frozenset() if enough else partition.elr - isr)
    return _end_reassignment(caught_up, alive)


def _end_reassignment(partition: Registration, alive: AbstractSet[int]) -> Registration:
    """The partition after its reassignment ended, which it does once every added replica is in sync; a removed replica
    stops leading (`PartitionReassignmentReplicas.maybeCompleteReassignment`)."""
    stay = partition.isr - partition.removing
    if not (partition.adding or partition.removing) or not stay or not partition.adding <= stay:
        return partition
    left = partition._replace(
        replicas=tuple(one for one in partition.replicas if one not in partition.removing),
        isr=stay,
        elr=partition.elr - partition.removing,
        adding=frozenset(),
        removing=frozenset(),
    )
    return elect(left, alive)
