"""The files that a run leaves that ended in an error."""

from __future__ import annotations

import os
import time

from replica_audit.report.json_object import render_object
from replica_audit.report.run_metrics import render_families, run_families
from replica_audit.report.verdict_object import VerdictObject
from replica_audit.report.whole_files import make_directory, write_file


def write_failure(failure: VerdictObject, directory: str) -> str:
    """Write verdict.json and metrics.prom of a run that ended in an error.

    Other files of an earlier run stay; the audit_id in verdict.json is not theirs.
    """
    path = make_directory(directory)
    write_file(os.path.join(path, "metrics.prom"), render_failure_metrics(failure, time.time()))
    write_file(os.path.join(path, "verdict.json"), render_object(failure))
    return path


def render_failure_metrics(failure: VerdictObject, finished: float) -> str:
    """The metrics of a run that ended in an error at `finished` (seconds since 1970) and has no answers."""
    return render_families(run_families(failure, finished, None))
