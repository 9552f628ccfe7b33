"""Text of `explain`: one finding code, the codes of a family or a verdict, all codes, or one finding of an audit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from replica_audit.auditing.catalogue import (
    CATALOGUE,
    FAMILIES,
    VERDICT_MEANINGS,
    code_text,
    codes_beginning,
    codes_of_verdict,
    family_text,
)
from replica_audit.auditing.finding import Code
from replica_audit.literals import VERDICTS
from replica_audit.report.finding_text import render_evidence, render_headline
from replica_audit.report.layout import paint, wrap
from replica_audit.row_classes import read_row
from replica_audit.schema import FindingRow

_RULES = "docs/semantics.md#"
#: Section with the rules of each family.
SECTIONS = {
    "LOG": f"{_RULES}f2-integrity-of-one-replica",
    "EPO": f"{_RULES}f3-lineage",
    "DIV": f"{_RULES}f4-divergence",
    "HWM": f"{_RULES}f5-high-watermark-and-loss",
    "REP": f"{_RULES}f5-high-watermark-and-loss",
    "TXN": f"{_RULES}f5-high-watermark-and-loss",
    "TIER": f"{_RULES}f7-metadata-and-capture",
    "CHK": f"{_RULES}f5-high-watermark-and-loss",
    "TRN": f"{_RULES}f6-truncation-replay",
    "GRP": f"{_RULES}f6-truncation-replay",
    "META": f"{_RULES}f7-metadata-and-capture",
    "CAP": f"{_RULES}f7-metadata-and-capture",
}


def render_explanation(code: Code) -> str:
    """Meaning of a code, its proof, its remedy, and harmless look-alikes."""
    text = code_text(code.code)
    first, *rest = wrap(f"{code.code}  {text.summary}", "", "  ")
    lines = [first.replace(code.code, paint(code.code, "head"), 1), *rest, ""]
    lines.append("severity  " + ", ".join(paint(severity, severity) for severity in code.severities))
    lines.append("verdict   " + (", ".join(code.verdicts) if code.verdicts else "does not change it"))
    sections = (("Meaning", text.meaning), ("Proof", text.proof), ("What to do", text.remedy), ("Not this", text.traps))
    for title, said in sections:
        if said:
            lines += ["", paint(title, "head"), *wrap(said, "  ")]
    lines += ["", *wrap(f"The rule: {SECTIONS[code.family]}")]
    return "\n".join(lines) + "\n"


def render_catalogue() -> str:
    """Every code with its worst severity and summary, by family, and every verdict."""
    lines = []
    for family in FAMILIES:
        lines += [*_family(family), ""]
    lines.append(paint("Verdicts, worst first", "head"))
    longest = max(len(name) for name in VERDICTS)
    for name in VERDICTS:
        lines += wrap(f"{name.ljust(longest)}  {VERDICT_MEANINGS[name]}", "  ", " " * (longest + 4))
    return "\n".join(lines) + "\n"


def render_family(prefix: str) -> str:
    """Render the codes that begin with `prefix`; at least one must exist."""
    return "\n".join(_family(prefix)) + "\n"


def _family(prefix: str) -> list[str]:
    title = f"{prefix}: {family_text(prefix.partition('-')[0]).subject}"
    return [paint(title, "head"), *_codes(codes_beginning(prefix))]


def render_verdict(verdict: str) -> str:
    """Render the meaning of a verdict, and the findings that cause it."""
    lines = [paint(verdict, "head"), *wrap(VERDICT_MEANINGS[verdict], "  ")]
    if codes := codes_of_verdict(verdict):
        lines += ["", paint("Brought by", "head"), *_codes(codes)]
    return "\n".join(lines) + "\n"


def _codes(codes: Sequence[Code]) -> list[str]:
    """A line or more for each code: its name, worst severity and summary."""
    longest = max(len(name) for name in CATALOGUE)
    lines = []
    for code in codes:
        severity = code.severities[0]
        head = f"  {code.code.ljust(longest)}  {severity.ljust(8)}  "
        first, *rest = wrap(code_text(code.code).summary, " " * len(head))
        lines += [f"  {code.code.ljust(longest)}  {paint(severity.ljust(8), severity)}  {first.strip()}", *rest]
    return lines


def render_finding(
    row: Mapping[str, object],
    audit: Mapping[str, object],
    source: str,
    steps: Sequence[Mapping[str, object]],
) -> str:
    """Render a finding and its evidence. `row` is a row of `findings` in the audit `audit` from `source`; `steps` are the
    plan's steps for its partition; all in the form of audit.json."""
    found = read_row(FindingRow, row)
    name = f"audit {audit['audit_id']}" if audit.get("audit_id") else "the audit"
    lines = [*wrap(f"finding {found.finding_id} of {name}, finished {audit.get('finished')}, in {source}"), ""]
    head = render_headline(found)
    lines += [paint(head, found.severity), *wrap(found.message, "  "), "", paint("Evidence", "head")]
    lines += render_evidence(found, "  ") or ["  none"]
    if steps:
        lines += ["", paint("In the plan of this audit", "head")]
        for step in steps:
            lines += wrap(f"{step['number']}. {step['text']}.", "  ", "     ")
    code = CATALOGUE.get(found.code)
    text = "\n".join(lines) + "\n"
    return text if code is None else f"{text}\n{render_explanation(code)}"
