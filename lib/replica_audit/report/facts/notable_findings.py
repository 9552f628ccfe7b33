"""Findings that a reader has to see."""

from __future__ import annotations

from collections.abc import Iterable

from replica_audit.auditing.catalogue import at_or_above
from replica_audit.report.facts.by_partition import present, worst_first
from replica_audit.schema import FindingRow, QualityRow


def new_findings(findings: Iterable[FindingRow]) -> list[FindingRow]:
    """Findings of low severity or more that no baseline knows, worst first."""
    return [row for row in worst_first(findings) if row.status == "new" and row.severity != "info"]


def is_failing(row: FindingRow | QualityRow, fail_on: str) -> bool:
    """True for a new finding or failed expectation at or above `fail_on`, which makes the exit status 1."""
    return row.status == "new" and at_or_above(row.severity, fail_on)


def worst_of_each(findings: Iterable[FindingRow]) -> dict[tuple[str | None, int | None], FindingRow]:
    """Worst present finding of each partition."""
    worst: dict[tuple[str | None, int | None], FindingRow] = {}
    for row in worst_first(present(findings)):
        worst.setdefault((row.topic, row.partition), row)
    return worst
