"""A finding by its id: that of the latest audit, from the report or else from the warehouse."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from replica_audit.auditing.catalogue import CATALOGUE
from replica_audit.cli.output import print_result, stdout_colour
from replica_audit.config import Settings
from replica_audit.errors import UsageError
from replica_audit.paths import local_path
from replica_audit.report.explanation import render_finding
from replica_audit.report.json_object import render_object


def is_finding_id(text: str) -> bool:
    """Whether `text` is 16 hexadecimal digits, as the ids of findings are."""
    return re.fullmatch(r"[0-9a-fA-F]{16}", text.strip()) is not None


def explain_finding(finding_id: str, settings: Settings) -> int:
    """Print one finding and its evidence. Raises UsageError where neither report nor warehouse has it."""
    found = _from_report(finding_id, settings) or _from_warehouse(finding_id, settings)
    if found is None:
        places = f"{settings.report}/audit.json and {settings.catalog or settings.warehouse}"
        raise UsageError(f"explain: no finding {finding_id} in {places}: name the report that has it with --report")
    row, audit, source, steps = found
    if settings.format == "json":
        code = CATALOGUE.get(row["code"])
        print_result(render_object({"finding": dict(row), "audit": dict(audit), "code": code and asdict(code)}))
    else:
        print_result(render_finding(row, audit, source, steps, stdout_colour()))
    return 0


#: A finding, its audit, where it was found, and the steps of the plan that are about its partition.
_Found = tuple[Mapping[str, Any], Mapping[str, Any], str, Sequence[Mapping[str, Any]]]


def _from_report(finding_id: str, settings: Settings) -> _Found | None:
    path = os.path.join(local_path(settings.report) or settings.report, "audit.json")
    if not os.path.isfile(path):
        return None
    try:
        with open(path, encoding="utf-8") as stream:
            content = json.load(stream)
        rows, audit = content["findings"], content["audit"]
        row = next((row for row in rows if row["finding_id"] == finding_id), None)
        # Reports of earlier versions have no steps.
        return None if row is None else (row, audit, path, _steps_of(row, content.get("steps", ())))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError(f"explain: {path}: expected the audit.json of a run ({error})") from error


def _from_warehouse(finding_id: str, settings: Settings) -> _Found | None:
    """Of the latest audit of a warehouse in files; a catalog is not asked, as that would start Spark."""
    place = local_path(settings.warehouse)
    if settings.catalog is not None or (place is not None and not os.path.isdir(place)):
        return None
    from replica_audit.warehouse.answer_tables import load_results
    from replica_audit.warehouse.delta_tables import Warehouse

    try:
        results = load_results(Warehouse(settings.warehouse), None, settings.fail_on)
    except UsageError:
        return None
    source = settings.warehouse
    row = next((row for row in results.rows("findings") if row["finding_id"] == finding_id), None)
    if row is None:
        return None
    from replica_audit.elect.election_plan import advise
    from replica_audit.elect.plan_model import plan_object

    return row, results.audit, source, _steps_of(row, plan_object(advise(results))["steps"])


def _steps_of(row: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The steps that are about the finding's partition."""
    place = {"topic": row["topic"], "partition": row["partition"]}
    return [step for step in steps if place in step["partitions"]]
