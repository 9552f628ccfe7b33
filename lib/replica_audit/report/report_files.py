"""The report directory: each file is written beside its place and renamed, so that a reader never sees half of one."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from replica_audit.auditing.earlier_audit import Earlier
from replica_audit.report.audit_json import render_audit_json_parts, render_object
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.report.first_steps import tell_what_to_do
from replica_audit.report.junit import render_junit
from replica_audit.report.markdown import render_markdown
from replica_audit.report.metrics import render_failure_metrics, render_metrics
from replica_audit.report.page.document import render_page
from replica_audit.results import Results


def write_report(results: Results, directory: str, fail_on: str, earlier: Earlier | None = None) -> str:
    """Write every file of the report into `directory`, which is made; returns its path.

    `earlier` is the audit that the page compares with.
    verdict.json is last, so that a watcher that waits for it finds the rest.
    """
    path = _make_directory(directory)
    verdict = build_verdict(results, fail_on)
    write_file(os.path.join(path, "audit.json"), render_audit_json_parts(results))
    todo = tell_what_to_do(results)
    data_docs = "data_docs/index.html"
    known = data_docs if results.rows("quality") and os.path.exists(os.path.join(path, data_docs)) else None
    write_file(os.path.join(path, "index.html"), render_page(results, verdict, todo, earlier, known))
    write_file(os.path.join(path, "summary.md"), render_markdown(results, verdict, todo))
    write_file(os.path.join(path, "junit.xml"), render_junit(results, verdict))
    write_file(os.path.join(path, "metrics.prom"), render_metrics(results, verdict))
    write_file(os.path.join(path, "verdict.json"), render_object(verdict))
    return path


def write_failure(failure: Mapping[str, Any], directory: str) -> str:
    """Write verdict.json and metrics.prom of a run that ended in an error.

    Other files of an earlier run stay; the audit_id in verdict.json is not theirs.
    """
    path = _make_directory(directory)
    write_file(os.path.join(path, "metrics.prom"), render_failure_metrics(failure, time.time()))
    write_file(os.path.join(path, "verdict.json"), render_object(failure))
    return path


def write_file(path: str, text: str | Iterable[str]) -> None:
    """Replace the file at `path` by `text`, or its parts, in UTF-8, at once or not at all."""
    handle, temporary = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=os.path.dirname(path) or ".")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
            stream.writelines([text] if isinstance(text, str) else text)
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
