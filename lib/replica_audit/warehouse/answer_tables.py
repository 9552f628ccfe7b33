"""Results of an audit, read from the warehouse or assembled by the stage that wrote them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from replica_audit.arrow_rows import arrow_to_rows
from replica_audit.auditing.audit_results import audit_results
from replica_audit.auditing.leadership.capture_times import CaptureTimes, times_of_manifest
from replica_audit.bronze_tables import SnapshotRow
from replica_audit.results import Results
from replica_audit.schema import (
    REPORT_TABLES,
    AttemptRow,
    HighWatermarkTimelineRow,
    InputRow,
    PartitionRow,
    PartitionStateRow,
    ReportRows,
)
from replica_audit.warehouse.answer_parts import AnswerParts, TaskRunner
from replica_audit.warehouse.attempts import attempts, check_committed, latest_attempt, own_rows
from replica_audit.warehouse.delta_tables import StoredTables
from replica_audit.warehouse.table_reads import PLACE_COLUMNS
from replica_audit.warehouse.told_rows import ToldRows

#: Tables that the audit stage computes; `quarantine` is the snapshot's, the others belong to other commands.
REPORTED_TABLES = (
    "partitions",
    "replicas",
    "captures",
    "metadata_logs",
    "high_watermarks",
    "divergences",
    "truncations",
    "elections",
    "group_offsets",
    "remote_segments",
    "lost_producers",
    "findings",
)

#: Most rows of the timeline in audit.json, deviating ones first. The Delta table has all of them.
REPORTED_TIMELINE_ROWS = 100_000


def load_results(
    warehouse: StoredTables, audit_id: str | None, fail_on: str, runner: TaskRunner | None = None
) -> Results:
    """The results of a finished audit, by default the latest, for tasks of `runner` to read. Raises UsageError if there is none.

    The settings of the answers are kept; only `fail_on` is the caller's.
    """
    finished = latest_attempt(warehouse, "audit", **({"audit_id": audit_id} if audit_id else {}))
    ingested = next(iter(attempts(warehouse, "ingest", state="finished", **own_rows(finished))), finished)
    results = told_results(warehouse, finished, snapshot_row(warehouse, ingested), runner)
    options = results.audit["options"]
    return replace(results, audit={**results.audit, "options": options and {**options, "fail_on": fail_on}})


def snapshot_row(warehouse: StoredTables, ingested: AttemptRow) -> SnapshotRow | None:
    """The row of `snapshots` of a finished ingest, if any. Raises EngineError if the rows it committed are not those in the table."""
    attempt = own_rows(ingested)
    found = warehouse.read("snapshots", SnapshotRow, **attempt)
    counts = {table: _count(warehouse, table, attempt) for table in _OF_SNAPSHOT}
    check_committed(warehouse, ingested, {"snapshots": len(found), **counts})
    return next(iter(found), None)


def capture_times(snapshot: SnapshotRow | None) -> CaptureTimes:
    """Times of the copies of a snapshot, as far as its manifest has them."""
    manifest = json.loads((snapshot and snapshot.manifest) or "{}")
    return times_of_manifest(manifest.get("brokers") or (), (snapshot and snapshot.blank) or {})


#: Report tables that the ingest writes.
_OF_SNAPSHOT = ("quarantine", "partition_states")


def _count(warehouse: StoredTables, table: str, attempt: Mapping[str, str | None]) -> int:
    return sum(rows.num_rows for rows in warehouse.read_parts(table, ("ingest_id",), **attempt))


def told_results(
    warehouse: StoredTables, finished: AttemptRow, snapshot: SnapshotRow | None, runner: TaskRunner | None
) -> Results:
    """The results of a finished audit: with many partitions the reported rows, and the place of the others, for tasks of
    `runner` to read.

    Raises EngineError if the rows it committed are not those in the tables.
    """
    found = ReportRows()
    counts: Counter[str] = Counter()

    def files(table: str) -> Iterator[pa.Table]:
        owner = own_rows(finished) if table in _OF_SNAPSHOT else {"audit_id": finished.audit_id}
        for rows in warehouse.read_parts(table, _names(table), **owner):
            counts[table] += rows.num_rows
            yield rows

    found.partitions.extend(row for rows in files("partitions") for row in arrow_to_rows(rows, PartitionRow))
    told = ToldRows(found.partitions)
    # Open decisions determine which other rows are reported.
    for table in sorted((*REPORTED_TABLES, "quality", *_OF_SNAPSHOT), key=lambda table: table != "elections"):
        if table != "partitions":
            found.table(table).extend(told.select(table, files(table)))
    check_committed(warehouse, finished, {table: counts[table] for table in REPORTED_TABLES})
    for checked in attempts(warehouse, "quality", audit_id=finished.audit_id)[-1:]:
        if checked.state == "finished":
            check_committed(warehouse, checked, {"quality": counts["quality"]})
    timeline = timeline_answers(warehouse, finished)
    results = assemble_results(finished, found, snapshot, timeline)
    if told.is_all:
        return results
    placed = [table for table in REPORTED_TABLES if set(_names(table)).issuperset(PLACE_COLUMNS)]
    of_audit = {table: warehouse.placed_files(table, finished.audit_id) for table in placed}
    states = warehouse.placed_files("partition_states", finished.snapshot_id, ingest_id=finished.ingest_id)
    parts = AnswerParts(told.places, {**of_audit, "partition_states": states}, results.high_watermark_timeline, runner)
    return replace(results, stored=parts, further=told.further)


def with_snapshot_rows(rows: ReportRows, warehouse: StoredTables, ingested: AttemptRow) -> ReportRows:
    """`rows` with those of the report tables that the ingest wrote."""
    attempt = own_rows(ingested)
    return replace(
        rows,
        quarantine=warehouse.read("quarantine", InputRow, **attempt),
        partition_states=warehouse.read("partition_states", PartitionStateRow, **attempt),
    )


def timeline_answers(warehouse: StoredTables, finished: AttemptRow) -> tuple[list[HighWatermarkTimelineRow], int]:
    """Rows of `high_watermark_timeline` for audit.json, at most `REPORTED_TIMELINE_ROWS`, and their total number.

    Raises EngineError if the rows that the audit committed are not those in the table.
    """
    table = "high_watermark_timeline"
    keys = ("quiet", "topic", "partition", "time_ms", "sequence")
    kept, count = None, 0
    for part in warehouse.read_parts(table, _names(table), audit_id=finished.audit_id):
        count += part.num_rows
        kept = part if kept is None else pa.concat_tables([kept, part])
        if kept.num_rows > REPORTED_TIMELINE_ROWS:
            marked = kept.append_column("quiet", pc.is_null(kept["deviation"]))
            ranked = pc.sort_indices(marked, [(key, "ascending") for key in keys])
            kept = kept.take(ranked[:REPORTED_TIMELINE_ROWS])
    check_committed(warehouse, finished, {table: count})
    return list(arrow_to_rows(kept, HighWatermarkTimelineRow)), count


def assemble_results(
    finished: AttemptRow,
    answers: ReportRows,
    snapshot: SnapshotRow | None,
    timeline: tuple[list[HighWatermarkTimelineRow], int],
) -> Results:
    """Results from a `finished` row of `audits`, answers, the row of `snapshots`, and the timeline with its number of observations."""
    rows, observations = timeline
    inputs = {
        "snapshot": snapshot and snapshot.uri,
        "log_dirs": snapshot and snapshot.log_dir_count,
        "replicas": snapshot and snapshot.replica_count,
        "segments": snapshot and snapshot.segment_count,
        "size_bytes": snapshot and snapshot.size_bytes,
        "files": snapshot and snapshot.inventory,
        **capture_times(snapshot).as_inputs(),
    }
    options = json.loads(finished.options) if finished.options else None
    answers = replace(answers, high_watermark_timeline=rows)
    blank = (snapshot and snapshot.blank) or {}
    results = audit_results(finished, inputs, blank, options, answers, observations, snapshot and snapshot.location)
    return replace(results, audit={**results.audit, "table_versions": dict(finished.table_versions or {}) or None})


def _names(table: str) -> list[str]:
    return [column.name for column in REPORT_TABLES[table]]
