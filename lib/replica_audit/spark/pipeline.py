"""The stages as the command line calls them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from replica_audit.auditing.earlier import Earlier
from replica_audit.auditing.history import History
from replica_audit.config import Settings
from replica_audit.results import Results
from replica_audit.spark import history
from replica_audit.spark.answers import assemble_results, audit_answers, snapshot_answers
from replica_audit.spark.audit import AUDITED_TABLES, audit
from replica_audit.spark.ingest import ingest
from replica_audit.spark.observations import timeline_answers
from replica_audit.spark.quality import quality_frames, segment_counts
from replica_audit.spark.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def run_ingest(spark: SparkSession, snapshot_uri: str, settings: Settings, progress) -> str:
    """Ingest a snapshot; returns its id. See `ingest.ingest`."""
    return ingest(spark, snapshot_uri, settings, progress)


def run_audit(
    spark: SparkSession, snapshot_id: str | None, settings: Settings, progress, snapshot_uri: str | None = None
) -> Results:
    """Audit an ingested snapshot. See `audit.audit`."""
    return audit(spark, snapshot_id, settings, progress, snapshot_uri)


def load_results(spark: SparkSession, audit_id: str | None, settings: Settings) -> Results:
    """The results of a finished audit, the latest when `audit_id` is None; raises UsageError when there is none."""
    warehouse = _warehouse(spark, settings)
    finished = warehouse.latest("audit", **({"audit_id": audit_id} if audit_id else {}))
    kept = ("quality",) if warehouse.exists("quality") else ()
    answers = audit_answers(warehouse, finished["audit_id"], (*AUDITED_TABLES, *kept))
    rows, observations = timeline_answers(warehouse, finished["audit_id"])
    results = assemble_results(
        finished, [*answers, *rows, *snapshot_answers(warehouse, finished["snapshot_id"])], observations
    )
    options = results.audit["options"]
    # What the answers were computed with stays; from which severity on they fail is asked anew.
    return replace(results, audit={**results.audit, "options": options and {**options, "fail_on": settings.fail_on}})


def load_earlier(spark: SparkSession, results: Results, settings: Settings) -> Earlier | None:
    """The audit of the cluster before that of `results`. See `history.load_earlier`."""
    return history.load_earlier(_warehouse(spark, settings), results.audit)


def load_past(spark: SparkSession, settings: Settings, limit: int | None = None) -> History:
    """The history of the finished audits. See `history.load_history`."""
    return history.load_history(_warehouse(spark, settings), settings.topics, limit)


def prune(spark: SparkSession, settings: Settings, *, vacuum: bool = False) -> tuple[list[str], list[str]]:
    """Remove the audits that the settings do not keep. See `history.apply_retention`."""
    return history.apply_retention(_warehouse(spark, settings), settings.keep_days, settings.keep_audits, vacuum=vacuum)


def count_segments(spark: SparkSession, snapshot_id: str, settings: Settings) -> list[dict[str, Any]]:
    """What quality suites need of a snapshot's segments. See `quality.segment_counts`."""
    return segment_counts(_warehouse(spark, settings), snapshot_id)


def quality_tables(
    spark: SparkSession,
    results: Results,
    counts: Iterable[Mapping[str, Any]],
    tables: Sequence[str],
    settings: Settings,
) -> dict[str, DataFrame]:
    """DataFrames that quality suites look at. See `quality.quality_frames`."""
    return quality_frames(spark, _warehouse(spark, settings), results, counts, tables)


def keep_quality(
    spark: SparkSession, results: Results, rows: Sequence[Mapping[str, Any]], settings: Settings, again: bool
) -> None:
    """Write the rows of `quality` of an audit; `again`: in place of those that it has."""
    warehouse = _warehouse(spark, settings)
    ids = {name: results.audit[name] for name in ("cluster_id", "snapshot_id", "audit_id")}
    warehouse.describe_commits(stage="quality", snapshot_id=ids["snapshot_id"], audit_id=ids["audit_id"])
    frame = warehouse.frame("quality", rows, ids).coalesce(1)
    warehouse.put("quality", frame, again=again and warehouse.exists("quality"), key="audit_id", value=ids["audit_id"])


def _warehouse(spark: SparkSession, settings: Settings) -> Warehouse:
    return Warehouse(spark, settings.warehouse, settings.catalog, settings.time_travel_days)
