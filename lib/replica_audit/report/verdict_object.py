"""verdict.json as an object, and the status line, for a run with answers and for one that ended in an error.

Imports nothing that only answers need, so that a failing run stays light.
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
    """Member `quality` of verdict.json: numbers of checked expectations and their outcomes."""

    expectations: int
    failed: Mapping[Severity, int]
    """Number of unmet expectations that no baseline knows, by severity."""
    beside_findings: int
    """Number of failed expectations outside the suite `findings`."""
    known: int
    errors: int
    """Number of expectations that could not be checked; they count neither as met nor as failed."""


class QualityAnswer(QualityObject):
    """Object that `replica-audit quality` prints as JSON, without its expectations."""

    schema_version: int
    audit_id: str | None
    status: RunStatus
    exit_status: int
    fail_on: str


class VerdictObject(TypedDict):
    """Content of verdict.json."""

    schema_version: int
    audit_id: str | None
    verdict: Verdict
    status: RunStatus
    exit_status: int
    fail_on: str
    findings: Mapping[Severity, int]
    """Number of new findings by severity; known and resolved ones do not count for the status."""
    partitions: Mapping[Verdict, int]
    known_findings: int
    resolved_findings: int
    quality: QualityObject | None
    unchecked_batches: int
    """Number of batches whose checksums were never computed: damage inside them goes unseen."""
    untrusted: str | None
    """Questions that the audit could not answer; None if it answered all."""
    table_versions: Mapping[str, int] | None
    """Versions of the Delta tables that the audit wrote; None if it wrote none."""


def build_failure(exit_status: int, fail_on: str, reason: str) -> VerdictObject:
    """Build verdict.json of a run that ended in an error and has no answers."""
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
    """Render the last line of `run`: the status and counts; for UNKNOWN also the reason."""
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
    """Render a clause of the status line on failed quality expectations other than those on findings; empty if there are none."""
    if not counts or not counts["beside_findings"]:
        return ""
    return f"; {count(counts['beside_findings'], 'quality expectation')} failed"
