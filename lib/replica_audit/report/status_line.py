"""The status line: the last line of a run, for a scheduler and its readers."""

from __future__ import annotations

from replica_audit.report.layout import paint, render_count
from replica_audit.report.verdict_object import QualityObject, VerdictObject

_STATUS_STYLES = {"OK": "good", "WARNING": "medium", "CRITICAL": "critical", "UNKNOWN": "medium"}


def render_status_line(verdict: VerdictObject) -> str:
    """The last line of `run`: the status, then counts; for UNKNOWN the reason as well."""
    count = sum(verdict["partitions"].values())
    counts = ", ".join(f"{number} {severity}" for severity, number in verdict["findings"].items() if number)
    findings = f"findings: {counts}" if counts else "no findings"
    partitions = render_count(count, "partition")
    status = paint(verdict["status"], _STATUS_STYLES[verdict["status"]])
    line = f"{status}: {partitions}, {verdict['verdict']}; {findings}" + render_shortfall(verdict["quality"])
    if verdict["status"] == "UNKNOWN" and verdict["untrusted"]:
        line += f"; {' '.join(str(verdict['untrusted']).split())}"
    return line


def render_shortfall(counts: QualityObject | None) -> str:
    """A part of the status line, out of `count_quality`: expectations that failed, beside those on findings."""
    if not counts or not counts["beside_findings"]:
        return ""
    return f"; {render_count(counts['beside_findings'], 'quality expectation')} failed"
