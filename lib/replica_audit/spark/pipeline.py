"""The stages as the command line calls them; `spark` may be None if only rows are read and no catalog is set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from replica_audit.auditing.history import AuditHistory
from replica_audit.auditing.known_findings import Earlier
from replica_audit.bronze_tables import BRONZE_TABLES, SnapshotRow
from replica_audit.config import Settings
from replica_audit.errors import UsageError
from replica_audit.quality.quality_facts import CountsByReplica, segment_counts
from replica_audit.quality.suites import Suite
from replica_audit.results import Results
from replica_audit.runner.ingest import ingest
from replica_audit.runner.ingested_source import audit
from replica_audit.schema import REPORT_TABLES, QualityRow
from replica_audit.spark.catalogs import catalog_warehouse
from replica_audit.spark.quality_run import quality_frames
from replica_audit.spark.table_frames import table_frame
from replica_audit.spark.tasks import SparkExecutor
from replica_audit.text import now
from replica_audit.warehouse import answer_tables, past_audits, retention
from replica_audit.warehouse.attempts import check_committed, check_large, latest_attempt, own_rows, record_attempt
from replica_audit.warehouse.commit_trial import loses_commits
from replica_audit.warehouse.delta_tables import Warehouse
from replica_audit.warehouse.ingested_rows import placed_segments, read_summary, segment_files
from replica_audit.warehouse.retention import sweep

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


def open_warehouse(spark: SparkSession | None, settings: Settings) -> Warehouse:
    """The tables that the settings name; those of a catalog need a session."""
    if settings.catalog:
        if spark is None:
            raise UsageError(f"the tables of the catalog {settings.catalog} need a Spark session, and none was started")
        return catalog_warehouse(spark, settings.catalog, settings)
    return Warehouse(settings.warehouse, time_travel_days=settings.time_travel_days)


def run_ingest(spark: SparkSession, snapshot_uri: str, settings: Settings, progress) -> str:
    """Ingest a snapshot; returns its id. See `ingest.ingest`."""
    if settings.catalog is None and loses_commits(settings.warehouse):
        progress.warn(
            f"the store of {settings.warehouse} has no conditional puts: let one run at a time write to this warehouse, since "
            "of commits at once all but one may be lost"
        )
    return ingest(SparkExecutor(spark), open_warehouse(spark, settings), snapshot_uri, settings, progress)


def run_audit(
    spark: SparkSession, snapshot_id: str | None, settings: Settings, progress, snapshot_uri: str | None = None
) -> Results:
    """Audit an ingested snapshot. See `ingested_source.audit`."""
    return audit(SparkExecutor(spark), open_warehouse(spark, settings), snapshot_id, settings, progress, snapshot_uri)


def load_results(spark: SparkSession | None, audit_id: str | None, settings: Settings) -> Results:
    """The results of a finished audit. See `answer_tables.load_results`."""
    return answer_tables.load_results(open_warehouse(spark, settings), audit_id, settings.fail_on)


def load_earlier(spark: SparkSession | None, results: Results, settings: Settings) -> Earlier | None:
    """The audit of the cluster before that of `results`. See `past_audits.load_earlier`."""
    return past_audits.load_earlier(open_warehouse(spark, settings), results.audit)


def load_past(spark: SparkSession | None, settings: Settings, limit: int | None = None) -> AuditHistory:
    """The history of the finished audits. See `past_audits.load_history`."""
    return past_audits.load_history(open_warehouse(spark, settings), settings.topics, limit)


def unfinished_audits(spark: SparkSession | None, settings: Settings) -> list[str]:
    """Audits later than the latest finished one. See `retention.unfinished_audits`."""
    return retention.unfinished_audits(open_warehouse(spark, settings))


def prune(spark: SparkSession | None, settings: Settings, *, vacuum: bool = False) -> tuple[list[str], list[str]]:
    """Remove the audits that the settings do not keep. See `retention.apply_retention`."""
    warehouse = open_warehouse(spark, settings)
    return retention.apply_retention(warehouse, settings.keep_days, settings.keep_audits, vacuum=vacuum)


def sweep_rows(spark: SparkSession | None, settings: Settings) -> int:
    """Delete what killed runs left; returns the number of rows. See `retention.sweep`."""
    return sweep(open_warehouse(spark, settings))


def count_segments(spark: SparkSession | None, snapshot_id: str, settings: Settings) -> CountsByReplica:
    """Counts over a snapshot's segments, for the quality suites."""
    warehouse = open_warehouse(spark, settings)
    attempt = latest_attempt(warehouse, "ingest", snapshot_id=snapshot_id)
    segments = placed_segments(segment_files(warehouse, **own_rows(attempt)))
    check_committed(warehouse, attempt, {"segments": len(segments)})
    directory = warehouse.directory("segments")
    (snapshot,) = warehouse.read("snapshots", SnapshotRow, **own_rows(attempt))
    times = answer_tables.capture_times(snapshot)
    return segment_counts(segments, lambda one: read_summary(directory, one.summary_file, one.summary_row), times)


def quality_tables(
    spark: SparkSession | None,
    results: Results,
    counts: CountsByReplica,
    suites: Iterable[Suite],
    settings: Settings,
) -> dict[str, pa.Table | DataFrame]:
    """Tables for the quality suites. See `quality.quality_frames`."""
    return quality_frames(spark, open_warehouse(spark, settings), results, counts, suites)


def keep_quality(
    spark: SparkSession | None, results: Results, rows: Sequence[QualityRow], settings: Settings, again: bool
) -> None:
    """Write an audit's rows of `quality` and record their number; `again`: in place of its present ones."""
    warehouse = open_warehouse(spark, settings)
    ids = {name: results.audit[name] for name in ("cluster_id", "snapshot_id", "audit_id")}
    attempt: dict[str, Any] = {**ids, "ingest_id": None, "started": now()}
    if again:
        # Until these are all there, the right number of rows is unknown.
        record_attempt(warehouse, "quality", "running", **attempt)
    warehouse.describe_commits(stage="quality", snapshot_id=ids["snapshot_id"], audit_id=ids["audit_id"])
    warehouse.put("quality", rows, ids, again=again)
    counts = {"quality": len(rows)}
    record_attempt(warehouse, "quality", "finished", tables=("quality",), row_counts=counts, **attempt)


def audit_frame(spark: SparkSession, table: str, audit: Mapping[str, Any], settings: Settings) -> DataFrame:
    """Rows of a table, report or bronze, of the audit that `audit` describes. Raises KeyError for an unknown table."""
    warehouse = open_warehouse(spark, settings)
    if table not in REPORT_TABLES and table not in BRONZE_TABLES:
        raise KeyError(table)
    finished = latest_attempt(warehouse, "audit", audit_id=audit["audit_id"])
    if table not in BRONZE_TABLES:
        check_large(warehouse, finished, [table], finished.audit_id)
        return table_frame(spark, warehouse, table, {"audit_id": finished.audit_id})
    ingested = latest_attempt(warehouse, "ingest", **own_rows(finished))
    check_large(warehouse, ingested, [table], finished.snapshot_id)
    return table_frame(spark, warehouse, table, own_rows(finished))
