"""Metadata logs of a quorum of three: as they begin, and as they go on differently."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.support import metadata_log as write
from tests.support.metadata_log import MetadataLog
from tests.support.snapshots import Replica, make_uuid, write_snapshot

from replica_audit.snapshot.discovery import discover
from replica_audit.snapshot.inventory import Inventory
from replica_audit.snapshot.storage import Snapshot

TOPIC_ID, OTHER_ID = make_uuid("t"), make_uuid("u")
VOTERS = (100, 101, 102)
BEGINNING = write.new_topic("t", TOPIC_ID, (1, 2, 3), 1)


def first_batches(epoch: int = 1) -> bytes:
    """Batches at offsets 0 to 2: the leader's first record, topic t, its partition."""
    return write.leader_change(0, 100, VOTERS, epoch=epoch) + write.batch(1, BEGINNING, epoch=epoch)


LATE_ID = make_uuid("late")
TIME_MS = write.TIME_MS
BEGIN = write.history(write.new_topic("t", TOPIC_ID, (1, 2), 1), voters=VOTERS)
#: Offsets 3 and 4 of the history in which topic late was created.
LATE = write.batch(3, write.new_topic("late", LATE_ID, (1, 2), 2))
APPLIED = Replica(topic="late", topic_id=LATE_ID)


def moved(offset: int, leader: int = 2, epoch: int = 1, time_ms: int = TIME_MS) -> bytes:
    return write.batch(offset, [write.change(TOPIC_ID, leader=leader)], epoch=epoch, time_ms=time_ms)


def elected(offset: int, node: int, epoch: int, time_ms: int = TIME_MS) -> bytes:
    return write.leader_change(offset, node, VOTERS, epoch=epoch, time_ms=time_ms)


def with_snapshot(content: bytes, end_offset: int, epoch: int) -> MetadataLog:
    """A copy beside whose log a snapshot ends there."""
    return MetadataLog({0: content}, {(end_offset, epoch): write.snapshot([])})


def discovered(
    path: Path,
    metadata: Mapping[int, MetadataLog | bytes],
    replicas: Mapping[int, Replica | Iterable[Replica]] | None = None,
    **more: Any,
) -> Inventory:
    """What is there in the snapshot of these copies of the metadata log; `more` are arguments of `write_snapshot`."""
    return discover(Snapshot.open(write_snapshot(path, replicas or {}, metadata=metadata, **more)))
