"""Results of an audit, read from the warehouse or assembled by the stage that wrote them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from replica_audit.auditing.audit_results import audit_results
from replica_audit.auditing.leadership.capture_times import times_of_manifest
from replica_audit.results import Results
from replica_audit.schema import REPORT_TABLES, AttemptRow
from replica_audit.warehouse.attempts import attempts, check_committed, latest_attempt, own_rows
from replica_audit.warehouse.delta_tables import StoredTables

#: Tables that the audit stage computes; `quarantine` is the snapshot's, the others belong to other commands.
REPORTED_TABLES = (
    "partitions",
    "replicas",
    "captures",
    "high_watermarks",
    "divergences",
    "truncations",
    "elections",
    "group_offsets",
    "lost_producers",
    "findings",
)

#: Rows of the timeline in audit.json; of more, those that deviate go first. The Delta table has all of them.
REPORTED_TIMELINE_ROWS = 100_000


def load_results(warehouse: StoredTables, audit_id: str | None, fail_on: str) -> Results:
    """The results of a finished audit, the latest when `audit_id` is None; raises UsageError when there is none.

    What the answers were computed with stays; from which severity on they fail is asked anew.
    """
    finished = latest_attempt(warehouse, "audit", **({"audit_id": audit_id} if audit_id else {}))
    ingested = attempts(warehouse, "ingest", state="finished", **own_rows(finished))
    results = assemble_results(
        finished,
        reported_rows(warehouse, finished),
        snapshot_answers(warehouse, next(iter(ingested), finished)),
        timeline_answers(warehouse, finished),
    )
    options = results.audit["options"]
    return replace(results, audit={**results.audit, "options": options and {**options, "fail_on": fail_on}})


def reported_rows(warehouse: StoredTables, finished: AttemptRow) -> dict[str, list[dict]]:
    """Rows of a finished audit by report table, those of `quality` among them; a table that is not there is left out.

    Raises EngineError where the audit committed others.
    """
    tables = [table for table in (*REPORTED_TABLES, "quality") if warehouse.exists(table)]
    found = {table: warehouse.read(table, _names(table), audit_id=finished.audit_id) for table in tables}
    check_committed(warehouse, finished, {table: len(found.get(table, ())) for table in REPORTED_TABLES})
    for checked in attempts(warehouse, "quality", audit_id=finished.audit_id)[-1:]:
        if checked.state == "finished":
            check_committed(warehouse, checked, {"quality": len(found.get("quality", ()))})
    return found


def snapshot_answers(warehouse: StoredTables, ingested: AttemptRow) -> dict[str, list[dict]]:
    """Rows of the snapshot itself: `quarantine`, `partition_states`, and its row of `snapshots`.

    Raises EngineError where the finished ingest committed others.
    """
    attempt = own_rows(ingested)
    found = {table: warehouse.read(table, _names(table), **attempt) for table in ("quarantine", "partition_states")}
    found["snapshots"] = warehouse.read("snapshots", **attempt)
    check_committed(warehouse, ingested, {table: len(rows) for table, rows in found.items()})
    return found


def timeline_answers(warehouse: StoredTables, finished: AttemptRow) -> tuple[list[dict], int]:
    """Rows of `high_watermark_timeline` for audit.json, at most `REPORTED_TIMELINE_ROWS`, and how many there are in all.

    Raises EngineError where the audit committed others.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    from replica_audit.arrow_rows import arrow_to_rows

    table = "high_watermark_timeline"
    if not warehouse.exists(table):
        check_committed(warehouse, finished, {table: 0})
        return [], 0
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
    return arrow_to_rows(kept), count


def assemble_results(
    finished: AttemptRow,
    answers: Mapping[str, Sequence[dict]],
    of_snapshot: Mapping[str, Sequence[dict]],
    timeline: tuple[list[dict], int],
) -> Results:
    """Results from a `finished` row of `audits`, rows by table, the snapshot's own rows, and how much was observed."""
    snapshot = next(iter(of_snapshot.get("snapshots", ())), {})
    manifest = json.loads(snapshot.get("manifest") or "{}")
    rows, observations = timeline
    inputs = {
        "snapshot": snapshot.get("uri"),
        "log_dirs": snapshot.get("log_dir_count"),
        "replicas": snapshot.get("replica_count"),
        "segments": snapshot.get("segment_count"),
        "size_bytes": snapshot.get("size_bytes"),
        "files": snapshot.get("inventory"),
        "brokers": times_of_manifest(manifest.get("brokers") or ()).kinds(),
    }
    options = json.loads(finished.options) if finished.options else None
    tables = {**answers, **of_snapshot, "high_watermark_timeline": rows}
    results = audit_results(finished, inputs, options, tables, observations, snapshot.get("location"))
    return replace(results, audit={**results.audit, "table_versions": dict(finished.table_versions or {}) or None})


def _names(table: str) -> list[str]:
    return [column.name for column in REPORT_TABLES[table]]
