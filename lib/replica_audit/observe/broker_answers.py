"""What brokers answer: partitions, log ends, batches, settings and group offsets; and the interface to whoever asks them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from replica_audit.model import TopicPartition

#: Timestamps that `Brokers.offsets` takes for the log's end, its start, and its first local offset (`ListOffsetsRequest`).
LATEST, EARLIEST, EARLIEST_LOCAL = -1, -2, -4


@dataclass(frozen=True, slots=True)
class ListedPartition:
    """A partition as the cluster's metadata has it."""

    topic: str
    topic_id: str | None
    partition: int
    leader_id: int | None
    leader_epoch: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class ListedCluster:
    """The cluster's metadata: brokers that are up, and partitions that the client may see."""

    cluster_id: str | None
    brokers: tuple[int, ...]
    partitions: tuple[ListedPartition, ...]
    refused: tuple[str, ...] = ()
    """Clauses on topics that the cluster would not describe."""


class ReplicaEnd(NamedTuple):
    """End of a replica's log, above its high watermark too."""

    offset: int
    leader_epoch: int | None
    """Of the last record."""


class LogSizes(NamedTuple):
    """Sizes in bytes of a broker's logs on its disks, all that is above their high watermarks included."""

    of: Mapping[TopicPartition, int]
    hidden: tuple[str, ...]
    """What of its disks no client can read, in words: log dirs that are offline, and copies that are moving to another log dir."""


class Refused(NamedTuple):
    """A broker's error instead of an answer, by Kafka's name for it."""

    error: str


class Throttled(NamedTuple):
    """A quota held the answer back: nothing of it came."""


class Fetched(NamedTuple):
    """What one broker sends of one partition."""

    high_watermark: int
    log_start_offset: int
    records: bytes
    """Whole batches as they are in the segments; the last one may be cut off."""


@dataclass(frozen=True, slots=True)
class CommittedOffsets:
    """Offsets that groups have committed, and what was refused."""

    offsets: Mapping[str, Mapping[TopicPartition, tuple[int, int | None]]] = field(default_factory=dict)
    """By group and partition: offset, and leader epoch of the last record read."""
    refused: tuple[str, ...] = ()


class UnreachableError(Exception):
    """A broker that does not answer; the text says why, without secrets."""


class Brokers(Protocol):
    """A client that asks each broker itself. Every method but `committed` raises UnreachableError where one does not answer."""

    def cluster(self, topics: Sequence[str]) -> ListedCluster: ...

    def configs(self, topics: Sequence[str]) -> tuple[Mapping[str, Mapping[str, str]], tuple[str, ...]]: ...

    def committed(self, brokers: Iterable[int]) -> CommittedOffsets: ...

    def offsets(
        self, broker_id: int, places: Sequence[TopicPartition], timestamp: int
    ) -> Mapping[TopicPartition, ReplicaEnd | Refused]: ...

    def sizes(self, broker_id: int, places: Sequence[TopicPartition]) -> LogSizes | Refused: ...

    def fetch(
        self, broker_id: int, starts: Mapping[ListedPartition, int], max_bytes: int, each_bytes: int
    ) -> Mapping[TopicPartition, Fetched | Refused | Throttled]: ...

    def close(self) -> None: ...
