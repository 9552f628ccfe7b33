"""`show`: audits a snapshot in this process, without Spark. Nothing is written."""

from __future__ import annotations

import argparse

from replica_audit.auditing.known_findings import read_baseline
from replica_audit.cli.answer_output import asked_table, print_answers, print_unused
from replica_audit.cli.output import print_result
from replica_audit.cli.progress_lines import ProgressLine
from replica_audit.config import Settings
from replica_audit.parsing import parse_partition
from replica_audit.paths import check_files
from replica_audit.process_start import keep_freed_memory
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.report.show_text import render_partition
from replica_audit.report.verdict_object import render_status_line
from replica_audit.report.wanted_ranges import check_wanted, write_wanted
from replica_audit.runner.in_process import audit_all, audit_one


def show(arguments: argparse.Namespace, settings: Settings) -> int:
    """Print everything about one partition, or a triage of all."""
    keep_freed_memory()
    partition = None if arguments.topic_partition is None else parse_partition(arguments.topic_partition)
    check_files(settings)
    asked = asked_table(arguments, settings)
    if arguments.wanted is not None:
        check_wanted(arguments.wanted, arguments.snapshot)
    baseline = read_baseline(settings)
    if partition is None:
        found = audit_all(arguments.snapshot, settings, ProgressLine(settings.quiet))
    else:
        found = audit_one(arguments.snapshot, partition, settings)
    results = baseline.compare(found)
    if arguments.wanted is not None:
        write_wanted(arguments.wanted, found, arguments.snapshot)
    print_unused(baseline, results, settings)
    if partition is None or settings.format != "text" or asked is not None:
        return print_answers(results, settings, asked)
    verdict = build_verdict(results, settings.fail_on)
    print_result(render_partition(results))
    print_result(render_status_line(verdict))
    return verdict["exit_status"]
