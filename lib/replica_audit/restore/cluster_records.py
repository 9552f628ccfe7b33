"""What passes between restoring and a cluster: records read and produced, topics, and how far a run has come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from replica_audit.restore.salvaged_records import Headers


@dataclass(frozen=True, slots=True)
class ConsumedRecord:
    """A record as a consumer that reads committed records gets it."""

    offset: int
    leader_epoch: int | None
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers


@dataclass(frozen=True, slots=True)
class Produced:
    """A record to be produced."""

    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic that is there."""

    partitions: int
    replication_factor: int
    leaderless: frozenset[int] = frozenset()
    """Partitions that nobody leads at the moment."""


@dataclass(frozen=True, slots=True)
class RestoreProgress:
    """The offset that a group has committed, and the text with it."""

    offset: int
    text: str


def stored_record(message: Any) -> ConsumedRecord:
    """The record of a message that a consumer got."""
    kind, timestamp = message.timestamp()
    epoch = message.leader_epoch()
    headers = tuple((name, value) for name, value in message.headers() or ())
    known = kind != 0 and timestamp != -1
    return ConsumedRecord(
        message.offset(), epoch, timestamp if known else None, message.key(), message.value(), headers
    )
