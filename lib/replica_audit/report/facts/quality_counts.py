"""Outcome of the quality checks: counts for a scheduler, and the exit status that follows from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from replica_audit.auditing.catalogue import SEVERITIES, at_or_above
from replica_audit.quality.quality_facts import FINDINGS_SUITE
from replica_audit.report.verdict_object import QualityObject, RunStatus
from replica_audit.results import Results
from replica_audit.schema import QualityRow


class QualityAnswer(QualityObject):
    """What `replica-audit quality` prints as JSON, its expectations aside."""

    schema_version: int
    audit_id: str | None
    status: RunStatus
    exit_status: int
    fail_on: str


def count_quality(results: Results) -> QualityObject | None:
    """`quality` of verdict.json; None when quality was not checked. A failure that a baseline knows counts as known only."""
    rows = results.quality
    if not rows:
        return None
    failed = Counter(row.severity for row in rows if _failed(row))
    return {
        "expectations": len(rows),
        "failed": {severity: failed[severity] for severity in SEVERITIES},
        "beside_findings": sum(_failed(row) and row.suite != FINDINGS_SUITE for row in rows),
        "known": sum(row.status == "known" for row in rows),
        "errors": sum(row.error is not None for row in rows),
    }


def build_quality(results: Results, fail_on: str) -> QualityAnswer:
    """The answer of `replica-audit quality`. Raises ValueError when quality was not checked."""
    counts = count_quality(results)
    if counts is None:
        raise ValueError("results without rows of quality")
    severities = [severity for severity, count in counts["failed"].items() if count]
    failing = any(at_or_above(severity, fail_on) for severity in severities)
    exit_status, status = judge_run(severities, failing, bool(counts["errors"]))
    return {
        "schema_version": 1,
        "audit_id": results.audit.get("audit_id"),
        "status": status,
        "exit_status": exit_status,
        "fail_on": fail_on,
        **counts,
    }


def judge_run(severities: Iterable[str], failing: bool, is_untrusted: bool) -> tuple[int, RunStatus]:
    """Exit status and word of the status line; `severities` are those of what is new."""
    if failing:
        return 1, "CRITICAL"
    if is_untrusted:
        return 3, "UNKNOWN"
    return 0, "WARNING" if any(at_or_above(severity, "medium") for severity in severities) else "OK"


def _failed(row: QualityRow) -> bool:
    return row.status == "new"
