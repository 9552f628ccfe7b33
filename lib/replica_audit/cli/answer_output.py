"""Prints the answers of an audit: summary, failed checks and status line, audit.json, summary.md, or one table."""

from __future__ import annotations

from replica_audit.auditing.known_findings import Baseline
from replica_audit.cli.output import print_note, print_pieces, print_result
from replica_audit.cli.table_output import AskedTable, print_answer_table
from replica_audit.config import Settings
from replica_audit.report.audit_json import render_audit_json
from replica_audit.report.audit_summary import render_summary
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.report.markdown import render_markdown
from replica_audit.report.quality_report import render_failed
from replica_audit.report.verdict_object import render_status_line
from replica_audit.results import Results


def print_answers(results: Results, settings: Settings, asked: AskedTable | None = None) -> int:
    """Print the answers, or only the table that was `asked` for, and return their exit status."""
    verdict = build_verdict(results, settings.fail_on)
    if asked is not None:
        print_answer_table(asked, results, settings)
    elif settings.format == "markdown":
        print_result(render_markdown(results, verdict))
    elif settings.format == "json":
        print_pieces(render_audit_json(results, verdict))
    else:
        print_result(render_summary(results))
        if failed := render_failed(results):
            print_result(failed)
        print_result(render_status_line(verdict))
    return verdict["exit_status"]


def print_written(path: str, settings: Settings) -> None:
    """Print the path of the report on stderr."""
    if not settings.quiet:
        print_note(f"report: {path}")


def print_unused(baseline: Baseline, results: Results, settings: Settings) -> None:
    """Name on stderr the entries of --accept that match no finding."""
    if unused := baseline.unused(results):
        print_note(f"note: {settings.accept} accepts findings that are not there: {', '.join(unused)}")
