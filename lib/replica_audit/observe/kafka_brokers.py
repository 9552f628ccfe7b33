"""`Brokers` by kafka-python: the one module that imports it, and only when a cluster is contacted.

A consumer may read from followers too (KIP-392): from version 11 on they answer Fetch up to their own high watermark,
even without a leader (`ReplicaManager.fetchMessages`). Followers answer ListOffsets with the replica id of a debugging
consumer by their own log end (`KafkaApis.handleListOffsetRequest`). Neither needs more than READ and DESCRIBE.
"""

from __future__ import annotations

import logging
import re
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from typing import Any, Protocol
from uuid import UUID

from replica_audit.client_properties import ClientProperties
from replica_audit.errors import EngineError, UsageError
from replica_audit.model import TopicPartition
from replica_audit.observe.broker_answers import (
    EARLIEST,
    EARLIEST_LOCAL,
    CommittedOffsets,
    Fetched,
    ListedCluster,
    ListedPartition,
    LogSizes,
    Refused,
    ReplicaEnd,
    Throttled,
    UnreachableError,
)
from replica_audit.parsing import matches
from replica_audit.redaction import redact

#: Client id in brokers' logs and quotas.
CLIENT_ID = "replica-audit-observe"

_FIRST_LOCAL_VERSION = 8
_CONSUMER = -1
_DEBUGGING_CONSUMER = -2
_FOLLOWERS_ANSWER = 11
_BY_TOPIC_ID = 13
_NO_ID = UUID(int=0)
_TIMEOUT_MS = 30_000
_ADDRESS = re.compile(r"\s*(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):\d{1,5}\s*")
_GREATEST_ANSWER = 1 << 30
_TOPIC = 2  # ConfigResource.Type
_NO_ERROR = 0
_CLUSTER_REFUSED = 31
_PARTITIONS_IN_ANSWER = 2_000

#: Pauses before a request is sent again whose connection was closed, by the broker or by this client as idle.
RECONNECT_SECONDS = (0.5, 2.0)


class Sender(Protocol):
    """Sends a request of the protocol to one broker and returns the answer (`kafka.net.compat.KafkaNetClient`)."""

    def send_and_receive(self, node_id: int, request: Any, timeout_ms: int = ...) -> Any: ...

    def throttle_delay(self, node_id: int) -> float:
        """Milliseconds for which a broker's quota lets nothing be sent to it."""

    def poll(self, timeout_ms: float) -> None:
        """Serve connections until something happens or the time has passed."""

    def close(self) -> None: ...


#: Number of tries of an address that kafka-python is still waiting for.
_ATTEMPTS = 3
_CLOSED = "the connection was closed: the listener wants another security.protocol, or the login was refused"
_CLOSED_AT_LOGIN = (
    "the brokers closed the connection while logging in: the listener wants another security.protocol, with or without TLS, or the login "
    "was refused: look at the password and sasl.mechanism"
)


def check_addresses(bootstrap: str) -> None:
    """Raise UsageError unless `bootstrap` is a list of addresses, separated by commas."""
    if not all(map(_ADDRESS.fullmatch, bootstrap.split(","))):
        raise UsageError(
            f"observe --bootstrap-servers {redact(bootstrap)[:200]}: expected HOST:PORT, separated by commas"
        )


def connect(bootstrap: str, properties: ClientProperties) -> KafkaBrokers:
    """Connect to a cluster. Raises UsageError for a rejected setting, EngineError if kafka-python is missing or no broker answers."""
    settings = properties.for_kafka_python()
    try:
        from kafka.net.compat import KafkaNetClient
        from kafka.net.manager import KafkaConnectionManager
        from kafka.net.selector import NetworkSelector
    except ImportError as error:
        raise EngineError(f"observe needs kafka-python 3: pip install 'replica-audit[cluster]' ({error})") from error
    # Callers report errors; kafka-python's own lines have addresses and no reason.
    log = logging.getLogger("kafka")
    log.addHandler(logging.NullHandler())
    log.propagate = False
    timeout = int(settings.get("request_timeout_ms", _TIMEOUT_MS))
    own = {**settings, "client_id": CLIENT_ID, "receive_message_max_bytes": _GREATEST_ANSWER}
    try:
        net = NetworkSelector()
        manager = KafkaConnectionManager(net, bootstrap_servers=bootstrap.split(","), **own)
        client = KafkaNetClient(net, manager)
        logs_in = "SASL" in str(settings.get("security_protocol", "PLAINTEXT"))
        manager.run(reach_one, net, manager, logs_in)
        client.check_version(timeout_ms=timeout)
        known = sorted(one.node_id for one in client.cluster.brokers())
    except Exception as error:
        kind = UsageError if isinstance(error, (ValueError, AssertionError, OSError)) else EngineError
        why = properties.hide(_words(error))
        raise kind(f"the cluster at {bootstrap}: {why}; check --bootstrap-servers and --command-config") from None
    return KafkaBrokers(client, known, properties, timeout)


