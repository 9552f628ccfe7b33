"""The commands that use a warehouse: run, ingest, audit, quality, report and history, and the Spark session they need."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, cast

from replica_audit.auditing.history import HISTORY_ROWS
from replica_audit.auditing.known_findings import read_baseline
from replica_audit.cli.answer_output import asked_table, print_answers, print_table, print_unused, print_written
from replica_audit.cli.failure import discard_verdict, leave_verdict
from replica_audit.cli.interruption import INTERRUPTION
from replica_audit.cli.output import print_error, print_note, print_object, print_result
from replica_audit.cli.progress_lines import ProgressLine
from replica_audit.config import Settings
from replica_audit.paths import check_files, check_outputs
from replica_audit.report.facts.verdict import build_quality
from replica_audit.report.history_text import render_history
from replica_audit.report.layout import render_object
from replica_audit.report.quality_text import render_quality, render_quality_line
from replica_audit.row_classes import to_dict
from replica_audit.spark.quality_stage import QualityStage, quality_stage
from replica_audit.text import count

if TYPE_CHECKING:
    from replica_audit.spark.session import SparkSession
    from replica_audit.warehouse.delta_tables import Warehouse


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Ingest, audit, check the quality and report; the last line on stdout is the status line."""
    check_outputs(arguments.snapshot, settings)
    check_files(settings)
    baseline = read_baseline(settings)
    discard_verdict(settings)
    INTERRUPTION.tell = partial(leave_verdict, settings)
    with (
        quality_stage(settings, print_error) as stage,
        spark_session("replica-audit run", settings, None if stage is None else stage.load) as spark,
    ):
        from replica_audit.api.answers import audit_snapshot

        progress = ProgressLine(settings.quiet)
        answers = audit_snapshot(spark, arguments.snapshot, settings, progress, baseline, stage)
        if settings.has_retention:
            from replica_audit.spark.catalogs import open_warehouse

            _apply_retention(open_warehouse(spark, settings), settings)
        print_unused(baseline, answers.results, settings)
        progress.begin("writing the report")
        written = answers.report(settings.report, settings.report_url, progress.warn)
        progress.end()
    print_written(written, settings)
    return print_answers(answers.results, settings)


def ingest(arguments: argparse.Namespace, settings: Settings) -> int:
    """Read a snapshot into the warehouse and print its id."""
    check_outputs(arguments.snapshot, settings, report=False)
    check_files(settings)
    with spark_session("replica-audit ingest", settings) as spark:
        from replica_audit.spark.pipeline import run_ingest

        progress = ProgressLine(settings.quiet)
        snapshot_id = run_ingest(spark, arguments.snapshot, settings, progress)
    reading: dict[str, int] = {} if progress.reading is None else progress.reading._asdict()
    print_object({"snapshot_id": snapshot_id, **reading}, f"snapshot {snapshot_id}", settings)
    return 0


def audit(arguments: argparse.Namespace, settings: Settings) -> int:
    """Audit an ingested snapshot, by default the latest, and print the answers."""
    check_outputs(None, settings, report=False)
    check_files(settings)
    baseline = read_baseline(settings)
    with spark_session("replica-audit audit", settings) as spark:
        from replica_audit.spark.pipeline import run_audit

        results = run_audit(spark, arguments.snapshot_id, settings, ProgressLine(settings.quiet))
    print_unused(baseline, results, settings)
    return print_answers(baseline.compare(results), settings)


def quality(arguments: argparse.Namespace, settings: Settings) -> int:
    """Check the quality of a finished audit, by default the latest; the exit status follows the worst severity."""
    check_outputs(None, settings)
    check_files(settings)
    baseline = read_baseline(settings)
    with (
        closing(QualityStage(replace(settings, quality=True), print_error)) as stage,
        opened_tables("replica-audit quality", settings, needs_spark=stage.needs_spark) as (spark, warehouse),
    ):
        from replica_audit.warehouse.answer_tables import load_results

        _warn_of_unfinished(warehouse, arguments.audit_id)
        results = baseline.compare(load_results(warehouse, arguments.audit_id, settings.fail_on))
        results = baseline.compare(stage.check(spark, results, again=True))
    answer = build_quality(results, settings.fail_on)
    if settings.format == "json":
        print_result(render_object({**answer, "expectations": list(results.rows("quality"))}))
    else:
        print_result(render_quality(results))
        print_result(render_quality_line(answer))
    return answer["exit_status"]


