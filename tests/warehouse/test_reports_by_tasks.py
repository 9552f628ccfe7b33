"""The report of a large audit whose tasks read the rows again: every file is what one process writes, and few bytes come to it."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.support.cloned_capture import clone_capture
from tests.support.fixtures import FIXTURES
from tests.support.in_process import Ran, run_stages
from tests.support.long_logs import write_long_logs
from tests.support.spread import Pickling

from replica_audit.auditing import detailed_partitions
from replica_audit.auditing.known_findings import read_baseline
from replica_audit.auditing.opened_snapshot import Unseen
from replica_audit.config import Settings
from replica_audit.report.report_files import write_report
from replica_audit.report.whole_files import LINES
from replica_audit.results import Results
from replica_audit.runner.executor import InProcess
from replica_audit.runner.ingest import ingest
from replica_audit.runner.ingested_source import audit
from replica_audit.warehouse import answer_parts, table_reads
from replica_audit.warehouse.answer_tables import load_results
from replica_audit.warehouse.delta_tables import Warehouse


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detailed_partitions, "WHOLE", 1)
    monkeypatch.setattr(detailed_partitions, "DETAILED", 2)
    monkeypatch.setattr(detailed_partitions, "NAMED", 1)
    monkeypatch.setattr(answer_parts, "STRETCH", 2)


def by_tasks(ran: Ran, executor: Pickling) -> Results:
    """The latest audit of a warehouse, as the stage has it that ran by `executor`."""
    return load_results(ran.warehouse, None, "high", executor)


def report_of(results: Results, directory: Path) -> dict[str, bytes]:
    """Its files; at one place, since metrics name it."""
    write_report(results, str(directory), "high")
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def parts_left(ran: Ran) -> list[Path]:
    return list(Path(ran.warehouse.name, "partitions").glob("*.part"))


@pytest.mark.parametrize("capture", ["diverged-multi", "last-replica-elr-2-cut", "live-copy", "txn-failover-1-unclean"])
def test_tasks_write_the_report_of_one_process(capture: str, tmp_path: Path) -> None:
    ran = run_stages(FIXTURES / capture, tmp_path / "warehouse", driver_rows=1)
    executor = Pickling()
    results = by_tasks(ran, executor)
    partitions = len(results.partitions)
    assert results.stored is not None and partitions > 1
    expected = report_of(load_results(ran.warehouse, None, "high"), tmp_path / "report")
    assert report_of(results, tmp_path / "report") == expected
    assert [tasks for tasks, _, _ in executor.jobs] == 3 * [-(-partitions // 2)], "costs, sums, lines"
    assert not parts_left(ran)


def test_two_attempts_of_a_task_write_a_line_once_and_what_the_first_left_is_vacuumed(tmp_path: Path) -> None:
    ran = run_stages(FIXTURES / "diverged-multi", tmp_path / "warehouse", driver_rows=1)
    results = by_tasks(ran, Pickling(attempts=2))
    write_report(results, str(tmp_path / "report"), "high")
    lines = gzip.decompress((tmp_path / "report" / LINES).read_bytes()).splitlines()
    assert len(lines) == 1 + len(results.partitions)
    assert len(parts_left(ran)) == -(-len(results.partitions) // 2)
    for part in parts_left(ran):
        os.utime(part, (0, 0))
    ran.warehouse.vacuum("partitions")
    assert not parts_left(ran)


def test_tasks_compare_with_a_baseline(tmp_path: Path) -> None:
    ran = run_stages(FIXTURES / "diverged-multi", tmp_path / "warehouse", driver_rows=1)
    whole = load_results(ran.warehouse, None, "high")
    write_report(whole, str(tmp_path / "before"), "high")
    text = gzip.decompress((tmp_path / "before" / LINES).read_bytes()).decode()
    for number, finding_id in enumerate(sorted({row.finding_id for row in whole.findings})[::3]):
        text = text.replace(finding_id, f"{number:016x}")
    (tmp_path / LINES).write_bytes(gzip.compress(text.encode()))
    known = read_baseline(Settings(baseline=str(tmp_path / LINES)))
    expected, found = (known.compare(one) for one in (whole, by_tasks(ran, Pickling())))
    assert {row.status for row in expected.findings} == {"new", "known", "resolved"}
    assert report_of(found, tmp_path / "report") == report_of(expected, tmp_path / "report")


def test_a_report_after_the_end_of_the_session_is_written_by_one_process(tmp_path: Path) -> None:
    ran = run_stages(FIXTURES / "diverged-multi", tmp_path / "warehouse", driver_rows=1)
    executor = Pickling()
    results = by_tasks(ran, executor)
    executor.is_apart = False
    expected = report_of(load_results(ran.warehouse, None, "high"), tmp_path / "report")
    assert report_of(results, tmp_path / "report") == expected
    assert not executor.jobs


def test_bytes_that_come_back_are_fewer_than_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines themselves go through files; what comes back of a further partition are its costs and conditions."""
    monkeypatch.setattr(answer_parts, "STRETCH", 12)
    came = []
    for copies in (2, 6):
        place = tmp_path / str(copies)
        clone_capture(FIXTURES / "elr-leaderless", place / "snapshot", copies)
        ran = run_stages(place / "snapshot", place / "warehouse", driver_rows=1)
        executor = Pickling()
        results = by_tasks(ran, executor)
        write_report(results, str(place / "report"), "high")
        text = gzip.decompress((place / "report" / LINES).read_bytes())
        costs, sums, lines = executor.jobs
        came.append((len(results.partitions), costs[2], sums[2], lines[2] / lines[0], lines[1] / lines[0], len(text)))
    (few, *less), (many, *more) = came
    costs, sums, left, given, written = ((after - before) / (many - few) for before, after in zip(less, more))
    assert written > 5000 and costs < 400 and sums < 1000
    assert left < 1, "a name for each task"
    assert given < 400


def test_tasks_need_no_package_that_executors_lack() -> None:
    """Those of a cluster have numpy and pyarrow: nothing that writes a page or commits a table."""
    modules = ["report.audit_lines", "report.facts.conditions", "elect.cost_matrix", "auditing.known_findings"]
    imports = "; ".join(f"import replica_audit.{module}" for module in [*modules, "warehouse.answer_parts"])
    lacking = "{'deltalake', 'jinja2', 'pyspark', 'pandas', 'great_expectations', 'yaml'}"
    command = f"import sys; {imports}; print(sorted({lacking} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True).stdout == "[]\n"


class _EachByItself(Pickling):
    """A task of the audit for each partition."""

    def cut(self, items: Sequence[Any], cost: Callable[[Any], int], least: int) -> list[list[Any]]:
        return [[item] for item in items]


def test_twice_as_many_partitions_open_twice_as_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part is read from the files that have its partitions, not from those of all tasks."""
    opened: list[str] = []
    read = table_reads.read_file
    monkeypatch.setattr(table_reads, "read_file", lambda *given: (opened.append(given[1]), read(*given))[1])
    counts = []
    for partitions in (8, 16):
        place = tmp_path / str(partitions)
        write_long_logs(place / "snapshot", 1, partitions)
        warehouse, settings = Warehouse(str(place / "warehouse")), Settings(driver_rows=1)
        snapshot_id = ingest(InProcess(), warehouse, str(place / "snapshot"), settings, Unseen())
        results = audit(_EachByItself(), warehouse, snapshot_id, settings, Unseen())
        assert results.stored is not None
        opened.clear()
        write_report(results, str(place / "report"), "high")
        counts.append(len(opened))
    assert 0 < counts[1] <= 2.2 * counts[0]
