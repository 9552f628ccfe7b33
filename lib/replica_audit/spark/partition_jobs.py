"""The jobs that audit partitions: the functions of `auditing`, wherever Spark runs them.

Job two has everything of a partition in one task: it asks the summaries what has to be looked at, reads the batches of
just these chunks out of the table's files, and reads from the segments the records of the few batches that differ
though their offsets agree, or that belong to compacted replicas. Two kinds of partitions wait for another turn: those
with a transaction that has no end, until the coordinator's log was read; and those with more batches to look at than one
task should have. Of these a third job compares the pieces (`auditing.partitions.pieces`), and concludes behind a shuffle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from replica_audit.auditing.rows.evidence import AuditOptions
from replica_audit.auditing.rows.lost_producers import (
    awaits_coordinator,
    transactional_producers,
    with_transactions,
)
from replica_audit.model import TopicPartition, TransactionState
from replica_audit.spark.coordinator_job import read_transactions
from replica_audit.spark.tasks import deal, parallelism, run_joined, run_tasks
from replica_audit.warehouse.answer_tables import REPORTED_TABLES
from replica_audit.warehouse.batch_files import check_batch_files
from replica_audit.warehouse.table_layout import DataFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from replica_audit.auditing.comparing.aligned_pair import AlignedPair
    from replica_audit.auditing.partitions.pieces import Piece
    from replica_audit.auditing.partitions.plan import Plan
    from replica_audit.auditing.replicas.facts import CopyKey

#: What elections cost is worked out by one task, from at most so many batches that differ.
_ELECTION_BATCHES = 200_000

#: (topic, partition) and its evidence: rows by table, as `partition_evidence` takes them, without summaries (`read_summaries`).
Place = tuple[str, int]
Group = tuple[Place, dict[str, list[dict]]]
Rows = dict[str, list[dict]]

#: A task more is worth a Python worker's start from so many batches, or so many partitions.
_TASK_BATCHES, _TASK_PARTITIONS = 200_000, 200

#: Report rows that a partition has at most, besides those of differences.
_ROWS_OF_PARTITION = 100

#: Tasks of the third job for each core.
_PIECE_TASKS = 8


@dataclass(frozen=True, slots=True)
class PartitionWork:
    """What every task needs besides its partitions."""

    options: AuditOptions
    location: str
    """Of the snapshot."""
    directory: str
    """Of the table `batches`."""
    segments_directory: str
    """Of the table `segments`, whose summaries a task reads."""
    piece_batches: int
    """A partition is compared in one task up to so many batches."""
    driver_rows: int
    """So many report rows go to the driver; of more, tasks write the tables' files."""
    report_directories: Mapping[str, str] = field(default_factory=dict)
    """Of the report tables; none where there cannot be so many rows."""
    ids: Mapping[str, str | None] = field(default_factory=dict)
    """Of every report row."""
    transactions: Mapping[int, TransactionState] | None = None
    """The coordinator's states; None before they were read."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a task has of one partition: rows by report table, or what they wait for."""

    rows: Rows = field(default_factory=dict)
    producers: frozenset[int] = frozenset()
    """Of transactions that have no end in the partition."""
    pieces: tuple[Piece, ...] = ()
    """Too large for one task."""
    files: Mapping[str, DataFile] = field(default_factory=dict)
    """With rows of this and other partitions, by table."""


@dataclass(frozen=True, slots=True)
class Answers:
    """Those of all partitions: rows by report table, and files with more of them."""

    rows: Rows = field(default_factory=lambda: {table: [] for table in REPORTED_TABLES})
    files: dict[str, list[DataFile]] = field(default_factory=dict)


def may_be_many(groups: Sequence[Group], driver_rows: int) -> bool:
    """Whether the report may have more than `driver_rows` rows: each partition has some, and each batch may differ."""
    batches = sum(row["batch_count"] or 0 for _, evidence in groups for row in evidence.get("segments", ()))
    return batches + _ROWS_OF_PARTITION * len(groups) > driver_rows


