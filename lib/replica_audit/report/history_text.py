"""History of audits for a terminal: for each cluster its audits, changes of verdict, and findings with their age."""

from __future__ import annotations

from collections.abc import Sequence

from replica_audit.auditing.history import AuditHistory, PastAudit, PastFinding, VerdictChange
from replica_audit.literals import SEVERITIES, VERDICTS
from replica_audit.report.layout import align_columns, clean, drop_columns, paint, render_rest, wrap
from replica_audit.text import count

#: Maximum numbers of changes and findings shown; --format json has all.
CHANGE_LIMIT = 20
FINDING_LIMIT = 30

#: Columns to drop on a narrow screen, first one first.
_GIVE_WAY = ("INFO", "LOW", "NEW", "RESOLVED", "MED", "PART", "HIGH", "CRIT")


def render_history(history: AuditHistory) -> str:
    """The history by cluster, worst first: audits from oldest to newest, then changes and findings, worst first.

    No line is longer than the text's width.
    """
    clusters: dict[str | None, list[PastAudit]] = {}
    for audit in history.audits:
        clusters.setdefault(audit.cluster_id, []).append(audit)
    order = sorted(clusters, key=lambda name: (VERDICTS.index(clusters[name][-1].verdict), name is None, name or ""))
    blocks = []
    for name in order:
        changes = [row for row in history.changes if row.cluster_id == name]
        findings = [row for row in history.findings if row.cluster_id == name]
        present = [row for row in findings if row.gone_since is None]
        gone = [row for row in findings if row.gone_since is not None]
        title = "Cluster not known: its snapshots have no cluster id" if name is None else f"Cluster {clean(name)}"
        lines = [paint(line, "head") for line in wrap(title)]
        lines += ["", *_audits(clusters[name]), *_changes(changes)]
        lines += _findings("Findings, worst first", present)
        lines += _findings("Findings that are no longer found, worst first", gone)
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"


def _audits(audits: Sequence[PastAudit]) -> list[str]:
    rows: list[tuple[str, ...]] = [
        ("AUDIT", "FINISHED", "VERDICT", "PART", "CRIT", "HIGH", "MED", "LOW", "INFO", "NEW", "RESOLVED")
    ]
    for audit in audits:
        counts = (audit.findings[severity] for severity in SEVERITIES)
        numbers = (sum(audit.partitions.values()), *counts, audit.new, audit.gone)
        rows.append(((audit.audit_id or "-")[:8], _time(audit.finished), audit.verdict, *map(str, numbers)))
    table = drop_columns(rows, _GIVE_WAY)
    lines = align_columns(table, right=range(table[0].index("VERDICT") + 1, len(table[0])))
    return [paint(lines[0], "head"), *lines[1:]]


def _changes(changes: Sequence[VerdictChange]) -> list[str]:
    if not changes:
        return []
    lines = ["", paint("Verdicts that changed, worst first", "head")]
    for row in changes[:CHANGE_LIMIT]:
        steps = [f"{step.verdict} ({_time(step.finished)})" for step in row.verdicts]
        shown = steps if len(steps) <= 4 else [steps[0], "...", *steps[-3:]]
        lines += wrap(f"{clean(row.topic)}-{row.partition}  {' -> '.join(shown)}", "", "    ")
    return lines + render_rest(len(changes) - CHANGE_LIMIT)


def _findings(title: str, findings: Sequence[PastFinding]) -> list[str]:
    if not findings:
        return []
    lines = ["", paint(title, "head")]
    for row in findings[:FINDING_LIMIT]:
        place = "" if row.topic is None else f" {clean(row.topic)}-{row.partition}"
        broker = "" if row.broker_id is None else f" broker {row.broker_id}"
        head = f"{row.severity:<8}  {row.code}{place}{broker}"
        told = f"first seen {_time(row.first_seen)}, audit {(row.first_audit_id or '-')[:8]}; in {count(row.audits, 'audit')}"
        if row.gone_since is not None:
            told += f"; no longer found {_time(row.gone_since)}"
        first, *rest = wrap(head, "", "          ")
        lines += [
            paint(first, row.severity),
            *rest,
            *wrap(told, "          "),
            *wrap(row.message, "          "),
        ]
    return lines + render_rest(len(findings) - FINDING_LIMIT)


def _time(text: str | None) -> str:
    """An ISO 8601 time in UTC, cut to the second."""
    return "-" if text is None else text[:19].replace("T", " ") + "Z"
