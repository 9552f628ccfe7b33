"""The audit stage: bronze rows to answers, and these into their tables; `spark/partition_jobs.py` has the jobs."""

from __future__ import annotations

import json
import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from replica_audit.auditing.accounting import check_answered
from replica_audit.auditing.capture_rows import voter_rows
from replica_audit.auditing.evidence import (
    EARLIER,
    EVIDENCE_TABLES,
    GROUPS,
    LOG_EVENTS,
    REMOTE,
    TIMELINE,
    VERIFIED,
    AuditOptions,
    has_metadata_log,
    options_row,
    resolve_options,
)
from replica_audit.auditing.leadership.capture_times import times_of_manifest
from replica_audit.auditing.log_dir_findings import LogDirTally
from replica_audit.bronze_tables import BRONZE_TABLES
from replica_audit.config import Settings
from replica_audit.protocol.high_watermark import rule_of
from replica_audit.results import Results
from replica_audit.snapshot.consumer_offsets import GROUP_OFFSETS
from replica_audit.snapshot.internal_topics import InternalTopic
from replica_audit.snapshot.remote_log_metadata import REMOTE_SEGMENTS
from replica_audit.snapshot.storage import Snapshot
from replica_audit.spark.coordinator_job import log_dirs_of, read_internal
from replica_audit.spark.observation_jobs import PROGRESS, TIMELINE_TABLE, write_timeline
from replica_audit.spark.partition_jobs import audit_partitions, may_be_many
from replica_audit.spark.partition_tasks import Group, PartitionWork
from replica_audit.text import now
from replica_audit.warehouse.answer_tables import (
    REPORTED_TABLES,
    assemble_results,
    reported_rows,
    snapshot_answers,
    timeline_answers,
)
from replica_audit.warehouse.attempts import latest_attempt, own_rows, record_attempt
from replica_audit.warehouse.committed_rows import check_committed, check_large
from replica_audit.warehouse.delta_tables import Warehouse
from replica_audit.warehouse.earlier_rows import earlier_rows, verified_rows
from replica_audit.warehouse.segment_index import TABLE as SEGMENTS
from replica_audit.warehouse.segment_index import placed_segments

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
    Raises UsageError when there is no finished audit `settings.since` of the cluster.
    """
    started = now()
    ingested = latest_attempt(warehouse, "ingest", **({"snapshot_id": snapshot_id} if snapshot_id else {}))
    attempt = own_rows(ingested)
    of_snapshot = snapshot_answers(warehouse, ingested)
    (snapshot,) = of_snapshot["snapshots"]
    options = _options(snapshot, ingested["cluster_id"], settings)
    location = snapshot["location"] if snapshot_uri is None else Snapshot.open(snapshot_uri).location
    ids = {"cluster_id": ingested["cluster_id"], "snapshot_id": ingested["snapshot_id"], "audit_id": uuid.uuid4().hex}
    stage = {"started": started, "ingest_id": ingested["ingest_id"], **ids}
    stage["options"] = json.dumps(options_row(options, settings))
    verified = verified_rows(warehouse, settings.since, ids["cluster_id"]) if settings.since else {}
    warehouse.describe_commits(stage="audit", snapshot_id=ids["snapshot_id"], audit_id=ids["audit_id"])
    progress.begin("auditing")
    try:
        timelines = write_timeline(spark, warehouse, attempt, ids, rule_of(options.kafka_version))
        groups = _groups(warehouse, attempt, timelines, ids["cluster_id"])
        _check_rows(groups, ingested, warehouse)
        groups = _with_internal(spark, location, groups, GROUPS, GROUP_OFFSETS)
        groups = _with_internal(spark, location, groups, REMOTE, REMOTE_SEGMENTS)
        for place, rows in groups:
            if place in verified:
                rows[VERIFIED] = verified[place]
        many = REPORTED_TABLES if may_be_many(groups, settings.driver_rows) else ()
        directories = {table: warehouse.directory(table) for table in many}
        bronze = (warehouse.directory("batches"), warehouse.directory(SEGMENTS))
        work = PartitionWork(options, location, *bronze, settings.driver_rows, directories, ids)
        answers = audit_partitions(spark, groups, work)
        of_tasks = sum(file.row_count for file in answers.files.get("partitions", ()))
        check_answered(groups, len(answers.rows["partitions"]) + of_tasks)
        # Rows of earlier versions lack the column.
        answers.rows["captures"] += voter_rows(snapshot.get("voters") or ())
        answers.rows["findings"] += _log_dir_findings(warehouse, attempt, groups, ids["cluster_id"])
        counts = {TIMELINE_TABLE: warehouse.count_rows(TIMELINE_TABLE, ids["audit_id"]) if timelines else 0}
        for table in REPORTED_TABLES:
            files = answers.files.get(table, ())
            warehouse.append_files(table, files, ids["audit_id"])
            warehouse.append(table, answers.rows[table], ids)
            counts[table] = len(answers.rows[table]) + sum(file.row_count for file in files)
    except BaseException:
        record_attempt(warehouse, "audit", "failed", **stage)
        raise
    finally:
        progress.end()
    finished = record_attempt(warehouse, "audit", "finished", tables=REPORTED_TABLES, row_counts=counts, **stage)
    rows = reported_rows(warehouse, finished) if answers.files else answers.rows
    return assemble_results(finished, rows, of_snapshot, timeline_answers(warehouse, finished))


def _options(snapshot: Mapping, cluster_id: str | None, settings: Settings) -> AuditOptions:
    manifest = json.loads(snapshot["manifest"]) if snapshot["manifest"] else {}
    times = times_of_manifest(manifest.get("brokers") or ())
    said = (manifest.get("kafka_version"), manifest.get("quiesced"))
    return resolve_options(
        settings,
        *said,
        cluster_id,
        times,
        snapshot.get("brokers") or (),
        has_metadata_log=has_metadata_log(snapshot["inventory"]),
    )


def _groups(
    warehouse: Warehouse,
    attempt: Mapping[str, str],
    timelines: Mapping[tuple[str, int], dict[str, Any]],
    cluster_id: str | None,
) -> list[Group]:
    """The evidence of every partition, in their order, without the summaries of segments; rows are those of this attempt."""
    groups: dict[tuple[str, int], dict[str, list[dict]]] = defaultdict(lambda: defaultdict(list))
    for table in EVIDENCE_TABLES:
        columns = [column.name for column in BRONZE_TABLES[table]]
        rows = placed_segments(warehouse, **attempt) if table == SEGMENTS else warehouse.read(table, columns, **attempt)
        for row in rows:
            groups[row["topic"], row["partition"]][table].append(row)
    for place, summary in timelines.items():
        groups[place][TIMELINE] = [summary]
    if groups and warehouse.exists(LOG_EVENTS):
        # Lines of brokers' logs do not add partitions that nothing else names.
        for row in warehouse.read(LOG_EVENTS, [column.name for column in BRONZE_TABLES[LOG_EVENTS]], **attempt):
            if (place := (row["topic"], row["partition"])) in groups:
                groups[place][LOG_EVENTS].append(row)
    for place, seen in earlier_rows(warehouse, cluster_id, groups.keys()).items():
        groups[place][EARLIER] = seen
    return [(place, dict(groups[place])) for place in sorted(groups)]


def _check_rows(groups: Sequence[Group], ingested: Mapping[str, Any], warehouse: Warehouse) -> None:
    """Raise EngineError unless all tables have the rows that the ingest committed, if it says how many."""
    check_committed(
        warehouse,
        ingested,
        {table: sum(len(rows.get(table, ())) for _, rows in groups) for table in EVIDENCE_TABLES},
    )
    check_large(warehouse, ingested, ("batches", PROGRESS, LOG_EVENTS), ingested["snapshot_id"])


def _with_internal(
    spark: SparkSession, location: str, groups: list[Group], table: str, topic: InternalTopic
) -> list[Group]:
    """The same, each partition with what a topic of Kafka's own says of it, as rows of `table`."""
    found = defaultdict(list)
    for row in map(asdict, read_internal(spark, location, log_dirs_of(groups), topic)):
        found[row["topic"], row["partition"]].append(row)
    return [(place, {**rows, table: found[place]} if place in found else rows) for place, rows in groups]


def _log_dir_findings(
    warehouse: Warehouse, attempt: Mapping[str, str], groups: Sequence[Group], cluster_id: str | None
) -> list[dict]:
    """Findings of whole log dirs and of input that belongs to no partition."""
    tally = LogDirTally()
    for _, rows in groups:
        tally.add(rows.get("replica_dirs", ()), rows.get("segments", ()))
    return tally.findings([row for row in warehouse.read("quarantine", **attempt) if row["topic"] is None], cluster_id)
