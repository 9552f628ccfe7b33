"""Findings: a code, the evidence for it, and a row in the table `findings`, which no other module makes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from replica_audit.literals import SEVERITIES, VERDICTS, Confidence, Severity, Status, Verdict
from replica_audit.schema import Evidence, FindingRow

if TYPE_CHECKING:
    from replica_audit.auditing.compare.comparison import Comparison
    from replica_audit.model import TopicPartition


#: Traits by which reports and other readers of findings treat a code, besides severity and verdict, each with its meaning.
TRAITS = {
    "records": "is about records of one replica that differ, are dropped or were committed; of the same ones it tells one fact",
    "difference": "says that replicas hold other records, however the differences are put",
    "gone": "is about committed records that no replica has any more",
    "lost_tail": "says that a replica's log ends below its own checkpoints",
    "held": "is about records that a replica holds and the leader does not have",
    "doubt": "makes it uncertain what a replica holds",
    "damage": "says that a replica's own files are damaged, as whoever lets it lead has to know",
    "no_files": "says that files of an assigned replica are missing or could not be read",
    "unreadable": "says that input could not be read at all, so that the audit does not say everything",
    "quorum": "is about the copies of the metadata log, where it is of no partition",
    "earlier": "is about records that an earlier audit saw",
    "padding": "is about space that a file has beyond its last batch, without being damaged",
}


@dataclass(frozen=True, slots=True)
class Code:
    """A finding code: what rules compute with. Its prose is in the Markdown file of its family (`code_texts`)."""

    code: str
    severities: tuple[Severity, ...]
    """Every severity that the code can have, worst first."""
    verdicts: tuple[Verdict, ...] = ()
    """Every verdict that it can bring on its partition, worst first; empty when it never moves the verdict."""
    traits: tuple[str, ...] = ()
    """Names in `TRAITS`."""

    def __post_init__(self) -> None:
        for severity in self.severities:
            SEVERITIES.index(severity)
        for verdict in self.verdicts:
            VERDICTS.index(verdict)
        if unknown := set(self.traits) - TRAITS.keys():
            raise ValueError(f"{self.code} has unknown traits {sorted(unknown)}")

    @property
    def family(self) -> str:
        """Prefix that it shares with the codes of its family: TXN."""
        return self.code.partition("-")[0]


def considered(text: str) -> Evidence:
    """A benign explanation that was looked at, and why it holds or does not."""
    return Evidence("considered", text=text)


@dataclass(frozen=True, slots=True)
class Finding:
    """A conclusion. `verdict` is the one that it asks of its partition; None if it never moves the verdict."""

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
    """A finding of a comparison, not proven if something else would explain the difference."""
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


def finding_row(
    item: Finding, partition: TopicPartition | None, place: str | None, cluster_id: str | None
) -> FindingRow:
    """Row of the table `findings`; `place` as in `finding_id`."""
    return FindingRow(
        finding_id=finding_id(item, partition, place, cluster_id),
        code=item.code,
        severity=item.severity,
        confidence=item.confidence,
        topic=partition.topic if partition else None,
        partition=partition.partition if partition else None,
        broker_id=item.broker_id,
        start_offset=item.start_offset,
        end_offset=item.end_offset,
        message=item.message,
        evidence=item.evidence,
        status=item.status,
    )
