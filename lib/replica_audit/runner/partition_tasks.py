"""What a task does with its partitions: the functions of `auditing` and `elect`, whatever the partitions are read from."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

from replica_audit.auditing.evidence import AuditOptions, SideEvidence
from replica_audit.auditing.findings import LogDirTally
from replica_audit.model import TopicPartition, TransactionState
from replica_audit.runner.task_rows import Outlet, TaskRows
from replica_audit.schema import ReportRows

if TYPE_CHECKING:
    import numpy as np

    from replica_audit.auditing.compare.record_comparison import RecordSource
    from replica_audit.auditing.opened_snapshot import Examined
    from replica_audit.auditing.replicas.replica_facts import CopyKey
    from replica_audit.warehouse.table_layout import DataFile


class PartitionTask(NamedTuple):
    """One partition as a stage hands it to a task."""

    partition: TopicPartition
    batches: int = 0
    """About as many have to be looked at."""
    side: SideEvidence = SideEvidence()
    """What is said of it besides what the task reads."""
    segment_files: tuple[str, ...] = ()
    """Where the task reads the rows of its segments; none where it scans them."""
    files: int = 0
    size_bytes: int = 0
    """Of its segments, where auditing reads them: for progress."""


class PartitionReader(Protocol):
    """What partitions are read from, as a task has it."""

    @property
    def options(self) -> AuditOptions: ...

    def opened(self, tasks: Sequence[PartitionTask]) -> PartitionReader:
        """One that is about to read just these."""

    def examine(self, task: PartitionTask) -> Examined:
        """A partition, and what its audit asks for."""

    def read_batches(self, examined: Examined) -> dict[CopyKey, np.ndarray]:
        """What it asks for."""

    def read_records(self) -> RecordSource:
        """What gives the records of batches."""

    def rows_read(self, examined: Examined, rows: ReportRows) -> ReportRows:
        """`rows` with those that come of the reading itself, where no table has them already."""


@dataclass(frozen=True, slots=True)
class PartitionWork:
    """What every task needs besides its partitions."""

    reader: PartitionReader
    outlet: Outlet
    asked: Collection[TopicPartition] = ()
    """Partitions whose costs of elections are given though there may be nothing to decide."""
    up: Collection[int] | None = None
    """Brokers that are up by `--up`: where the leader is none of them there is something to decide. None: not said."""
    transactions: Mapping[int, TransactionState] | None = None
    """The coordinator's states; None before they were read."""


@dataclass(frozen=True, slots=True)
class TaskAnswer:
    """What a task has of its partitions."""

    rows: ReportRows
    files: Mapping[str, DataFile]
    """With more of them."""
    waiting: Mapping[TopicPartition, frozenset[int]] = field(default_factory=dict)
    """Partitions that wait for what the coordinator says of these producers."""
    log_dirs: LogDirTally = field(default_factory=LogDirTally)


def audit_partitions(tasks: Sequence[PartitionTask], work: PartitionWork) -> Iterator[TaskAnswer]:
    """One answer for all `tasks`. A partition that raises is CAP-NOT-AUDITED, and all others are answered."""
    work = replace(work, reader=work.reader.opened(tasks))
    found, waiting, log_dirs = TaskRows(work.outlet), {}, LogDirTally()
    for task in tasks:
        rows, producers = _audit(task, work, log_dirs)
        if producers:
            waiting[task.partition] = producers
        else:
            found.add(rows)
    yield TaskAnswer(found.rows, found.close(), waiting, log_dirs)


def _audit(task: PartitionTask, work: PartitionWork, log_dirs: LogDirTally) -> tuple[ReportRows, frozenset[int]]:
    """Rows of one partition, or the producers that it waits for."""
    from replica_audit.auditing.answer_rows import failure_rows
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
        batches, read = reader.read_batches(examined), reader.read_records()
        audit = conclude(examined.plan, batches, read, work.transactions or {})
        rows = decided_rows(audit, batches, work.asked, work.up, read)
    except Exception as error:
        rows = failure_rows(task.partition, error, reader.options.cluster_id, examined.plan.evidence)
    log_dirs.add(examined.plan.evidence.copies)
    return reader.rows_read(examined, rows), frozenset()
