"""Restore of salvaged records, each exactly once and in order, however often the program is stopped; a plan first says where
each goes, and refuses what must not be restored."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from replica_audit.errors import EngineError, UsageError
from replica_audit.model import (
    APPEND_TIME,
    CREATE_TIME,
    MESSAGE_FORMAT,
    MIN_ISR,
    RESTORE_GROUP,
    TIMESTAMP_TYPE,
    TopicPartition,
)
from replica_audit.protocol.versions import (
    PRESENT_FORMAT,
    caps_min_isr,
    heeds_old_formats,
    is_old_format,
    parse_protocol_version,
)
from replica_audit.restore.cluster import Cluster, Produced, RestoreProgress, Topic, WritableCluster
from replica_audit.restore.salvaged_records import (
    SalvagedRecord,
    SalvagedRecords,
    expected_of,
    find_present,
    restored,
    source_of,
    with_source,
)
from replica_audit.salvage.salvage_manifest import ManifestPartition
from replica_audit.text import count, now_ms, render_time, verb

SUFFIX = ".salvaged"

#: Largest message that brokers accept by default, about a megabyte.
_DEFAULT_GREATEST_BYTES = 1_000_000
#: batch.size of the producer unless a topic accepts less, and the topic settings that limit it.
MOST_BATCH_BYTES = 1_000_000
_LIMITS_OF_BATCHES = ("max.message.bytes", "segment.bytes")
#: Upper bounds of the bytes that a batch of one record, and each of its headers, has besides their contents: 61 of the batch's own header,
#: and numbers of variable length.
_BATCH_BYTES = 84
_HEADER_BYTES = 10
#: Topic settings that limit how far a record's timestamp may be before or after the broker's clock; the first that is set counts. Brokers
#: before 4.0 have the second, too.
_LIMITS_OF_TIMESTAMPS = {
    "older": ("message.timestamp.before.max.ms", "message.timestamp.difference.max.ms"),
    "later": ("message.timestamp.after.max.ms", "message.timestamp.difference.max.ms"),
}
_NO_LIMIT = (1 << 63) - 1
#: Its message format is the brokers' default, as a new topic's; each transaction writes its progress there.
_OFFSETS = "__consumer_offsets"
#: Kafka's own topics that transactions with progress are written to, in one of their partitions each.
_WRITTEN_BY_TRANSACTIONS = (_OFFSETS, "__transaction_state")


@dataclass(frozen=True, slots=True)
class RestoreOptions:
    """Options of `restore`."""

    to_original: bool = False
    headers: bool = True
    from_start: bool = False
    """Nothing was restored before: without known progress, start at the first record."""
    skip_present: bool = False
    """Skip records that the leader of their own partition holds."""
    skip_superseded: bool = False
    """Skip records of compacted topics whose key has a later value."""


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; a replication factor of -1 is the brokers' default."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PlannedRestore:
    """Plan of a restore."""

    cluster_id: str | None
    counts: Mapping[TopicPartition, int]
    """Number of records by source partition, in order."""
    targets: Mapping[TopicPartition, TopicPartition]
    present: Mapping[TopicPartition, frozenset[int]]
    """For each partition, numbers of the records that its present leader holds: they were never lost."""
    superseded: Mapping[TopicPartition, frozenset[int]]
    """For each partition of a compacted topic, numbers of other records to skip: their keys have later values."""
    new_topics: tuple[NewTopic, ...] = ()
    notes: tuple[str, ...] = ()
    """Sentences to read before agreeing."""
    batch_bytes: int = MOST_BATCH_BYTES
    """Batch size that every target accepts."""

    def skipped(self, place: TopicPartition) -> frozenset[int]:
        """Numbers of the records of a partition that are not produced."""
        return self.present[place] | self.superseded.get(place, frozenset())


def plan_restore(records: SalvagedRecords, cluster: Cluster, options: RestoreOptions) -> PlannedRestore:
    """Plan a restore. Raises UsageError if the records must not, or cannot, be produced to the targets."""
    places = {TopicPartition(row.topic, row.partition): row for row in records.partitions()}
    cluster_id = cluster.cluster_id()
    if options.to_original and cluster_id != records.cluster_id:
        raise UsageError(
            f"--to-original: the records are of cluster {records.cluster_id}, and this is cluster {cluster_id}"
        )
    targets = {place: _target(place, options) for place in places}
    notes = records.notes()
    if cluster_id != records.cluster_id:
        notes.append(f"The records are of cluster {records.cluster_id}; this is cluster {cluster_id}.")
    extremes = {place: _check_records(records.of_partition(place), records.cluster_id, options) for place in places}
    new_topics = []
    formats: dict[str, Mapping[str, str]] = {}
    batch_bytes = MOST_BATCH_BYTES
    for topic in sorted({target.topic for target in targets.values()}):
        own = [place for place, target in targets.items() if target.topic == topic]
        extreme = _join([extremes[place] for place in own])
        found = cluster.topic(topic)
        if found is None:
            if options.to_original:
                raise UsageError(f"--to-original: topic {topic} is not there")
            new_topics.append(_new_topic(topic, own, extreme.greatest, cluster, notes))
            continue
        configs = cluster.configs(topic)
        _check_topic(topic, found, configs, own, extreme, options, notes, cluster)
        formats[topic] = configs
        batch_bytes = min(batch_bytes, *(int(configs.get(name, batch_bytes)) for name in _LIMITS_OF_BATCHES))
    try:
        _check_formats(formats, cluster)
        if cluster.topic(_OFFSETS) is not None:
            _check_formats({_OFFSETS: cluster.configs(_OFFSETS)}, cluster)
    except EngineError as error:
        notes.append(
            f"Nothing tells whether all topics take transactions, also {_OFFSETS} ({MESSAGE_FORMAT}): {error}."
        )
    notes += [f"Restoring may wait: {unready}." for unready in _find_unready((), cluster)]
    present = {place: frozenset(find_present(records, place, cluster).values()) for place in places}
    notes += [
        f"Nobody leads {place} now, so that nothing tells whether its log holds these records."
        for place in places
        if (found := cluster.topic(place.topic)) is not None and place.partition in found.leaderless
    ]
    superseded = _check_keys(records, cluster, places, present, options) if options.to_original else {}
    counts = {place: row.records for place, row in places.items()}
    return PlannedRestore(
        cluster_id, counts, targets, present, superseded, tuple(new_topics), tuple(notes), batch_bytes
    )


def targets_of(
    records: SalvagedRecords, cluster: Cluster, options: RestoreOptions
) -> list[tuple[TopicPartition, TopicPartition]]:
    """Source and target of each partition of the salvage. Raises UsageError for a target that does not exist."""
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


class _Extremes(NamedTuple):
    """Upper bound in bytes of the largest record in a batch of its own, and the first and last timestamp, if any has one."""

    greatest: int
    earliest_ms: int | None
    latest_ms: int | None


def _join(extremes: Sequence[_Extremes]) -> _Extremes:
    greatest, earliest, latest = zip(*extremes, strict=True)
    known = [time_ms for time_ms in (*earliest, *latest) if time_ms is not None]
    return _Extremes(max(greatest), min(known, default=None), max(known, default=None))


def _check_records(records: Iterable[SalvagedRecord], cluster_id: str | None, options: RestoreOptions) -> _Extremes:
    """Raises UsageError for a record that cannot be produced unchanged."""
    largest = 0
    earliest = None
    latest = None
    for record in records:
        headers = _produced(record, cluster_id, options).headers
        parts = [record.key, record.value, *(part for name, value in headers for part in (name.encode(), value))]
        size = _BATCH_BYTES + _HEADER_BYTES * len(headers) + sum(len(part) for part in parts if part is not None)
        largest = max(largest, size)
        time_ms = record.timestamp_ms
        if time_ms is None:
            continue
        if time_ms <= 0:
            where = f"the record of {record.place} at offset {record.offset}"
            raise UsageError(f"{where} has the timestamp {time_ms}, which no client library can produce")
        earliest = min(time_ms, earliest or time_ms)
        latest = max(time_ms, latest or time_ms)
    return _Extremes(largest, earliest, latest)


def _new_topic(
    topic: str, places: Iterable[TopicPartition], greatest: int, cluster: Cluster, notes: list[str]
) -> NewTopic:
    """A topic with as many partitions and replicas as the records' own, without retention: the records keep their old timestamps."""
    name = topic.removesuffix(SUFFIX)
    original = cluster.topic(name)
    least = max(place.partition for place in places) + 1
    configs = {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": "-1",
        TIMESTAMP_TYPE: CREATE_TIME,
    }
    if greatest > _DEFAULT_GREATEST_BYTES:
        configs["max.message.bytes"] = str(greatest)
    if original is None:
        return NewTopic(topic, least, -1, configs)
    try:
        wanted = int(cluster.configs(name).get(MIN_ISR, 0))
    except EngineError as error:
        wanted = 0
        notes.append(f"{topic} gets the brokers' own {MIN_ISR}, since nothing tells that of {name}: {error}.")
    if wanted:
        # The brokers' default may exceed the number of replicas.
        configs[MIN_ISR] = str(min(wanted, original.replication_factor))
    return NewTopic(topic, max(least, original.partitions), original.replication_factor, configs)


