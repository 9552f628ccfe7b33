"""Answers of brokers: partitions, log ends, batches, settings and group offsets; and the interface of the client that asks for them."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from replica_audit.errors import FormatError
from replica_audit.model import Damage, TopicPartition
from replica_audit.segments.record_batch import BATCH_DTYPE
from replica_audit.segments.scan import scan_segment

#: Timestamps with which `Brokers.offsets` asks for the log's end, its start, and its first local offset (`ListOffsetsRequest`).
LATEST = -1
EARLIEST = -2
EARLIEST_LOCAL = -4

_FRAME = struct.Struct(">qi")


@dataclass(frozen=True, slots=True)
class ListedPartition:
    """A partition in the cluster's metadata."""

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
    """The cluster's metadata: live brokers, and partitions that the client may see."""

    cluster_id: str | None
    brokers: tuple[int, ...]
    partitions: tuple[ListedPartition, ...]
    refused: tuple[str, ...] = ()
    """Clauses on topics that the cluster would not describe."""


class ReplicaEnd(NamedTuple):
    """End of a replica's log, which may be above its high watermark."""

    offset: int
    leader_epoch: int | None
    """Leader epoch of the last record."""


class LogSizes(NamedTuple):
    """Sizes in bytes of a broker's logs on its disks, including everything above their high watermarks."""

    of: Mapping[TopicPartition, int]
    hidden: tuple[str, ...]
    """Parts of its disks that no client can read, in words: offline log dirs, and replicas that are moving to another log dir."""


class Refused(NamedTuple):
    """A broker's error in place of an answer, by Kafka's name for it."""

    error: str


class Throttled(NamedTuple):
    """An answer without data, held back by a quota."""


class Fetched(NamedTuple):
    """One broker's answer for one partition."""

    high_watermark: int
    log_start_offset: int
    records: bytes
    """Complete batches as they are in the segments; the last one may be cut off."""


@dataclass(frozen=True, slots=True)
class CommittedOffsets:
    """Committed offsets of consumer groups, and clauses on what was refused."""

    offsets: Mapping[str, Mapping[TopicPartition, tuple[int, int | None]]] = field(default_factory=dict)
    """By group and partition: offset, and leader epoch of the last record read."""
    refused: tuple[str, ...] = ()


class UnreachableError(Exception):
    """A broker does not answer; the text says why, without secrets."""


class Brokers(Protocol):
    """A client that asks each broker itself. Every method except `committed` raises UnreachableError if a broker does not answer."""

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


def read_batches(records: bytes) -> NDArray[np.void]:
    """The headers (`BATCH_DTYPE`) of the complete batches in a broker's answer, checksums computed, records dropped; an incomplete
    last batch is left out.

    Raises FormatError for malformed bytes.
    """
    end = _end_of_whole(records)
    if not end:
        return np.empty(0, BATCH_DTYPE)
    first, _ = _FRAME.unpack_from(records)
    found = []
    for item in scan_segment(BytesIO(records[:end]), end, first):
        if isinstance(item, Damage):
            raise FormatError("the broker's answer", item.position, "whole batches", item.reason, "observe again")
        found.append(item)
    return np.concatenate(found)


def _end_of_whole(records: bytes) -> int:
    """Position after the last complete batch."""
    at = 0
    while at + _FRAME.size <= len(records):
        _, length = _FRAME.unpack_from(records, at)
        following = at + _FRAME.size + length
        if length < 0 or following > len(records):
            break
        at = following
    return at
