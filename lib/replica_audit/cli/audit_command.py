"""The command `audit`: a snapshot that is in the warehouse."""

from __future__ import annotations

import argparse

from replica_audit.auditing.known_findings import read_baseline
from replica_audit.cli.answer_output import print_answers, print_unused
from replica_audit.cli.engine import spark_session
from replica_audit.cli.progress_lines import ProgressLine
from replica_audit.config import Settings
from replica_audit.paths import check_files, check_outputs


def audit(arguments: argparse.Namespace, settings: Settings) -> int:
    """Audit an ingested snapshot, the latest unless `--snapshot-id` names one, and show the answer."""
    check_outputs(None, settings, report=False)
    check_files(settings)
    baseline = read_baseline(settings)
    with spark_session("replica-audit audit", settings) as spark:
        from replica_audit.spark.pipeline import run_audit

        results = run_audit(spark, arguments.snapshot_id, settings, ProgressLine(settings.quiet))
    print_unused(baseline, results, settings)
    return print_answers(baseline.compare(results), settings)
