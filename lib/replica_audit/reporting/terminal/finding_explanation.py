"""The text of `explain FINDING_ID`: one finding of an audit with its evidence, and what its code means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from replica_audit.auditing.findings.catalogue import CATALOGUE
from replica_audit.reporting.phrases.finding_text import render_evidence, render_headline
from replica_audit.reporting.phrases.layout import paint, wrap
from replica_audit.reporting.terminal.explanation import render_explanation


def render_finding(
    row: Mapping[str, Any],
    audit: Mapping[str, Any],
    source: str,
    steps: Sequence[Mapping[str, Any]] = (),
    colour: bool = False,
) -> str:
    """A row of `findings` of the audit that `source` has; `steps` of its plan are about the finding's partition."""
    name = f"audit {audit['audit_id']}" if audit.get("audit_id") else "the audit"
    lines = [*wrap(f"finding {row['finding_id']} of {name}, finished {audit.get('finished')}, in {source}"), ""]
    head = render_headline(row)
    lines += [paint(head, row["severity"], colour), *wrap(row["message"], "  "), "", paint("Evidence", "head", colour)]
    lines += render_evidence(row, "  ") or ["  none"]
    if steps:
        lines += ["", paint("In the plan of this audit", "head", colour)]
        for step in steps:
            lines += wrap(f"{step['number']}. {step['text']}.", "  ", "     ")
    code = CATALOGUE.get(row["code"])
    text = "\n".join(lines) + "\n"
    return text if code is None else f"{text}\n{render_explanation(code, colour)}"
