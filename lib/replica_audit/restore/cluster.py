"""The interface to a cluster that restoring needs, and the records, topics and progress in its answers.

`kafka_client` implements it on librdkafka.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

#: (name, value) of each header, in order.
Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class ConsumedRecord:
    """A record as a consumer receives it."""

    offset: int
    leader_epoch: int | None
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers


@dataclass(frozen=True, slots=True)
class Produced:
    """A record to produce."""

    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers


@dataclass(frozen=True, slots=True)
class Topic:
    """An existing topic."""

    partitions: int
    replication_factor: int
    leaderless: frozenset[int] = frozenset()
    """Partitions that have no leader at the moment."""
    in_sync: Mapping[int, int] = field(default_factory=dict)
    """Number of replicas in sync by partition; unknown ones are left out."""
    replicas: Mapping[int, int] = field(default_factory=dict)
    """By partition the number of replicas, where it is known; `replication_factor` is the greatest."""


@dataclass(frozen=True, slots=True)
class RestoreProgress:
    """The offset that a group has committed, and the metadata text with it."""

    offset: int
    text: str


class Cluster(Protocol):
    """A cluster that can be read."""

    def cluster_id(self) -> str | None: ...

    def topic(self, name: str) -> Topic | None: ...

    def configs(self, name: str) -> dict[str, str]: ...

    def protocol_version(self) -> str: ...

    def bounds(self, topic: str, partition: int) -> tuple[int, int]: ...

    def read(self, topic: str, partition: int) -> Iterator[ConsumedRecord]: ...

    def held(self, topic: str, partition: int, start: int, end: int) -> Iterator[ConsumedRecord]: ...

    def progress(self, group: str, topic: str, partition: int) -> RestoreProgress | None: ...


class RestoreSession(Protocol):
    """A transactional producer."""

    def progress(self, topic: str, partition: int) -> RestoreProgress | None: ...

    def produce(self, topic: str, partition: int, records: Sequence[Produced], progress: RestoreProgress) -> None: ...

    def close(self) -> None: ...


class WritableCluster(Cluster, Protocol):
    """A cluster that can be produced to."""

    def create_topic(self, name: str, partitions: int, replication_factor: int, configs: Mapping[str, str]) -> None: ...

    def session(self, name: str, batch_bytes: int) -> RestoreSession: ...
