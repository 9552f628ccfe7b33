"""The quality stage: its suites read before anything starts, its package loaded beside Spark, its answers in the results.

Loading Great Expectations takes seconds of one core, in which Spark waits for its JVM: both are done at once, when all they
need has been found.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from replica_audit.config import Settings
from replica_audit.errors import EngineError
from replica_audit.paths import local_path
from replica_audit.results import Results

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from replica_audit.quality.checkpoint import QualityRun
    from replica_audit.quality.suites import QualityPlan

#: Directory below the report.
DATA_DOCS = "data_docs"


class QualityUnavailable(EngineError):
    """Great Expectations cannot be imported here; an audit runs without its checks."""


class QualityStage:
    """The quality check of one audit. Raises UsageError for wrong suites, and QualityUnavailable without the package, on creation."""

    def __init__(self, settings: Settings, tell: Callable[[str], None]) -> None:
        """`tell` is called with a sentence for each failure of a user's own Action."""
        from replica_audit.quality.suites import load_plan

        self._settings = settings
        self.tell = tell
        self._plan = load_plan(settings.suites)
        if importlib.util.find_spec("great_expectations") is None:
            raise QualityUnavailable(
                "great_expectations is not installed where the driver runs: quality is not checked"
            )
        self._pool = ThreadPoolExecutor(max_workers=2)
        self._loaded: Future | None = None
        self._counts: Future | None = None

    def load(self) -> Future:
        """Start loading the package, unless started."""
        if self._loaded is None:
            self._loaded = self._pool.submit(_load)
        return self._loaded

    def prepare(self, spark: SparkSession | None, snapshot_id: str) -> Future:
        """Start counting over the segments of an ingested snapshot, while the audit runs."""
        from replica_audit.spark.catalogs import open_warehouse
        from replica_audit.spark.quality_run import count_segments

        self._counts = self._pool.submit(count_segments, open_warehouse(spark, self._settings), snapshot_id)
        return self._counts

    def check(self, spark: SparkSession | None, results: Results, *, again: bool = False) -> Results:
        """`results` with the rows of `quality`, which are stored in the warehouse; Data Docs go into the report.

        `again`: this audit may have been checked before, and is checked anew.
        """
        from replica_audit.spark.catalogs import open_warehouse
        from replica_audit.spark.quality_run import keep_quality, quality_frames

        counts = self._counts or self.prepare(spark, str(results.audit["snapshot_id"]))
        try:
            run_checkpoint = self.load().result()
        except ImportError as error:
            reason = " ".join(str(error).split())
            raise QualityUnavailable(
                f"great_expectations cannot be imported ({reason}): quality is not checked"
            ) from error
        warehouse = open_warehouse(spark, self._settings)
        frames = quality_frames(spark, warehouse, results, counts.result(), self._plan.suites)
        run = run_checkpoint(
            self._plan,
            frames,
            _data_docs(self._settings),
            results.audit["audit_id"],
            datetime.now(timezone.utc),
        )
        for warning in run.warnings:
            self.tell(warning)
        keep_quality(warehouse, results, run.rows, again=again)
        return replace(results, quality=run.rows)

    @property
    def needs_spark(self) -> bool:
        """True if a suite is checked on Spark."""
        return self._plan.needs_spark

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)


def discard_data_docs(settings: Settings) -> None:
    """Remove an earlier audit's Data Docs from a report that another audit is about to replace."""
    shutil.rmtree(_data_docs(settings), ignore_errors=True)


def _data_docs(settings: Settings) -> str:
    return os.path.join(local_path(settings.report) or settings.report, DATA_DOCS)


def _load() -> Callable[[QualityPlan, Mapping[str, object], str | None, str, datetime], QualityRun]:
    from replica_audit.quality.checkpoint import run_checkpoint

    return run_checkpoint


@contextmanager
def quality_stage(settings: Settings, tell: Callable[[str], None]) -> Iterator[QualityStage | None]:
    """The stage if `settings.quality` is on, else None; also None without its package, and `tell` is called with the reason."""
    stage = None
    try:
        stage = QualityStage(settings, tell) if settings.quality else None
    except QualityUnavailable as error:
        tell(str(error))
    try:
        yield stage
    finally:
        if stage is not None:
            stage.close()