def audit_partitions(spark: SparkSession, groups: Sequence[Group], work: PartitionWork) -> Answers:
    """What every partition has in the report tables."""
    answers = Answers()
    check_batch_files(work.directory, (row for _, evidence in groups for row in evidence.get("segments", ())))
    waiting, large = _take(_run(spark, groups, work), answers)
    if waiting:
        log_dirs = {row["log_dir"] for _, evidence in groups for row in evidence.get("replica_dirs", ())}
        producers = frozenset().union(*waiting.values())
        work = replace(work, transactions=read_transactions(spark, work.location, log_dirs, producers))
        again = [group for group in groups if group[0] in waiting]
        large |= _take(_run(spark, again, work), answers)[1]
    if large:
        chosen = [(group, large[group[0]]) for group in groups if group[0] in large]
        _take(_run_pieces(spark, chosen, work), answers)
    lost = answers.rows["lost_producers"]
    if writers := transactional_producers(lost):
        log_dirs = {row["log_dir"] for _, evidence in groups for row in evidence.get("replica_dirs", ())}
        answers.rows["lost_producers"] = with_transactions(
            lost, read_transactions(spark, work.location, log_dirs, writers)
        )
    return answers


def _take(
    found: Iterable[tuple[Place, Answer]], answers: Answers
) -> tuple[dict[Place, frozenset[int]], dict[Place, tuple[Piece, ...]]]:
    """Add what was `found` to `answers`; returns what is waited for by place: producers, pieces."""
    waiting, large = {}, {}
    for place, answer in found:
        if answer.producers:
            waiting[place] = answer.producers
        if answer.pieces:
            large[place] = answer.pieces
        for table, rows in answers.rows.items():
            rows += answer.rows.get(table, ())
        for table, file in answer.files.items():
            answers.files.setdefault(table, []).append(file)
    return waiting, large


def bound_rows(
    found: Iterable[tuple[Place, Answer]], work: PartitionWork, limit: int
) -> Iterator[tuple[Place, Answer]]:
    """`found` with the rows of a task beyond `limit` in files, which come with its last partition."""
    from replica_audit.warehouse.row_files import RowFiles

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
        yield last, Answer(files=files.close())


def _run(spark: SparkSession, groups: Sequence[Group], work: PartitionWork) -> list[tuple[Place, Answer]]:
    """The answer of each group, in one job."""
    if not groups:
        return []

    tasks = _deal(groups, parallelism(spark))
    limit = work.driver_rows // len(tasks)

    def audit_groups(of_task: list[Group]) -> Iterator[tuple[Place, Answer]]:
        return bound_rows(((group[0], audit_group(group, work)) for group in of_task), work, limit)

    return run_tasks(spark, tasks, audit_groups)


