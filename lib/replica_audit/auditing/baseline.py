"""Findings against those of an earlier audit: which are new, which were known, which are resolved."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from replica_audit.errors import UsageError
from replica_audit.tables import REPORT_TABLES


def parse_baseline(text: str, path: str) -> list[dict[str, Any]]:
    """The findings of the audit.json `text` that were there at its time: new or known, not resolved.

    Raises UsageError naming `path` when it is no audit.json.
    """
    try:
        content = json.loads(text)
    except ValueError as error:
        raise UsageError(
            f"baseline {path}: expected the audit.json of an earlier run, found no JSON ({error})"
        ) from error
    if (
        not isinstance(content, dict)
        or content.get("schema_version") != 1
        or not isinstance(content.get("findings"), list)
    ):
        raise UsageError(f"baseline {path}: expected an audit.json of schema_version 1 with findings")
    names = {column.name for column in REPORT_TABLES["findings"]}
    for number, row in enumerate(content["findings"]):
        if not isinstance(row, dict) or set(row) != names or not isinstance(row["finding_id"], str):
            raise UsageError(
                f"baseline {path}: findings[{number}] is no finding with the columns {', '.join(sorted(names))}"
            )
    return [row for row in content["findings"] if row["status"] != "resolved"]


def compare_findings(
    findings: Sequence[Mapping[str, Any]], baseline: Sequence[Mapping[str, Any]], audited: set[tuple[str, int]]
) -> list[dict[str, Any]]:
    """`findings` with their status, then those of `baseline` that are not there any more, as resolved.

    A finding is the same when its finding_id is. Only what was audited now can be resolved: `audited` has the (topic,
    partition) of this run, so that a run on one topic does not resolve the findings of the others. Comparing what was
    compared before changes nothing.
    """
    known = {row["finding_id"] for row in baseline}
    present = {row["finding_id"] for row in findings}
    compared = []
    for row in findings:
        status = row["status"] if row["status"] == "resolved" else "known" if row["finding_id"] in known else "new"
        compared.append({**row, "status": status})
    for row in baseline:
        place = (row["topic"], row["partition"])
        if row["finding_id"] not in present and (row["partition"] is None or place in audited):
            compared.append({**row, "status": "resolved"})
    return compared
