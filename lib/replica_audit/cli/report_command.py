"""The command `report`: the files of an audit that is in the warehouse."""

from __future__ import annotations

import argparse

from replica_audit.auditing.known_findings import read_baseline
from replica_audit.cli.answer_output import print_answers, print_unused, print_written
from replica_audit.cli.engine import catalog_session
from replica_audit.config import Settings
from replica_audit.paths import check_files, check_outputs
from replica_audit.report.report_files import write_report


def report(arguments: argparse.Namespace, settings: Settings) -> int:
    """Write the report of a finished audit, the latest unless `--audit-id` names one."""
    check_outputs(None, settings)
    check_files(settings)
    baseline = read_baseline(settings)
    with catalog_session("replica-audit report", settings) as spark:
        from replica_audit.spark.pipeline import load_earlier, load_results

        found = load_results(spark, arguments.audit_id, settings)
        earlier = baseline.earlier or load_earlier(spark, found, settings)
    print_unused(baseline, found, settings)
    results = baseline.compare(found)
    print_written(write_report(results, settings.report, settings.fail_on, earlier), settings)
    return print_answers(results, settings)
