"""The audit stage: bronze rows to answers, one call of the pure functions per partition, wherever Spark runs it.

Job two has everything of a partition in one task: it asks the summaries what has to be looked at, reads the batches of
just these chunks out of the table's files, and reads from the segments the records of the few batches that differ
though their offsets agree, or that belong to compacted replicas. Partitions with a transaction that has no end are
answered by a job more, after the coordinator's log was read.
"""

from __future__ import annotations

import json
import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from replica_audit.auditing.findings.log_dir_findings import LogDirTally
from replica_audit.auditing.leadership.capture_times import times_of_manifest
from replica_audit.auditing.rows.evidence import (
    EARLIER,
    EVIDENCE_TABLES,
    LOG_EVENTS,
    TIMELINE,
    AuditOptions,
    options_row,
    resolve_options,
)
from replica_audit.config import Settings
from replica_audit.formats.files.storage import Snapshot
from replica_audit.model import TransactionState
from replica_audit.moments import now
from replica_audit.protocol.high_watermark import rule_of
from replica_audit.results import Results
from replica_audit.spark.coordinator_job import read_transactions
from replica_audit.spark.observation_jobs import write_timeline
from replica_audit.spark.tasks import parallelism, run_tasks
from replica_audit.tables import BRONZE_TABLES
from replica_audit.warehouse.answers import REPORTED_TABLES, assemble_results, snapshot_answers, timeline_answers
from replica_audit.warehouse.attempts import latest_attempt, own_rows, record_attempt
from replica_audit.warehouse.batch_files import check_batch_files
from replica_audit.warehouse.delta_tables import Warehouse
from replica_audit.warehouse.earlier_rows import earlier_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: (topic, partition) and its evidence: rows by table, as `partition_evidence` takes them.
Group = tuple[tuple[str, int], dict[str, list[dict]]]

#: A task more is worth a Python worker's start from so many batches, or so many partitions.
_TASK_BATCHES, _TASK_PARTITIONS = 200_000, 200


def audit(
    spark: SparkSession,
    warehouse: Warehouse,
    snapshot_id: str | None,
    settings: Settings,
    progress,
    snapshot_uri: str | None = None,
) -> Results:
    """Audit an ingested snapshot (the latest when `snapshot_id` is None), write its tables and return its results.

    The records of batches that differ are read from the snapshot at `snapshot_uri`, else from where it was ingested.
    """
    started = now()
    ingested = latest_attempt(warehouse, "ingest", **({"snapshot_id": snapshot_id} if snapshot_id else {}))
    attempt = own_rows(ingested)
    (snapshot,) = warehouse.read("snapshots", **attempt)
    options = _options(snapshot, ingested["cluster_id"], settings)
    location = snapshot["location"] if snapshot_uri is None else Snapshot.open(snapshot_uri).location
    ids = {"cluster_id": ingested["cluster_id"], "snapshot_id": ingested["snapshot_id"], "audit_id": uuid.uuid4().hex}
    stage = {"started": started, "ingest_id": ingested["ingest_id"], **ids}
    stage["options"] = json.dumps(options_row(options, settings))
    warehouse.describe_commits(stage="audit", snapshot_id=ids["snapshot_id"], audit_id=ids["audit_id"])
    progress.begin("auditing")
    try:
        timelines = write_timeline(spark, warehouse, attempt, ids, rule_of(options.kafka_version))
        groups = _groups(warehouse, attempt, timelines, ids["cluster_id"])
        answers = _audit_partitions(spark, warehouse, groups, options, location)
        answers["findings"] += _log_dir_findings(warehouse, attempt, groups, ids["cluster_id"])
        for table in REPORTED_TABLES:
            warehouse.append(table, answers[table], ids)
    except BaseException:
        record_attempt(warehouse, "audit", "failed", **stage)
        raise
    finally:
        progress.end()
    finished = record_attempt(warehouse, "audit", "finished", tables=REPORTED_TABLES, **stage)
    return assemble_results(
        finished, answers, snapshot_answers(warehouse, attempt), timeline_answers(warehouse, ids["audit_id"])
    )


def _options(snapshot: Mapping, cluster_id: str | None, settings: Settings) -> AuditOptions:
    manifest = json.loads(snapshot["manifest"]) if snapshot["manifest"] else {}
    times = times_of_manifest(manifest.get("brokers") or ())
    return resolve_options(settings, manifest.get("kafka_version"), manifest.get("quiesced"), cluster_id, times)


