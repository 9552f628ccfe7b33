"""A finding as a row of the table `findings` and of audit.json, and such a row as a finding: no other module does either."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from replica_audit.auditing.findings.code import SEVERITIES
from replica_audit.auditing.findings.finding import Evidence, Finding, finding_id
from replica_audit.closed_sets import Confidence, Severity, Status
from replica_audit.formats.files.side_files import INT64

if TYPE_CHECKING:
    from replica_audit.model import TopicPartition


@dataclass(frozen=True, slots=True)
class ReportedFinding:
    """A finding as an audit reports it. Its fields are the columns of `findings`, in their order."""

    finding_id: str
    code: str
    severity: Severity
    confidence: Confidence
    topic: str | None
    partition: int | None
    """Topic and partition are None where the finding is of a log dir or of input that belongs to no partition."""
    broker_id: int | None
    start_offset: int | None
    end_offset: int | None
    message: str
    evidence: tuple[Evidence, ...]
    status: Status

    def to_row(self) -> dict[str, Any]:
        """The row, as Delta and JSON take it."""
        row = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**row, "evidence": [evidence_to_row(one) for one in self.evidence]}

    @classmethod
    def from_row(cls, row: Any) -> ReportedFinding:
        """The finding of a row; columns that a later version added are passed over.

        Raises ValueError, naming the column, for what is not such a row.
        """
        if not isinstance(row, Mapping):
            raise ValueError("not a finding")
        values = {}
        for name in (field.name for field in fields(cls)):
            if name not in row:
                raise ValueError(f"no column {name}")
            kinds = _KINDS.get(name, (str,))
            values[name] = _of_kind(name, row[name], kinds)
        if values["severity"] not in SEVERITIES:
            raise ValueError("severity is none of " + ", ".join(SEVERITIES))
        return cls(**{**values, "evidence": tuple(evidence_from_row(one) for one in row["evidence"] or ())})


def _of_kind(name: str, value: Any, kinds: tuple[type, ...]) -> Any:
    # True and False are numbers to Python.
    if not isinstance(value, kinds) or isinstance(value, bool):
        raise ValueError(f"{name} is {type(value).__name__}")
    if isinstance(value, int) and not -INT64 <= value <= INT64:
        raise ValueError(f"{name} is a number of {value.bit_length()} bits")
    return value


_NUMBER = (int, type(None))
#: What a column may be, those that are always text left out.
_KINDS: dict[str, tuple[type, ...]] = {
    "topic": (str, type(None)),
    **dict.fromkeys(("partition", "broker_id", "start_offset", "end_offset"), _NUMBER),
    "evidence": (list, tuple, type(None)),
}


def evidence_to_row(item: Evidence) -> dict[str, Any]:
    """An element of the column `evidence`."""
    return {name: getattr(item, name) for name in _EVIDENCE}


def evidence_from_row(row: Any) -> Evidence:
    """The `Evidence` of an element of a row; raises ValueError for anything else."""
    if not isinstance(row, Mapping) or not row.keys() >= set(_EVIDENCE):
        raise ValueError(f"evidence without {', '.join(_EVIDENCE)}")
    return Evidence(**{name: _of_kind(f"evidence.{name}", row[name], kinds) for name, kinds in _EVIDENCE.items()})


#: As in the type of the column.
_EVIDENCE: dict[str, tuple[type, ...]] = {
    "kind": (str,),
    "broker_id": _NUMBER,
    "path": (str, type(None)),
    "position": _NUMBER,
    "value": (str, type(None)),
    "text": (str, type(None)),
}


def report_finding(
    item: Finding, partition: TopicPartition | None, place: str | None, cluster_id: str | None
) -> ReportedFinding:
    """A conclusion with its place and its id; `place` as in `finding_id`."""
    return ReportedFinding(
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
