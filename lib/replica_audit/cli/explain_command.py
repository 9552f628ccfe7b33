"""The command `explain`: a finding code, those that begin alike, a verdict, or one finding of an audit."""

from __future__ import annotations

import argparse
import difflib
from dataclasses import asdict
from typing import Any

from replica_audit.auditing.catalogue import (
    CATALOGUE,
    FAMILIES,
    VERDICT_MEANINGS,
    codes_beginning,
    codes_of_verdict,
    nearest_codes,
)
from replica_audit.cli.finding_lookup import explain_finding, is_finding_id
from replica_audit.cli.output import print_result, stdout_colour
from replica_audit.config import Settings
from replica_audit.errors import UsageError
from replica_audit.report.explanation import render_catalogue, render_explanation, render_family, render_verdict
from replica_audit.report.json_object import render_object


def explain(arguments: argparse.Namespace, settings: Settings) -> int:
    """Say what a code, the codes that begin alike, or a verdict means; list all without one."""
    if is_finding_id(arguments.code or ""):
        return explain_finding(arguments.code.strip().lower(), settings)
    asked = (arguments.code or "").strip().upper().rstrip("-")
    verdict = asked.replace("-", "_")
    colour = stdout_colour()
    if not asked:
        codes, text = list(CATALOGUE.values()), render_catalogue(colour)
    elif code := CATALOGUE.get(asked):
        return _print_object(asdict(code), render_explanation(code, colour), settings)
    elif verdict in VERDICT_MEANINGS:
        codes, text = codes_of_verdict(verdict), render_verdict(verdict, colour)
        found = {"verdict": verdict, "meaning": VERDICT_MEANINGS[verdict], "codes": [asdict(code) for code in codes]}
        return _print_object(found, text, settings)
    elif codes := codes_beginning(asked):
        text = render_family(asked, colour)
    else:
        dashed = {name.replace("_", "-"): name for name in (*CATALOGUE, *FAMILIES, *VERDICT_MEANINGS)}
        close = difflib.get_close_matches(asked.replace("_", "-"), dashed, n=3, cutoff=0.6)
        near = [dashed[name] for name in close] or nearest_codes(asked)
        hint = f"did you mean {' or '.join(near)}?" if near else "replica-audit explain lists all codes"
        raise UsageError(f"explain: {arguments.code} is not a finding code, family or verdict; {hint}")
    return _print_object({"codes": [asdict(code) for code in codes]}, text, settings)


def _print_object(content: dict[str, Any], text: str, settings: Settings) -> int:
    print_result(render_object(content) if settings.format == "json" else text)
    return 0
