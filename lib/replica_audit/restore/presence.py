"""Which salvaged records were never lost: the leader of their own partition holds them, whoever led when they were salvaged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from replica_audit.model import TopicPartition
from replica_audit.restore.cluster_records import ConsumedRecord, Topic
from replica_audit.restore.salvaged_records import SalvagedRecords
from replica_audit.restore.source_headers import digest_of

#: Offset, leader epoch and digest: a record that has all three is the same one, not one that was produced again.
Identity = tuple[int, int | None, str]


class ReadableCluster(Protocol):
    """What looking for records asks of a cluster (`contact.Contact`)."""

    def topic(self, name: str) -> Topic | None: ...

    def held(self, topic: str, partition: int, start: int, end: int) -> Iterator[ConsumedRecord]: ...


def find_present(records: SalvagedRecords, place: TopicPartition, cluster: ReadableCluster) -> dict[Identity, int]:
    """The records of `place` that its present leader holds, by what tells them from all others: their numbers in the salvage.

    A leader is read up to its high watermark, which is what consumers can see. Where nobody leads, nothing is found.
    Memory: a digest for each salvaged record.
    """
    topic = cluster.topic(place.topic)
    if topic is None or place.partition >= topic.partitions or place.partition in topic.leaderless:
        return {}
    wanted: dict[Identity, int] = {
        (record.offset, record.leader_epoch, record.sha256): number
        for number, record in enumerate(records.of_partition(place))
    }
    offsets = [offset for offset, _, _ in wanted]
    found = cluster.held(place.topic, place.partition, min(offsets), max(offsets) + 1)
    present = ((one.offset, one.leader_epoch, digest_of(one, one.headers)) for one in found)
    return {identity: wanted[identity] for identity in present if identity in wanted}
