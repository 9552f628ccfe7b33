"""The stages of an audit, in order: every partition, then those that had to wait for the coordinator, then the whole.

`show` and `run` differ in what is read (`Source`), where answers go (`Sink`) and who runs the tasks (`Executor`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Protocol

from replica_audit.auditing.answer_rows import voter_rows
from replica_audit.auditing.audit_results import check_answered
from replica_audit.auditing.findings import LogDirTally
from replica_audit.auditing.lost_producers import transactional_producers, with_transactions
from replica_audit.model import TopicPartition, TransactionState
from replica_audit.progress import Progress
from replica_audit.results import Results
from replica_audit.runner.executor import Executor, map_each
from replica_audit.runner.partition_tasks import (
    Outlet,
    PartitionReader,
    PartitionTask,
    PartitionWork,
    TaskAnswer,
    audit_partitions,
    to_read,
)
from replica_audit.schema import MetadataLogRow, QuarantineRow, ReportRows, VoterCopy

if TYPE_CHECKING:
    from replica_audit.snapshot.internal_topics import Each
    from replica_audit.warehouse.table_layout import DataFile

#: Least batches per task: with fewer a further task costs more than it saves.
_TASK_BATCHES = 200_000

#: Cost of a partition, in batches, besides its own batches.
_PARTITION_BATCHES = 1000


@dataclass(slots=True)
class AuditAnswers:
    """Answers for all partitions: rows by report table, and files with further rows."""

    rows: ReportRows = field(default_factory=ReportRows)
    files: dict[str, list[DataFile]] = field(default_factory=lambda: defaultdict(list))
    log_dirs: LogDirTally = field(default_factory=LogDirTally)
    unread: list[QuarantineRow] = field(default_factory=list)
    """Quarantine rows for unreadable parts of the coordinator's log."""

    def count(self, table: str) -> int:
        """Number of rows of a table, in memory and in files."""
        return len(self.rows.table(table)) + sum(file.row_count for file in self.files[table])

    def take(self, found: Iterable[TaskAnswer]) -> dict[TopicPartition, frozenset[int]]:
        """Add the answers of tasks; returns the producers that partitions wait for."""
        waiting: dict[TopicPartition, frozenset[int]] = {}
        for answer in found:
            waiting.update(answer.waiting)
            self.log_dirs.merge(answer.log_dirs)
            self.rows.take(answer.rows)
            for table, file in answer.files.items():
                self.files[table].append(file)
        return waiting


class Source(Protocol):
    """A snapshot as an audit reads it."""

    @property
    def cluster_id(self) -> str | None: ...

    @property
    def reader(self) -> PartitionReader:
        """The reader of partitions in tasks."""

    def tasks(self, executor: Executor) -> Sequence[PartitionTask]:
        """All partitions, in order."""

    def read_transactions(
        self, producers: Collection[int], each: Each
    ) -> tuple[dict[int, TransactionState], list[QuarantineRow]]:
        """The coordinator's latest states of `producers`, and quarantine rows not recorded yet; reads nothing without producers."""

    @property
    def voters(self) -> Iterable[VoterCopy]:
        """Copies of the metadata log that voters have or should have."""

    @property
    def metadata_logs(self) -> Iterable[MetadataLogRow]:
        """All copies of the metadata log, compared."""

    def unplaced(self) -> Iterable[QuarantineRow]:
        """Quarantine rows that belong to no partition."""


class Sink(Protocol):
    """Destination of an audit's answers."""

    def outlet(self, tasks: Sequence[PartitionTask]) -> Outlet:
        """Destination of the rows that tasks write."""

    def keep(self, answers: AuditAnswers) -> None:
        """Store the complete answers."""

    def results(self, answers: AuditAnswers) -> Results:
        """The stored results."""

    def fail(self) -> None:
        """Note that there will be no results."""


def audit(
    executor: Executor,
    source: Source,
    sink: Sink,
    progress: Progress,
    asked: Collection[TopicPartition] = (),
    up: Collection[int] | None = None,
) -> Results:
    """Audit every partition of `source`. Costs of elections are also given for partitions that are `asked` for or whose leader
    is not among the brokers said to be `up`."""
    try:
        tasks = source.tasks(executor)
        files, size_bytes = to_read(tasks)
        if files:
            progress.begin("auditing", files, size_bytes)
        else:
            progress.begin("auditing partitions", len(tasks))
        work = PartitionWork(source.reader, sink.outlet(tasks), asked, up)
        answers = _answer(executor, source, tasks, work, progress)
        check_answered(tasks, answers.count("partitions"))
        answers.rows.captures.extend(voter_rows(source.voters))
        answers.rows.metadata_logs.extend(source.metadata_logs)
        answers.rows.findings.extend(answers.log_dirs.findings(source.unplaced(), source.cluster_id))
        sink.keep(answers)
    except BaseException:
        sink.fail()
        raise
    finally:
        progress.end()
    return sink.results(answers)


def _answer(
    executor: Executor,
    source: Source,
    tasks: Sequence[PartitionTask],
    work: PartitionWork,
    progress: Progress,
) -> AuditAnswers:
    """Answers for all partitions. The coordinator's log is read once for partitions that wait for it, and once for producers of
    lost records."""
    answers = AuditAnswers()
    reads_files = any(to_read(tasks))

    def ended(of_task: list[PartitionTask]) -> None:
        files, size_bytes = to_read(of_task)
        progress.advance(files if reads_files else len(of_task), size_bytes)

    waiting = answers.take(_run(executor, tasks, work, ended))
    ask = partial(_ask, executor, source, answers)
    states = ask(frozenset().union(*waiting.values()))
    again = [task for task in tasks if task.partition in waiting]
    answers.take(_run(executor, again, work._replace(transactions=states)))
    lost = answers.rows.lost_producers
    lost[:] = with_transactions(lost, ask(transactional_producers(lost)))
    return answers


def _ask(
    executor: Executor, source: Source, answers: AuditAnswers, producers: Collection[int]
) -> dict[int, TransactionState]:
    states, unread = source.read_transactions(producers, partial(map_each, executor))
    answers.unread += (row for row in unread if row not in answers.unread)
    return states


def _run(
    executor: Executor,
    tasks: Sequence[PartitionTask],
    work: PartitionWork,
    ended: Callable[[list[PartitionTask]], None] | None = None,
) -> list[TaskAnswer]:
    dealt = executor.cut(tasks, _cost, _TASK_BATCHES) if tasks else []
    return executor.map(dealt, partial(audit_partitions, work=work), ended)


def _cost(task: PartitionTask) -> int:
    return _PARTITION_BATCHES + task.batches
