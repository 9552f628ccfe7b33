"""Text on quality, and the effect of a baseline on it."""

from __future__ import annotations

import json

from tests.support.report_rows import results, row

from replica_audit.auditing.known_findings import compare_quality, parse_baseline
from replica_audit.report.facts.verdict import build_quality, build_verdict, count_quality
from replica_audit.report.quality_text import render_failed, render_quality, render_quality_line
from replica_audit.report.verdict_object import render_status_line
from replica_audit.schema import QualityRow


def answer(name="few", severity="high", success=False, **values):
    defaults = {"suite": "own", "table": "replicas", "expectation": "expect_x", "status": None if success else "new"}
    values = {**defaults, "unexpected_count": 1, "element_count": 3, "failing": ["orders-0: lag 5"], **values}
    return QualityRow(**row("quality", name=name, severity=severity, success=success, **values))


def failed(severity="high", **values):
    return results(
        quality=[answer(severity=severity, **values), answer("met", success=True, unexpected_count=0, failing=[])]
    )


def test_a_failed_expectation_raises_the_exit_status_at_its_severity():
    verdict = build_verdict(failed("high"), "high")
    assert (verdict["exit_status"], verdict["status"]) == (1, "CRITICAL")
    assert render_status_line(verdict).endswith("no findings; 1 quality expectation failed")
    assert build_verdict(failed("medium"), "high")["status"] == "WARNING"
    for severity, status, exit_status in (("high", "CRITICAL", 1), ("medium", "WARNING", 0), ("low", "OK", 0)):
        quality = build_quality(failed(severity), "high")
        assert (quality["status"], quality["exit_status"]) == (status, exit_status)
    assert build_verdict(failed("medium"), "never")["exit_status"] == 0
    assert build_verdict(results(), "high")["quality"] is None


def test_what_could_not_be_looked_at_is_not_trusted():
    broken = failed(error="no such column", status=None)
    verdict = build_verdict(broken, "high")
    assert (verdict["exit_status"], verdict["untrusted"]) == (3, "1 quality expectation not looked at")
    assert build_quality(broken, "high")["exit_status"] == 3
    assert "no such column" in render_quality(broken)


def test_expectations_on_findings_are_not_told_twice():
    verdict = build_verdict(failed(suite="findings"), "high")
    assert verdict["exit_status"] == 1 and "quality" not in render_status_line(verdict)
    assert render_failed(failed(suite="findings")) == ""
    assert "own/few" in render_failed(failed())


def test_quality_line_counts_by_severity():
    assert render_quality_line(build_quality(failed(), "high")) == "CRITICAL: 2 expectations; failed: 1 high"
    assert count_quality(failed())["failed"]["high"] == 1


def baseline(**values):
    content = {"schema_version": 1, "findings": [], "quality": [answer(**values)._asdict()]}
    return parse_baseline(json.dumps(content), "audit.json").quality


def test_a_failure_is_known_while_it_is_of_the_same_rows():
    (same,) = compare_quality([answer()], baseline())
    assert same.status == "known"
    assert build_verdict(results(quality=[same]), "high")["exit_status"] == 0
    for now in (answer(failing=["orders-0: lag 6"]), answer(unexpected_count=2), answer("other")):
        (row_now,) = compare_quality([now], baseline())
        assert row_now.status == "new", now
    (met,) = compare_quality([answer(success=True)], baseline())
    assert met.status is None
    (came,) = compare_quality([answer()], baseline(success=True))
    assert came.status == "new"


def test_a_baseline_of_a_version_without_quality_knows_nothing():
    assert parse_baseline('{"schema_version": 1, "findings": []}', "audit.json").quality == []
