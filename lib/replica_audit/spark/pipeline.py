"""The stages of a run by a Spark session: a snapshot is ingested, and audited from there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replica_audit.config import Settings
from replica_audit.progress import Progress
from replica_audit.results import Results
from replica_audit.runner.ingest import ingest
from replica_audit.runner.ingested_source import audit
from replica_audit.spark.catalogs import open_warehouse
from replica_audit.spark.tasks import SparkExecutor
from replica_audit.warehouse.commit_trial import loses_commits

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run_ingest(spark: SparkSession, snapshot_uri: str, settings: Settings, progress: Progress) -> str:
    """Ingest a snapshot; returns its id. See `ingest.ingest`."""
    if settings.catalog is None and loses_commits(settings.warehouse):
        progress.warn(
            f"the store of {settings.warehouse} has no conditional puts: let one run at a time write to this warehouse, since "
            "of commits at once all but one may be lost"
        )
    return ingest(SparkExecutor(spark), open_warehouse(spark, settings), snapshot_uri, settings, progress)


def run_audit(
    spark: SparkSession,
    snapshot_id: str | None,
    settings: Settings,
    progress: Progress,
    snapshot_uri: str | None = None,
) -> Results:
    """Audit an ingested snapshot. See `ingested_source.audit`."""
    return audit(SparkExecutor(spark), open_warehouse(spark, settings), snapshot_id, settings, progress, snapshot_uri)
