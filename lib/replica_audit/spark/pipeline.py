"""The stages as the command line calls them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replica_audit.config import Settings
from replica_audit.results import Results
from replica_audit.spark.answers import assemble_results, audit_answers, snapshot_answers
from replica_audit.spark.audit import AUDITED_TABLES, audit
from replica_audit.spark.ingest import ingest
from replica_audit.spark.observations import timeline_answers
from replica_audit.spark.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
    warehouse = Warehouse(spark, settings.warehouse, settings.catalog)
    finished = warehouse.latest("audit", **({"audit_id": audit_id} if audit_id else {}))
    answers = audit_answers(warehouse, finished["audit_id"], AUDITED_TABLES)
    rows, observations = timeline_answers(warehouse, finished["audit_id"])
    return assemble_results(finished, [*answers, *rows, *snapshot_answers(warehouse, finished["snapshot_id"])], observations)
