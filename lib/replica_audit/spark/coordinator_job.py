"""The coordinators' logs read on the executors: states of producers that left a transaction open, offsets of consumer groups."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from replica_audit.formats.files.storage import Snapshot
from replica_audit.formats.files.trees import Entry
from replica_audit.formats.format_error import FormatError
from replica_audit.formats.leadership.consumer_offsets import (
    CommittedOffsets,
    OffsetsCopy,
    find_offsets_copies,
    newest_offsets,
    try_committed_offsets,
)
from replica_audit.formats.leadership.remote_log_metadata import (
    RemoteLog,
    find_remote_logs,
    newest_segments,
    try_remote_log,
)
from replica_audit.formats.leadership.transaction_log import (
    find_transaction_logs,
    latest_states,
    read_transaction_states,
)
from replica_audit.model import GroupOffset, RemoteSegment, TransactionState
from replica_audit.spark.tasks import deal, parallelism, run_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_GREATEST_TASKS = 1000


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

    def read(of_task: list[Entry]) -> Iterator[TransactionState]:
        for segment in of_task:
            try:
                yield from latest_states(read_transaction_states(snapshot, segment, wanted)).values()
            except (OSError, FormatError):
                continue

    tasks = deal(segments, min(_GREATEST_TASKS, parallelism(spark)))
    return latest_states(run_tasks(spark, tasks, read))


def read_group_offsets(spark: SparkSession, location: str, log_dirs: Collection[str]) -> list[GroupOffset]:
    """What consumer groups committed last, by the snapshot's `__consumer_offsets`; a task reads whole copies of its partitions.

    What cannot be read is passed over: it is in quarantine since the ingest (`check_group_offsets`).
    """
    try:
        snapshot = Snapshot.open(location)
        copies = _find_copies(snapshot, log_dirs)
    except OSError:
        return []  # the snapshot is gone: records that have to be compared will say so

    def read(of_task: list[OffsetsCopy]) -> Iterator[CommittedOffsets]:
        for copy in of_task:
            found, _ = try_committed_offsets(snapshot, copy)
            if found is not None:
                yield found

    return newest_offsets(_run(spark, copies, read))


def read_remote_segments(spark: SparkSession, location: str, log_dirs: Collection[str]) -> list[RemoteSegment]:
    """Segments in remote storage by the snapshot's `__remote_log_metadata`; a task reads whole copies of its partitions."""
    try:
        snapshot = Snapshot.open(location)
        copies = find_remote_logs(snapshot, sorted(log_dirs))
    except OSError:
        return []  # the snapshot is gone: records that have to be compared will say so

    def read(of_task: list[OffsetsCopy]) -> Iterator[RemoteLog]:
        for copy in of_task:
            found, _ = try_remote_log(snapshot, copy)
            if found is not None:
                yield found

    return newest_segments(_run(spark, copies, read))


def check_group_offsets(spark: SparkSession, snapshot: Snapshot, log_dirs: Collection[str]) -> list[dict]:
    """Quarantine rows for what cannot be read of the snapshot's `__consumer_offsets`: a later commit may stand there."""

    def check(of_task: list[OffsetsCopy]) -> Iterator[dict]:
        for copy in of_task:
            yield from map(asdict, try_committed_offsets(snapshot, copy)[1])

    return _run(spark, _find_copies(snapshot, log_dirs), check)


def check_remote_logs(spark: SparkSession, snapshot: Snapshot, log_dirs: Collection[str]) -> list[dict]:
    """Quarantine rows for what cannot be read of the snapshot's `__remote_log_metadata`."""

    def check(of_task: list[OffsetsCopy]) -> Iterator[dict]:
        for copy in of_task:
            yield from map(asdict, try_remote_log(snapshot, copy)[1])

    return _run(spark, find_remote_logs(snapshot, sorted(log_dirs)), check)


def _find_copies(snapshot: Snapshot, log_dirs: Collection[str]) -> list[OffsetsCopy]:
    copies = find_offsets_copies(snapshot, sorted(log_dirs))
    return [copy for copy in copies if any(segment.size for segment in copy.segments)]


def _run(spark: SparkSession, copies: list[OffsetsCopy], work: Callable[[list[OffsetsCopy]], Iterable[Any]]) -> list:
    return run_tasks(spark, deal(copies, min(_GREATEST_TASKS, parallelism(spark))), work) if copies else []
