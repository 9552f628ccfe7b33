"""The rules of the finding catalogue (docs/semantics.md F.2 to F.7): each module takes a `Case` and yields findings."""

from __future__ import annotations

from collections.abc import Iterator

from replica_audit.auditing.findings.finding import Case, Finding
from replica_audit.auditing.findings.rules import (
    broker_logs,
    capture,
    checkpoints,
    divergence,
    elections,
    integrity,
    lineage,
    loss,
    replication,
    second_hand,
    transactions,
    truncation,
    watermark,
)

_FAMILIES = (
    integrity,
    checkpoints,
    lineage,
    divergence,
    loss,
    watermark,
    replication,
    transactions,
    truncation,
    elections,
    broker_logs,
    capture,
    second_hand,
)


def judge(case: Case) -> Iterator[Finding]:
    """Every finding of one partition, family by family."""
    for family in _FAMILIES:
        yield from family.judge(case)
