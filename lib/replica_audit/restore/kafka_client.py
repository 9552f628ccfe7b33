"""Clusters over librdkafka: the one module that imports confluent-kafka, and only when a cluster is contacted. Secrets are
never shown."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, TypeVar

from replica_audit.cached_property import cached_property
from replica_audit.client_properties import ClientProperties
from replica_audit.errors import EngineError, UsageError
from replica_audit.restore.cluster import ConsumedRecord, Produced, RestoreProgress, Topic

#: Settings that restore sets itself, since other values would break exactly-once.
_OURS = (
    "metadata.broker.list",
    "group.id",
    "transactional.id",
    "enable.idempotence",
    "acks",
    "request.required.acks",
    "isolation.level",
    "enable.auto.commit",
    "auto.offset.reset",
    "enable.partition.eof",
)


def check_properties(properties: ClientProperties) -> None:
    """Raise UsageError for a setting that restore sets itself."""
    for name in properties.values:
        if name in _OURS:
            raise properties.refusal(name, "restore sets it itself; take the line out")


#: Time limits in seconds for a request, and for a transaction with all its retries.
_REQUEST_SECONDS = 30.0
_TRANSACTION_SECONDS = 300.0
#: After which the coordinator aborts an open transaction.
_OPEN_SECONDS = 60
_POLL_SECONDS = 1.0
#: Retries after an aborted transaction.
_ATTEMPTS = 3

_Answer = TypeVar("_Answer")


class Contact:
    """A cluster contacted through librdkafka. Every method raises EngineError if the cluster fails or does not answer."""

    def __init__(self, bootstrap: str, properties: ClientProperties) -> None:
        """Raises EngineError if confluent-kafka is missing, UsageError if a setting is restore's own or rejected by librdkafka."""
        check_properties(properties)
        try:
            import confluent_kafka
            import confluent_kafka.admin
        except ImportError as error:
            raise EngineError(
                f"restore needs confluent-kafka: pip install 'replica-audit[restore]' ({error})"
            ) from error
        self._kafka = confluent_kafka
        self._admin_module = confluent_kafka.admin
        self._bootstrap = bootstrap
        self._properties = properties
        self._last_error: str | None = None
        self._admin = self._client(confluent_kafka.admin.AdminClient, {})

    def cluster_id(self) -> str | None:
        return self._ask("the cluster", lambda: self._admin.list_topics(timeout=_REQUEST_SECONDS)).cluster_id

    def topic(self, name: str) -> Topic | None:
        """The topic; None if it does not exist."""
        found = self._ask(f"topic {name}", lambda: self._admin.list_topics(name, timeout=_REQUEST_SECONDS))
        topic = found.topics.get(name)
        if topic is None or (topic.error and topic.error.code() == self._kafka.KafkaError.UNKNOWN_TOPIC_OR_PART):
            return None
        if topic.error:
            raise self._failure(f"topic {name}", topic.error)
        own = topic.partitions.values()
        leaderless = frozenset(one.id for one in own if one.leader < 0)
        in_sync = {one.id: len(one.isrs) for one in own}
        replicas = {one.id: len(one.replicas) for one in own}
        return Topic(len(own), max(replicas.values(), default=1), leaderless, in_sync, replicas)

    def configs(self, name: str) -> dict[str, str]:
        return self._configs(self._admin_module.ResourceType.TOPIC, name, f"the configuration of topic {name}")

    def protocol_version(self) -> str:
        """inter.broker.protocol.version of one broker, asked once; 4.0 and later have none."""
        return self._protocol_version

    @cached_property
    def _protocol_version(self) -> str:
        brokers = self._ask("the cluster", lambda: self._admin.list_topics(timeout=_REQUEST_SECONDS)).brokers
        broker = str(min(brokers))
        found = self._configs(self._admin_module.ResourceType.BROKER, broker, f"the configuration of broker {broker}")
        return found.get("inter.broker.protocol.version", "")

    def _configs(self, kind: Any, name: str, what: str) -> dict[str, str]:
        resource = self._admin_module.ConfigResource(kind, name)
        futures = self._admin.describe_configs([resource], request_timeout=_REQUEST_SECONDS)
        found = self._ask(what, futures[resource].result)
        return {key: entry.value for key, entry in found.items()}

    def create_topic(self, name: str, partitions: int, replication_factor: int, configs: Mapping[str, str]) -> None:
        """Create a topic, and wait until it can be written to."""
        new = self._admin_module.NewTopic(name, partitions, replication_factor, config=dict(configs))
        self._ask(f"topic {name}", self._admin.create_topics([new], request_timeout=_REQUEST_SECONDS)[name].result)
        deadline = time.monotonic() + _REQUEST_SECONDS
        while (topic := self.topic(name)) is None or topic.partitions < partitions:
            if time.monotonic() > deadline:
                raise EngineError(f"topic {name} was created, but is not there after {_REQUEST_SECONDS:.0f} s")
            time.sleep(0.2)

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """Log start offset and high watermark."""
        with closing(self._consumer()) as consumer:
            return self._bounds(consumer, topic, partition)

    def read(self, topic: str, partition: int) -> Iterator[ConsumedRecord]:
        """Every committed record of a partition from its start, up to its end or the first transaction in progress."""
        with closing(self._consumer()) as consumer:
            yield from self._read(consumer, topic, partition, self._kafka.OFFSET_BEGINNING)

    def held(self, topic: str, partition: int, start: int, end: int) -> Iterator[ConsumedRecord]:
        """The records in [start, end) of a partition below its high watermark, including those of open and aborted transactions."""
        with closing(self._consumer(isolation="read_uncommitted")) as consumer:
            log_start, high_watermark = self._bounds(consumer, topic, partition)
            end = min(end, high_watermark)
            if (start := max(start, log_start)) < end:
                for one in self._read(consumer, topic, partition, start):
                    if one.offset >= end:
                        return
                    yield one

    def progress(self, group: str, topic: str, partition: int) -> RestoreProgress | None:
        """The progress that a group has committed for a partition; None if there is none.

        An open transaction of a killed run neither counts nor is waited for: only a `session` ends it.
        """
        with closing(self._consumer(group, "read_uncommitted")) as consumer:
            return self._progress(consumer, topic, partition)

    def session(self, name: str, batch_bytes: int) -> TransactionalSession:
        """Take over the transactional id and group `name`: an earlier producer is fenced, and its open transaction aborted.

        Records are sent in batches of at most `batch_bytes`, a larger record alone.
        """
        return TransactionalSession(self, name, batch_bytes)

    def _progress(self, consumer: Any, topic: str, partition: int) -> RestoreProgress | None:
        place = self._kafka.TopicPartition(topic, partition)
        what = f"the progress for {topic}-{partition}"
        (found,) = self._ask(what, lambda: self._committed(consumer, place))
        if found.error:
            raise self._failure(what, found.error)
        return None if found.offset < 0 else RestoreProgress(found.offset, found.metadata or "")

    def _committed(self, consumer: Any, place: Any) -> Any:
        """Committed offsets, asked for again while the group's coordinator moves or loads, as it does where brokers have just started."""
        kinds = self._kafka.KafkaError
        moving = (kinds.NOT_COORDINATOR, kinds.COORDINATOR_NOT_AVAILABLE, kinds.COORDINATOR_LOAD_IN_PROGRESS)
        deadline = time.monotonic() + _REQUEST_SECONDS
        while True:
            try:
                return consumer.committed([place], timeout=_REQUEST_SECONDS)
            except self._kafka.KafkaException as error:
                if error.args[0].code() == kinds._TIMED_OUT:
                    # The reason why no coordinator was found arrives in place of a record.
                    told = consumer.poll(0)
                    raise self._kafka.KafkaException((told and told.error()) or error.args[0]) from None
                if error.args[0].code() not in moving or time.monotonic() > deadline:
                    raise
            time.sleep(_POLL_SECONDS)

    def _bounds(self, consumer: Any, topic: str, partition: int) -> tuple[int, int]:
        place = self._kafka.TopicPartition(topic, partition)
        what = f"the offsets of {topic}-{partition}"
        return self._ask(what, lambda: consumer.get_watermark_offsets(place, timeout=_REQUEST_SECONDS))

    def _read(self, consumer: Any, topic: str, partition: int, start: int) -> Iterator[ConsumedRecord]:
        """Records of a partition from `start` up to its end."""
        kinds = self._kafka.KafkaError
        consumer.assign([self._kafka.TopicPartition(topic, partition, start)])
        heard = time.monotonic()
        while True:
            message = consumer.poll(_POLL_SECONDS)
            if message is None:
                if time.monotonic() > heard + _REQUEST_SECONDS:
                    raise EngineError(self._unanswered(f"{topic}-{partition}"))
                continue
            if message.error() is None:
                heard = time.monotonic()
                yield _stored_record(message)
            elif message.error().code() == kinds._PARTITION_EOF:
                return
            # Ignored: the client looks for the coordinator of its group, which reading does not need.
            elif message.error().code() != kinds.GROUP_AUTHORIZATION_FAILED:
                raise self._failure(f"{topic}-{partition}", message.error())

    def _consumer(self, group: str = "replica-audit-restore", isolation: str = "read_committed") -> Any:
        # Nobody joins the group: partitions are assigned, and only the producer's transactions commit offsets.
        return self._client(
            self._kafka.Consumer,
            {
                "group.id": group,
                "isolation.level": isolation,
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "enable.partition.eof": True,
            },
        )

    def _client(self, kind: Callable[[dict[str, Any]], _Answer], own: Mapping[str, Any]) -> _Answer:
        settings = {"error_cb": self._note, "log_level": 0, **self._properties.for_librdkafka()}
        try:
            return kind({**settings, "bootstrap.servers": self._bootstrap, **own})
        except self._kafka.KafkaException as error:
            raise UsageError(f"the cluster's client: {self._properties.hide(error.args[0].str())}") from None

    def _note(self, error: Any) -> None:
        self._last_error = self._properties.hide(error.str())

    def _ask(self, what: str, ask: Callable[[], _Answer]) -> _Answer:
        try:
            return ask()
        except self._kafka.KafkaException as error:
            raise self._failure(what, error.args[0]) from None

    def _failure(self, what: str, error: Any) -> EngineError:
        text = self._properties.hide(error.str())
        more = f" ({self._last_error})" if self._last_error and self._last_error != text else ""
        return EngineError(f"{what}: {text}{more}")

    def _unanswered(self, what: str) -> str:
        more = f": {self._last_error}" if self._last_error else ""
        return f"{what}: nothing heard of the cluster for {_REQUEST_SECONDS:.0f} s{more}"


