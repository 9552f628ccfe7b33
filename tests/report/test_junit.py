"""junit.xml is read by a JUnit parser and says what fails under --fail-on."""

from __future__ import annotations

from pathlib import Path

import pytest
from junitparser import Error, Failure, JUnitXml, TestCase
from tests.support.report_rows import AUDIT, finding, partition, results, row

from replica_audit.report.facts.verdict import build_verdict
from replica_audit.report.junit import FINDING_LIMIT, render_junit
from replica_audit.results import Results


def cases(found: Results, directory: Path, fail_on: str = "high") -> dict[str, TestCase]:
    """Cases by name, read back from a file as a CI system does; the counts in the file must be those of its cases."""
    path = directory / "junit.xml"
    path.write_text(render_junit(found, build_verdict(found, fail_on)), encoding="utf-8")
    xml = JUnitXml.fromfile(str(path))
    written = (xml.tests, xml.failures, xml.errors, xml.skipped)
    xml.update_statistics()
    assert written == (xml.tests, xml.failures, xml.errors, xml.skipped)
    every = [case for suite in xml for case in suite]
    assert len({(case.classname, case.name) for case in every}) == len(every)
    return {case.name: case for case in every}


def kinds(case: TestCase) -> list[type]:
    return [type(outcome) for outcome in case.result]


def test_what_is_at_or_above_the_level_fails_its_partition_and_the_rest_is_told(tmp_path: Path) -> None:
    found = results(
        [partition("a", 0, "COMMITTED_LOSS"), partition("a", 1), partition("b", 0, "UNCOMMITTED_DIVERGENCE")],
        [
            finding("REP-LAG", "info", "a", 0),
            finding("HWM-LOSS", "critical", "a", 0, message="7 committed records"),
            finding("DIV-EPOCH", "medium", "b", 0),
        ],
    )
    by_name = cases(found, tmp_path)
    assert list(by_name) == ["input", "a-0", "a-1", "b-0"]
    (failure,) = by_name["a-0"].result
    assert isinstance(failure, Failure) and failure.type == "HWM-LOSS"
    assert failure.message == "COMMITTED_LOSS: 7 committed records" and "REP-LAG" not in failure.text
    assert "REP-LAG" in by_name["a-0"].system_out and "DIV-EPOCH" in by_name["b-0"].system_out
    assert kinds(by_name["a-1"]) == kinds(by_name["b-0"]) == []
    assert kinds(cases(found, tmp_path, "medium")["b-0"]) == [Failure]
    assert kinds(cases(found, tmp_path, "never")["a-0"]) == []


def test_what_a_partition_lost_is_told_in_its_case(tmp_path: Path) -> None:
    lost = {"lost_records": 9, "lost_committed": 7, "lost_at_most": False}
    found = results(
        [partition("a", 0, "COMMITTED_LOSS", **lost), partition("a", 1, lost_records=0, lost_committed=0)],
        [finding("HWM-LOSS", "critical", "a", 0)],
    )
    by_name = cases(found, tmp_path)
    (failure,) = by_name["a-0"].result
    assert failure.text.startswith("lost_records 9, lost_committed 7\n")
    assert not by_name["a-1"].system_out
    assert cases(found, tmp_path, "never")["a-0"].system_out.startswith("lost_records 9, lost_committed 7\n")


def test_known_findings_do_not_fail_and_resolved_ones_are_gone(tmp_path: Path) -> None:
    found = results(
        [partition("a", 0, "COMMITTED_LOSS")],
        [
            finding("HWM-LOSS", "critical", "a", 0, status="known"),
            finding("DIV-EPOCH", "critical", "a", 0, status="resolved"),
        ],
    )
    case = cases(found, tmp_path)["a-0"]
    assert kinds(case) == [] and "(known)" in case.system_out and "DIV-EPOCH" not in case.system_out


def test_an_inconclusive_partition_is_an_error_and_input_of_no_partition_has_its_case(tmp_path: Path) -> None:
    found = results(
        [partition("a", 0, "INCONCLUSIVE")],
        [finding("CAP-UNREADABLE", "high", None, None), finding("CAP-SKEW", "info", "a", 0)],
    )
    by_name = cases(found, tmp_path)
    assert kinds(by_name["a-0"]) == [Error] and "CAP-SKEW" in by_name["a-0"].result[0].text
    assert kinds(by_name["input"]) == [Failure]
    assert kinds(cases(Results(AUDIT), tmp_path)["input"]) == [Error]


@pytest.mark.parametrize("name", ['<a> & "b"', "]]>", "a\x00b\x1b\ufffe", "\udcff", "caf\u00e9"])
def test_names_and_messages_of_any_kind_are_text(name: str, tmp_path: Path) -> None:
    found = results([partition(name)], [finding("HWM-LOSS", "critical", name, 0, message=f"says {name}")])
    (case,) = [case for key, case in cases(found, tmp_path).items() if key != "input"]
    assert case.name.isprintable() and case.name.endswith("-0")
    assert case.result[0].message == f"CONSISTENT: says {case.name[:-2]}"


def test_a_partition_with_very_many_findings_tells_the_first(tmp_path: Path) -> None:
    found = results(
        [partition()], [finding("LOG-GAP", "high", start_offset=n, end_offset=n + 1) for n in range(FINDING_LIMIT + 5)]
    )
    assert "and 5 more" in cases(found, tmp_path)["orders-0"].result[0].text


def test_quality_expectations_are_cases_of_their_own(tmp_path: Path) -> None:
    def check(name: str, severity: str, **values: object) -> dict:
        return row(
            "quality", suite="s", name=name, severity=severity, expectation="e", description="CRC valid", **values
        )

    found = results(
        quality=[
            check("met", "high", success=True),
            check("unmet", "high", success=False, status="new", failing=["orders-0"]),
            check("known", "high", success=False, status="known"),
            check("low", "low", success=False, status="new"),
            check("error", "high", success=False, error="no such column"),
        ]
    )
    by_name = cases(found, tmp_path)
    assert [kinds(by_name[name]) for name in ("met", "unmet", "known", "low", "error")] == [
        [],
        [Failure],
        [],
        [],
        [Error],
    ]
    assert by_name["unmet"].result[0].text == "orders-0" and "CRC valid" in by_name["low"].system_out
