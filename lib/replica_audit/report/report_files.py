"""The report directory; each file is written under a temporary name and renamed, so that readers never see a part of it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from contextlib import suppress

from replica_audit.auditing.known_findings import Earlier
from replica_audit.redaction import redact
from replica_audit.report.audit_json import render_audit_json, render_worst_parts
from replica_audit.report.audit_lines import write_lines
from replica_audit.report.facts.by_partition import is_large
from replica_audit.report.facts.conditions import whole_audit
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.report.junit import render_junit
from replica_audit.report.layout import render_object
from replica_audit.report.markdown import render_markdown
from replica_audit.report.metrics import render_metrics
from replica_audit.report.page.document import render_page
from replica_audit.report.wanted_ranges import render_wanted
from replica_audit.report.whole_files import LINES, make_directory, page_url, write_file
from replica_audit.results import WANTED_FILE, Results
from replica_audit.snapshot.storage import Snapshot


def warn(sentence: str) -> None:
    """Issue a warning that points at the caller of `Answers.report`."""
    warnings.warn(redact(sentence), stacklevel=5)


def write_report(
    results: Results,
    directory: str,
    fail_on: str,
    earlier: Earlier | None = None,
    url: str | None = None,
    tell: Callable[[str], None] = warn,
) -> str:
    """Write the report into `directory`, which is created if missing, and return its path.

    `earlier` is the audit the page compares with; `url` the address at which the page will be published, if any; `tell` is
    called with problems that stop nothing. verdict.json is written last, so that a watcher waiting for it finds the rest.
    """
    path = make_directory(directory)
    lines = os.path.join(path, LINES)
    if is_large(results):
        # First, since its tasks find what else is asked of all rows.
        write_lines(lines, results, tell)
        write_file(os.path.join(path, "audit.json"), render_worst_parts(results))
    else:
        write_file(os.path.join(path, "audit.json"), render_audit_json(results))
        # From an earlier audit.
        with suppress(FileNotFoundError):
            os.unlink(lines)
    verdict = build_verdict(results, fail_on)
    data_docs = "data_docs/index.html"
    known = data_docs if results.quality and os.path.exists(os.path.join(path, data_docs)) else None
    write_file(os.path.join(path, "index.html"), render_page(results, verdict, earlier, known))
    _write_wanted(os.path.join(path, WANTED_FILE), results)
    write_file(os.path.join(path, "summary.md"), render_markdown(results, verdict))
    write_file(os.path.join(path, "junit.xml"), render_junit(results, verdict))
    write_file(os.path.join(path, "metrics.prom"), render_metrics(results, verdict, page_url(path, url)))
    write_file(os.path.join(path, "verdict.json"), render_object(verdict))
    return path


def _write_wanted(path: str, results: Results) -> None:
    """Write the file of `show --wanted` if bytes are wanted and the snapshot still exists; else remove it."""
    with suppress(FileNotFoundError):
        os.unlink(path)
    conditions = whole_audit(results).conditions
    if (conditions.wanted or conditions.moved) and results.location is not None:
        try:
            evidence = Snapshot.open(results.location).evidence
        except (OSError, ValueError):
            return
        write_file(path, render_wanted(results, evidence))