def _check_topic(
    topic: str,
    found: Topic,
    configs: Mapping[str, str],
    places: list[TopicPartition],
    extreme: _Extremes,
    options: RestoreOptions,
    notes: list[str],
    cluster: Cluster,
) -> None:
    missing = [place.partition for place in places if place.partition >= found.partitions]
    if missing:
        raise UsageError(
            f"topic {topic} has {count(found.partitions, 'partition')}, and records are of partition {missing[0]}"
        )
    for place in places:
        if unready := _tell_unready(topic, place.partition, found, configs, cluster):
            raise UsageError(unready)
    if "compact" in configs.get("cleanup.policy", "") and not options.to_original:
        raise UsageError(
            f"topic {topic} is compacted, which removes earlier records of a key: give it cleanup.policy=delete"
        )
    if configs.get(TIMESTAMP_TYPE, CREATE_TIME) != CREATE_TIME:
        raise UsageError(
            f"topic {topic} stamps records with the broker's time ({APPEND_TIME}), and theirs would be lost: set its "
            f"{TIMESTAMP_TYPE} to {CREATE_TIME} until they are restored"
        )
    greatest = extreme.greatest
    if greatest > int(configs.get("max.message.bytes", greatest)):
        raise UsageError(
            f"topic {topic} takes messages of {configs['max.message.bytes']} bytes, and there is one of about {greatest}"
        )
    now = now_ms()
    ages = {"older": (extreme.earliest_ms, 1), "later": (extreme.latest_ms, -1)}
    for word, (time_ms, sign) in ages.items():
        limits = ((name, int(configs.get(name, _NO_LIMIT))) for name in _LIMITS_OF_TIMESTAMPS[word])
        name, limit = next((one for one in limits if one[1] != _NO_LIMIT), ("", _NO_LIMIT))
        if time_ms is not None and (now - time_ms) * sign > limit:
            raise UsageError(
                f"topic {topic} takes no record that is more than {limit} ms {word} than its broker's clock ({name}), and "
                f"there is one of {render_time(time_ms)}"
            )
    retention = int(configs.get("retention.ms", -1))
    if "delete" in configs.get("cleanup.policy", "delete") and retention >= 0:
        deletes = f"deletes records that are older than {retention} ms, by their own timestamps (retention.ms)"
        if extreme.earliest_ms is None or now - extreme.earliest_ms <= retention:
            notes.append(f"Topic {topic} {deletes}.")
        elif options.to_original:
            notes.append(
                f"Topic {topic} {deletes}: there is one of {render_time(extreme.earliest_ms)}, which goes again."
            )
        else:
            raise UsageError(f"topic {topic} {deletes}, and there is one of {render_time(extreme.earliest_ms)}")


