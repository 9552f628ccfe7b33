"""Where salvaged records would go, and what speaks against it, before anything is written."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from replica_audit.errors import UsageError
from replica_audit.model import TopicPartition
from replica_audit.restore.cluster_records import ConsumedRecord, RestoreProgress, Topic
from replica_audit.restore.presence import find_present
from replica_audit.restore.salvaged_records import SalvagedRecord, SalvagedRecords
from replica_audit.restore.source_headers import expected_of, restored
from replica_audit.text import count

SUFFIX = ".salvaged"

#: Brokers take a message of about a megabyte unless a topic says otherwise.
_DEFAULT_GREATEST_BYTES = 1_000_000
#: librdkafka's batch.size unless a topic takes less, and the settings of a topic by which it does.
MOST_BATCH_BYTES = 1_000_000
_LIMITS_OF_BATCHES = ("max.message.bytes", "segment.bytes")
#: What a batch of one record has besides its key, value and headers, amply.
_OVERHEAD_BYTES = 1024


class Cluster(Protocol):
    """What a plan asks of a cluster (`contact.Contact`)."""

    def cluster_id(self) -> str | None: ...

    def topic(self, name: str) -> Topic | None: ...

    def configs(self, name: str) -> dict[str, str]: ...

    def create_topic(self, name: str, partitions: int, replication_factor: int, configs: Mapping[str, str]) -> None: ...

    def bounds(self, topic: str, partition: int) -> tuple[int, int]: ...

    def read(self, topic: str, partition: int) -> Iterator[ConsumedRecord]: ...

    def held(self, topic: str, partition: int, start: int, end: int) -> Iterator[ConsumedRecord]: ...

    def progress(self, group: str, topic: str, partition: int) -> RestoreProgress | None: ...


@dataclass(frozen=True, slots=True)
class Ways:
    """What the user chose."""

    to_original: bool = False
    headers: bool = True
    from_start: bool = False
    """Nothing was restored before: where no progress is known, it begins with the first record."""
    skip_present: bool = False
    """Records that the leader of their own partition holds are left out."""


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic that is to be created; a replication factor of -1 is the brokers' default."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PlannedRestore:
    """What will be done."""

    cluster_id: str | None
    counts: Mapping[TopicPartition, int]
    """Records by the partition that they are of, in their order."""
    targets: Mapping[TopicPartition, TopicPartition]
    present: Mapping[TopicPartition, frozenset[int]]
    """Of each partition the records, by their numbers, that its present leader holds: they were never lost."""
    new_topics: tuple[NewTopic, ...] = ()
    notes: tuple[str, ...] = ()
    """Sentences that the user should read before agreeing."""
    batch_bytes: int = MOST_BATCH_BYTES
    """What every target takes as one batch."""

    def row(self) -> dict[str, Any]:
        """As in the JSON answer."""
        topics = [asdict(topic) for topic in self.new_topics]
        return {"cluster_id": self.cluster_id, "new_topics": topics, "notes": list(self.notes)}


def plan_restore(records: SalvagedRecords, cluster: Cluster, ways: Ways) -> PlannedRestore:
    """The plan; raises UsageError where the records must not, or cannot, be put where they were asked to."""
    places = {TopicPartition(row["topic"], row["partition"]): row for row in records.partitions()}
    cluster_id = cluster.cluster_id()
    if ways.to_original and cluster_id != records.cluster_id:
        raise UsageError(
            f"--to-original: the records are of cluster {records.cluster_id}, and this is cluster {cluster_id}"
        )
    targets = {place: _target(place, ways) for place in places}
    notes: list[str] = []
    if cluster_id != records.cluster_id:
        notes.append(f"The records are of cluster {records.cluster_id}; this is cluster {cluster_id}.")
    largest = {place: _check_records(records.of_partition(place)) for place in places}
    new_topics, batch_bytes = [], MOST_BATCH_BYTES
    for topic in sorted({target.topic for target in targets.values()}):
        own = [place for place, target in targets.items() if target.topic == topic]
        greatest = max(largest[place] for place in own)
        found = cluster.topic(topic)
        if found is None:
            if ways.to_original:
                raise UsageError(f"--to-original: topic {topic} is not there")
            new_topics.append(_new_topic(topic, own, greatest, cluster))
            continue
        configs = cluster.configs(topic)
        _check_topic(topic, found, configs, own, greatest, ways, notes)
        batch_bytes = min(batch_bytes, *(int(configs.get(name, batch_bytes)) for name in _LIMITS_OF_BATCHES))
    present = {place: frozenset(find_present(records, place, cluster).values()) for place in places}
    notes += [
        f"Nobody leads {place} now, so that nothing tells whether its log holds these records."
        for place in places
        if (found := cluster.topic(place.topic)) is not None and place.partition in found.leaderless
    ]
    if ways.to_original:
        _check_keys(records, cluster, places, present, ways)
    counts = {place: row["records"] for place, row in places.items()}
    return PlannedRestore(cluster_id, counts, targets, present, tuple(new_topics), tuple(notes), batch_bytes)


def targets_of(records: SalvagedRecords, cluster: Cluster, ways: Ways) -> list[tuple[TopicPartition, TopicPartition]]:
    """Each partition of the salvage with the one that it was restored to; raises UsageError for one that is not there."""
    found = []
    for row in records.partitions():
        place = TopicPartition(row["topic"], row["partition"])
        target = _target(place, ways)
        topic = cluster.topic(target.topic)
        if topic is None or target.partition >= topic.partitions:
            raise UsageError(f"{target} is not there: nothing was restored to it")
        found.append((place, target))
    return found


def _target(place: TopicPartition, ways: Ways) -> TopicPartition:
    return place if ways.to_original else TopicPartition(place.topic + SUFFIX, place.partition)


def _check_records(records: Iterable[SalvagedRecord]) -> int:
    """Go through the records once; the bytes of the largest. Raises UsageError for one that cannot be produced as it is."""
    largest = 0
    for record in records:
        parts = [record.key, record.value, *(part for name, value in record.headers for part in (name.encode(), value))]
        largest = max(largest, sum(len(part) for part in parts if part is not None))
        if record.timestamp_ms is not None and record.timestamp_ms <= 0:
            where = f"the record of {record.place} at offset {record.offset}"
            raise UsageError(f"{where} has the timestamp {record.timestamp_ms}, which no client library can produce")
    return largest + _OVERHEAD_BYTES


def _new_topic(topic: str, places: Iterable[TopicPartition], greatest: int, cluster: Cluster) -> NewTopic:
    """As wide as the topic that the records are of; records keep old timestamps, so retention must not delete them."""
    original = cluster.topic(topic.removesuffix(SUFFIX))
    least = max(place.partition for place in places) + 1
    configs = {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "message.timestamp.type": "CreateTime",
    }
    if greatest > _DEFAULT_GREATEST_BYTES:
        configs["max.message.bytes"] = str(greatest)
    if original is None:
        return NewTopic(topic, least, -1, configs)
    return NewTopic(topic, max(least, original.partitions), original.replication_factor, configs)


def _check_topic(
    topic: str,
    found: Topic,
    configs: Mapping[str, str],
    places: list[TopicPartition],
    greatest: int,
    ways: Ways,
    notes: list[str],
) -> None:
    missing = [place.partition for place in places if place.partition >= found.partitions]
    if missing:
        raise UsageError(
            f"topic {topic} has {count(found.partitions, 'partition')}, and records are of partition {missing[0]}"
        )
    if "compact" in configs.get("cleanup.policy", "") and not ways.to_original:
        raise UsageError(
            f"topic {topic} is compacted, which removes earlier records of a key: give it cleanup.policy=delete"
        )
    if configs.get("message.timestamp.type", "CreateTime") != "CreateTime":
        raise UsageError(
            f"topic {topic} stamps records with the broker's time (LogAppendTime), and theirs would be lost"
        )
    if greatest > int(configs.get("max.message.bytes", greatest)):
        raise UsageError(
            f"topic {topic} takes messages of {configs['max.message.bytes']} bytes, and there is one of about {greatest}"
        )
    retention = int(configs.get("retention.ms", -1))
    if "delete" in configs.get("cleanup.policy", "delete") and retention >= 0:
        notes.append(
            f"Topic {topic} deletes records that are older than {retention} ms, by their own timestamps (retention.ms)."
        )


def _check_keys(
    records: SalvagedRecords,
    cluster: Cluster,
    places: Mapping[TopicPartition, Mapping],
    present: Mapping[TopicPartition, Collection[int]],
    ways: Ways,
) -> None:
    """Of a compacted topic no record may come after a later one of its key: it would bring an old value back."""
    for place, row in places.items():
        if not row["compacted"] and "compact" not in cluster.configs(place.topic).get("cleanup.policy", ""):
            continue
        if not ways.headers:
            raise UsageError(
                f"--no-headers: topic {place.topic} is compacted, and only headers tell what is restored already"
            )
        found = enumerate(_superseded(records, cluster, place))
        superseded = sum(is_old for number, is_old in found if number not in present[place])
        if superseded:
            of_all = f"{superseded} of {count(row['records'], 'record')} of {place}"
            raise UsageError(
                f"--to-original: topic {place.topic} is compacted, and it has a later value of the key of {of_all}"
            )


def _superseded(records: SalvagedRecords, cluster: Cluster, place: TopicPartition) -> Iterator[bool]:
    """For each record whether its key has a later value, when the snapshot was taken or now."""
    latest: dict[bytes | None, tuple[int, int]] = {}
    wanted = {record.key for record in records.of_partition(place)}
    if None in wanted:
        raise UsageError(f"--to-original: topic {place.topic} is compacted, which takes no records without a key")
    ours = {expected_of(record, records.cluster_id) for record in records.of_partition(place)}
    for stored in cluster.read(place.topic, place.partition):
        if stored.key in wanted and not ours.intersection(restored([stored], records.cluster_id, place)):
            # Without an epoch nothing tells that it is earlier.
            epoch = 1 << 31 if stored.leader_epoch is None else stored.leader_epoch
            latest[stored.key] = max(latest.get(stored.key, (-1, -1)), (epoch, stored.offset))
    for record in records.of_partition(place):
        epoch = -1 if record.leader_epoch is None else record.leader_epoch
        yield bool(record.later_value) or latest.get(record.key, (-1, -1)) > (epoch, record.offset)
