"""Brokers as a client sees them: requests of Kafka's protocol answered from logs in memory, as `ReplicaManager` and `KafkaApis` do."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from kafka.errors import KafkaConnectionError
from kafka.protocol import admin, consumer, metadata
from tests.support.encoder import encode_batch, make_records

from replica_audit.client_properties import ClientProperties, read_client_properties
from replica_audit.observe.agreement import AgreedBytes
from replica_audit.observe.kafka_brokers import KafkaBrokers
from replica_audit.observe.observing import Observed, observe
from replica_audit.observe.planning import Asked, ReadingPlan, plan_observation

TOPIC_ID = UUID(int=0x1234)
#: All topics, from where their logs begin.
ALL = Asked()
_OUT_OF_RANGE, _UNKNOWN_TOPIC, _TOPIC_REFUSED, _GROUP_REFUSED, _CLUSTER_REFUSED, _STORAGE_ERROR = 1, 3, 29, 30, 31, 56


@dataclass
class Replica:
    """One replica: its batches as they are on disk."""

    batches: list[bytes]
    high_watermark: int
    log_start: int = 0
    error: int = 0
    hides_end: bool = False
    log_end: int = 0
    """Log end behind a hole that a cleaner left."""

    @property
    def end(self) -> int:
        return max([self.log_start, self.log_end, *(_span(one)[1] for one in self.batches)])


def _span(batch: bytes) -> tuple[int, int]:
    """Base offset, and offset after the last record."""
    base, delta = struct.unpack_from(">q", batch)[0], struct.unpack_from(">i", batch, 23)[0]
    return base, base + delta + 1


def batches_of(*epochs: int, size: int = 10, mark: str = "") -> list[bytes]:
    """One batch of `size` records for each epoch."""
    return [encode_batch(number * size, make_records(size, mark), epoch) for number, epoch in enumerate(epochs)]


@dataclass
class AnsweringBrokers:
    """All brokers of a cluster (`observe.kafka_brokers.Sender`). `before` is told of each Fetch before it is answered."""

    replicas: dict[tuple[str, int], dict[int, Replica]]
    leaders: dict[tuple[str, int], int] = field(default_factory=dict)
    down: set[int] = field(default_factory=set)
    refused_topics: set[str] = field(default_factory=set)
    configs: dict[str, str] = field(default_factory=lambda: {"min.insync.replicas": "2", "cleanup.policy": "delete"})
    groups: dict[str, dict[tuple[str, int], tuple[int, int]]] = field(default_factory=dict)
    refused_groups: set[str] = field(default_factory=set)
    elr: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    isr: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    newest: dict[type, int] = field(default_factory=dict)
    """The greatest version that brokers know of a request, where that is not the newest; -1: they do not know it."""
    before: Callable[[int, int], None] = lambda broker, offset: None
    local_start: int = 0
    """No log has anything on its disk below."""
    throttled: int = 0
    """Number of Fetch requests answered without any partition, by a quota (`FetchContext.getThrottledResponse`)."""
    hides_sizes: bool = True
    """Sizes of logs are for those only who may describe the cluster."""
    moving: dict[int, tuple[str, int]] = field(default_factory=dict)
    """The partition that each broker copies to another log dir."""
    offline: dict[int, str] = field(default_factory=dict)
    """A log dir of each broker that failed."""
    drops: list[Exception] = field(default_factory=list)
    """Faults that replace the answers to the next requests, in order."""
    delays: dict[int, float] = field(default_factory=dict)
    waited_ms: float = 0.0
    sent: list[tuple[int, str]] = field(default_factory=list)

    @property
    def brokers(self) -> list[int]:
        return sorted({broker for copies in self.replicas.values() for broker in copies} - self.down)

    def client(self, properties: ClientProperties | None = None) -> KafkaBrokers:
        """A client of these brokers."""
        return KafkaBrokers(self, self.brokers, properties or read_client_properties(None))

    def plan(self, asked: Asked = ALL) -> ReadingPlan:
        """Plan of what to read from them."""
        return plan_observation(self.client(), asked)

    def observe(
        self,
        path: Path,
        asked: Asked = ALL,
        *,
        plan: ReadingPlan | None = None,
        connect: Callable[[], KafkaBrokers] | None = None,
        rate: int = 1 << 40,
        agreement: AgreedBytes | None = None,
    ) -> Observed:
        """Write at `path` what can be read of them, by a plan that is made now where none is given, as fast as it comes and as much."""
        agreed = agreement or AgreedBytes(1 << 40, lambda came_bytes: False)
        return observe(self.client(), connect or self.client, plan or self.plan(asked), asked, str(path), rate, agreed)

    def close(self) -> None:
        pass

    def throttle_delay(self, node_id: int) -> float:
        """Milliseconds for which nothing may be sent: `poll` lets them pass."""
        return self.delays.get(node_id, 0.0)

    def poll(self, timeout_ms: float) -> None:
        """Let time pass."""
        self.waited_ms += timeout_ms
        self.delays.clear()

    def send_and_receive(self, node_id: int, request: Any, timeout_ms: int = 0) -> Any:
        """The answer, through the bytes that it has on the wire."""
        from kafka.errors import IncompatibleBrokerVersion

        if self.drops:
            raise self.drops.pop(0)
        if node_id in self.down:
            raise KafkaConnectionError("Connection refused")
        kind = type(request).mro()[0]
        newest = self.newest.get(kind, request.max_version)
        version = min(request.max_version, newest, getattr(request, "_max_version", None) or 99)
        if version < (getattr(request, "_min_version", None) or 0):
            raise IncompatibleBrokerVersion(kind.__name__)
        asked = kind.decode(request.encode(version=version), version=version)
        self.sent.append((node_id, kind.__name__))
        answer = getattr(self, f"_answer_{kind.__name__}")(node_id, asked)
        return type(answer).decode(answer.encode(version=version), version=version)

    def _seen(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for topic, partition in sorted(self.replicas):
            if topic not in self.refused_topics:
                found.setdefault(topic, []).append(partition)
        return found

    def _answer_MetadataRequest(self, node: int, request: Any) -> Any:
        response = metadata.MetadataResponse
        topic = response.MetadataResponseTopic
        seen = self._seen()
        named = sorted(seen) if request.topics is None else [one.name for one in request.topics]
        topics = []
        for name in named:
            error = _TOPIC_REFUSED if name in self.refused_topics else 0 if name in seen else _UNKNOWN_TOPIC
            parts = [self._partition(topic.MetadataResponsePartition, name, one) for one in seen.get(name, ())]
            topics.append(
                topic(
                    error_code=error,
                    name=name,
                    topic_id=TOPIC_ID,
                    is_internal=False,
                    partitions=parts if not error else [],
                )
            )
        brokers = [response.MetadataResponseBroker(node_id=one, host="b", port=9, rack=None) for one in self.brokers]
        return response(throttle_time_ms=0, brokers=brokers, cluster_id="c1", controller_id=node, topics=topics)

    def _partition(self, kind: Any, topic: str, partition: int, **more: object) -> Any:
        place = (topic, partition)
        copies = sorted(self.replicas[place])
        return kind(
            error_code=0,
            partition_index=partition,
            leader_id=self.leaders.get(place, -1),
            leader_epoch=1,
            replica_nodes=copies,
            isr_nodes=self.isr.get(place, copies),
            offline_replicas=[one for one in copies if one in self.down],
            **more,
        )

    def _answer_DescribeTopicPartitionsRequest(self, node: int, request: Any) -> Any:
        response = admin.DescribeTopicPartitionsResponse
        topic = response.DescribeTopicPartitionsResponseTopic
        topics = []
        for one in request.topics:
            parts = [
                self._partition(
                    topic.DescribeTopicPartitionsResponsePartition,
                    one.name,
                    number,
                    eligible_leader_replicas=self.elr.get((one.name, number), []),
                    last_known_elr=[],
                )
                for number in self._seen().get(one.name, ())
            ]
            topics.append(topic(error_code=0, name=one.name, topic_id=TOPIC_ID, is_internal=False, partitions=parts))
        return response(throttle_time_ms=0, topics=topics, next_cursor=None)

    def _answer_DescribeConfigsRequest(self, node: int, request: Any) -> Any:
        response = admin.DescribeConfigsResponse
        result = response.DescribeConfigsResult
        entry = result.DescribeConfigsResourceResult
        results = []
        for one in request.resources:
            values = [
                entry(name=name, value=value, read_only=False, config_source=5, is_sensitive=False, synonyms=[])
                for name, value in self.configs.items()
            ]
            error = 0 if self.configs else _TOPIC_REFUSED
            results.append(
                result(
                    error_code=error,
                    error_message=None,
                    resource_type=2,
                    resource_name=one.resource_name,
                    configs=values,
                )
            )
        return response(throttle_time_ms=0, results=results)

    def _answer_ListGroupsRequest(self, node: int, request: Any) -> Any:
        response = admin.ListGroupsResponse
        own = self.groups if node == self.brokers[0] else {}
        groups = [
            response.ListedGroup(group_id=one, protocol_type="consumer", group_state="Stable", group_type="classic")
            for one in sorted(own)
        ]
        return response(throttle_time_ms=0, error_code=0, groups=groups)

    def _answer_OffsetFetchRequest(self, node: int, request: Any) -> Any:
        response = consumer.OffsetFetchResponse
        topic = response.OffsetFetchResponseTopic
        error = _GROUP_REFUSED if request.group_id in self.refused_groups else 0
        parts: dict[str, list[Any]] = {}
        for (name, partition), (offset, epoch) in ({} if error else self.groups[request.group_id]).items():
            one = topic.OffsetFetchResponsePartition(
                partition_index=partition,
                committed_offset=offset,
                committed_leader_epoch=epoch,
                metadata="",
                error_code=0,
            )
            parts.setdefault(name, []).append(one)
        topics = [topic(name=name, partitions=of_topic) for name, of_topic in parts.items()]
        return response(throttle_time_ms=0, topics=topics, error_code=error)

    def _answer_DescribeLogDirsRequest(self, node: int, request: Any) -> Any:
        response = admin.DescribeLogDirsResponse
        result = response.DescribeLogDirsResult
        topic = result.DescribeLogDirsTopic
        if self.hides_sizes:
            return response(throttle_time_ms=0, error_code=_CLUSTER_REFUSED, results=[])

        def logs(places: Iterable[tuple[str, int]], is_moving: bool) -> list[Any]:
            found = []
            for name, partition in places:
                size = sum(map(len, self.replicas[name, partition][node].batches))
                part = topic.DescribeLogDirsPartition(
                    partition_index=partition, partition_size=size, offset_lag=0, is_future_key=is_moving
                )
                found.append(topic(name=name, partitions=[part]))
            return found

        places = [(one.topic, part) for one in request.topics for part in one.partitions]
        dirs = [("/d1", 0, logs([place for place in places if node in self.replicas[place]], False))]
        if node in self.moving:
            dirs.append(("/d2", 0, logs([self.moving[node]], True)))
        if node in self.offline:
            dirs.append((self.offline[node], _STORAGE_ERROR, []))
        results = [result(error_code=error, log_dir=path, topics=topics) for path, error, topics in dirs]
        return response(throttle_time_ms=0, error_code=0, results=results)

    def _answer_ListOffsetsRequest(self, node: int, request: Any) -> Any:
        response = consumer.ListOffsetsResponse
        topic = response.ListOffsetsTopicResponse
        topics = []
        for asked in request.topics:
            parts = []
            for one in asked.partitions:
                replica = self.replicas[asked.name, one.partition_index].get(node)
                # Others than debugging consumers are sent to the leader.
                leads = self.leaders.get((asked.name, one.partition_index)) == node
                error, offset, epoch = 0, -1, -1
                if replica is None or (request.replica_id != -2 and not leads):
                    error = 6
                elif one.timestamp == -1:
                    error, offset = (78 if replica.hides_end else 0), replica.end
                    epoch = struct.unpack_from(">i", replica.batches[-1], 12)[0] if replica.batches else -1
                elif one.timestamp in (-2, -4):
                    offset = max(replica.log_start, self.local_start if one.timestamp == -4 else 0)
                else:
                    newer = [_span(batch)[0] for batch in replica.batches if _time_of(batch) >= one.timestamp]
                    offset = min(newer, default=-1)
                parts.append(
                    topic.ListOffsetsPartitionResponse(
                        partition_index=one.partition_index,
                        error_code=error,
                        timestamp=-1,
                        offset=offset,
                        leader_epoch=epoch,
                    )
                )
            topics.append(topic(name=asked.name, partitions=parts))
        return response(throttle_time_ms=0, topics=topics)

    def _answer_FetchRequest(self, node: int, request: Any) -> Any:
        response = consumer.FetchResponse
        topic = response.FetchableTopicResponse
        topics = []
        left, is_first = request.max_bytes, True
        if self.throttled > 0:
            self.throttled -= 1
            return response(throttle_time_ms=500, error_code=0, session_id=0, responses=[])
        for asked in request.topics:
            name = asked.topic or next(topic for topic, _ in self.replicas)
            parts = []
            for one in asked.partitions:
                self.before(node, one.fetch_offset)
                replica = self.replicas[name, one.partition].get(node)
                error, records, mark, start = 6, b"", -1, -1
                if replica is not None:
                    mark, start, error = replica.high_watermark, replica.log_start, replica.error
                    if name in self.refused_topics:
                        error = _TOPIC_REFUSED
                    if not error and not replica.log_start <= one.fetch_offset <= replica.end:
                        error = _OUT_OF_RANGE
                    if not error:
                        records = _sent(replica, one.fetch_offset, min(one.partition_max_bytes, left), is_first)
                        left, is_first = max(0, left - len(records)), is_first and not records
                parts.append(
                    topic.PartitionData(
                        partition_index=one.partition, error_code=error, high_watermark=mark, last_stable_offset=mark,
                        log_start_offset=start, aborted_transactions=None, preferred_read_replica=-1, records=records,
                    )
                )  # fmt: skip
            topics.append(topic(topic=name, topic_id=TOPIC_ID, partitions=parts))
        return response(throttle_time_ms=0, error_code=0, session_id=0, responses=topics)


def _time_of(batch: bytes) -> int:
    return struct.unpack_from(">q", batch, 35)[0]


def _sent(replica: Replica, offset: int, max_bytes: int, is_first: bool) -> bytes:
    """Batches below the high watermark from that with `offset` on, as many bytes as there is room for. At least one batch comes
    of the first partition with data; of others nothing, where their first one is longer (`ReplicaManager.readFromLog`)."""
    found = [one for one in replica.batches if _span(one)[1] > offset and _span(one)[1] <= replica.high_watermark]
    if not found or (len(found[0]) > max_bytes and not is_first):
        return b""
    return b"".join(found)[: max(max_bytes, len(found[0]))]


def in_sync(batches: Sequence[bytes], brokers: Iterable[int] = (1, 2, 3)) -> dict[int, Replica]:
    """Cluster with the same log on each broker, all of it committed."""
    end = max([0, *(_span(one)[1] for one in batches)])
    return {broker: Replica(list(batches), end) for broker in brokers}


def write_observed(path: Path) -> Path:
    """Write the snapshot of `observe` for a cluster with a follower that differs, one that may go on, and a group."""
    copies = {broker: Replica(batches_of(0, 0, 1), mark) for broker, mark in ((1, 30), (2, 20), (3, 30))}
    copies[3].batches[0] = batches_of(0, mark="other")[0]
    place = ("orders", 0)
    cluster = AnsweringBrokers({place: copies, ("empty", 0): in_sync([])}, {place: 1}, groups={"g": {place: (25, 1)}})
    cluster.observe(path)
    return path
