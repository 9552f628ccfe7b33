"""Explanations of a finding code, a family of codes, a verdict, or one finding of the latest audit."""

from __future__ import annotations

import difflib
import gzip
import json
import os
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from replica_audit.api.argument_settings import resolved
from replica_audit.auditing.catalogue import (
    CATALOGUE,
    FAMILIES,
    VERDICT_MEANINGS,
    code_text,
    codes_beginning,
    codes_of_verdict,
    nearest_codes,
)
from replica_audit.auditing.finding import Code
from replica_audit.config import Settings
from replica_audit.errors import UsageError
from replica_audit.install.extras import check_extra
from replica_audit.paths import local_path
from replica_audit.report.explain_text import (
    render_catalogue,
    render_explanation,
    render_family,
    render_finding,
    render_verdict,
)
from replica_audit.report.whole_files import LINES
from replica_audit.row_classes import RawRow, to_dict

_FINDING_ID = re.compile(r"[0-9a-fA-F]{16}")

#: A row as an object of audit.json.
_Object = Mapping[str, object]


class Explained(NamedTuple):
    """An explanation: the object that `explain --format json` prints, and the text that `explain` prints (also its `str`)."""

    content: _Object
    text: str

    def __str__(self) -> str:
        return self.text


def explain(
    code: str | None = None, *, report: str | None = None, warehouse: str | None = None, config: str | None = None
) -> Explained:
    """Explain a code, the codes with a prefix, a verdict or, by its id, a finding of the latest audit; None lists all codes.

    A finding is looked up in the `report`, then in the `warehouse`. Raises UsageError for an unknown name, with the closest known one.
    """
    return explain_code(code, resolved({"report": report, "warehouse": warehouse}, config))


def explain_code(asked_for: str | None, settings: Settings) -> Explained:
    """`explain` with resolved settings."""
    code = (asked_for or "").strip()
    if _FINDING_ID.fullmatch(code):
        return _explain_finding(code.lower(), settings)
    asked = code.upper().rstrip("-")
    verdict = asked.replace("-", "_")
    if not asked:
        codes = list(CATALOGUE.values())
        text = render_catalogue()
    elif found := CATALOGUE.get(asked):
        return Explained(_as_object(found), render_explanation(found))
    elif verdict in VERDICT_MEANINGS:
        codes = codes_of_verdict(verdict)
        text = render_verdict(verdict)
        meant = {"verdict": verdict, "meaning": VERDICT_MEANINGS[verdict], "codes": [_as_object(one) for one in codes]}
        return Explained(meant, text)
    elif codes := codes_beginning(asked):
        text = render_family(asked)
    else:
        dashed = {name.replace("_", "-"): name for name in (*CATALOGUE, *FAMILIES, *VERDICT_MEANINGS)}
        close = difflib.get_close_matches(asked.replace("_", "-"), dashed, n=3, cutoff=0.6)
        near = [dashed[name] for name in close] or nearest_codes(asked)
        hint = f"did you mean {' or '.join(near)}?" if near else "replica-audit explain lists all codes"
        raise UsageError(f"explain: {asked_for} is not a finding code, family or verdict; {hint}")
    return Explained({"codes": [_as_object(one) for one in codes]}, text)


def _as_object(code: Code) -> _Object:
    text = code_text(code.code)
    return {
        "code": code.code,
        "severities": code.severities,
        "verdicts": code.verdicts,
        "summary": text.summary,
        "meaning": text.meaning,
        "proof": text.proof,
        "remedy": text.remedy,
        "traps": text.traps,
        "traits": code.traits,
    }


def _explain_finding(finding_id: str, settings: Settings) -> Explained:
    """Explain a finding with its evidence. Raises UsageError if neither report nor warehouse has it."""
    found = _from_report(finding_id, settings) or _from_warehouse(finding_id, settings)
    if found is None:
        places = f"{settings.report}/audit.json and {settings.catalog or settings.warehouse}"
        raise UsageError(f"explain: no finding {finding_id} in {places}: name the report that has it with --report")
    row, audit, source, steps = found
    code = CATALOGUE.get(str(row["code"]))
    content = {"finding": dict(row), "audit": dict(audit), "code": code and _as_object(code)}
    return Explained(content, render_finding(row, audit, source, steps))


#: A finding, its audit, where it was found, and the plan's steps for its partition.
_Found = tuple[_Object, _Object, str, Sequence[_Object]]


def _from_report(finding_id: str, settings: Settings) -> _Found | None:
    directory = local_path(settings.report) or settings.report
    for path in (os.path.join(directory, name) for name in ("audit.json", LINES)):
        if os.path.isfile(path) and (found := _from_file(finding_id, path)) is not None:
            return found
    return None


def _from_file(finding_id: str, path: str) -> _Found | None:
    """A finding of an audit.json, or of an audit.jsonl, whose first line has the audit and the steps."""
    try:
        contents = _read_lines(path) if path.endswith(LINES) else _read_whole(path)
        first = next(contents)
        for content in chain([first], contents):
            for row in content.get("findings", ()):
                if row["finding_id"] == finding_id:
                    return row, first["audit"], path, _steps_of(row, first["steps"])
        return None
    except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError(f"explain: {path}: expected the audit.json of a run ({error})") from error


def _read_whole(path: str) -> Iterator[RawRow]:
    with open(path, encoding="utf-8") as stream:
        content = json.load(stream)
    yield {**content, "findings": content["findings"], "audit": content["audit"]}


def _read_lines(path: str) -> Iterator[RawRow]:
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        yield from map(json.loads, stream)


def _from_warehouse(finding_id: str, settings: Settings) -> _Found | None:
    """A finding of the latest audit in a warehouse of files; catalogs are not searched, since that would start Spark."""
    place = local_path(settings.warehouse)
    if settings.catalog is not None or (place is not None and not os.path.isdir(place)):
        return None
    check_extra("report", "explain of a finding in a warehouse")
    from replica_audit.warehouse.answer_tables import load_results
    from replica_audit.warehouse.delta_tables import Warehouse

    try:
        results = load_results(Warehouse(settings.warehouse), None, settings.fail_on)
    except UsageError:
        return None
    found = (row for part in results.parts(("findings",)) for row in part.findings if row.finding_id == finding_id)
    finding = next(found, None)
    if finding is None:
        return None
    row = to_dict(finding)
    from replica_audit.elect.election_plan import advise
    from replica_audit.typed_json import to_object

    steps = [to_object(step) for step in advise(results).steps]
    return row, results.audit, settings.warehouse, _steps_of(row, steps)


def _steps_of(row: _Object, steps: Sequence[_Object]) -> list[_Object]:
    """Plan steps for the finding's partition."""
    place = {"topic": row["topic"], "partition": row["partition"]}
    found = []
    for step in steps:
        partitions = step["partitions"]
        if isinstance(partitions, list) and place in partitions:
            found.append(step)
    return found
