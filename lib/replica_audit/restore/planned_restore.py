"""The plan of a restore: target of each record, topics to create, and reasons to refuse, before anything is written."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from replica_audit.errors import UsageError
from replica_audit.model import TopicPartition
from replica_audit.restore.cluster import Cluster, Topic
from replica_audit.restore.recognition import expected_of, find_present, restored
from replica_audit.restore.salvaged_records import SalvagedRecord, SalvagedRecords
from replica_audit.salvage.salvage_manifest import ManifestPartition
from replica_audit.text import count

SUFFIX = ".salvaged"

#: Largest message that brokers accept by default, about a megabyte.
_DEFAULT_GREATEST_BYTES = 1_000_000
#: batch.size of the producer unless a topic accepts less, and the topic settings that limit it.
MOST_BATCH_BYTES = 1_000_000
_LIMITS_OF_BATCHES = ("max.message.bytes", "segment.bytes")
#: Generous overhead of a batch of one record, besides its key, value and headers.
_OVERHEAD_BYTES = 1024


@dataclass(frozen=True, slots=True)
class RestoreOptions:
    """The choices of the user."""

    to_original: bool = False
    headers: bool = True
    from_start: bool = False
    """Nothing was restored before: without known progress it starts at the first record."""
    skip_present: bool = False
    """Skip records that the leader of their own partition holds."""


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; a replication factor of -1 is the brokers' default."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PlannedRestore:
    """The plan of a restore."""

    cluster_id: str | None
    counts: Mapping[TopicPartition, int]
    """Number of records by source partition, in order."""
    targets: Mapping[TopicPartition, TopicPartition]
    present: Mapping[TopicPartition, frozenset[int]]
    """Numbers of the records of each partition that its present leader holds: they were never lost."""
    new_topics: tuple[NewTopic, ...] = ()
    notes: tuple[str, ...] = ()
    """Sentences to read before agreeing."""
    batch_bytes: int = MOST_BATCH_BYTES
    """Batch size that every target accepts."""


def plan_restore(records: SalvagedRecords, cluster: Cluster, options: RestoreOptions) -> PlannedRestore:
    """The plan; raises UsageError if the records must not, or cannot, be produced to the targets."""
    places = {TopicPartition(row.topic, row.partition): row for row in records.partitions()}
    cluster_id = cluster.cluster_id()
    if options.to_original and cluster_id != records.cluster_id:
        raise UsageError(
            f"--to-original: the records are of cluster {records.cluster_id}, and this is cluster {cluster_id}"
        )
    targets = {place: _target(place, options) for place in places}
    notes: list[str] = []
    if cluster_id != records.cluster_id:
        notes.append(f"The records are of cluster {records.cluster_id}; this is cluster {cluster_id}.")
    largest = {place: _check_records(records.of_partition(place)) for place in places}
    new_topics = []
    batch_bytes = MOST_BATCH_BYTES
    for topic in sorted({target.topic for target in targets.values()}):
        own = [place for place, target in targets.items() if target.topic == topic]
        greatest = max(largest[place] for place in own)
        found = cluster.topic(topic)
        if found is None:
            if options.to_original:
                raise UsageError(f"--to-original: topic {topic} is not there")
            new_topics.append(_new_topic(topic, own, greatest, cluster))
            continue
        configs = cluster.configs(topic)
        _check_topic(topic, found, configs, own, greatest, options, notes)
        batch_bytes = min(batch_bytes, *(int(configs.get(name, batch_bytes)) for name in _LIMITS_OF_BATCHES))
    present = {place: frozenset(find_present(records, place, cluster).values()) for place in places}
    notes += [
        f"Nobody leads {place} now, so that nothing tells whether its log holds these records."
        for place in places
        if (found := cluster.topic(place.topic)) is not None and place.partition in found.leaderless
    ]
    if options.to_original:
        _check_keys(records, cluster, places, present, options)
    counts = {place: row.records for place, row in places.items()}
    return PlannedRestore(cluster_id, counts, targets, present, tuple(new_topics), tuple(notes), batch_bytes)


def targets_of(
    records: SalvagedRecords, cluster: Cluster, options: RestoreOptions
) -> list[tuple[TopicPartition, TopicPartition]]:
    """Source and target of each partition of the salvage; raises UsageError for a target that does not exist."""
    found = []
    for row in records.partitions():
        place = TopicPartition(row.topic, row.partition)
        target = _target(place, options)
        topic = cluster.topic(target.topic)
        if topic is None or target.partition >= topic.partitions:
            raise UsageError(f"{target} is not there: nothing was restored to it")
        found.append((place, target))
    return found


def _target(place: TopicPartition, options: RestoreOptions) -> TopicPartition:
    return place if options.to_original else TopicPartition(place.topic + SUFFIX, place.partition)


def _check_records(records: Iterable[SalvagedRecord]) -> int:
    """Size of the largest record in bytes. Raises UsageError for one that cannot be produced unchanged."""
    largest = 0
    for record in records:
        parts = [record.key, record.value, *(part for name, value in record.headers for part in (name.encode(), value))]
        largest = max(largest, sum(len(part) for part in parts if part is not None))
        if record.timestamp_ms is not None and record.timestamp_ms <= 0:
            where = f"the record of {record.place} at offset {record.offset}"
            raise UsageError(f"{where} has the timestamp {record.timestamp_ms}, which no client library can produce")
    return largest + _OVERHEAD_BYTES


def _new_topic(topic: str, places: Iterable[TopicPartition], greatest: int, cluster: Cluster) -> NewTopic:
    """A topic as wide as the records' own, without retention: the records keep their old timestamps."""
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
    options: RestoreOptions,
    notes: list[str],
) -> None:
    missing = [place.partition for place in places if place.partition >= found.partitions]
    if missing:
        raise UsageError(
            f"topic {topic} has {count(found.partitions, 'partition')}, and records are of partition {missing[0]}"
        )
    if "compact" in configs.get("cleanup.policy", "") and not options.to_original:
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
    places: Mapping[TopicPartition, ManifestPartition],
    present: Mapping[TopicPartition, Collection[int]],
    options: RestoreOptions,
) -> None:
    """Raise UsageError if a record of a compacted topic would follow a later one of its key, and bring an old value back."""
    for place, row in places.items():
        if not row.compacted and "compact" not in cluster.configs(place.topic).get("cleanup.policy", ""):
            continue
        if not options.headers:
            raise UsageError(
                f"--no-headers: topic {place.topic} is compacted, and only headers tell what is restored already"
            )
        found = enumerate(_superseded(records, cluster, place))
        superseded = sum(is_old for number, is_old in found if number not in present[place])
        if superseded:
            of_all = f"{superseded} of {count(row.records, 'record')} of {place}"
            raise UsageError(
                f"--to-original: topic {place.topic} is compacted, and it has a later value of the key of {of_all}"
            )


def _superseded(records: SalvagedRecords, cluster: Cluster, place: TopicPartition) -> Iterator[bool]:
    """True for each record whose key has a later value, in the snapshot or now."""
    latest: dict[bytes | None, tuple[int, int]] = {}
    wanted = {record.key for record in records.of_partition(place)}
    if None in wanted:
        raise UsageError(f"--to-original: topic {place.topic} is compacted, which takes no records without a key")
    ours = {expected_of(record, records.cluster_id) for record in records.of_partition(place)}
    for stored in cluster.read(place.topic, place.partition):
        if stored.key in wanted and not ours.intersection(restored([stored], records.cluster_id, place)):
            # Without an epoch it may be later.
            epoch = 1 << 31 if stored.leader_epoch is None else stored.leader_epoch
            latest[stored.key] = max(latest.get(stored.key, (-1, -1)), (epoch, stored.offset))
    for record in records.of_partition(place):
        epoch = -1 if record.leader_epoch is None else record.leader_epoch
        yield bool(record.later_value) or latest.get(record.key, (-1, -1)) > (epoch, record.offset)
