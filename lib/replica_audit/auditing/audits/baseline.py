"""Findings against those of an earlier audit: which are new, which were known, which are resolved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from replica_audit.auditing.findings.finding_rows import ReportedFinding
from replica_audit.errors import UsageError
from replica_audit.formats.files.side_files import INT64, is_whole, parse_json
from replica_audit.formats.format_error import FormatError
from replica_audit.tables import REPORT_TABLES


def parse_baseline(text: str, path: str) -> list[ReportedFinding]:
    """The findings of the audit.json `text` that were there at its time: new or known, not resolved.

    Raises UsageError naming `path` when it is not an audit.json.
    """
    try:
        content = parse_json(text, path, "")
    except FormatError as error:
        expected = f"the audit.json of an earlier run, {error.expected}"
        raise UsageError(f"baseline {path}: expected {expected}, found {error.found}") from None
    if (
        not isinstance(content, dict)
        or content.get("schema_version") != 1
        or not isinstance(content.get("findings"), list)
    ):
        raise UsageError(f"baseline {path}: expected an audit.json of schema_version 1 with findings")
    findings = []
    for number, row in enumerate(content["findings"]):
        try:
            findings.append(ReportedFinding.from_row(row))
        except ValueError as error:
            raise UsageError(
                f"baseline {path}: findings[{number}] is not a finding as audit.json has it: {error}"
            ) from None
    return [item for item in findings if item.status != "resolved"]


def compare_findings(
    findings: Sequence[Mapping[str, Any]], baseline: Sequence[ReportedFinding], audited: set[tuple[str, int]]
) -> list[dict[str, Any]]:
    """`findings` with their status, then those of `baseline` that are not there any more, as resolved.

    A finding is the same when its finding_id is; one that is known without the baseline stays so. Only what was audited
    now can be resolved: `audited` has the (topic, partition) of this run, so that a run on one topic does not resolve
    the findings of the others. Comparing what was compared before changes nothing.
    """
    known = {item.finding_id for item in baseline}
    present = {row["finding_id"] for row in findings}
    compared = []
    for row in findings:
        status = "known" if row["status"] == "new" and row["finding_id"] in known else row["status"]
        compared.append({**row, "status": status})
    for item in baseline:
        is_audited = item.partition is None or (item.topic, item.partition) in audited
        if item.finding_id not in present and is_audited:
            compared.append(replace(item, status="resolved").to_row())
    return compared


def parse_quality_baseline(text: str) -> list[dict[str, Any]]:
    """Rows of `quality` in an audit.json that `parse_baseline` accepted; none where its version had no such table."""
    rows = parse_json(text, "baseline", "").get("quality")
    types = {column.name: column.type for column in REPORT_TABLES["quality"]}
    return [
        row
        for row in (rows if isinstance(rows, list) else ())
        if isinstance(row, dict) and all(_fits(row[name], types[name]) for name in types if name in row)
    ]


def _fits(value: Any, kind: str) -> bool:
    """Whether a JSON value is null or of a type that the table `quality` has."""
    if value is None:
        return True
    if kind == "array<string>":
        return isinstance(value, list) and all(isinstance(one, str) for one in value)
    if kind == "bigint":
        return is_whole(value, -INT64 - 1, INT64)
    return isinstance(value, {"string": str, "boolean": bool}[kind])


def compare_quality(rows: Sequence[Mapping[str, Any]], baseline: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows of `quality` with their status: a failure is known when the same expectation failed before, on these rows.

    One row more, or another value in one of them, makes it new. Met expectations and errors have no status.
    """
    known = {(row.get("suite"), row.get("name")): row for row in baseline if row.get("success") is False}
    compared = []
    for row in rows:
        status = None
        if not row["success"] and row["error"] is None:
            before = known.get((row["suite"], row["name"]))
            status = "known" if before is not None and _covers(before, row) else "new"
        compared.append({**row, "status": status})
    return compared


def _covers(before: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    if (row["unexpected_count"] or 0) > (before.get("unexpected_count") or 0):
        return False
    return set(row["failing"] or ()) <= set(before.get("failing") or ()) and (
        row["unexpected_count"] is not None or row["observed"] == before.get("observed")
    )