def _tell_unready(topic: str, partition: int, found: Topic, configs: Mapping[str, str], cluster: Cluster) -> str | None:
    """Reason why a partition takes no records now, as far as the cluster shows; None if it takes them."""
    name = f"{topic}-{partition}"
    if partition in found.leaderless:
        return f"nobody leads {name}, and it takes no records before it has a leader"
    wanted = int(configs.get(MIN_ISR, 1))
    replicas = found.replicas.get(partition, wanted)
    least = min(wanted, replicas)
    in_sync = found.in_sync.get(partition, least)
    if in_sync < least:
        return (
            f"{name} has {count(in_sync, 'replica')} in sync, and takes no records before it has {least} "
            "(min.insync.replicas): bring back the brokers of the others first"
        )
    if replicas < wanted and (protocol := _uncapped_protocol(cluster)):
        return (
            f"{name} has {count(replicas, 'replica')}, and brokers before Kafka 3.7, as these may be by their "
            f"inter.broker.protocol.version {protocol}, take no records where min.insync.replicas is more: set that to {replicas} first"
        )
    return None


def _uncapped_protocol(cluster: Cluster) -> str:
    """The brokers' protocol, which may be older than they are, if under it they may not cap min.insync.replicas
    (`caps_min_isr`); else "", also where they do not tell it or have none (4.0 and later)."""
    try:
        protocol = cluster.protocol_version()
    except EngineError:
        return ""
    return protocol.partition("-")[0] if caps_min_isr(parse_protocol_version(protocol)) is False else ""


