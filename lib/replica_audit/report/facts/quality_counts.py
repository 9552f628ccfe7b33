"""What the quality checks come to: counts for a scheduler, and the exit status, which follows severity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from replica_audit.auditing.catalogue import SEVERITIES, at_or_above
from replica_audit.quality.quality_facts import FINDINGS_SUITE
from replica_audit.results import Results


def count_quality(results: Results) -> dict[str, Any] | None:
    """The object "quality" of verdict.json: expectations, `failed` by severity and `errors`; None when left out.

    An error is an expectation that could not be looked at; it is neither met nor failed. A failure that a baseline
    knows is counted as known only.
    """
    rows = results.rows("quality")
    if not rows:
        return None
    failed = Counter(row["severity"] for row in rows if _failed(row))
    return {
        "expectations": len(rows),
        "failed": {severity: failed[severity] for severity in SEVERITIES},
        "beside_findings": sum(_failed(row) and row["suite"] != FINDINGS_SUITE for row in rows),
        "known": sum(row["status"] == "known" for row in rows),
        "errors": sum(row["error"] is not None for row in rows),
    }


def build_quality(results: Results, fail_on: str) -> dict[str, Any]:
    """The answer of `replica-audit quality`: the counts, and status and exit status as in verdict.json."""
    counts = count_quality(results)
    if counts is None:
        raise ValueError("results without rows of quality")
    severities = [severity for severity, count in counts["failed"].items() if count]
    failing = any(at_or_above(severity, fail_on) for severity in severities)
    exit_status = 1 if failing else 3 if counts["errors"] else 0
    status = "OK" if not any(at_or_above(severity, "medium") for severity in severities) else "WARNING"
    return {
        "schema_version": 1,
        "audit_id": results.audit.get("audit_id"),
        "status": {1: "CRITICAL", 3: "UNKNOWN"}.get(exit_status, status),
        "exit_status": exit_status,
        "fail_on": fail_on,
        **counts,
    }


def _failed(row: Mapping[str, Any]) -> bool:
    return row["status"] == "new"
