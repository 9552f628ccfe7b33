"""The jobs that audit partitions: which task has which of them, and what becomes of the answers.

Job two has everything of a partition in one task (`spark.partition_tasks`). Partitions with a transaction that has no end
wait for another turn, until the coordinator's log was read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from replica_audit.auditing.lost_producers import (
    awaits_coordinator,
    transactional_producers,
    with_transactions,
)
from replica_audit.spark.coordinator_job import log_dirs_of, read_transactions
from replica_audit.spark.partition_tasks import (
    Group,
    PartitionAnswer,
    PartitionWork,
    Place,
    Rows,
    audit_group,
)
from replica_audit.spark.task_planning import cut_stretches, deal_evenly, in_rounds
from replica_audit.spark.tasks import parallelism, run_tasks
from replica_audit.warehouse.answer_tables import REPORTED_TABLES
from replica_audit.warehouse.batch_files import check_batch_files
from replica_audit.warehouse.table_layout import DataFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


#: Least work per task: below this a further Python worker costs more than it saves.
_TASK_BATCHES, _TASK_PARTITIONS = 200_000, 200

#: Stretches of partitions for each task: those that differ, and so cost the most, may be neighbours.
_STRETCHES = 16

#: Report rows that a partition has at most, besides those of differences.
_ROWS_OF_PARTITION = 100


@dataclass(frozen=True, slots=True)
class PartitionAnswers:
    """Those of all partitions: rows by report table, and files with more of them."""

    rows: Rows = field(default_factory=lambda: {table: [] for table in REPORTED_TABLES})
    files: dict[str, list[DataFile]] = field(default_factory=dict)


def may_be_many(groups: Sequence[Group], driver_rows: int) -> bool:
    """Whether the report may have more than `driver_rows` rows: each partition has some, and each batch may differ."""
    batches = sum(row["batch_count"] or 0 for _, evidence in groups for row in evidence.get("segments", ()))
    return batches + _ROWS_OF_PARTITION * len(groups) > driver_rows


def audit_partitions(spark: SparkSession, groups: Sequence[Group], work: PartitionWork) -> PartitionAnswers:
    """What every partition has in the report tables."""
    answers = PartitionAnswers()
    check_batch_files(work.directory, (row for _, evidence in groups for row in evidence.get("segments", ())))
    waiting = _take(_run(spark, groups, work), answers)
    if waiting:
        log_dirs = log_dirs_of(groups)
        producers = frozenset().union(*waiting.values())
        work = replace(work, transactions=read_transactions(spark, work.location, log_dirs, producers))
        again = [group for group in groups if group[0] in waiting]
        _take(_run(spark, again, work), answers)
    lost = answers.rows["lost_producers"]
    if writers := transactional_producers(lost):
        log_dirs = log_dirs_of(groups)
        answers.rows["lost_producers"] = with_transactions(
            lost, read_transactions(spark, work.location, log_dirs, writers)
        )
    return answers


def _take(found: Iterable[tuple[Place, PartitionAnswer]], answers: PartitionAnswers) -> dict[Place, frozenset[int]]:
    """Add what was `found` to `answers`; returns the producers that are waited for, by place."""
    waiting = {}
    for place, answer in found:
        if answer.producers:
            waiting[place] = answer.producers
        for table, rows in answers.rows.items():
            rows += answer.rows.get(table, ())
        for table, file in answer.files.items():
            answers.files.setdefault(table, []).append(file)
    return waiting


def bound_rows(
    found: Iterable[tuple[Place, PartitionAnswer]], work: PartitionWork, limit: int
) -> Iterator[tuple[Place, PartitionAnswer]]:
    """`found` with the rows of a task beyond `limit` in files, which come with its last partition."""
    from replica_audit.warehouse.table_files import RowFiles

    files = RowFiles(work.report_directories, work.ids)
    sent, last = 0, None
    for place, answer in found:
        count = sum(map(len, answer.rows.values()))
        if work.report_directories and sent + count > limit:
            # What the coordinator may add to is few rows; they go to the driver, which asks it once for all.
            lost = answer.rows.get("lost_producers", [])
            files.add({**answer.rows, "lost_producers": [row for row in lost if not awaits_coordinator(row)]})
            last, answer = place, replace(answer, rows={"lost_producers": list(filter(awaits_coordinator, lost))})
        else:
            sent += count
        yield place, answer
    if last is not None:
        yield last, PartitionAnswer(files=files.close())


def _run(spark: SparkSession, groups: Sequence[Group], work: PartitionWork) -> list[tuple[Place, PartitionAnswer]]:
    """The answer of each group, in one job."""
    if not groups:
        return []

    tasks = _deal(groups, parallelism(spark))
    limit = work.driver_rows // len(tasks)

    def audit_groups(of_task: list[Group]) -> Iterator[tuple[Place, PartitionAnswer]]:
        return bound_rows(((group[0], audit_group(group, work)) for group in of_task), work, limit)

    return run_tasks(spark, tasks, audit_groups)


def _deal(groups: Sequence[Group], cores: int) -> list[list[Group]]:
    """Groups, in the order of partitions, dealt out to tasks in stretches: in that order the summaries of their segments lie
    in the table's files, where neighbours are read together."""
    total = sum(map(_weigh, groups))
    wanted = max(2 * cores, total // (10 * _TASK_BATCHES))
    count = 1 if total <= _TASK_BATCHES else min(len(groups), in_rounds(wanted, cores))
    stretches = list(cut_stretches(groups, _weigh, total // (_STRETCHES * count)))
    tasks = deal_evenly(stretches, _weigh, count)
    return [[group for stretch in task for group in stretch] for task in tasks]


def _weigh(group: Group) -> int:
    batches = sum(row["batch_count"] or 0 for row in group[1].get("segments", ()))
    return batches + _TASK_BATCHES // _TASK_PARTITIONS