def _find_unready(targets: Iterable[TopicPartition], cluster: Cluster) -> list[str]:
    """A clause for each topic, of the targets and of Kafka's own that a transaction writes to, that takes no records
    now; none for a topic of which the cluster does not tell."""
    partitions: dict[str, set[int]] = defaultdict(set)
    for target in targets:
        partitions[target.topic].add(target.partition)
    said: list[str] = []
    for topic in (*partitions, *_WRITTEN_BY_TRANSACTIONS):
        try:
            found, configs = cluster.topic(topic), cluster.configs(topic)
        except EngineError:
            continue
        if found is not None:
            every = sorted(partitions.get(topic, range(found.partitions)))
            unready = [one for partition in every if (one := _tell_unready(topic, partition, found, configs, cluster))]
            more = len(unready) - 1
            also = (
                f"; {count(more, 'more partition')} of it {verb(more, 'takes', 'take')} none either" if more > 0 else ""
            )
            said += [f"{one}{also}" for one in unready[:1]]
    return said


def _check_formats(configs_of: Mapping[str, Mapping[str, str]], cluster: Cluster) -> None:
    said = {topic: configs.get(MESSAGE_FORMAT, "") for topic, configs in configs_of.items()}
    old = [topic for topic, version in said.items() if is_old_format(version)]
    # Brokers go on showing it up to 3.9.
    if old and heeds_old_formats(parse_protocol_version(cluster.protocol_version())) is not False:
        raise UsageError(
            f"topic {old[0]} has the message format of {said[old[0]]} ({MESSAGE_FORMAT}), which has no transactions: set it "
            f"to {PRESENT_FORMAT} or later first"
        )


