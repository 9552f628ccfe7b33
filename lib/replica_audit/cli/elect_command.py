"""`elect`: compares the choices of leader in a snapshot and prints the plan for the best. No cluster is contacted."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import asdict

from replica_audit.api.elected import ElectionOptions, elect_snapshot, write_plan_files
from replica_audit.cli.output import print_note, print_result
from replica_audit.cli.progress_lines import ProgressLine
from replica_audit.config import Settings
from replica_audit.elect.plan_model import Step, plan_object
from replica_audit.report.layout import render_object


def elect(arguments: argparse.Namespace, settings: Settings) -> int:
    """Print costs and plan; 1 if a partition that was asked for has no plan or, with `--check`, if anything has moved."""
    choices = ElectionOptions(
        arguments.candidate,
        arguments.up,
        arguments.stopped_cleanly,
        arguments.bootstrap_server,
        arguments.command_config,
    )
    found = elect_snapshot(
        arguments.snapshot,
        arguments.topic_partitions,
        choices,
        settings,
        ProgressLine(settings.quiet),
        arguments.plan,
        arguments.check,
    )
    content = render_object(plan_object(found.plan))
    if arguments.check is not None:
        content = render_object({"moved": [asdict(one) for one in found.moved]})
    elif arguments.plan is not None:
        write_plan(arguments.plan, content, found.plan.steps)
    print_result(content.rstrip("\n") if settings.format == "json" else str(found))
    return found.exit_status


def write_plan(path: str, content: str, steps: Iterable[Step]) -> None:
    """Write the plan with its files, and name it on stderr."""
    write_plan_files(path, content, steps)
    print_note(f"plan: {path}")
