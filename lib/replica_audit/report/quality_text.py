"""Outcome of the quality checks for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from replica_audit.quality.quality_facts import FINDINGS_SUITE
from replica_audit.report.layout import (
    align_columns,
    clean,
    cut_column,
    paint,
    wrap,
)
from replica_audit.report.verdict_object import QualityAnswer
from replica_audit.results import Results
from replica_audit.schema import QualityRow
from replica_audit.text import count

#: Maximum number of rows named below a failed expectation.
NAMED_LIMIT = 5


def render_quality_line(answer: QualityAnswer) -> str:
    """The last line of `replica-audit quality`."""
    failed = ", ".join(f"{number} {severity}" for severity, number in answer["failed"].items() if number)
    line = f"{answer['status']}: {count(answer['expectations'], 'expectation')}; "
    line += f"failed: {failed}" if failed else "none failed"
    return line + (f"; {answer['errors']} could not be looked at" if answer["errors"] else "")


def render_quality(results: Results) -> str:
    """Render each expectation in a line, and below an unmet one the rows that violate it."""
    rows = results.quality
    lines = wrap(f"Quality of audit {results.audit['audit_id']}")
    aligned = _fit([("SEVERITY", "ANSWER", "EXPECTATION", "ROWS THAT FAIL"), *(_cells(row) for row in rows)])
    lines += ["", paint(aligned[0], "head")]
    for line, row in zip(aligned[1:], rows, strict=True):
        lines.append(line if row.success else paint(line, row.severity))
        if not row.success:
            lines += _details(row)
    return "\n".join(lines) + "\n"


def render_failed(results: Results) -> str:
    """Render the unmet expectations except those on findings; empty if all are met."""
    rows = [row for row in results.quality if not row.success and row.suite != FINDINGS_SUITE]
    if not rows:
        return ""
    lines = ["", paint("Quality expectations that are not met", "head")]
    for line, row in zip(_fit([_cells(row) for row in rows]), rows, strict=True):
        lines += [paint(line, row.severity), *_details(row)]
    return "\n".join(lines)


def _cells(row: QualityRow) -> tuple[str, str, str, str]:
    answer = "FAILED"
    if row.success:
        answer = "met"
    elif row.error is not None:
        answer = "error"
    elif row.status == "known":
        answer = "known"
    rows = ""
    if row.element_count is not None and row.unexpected_count is not None:
        rows = f"{row.unexpected_count} of {row.element_count}"
    elif row.observed is not None:
        rows = clean(row.observed)[:30]
    return row.severity, answer, f"{clean(row.suite)}/{clean(row.name)}", rows


def _fit(table: Sequence[tuple[str, str, str, str]]) -> list[str]:
    """Lines of the table; names of expectations are shortened if it is too wide."""
    return align_columns(cut_column(table, 2, 12))


def _details(row: QualityRow) -> list[str]:
    lines = wrap(row.error or f"expected: {row.description or row.expectation}", "          ")
    failing: Sequence[str] = row.failing or ()
    for text in failing[:NAMED_LIMIT]:
        lines += wrap(text, "            ", "              ")
    if len(failing) > NAMED_LIMIT:
        lines.append(f"            and {(row.unexpected_count or len(failing)) - NAMED_LIMIT} more")
    return lines
