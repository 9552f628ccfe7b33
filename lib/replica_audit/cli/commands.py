"""The commands of the program: what each is for, what it takes, and the module that is imported when it is asked for.

Neither `--help` nor completion imports one; what a command's own module needs is imported at its top.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib import import_module
from typing import NamedTuple

from replica_audit.cli import own_arguments as own
from replica_audit.config import Settings

#: Takes the arguments and the settings, and returns the exit status.
Run = Callable[[argparse.Namespace, Settings], int]


class Command(NamedTuple):
    """One command."""

    place: str
    """Its function, as module.name."""
    line: str
    """What it does, in a line."""
    takes: str
    """Its arguments in the line of usage."""
    add_arguments: Callable[[argparse.ArgumentParser], None]
    """Adds arguments and options of its own to its parser."""
    epilog: str | None = own.EXIT_STATUS
    """What its help ends with."""
    common: bool = True
    """Whether it takes the common options and has settings; commands about the program itself do not."""

    def load(self) -> Run:
        """Its function, imported now."""
        module, _, name = self.place.rpartition(".")
        return getattr(import_module(module), name)


COMMANDS: dict[str, Command] = {
    "run": Command(
        "replica_audit.cli.run_command.run",
        "ingest a snapshot, audit it, check the quality and report: the main job",
        "SNAPSHOT",
        own.add_snapshot,
    ),
    "ingest": Command(
        "replica_audit.cli.ingest_command.ingest", "read a snapshot into the warehouse", "SNAPSHOT", own.add_snapshot
    ),
    "audit": Command("replica_audit.cli.audit_command.audit", "audit an ingested snapshot", "", own.add_snapshot_id),
    "quality": Command(
        "replica_audit.cli.quality_command.quality",
        "check the quality of a finished audit with Great Expectations",
        "",
        own.add_audit_id,
    ),
    "report": Command(
        "replica_audit.cli.report_command.report", "write the report of a finished audit", "", own.add_audit_id
    ),
    "history": Command(
        "replica_audit.cli.history_command.history",
        "show the audits of a warehouse: verdicts over time, when findings first appeared",
        "",
        own.add_history_arguments,
    ),
    "show": Command(
        "replica_audit.cli.show_command.show",
        "audit in the terminal, without Spark: one partition, or the triage of all",
        "SNAPSHOT [TOPIC-PARTITION]",
        own.add_show_arguments,
    ),
    "elect": Command(
        "replica_audit.cli.elect_command.elect",
        "say what each choice of leader costs, which is best, and how it is carried out",
        "SNAPSHOT [TOPIC-PARTITION...]",
        own.add_elect_arguments,
    ),
    "verify": Command(
        "replica_audit.cli.verify_command.verify",
        "say of two snapshots of one cluster whether every follower kept exactly what it should have",
        "BEFORE AFTER",
        own.add_verify_arguments,
        own.EXIT_STATUS_OF_VERIFY,
    ),
    "salvage": Command(
        "replica_audit.cli.salvage_command.salvage",
        "take out the records that other copies hold and the leader's log does not",
        "SNAPSHOT --to DIR",
        own.add_salvage_arguments,
        own.EXIT_STATUS_OF_SALVAGE,
    ),
    "restore": Command(
        "replica_audit.cli.restore_command.restore",
        "put salvaged records into a cluster, each once; the only command that talks to one",
        "DIR --bootstrap-servers HOST:PORT",
        own.add_restore_arguments,
        own.EXIT_STATUS_OF_RESTORE,
    ),
    "capture-plan": Command(
        "replica_audit.cli.capture_plan_command.capture_plan",
        "print how to copy the log dirs of given brokers, as a shell script",
        "BROKER...",
        own.add_capture_arguments,
    ),
    "explain": Command(
        "replica_audit.cli.explain_command.explain",
        "say what a finding or a verdict means, how it is proven and what to do; alone: list all codes",
        "[CODE | FINDING_ID]",
        own.add_explain_arguments,
    ),
    "completion": Command(
        "replica_audit.cli.completion.print_completion",
        "print the script that completes commands and options in your shell",
        "SHELL",
        own.add_completion_arguments,
        None,
        common=False,
    ),
    "help": Command(
        "replica_audit.cli.parser.print_help",
        "show this help, or that of a command",
        "[COMMAND]",
        lambda command: own.add_help_arguments(command, COMMANDS),
        None,
        common=False,
    ),
}
