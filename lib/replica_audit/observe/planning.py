"""Plan of what to read from each live replica: first offset, its own high watermark now, and about how many bytes."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from replica_audit.errors import EngineError, FormatError
from replica_audit.model import TopicPartition
from replica_audit.observe.broker_answers import (
    EARLIEST_LOCAL,
    LATEST,
    Brokers,
    Fetched,
    ListedCluster,
    ListedPartition,
    LogSizes,
    Refused,
    ReplicaEnd,
    Throttled,
    UnreachableError,
    read_batches,
)

#: Partitions per request, and bytes per answer: enough to learn the size of a record.
_AT_ONCE = 500
_SAMPLE_BYTES = 1 << 20
_EACH_BYTES = 16 << 10
#: Partitions per request for offsets by time, each of which a broker looks up in a segment, and the pause between requests.
TIMES_AT_ONCE = 100
TIMES_PAUSE_SECONDS = 0.25

#: Seconds before a broker whose quota let nothing through is asked again, and the number of such answers after which it is given up.
THROTTLED_SECONDS = 1.0
THROTTLED_ANSWERS = 600
THROTTLED = "a quota of the broker lets nothing through"


@dataclass(frozen=True, slots=True)
class Asked:
    """Part of the logs that is to be read."""

    topics: tuple[str, ...] = ()
    """Shell patterns; empty: all topics."""
    last: int | None = None
    """Number of offsets below the greatest high watermark of a partition."""
    since_ms: int | None = None
    """Time of the first record to read."""


@dataclass(frozen=True, slots=True)
class ReplicaToRead:
    """A replica on a live broker. Offsets are 0 if it cannot be read, with the reason in `problem`."""

    partition: ListedPartition
    broker_id: int
    log_start_offset: int = 0
    start_offset: int = 0
    high_watermark: int = 0
    log_end: ReplicaEnd | None = None
    """None if the broker does not say."""
    size_bytes: int = 0
    """Estimate of the bytes to be read."""
    problem: str | None = None


@dataclass(slots=True)
class ReadingPlan:
    """The replicas to read, and what was refused."""

    cluster: ListedCluster
    replicas: list[ReplicaToRead]
    refused: list[str] = field(default_factory=list)
    untold: dict[int, str] = field(default_factory=dict)
    """Brokers that refuse to tell the sizes of their logs, with Kafka's name for the reason; their sizes are estimated
    from first batches."""
    hidden: list[str] = field(default_factory=list)
    """Parts of brokers' disks that no client can read, in words."""

    @property
    def size_bytes(self) -> int:
        """Estimate for all replicas."""
        return sum(one.size_bytes for one in self.replicas)

    def by_broker(self) -> dict[int, list[ReplicaToRead]]:
        """Readable replicas by broker."""
        found: dict[int, list[ReplicaToRead]] = defaultdict(list)
        for one in self.replicas:
            if one.problem is None:
                found[one.broker_id].append(one)
        return dict(sorted(found.items()))


@dataclass(frozen=True, slots=True)
class _Note:
    """A replica's offsets as its broker answers now."""

    partition: ListedPartition
    broker_id: int
    log_start_offset: int
    local_start_offset: int
    high_watermark: int
    log_end: ReplicaEnd | None
    bytes_per_offset: float | None


def plan_observation(brokers: Brokers, asked: Asked) -> ReadingPlan:
    """Ask every live broker about its replicas; followers first, so that none seems ahead of its leader.

    Raises EngineError if no broker answers.
    """
    try:
        cluster = brokers.cluster(asked.topics)
    except UnreachableError as error:
        raise EngineError(f"the cluster does not answer: {error}") from None
    plan = ReadingPlan(cluster, [], list(cluster.refused))
    notes: list[_Note] = []
    for leads in (False, True):
        for broker_id in cluster.brokers:
            mine = [
                one for one in cluster.partitions if broker_id in one.replicas and (one.leader_id == broker_id) is leads
            ]
            for at in range(0, len(mine), _AT_ONCE):
                some = mine[at : at + _AT_ONCE]
                for found in note_replicas(brokers, broker_id, some, _told_sizes(brokers, broker_id, some, plan)):
                    if isinstance(found, ReplicaToRead):
                        plan.replicas.append(found)
                    else:
                        notes.append(found)
    plan.replicas += _planned(brokers, _sampled(brokers, notes), asked, plan.refused)
    plan.hidden = sorted(set(plan.hidden))
    plan.replicas.sort(key=lambda one: (one.partition.topic, one.partition.partition, one.broker_id))
    return plan


