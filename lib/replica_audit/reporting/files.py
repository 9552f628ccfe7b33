"""The report directory: each file is written beside its place and renamed, so that a reader never sees half of one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from replica_audit.reporting.audit_json import render_audit_json, render_object
from replica_audit.reporting.verdict import build_verdict
from replica_audit.results import Results


def write_report(results: Results, directory: str, fail_on: str) -> str:
    """Write audit.json, then verdict.json, into `directory`; returns its path.

    verdict.json is last, so that a watcher that waits for it finds the rest.
    """
    path = _make_directory(directory)
    write_file(os.path.join(path, "audit.json"), render_audit_json(results))
    write_file(os.path.join(path, "verdict.json"), render_object(build_verdict(results, fail_on)))
    return path


def write_failure(failure: Mapping[str, Any], directory: str) -> str:
    """Write verdict.json of a run that ended in an error; files of an earlier run stay, its audit_id is not theirs."""
    path = _make_directory(directory)
    write_file(os.path.join(path, "verdict.json"), render_object(failure))
    return path


def write_file(path: str, text: str) -> None:
    """Replace the file at `path` by `text` in UTF-8, at once or not at all."""
    handle, temporary = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=os.path.dirname(path) or ".")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        # mkstemp gives 0600; a report is as readable as other new files of its user.
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _make_directory(directory: str) -> str:
    path = unquote(urlsplit(directory).path) if directory.startswith("file:") else directory
    os.makedirs(path, exist_ok=True)
    return path


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
