"""verdict.json for a failed run, so that a scheduler never reads that of an earlier run."""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
import traceback

from replica_audit.cli.output import print_error
from replica_audit.config import Settings
from replica_audit.errors import UsageError
from replica_audit.paths import local_path
from replica_audit.redaction import redact
from replica_audit.report.layout import render_object
from replica_audit.report.run_metrics import render_families, run_families
from replica_audit.report.verdict_object import VerdictObject, build_failure
from replica_audit.report.whole_files import make_directory, page_url, write_file

#: The system's directory, not this process's own, which is removed at exit.
TEMPORARY = tempfile.gettempdir()


def discard_verdict(settings: Settings) -> None:
    """Remove an earlier run's verdict from the report directory, so that a killed run leaves none."""
    path = os.path.join(local_path(settings.report) or settings.report, "verdict.json")
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(f"report {settings.report}: cannot replace verdict.json: {error.strerror}") from error


def leave_verdict(settings: Settings, exit_status: int, reason: str) -> VerdictObject:
    """Write verdict.json for a run that ended with `exit_status` for `reason`, and return its content."""
    failure = build_failure(exit_status, settings.fail_on, redact(reason))
    try:
        write_failure(failure, settings.report, settings.report_url)
    except OSError as error:
        print_error(f"cannot write verdict.json in {settings.report}: {error.strerror}")
    return failure


def write_failure(failure: VerdictObject, directory: str, url: str | None = None) -> None:
    """Write verdict.json and metrics.prom. Other files of an earlier run stay; the audit_id in verdict.json is not theirs."""
    path = make_directory(directory)
    families = run_families(failure, time.time(), None, page_url(path, url))
    write_file(os.path.join(path, "metrics.prom"), render_families(families))
    write_file(os.path.join(path, "verdict.json"), render_object(failure))


def tell_fault(error: BaseException, settings: Settings | None) -> str | None:
    """Print one sentence on an engine fault, with the name of a file that has the traces, and return it; None for any other fault."""
    if (library := _lacking_library(error)) is not None:
        print_error(
            lacking
            := f"{library} is missing, a library of the system that the packages need (libstdc++.so.6: apt-get install libstdc++6)"
        )
        return lacking
    from replica_audit.spark.engine_errors import describe_fault

    sentence = describe_fault(error, settings or Settings())
    if sentence is None:
        return None
    path = _keep_trace(error)
    print_error(f"{sentence}; details are in {path}" if path else sentence)
    return sentence


def _lacking_library(error: BaseException | None) -> str | None:
    """The shared library whose absence made a package's import fail, found in the chain of errors; None if that is not the cause."""
    while error is not None:
        found = re.match(r"(\S+\.so\S*): cannot open shared object file", str(error))
        if found and isinstance(error, ImportError):
            return found[1]
        error = error.__cause__ or error.__context__
    return None


def _keep_trace(error: BaseException) -> str | None:
    """Write the trace of `error` and Java's log to a new file that is kept; None if nothing can be written."""
    relay = sys.modules.get("replica_audit.spark.jvm_stderr")
    logged = relay.logged_errors() if relay is not None else ""
    text = "".join(traceback.format_exception(error)) + ("\nJava's log:\n" + logged + "\n" if logged else "")
    for directory in (TEMPORARY, "."):
        try:
            handle, path = tempfile.mkstemp(prefix="replica-audit-error-", suffix=".log", dir=directory)
            with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(redact(text))
        except OSError:
            continue  # most likely the full disk that is being reported
        return path
    return None