def _told_sizes(
    brokers: Brokers, broker_id: int, partitions: Sequence[ListedPartition], plan: ReadingPlan
) -> Mapping[TopicPartition, int]:
    """Sizes of a broker's logs; empty if it refuses, with the reason noted in `plan`."""
    if broker_id in plan.untold:
        return {}
    answer: LogSizes | Refused
    try:
        answer = brokers.sizes(broker_id, [one.place for one in partitions])
    except UnreachableError as error:
        answer = Refused(str(error))
    if isinstance(answer, Refused):
        plan.untold[broker_id] = answer.error
        return {}
    plan.hidden += [f"broker {broker_id}: {one}" for one in answer.hidden]
    return answer.of


def note_replicas(
    brokers: Brokers,
    broker_id: int,
    partitions: Sequence[ListedPartition],
    sizes: Mapping[TopicPartition, int],
) -> Iterator[_Note | ReplicaToRead]:
    """Offsets of each replica, or the reason why it cannot be read; `sizes` are known log sizes."""
    try:
        starts = brokers.offsets(broker_id, [one.place for one in partitions], EARLIEST_LOCAL)
        readable = {}
        for one in partitions:
            start = starts.get(one.place, Refused("no answer"))
            if isinstance(start, Refused):
                yield ReplicaToRead(one, broker_id, problem=start.error)
            else:
                readable[one] = start.offset
        answers = _sample(brokers, broker_id, readable) if readable else {}
        ends = brokers.offsets(broker_id, [one.place for one in readable], LATEST) if readable else {}
    except UnreachableError as error:
        yield from (ReplicaToRead(one, broker_id, problem=f"it does not answer: {error}") for one in partitions)
        return
    for one, start_offset in readable.items():
        answer = answers.get(one.place, Refused("no answer"))
        if isinstance(answer, Refused):
            yield ReplicaToRead(one, broker_id, problem=answer.error)
            continue
        said = ends.get(one.place)
        end = said if isinstance(said, ReplicaEnd) else None
        offsets = (answer.high_watermark if end is None else end.offset) - start_offset
        yield _Note(
            one,
            broker_id,
            answer.log_start_offset,
            min(start_offset, answer.high_watermark),
            answer.high_watermark,
            end,
            sizes[one.place] / offsets if one.place in sizes and offsets > 0 else _density(answer),
        )


def _sample(
    brokers: Brokers, broker_id: int, starts: Mapping[ListedPartition, int]
) -> Mapping[TopicPartition, Fetched | Refused]:
    """High watermarks, with first batches as far as they come; waits for quotas."""
    for _ in range(THROTTLED_ANSWERS):
        found = brokers.fetch(broker_id, starts, _SAMPLE_BYTES, _EACH_BYTES)
        come = {place: one for place, one in found.items() if not isinstance(one, Throttled)}
        if come or not found:
            return come
        time.sleep(THROTTLED_SECONDS)
    return {one.place: Refused(THROTTLED) for one in starts}


def _sampled(brokers: Brokers, notes: Sequence[_Note]) -> list[_Note]:
    """Notes with a batch size for every topic: a topic without one is asked for alone, since in a large request a broker sends
    nothing for partitions whose first batch exceeds the room left, except the very first (`ReplicaManager.readFromLog`)."""
    found = list(notes)
    known = {one.partition.topic for one in notes if one.bytes_per_offset is not None}
    for at, one in enumerate(notes):
        if one.partition.topic in known or one.high_watermark <= one.local_start_offset:
            continue
        try:
            answer = _sample(brokers, one.broker_id, {one.partition: one.local_start_offset}).get(one.partition.place)
        except UnreachableError:
            continue  # reading reports it
        if isinstance(answer, Fetched) and (density := _density(answer)) is not None:
            found[at] = replace(one, bytes_per_offset=density)
            known.add(one.partition.topic)
    return found