async def reach_one(net: Any, manager: Any, logs_in: bool) -> None:
    """Connect to any of the given addresses. If all fail, raise the most telling reason, which bootstrapping hides: a
    broker that refuses a login may close the connection before its answer is read."""
    from kafka.errors import KafkaConnectionError, NodeNotReadyError, SaslAuthenticationFailedError

    problems: list[Exception] = []
    for node in manager.cluster.bootstrap_brokers():
        for left in reversed(range(_ATTEMPTS)):
            try:
                await manager.get_connection(node.node_id)
                return
            except NodeNotReadyError as error:
                # kafka-python waits after an attempt that failed before. Only another attempt tells why.
                if not left:
                    problems.append(error)
                    break
                await net.sleep(manager.connection_delay(node.node_id))
            except Exception as error:
                problems.append(error)
                break
    refused = [one for one in problems if isinstance(one, SaslAuthenticationFailedError)]
    # A broker that closes before it has read the request resets the connection.
    told = [
        one
        for one in problems
        if not isinstance(one, NodeNotReadyError)
        and not re.search(r"disconnected|ECONNRESET|reset by peer|EPIPE|Broken pipe", str(one))
    ]
    if refused or told:
        raise (refused or told)[0]
    raise KafkaConnectionError(_CLOSED_AT_LOGIN if logs_in else _CLOSED)


def _words(error: BaseException) -> str:
    text = str(error).strip()
    name = type(error).__name__
    if not text:
        return name
    return text if text.startswith(name) else f"{name}: {text}"


class _UnsupportedError(UnreachableError):
    """The broker's version does not know the request."""


