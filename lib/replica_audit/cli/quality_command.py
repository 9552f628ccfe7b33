"""The command `quality`: the checks of an audit that is in the warehouse."""

from __future__ import annotations

import argparse
from contextlib import ExitStack, closing
from dataclasses import replace

from replica_audit.auditing.known_findings import read_baseline
from replica_audit.cli.engine import catalog_session, spark_session
from replica_audit.cli.output import print_error, print_result, stdout_colour
from replica_audit.config import Settings
from replica_audit.paths import check_files, check_outputs
from replica_audit.report.facts.quality_counts import build_quality
from replica_audit.report.json_object import render_object
from replica_audit.report.quality_report import render_quality, render_quality_line
from replica_audit.spark.quality_stage import QualityStage


def quality(arguments: argparse.Namespace, settings: Settings) -> int:
    """Check the quality of a finished audit, the latest unless `--audit-id` names one; the exit status follows severity."""
    check_outputs(None, settings)
    check_files(settings)
    baseline = read_baseline(settings)
    with ExitStack() as opened:
        stage = opened.enter_context(closing(QualityStage(replace(settings, quality=True), print_error)))
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
