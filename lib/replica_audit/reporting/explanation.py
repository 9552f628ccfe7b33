"""The text of `explain`: one finding code."""

from __future__ import annotations

from replica_audit.auditing.catalogue import Code
from replica_audit.reporting.layout import paint, wrap


def render_explanation(code: Code, colour: bool = False) -> str:
    """What the code means, how it is proven, what to do, and what it is not to be confused with."""
    lines = [f"{paint(code.code, 'head', colour)}  {code.summary}", ""]
    lines.append("severity  " + ", ".join(paint(severity, severity, colour) for severity in code.severities))
    lines.append("verdict   " + (", ".join(code.verdicts) if code.verdicts else "does not change it"))
    sections = (("Meaning", code.meaning), ("Proof", code.proof), ("What to do", code.remedy), ("Not this", code.traps))
    for title, text in sections:
        if text:
            lines += ["", paint(title, "head", colour), *wrap(text, "  ")]
    return "\n".join(lines) + "\n"