def _stored_record(message: Any) -> ConsumedRecord:
    kind, timestamp = message.timestamp()
    headers = tuple((name, value) for name, value in message.headers() or ())
    known = timestamp if kind != 0 and timestamp != -1 else None
    return ConsumedRecord(message.offset(), message.leader_epoch(), known, message.key(), message.value(), headers)


class TransactionalSession:
    """A transactional producer; its progress is an offset of a group without members, committed with the records."""

    def __init__(self, contact: Contact, name: str, batch_bytes: int) -> None:
        self._contact = contact
        self._kafka = contact._kafka
        self._consumer = contact._consumer(name)
        settings = {
            "transactional.id": name,
            "transaction.timeout.ms": _OPEN_SECONDS * 1000,
            "message.max.bytes": 1_000_000_000,
            "batch.size": batch_bytes,
        }
        self._producer = contact._client(self._kafka.Producer, settings)
        self._repeat("the transactional producer", lambda: self._producer.init_transactions(_REQUEST_SECONDS))

    def progress(self, topic: str, partition: int) -> RestoreProgress | None:
        """Progress that an earlier run committed for a partition under this name."""
        return self._contact._progress(self._consumer, topic, partition)

    def produce(self, topic: str, partition: int, records: Sequence[Produced], progress: RestoreProgress) -> None:
        """Produce records and commit the progress in one transaction: all or nothing, in this order."""
        place = f"{topic}-{partition}"
        left = _ATTEMPTS
        told: Any = None
        while True:
            failed: list[Any] = []
            try:
                return self._attempt(topic, partition, records, progress, failed)
            except self._kafka.KafkaException as error:
                reason = error.args[0]
                left -= 1
                if reason.txn_requires_abort():
                    self._repeat(place, lambda: self._producer.abort_transaction(_REQUEST_SECONDS))
                # The error of a record is more telling than that of the commit, and a wrong state follows from an error before.
                if told is None or reason.code() != self._kafka.KafkaError._STATE:
                    told = failed[0] if failed else reason
                if told.code() == self._kafka.KafkaError._FENCED:
                    raise EngineError(
                        f"{place}: another restore of these records runs, or a transaction took more than {_OPEN_SECONDS} s, "
                        "as with a low producer_byte_rate: lower --transaction-records, or raise the quota"
                    ) from None
                if not reason.txn_requires_abort() or not left:
                    raise self._contact._failure(place, told) from None

    def close(self) -> None:
        self._consumer.close()

    def _attempt(
        self, topic: str, partition: int, records: Sequence[Produced], progress: RestoreProgress, failed: list[Any]
    ) -> None:
        producer = self._producer
        producer.begin_transaction()
        for record in records:
            self._enqueue(topic, partition, record, failed)
        place = self._kafka.TopicPartition(topic, partition, progress.offset, progress.text)
        group = self._consumer.consumer_group_metadata()
        self._again(lambda: producer.send_offsets_to_transaction([place], group, _REQUEST_SECONDS))
        self._again(lambda: producer.commit_transaction(_REQUEST_SECONDS))

    def _enqueue(self, topic: str, partition: int, record: Produced, failed: list[Any]) -> None:
        kafka_error = self._kafka.KafkaError

        def told(error: Any, message: Any) -> None:
            if error is not None and error.code() not in (kafka_error._PURGE_QUEUE, kafka_error._PURGE_INFLIGHT):
                failed.append(error)

        timestamp = -1 if record.timestamp_ms is None else record.timestamp_ms
        while True:
            try:
                self._producer.produce(
                    topic,
                    record.value,
                    record.key,
                    partition,
                    on_delivery=told,
                    timestamp=timestamp,
                    headers=list(record.headers),
                )
                return
            except BufferError:
                self._producer.poll(_POLL_SECONDS)

    def _again(self, step: Callable[[], Any]) -> None:
        """Do a step of a transaction, and repeat it while the cluster reports retriable errors."""
        deadline = time.monotonic() + _TRANSACTION_SECONDS
        while True:
            try:
                step()
                return
            except self._kafka.KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    raise

    def _repeat(self, what: str, step: Callable[[], Any]) -> None:
        try:
            self._again(step)
        except self._kafka.KafkaException as error:
            raise self._contact._failure(what, error.args[0]) from None
