"""The command `ingest`: a snapshot into the warehouse."""

from __future__ import annotations

import argparse

from replica_audit.cli.engine import spark_session
from replica_audit.cli.output import print_result
from replica_audit.cli.progress_lines import ProgressLine
from replica_audit.cli.snapshot_argument import check_snapshot
from replica_audit.config import Settings
from replica_audit.paths import check_files, check_outputs
from replica_audit.report.json_object import render_object


def ingest(arguments: argparse.Namespace, settings: Settings) -> int:
    """Read a snapshot into the warehouse and say its id."""
    check_snapshot(arguments.snapshot)
    check_outputs(arguments.snapshot, settings, report=False)
    check_files(settings)
    with spark_session("replica-audit ingest", settings) as spark:
        from replica_audit.spark.pipeline import run_ingest

        progress = ProgressLine(settings.quiet)
        snapshot_id = run_ingest(spark, arguments.snapshot, settings, progress)
    if settings.format == "json":
        reading: dict[str, int] = {} if progress.reading is None else progress.reading._asdict()
        print_result(render_object({"snapshot_id": snapshot_id, **reading}))
    else:
        print_result(f"snapshot {snapshot_id}")
    return 0
