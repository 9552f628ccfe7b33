"""`salvage`: extracts the records that leaders lack from a snapshot into a new directory. No Spark."""

from __future__ import annotations

import argparse
from pathlib import Path

from replica_audit.cli.inputs import check_snapshot
from replica_audit.cli.output import print_result
from replica_audit.cli.progress_lines import ProgressLine
from replica_audit.config import Settings
from replica_audit.elect.plan_model import read_plan
from replica_audit.errors import InputError, UsageError
from replica_audit.paths import check_files, check_outside, local_path
from replica_audit.report.layout import render_object
from replica_audit.report.salvage_text import render_salvage
from replica_audit.salvage.partition_salvage import Choices
from replica_audit.salvage.planned_leaders import PlannedLeaders
from replica_audit.salvage.private_files import hash_file
from replica_audit.salvage.record_files import FORMS
from replica_audit.salvage.salvage_manifest import ManifestHead
from replica_audit.salvage.snapshot_salvage import SalvagedSnapshot
from replica_audit.salvage.written_salvage import Forms, write_salvage
from replica_audit.typed_json import to_object

LOST = 1


def salvage(arguments: argparse.Namespace, settings: Settings) -> int:
    """Extract the records; 1 if some of them were not written, 3 if some input was not read."""
    check_snapshot(arguments.snapshot)
    check_files(settings)
    target = _target(arguments)
    choices = Choices(arguments.payloads, arguments.include_aborted, arguments.include_ahead)
    forms = Forms(tuple(form for form in FORMS if form in (arguments.form or FORMS)), arguments.encoding)
    opened = SalvagedSnapshot(arguments.snapshot, settings, choices, _planned(arguments.plan, settings))
    found = opened.find(ProgressLine(settings.quiet))
    head = write_salvage(found, opened.reader, choices, forms, target)
    if settings.format == "json":
        print_result(render_object({**to_object(head), "exit_status": exit_status(head)}))
    else:
        print_result(render_salvage(head, str(target)))
    return exit_status(head)


def _planned(path: str | None, settings: Settings) -> PlannedLeaders | None:
    """The leaders of the plan at `path`; None without a plan."""
    if path is None:
        return None
    return PlannedLeaders(read_plan(path, "--plan"), hash_file(Path(path)), settings.topics)


def exit_status(head: ManifestHead) -> int:
    """1 if records known to exist were not or cannot be written, 3 if input that may hold records was not read, else 0."""
    totals = head.totals
    there = totals.records + totals.unexpanded_records if totals.written is None else totals.written
    if there != totals.expected:
        return LOST
    return InputError.exit_status if head.unread else 0


def _target(arguments: argparse.Namespace) -> Path:
    """The new directory of `--to`. Raises UsageError."""
    if arguments.to is None:
        raise UsageError("salvage: --to DIR is missing: give a directory that does not exist yet")
    place = local_path(arguments.to)
    if place is None:
        raise UsageError(f"--to {arguments.to}: the result is written to a local directory")
    check_outside("--to", place, arguments.snapshot)
    return Path(place)