class KafkaBrokers:
    """`broker_answers.Brokers` over a `Sender`; `known` are the brokers to ask for metadata."""

    def __init__(
        self, sender: Sender, known: Sequence[int], properties: ClientProperties, timeout_ms: int = _TIMEOUT_MS
    ) -> None:
        from kafka import errors
        from kafka.protocol import admin, consumer, metadata

        self._sender = sender
        self._known = known
        self._properties = properties
        self._timeout_ms = timeout_ms
        self._errors = errors
        self._admin = admin
        self._consumer = consumer
        self._metadata = metadata

    def close(self) -> None:
        self._sender.close()

    def cluster(self, topics: Sequence[str]) -> ListedCluster:
        """Live brokers, and the partitions of topics that match a shell pattern; of all topics without patterns."""
        request = self._metadata.MetadataRequest
        answer = self._of_any(request(topics=None, allow_auto_topic_creation=False))
        found = list(answer.topics)
        seen = {one.name for one in found}
        # Topics that the client may not describe are missing from a list of all topics, and give an error when named.
        named = [one for one in topics if one not in seen and not set(one) & set("*?[")]
        if named:
            asked = [request.MetadataRequestTopic(name=one) for one in named]
            found += self._of_any(request(topics=asked, allow_auto_topic_creation=False)).topics
        wanted = sorted((one for one in found if matches(topics, one.name)), key=lambda one: one.name)
        refused = [f"topic {one.name}: {self._name(one.error_code)}" for one in wanted if one.error_code != _NO_ERROR]
        listed = [one for one in wanted if one.error_code == _NO_ERROR]
        eligible, why = self._eligible([one.name for one in listed])
        partitions = [
            ListedPartition(
                topic.name,
                _id_of(topic),
                one.partition_index,
                one.leader_id if one.leader_id >= 0 else None,
                one.leader_epoch if one.leader_epoch >= 0 else None,
                tuple(one.replica_nodes),
                tuple(sorted(one.isr_nodes)),
                *eligible.get((topic.name, one.partition_index), ((), ())),
            )
            for topic in listed
            for one in sorted(topic.partitions, key=lambda one: one.partition_index)
        ]
        brokers = tuple(sorted(one.node_id for one in answer.brokers))
        return ListedCluster(answer.cluster_id, brokers, tuple(partitions), (*refused, *why))

    def _eligible(
        self, topics: Sequence[str]
    ) -> tuple[dict[tuple[str, int], tuple[tuple[int, ...], tuple[int, ...]]], list[str]]:
        """Eligible leader replicas, and last known ones, of each partition that has any (KIP-966)."""
        request = self._admin.DescribeTopicPartitionsRequest
        found: dict[tuple[str, int], tuple[tuple[int, ...], tuple[int, ...]]] = {}
        cursor = None
        asked = [request.TopicRequest(name=one) for one in sorted(topics)]
        while asked:
            try:
                answer = self._of_any(
                    request(topics=asked, response_partition_limit=_PARTITIONS_IN_ANSWER, cursor=cursor)
                )
            except _UnsupportedError:
                return {}, []  # before 4.0 there are no eligible leader replicas
            except UnreachableError as error:
                return {}, [f"eligible leader replicas: {error}"]
            for topic in answer.topics:
                for one in topic.partitions:
                    eligible = tuple(sorted(one.eligible_leader_replicas or ()))
                    last_known = tuple(sorted(one.last_known_elr or ()))
                    found[topic.name, one.partition_index] = (eligible, last_known)
            following = answer.next_cursor
            if following is None:
                break
            cursor = request.Cursor(topic_name=following.topic_name, partition_index=following.partition_index)
            asked = [one for one in asked if one.name >= following.topic_name]
        return found, []

    def configs(self, topics: Sequence[str]) -> tuple[Mapping[str, Mapping[str, str]], tuple[str, ...]]:
        """Configuration of each topic, and clauses on what was refused."""
        request = self._admin.DescribeConfigsRequest
        found: dict[str, dict[str, str]] = {}
        refused = []
        for at in range(0, len(topics), _PARTITIONS_IN_ANSWER):
            resources = [
                request.DescribeConfigsResource(resource_type=_TOPIC, resource_name=one, configuration_keys=None)
                for one in topics[at : at + _PARTITIONS_IN_ANSWER]
            ]
            answer = self._of_any(request(resources=resources, include_synonyms=False))
            for one in answer.results:
                if one.error_code != _NO_ERROR:
                    refused.append(f"the configuration of topic {one.resource_name}: {self._name(one.error_code)}")
                    continue
                found[one.resource_name] = {
                    entry.name: entry.value for entry in one.configs if entry.value and not entry.is_sensitive
                }
        return found, tuple(refused)

    def committed(self, brokers: Iterable[int]) -> CommittedOffsets:
        """Offsets of the groups that the client may describe, asked of each group's coordinator."""
        offsets: dict[str, dict[TopicPartition, tuple[int, int | None]]] = defaultdict(dict)
        refused = []
        for broker in brokers:
            try:
                answer = self._ask(broker, self._admin.ListGroupsRequest())
                if answer.error_code != _NO_ERROR:
                    refused.append(f"the groups of broker {broker}: {self._name(answer.error_code)}")
                    continue
                for group in answer.groups:
                    # From version 8 on a request has several groups, from version 10 on topic ids instead of names.
                    request = self._consumer.OffsetFetchRequest(
                        group_id=group.group_id, topics=None, min_version=2, max_version=7
                    )
                    said = self._ask(broker, request)
                    if said.error_code != _NO_ERROR:
                        refused.append(f"the offsets of group {group.group_id}: {self._name(said.error_code)}")
                    else:
                        offsets[group.group_id].update(_committed_in(said))
            except UnreachableError as error:
                refused.append(f"the groups of broker {broker}: {error}")
        return CommittedOffsets(dict(offsets), tuple(refused))

    def offsets(
        self, broker_id: int, places: Sequence[TopicPartition], timestamp: int
    ) -> Mapping[TopicPartition, ReplicaEnd | Refused]:
        """Offsets in a replica's own log, regardless of the leader: its end (`LATEST`), its first local offset, or the
        first record since a time in ms."""
        request = self._consumer.ListOffsetsRequest
        by_topic: dict[str, list[Any]] = defaultdict(list)
        for place in places:
            one = request.ListOffsetsTopic.ListOffsetsPartition(
                partition_index=place.partition, current_leader_epoch=-1, timestamp=timestamp
            )
            by_topic[place.topic].append(one)
        asked = [request.ListOffsetsTopic(name=name, partitions=parts) for name, parts in by_topic.items()]
        least = _FIRST_LOCAL_VERSION if timestamp == EARLIEST_LOCAL else 4
        message = request(
            replica_id=_DEBUGGING_CONSUMER, isolation_level=0, topics=asked, min_version=least, max_version=9
        )
        try:
            answer = self._ask(broker_id, message)
        except _UnsupportedError:
            if timestamp != EARLIEST_LOCAL:
                raise
            return self.offsets(broker_id, places, EARLIEST)  # there is no tier in that version
        found: dict[TopicPartition, ReplicaEnd | Refused] = {}
        for topic in answer.topics:
            for one in topic.partitions:
                place = TopicPartition(topic.name, one.partition_index)
                if one.error_code != _NO_ERROR:
                    found[place] = Refused(self._name(one.error_code))
                else:
                    found[place] = ReplicaEnd(one.offset, one.leader_epoch if one.leader_epoch >= 0 else None)
        return found

    def sizes(self, broker_id: int, places: Sequence[TopicPartition]) -> LogSizes | Refused:
        """Sizes of a broker's logs, or the error: it needs the right to describe the cluster."""
        by_topic: dict[str, list[int]] = defaultdict(list)
        for place in places:
            by_topic[place.topic].append(place.partition)
        request = self._admin.DescribeLogDirsRequest
        asked = [request.DescribableLogDirTopic(topic=name, partitions=parts) for name, parts in by_topic.items()]
        try:
            answer = self._ask(broker_id, request(topics=asked))
        except _UnsupportedError as error:
            return Refused(str(error))
        # Before version 3 a refusal is an answer without log dirs.
        code = getattr(answer, "error_code", None) or (_NO_ERROR if answer.results else _CLUSTER_REFUSED)
        if code != _NO_ERROR:
            return Refused(self._name(code))
        found: dict[TopicPartition, int] = {}
        hidden = []
        for log_dir in answer.results:
            if log_dir.error_code != _NO_ERROR:
                hidden.append(f"log dir {log_dir.log_dir}: {self._name(log_dir.error_code)}")
            for topic in log_dir.topics:
                for one in topic.partitions:
                    place = TopicPartition(topic.name, one.partition_index)
                    if one.is_future_key:
                        hidden.append(f"the copy of {place} that is moving to log dir {log_dir.log_dir}")
                    else:
                        found[place] = one.partition_size
        return LogSizes(found, tuple(hidden))

    def fetch(
        self, broker_id: int, starts: Mapping[ListedPartition, int], max_bytes: int, each_bytes: int
    ) -> Mapping[TopicPartition, Fetched | Refused | Throttled]:
        """Batches of a broker's own replicas below their high watermarks, without waiting: at most `max_bytes` in all,
        but at least one batch.

        Brokers that know topic ids answer for exactly that topic id.
        """
        request = self._consumer.FetchRequest
        by_topic: dict[str, list[Any]] = defaultdict(list)
        ids = {one.topic: _uuid(one.topic_id) for one in starts}
        for one, offset in starts.items():
            part = request.FetchTopic.FetchPartition(
                partition=one.partition,
                current_leader_epoch=-1,
                fetch_offset=offset,
                last_fetched_epoch=-1,
                log_start_offset=-1,
                partition_max_bytes=each_bytes,
            )
            by_topic[one.topic].append(part)
        asked = [
            request.FetchTopic(topic=name, topic_id=ids[name] or _NO_ID, partitions=parts)
            for name, parts in by_topic.items()
        ]
        answer = self._ask(
            broker_id,
            request(
                replica_id=_CONSUMER,
                max_wait_ms=0,
                min_bytes=0,
                max_bytes=max_bytes,
                isolation_level=0,
                session_id=0,
                session_epoch=-1,
                topics=asked,
                forgotten_topics_data=[],
                rack_id="",
                min_version=_FOLLOWERS_ANSWER,
                max_version=_BY_TOPIC_ID if all(ids.values()) else _BY_TOPIC_ID - 1,
            ),
        )
        if answer.error_code != _NO_ERROR:
            return {one.place: Refused(self._name(answer.error_code)) for one in starts}
        if answer.throttle_time_ms > 0 and not answer.responses:
            return {one.place: Throttled() for one in starts}
        names = {topic_id: name for name, topic_id in ids.items()}
        found: dict[TopicPartition, Fetched | Refused | Throttled] = {}
        for topic in answer.responses:
            name = topic.topic or names[topic.topic_id]
            for one in topic.partitions:
                found[TopicPartition(name, one.partition_index)] = self._fetched(one)
        return found

    def _fetched(self, one: Any) -> Fetched | Refused:
        if one.error_code != _NO_ERROR:
            return Refused(self._name(one.error_code))
        records = bytes(one.records or b"")
        if not records and one.preferred_read_replica is not None and one.preferred_read_replica >= 0:
            return Refused(f"its broker sends consumers to broker {one.preferred_read_replica}")
        return Fetched(one.high_watermark, one.log_start_offset, records)

    def _of_any(self, request: Any) -> Any:
        """The first broker's answer that succeeds."""
        problems = []
        for broker in self._known:
            try:
                return self._ask(broker, request)
            except _UnsupportedError:
                raise
            except UnreachableError as error:
                problems.append(f"broker {broker}: {error}")
        raise UnreachableError("; ".join(problems) or "no broker is known")

    def _ask(self, broker_id: int, request: Any) -> Any:
        errors = self._errors
        pauses = list(RECONNECT_SECONDS)
        while True:
            # While a connection is muted, kafka-python sends nothing on it and says that it is not ready.
            while (left := self._sender.throttle_delay(broker_id)) > 0:
                self._sender.poll(timeout_ms=left)
            try:
                # A request object can be sent only once.
                return self._sender.send_and_receive(broker_id, copy(request), timeout_ms=self._timeout_ms)
            except errors.IncompatibleBrokerVersion as error:
                raise _UnsupportedError(_words(error)) from None
            except (errors.KafkaConnectionError, errors.NodeNotReadyError, errors.Cancelled) as error:
                if not pauses:
                    raise self._unreachable(error) from None
                time.sleep(pauses.pop(0))
            except (errors.KafkaError, OSError) as error:
                raise self._unreachable(error) from None

    def _unreachable(self, error: Exception) -> UnreachableError:
        return UnreachableError(self._properties.hide(_words(error)))

    def _name(self, code: int) -> str:
        """Kafka's name for an error code."""
        return getattr(self._errors.for_code(code), "message", None) or f"error {code}"


def _committed_in(answer: Any) -> Iterator[tuple[TopicPartition, tuple[int, int | None]]]:
    """Partitions for which a group has committed an offset, with it and the leader epoch of the last record read."""
    for topic in answer.topics:
        for one in topic.partitions:
            if one.error_code == _NO_ERROR and one.committed_offset >= 0:
                epoch = getattr(one, "committed_leader_epoch", -1)
                place = TopicPartition(topic.name, one.partition_index)
                yield place, (one.committed_offset, epoch if epoch >= 0 else None)


def _uuid(topic_id: str | None) -> UUID | None:
    return None if topic_id is None else UUID(bytes=urlsafe_b64decode(f"{topic_id}=="))


def _id_of(topic: Any) -> str | None:
    """Topic id as Kafka writes it: URL-safe Base64 without padding (`Uuid.toString`)."""
    one = getattr(topic, "topic_id", None)
    return None if one is None or one == _NO_ID else urlsafe_b64encode(one.bytes).decode("ascii").rstrip("=")
