"""verdict.json of a run that has no answers (yet): a scheduler must never take the one of an earlier run for this one's."""

from __future__ import annotations

import os
from typing import Any

from replica_audit.cli.output import print_error
from replica_audit.cli.places import local_path
from replica_audit.config import Settings
from replica_audit.errors import UsageError
from replica_audit.reporting.files import write_failure
from replica_audit.reporting.verdict import build_failure


def discard_verdict(settings: Settings) -> None:
    """Take the verdict of an earlier run out of the report directory, so that a run that is killed leaves none."""
    path = os.path.join(local_path(settings.report) or settings.report, "verdict.json")
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(f"report {settings.report}: cannot replace verdict.json: {error.strerror}") from error


def leave_verdict(settings: Settings, exit_status: int, reason: str) -> dict[str, Any]:
    """Write verdict.json of a run that ended with `exit_status` for `reason`, and return its content."""
    failure = build_failure(exit_status, settings.fail_on, reason)
    try:
        write_failure(failure, settings.report)
    except OSError as error:
        print_error(f"cannot write verdict.json in {settings.report}: {error.strerror}")
    return failure
