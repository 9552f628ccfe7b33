"""The report directory: whole files only, also when the answer is bad."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.report_rows import REPORT_FILES, finding, partition, results

from replica_audit.auditing.known_findings import Earlier, earlier_of
from replica_audit.cli.failure import write_failure
from replica_audit.report.report_files import write_report
from replica_audit.report.verdict_object import build_failure
from replica_audit.report.whole_files import write_file


def test_a_report_has_every_file_and_no_temporary_one(tmp_path: Path) -> None:
    directory = tmp_path / "new" / "report"
    write_report(results([partition(verdict="COMMITTED_LOSS")]), str(directory), "high")
    assert sorted(path.name for path in directory.iterdir()) == list(REPORT_FILES)
    assert json.loads((directory / "verdict.json").read_text())["partitions"]["COMMITTED_LOSS"] == 1
    assert json.loads((directory / "audit.json").read_text())["partitions"][0]["verdict"] == "COMMITTED_LOSS"


def test_a_failure_replaces_the_verdict_of_the_run_before(tmp_path: Path) -> None:
    write_report(results(), str(tmp_path), "high")
    write_failure(build_failure(4, "high", "no Java"), str(tmp_path))
    verdict = json.loads((tmp_path / "verdict.json").read_text())
    assert (verdict["status"], verdict["exit_status"], verdict["audit_id"]) == ("UNKNOWN", 4, None)
    assert "replica_audit_exit_status 4" in (tmp_path / "metrics.prom").read_text().splitlines()


def test_a_file_that_could_not_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    target = tmp_path / "audit.json"
    target.write_text("old")

    def texts() -> Iterator[str]:
        yield "half of "
        raise ValueError

    with pytest.raises(ValueError):
        write_file(str(target), texts())
    assert target.read_text() == "old" and list(tmp_path.iterdir()) == [target]


def test_the_page_compares_with_the_earlier_audit_that_it_is_given(tmp_path: Path) -> None:
    def written(verdict: str, finding_id: str, earlier: Earlier | None) -> str:
        found = results([partition(verdict=verdict)], [finding("REP-LAG", "info", finding_id=finding_id)])
        write_report(found, str(tmp_path), "high", earlier)
        assert json.loads((tmp_path / "audit.json").read_text())["findings"][0]["status"] == "new"
        return " ".join((tmp_path / "index.html").read_text(encoding="utf-8").split())

    assert "Nothing to compare with" in written("LAGGING", "a", None)
    earlier = earlier_of(json.loads((tmp_path / "audit.json").read_text()))
    page = written("CONSISTENT", "b", earlier)
    assert (
        "0 worse, 1 better" in page and "0 known, 1 resolved" in page and "compared with 2026-01-02 03:04 UTC" in page
    )
