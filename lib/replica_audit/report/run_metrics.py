"""Metrics of a run, with or without answers, and their text format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from replica_audit.literals import VERDICTS
from replica_audit.redaction import redact
from replica_audit.report.verdict_object import VerdictObject

PREFIX = "replica_audit"

#: Labels and value of a sample.
Sample = tuple[Mapping[str, str], float]

#: Name without the prefix, meaning, and samples of a metric.
Family = tuple[str, str, list[Sample]]


def render_families(families: Iterable[Family]) -> str:
    """Gauges as text that is valid both as OpenMetrics and in Prometheus's own format; ends with `# EOF`."""
    lines: list[str] = []
    for name, text, samples in families:
        lines.append(f"# HELP {PREFIX}_{name} {text}")
        lines.append(f"# TYPE {PREFIX}_{name} gauge")
        for labels, value in samples:
            inner = ",".join(f'{key}="{_escape(part)}"' for key, part in labels.items())
            lines.append(f"{PREFIX}_{name}{f'{{{inner}}}' if inner else ''} {_number(value)}")
    return "\n".join([*lines, "# EOF"]) + "\n"


def run_families(verdict: VerdictObject, finished: float, duration: float | None, report_url: str) -> Iterable[Family]:
    """Outcome of the last run; `verdict` is its verdict.json, `finished` in seconds since 1970, `duration` in seconds."""
    yield "report_info", "Where the report of the last run is.", [({"url": redact(report_url)}, 1)]
    yield "last_run_timestamp_seconds", "When the last run finished, in seconds since 1970.", [({}, finished)]
    if duration is not None:
        yield "last_run_duration_seconds", "How long the last audit took.", [({}, max(0.0, duration))]
    status = verdict["exit_status"]
    success = "Whether the last run has answers (1) or ended in an error (0)."
    yield "last_run_success", success, [({}, int(verdict["audit_id"] is not None or status in (0, 1)))]
    meaning = "Exit status of the last run: 0 nothing to report, 1 findings, 3 not to be trusted whole, 4 an error."
    yield "exit_status", meaning, [({}, status)]
    trusted = "Whether everything that had to be read could be read (1) or part of the answer is missing (0)."
    yield "trusted", trusted, [({}, 0 if verdict["untrusted"] else 1)]
    yield (
        "verdict",
        "The worst verdict of the audit: 1 for the one that holds.",
        [({"verdict": name}, int(name == verdict["verdict"])) for name in VERDICTS],
    )


def _number(value: float) -> str:
    return repr(round(value, 3)) if isinstance(value, float) else str(value)


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
