"""The coordinators' logs read on the executors: states of producers that left a transaction open, offsets of consumer groups; and
which segments are in remote storage.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from replica_audit.errors import FormatError
from replica_audit.model import TransactionState
from replica_audit.snapshot.file_tree import TreeEntry
from replica_audit.snapshot.internal_topics import InternalTopic, ReadCopy, TopicCopy, newest
from replica_audit.snapshot.log_dir_names import kind_of_copy
from replica_audit.snapshot.storage import Snapshot
from replica_audit.snapshot.transaction_log import (
    find_transaction_logs,
    latest_states,
    read_transaction_states,
)
from replica_audit.spark.tasks import deal, parallelism, run_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from replica_audit.spark.partition_tasks import Group

_GREATEST_TASKS = 1000

_Said = TypeVar("_Said")


def log_dirs_of(groups: Iterable[Group]) -> set[str]:
    """The log dirs that the partitions' current copies lie in."""
    rows = (row for _, evidence in groups for row in evidence.get("replica_dirs", ()))
    return {row["log_dir"] for row in rows if kind_of_copy(row["path"], row["log_dir"]) == "current"}


def read_transactions(
    spark: SparkSession, location: str, log_dirs: Collection[str], producers: Collection[int]
) -> dict[int, TransactionState]:
    """The latest state of those of `producers` that the snapshot's `__transaction_state` knows; none: nothing is read.

    A segment that cannot be read is passed over: it is in quarantine since the scan.
    """
    if not producers:
        return {}
    try:
        snapshot = Snapshot.open(location)
        segments = find_transaction_logs(snapshot, sorted(log_dirs))
    except OSError:
        segments = []  # the snapshot is gone: records that have to be compared will say so
    if not segments:
        return {}
    wanted = frozenset(producers)

    def read(of_task: list[TreeEntry]) -> Iterator[TransactionState]:
        for segment in of_task:
            try:
                yield from latest_states(read_transaction_states(snapshot, segment, wanted)).values()
            except (OSError, FormatError):
                continue

    tasks = deal(segments, min(_GREATEST_TASKS, parallelism(spark)))
    return latest_states(run_tasks(spark, tasks, read))


def read_internal(
    spark: SparkSession, location: str, log_dirs: Collection[str], topic: InternalTopic[_Said]
) -> list[_Said]:
    """What the snapshot's logs of a topic of Kafka's own say; a task reads whole copies of its partitions.

    What cannot be read is passed over: it is in quarantine since the ingest (`check_internal`).
    """
    try:
        snapshot = Snapshot.open(location)
        copies = topic.find(snapshot, log_dirs)
    except OSError:
        return []  # the snapshot is gone: records that have to be compared will say so

    def read(of_task: list[TopicCopy]) -> Iterator[ReadCopy[_Said]]:
        for copy in of_task:
            found, _ = topic.try_read(snapshot, copy)
            if found is not None:
                yield found

    return newest(_run(spark, copies, read))


def check_internal(
    spark: SparkSession, snapshot: Snapshot, log_dirs: Collection[str], topic: InternalTopic
) -> list[dict]:
    """Quarantine rows for what cannot be read of the snapshot's logs of a topic of Kafka's own."""

    def check(of_task: list[TopicCopy]) -> Iterator[dict]:
        for copy in of_task:
            yield from (row._asdict() for row in topic.try_read(snapshot, copy)[1])

    return _run(spark, topic.find(snapshot, log_dirs), check)


def _run(spark: SparkSession, copies: list[TopicCopy], work: Callable[[list[TopicCopy]], Iterable[Any]]) -> list:
    copies = [copy for copy in copies if any(segment.size for segment in copy.segments)]
    return run_tasks(spark, deal(copies, min(_GREATEST_TASKS, parallelism(spark))), work) if copies else []
