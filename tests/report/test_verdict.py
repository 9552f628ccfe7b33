"""verdict.json and the status line."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.report_rows import finding, partition, results, row

from replica_audit.config import FAIL_LEVELS
from replica_audit.literals import SEVERITIES, VERDICTS
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.report.verdict_object import build_failure, render_status_line
from replica_audit.results import Results


@pytest.mark.parametrize("level", FAIL_LEVELS)
@pytest.mark.parametrize("severity", SEVERITIES)
def test_a_finding_fails_the_run_exactly_when_it_is_at_or_above_the_level(level: str, severity: str) -> None:
    verdict = build_verdict(results(findings=[finding("LOG-GAP", severity)]), level)
    fails = level != "never" and SEVERITIES.index(severity) <= SEVERITIES.index(level)
    assert verdict["exit_status"] == (1 if fails else 0)
    expected = "CRITICAL" if fails else "WARNING" if severity in ("critical", "high", "medium") else "OK"
    assert verdict["status"] == expected


def test_an_audit_without_findings_is_ok() -> None:
    verdict = build_verdict(results(), "info")
    assert (verdict["status"], verdict["exit_status"], verdict["verdict"]) == ("OK", 0, "CONSISTENT")
    assert verdict["findings"] == dict.fromkeys(SEVERITIES, 0)
    assert verdict["partitions"] == {**dict.fromkeys(VERDICTS, 0), "CONSISTENT": 1}


UNREADABLE = {code: results(findings=[finding(code, "high")]) for code in ("CAP-UNREADABLE", "CHK-MALFORMED")}
UNDECIDED = results([partition(verdict="INCONCLUSIVE"), partition(number=1)])


def quarantined(code: str) -> Results:
    return results(quarantine=[row("quarantine", path="x", code=code, reason="it is so")])


@pytest.mark.parametrize(
    ("found", "level", "status", "exit_status"),
    [
        (results(partitions=[]), "high", "UNKNOWN", 3),
        *((UNDECIDED, level, "UNKNOWN", 3) for level in FAIL_LEVELS),
        # A failing finding goes before mistrust.
        *((one, level, "UNKNOWN", 3) for one in UNREADABLE.values() for level in ("critical", "never")),
        *((one, "high", "CRITICAL", 1) for one in UNREADABLE.values()),
        # Without a finding the quarantine tells; a bad range in a log that can be read is a finding and no mistrust.
        (quarantined("CAP-UNREADABLE"), "high", "UNKNOWN", 3),
        (quarantined("LOG-CORRUPT-MID"), "high", "OK", 0),
    ],
)
def test_what_is_not_trusted(found: Results, level: str, status: str, exit_status: int) -> None:
    verdict = build_verdict(found, level)
    assert (verdict["status"], verdict["exit_status"]) == (status, exit_status)


def test_known_and_resolved_findings_are_counted_apart() -> None:
    rows = [finding("HWM-LOSS", "critical", status=status) for status in ("known", "known", "resolved")]
    verdict = build_verdict(results(findings=rows), "info")
    assert (verdict["exit_status"], verdict["known_findings"], verdict["resolved_findings"]) == (0, 2, 1)


def test_the_worst_verdict_is_the_audits() -> None:
    rows = [
        partition(number=n, verdict=verdict) for n, verdict in enumerate(("LAGGING", "COMMITTED_LOSS", "CONSISTENT"))
    ]
    assert build_verdict(results(rows), "high")["verdict"] == "COMMITTED_LOSS"


def test_the_status_line_counts() -> None:
    rows = [finding("HWM-LOSS", "critical"), finding("REP-LAG", "info")]
    line = render_status_line(build_verdict(results([partition(verdict="COMMITTED_LOSS")], rows), "high"))
    assert line == "CRITICAL: 1 partition, COMMITTED_LOSS; findings: 1 critical, 1 info"


def test_the_status_line_of_a_failure_is_one_line_that_says_why() -> None:
    line = render_status_line(build_failure(4, "high", "Java is missing\ninstall Java 17"))
    assert line.startswith("UNKNOWN: ") and line.endswith("Java is missing install Java 17") and "\n" not in line


def test_a_failure_has_every_key_of_a_verdict() -> None:
    assert list(build_failure(3, "low", "why")) == list(build_verdict(results(), "low"))


def test_the_audit_may_be_worse_than_its_partitions() -> None:
    found = results()
    found = replace(found, audit={**found.audit, "verdict": "INCONCLUSIVE"})
    assert build_verdict(found, "high")["verdict"] == "INCONCLUSIVE"
