"""Findings that a reader has to see."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from replica_audit.auditing.catalogue import at_or_above, codes_with
from replica_audit.report.facts.by_partition import present, worst_first
from replica_audit.schema import FindingRow, QualityRow


def not_retold(findings: Sequence[FindingRow]) -> list[FindingRow]:
    """Findings of one partition that its story does not say otherwise, worst first: what is of medium severity or more,
    and files that are missing."""
    return [
        row
        for row in worst_first(present(findings))
        if row.code not in codes_with("retold")
        and (at_or_above(row.severity, "medium") or row.code in codes_with("no_files"))
    ]


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
