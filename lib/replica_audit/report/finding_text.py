"""Findings as text: worst first, a headline and the sentence of each."""

from __future__ import annotations

from replica_audit.report.layout import clean, elide, render_range, wrap
from replica_audit.schema import FindingRow


def render_headline(row: FindingRow) -> str:
    """One line: severity, code, place, range, confidence, and the status when it is not new."""
    parts = [row.code]
    if row.topic is not None:
        name = clean(row.topic) if row.partition is None else f"{clean(row.topic)}-{row.partition}"
        parts.append(elide(name, 30))
    if row.broker_id is not None:
        parts.append(f"broker {row.broker_id}")
    if row.start_offset is not None:
        parts.append(render_range(row.start_offset, row.end_offset))
    if row.confidence is not None and row.confidence != "proven":
        parts.append(clean(row.confidence))
    if row.status != "new":
        parts.append(f"({clean(row.status)})")
    return f"{row.severity:<8}  {' '.join(parts)}"


def render_evidence(row: FindingRow, indent: str) -> list[str]:
    """The evidence of one finding, a line or more for each piece."""
    lines: list[str] = []
    for item in row.evidence or ():
        place = []
        if item.broker_id is not None:
            place.append(f"broker {item.broker_id}")
        if item.path is not None:
            place.append(str(item.path))
        if item.position is not None:
            place.append(f"at byte {item.position}")
        text = ": ".join(part for part in (item.kind, " ".join(place)) if part)
        said = [str(part) for part in (item.value, item.text) if part not in (None, "")]
        lines += wrap(f"{text}: {'; '.join(said)}" if said else text, indent + "- ", indent + "  ")
    return lines