def _density(answer: Fetched) -> float | None:
    """Bytes per offset in an answer's batches; None without batches."""
    try:
        batches = read_batches(answer.records)
    except FormatError:
        return None  # reading the log reports it
    if not len(batches):
        return None
    return int(batches["size"].sum()) / (int(batches["last_offset"][-1]) + 1 - int(batches["base_offset"][0]))


def _planned(brokers: Brokers, notes: Sequence[_Note], asked: Asked, refused: list[str]) -> Iterator[ReplicaToRead]:
    of_partition: dict[TopicPartition, list[_Note]] = defaultdict(list)
    of_topic: dict[str, list[float | None]] = defaultdict(list)
    for one in notes:
        of_partition[one.partition.place].append(one)
        of_topic[one.partition.topic].append(one.bytes_per_offset)
    densities = {topic: _mean(known) for topic, known in of_topic.items()}
    of_all = _mean(densities.values())
    since = {} if asked.since_ms is None else _since(brokers, of_partition, asked.since_ms, refused)
    for place, copies in of_partition.items():
        wanted = _wanted_start(copies, asked.last, since.get(place))
        density = _mean(one.bytes_per_offset for one in copies) or densities[place.topic] or of_all or 0.0
        for one in copies:
            start = max(one.local_start_offset, wanted)
            size = round((one.bytes_per_offset or density) * (one.high_watermark - start))
            yield ReplicaToRead(
                one.partition, one.broker_id, one.log_start_offset, start, one.high_watermark, one.log_end, max(0, size)
            )


def _since(
    brokers: Brokers, of_partition: Mapping[TopicPartition, Sequence[_Note]], since_ms: int, refused: list[str]
) -> dict[TopicPartition, int]:
    """First offset since a time, by the leader of each partition or, without a leader, another replica; -1: none."""
    by_broker: dict[int, list[TopicPartition]] = defaultdict(list)
    for place, copies in of_partition.items():
        asked = next((one for one in copies if one.broker_id == one.partition.leader_id), copies[0])
        by_broker[asked.broker_id].append(place)
    found = {}
    for broker_id, places in by_broker.items():
        for at in range(0, len(places), TIMES_AT_ONCE):
            some = places[at : at + TIMES_AT_ONCE]
            if at:
                time.sleep(TIMES_PAUSE_SECONDS)
            answers: Mapping[TopicPartition, ReplicaEnd | Refused]
            try:
                answers = brokers.offsets(broker_id, some, since_ms)
            except UnreachableError as error:
                answers = dict.fromkeys(some, Refused(str(error)))
            for place in some:
                answer = answers.get(place, Refused("no answer"))
                if isinstance(answer, Refused):
                    refused.append(
                        f"the first offset of {place} since that time: {answer.error}; it is read from its start"
                    )
                else:
                    found[place] = answer.offset
    return found


def _wanted_start(copies: Sequence[_Note], last: int | None, since: int | None) -> int:
    """First offset to read of a partition; never above the end of any replica, so that missing records are seen."""
    greatest = max(one.high_watermark for one in copies)
    starts = [0]
    if last is not None:
        starts.append(greatest - last)
    if since is not None:
        starts.append(greatest if since < 0 else since)
    return min(max(starts), *(one.high_watermark for one in copies))


def _mean(values: Iterable[float | None]) -> float | None:
    known = [one for one in values if one is not None]
    return sum(known) / len(known) if known else None


def planned_again(brokers: Brokers, one: ReplicaToRead) -> ReplicaToRead:
    """Plan anew for a replica whose log was cut or expired while it was read."""
    found = next(iter(note_replicas(brokers, one.broker_id, [one.partition], {})))
    if isinstance(found, ReplicaToRead):
        return found
    start = min(max(found.local_start_offset, one.start_offset), found.high_watermark)
    return replace(
        one,
        log_start_offset=found.log_start_offset,
        start_offset=start,
        high_watermark=found.high_watermark,
        log_end=found.log_end,
    )
