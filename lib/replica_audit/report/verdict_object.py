"""verdict.json as an object, and as the status line, for a run that has answers and for one that ended in an error.

What answers need is not imported here, so that a run that fails loads nothing for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypedDict

from replica_audit.literals import SEVERITIES, VERDICTS, Severity, Verdict
from replica_audit.report.layout import paint
from replica_audit.text import count

SCHEMA_VERSION = 1

RunStatus = Literal["OK", "WARNING", "CRITICAL", "UNKNOWN"]


class QualityObject(TypedDict):
    """`quality` of verdict.json: how many expectations were checked, and what came of them."""

    expectations: int
    failed: Mapping[Severity, int]
    """Not met and not known from a baseline."""
    beside_findings: int
    """Failed expectations of other suites than `findings`."""
    known: int
    errors: int
    """Expectations that could not be checked; they are neither met nor failed."""


class QualityAnswer(QualityObject):
    """Object that `replica-audit quality` prints as JSON, without its expectations."""

    schema_version: int
    audit_id: str | None
    status: RunStatus
    exit_status: int
    fail_on: str


class VerdictObject(TypedDict):
    """The object of verdict.json."""

    schema_version: int
    audit_id: str | None
    verdict: Verdict
    status: RunStatus
    exit_status: int
    fail_on: str
    findings: Mapping[Severity, int]
    """New ones; those that a baseline knows or that are resolved do not count for the status."""
    partitions: Mapping[Verdict, int]
    known_findings: int
    resolved_findings: int
    quality: QualityObject | None
    unchecked_batches: int
    """Batches whose checksums nobody computed: damage inside them is not seen."""
    untrusted: str | None
    """Questions that the audit could not answer; None when it answered all."""
    table_versions: Mapping[str, int] | None
    """Delta tables that the audit wrote; None where it wrote none."""


def build_failure(exit_status: int, fail_on: str, reason: str) -> VerdictObject:
    """verdict.json of a run that ended in an error and has no answers."""
    return {
        "schema_version": SCHEMA_VERSION,
        "audit_id": None,
        "verdict": "INCONCLUSIVE",
        "status": "UNKNOWN",
        "exit_status": exit_status,
        "fail_on": fail_on,
        "findings": dict.fromkeys(SEVERITIES, 0),
        "partitions": dict.fromkeys(VERDICTS, 0),
        "known_findings": 0,
        "resolved_findings": 0,
        "quality": None,
        "unchecked_batches": 0,
        "untrusted": reason,
        "table_versions": None,
    }


_STATUS_STYLES = {"OK": "good", "WARNING": "medium", "CRITICAL": "critical", "UNKNOWN": "medium"}


def render_status_line(verdict: VerdictObject) -> str:
    """The last line of `run`: the status, then counts; for UNKNOWN the reason as well."""
    counts = ", ".join(f"{number} {severity}" for severity, number in verdict["findings"].items() if number)
    findings = f"findings: {counts}" if counts else "no findings"
    partitions = count(sum(verdict["partitions"].values()), "partition")
    status = paint(verdict["status"], _STATUS_STYLES[verdict["status"]])
    line = f"{status}: {partitions}, {verdict['verdict']}; {findings}" + render_shortfall(verdict["quality"])
    if number := verdict["unchecked_batches"]:
        line += f"; {count(number, 'batch', 'batches')} unchecked"
    if verdict["status"] == "UNKNOWN" and verdict["untrusted"]:
        line += f"; {' '.join(str(verdict['untrusted']).split())}"
    return line


def render_shortfall(counts: QualityObject | None) -> str:
    """Clause of the status line on failed quality expectations other than those on findings; empty without any."""
    if not counts or not counts["beside_findings"]:
        return ""
    return f"; {count(counts['beside_findings'], 'quality expectation')} failed"
