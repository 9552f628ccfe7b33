"""The commands: each takes the arguments and the settings and returns the exit status.

Spark is imported inside the commands that need it, so that the others answer at once and without Java.
"""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

from replica_audit.api import Answers, parse_partition, show_snapshot
from replica_audit.auditing.catalogue import (
    CATALOGUE,
    FAMILIES,
    VERDICT_MEANINGS,
    codes_beginning,
    codes_of_verdict,
    nearest_codes,
)
from replica_audit.auditing.known_findings import Baseline, read_baseline
from replica_audit.cli.capture_plan_command import capture_plan
from replica_audit.cli.elect_command import elect
from replica_audit.cli.engine import catalog_session, spark_session
from replica_audit.cli.explain_command import explain_finding, is_finding_id
from replica_audit.cli.failure import discard_verdict, leave_verdict
from replica_audit.cli.history_command import history, say_removed
from replica_audit.cli.interruption import INTERRUPTION
from replica_audit.cli.output import print_error, print_note, print_result, stdout_colour
from replica_audit.cli.progress_lines import ProgressLine
from replica_audit.cli.quality_command import quality
from replica_audit.cli.restore_command import restore
from replica_audit.cli.salvage_command import salvage
from replica_audit.cli.snapshot_argument import check_snapshot
from replica_audit.cli.verify_command import verify
from replica_audit.config import Settings
from replica_audit.errors import UsageError
from replica_audit.paths import check_files, check_outputs
from replica_audit.report.audit_json import render_audit_json, render_object
from replica_audit.report.audit_summary import render_summary
from replica_audit.report.explanation import (
    render_catalogue,
    render_explanation,
    render_family,
    render_verdict,
)
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.report.partition_page import render_partition
from replica_audit.report.quality_report import render_failed
from replica_audit.report.status_line import render_status_line
from replica_audit.results import Results
from replica_audit.spark.quality_stage import quality_stage

Command = Callable[[argparse.Namespace, Settings], int]


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

        answers = audit_snapshot(spark, arguments.snapshot, settings, ProgressLine(settings.quiet), baseline, stage)
        if settings.keep_days is not None or settings.keep_audits is not None:
            from replica_audit.spark.pipeline import prune

            say_removed(*prune(spark, settings), settings)
    _say_unused(baseline, answers.results, settings)
    return _report(answers, settings)


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


def audit(arguments: argparse.Namespace, settings: Settings) -> int:
    """Audit an ingested snapshot, the latest unless `--snapshot-id` names one, and show the answer."""
    check_outputs(None, settings, report=False)
    check_files(settings)
    baseline = read_baseline(settings)
    with spark_session("replica-audit audit", settings) as spark:
        from replica_audit.spark.pipeline import run_audit

        results = run_audit(spark, arguments.snapshot_id, settings, ProgressLine(settings.quiet))
    _say_unused(baseline, results, settings)
    return _show_summary(baseline.compare(results), settings)


def report(arguments: argparse.Namespace, settings: Settings) -> int:
    """Write the report of a finished audit, the latest unless `--audit-id` names one."""
    check_outputs(None, settings)
    check_files(settings)
    baseline = read_baseline(settings)
    with catalog_session("replica-audit report", settings) as spark:
        from replica_audit.spark.pipeline import load_earlier, load_results

        results = load_results(spark, arguments.audit_id, settings)
        earlier = baseline.earlier or load_earlier(spark, results, settings)
    _say_unused(baseline, results, settings)
    return _report(Answers(baseline.compare(results), settings.fail_on, earlier), settings)


def show(arguments: argparse.Namespace, settings: Settings) -> int:
    """Audit in this process: one partition and everything that is known of it, or the triage of all."""
    partition = parse_partition(arguments.topic_partition)
    check_snapshot(arguments.snapshot)
    check_files(settings)
    baseline = read_baseline(settings)
    results = show_snapshot(arguments.snapshot, partition, settings, ProgressLine(settings.quiet), baseline).results
    _say_unused(baseline, results, settings)
    if partition is None or settings.format == "json":
        return _show_summary(results, settings)
    verdict = build_verdict(results, settings.fail_on)
    print_result(render_partition(results, colour=stdout_colour()))
    print_result(render_status_line(verdict, colour=stdout_colour()))
    return verdict["exit_status"]


def explain(arguments: argparse.Namespace, settings: Settings) -> int:
    """Say what a code, the codes that begin alike, or a verdict means; list all without one."""
    if is_finding_id(arguments.code or ""):
        return explain_finding(arguments.code.strip().lower(), settings)
    asked = (arguments.code or "").strip().upper().rstrip("-")
    verdict = asked.replace("-", "_")
    colour = stdout_colour()
    if not asked:
        codes, text = list(CATALOGUE.values()), render_catalogue(colour)
    elif code := CATALOGUE.get(asked):
        return _print_object(asdict(code), render_explanation(code, colour), settings)
    elif verdict in VERDICT_MEANINGS:
        codes, text = codes_of_verdict(verdict), render_verdict(verdict, colour)
        found = {"verdict": verdict, "meaning": VERDICT_MEANINGS[verdict], "codes": [asdict(code) for code in codes]}
        return _print_object(found, text, settings)
    elif codes := codes_beginning(asked):
        text = render_family(asked, colour)
    else:
        dashed = {name.replace("_", "-"): name for name in (*CATALOGUE, *FAMILIES, *VERDICT_MEANINGS)}
        close = difflib.get_close_matches(asked.replace("_", "-"), dashed, n=3, cutoff=0.6)
        near = [dashed[name] for name in close] or nearest_codes(asked)
        hint = f"did you mean {' or '.join(near)}?" if near else "replica-audit explain lists all codes"
        raise UsageError(f"explain: {arguments.code} is not a finding code, family or verdict; {hint}")
    return _print_object({"codes": [asdict(code) for code in codes]}, text, settings)


def _say_unused(baseline: Baseline, results: Results, settings: Settings) -> None:
    """Entries of --accept that accept nothing any more."""
    if unused := baseline.unused(results):
        print_note(f"note: {settings.accept} accepts findings that are not there: {', '.join(unused)}")


def _print_object(content: dict[str, Any], text: str, settings: Settings) -> int:
    print_result(render_object(content) if settings.format == "json" else text)
    return 0


COMMANDS: dict[str, Command] = {
    "run": run,
    "ingest": ingest,
    "audit": audit,
    "quality": quality,
    "report": report,
    "history": history,
    "show": show,
    "verify": verify,
    "elect": elect,
    "salvage": salvage,
    "restore": restore,
    "capture-plan": capture_plan,
    "explain": explain,
}


def _report(answers: Answers, settings: Settings) -> int:
    written = answers.report(settings.report)
    if not settings.quiet:
        print_note(f"report: {written}")
    return _show_summary(answers.results, settings)


def _show_summary(results: Results, settings: Settings) -> int:
    verdict = build_verdict(results, settings.fail_on)
    if settings.format == "json":
        print_result(render_audit_json(results, verdict))
    else:
        print_result(render_summary(results, colour=stdout_colour()))
        if failed := render_failed(results, colour=stdout_colour()):
            print_result(failed)
        print_result(render_status_line(verdict, colour=stdout_colour()))
    return verdict["exit_status"]
