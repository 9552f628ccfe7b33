"""`elect`: compares the choices of leader in a snapshot and prints the plan for the best. Contacts no cluster."""

from __future__ import annotations

import argparse

from replica_audit.api.elected import ElectionOptions, elect_snapshot
from replica_audit.cli.output import print_plan
from replica_audit.cli.progress_lines import ProgressLine
from replica_audit.config import Settings


def elect(arguments: argparse.Namespace, settings: Settings) -> int:
    """Print costs and plan; 1 if a requested partition has no plan or, with `--check`, if a premise has changed."""
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
    return print_plan(found, arguments.plan, arguments.check, settings)
