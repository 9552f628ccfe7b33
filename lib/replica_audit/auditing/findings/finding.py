"""A finding, and the case that the rules look at: one partition with everything known of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from replica_audit.auditing.comparing.comparison import Comparison
from replica_audit.auditing.findings.catalogue import CATALOGUE, SEVERITIES, VERDICTS
from replica_audit.auditing.leadership.bounds import HighWatermark
from replica_audit.auditing.leadership.capture_times import CaptureTimes
from replica_audit.auditing.replicas.facts import ReplicaFacts
from replica_audit.auditing.replicas.reference import Reference
from replica_audit.formats.leadership.broker_logs import BrokerLogEvent
from replica_audit.model import Leadership, TopicPartition, TransactionState


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

    def row(self) -> dict:
        return {
            "kind": self.kind,
            "broker_id": self.broker_id,
            "path": self.path,
            "position": self.position,
            "value": self.value,
            "text": self.text,
        }


def considered(text: str) -> Evidence:
    """A benign explanation that was looked at, and why it holds or does not."""
    return Evidence("considered", text)


@dataclass(frozen=True, slots=True)
class Finding:
    """One conclusion. `verdict` is what it asks of its partition, None when it never moves the verdict."""

    code: str
    severity: str
    confidence: str
    broker_id: int | None
    start_offset: int | None
    end_offset: int | None
    message: str
    evidence: tuple[Evidence, ...]
    verdict: str | None
    replica_epoch: int | None = None
    status: str = "new"
    """known where an earlier audit of the warehouse told it already."""

    def __post_init__(self) -> None:
        known = CATALOGUE[self.code]
        if self.severity not in known.severities or (self.verdict is not None and self.verdict not in known.verdicts):
            raise ValueError(f"{self.code} cannot have severity {self.severity} with verdict {self.verdict}")


def finding(
    code: str,
    message: str,
    *,
    severity: str | None = None,
    verdict: str | None = "",
    confidence: str = "proven",
    broker_id: int | None = None,
    start_offset: int | None = None,
    end_offset: int | None = None,
    evidence: Sequence[Evidence] = (),
    replica_epoch: int | None = None,
) -> Finding:
    """A finding of `code`; severity and verdict default to the catalogue's worst (verdict None: leaves it alone)."""
    known = CATALOGUE[code]
    if verdict == "":
        verdict = known.verdicts[0] if known.verdicts else None
    return Finding(
        code=code,
        severity=severity or known.severities[0],
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


def finding_row(item: Finding, partition: TopicPartition | None, place: str | None, cluster_id: str | None) -> dict:
    """The row of the `findings` table. Its id stays the same between audits of one problem (CONTRACT).

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
    digest = hashlib.sha256("\x00".join(str(part) for part in parts).encode()).hexdigest()
    return {
        "finding_id": digest[:16],
        "code": item.code,
        "severity": item.severity,
        "confidence": item.confidence,
        "topic": partition.topic if partition else None,
        "partition": partition.partition if partition else None,
        "broker_id": item.broker_id,
        "start_offset": item.start_offset,
        "end_offset": item.end_offset,
        "message": item.message,
        "evidence": [evidence.row() for evidence in item.evidence],
        "status": item.status,
    }


@dataclass(frozen=True, slots=True)
class Case:
    """One partition as the rules see it."""

    topic_partition: TopicPartition
    leadership: Leadership | None
    reference: Reference
    comparisons: tuple[Comparison, ...]
    """Every other comparable replica against the reference, by broker id."""
    high_watermark: HighWatermark
    protocol: str
    kafka_version: tuple[int, ...] | None
    quiesced: bool
    """Nothing was written while the copies were made: a manifest says so, or every log dir was stopped cleanly (F.0)."""
    one_moment: bool = False
    """No skew of the copies explains an end that is too short (`capture_times.are_of_one_moment`)."""
    foreign: tuple[ReplicaFacts, ...] = ()
    """Replicas of another topic id, not compared."""
    duplicates: tuple[ReplicaFacts, ...] = ()
    """Second copies on one broker, not used."""
    strangers: tuple[tuple[Comparison, str], ...] = ()
    """Replicas of which it is not known whether they are of the same topic, and why; nothing is concluded from them."""
    set_aside: tuple[ReplicaFacts, ...] = ()
    """Logs that are known from a text or table which cannot be compared with the reference's."""
    orphans: Mapping[tuple[int, str, str], int] = field(default_factory=dict)
    """(broker id, log dir, checkpoint file) → value, where the log dir has no directory of the partition."""
    times: CaptureTimes = CaptureTimes()
    """When the copies were made, where the manifest says so."""
    log_events: tuple[BrokerLogEvent, ...] = ()
    """What brokers' own logs say of the partition, in order of time."""
    transactions: Mapping[int, TransactionState] = field(default_factory=dict)
    """What the coordinator last said of the producers whose transactions the reference leaves open; those it knows."""

    @property
    def replicas(self) -> tuple[ReplicaFacts, ...]:
        """The reference and all that were laid beside it, by broker id."""
        strangers = (item.follower for item, _ in self.strangers)
        everyone = (self.reference.facts, *(item.follower for item in self.comparisons), *strangers)
        return tuple(sorted(everyone, key=lambda facts: facts.key))

    @property
    def stopped(self) -> bool:
        """Nobody leads because everybody was stopped cleanly: then who is in sync says nothing any more."""
        return self.reference.leader_id is None and all(facts.directory.clean_shutdown for facts in self.replicas)

    @property
    def is_epoch_said(self) -> bool:
        """Whether the source of leadership says in which epoch."""
        return self.leadership is not None and self.leadership.leader_epoch is not None

    def config(self, name: str) -> str | None:
        """A topic config as the leadership source shows it; None when it does not."""
        return self.leadership.configs.get(name) if self.leadership else None

    def in_isr(self, broker_id: int) -> bool | None:
        return None if self.reference.isr is None else broker_id in self.reference.isr


def offsets(start_offset: int, end_offset: int) -> str:
    """Half-open range in words: `offset 12` or `offsets 12 to 16`."""
    last = end_offset - 1
    return f"offset {start_offset}" if last <= start_offset else f"offsets {start_offset} to {last}"
