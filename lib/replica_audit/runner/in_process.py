"""Audit of a snapshot in this process, without Spark: one partition, or all."""

from __future__ import annotations

from collections.abc import Collection

from replica_audit.auditing.opened_snapshot import OpenedSnapshot, Progress, Unseen, audit_options, open_snapshot
from replica_audit.config import Settings
from replica_audit.errors import UsageError
from replica_audit.model import TopicPartition
from replica_audit.results import Results
from replica_audit.runner.audit_stage import audit
from replica_audit.runner.executor import InProcess
from replica_audit.runner.snapshot_source import InMemory, SnapshotSource
from replica_audit.text import now


def audit_one(uri: str, topic_partition: TopicPartition, settings: Settings) -> Results:
    """Audit one partition of the snapshot at `uri`. Raises UsageError if the snapshot does not have it."""
    started = now()
    # Square brackets and stars in a topic's name would be a pattern; Kafka's legal names have neither.
    topics = (topic_partition.topic,)
    snapshot, inventory = open_snapshot(uri, topics, settings.leadership, settings.leadership_source)
    opened = OpenedSnapshot.read(snapshot, inventory, audit_options(inventory, settings), topics, topic_partition)
    if not opened.partitions:
        known = sorted({str(one.topic_partition) for one in inventory.replicas})
        raise UsageError(f"{topic_partition} is not in {uri}; of that topic there are {', '.join(known[:10])}")
    source = SnapshotSource(opened)
    return audit(InProcess(), source, InMemory(source, settings, started), Unseen())


def audit_all(
    uri: str,
    settings: Settings,
    progress: Progress | None = None,
    asked: Collection[TopicPartition] = (),
    up: Collection[int] | None = None,
) -> Results:
    """Audit every partition of the snapshot at `uri` that matches `settings.topics`, with the answers of `run`.

    Costs of elections are also given for partitions that are `asked` for, or whose leader is not among the brokers said to be `up`.

    Raises UsageError and InputError as `open_snapshot` does.
    """
    started = now()
    snapshot, inventory = open_snapshot(
        uri, settings.topics, settings.leadership, settings.leadership_source, progress=progress
    )
    options = audit_options(inventory, settings)
    source = SnapshotSource(OpenedSnapshot.read(snapshot, inventory, options, settings.topics))
    return audit(InProcess(), source, InMemory(source, settings, started), progress or Unseen(), frozenset(asked), up)
