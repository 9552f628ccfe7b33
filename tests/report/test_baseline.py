"""Findings against a baseline."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from tests.support.audit_json_text import audit_json_text
from tests.support.held_objects import count_held, only_new_objects
from tests.support.report_rows import finding, results, row

from replica_audit.auditing import known_findings
from replica_audit.auditing.known_findings import (
    Earlier,
    compare_findings,
    earlier_of,
    parse_baseline,
    read_baseline,
)
from replica_audit.config import Settings
from replica_audit.errors import UsageError
from replica_audit.schema import Evidence, FindingRow, QualityRow
from replica_audit.typed_json import from_object

EVIDENCE = ("kind", "broker_id", "path", "position", "value", "text")
KNOWN = finding("HWM-LOSS", "critical", finding_id="1")
WAS_KNOWN = from_object(FindingRow, KNOWN)
OTHER_TOPIC = finding("LOG-GAP", "medium", "payments", 3, finding_id="2")
NEW = finding("DIV-HIDDEN", "critical", finding_id="3")
IS_NEW = from_object(FindingRow, NEW)


def _statuses(rows: list) -> dict[str, str]:
    return {row.finding_id: row.status for row in rows}


def test_what_the_baseline_has_is_known_and_the_rest_is_new() -> None:
    assert _statuses(compare_findings([WAS_KNOWN, IS_NEW], [WAS_KNOWN], {("orders", 0)})) == {"1": "known", "3": "new"}


def test_a_finding_of_a_partition_that_was_not_audited_is_not_resolved() -> None:
    assert _statuses(compare_findings([], [WAS_KNOWN, from_object(FindingRow, OTHER_TOPIC)], {("orders", 0)})) == {
        "1": "resolved"
    }


def test_comparing_twice_changes_nothing() -> None:
    once = compare_findings([IS_NEW], [WAS_KNOWN], {("orders", 0)})
    assert compare_findings(once, [WAS_KNOWN], {("orders", 0)}) == once


def test_an_empty_baseline_leaves_everything_new() -> None:
    assert _statuses(compare_findings([IS_NEW], [], {("orders", 0)})) == {"3": "new"}


def test_the_baseline_is_an_audit_json_without_what_was_resolved_then() -> None:
    text = audit_json_text(results(findings=[KNOWN, {**NEW, "status": "resolved"}]))
    assert parse_baseline(text, "audit.json").findings == [WAS_KNOWN]


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "[]",
            "{}",
            '{"schema_version": 2, "findings": []}',
            '{"schema_version": 1, "findings": [{"code": "X"}]}',
            '{"schema_version": 1, "findings": [], "quality": {}}',
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
    "evidence": ("x", {}, [1], [{"path": "a"}], [{**dict.fromkeys(EVIDENCE), "position": "x"}]),
}


@pytest.mark.parametrize(("column", "value"), [(name, value) for name, values in ODD.items() for value in values])
def test_a_baseline_row_with_an_odd_value_is_refused(column: str, value: object) -> None:
    text = json.dumps({"schema_version": 1, "findings": [{**KNOWN, column: value}]})
    with pytest.raises(UsageError, match=r"findings\[0\]"):
        parse_baseline(text, "old.json")


EXPECTATION = row("quality", **dict.fromkeys(("suite", "name", "table", "expectation"), "a"), severity="low")
ODD_QUALITY = ({"suite": []}, {"unexpected_count": "x"}, {"failing": 5}, {"success": 1}, {"severity": "worst"})


@pytest.mark.parametrize("odd", [[], 1, {}, *({**EXPECTATION, **values} for values in ODD_QUALITY)])
def test_a_malformed_quality_row_of_a_baseline_is_refused(odd: object) -> None:
    rows = [{**EXPECTATION, "new": []}, odd]
    with pytest.raises(UsageError, match=r"baseline old\.json: quality\[1\]"):
        parse_baseline(json.dumps({"schema_version": 1, "findings": [], "quality": rows}), "old.json")
    found = parse_baseline(json.dumps({"schema_version": 1, "findings": [], "quality": rows[:1]}), "old.json")
    assert found.quality == [from_object(QualityRow, EXPECTATION)]


def test_what_else_is_odd_in_a_baseline_is_as_if_it_were_not_there() -> None:
    content = {"audit": {"audit_id": 5, "finished": []}, "partitions": 3, "findings": [[]]}
    assert earlier_of(content) == Earlier(None, None, {}, {})


def _lines(path: Path, partitions: int) -> Path:
    """An audit.jsonl.gz with a finding of each partition."""
    lines: list[object] = [{"schema_version": 1, "audit": {"audit_id": "a1"}}]
    for number in range(partitions):
        row = {**KNOWN, "partition": number, "finding_id": f"{number:016x}"}
        judged = {"topic": "orders", "partition": number, "verdict": "COMMITTED_LOSS"}
        lines.append({"partitions": [judged], "findings": [row]})
    path.write_bytes(gzip.compress("".join(json.dumps(line) + "\n" for line in lines).encode()))
    return path


def test_of_a_baseline_of_many_partitions_findings_are_held_packed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are parsed some lines at a time, and a task gets the parts that may have its partitions."""
    monkeypatch.setattr(known_findings, "LINES_AT_ONCE", 3)
    monkeypatch.setattr(known_findings, "PACKED_TOGETHER", 4)
    texts, parse = [], known_findings.parse_baseline
    monkeypatch.setattr(known_findings, "parse_baseline", lambda text, path: (texts.append(text), parse(text, path))[1])
    for partitions in (7, 14):
        settings = Settings(baseline=str(_lines(tmp_path / f"{partitions}.jsonl.gz", partitions)))
        texts.clear()
        with only_new_objects():
            baseline = read_baseline(settings)
            assert count_held(FindingRow, Evidence) == 0
        assert max(len(json.loads(text)["findings"]) for text in texts) == 3
        assert baseline.findings is not None and baseline.earlier is not None
        assert [row.partition for row in baseline.findings] == [*range(partitions)]
        assert [row.partition for row in baseline.findings.around([("orders", 5)])] == [4, 5, 6, 7][: partitions - 4]
        assert [*baseline.findings.around([("payments", 5)])] == [*baseline.findings.around([])] == []
        assert baseline.earlier.audit_id == "a1"
        assert baseline.earlier.verdicts == dict.fromkeys((("orders", n) for n in range(partitions)), "COMMITTED_LOSS")
        assert baseline.earlier.finding_ids["orders", 6] == {f"{6:016x}"}


def test_a_line_that_is_no_finding_is_refused_with_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_findings, "LINES_AT_ONCE", 3)
    path = _lines(tmp_path / "old.jsonl.gz", 7)
    text = gzip.decompress(path.read_bytes()).decode().replace(f"{5:016x}", "5").replace('"5"', "5")
    path.write_bytes(gzip.compress(text.encode()))
    with pytest.raises(UsageError, match=r"old\.jsonl\.gz, from line 7 on: findings\[0\]"):
        read_baseline(Settings(baseline=str(path)))
    path.write_bytes(gzip.compress(b""))
    with pytest.raises(UsageError, match="expected an audit.json"):
        read_baseline(Settings(baseline=str(path)))