def _groups(
    warehouse: Warehouse,
    attempt: Mapping[str, str],
    timelines: Mapping[tuple[str, int], dict[str, Any]],
    cluster_id: str | None,
) -> list[Group]:
    """The evidence of every partition, in their order; rows are those of this attempt."""
    groups: dict[tuple[str, int], dict[str, list[dict]]] = defaultdict(lambda: defaultdict(list))
    for table in EVIDENCE_TABLES:
        for row in warehouse.read(table, [column.name for column in BRONZE_TABLES[table]], **attempt):
            groups[row["topic"], row["partition"]][table].append(row)
    for place, summary in timelines.items():
        groups[place][TIMELINE] = [summary]
    if groups and warehouse.exists(LOG_EVENTS):
        # What brokers say of partitions that nothing else is known of is no evidence.
        for row in warehouse.read(LOG_EVENTS, [column.name for column in BRONZE_TABLES[LOG_EVENTS]], **attempt):
            if (place := (row["topic"], row["partition"])) in groups:
                groups[place][LOG_EVENTS].append(row)
    for place, seen in earlier_rows(warehouse, cluster_id, groups.keys()).items():
        groups[place][EARLIER] = seen
    return [(place, dict(groups[place])) for place in sorted(groups)]


def _audit_partitions(
    spark: SparkSession,
    warehouse: Warehouse,
    groups: Sequence[Group],
    options: AuditOptions,
    location: str,
) -> dict[str, list[dict]]:
    """Rows of every report table; partitions that wait for the coordinator's word take a second turn."""
    answers: dict[str, list[dict]] = {table: [] for table in REPORTED_TABLES}
    directory = warehouse.directory("batches")
    check_batch_files(directory, (row for _, evidence in groups for row in evidence.get("segments", ())))
    waiting, producers = [], set()
    for place, open_here, rows in _run(spark, groups, options, location, directory, None):
        if open_here:
            waiting.append(place)
            producers |= open_here
        for table in answers:
            answers[table] += rows.get(table, ())
    if waiting:
        log_dirs = {row["log_dir"] for _, evidence in groups for row in evidence.get("replica_dirs", ())}
        states = read_transactions(spark, location, log_dirs, producers)
        again = [group for group in groups if group[0] in set(waiting)]
        for _, _, rows in _run(spark, again, options, location, directory, states):
            for table in answers:
                answers[table] += rows[table]
    return answers


def _run(
    spark: SparkSession,
    groups: Sequence[Group],
    options: AuditOptions,
    location: str,
    directory: str,
    transactions: Mapping[int, TransactionState] | None,
) -> list[tuple[tuple[str, int], set[int], dict[str, list[dict]]]]:
    """(partition, producers that it waits for, report rows) of each group, in one job."""
    if not groups:
        return []

    def audit_groups(of_task: list[Group]) -> Iterator[tuple]:
        for group in of_task:
            yield (group[0], *audit_group(group, options, location, directory, transactions))

    return run_tasks(spark, _deal(groups, parallelism(spark)), audit_groups)


def _deal(groups: Sequence[Group], cores: int) -> list[list[Group]]:
    """Groups dealt out to tasks, those with the most batches first."""
    weights = {
        place: sum(row["batch_count"] or 0 for row in rows.get("segments", ())) + _TASK_BATCHES // _TASK_PARTITIONS
        for place, rows in groups
    }
    total = sum(weights.values())
    count = 1 if total <= _TASK_BATCHES else max(1, min(len(groups), max(2 * cores, total // (10 * _TASK_BATCHES))))
    ranked = sorted(groups, key=lambda group: (-weights[group[0]], group[0]))
    return [ranked[number::count] for number in range(count)]


def audit_group(
    group: Group,
    options: AuditOptions,
    location: str,
    directory: str,
    transactions: Mapping[int, TransactionState] | None,
) -> tuple[set[int], dict[str, list[dict]]]:
    """Audit one partition: (producers of open transactions, no rows) when `transactions` is None and there are such,
    else (nothing, rows by report table). One that raises is told as such, and all others are answered."""
    from replica_audit.auditing.partition import audit_partition, needed_batches, open_producers
    from replica_audit.auditing.rows.answer_rows import report_rows
    from replica_audit.auditing.rows.evidence import partition_evidence
    from replica_audit.auditing.rows.failures import failure_rows
    from replica_audit.formats.segments.record_reader import RecordReader
    from replica_audit.model import TopicPartition
    from replica_audit.warehouse.batch_files import read_batches

    place, rows = group
    partition = TopicPartition(*place)
    try:
        evidence = partition_evidence(partition, rows, options)
        if transactions is None and (producers := open_producers(evidence)):
            return producers, {}
        needed = needed_batches(evidence)
        batches = read_batches(directory, rows.get("segments", ()), needed) if needed else {}
        return set(), report_rows(audit_partition(evidence, batches, RecordReader(location), transactions or {}))
    except Exception as error:
        return set(), failure_rows(partition, error, options.cluster_id)


def _log_dir_findings(
    warehouse: Warehouse, attempt: Mapping[str, str], groups: Sequence[Group], cluster_id: str | None
) -> list[dict]:
    """Findings of whole log dirs and of input that belongs to no partition."""
    tally = LogDirTally()
    for _, rows in groups:
        tally.add(rows.get("replica_dirs", ()), rows.get("segments", ()))
    return tally.findings([row for row in warehouse.read("quarantine", **attempt) if row["topic"] is None], cluster_id)