def _deal(groups: Sequence[Group], cores: int) -> list[list[Group]]:
    """Groups dealt out to tasks, those with the most batches first."""
    weights = {
        place: sum(row["batch_count"] or 0 for row in rows.get("segments", ())) + _TASK_BATCHES // _TASK_PARTITIONS
        for place, rows in groups
    }
    total = sum(weights.values())
    count = 1 if total <= _TASK_BATCHES else max(1, min(len(groups), max(2 * cores, total // (10 * _TASK_BATCHES))))
    ranked = sorted(groups, key=lambda group: (-weights[group[0]], group[0]))
    # In order of partitions: so lie their segments' summaries in the table's files.
    return [sorted(ranked[number::count], key=itemgetter(0)) for number in range(count)]


def audit_group(group: Group, work: PartitionWork) -> Answer:
    """Audit one partition, or say what it waits for. One that raises is CAP-NOT-AUDITED, and all others are
    answered."""
    from replica_audit.auditing.partitions.conclusion import conclude
    from replica_audit.auditing.partitions.pieces import plan_pieces
    from replica_audit.auditing.rows.failures import failure_rows
    from replica_audit.deciding.election_rows import decided_rows
    from replica_audit.formats.segments.record_reader import RecordReader
    from replica_audit.warehouse.batch_files import read_batches

    place, rows = group
    try:
        plan = _plan(group, work)
        if work.transactions is None and plan.producers:
            return Answer(producers=plan.producers)
        if pieces := _may_be_large(rows, work) and plan_pieces(plan, work.piece_batches):
            return Answer(pieces=tuple(pieces))
        needed = plan.batches
        batches = read_batches(work.directory, rows.get("segments", ()), needed) if needed else {}
        audit = conclude(plan, batches, RecordReader(work.location), work.transactions or {})
        return Answer(decided_rows(audit, batches))
    except Exception as error:
        return Answer(failure_rows(TopicPartition(*place), error, work.options.cluster_id))


def _may_be_large(rows: Mapping[str, Sequence[dict]], work: PartitionWork) -> bool:
    return sum(row["batch_count"] or 0 for row in rows.get("segments", ())) > work.piece_batches


def _plan(group: Group, work: PartitionWork) -> Plan:
    from replica_audit.auditing.partitions.plan import plan_audit
    from replica_audit.auditing.rows.evidence import VERIFIED, partition_evidence
    from replica_audit.warehouse.segment_places import TABLE as SEGMENTS
    from replica_audit.warehouse.segment_places import read_summaries

    place, rows = group
    read = {name: list(read_summaries(work.segments_directory, rows.get(name, ()))) for name in (SEGMENTS, VERIFIED)}
    return plan_audit(partition_evidence(TopicPartition(*place), {**rows, **read}, work.options))


def _run_pieces(
    spark: SparkSession, large: Sequence[tuple[Group, Sequence[Piece]]], work: PartitionWork
) -> list[tuple[Place, Answer]]:
    """The answers of large partitions: a task for some pieces each, then one for each partition that joins what they found."""
    groups = [group for group, _ in large]
    pieces = [(number, order, piece) for number, (_, of_one) in enumerate(large) for order, piece in enumerate(of_one)]

    def compare(of_task: list[tuple[int, int, Piece]]) -> Iterator[tuple[int, int, Any]]:
        for number, same in groupby(of_task, key=itemgetter(0)):
            chosen = {order: piece for _, order, piece in same}
            found = compare_pieces(groups[number], chosen.values(), work)
            yield from ((number, order, part) for order, part in zip(chosen, found, strict=True))

    def conclude(number: int, parts: list) -> list[tuple[Place, Answer]]:
        concluded = (groups[number][0], conclude_pieces(groups[number], parts, work))
        return list(bound_rows([concluded], work, work.driver_rows // len(groups)))

    found = run_joined(spark, deal(pieces, _PIECE_TASKS * parallelism(spark)), compare, conclude)
    return [one for of_partition in found for one in of_partition]


def compare_pieces(
    group: Group, pieces: Iterable[Piece], work: PartitionWork
) -> Iterator[dict[CopyKey, AlignedPair] | Answer]:
    """What `PieceAligner` finds in each of some pieces of one partition, or the answer that says why it finds nothing."""
    from replica_audit.auditing.partitions.pieces import PieceAligner
    from replica_audit.auditing.rows.failures import failure_rows
    from replica_audit.formats.segments.record_reader import RecordReader
    from replica_audit.warehouse.batch_files import read_batches

    place, rows = group
    aligner = None
    found: dict[CopyKey, AlignedPair] | Answer
    for piece in pieces:
        try:
            aligner = aligner or PieceAligner(_plan(group, work))
            batches = read_batches(work.directory, rows.get("segments", ()), aligner.wanted(piece))
            found = aligner.align(piece, batches, RecordReader(work.location))
        except Exception as error:
            found = Answer(failure_rows(TopicPartition(*place), error, work.options.cluster_id))
        yield found


def conclude_pieces(group: Group, parts: Sequence[dict[CopyKey, AlignedPair] | Answer], work: PartitionWork) -> Answer:
    """Audit one partition of which every piece was compared."""
    from replica_audit.auditing.partitions.conclusion import conclude
    from replica_audit.auditing.partitions.pieces import join_pieces
    from replica_audit.auditing.rows.answer_rows import report_rows
    from replica_audit.auditing.rows.failures import failure_rows
    from replica_audit.deciding.election_rows import decided_rows
    from replica_audit.warehouse.batch_files import read_batches

    place, rows = group
    if failed := next((part for part in parts if isinstance(part, Answer)), None):
        return failed
    try:
        plan, aligned = _plan(group, work), join_pieces(part for part in parts if not isinstance(part, Answer))
        audit = conclude(plan, transactions=work.transactions or {}, aligned=aligned)
        chunks = plan.candidate_batches
        held = {facts.key: facts.chunks for facts in plan.grouping.compared}
        if sum(held[key][number].batch_count for key, some in chunks.items() for number in some) > _ELECTION_BATCHES:
            # What each election costs asks for all that differs at once: more than one task should have.
            return Answer(report_rows(audit))
        return Answer(decided_rows(audit, read_batches(work.directory, rows.get("segments", ()), chunks)))
    except Exception as error:
        return Answer(failure_rows(TopicPartition(*place), error, work.options.cluster_id))