def _check_keys(
    records: SalvagedRecords,
    cluster: Cluster,
    places: Mapping[TopicPartition, ManifestPartition],
    present: Mapping[TopicPartition, frozenset[int]],
    options: RestoreOptions,
) -> dict[TopicPartition, frozenset[int]]:
    """By partition of a compacted topic, the records that follow a later one of their key, and so would bring an old
    value back. Raises UsageError if there are any that are not to be skipped."""
    superseded = {}
    for place, row in places.items():
        if not is_compacted(records, cluster, place):
            continue
        if not options.headers:
            raise UsageError(
                f"--no-headers: topic {place.topic} is compacted, and only headers tell what is restored already"
            )
        numbers = superseded_records(records, cluster, place) - present[place]
        if numbers and not options.skip_superseded:
            of_all = f"{len(numbers)} of {count(row.records, 'record')} of {place}"
            raise UsageError(
                f"--to-original: topic {place.topic} is compacted, and it has a later value of the key of {of_all}; "
                "--skip-superseded leaves such records out"
            )
        superseded[place] = numbers
    return superseded


def is_compacted(records: SalvagedRecords, cluster: Cluster, place: TopicPartition) -> bool:
    """True if the topic is compacted, or its records were found in a log that was."""
    said = any(
        row.compacted for row in records.partitions() if (row.topic, row.partition) == (place.topic, place.partition)
    )
    return said or "compact" in cluster.configs(place.topic).get("cleanup.policy", "")


def superseded_records(records: SalvagedRecords, cluster: Cluster, place: TopicPartition) -> frozenset[int]:
    """Numbers of the records of a compacted topic's partition whose keys have later values, in the snapshot or now."""
    return frozenset(number for number, is_old in enumerate(_superseded(records, cluster, place)) if is_old)


def _superseded(records: SalvagedRecords, cluster: Cluster, place: TopicPartition) -> Iterator[bool]:
    """For each record, True if its key has a later value."""
    latest: dict[bytes | None, tuple[int, int]] = {}
    wanted = {record.key for record in records.of_partition(place)}
    if None in wanted:
        raise UsageError(f"--to-original: topic {place.topic} is compacted, which takes no records without a key")
    ours = {expected_of(record, records.cluster_id) for record in records.of_partition(place)}
    for stored in cluster.read(place.topic, place.partition):
        if stored.key in wanted and not ours.intersection(restored([stored], records.cluster_id, place)):
            # A record without an epoch may be later: it counts as such.
            epoch = 1 << 31 if stored.leader_epoch is None else stored.leader_epoch
            latest[stored.key] = max(latest.get(stored.key, (-1, -1)), (epoch, stored.offset))
    for record in records.of_partition(place):
        epoch = -1 if record.leader_epoch is None else record.leader_epoch
        yield bool(record.later_value) or latest.get(record.key, (-1, -1)) > (epoch, record.offset)


#: Text committed with the progress, so that a restore continues as it began.
WITH_HEADERS = "with headers"
WITHOUT_HEADERS = "without headers"


def text_of(options: RestoreOptions) -> str:
    """`WITH_HEADERS` or `WITHOUT_HEADERS`."""
    return WITH_HEADERS if options.headers else WITHOUT_HEADERS


def records_done(
    records: SalvagedRecords,
    place: TopicPartition,
    target: TopicPartition,
    known: RestoreProgress | None,
    present: Collection[int],
    cluster: Cluster,
    options: RestoreOptions,
) -> int:
    """Number of leading records of `place` that are done: in `target` or among `present`.

    `known` is the progress that the group has committed. If there is none, or it has expired, the target's own records are
    read. Raises UsageError if they are inconclusive.
    """
    if known is not None:
        if known.text != text_of(options):
            begun = "--no-headers" if known.text == WITHOUT_HEADERS else "headers"
            raise UsageError(f"{target}: this restore was begun with {begun}; go on in the same way")
        return known.offset
    start, end = cluster.bounds(target.topic, target.partition)
    if start == end or options.from_start:
        return 0
    if not options.headers:
        raise UsageError(
            f"{target} is not empty, and without headers nothing tells what of it was restored before; "
            "if nothing was, say so with --from-start"
        )
    return _done_by_headers(records, place, target, present, cluster, start)


