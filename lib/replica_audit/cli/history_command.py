"""The history of the audits in a warehouse, and the removal of those that are no longer kept."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from replica_audit.cli.engine import catalog_session
from replica_audit.cli.output import print_note, print_result, stdout_colour
from replica_audit.config import Settings
from replica_audit.paths import check_outputs
from replica_audit.report.audit_history import render_history
from replica_audit.report.json_object import render_object
from replica_audit.report.layout import render_count


def history(arguments: argparse.Namespace, settings: Settings) -> int:
    """Show verdicts over time and when findings first appeared; with `--prune` remove first what is not kept, and what killed runs left."""
    check_outputs(None, settings, report=False)
    with catalog_session("replica-audit history", settings) as spark:
        from replica_audit.spark.pipeline import load_past, prune, sweep_rows

        if arguments.prune:
            swept = sweep_rows(spark, settings)
            if swept and not settings.quiet:
                print_note(f"removed from the warehouse: {render_count(swept, 'row')} of runs that did not finish")
            print_removed(*prune(spark, settings, vacuum=True), settings)
        past = load_past(spark, settings, arguments.limit)
    if settings.format == "json":
        print_result(render_object({"schema_version": 1, **asdict(past)}))
    else:
        print_result(render_history(past, colour=stdout_colour()))
    return 0


def print_removed(audits: list[str], snapshots: list[str], settings: Settings) -> None:
    """Tell on stderr what retention removed."""
    if (audits or snapshots) and not settings.quiet:
        print_note(
            f"removed from the warehouse: {render_count(len(audits), 'audit')}, {render_count(len(snapshots), 'snapshot')}"
        )
