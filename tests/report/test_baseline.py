"""Findings against a baseline."""

from __future__ import annotations

import json

import pytest
from tests.support.audit_json_text import audit_json_text
from tests.support.report_rows import finding, results

from replica_audit.auditing.known_findings import (
    Earlier,
    compare_findings,
    parse_baseline,
    parse_earlier,
    parse_finding,
    parse_quality_baseline,
)
from replica_audit.errors import UsageError

EVIDENCE = ("kind", "broker_id", "path", "position", "value", "text")
KNOWN = finding("HWM-LOSS", "critical", finding_id="1")
WAS_KNOWN = parse_finding(KNOWN)
OTHER_TOPIC = finding("LOG-GAP", "medium", "payments", 3, finding_id="2")
NEW = finding("DIV-HIDDEN", "critical", finding_id="3")
IS_NEW = parse_finding(NEW)


def _statuses(rows: list) -> dict[str, str]:
    return {row.finding_id: row.status for row in rows}


def test_what_the_baseline_has_is_known_and_the_rest_is_new() -> None:
    assert _statuses(compare_findings([WAS_KNOWN, IS_NEW], [WAS_KNOWN], {("orders", 0)})) == {"1": "known", "3": "new"}


def test_a_finding_of_a_partition_that_was_not_audited_is_not_resolved() -> None:
    assert _statuses(compare_findings([], [WAS_KNOWN, parse_finding(OTHER_TOPIC)], {("orders", 0)})) == {
        "1": "resolved"
    }


def test_comparing_twice_changes_nothing() -> None:
    once = compare_findings([IS_NEW], [WAS_KNOWN], {("orders", 0)})
    assert compare_findings(once, [WAS_KNOWN], {("orders", 0)}) == once


def test_an_empty_baseline_leaves_everything_new() -> None:
    assert _statuses(compare_findings([IS_NEW], [], {("orders", 0)})) == {"3": "new"}


def test_the_baseline_is_an_audit_json_without_what_was_resolved_then() -> None:
    text = audit_json_text(results(findings=[KNOWN, {**NEW, "status": "resolved"}]))
    assert parse_baseline(text, "audit.json") == [WAS_KNOWN]


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "[]",
            "{}",
            '{"schema_version": 2, "findings": []}',
            '{"schema_version": 1, "findings": [{"code": "X"}]}',
        ),
        *("[" * 60_000, "1" * 5000, '{"schema_version": 1, "findings": [], "x": "\\ud800"}'),
    ],
)
def test_another_file_is_refused_by_its_name(text: str) -> None:
    with pytest.raises(UsageError, match=r"baseline old\.json"):
        parse_baseline(text, "old.json")


ODD = {
    "finding_id": (None, 5, {}),
    "topic": (["a"], {"a": 1}, 7),
    "partition": ({}, "0", True),
    "start_offset": (2**63, "1"),
    "severity": (None, "worst", []),
    "message": (None, 1),
    "status": (None, {}),
    "evidence": ("x", {}, [1], [{"kind": "a"}], [{**dict.fromkeys(EVIDENCE), "position": "x"}]),
}


@pytest.mark.parametrize(("column", "value"), [(name, value) for name, values in ODD.items() for value in values])
def test_a_baseline_row_with_an_odd_value_is_refused(column: str, value: object) -> None:
    text = json.dumps({"schema_version": 1, "findings": [{**KNOWN, column: value}]})
    with pytest.raises(UsageError, match=r"findings\[0\]"):
        parse_baseline(text, "old.json")


def test_what_else_is_odd_in_a_baseline_is_as_if_it_were_not_there() -> None:
    rows = [[], 1, {"suite": []}, {"unexpected_count": "x"}, {"failing": 5}, {"success": 1}, {"suite": "a", "new": []}]
    text = json.dumps({"audit": {"audit_id": 5, "finished": []}, "partitions": 3, "findings": [[]], "quality": rows})
    (kept,) = parse_quality_baseline(text)
    assert kept.suite == "a" and set(kept[1:]) == {None}
    assert parse_earlier(text) == Earlier(None, None, {}, {})