def _done_by_headers(
    records: SalvagedRecords,
    place: TopicPartition,
    target: TopicPartition,
    present: Collection[int],
    cluster: Cluster,
    start: int,
) -> int:
    """`records_done` by the source that each of the target's records names: these must be the first of `records`, in order, each once.

    Records that are `present` or superseded may be absent. So may the first ones, if retention may have deleted them: the log then
    starts past 0, with the first that is left.
    """
    every = [expected_of(one, records.cluster_id) for one in records.of_partition(place)]
    numbers = [number for number in range(len(every)) if number not in present]
    expected = [every[number] for number in numbers]
    sources = {source for source, _ in expected}
    stored = iter(cluster.read(target.topic, target.partition))
    head = [what for what in restored(islice(stored, 1), records.cluster_id, place) if what[0] in sources]
    found = [*head, *(what for what in restored(stored, records.cluster_id, place) if what[0] in sources)]
    if not found:
        return 0
    first = expected.index(found[0]) if found[0] in expected else -1
    if first < 0 or expected[first : first + len(found)] != found or (first > 0 and not (head and start > 0)):
        raise UsageError(
            f"{target} has records of {place} that are not the first of this salvage in their order, so the place to go on from "
            "is not known; restore --check says more"
        )
    return numbers[first + len(found) - 1] + 1


#: Limits of one transaction, in records and bytes.
TRANSACTION_RECORDS = 500
_TRANSACTION_BYTES = 4 << 20
#: Hex digits of the manifest's digest in the name of group and transactional id.
_NAME_DIGITS = 32


@dataclass(frozen=True, slots=True)
class RestoredPartition:
    """Progress of one partition: its records, those done before, and those of the others that its leader holds."""

    target: TopicPartition
    records: int
    before: int
    present: int = 0
    superseded: int = 0
    """Further ones that are skipped, since their keys have later values."""

    @property
    def left(self) -> int:
        """Records to produce."""
        return self.records - self.before - self.present - self.superseded

    def row(self) -> dict[str, object]:
        """The JSON object."""
        place = {"topic": self.target.topic, "partition": self.target.partition}
        numbers = {"before": self.before, "present": self.present, "superseded": self.superseded}
        return {**place, "records": self.records, **numbers}


def name_of(records: SalvagedRecords) -> str:
    """Name of the group whose offsets are the progress, and transactional id; unique to each manifest."""
    return f"{RESTORE_GROUP}{records.digest[:_NAME_DIGITS]}"


def preview(
    records: SalvagedRecords, plan: PlannedRestore, cluster: Cluster, options: RestoreOptions
) -> list[RestoredPartition]:
    """The partitions as earlier runs left them; nothing is written.

    Raises UsageError if leaders hold any remaining record, unless these are skipped.
    """
    new = {topic.name for topic in plan.new_topics}
    outcomes = []
    for place, target in plan.targets.items():
        known = None
        if target.topic not in new:
            known = cluster.progress(name_of(records), target.topic, target.partition)
        outcomes.append(_settle(records, place, plan, known, cluster, options, is_new=target.topic in new))
    if not options.skip_present:
        _refuse_present(plan, outcomes)
    return outcomes


def _settle(
    records: SalvagedRecords,
    place: TopicPartition,
    plan: PlannedRestore,
    known: RestoreProgress | None,
    cluster: Cluster,
    options: RestoreOptions,
    *,
    is_new: bool = False,
) -> RestoredPartition:
    """State of the partition `place`; `known` is the progress that the group has committed."""
    target = plan.targets[place]
    every = plan.counts[place]
    skipped = plan.skipped(place)
    before = 0 if is_new else records_done(records, place, target, known, skipped, cluster, options)
    if before > every:
        raise UsageError(
            f"{target}: the progress that is committed is {before}, and the salvage has {every} records of it"
        )
    # An earlier run may have restored one to its own partition: records that are done do not count as present.
    present = sum(number >= before for number in plan.present[place])
    return RestoredPartition(target, every, before, present, sum(number >= before for number in skipped) - present)


