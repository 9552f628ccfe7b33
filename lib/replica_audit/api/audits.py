"""An audit on Spark: the stages one after the other, and its answers as DataFrames."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from replica_audit.api.answers import Answers
from replica_audit.api.known_findings import Baseline
from replica_audit.api.quality_stage import QualityStage, QualityUnavailable, discard_data_docs
from replica_audit.auditing.audits.earlier_audit import Earlier
from replica_audit.config import Settings
from replica_audit.redaction import redact
from replica_audit.results import Results

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Audit(Answers):
    """The answers of an audit that is in the warehouse, its tables as DataFrames of the session that it ran in.

    The DataFrames have the columns of the Delta tables, ids first, and all rows. They are read when they are used: a
    session that has ended reads nothing.
    """

    def __init__(
        self, spark: SparkSession, results: Results, settings: Settings, earlier: Earlier | None = None
    ) -> None:
        super().__init__(results, settings.fail_on, earlier)
        self._spark = spark
        self._settings = settings

    def table(self, name: str) -> DataFrame:
        """A table of the warehouse, report or bronze: the rows of this audit, or of its snapshot. Raises KeyError."""
        from replica_audit.spark.pipeline import audit_frame

        return audit_frame(self._spark, name, self.results.audit, self._settings)

    @property
    def partitions(self) -> DataFrame:
        """A row for each partition: verdict, leader, high watermark, what is lost."""
        return self.table("partitions")

    @property
    def replicas(self) -> DataFrame:
        """A row for each copy of a partition."""
        return self.table("replicas")

    @property
    def high_watermarks(self) -> DataFrame:
        """The bounds of each partition's high watermark, and what they stand on."""
        return self.table("high_watermarks")

    @property
    def high_watermark_timeline(self) -> DataFrame:
        """The high watermark recomputed from what was observed of a running cluster."""
        return self.table("high_watermark_timeline")

    @property
    def divergences(self) -> DataFrame:
        """Ranges in which a replica differs from the reference."""
        return self.table("divergences")

    @property
    def truncations(self) -> DataFrame:
        """Where each replica's log would end, by protocol."""
        return self.table("truncations")

    @property
    def findings(self) -> DataFrame:
        """What is wrong, with severity and evidence."""
        return self.table("findings")

    @property
    def quarantine(self) -> DataFrame:
        """Input that could not be used."""
        return self.table("quarantine")

    @property
    def batches(self) -> DataFrame:
        """The header of every batch of the snapshot."""
        return self.table("batches")


def audit_snapshot(
    spark: SparkSession,
    path: str,
    settings: Settings,
    progress: Any,
    known: Baseline | None = None,
    stage: QualityStage | None = None,
) -> Audit:
    """Ingest and audit the snapshot at `path` and check the quality of the answers where there is a `stage`.

    `known` is the audit that findings are compared with. Without Great Expectations its checks are left out, which
    `stage` reports. Raises UsageError, InputError and EngineError.
    """
    from replica_audit.spark.pipeline import load_earlier, run_audit, run_ingest

    known = known or Baseline()
    snapshot_id = run_ingest(spark, path, settings, progress)
    if stage is not None:
        stage.prepare(spark, snapshot_id)
    audited = run_audit(spark, snapshot_id, settings, progress, path)
    results = known.compare(replace(audited, location=redact(path)))
    checked = False
    if stage is not None:
        try:
            results = known.compare(stage.check(spark, results))
            checked = True
        except QualityUnavailable as error:
            stage.tell(str(error))
    if not checked:
        discard_data_docs(settings)
    return Audit(spark, results, settings, known.earlier or load_earlier(spark, results, settings))
