"""A finding and what it stands on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from replica_audit.auditing.findings.code import SEVERITIES, VERDICTS, Code
from replica_audit.closed_sets import Confidence, Severity, Status, Verdict

if TYPE_CHECKING:
    from replica_audit.auditing.comparing.comparison import Comparison
    from replica_audit.model import TopicPartition


@dataclass(frozen=True, slots=True)
class Evidence:
    """One thing that a finding stands on: a place in a file, a value, or a benign explanation that was considered."""

    kind: str
    """batch, checkpoint, lineage, replay, leadership, log, timeline, loss, file, or considered."""
    text: str
    broker_id: int | None = None
    path: str | None = None
    position: int | None = None
    value: str | None = None


def considered(text: str) -> Evidence:
    """A benign explanation that was looked at, and why it holds or does not."""
    return Evidence("considered", text)


@dataclass(frozen=True, slots=True)
class Finding:
    """One conclusion. `verdict` is what it asks of its partition, None when it never moves the verdict."""

    code: str
    severity: Severity
    confidence: Confidence
    broker_id: int | None
    start_offset: int | None
    end_offset: int | None
    message: str
    evidence: tuple[Evidence, ...]
    verdict: Verdict | None
    replica_epoch: int | None = None
    status: Status = "new"
    """known where an earlier audit of the warehouse told it already."""


def finding(
    code: Code,
    message: str,
    *,
    severity: Severity | None = None,
    verdict: str | None = "",
    confidence: Confidence = "proven",
    broker_id: int | None = None,
    start_offset: int | None = None,
    end_offset: int | None = None,
    evidence: Sequence[Evidence] = (),
    replica_epoch: int | None = None,
) -> Finding:
    """A finding of `code`; severity and verdict default to the worst that it can have (verdict None: leaves it alone).

    Raises ValueError for a severity or a verdict that the code cannot have.
    """
    severity = severity or code.severities[0]
    if verdict == "":
        verdict = code.verdicts[0] if code.verdicts else None
    if severity not in code.severities or (verdict is not None and verdict not in code.verdicts):
        raise ValueError(f"{code.code} cannot have severity {severity} with verdict {verdict}")
    return Finding(
        code=code.code,
        severity=severity,
        confidence=confidence,
        broker_id=broker_id,
        start_offset=start_offset,
        end_offset=end_offset,
        message=message,
        evidence=tuple(evidence),
        verdict=verdict,
        replica_epoch=replica_epoch,
    )


def doubted(found: Finding, item: Comparison) -> Finding:
    """A finding of a comparison: not proven where something else would explain the difference."""
    if item.doubt is None:
        return found
    confidence = "likely" if found.confidence == "proven" else found.confidence
    return replace(found, confidence=confidence, evidence=(*found.evidence, considered(item.doubt)))


def merge_findings(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings with one place each: those of one code, broker, start offset and replica epoch have one id, and become one.

    The worst of them is kept, the first of equals, with the evidence of all and the greatest end.
    """
    places: dict[tuple, list[Finding]] = {}
    for item in findings:
        places.setdefault((item.code, item.broker_id, item.start_offset, item.replica_epoch), []).append(item)
    return tuple(same[0] if len(same) == 1 else _merge(same) for same in places.values())


def _merge(same: Sequence[Finding]) -> Finding:
    worst = min(same, key=lambda item: SEVERITIES.index(item.severity))
    return replace(
        worst,
        message=f"{worst.message} ({len(same)} times)",
        end_offset=max((item.end_offset for item in same if item.end_offset is not None), default=None),
        evidence=tuple(dict.fromkeys(evidence for item in same for evidence in item.evidence)),
        verdict=next((verdict for verdict in VERDICTS if any(item.verdict == verdict for item in same)), None),
    )


def finding_id(item: Finding, partition: TopicPartition | None, place: str | None, cluster_id: str | None) -> str:
    """16 hex digits that stay the same between audits of one problem (CONTRACT).

    `place` is the topic id of the partition, or, where the finding is of no partition, the path that it is about.
    """
    parts = (
        cluster_id or "",
        place or (partition.topic if partition else ""),
        partition.partition if partition else "",
        "" if item.broker_id is None else item.broker_id,
        item.code,
        "" if item.start_offset is None else item.start_offset,
        "" if item.replica_epoch is None else item.replica_epoch,
    )
    return hashlib.sha256("\x00".join(str(part) for part in parts).encode()).hexdigest()[:16]


def offsets(start_offset: int, end_offset: int) -> str:
    """Half-open range in words: `offset 12` or `offsets 12 to 16`."""
    last = end_offset - 1
    return f"offset {start_offset}" if last <= start_offset else f"offsets {start_offset} to {last}"
