"""The quality stage: its suites read before anything starts, its package loaded beside Spark, its answers in the results.

Loading Great Expectations takes seconds of one core, in which Spark waits for its JVM: both are done at once.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from replica_audit.cli.engine import catalog_session, spark_session
from replica_audit.cli.known_findings import read_baseline
from replica_audit.cli.output import print_error, print_result, stdout_colour
from replica_audit.cli.places import check_files, check_outputs, local_path
from replica_audit.config import Settings
from replica_audit.errors import EngineError
from replica_audit.reporting.audit_json import render_object
from replica_audit.reporting.quality_report import build_quality, render_quality, render_quality_line
from replica_audit.results import Results

#: Below the report directory.
DATA_DOCS = "data_docs"


class QualityStage:
    """The quality check of one audit; raises UsageError for wrong suites and EngineError without the package at once."""

    def __init__(self, settings: Settings) -> None:
        from replica_audit.quality.suites import load_plan

        self._settings = settings
        self._plan = load_plan(settings.suites)
        if importlib.util.find_spec("great_expectations") is None:
            raise EngineError(
                "great_expectations is not installed: install it where the driver runs, or leave the quality checks "
                "out with --no-quality"
            )
        self._pool = ThreadPoolExecutor(max_workers=2)
        self._loaded: Future = self._pool.submit(_load)
        self._counts: Future | None = None

    def prepare(self, spark: Any, snapshot_id: str) -> None:
        """Begin counting over the segments of a snapshot that is ingested, while the audit runs."""
        from replica_audit.spark.pipeline import count_segments

        self._counts = self._pool.submit(count_segments, spark, snapshot_id, self._settings)

    def check(self, spark: Any, results: Results, *, again: bool = False) -> Results:
        """`results` with the rows of `quality`, which are kept in the warehouse; Data Docs go into the report.

        `again`: this audit may have been checked before, and is checked anew.
        """
        from replica_audit.spark.pipeline import keep_quality, quality_tables

        if self._counts is None:
            self.prepare(spark, results.audit["snapshot_id"])
        run_checkpoint = self._loaded.result()
        frames = quality_tables(spark, results, self._counts.result(), self._plan.suites, self._settings)
        run = run_checkpoint(
            self._plan,
            frames,
            _data_docs(self._settings),
            results.audit["audit_id"],
            datetime.now(timezone.utc),
        )
        for warning in run.warnings:
            print_error(warning)
        keep_quality(spark, results, run.rows, self._settings, again)
        return replace(results, tables={**results.tables, "quality": run.rows})

    @property
    def needs_spark(self) -> bool:
        """Whether a suite is checked on Spark."""
        return self._plan.needs_spark

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)


def discard_data_docs(settings: Settings) -> None:
    """Take away the Data Docs of an earlier audit from a report that is about to be another audit's."""
    shutil.rmtree(_data_docs(settings), ignore_errors=True)


def _data_docs(settings: Settings) -> str:
    return os.path.join(local_path(settings.report) or settings.report, DATA_DOCS)


def _load() -> Any:
    from replica_audit.quality.checkpoint import run_checkpoint

    return run_checkpoint


@contextmanager
def quality_stage(settings: Settings) -> Iterator[QualityStage | None]:
    """The stage when `settings.quality` is on, else None."""
    stage = QualityStage(settings) if settings.quality else None
    try:
        yield stage
    finally:
        if stage is not None:
            stage.close()


def quality(arguments: argparse.Namespace, settings: Settings) -> int:
    """Check the quality of a finished audit, the latest unless `--audit-id` names one; the exit status follows severity."""
    check_outputs(None, settings)
    check_files(settings)
    baseline = read_baseline(settings)
    with ExitStack() as opened:
        stage = opened.enter_context(quality_stage(replace(settings, quality=True)))
        session = spark_session if stage.needs_spark else catalog_session
        spark = opened.enter_context(session("replica-audit quality", settings))
        from replica_audit.spark.pipeline import load_results

        results = baseline.compare(load_results(spark, arguments.audit_id, settings))
        results = baseline.compare(stage.check(spark, results, again=True))
    answer = build_quality(results, settings.fail_on)
    if settings.format == "json":
        print_result(render_object({**answer, "expectations": list(results.rows("quality"))}))
    else:
        print_result(render_quality(results, colour=stdout_colour()))
        print_result(render_quality_line(answer))
    return answer["exit_status"]
