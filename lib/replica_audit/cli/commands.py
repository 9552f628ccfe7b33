"""The commands: each takes the arguments and the settings and returns the exit status.

Spark is imported inside the commands that need it, so that the others answer at once and without Java.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from replica_audit.auditing.baseline import compare_findings, parse_baseline
from replica_audit.auditing.catalogue import CATALOGUE, nearest_codes
from replica_audit.auditing.earlier import Earlier, parse_earlier
from replica_audit.cli.output import print_note, print_result, stdout_colour
from replica_audit.cli.places import check_files, check_outputs, check_snapshot, local_path
from replica_audit.cli.progress import Progress
from replica_audit.config import Settings
from replica_audit.errors import UsageError
from replica_audit.model import TopicPartition
from replica_audit.reporting.audit_json import render_audit_json, render_object
from replica_audit.reporting.explanation import render_explanation
from replica_audit.reporting.files import write_report
from replica_audit.reporting.partition_page import render_partition
from replica_audit.reporting.summary import render_summary
from replica_audit.reporting.verdict import build_verdict, render_status_line
from replica_audit.results import Results

Command = Callable[[argparse.Namespace, Settings], int]


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Ingest, audit and report; the last line on stdout is the status line."""
    check_snapshot(arguments.snapshot)
    check_outputs(arguments.snapshot, settings)
    check_files(settings)
    baseline, earlier = _baseline(settings)
    with _spark("replica-audit run", settings) as spark:
        from replica_audit.spark.pipeline import run_audit, run_ingest

        progress = Progress(settings.quiet)
        snapshot_id = run_ingest(spark, arguments.snapshot, settings, progress)
        results = run_audit(spark, snapshot_id, settings, progress)
    return _report(_compare(results, baseline), settings, earlier)


def ingest(arguments: argparse.Namespace, settings: Settings) -> int:
    """Read a snapshot into the warehouse and say its id."""
    check_snapshot(arguments.snapshot)
    check_outputs(arguments.snapshot, settings, report=False)
    check_files(settings)
    with _spark("replica-audit ingest", settings) as spark:
        from replica_audit.spark.pipeline import run_ingest

        snapshot_id = run_ingest(spark, arguments.snapshot, settings, Progress(settings.quiet))
    if settings.format == "json":
        print_result(render_object({"snapshot_id": snapshot_id}))
    else:
        print_result(f"snapshot {snapshot_id}")
    return 0


def audit(arguments: argparse.Namespace, settings: Settings) -> int:
    """Audit an ingested snapshot, the latest unless `--snapshot-id` names one, and show the answer."""
    check_outputs(None, settings, report=False)
    check_files(settings)
    baseline, _ = _baseline(settings)
    with _spark("replica-audit audit", settings) as spark:
        from replica_audit.spark.pipeline import run_audit

        results = run_audit(spark, arguments.snapshot_id, settings, Progress(settings.quiet))
    return _show_summary(_compare(results, baseline), settings)


def report(arguments: argparse.Namespace, settings: Settings) -> int:
    """Write the report of a finished audit, the latest unless `--audit-id` names one."""
    check_outputs(None, settings)
    check_files(settings)
    baseline, earlier = _baseline(settings)
    with _spark("replica-audit report", settings) as spark:
        from replica_audit.spark.pipeline import load_results

        results = load_results(spark, arguments.audit_id, settings)
    return _report(_compare(results, baseline), settings, earlier)


def show(arguments: argparse.Namespace, settings: Settings) -> int:
    """Audit one partition in this process and show everything that is known of it."""
    from replica_audit.auditing.snapshot import audit_one

    try:
        partition = TopicPartition.parse(arguments.topic_partition)
    except ValueError as error:
        raise UsageError(f"{error}: give a partition such as orders-0") from error
    check_snapshot(arguments.snapshot)
    check_files(settings)
    baseline, _ = _baseline(settings)
    results = _compare(audit_one(arguments.snapshot, partition, settings), baseline)
    verdict = build_verdict(results, settings.fail_on)
    if settings.format == "json":
        print_result(render_audit_json(results, verdict))
    else:
        print_result(render_partition(results, colour=stdout_colour()))
        print_result(render_status_line(verdict))
    return verdict["exit_status"]


def explain(arguments: argparse.Namespace, settings: Settings) -> int:
    """Say what a finding code means; an unknown code is answered with the nearest ones."""
    code = CATALOGUE.get(arguments.code.strip().upper())
    if code is None:
        near = nearest_codes(arguments.code) or list(CATALOGUE)
        raise UsageError(f"{arguments.code} is no finding code; known are {', '.join(near)}")
    if settings.format == "json":
        print_result(render_object({name: getattr(code, name) for name in code.__dataclass_fields__}))
    else:
        print_result(render_explanation(code, colour=stdout_colour()))
    return 0


COMMANDS: dict[str, Command] = {
    "run": run,
    "ingest": ingest,
    "audit": audit,
    "report": report,
    "show": show,
    "explain": explain,
}


@contextmanager
def _spark(app_name: str, settings: Settings) -> Iterator[Any]:
    from replica_audit.spark.session import build_session

    spark = build_session(app_name, settings.spark)
    try:
        yield spark
    finally:
        spark.stop()


def _baseline(settings: Settings) -> tuple[list[dict[str, Any]] | None, Earlier | None]:
    """Findings of the baseline and the audit that they are of, None and None without one.

    Read before anything else is started, as it may be no audit.json.
    """
    if settings.baseline is None:
        return None, None
    path = local_path(settings.baseline) or settings.baseline
    try:
        with open(path, encoding="utf-8") as stream:
            text = stream.read()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"baseline {settings.baseline}: {error}") from error
    return parse_baseline(text, settings.baseline), parse_earlier(text)


def _compare(results: Results, baseline: list[dict[str, Any]] | None) -> Results:
    if baseline is None:
        return results
    audited = {(row["topic"], row["partition"]) for row in results.rows("partitions")}
    findings = compare_findings(results.rows("findings"), baseline, audited)
    return replace(results, tables={**results.tables, "findings": findings})


def _report(results: Results, settings: Settings, earlier: Earlier | None) -> int:
    written = write_report(results, settings.report, settings.fail_on, earlier)
    if not settings.quiet:
        print_note(f"report: {written}")
    return _show_summary(results, settings)


def _show_summary(results: Results, settings: Settings) -> int:
    verdict = build_verdict(results, settings.fail_on)
    if settings.format == "json":
        print_result(render_audit_json(results, verdict))
    else:
        print_result(render_summary(results, colour=stdout_colour()))
        print_result(render_status_line(verdict))
    return verdict["exit_status"]