def _refuse_present(plan: PlannedRestore, outcomes: Sequence[RestoredPartition]) -> None:
    """Raise UsageError if any record to be produced was never lost."""
    held = [(place, one) for place, one in zip(plan.targets, outcomes, strict=True) if one.present]
    if held:
        present, records = (sum(getattr(one, name) for one in outcomes) for name in ("present", "records"))
        each = "; ".join(f"{place} {one.present} of {one.records}" for place, one in held)
        raise UsageError(
            f"{present} of {count(records, 'record')} are not lost: the present leader holds them, with the same offset, "
            f"leader epoch and bytes ({each}); nothing was produced. If they are what a plan is going to lose, carry it out "
            "first; --skip-present leaves them out"
        )


def restore(
    records: SalvagedRecords,
    plan: PlannedRestore,
    cluster: WritableCluster,
    options: RestoreOptions,
    transaction_records: int = TRANSACTION_RECORDS,
) -> list[RestoredPartition]:
    """Create missing topics and produce the remaining records, a few at a time in transactions.

    Progress is read after the transactional id was taken over: from then on no earlier run can write. Raises UsageError, before
    anything is produced, as `preview` does.
    """
    for topic in plan.new_topics:
        cluster.create_topic(topic.name, topic.partitions, topic.replication_factor, topic.configs)
    try:
        return _produce(records, plan, cluster, options, transaction_records)
    except EngineError as error:
        # The client only says that requests were retried until they timed out.
        raise EngineError("; ".join([str(error), *_find_unready(plan.targets.values(), cluster)])) from None


def _produce(
    records: SalvagedRecords,
    plan: PlannedRestore,
    cluster: WritableCluster,
    options: RestoreOptions,
    transaction_records: int,
) -> list[RestoredPartition]:
    session = cluster.session(name_of(records), plan.batch_bytes)
    try:
        outcomes = [
            _settle(records, place, plan, session.progress(target.topic, target.partition), cluster, options)
            for place, target in plan.targets.items()
        ]
        if not options.skip_present:
            _refuse_present(plan, outcomes)
        for (place, target), outcome in zip(plan.targets.items(), outcomes, strict=True):
            numbered = enumerate(records.of_partition(place))
            left = (one for one in numbered if one[0] >= outcome.before and one[0] not in plan.skipped(place))
            for together in _transactions(left, transaction_records):
                produced = [_produced(record, records.cluster_id, options) for _, record in together]
                done = together[-1][0] + 1
                session.produce(target.topic, target.partition, produced, RestoreProgress(done, text_of(options)))
    finally:
        session.close()
    return outcomes


def _produced(record: SalvagedRecord, cluster_id: str | None, options: RestoreOptions) -> Produced:
    headers = with_source(record.headers, source_of(record, cluster_id)) if options.headers else record.headers
    return Produced(record.timestamp_ms, record.key, record.value, headers)


def _transactions(
    records: Iterator[tuple[int, SalvagedRecord]], most: int
) -> Iterator[list[tuple[int, SalvagedRecord]]]:
    """Numbered records, in order, divided into transactions."""
    together: list[tuple[int, SalvagedRecord]] = []
    size = 0
    for number, record in records:
        together.append((number, record))
        size += len(record.key or b"") + len(record.value or b"")
        if len(together) >= most or size >= _TRANSACTION_BYTES:
            yield together
            together = []
            size = 0
    if together:
        yield together


def counts_of(outcomes: Sequence[RestoredPartition]) -> Mapping[str, int]:
    """Sums over all partitions."""
    return {
        "records": sum(one.records for one in outcomes),
        "before": sum(one.before for one in outcomes),
        "present": sum(one.present for one in outcomes),
        "superseded": sum(one.superseded for one in outcomes),
        "left": sum(one.left for one in outcomes),
    }