def report(arguments: argparse.Namespace, settings: Settings) -> int:
    """Write the report of a finished audit, by default the latest."""
    check_outputs(None, settings)
    check_files(settings)
    asked = asked_table(arguments, settings)
    baseline = read_baseline(settings)
    with opened_tables("replica-audit report", settings) as (_, warehouse):
        from replica_audit.report.report_files import write_report
        from replica_audit.warehouse.answer_tables import load_results
        from replica_audit.warehouse.past_audits import load_earlier

        _warn_of_unfinished(warehouse, arguments.audit_id)
        found = load_results(warehouse, arguments.audit_id, settings.fail_on)
        earlier = baseline.earlier or load_earlier(warehouse, found.audit)
    print_unused(baseline, found, settings)
    results = baseline.compare(found)
    written = write_report(results, settings.report, settings.fail_on, earlier, settings.report_url)
    print_written(written, settings)
    return print_answers(results, settings, asked)


def history(arguments: argparse.Namespace, settings: Settings) -> int:
    """Print verdicts over time and when findings first appeared; `--prune` first removes what retention does not keep."""
    check_outputs(None, settings, report=False)
    asked = asked_table(arguments, settings, HISTORY_ROWS, whole=False)
    with opened_tables("replica-audit history", settings) as (_, warehouse):
        from replica_audit.warehouse.past_audits import load_history
        from replica_audit.warehouse.retention import sweep

        if arguments.prune:
            swept = sweep(warehouse)
            if swept and not settings.quiet:
                print_note(f"removed from the warehouse: {count(swept, 'row')} of runs that did not finish")
            _apply_retention(warehouse, settings, vacuum=True)
        _warn_of_unfinished(warehouse, None)
        past = load_history(warehouse, settings.topics, arguments.limit)
    if asked is not None:
        kind = HISTORY_ROWS[asked.name]
        print_table(asked, [getattr(past, asked.name)], kind, settings)
    elif settings.format == "json":
        rows = {name: [to_dict(row) for row in getattr(past, name)] for name in HISTORY_ROWS}
        print_result(render_object({"schema_version": 1, **rows}))
    else:
        print_result(render_history(past))
    return 0


def _warn_of_unfinished(warehouse: Warehouse, audit_id: str | None) -> None:
    """Warn on stderr that audits later than the latest finished one never ended, unless `audit_id` names one."""
    from replica_audit.warehouse.retention import unfinished_audits

    if audit_id is None and (found := unfinished_audits(warehouse)):
        names = f"audit {found[0]}" + (f" and {len(found) - 1} more" if len(found) > 1 else "")
        print_error(
            f"{names} in {warehouse.name} began after the latest finished one and has no end: it was interrupted or "
            "still runs, or the last commit of the table audits is lost; what follows is of the finished one"
        )


def _apply_retention(warehouse: Warehouse, settings: Settings, *, vacuum: bool = False) -> None:
    """Remove the audits that the settings do not keep, and report on stderr how much that was."""
    from replica_audit.warehouse.retention import apply_retention

    audits, snapshots = apply_retention(warehouse, settings.keep_days, settings.keep_audits, vacuum=vacuum)
    if (audits or snapshots) and not settings.quiet:
        print_note(f"removed from the warehouse: {count(len(audits), 'audit')}, {count(len(snapshots), 'snapshot')}")


@contextmanager
def spark_session(
    app_name: str, settings: Settings, meanwhile: Callable[[], object] | None = None
) -> Iterator[SparkSession]:
    """A session with `settings.spark`, stopped on exit; `meanwhile` is called as in `session.start_session`.

    Raises EngineError for a package that the executors lack.
    """
    from replica_audit.install.environment import lacking_package
    from replica_audit.spark.jvm_stderr import logged_errors
    from replica_audit.spark.session import start_session

    INTERRUPTION.use_scratch()
    # Includes a session that opens itself on first use.
    in_catalog = settings.catalog is not None
    spark = cast("SparkSession", start_session(app_name, settings.spark, meanwhile=meanwhile, delta=in_catalog))
    INTERRUPTION.guard()
    try:
        yield spark
    except Exception as error:
        # A JVM that is gone cannot be stopped; the earlier error matters.
        with suppress(Exception):
            spark.stop()
        lacking = lacking_package(error)
        if lacking is None:
            raise
        raise lacking from error
    except BaseException:
        spark.stop()
        raise
    spark.stop()
    if logged := logged_errors():
        first = logged.splitlines()[0]
        print_error(f"Java logged errors that stopped nothing, the first: {first}")


@contextmanager
def opened_tables(
    app_name: str, settings: Settings, *, needs_spark: bool = False
) -> Iterator[tuple[SparkSession | None, Warehouse]]:
    """The tables, with a session if they are in a catalog or it `needs_spark`; else without Java."""
    with ExitStack() as opened:
        spark = None
        if needs_spark or settings.catalog is not None:
            spark = opened.enter_context(spark_session(app_name, settings))
        from replica_audit.spark.catalogs import open_warehouse

        yield spark, open_warehouse(spark, settings)
