"""The status line: the last line of a run, for a scheduler and its readers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from replica_audit.reporting.layout import paint, render_count
from replica_audit.reporting.quality_report import render_shortfall

_STATUS_STYLES = {"OK": "good", "WARNING": "medium", "CRITICAL": "critical", "UNKNOWN": "medium"}


def render_status_line(verdict: Mapping[str, Any], colour: bool = False) -> str:
    """The last line of `run`: the status, then counts; for UNKNOWN the reason as well."""
    count = sum(verdict["partitions"].values())
    counts = ", ".join(f"{number} {severity}" for severity, number in verdict["findings"].items() if number)
    findings = f"findings: {counts}" if counts else "no findings"
    partitions = render_count(count, "partition")
    status = paint(verdict["status"], _STATUS_STYLES[verdict["status"]], colour)
    line = f"{status}: {partitions}, {verdict['verdict']}; {findings}" + render_shortfall(verdict["quality"])
    if verdict["status"] == "UNKNOWN" and verdict["untrusted"]:
        line += f"; {' '.join(str(verdict['untrusted']).split())}"
    return line
