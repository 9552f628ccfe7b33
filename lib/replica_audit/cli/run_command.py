"""The command `run`: ingest, audit, quality checks and report in one session."""

from __future__ import annotations

import argparse
from functools import partial

from replica_audit.auditing.known_findings import read_baseline
from replica_audit.cli.answer_output import print_answers, print_unused, print_written
from replica_audit.cli.engine import spark_session
from replica_audit.cli.failure import discard_verdict, leave_verdict
from replica_audit.cli.history_command import print_removed
from replica_audit.cli.interruption import INTERRUPTION
from replica_audit.cli.output import print_error
from replica_audit.cli.progress_lines import ProgressLine
from replica_audit.cli.snapshot_argument import check_snapshot
from replica_audit.config import Settings
from replica_audit.paths import check_files, check_outputs
from replica_audit.spark.quality_stage import quality_stage


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Ingest, audit, check the quality and report; the last line on stdout is the status line."""
    check_snapshot(arguments.snapshot)
    check_outputs(arguments.snapshot, settings)
    check_files(settings)
    baseline = read_baseline(settings)
    discard_verdict(settings)
    INTERRUPTION.tell = partial(leave_verdict, settings)
    with quality_stage(settings, print_error) as stage, spark_session("replica-audit run", settings) as spark:
        from replica_audit.api import audit_snapshot

        progress = ProgressLine(settings.quiet)
        answers = audit_snapshot(spark, arguments.snapshot, settings, progress, baseline, stage)
        if settings.keep_days is not None or settings.keep_audits is not None:
            from replica_audit.spark.pipeline import prune

            print_removed(*prune(spark, settings), settings)
    print_unused(baseline, answers.results, settings)
    progress.begin("writing the report")
    written = answers.report(settings.report)
    progress.end()
    print_written(written, settings)
    return print_answers(answers.results, settings)
