"""`verify`: checks with two snapshots of a cluster that every follower kept exactly what it should have."""

from __future__ import annotations

import argparse
import os

from replica_audit.cli.answer_output import asked_table, print_table
from replica_audit.cli.output import print_note, print_result
from replica_audit.cli.progress_lines import ProgressLine
from replica_audit.config import Settings
from replica_audit.elect.plan_model import read_plan
from replica_audit.paths import check_files, local_path
from replica_audit.report.verify_text import render_verification, render_verification_json
from replica_audit.schema import VERIFICATION_ROWS
from replica_audit.verify.verification import verify_snapshots


def verify(arguments: argparse.Namespace, settings: Settings) -> int:
    """Compare two snapshots of one cluster; 0 only if every replica kept exactly what it should have."""
    check_files(settings)
    if len({os.path.realpath(local_path(one) or one) for one in (arguments.before, arguments.after)}) == 1:
        print_note("note: BEFORE and AFTER are the same snapshot: nothing can have happened in between")
    asked = asked_table(arguments, settings, VERIFICATION_ROWS, whole=False)
    plan = None if arguments.plan is None else read_plan(arguments.plan, "--plan")
    found = verify_snapshots(arguments.before, arguments.after, settings, ProgressLine(settings.quiet), plan)
    if asked is not None:
        kind = VERIFICATION_ROWS[asked.name]
        print_table(asked, [getattr(found, asked.name)], kind, settings)
    elif settings.format == "json":
        print_result(render_verification_json(found))
    else:
        print_result(render_verification(found))
    return found.exit_status
