"""Expectations of a quality plan, by name."""

from __future__ import annotations

from replica_audit.quality.suites import QualityPlan, load_plan


def names(plan: QualityPlan) -> dict[str, str]:
    """Severity of every expectation by suite and name."""
    return {f"{suite.name}/{one.name}": one.severity for suite in plan.suites for one in suite.expectations}


def built_in() -> int:
    """How many expectations every run has; tests/quality/test_suites.py holds the number."""
    return len(names(load_plan()))
