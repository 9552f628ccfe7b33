"""The work of a task on its partitions: calls `auditing` and `elect`, regardless of where partitions are read from and rows go to."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

from replica_audit.auditing.evidence import AuditOptions, SideEvidence
from replica_audit.auditing.findings import LogDirTally
from replica_audit.auditing.lost_producers import awaits_coordinator
from replica_audit.model import TopicPartition, TransactionState
from replica_audit.schema import ReportRows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from replica_audit.auditing.compare.record_comparison import RecordSource
    from replica_audit.auditing.opened_snapshot import Examined
    from replica_audit.auditing.replicas.replica_facts import CopyKey
    from replica_audit.warehouse.table_files import RowFiles
    from replica_audit.warehouse.table_layout import DataFile


class PartitionTask(NamedTuple):
    """One partition, passed from a stage to a task."""

    partition: TopicPartition
    batches: int = 0
    """Approximate number of batches to compare."""
    side: SideEvidence = SideEvidence()
    """Evidence besides what the task reads."""
    segment_files: tuple[str, ...] = ()
    """Files with the rows of its segments; empty if the task scans the segments."""
    files: int = 0
    size_bytes: int = 0
    """Size of its segments if auditing reads them, as is `files`; for progress."""


def to_read(tasks: Sequence[PartitionTask]) -> tuple[int, int]:
    """Files and bytes of segments that auditing reads: 0 if the ingest has read them."""
    return sum(task.files for task in tasks), sum(task.size_bytes for task in tasks)


class PartitionReader(Protocol):
    """Reads partitions in a task."""

    @property
    def options(self) -> AuditOptions: ...

    def opened(self, tasks: Sequence[PartitionTask]) -> PartitionReader:
        """A reader prepared for these tasks."""

    def examine(self, task: PartitionTask) -> Examined:
        """A partition, and the inputs that its audit needs."""

    def read_batches(self, examined: Examined) -> dict[CopyKey, NDArray[np.void]]:
        """The batches that it needs."""

    def read_records(self) -> RecordSource:
        """The source of records of batches."""

    def rows_read(self, examined: Examined, rows: ReportRows) -> ReportRows:
        """`rows` with those that result from reading, unless tables have them already."""


@dataclass(frozen=True, slots=True)
class Outlet:
    """Destination of a task's rows; without `directories` they stay in memory."""

    directories: Mapping[str, str] = field(default_factory=dict)
    """Directories of the tables that tasks write."""
    ids: Mapping[str, str | None] = field(default_factory=dict)
    """Ids of every row that is written."""


class PartitionWork(NamedTuple):
    """Inputs of every task besides its partitions."""

    reader: PartitionReader
    outlet: Outlet
    asked: Collection[TopicPartition] = ()
    """Partitions whose costs of elections are given even if there is nothing to decide."""
    up: Collection[int] | None = None
    """Brokers that are up by `--up`: a partition whose leader is not among them needs a decision. None: not given."""
    transactions: Mapping[int, TransactionState] | None = None
    """The coordinator's states; None before they were read."""


@dataclass(frozen=True, slots=True)
class TaskAnswer:
    """A task's answer for its partitions."""

    rows: ReportRows
    files: Mapping[str, DataFile]
    """Files with further rows."""
    waiting: Mapping[TopicPartition, frozenset[int]] = field(default_factory=dict)
    """Partitions that wait for the coordinator's states of these producers."""
    log_dirs: LogDirTally = field(default_factory=LogDirTally)


def audit_partitions(tasks: Sequence[PartitionTask], work: PartitionWork) -> Iterator[TaskAnswer]:
    """One answer for all `tasks`. A partition that raises becomes CAP-NOT-AUDITED, and the others are answered."""
    work = work._replace(reader=work.reader.opened(tasks))
    found, waiting, log_dirs = _TaskRows(work.outlet), {}, LogDirTally()
    for task in tasks:
        rows, producers = _audit(task, work, log_dirs)
        if producers:
            waiting[task.partition] = producers
        else:
            found.add(rows)
    yield TaskAnswer(found.rows, found.close(), waiting, log_dirs)


class _TaskRows:
    """The rows of one task, partition after partition."""

    def __init__(self, outlet: Outlet) -> None:
        self.rows = ReportRows()
        self._outlet = outlet
        self._files: RowFiles | None = None

    def add(self, rows: ReportRows) -> None:
        self.rows.take(self._write(rows) if self._outlet.directories else rows)

    def close(self) -> Mapping[str, DataFile]:
        """The files that were written, by table, for the commit."""
        return {} if self._files is None else self._files.close()

    def _write(self, rows: ReportRows) -> ReportRows:
        """Write rows; returns those that stay in memory, since the coordinator's states, read once for all, may be added."""
        from replica_audit.warehouse.table_files import RowFiles

        if self._files is None:
            self._files = RowFiles(self._outlet.directories, self._outlet.ids)
        written = [row for row in rows.lost_producers if not awaits_coordinator(row)]
        self._files.add(vars(replace(rows, lost_producers=written)))
        return ReportRows(lost_producers=list(filter(awaits_coordinator, rows.lost_producers)))


def _audit(task: PartitionTask, work: PartitionWork, log_dirs: LogDirTally) -> tuple[ReportRows, frozenset[int]]:
    """Rows of one partition, or the producers that it waits for."""
    from replica_audit.auditing.answer_rows import failure_rows
    from replica_audit.auditing.compare.loaded_batches import LoadedBatches
    from replica_audit.auditing.conclude import conclude
    from replica_audit.elect.choice import decided_rows

    reader = work.reader
    try:
        examined = reader.examine(task)
        producers = examined.plan.producers
    except Exception as error:
        return failure_rows(task.partition, error, reader.options.cluster_id), frozenset()
    if work.transactions is None and producers:
        return ReportRows(), producers
    try:
        batches, read = LoadedBatches(reader.read_batches(examined)), reader.read_records()
        audit = conclude(examined.plan, batches, read, work.transactions or {})
        rows = decided_rows(audit, batches, work.asked, work.up, read)
    except Exception as error:
        rows = failure_rows(task.partition, error, reader.options.cluster_id, examined.plan.evidence)
    log_dirs.add(examined.plan.evidence.copies)
    return reader.rows_read(examined, rows), frozenset()
