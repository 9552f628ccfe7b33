"""`salvage`: extracts records that leaders lack from a snapshot into a new directory. No Spark."""

from __future__ import annotations

import argparse

from replica_audit.api.salvaged import salvage_snapshot, written_as
from replica_audit.cli.output import print_object
from replica_audit.cli.progress_lines import ProgressLine
from replica_audit.config import Settings
from replica_audit.errors import UsageError
from replica_audit.literals import RECORD_FORMS
from replica_audit.salvage.partition_salvage import Choices


def salvage(arguments: argparse.Namespace, settings: Settings) -> int:
    """Extract the records; 1 if some were not written, 3 if some input was not read."""
    if arguments.to is None:
        raise UsageError("salvage: --to DIR is missing: give a directory that does not exist yet")
    found = salvage_snapshot(
        arguments.snapshot,
        arguments.to,
        Choices(arguments.payloads, arguments.include_aborted, arguments.include_ahead),
        written_as(arguments.form or RECORD_FORMS, arguments.encoding),
        arguments.plan,
        arguments.wanted,
        settings,
        ProgressLine(settings.quiet),
    )
    print_object(found.to_dict(), str(found), settings)
    return found.exit_status
