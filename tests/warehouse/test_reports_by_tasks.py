"""The report of a large audit whose tasks read the rows again: every file is what one process writes, and few bytes come to it."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.cloned_capture import clone_capture
from tests.support.fixtures import FIXTURES
from tests.support.in_process import Ran, run_stages
from tests.support.long_logs import write_long_logs
from tests.support.spread import Pickling, name_of

from replica_audit import show
from replica_audit.auditing import detailed_partitions
from replica_audit.auditing.known_findings import read_baseline
from replica_audit.config import Settings
from replica_audit.elect.election_plan import advise
from replica_audit.progress import Progress
from replica_audit.report import audit_lines
from replica_audit.report.report_files import write_report
from replica_audit.report.whole_files import LINES
from replica_audit.results import Results
from replica_audit.runner.executor import InProcess
from replica_audit.runner.ingest import ingest
from replica_audit.runner.ingested_source import audit
from replica_audit.warehouse import answer_parts, left_parts, table_reads
from replica_audit.warehouse.answer_tables import load_results
from replica_audit.warehouse.delta_tables import Warehouse
from replica_audit.warehouse.retention import apply_retention


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detailed_partitions, "WHOLE", 1)
    monkeypatch.setattr(detailed_partitions, "DETAILED", 2)
    monkeypatch.setattr(detailed_partitions, "NAMED", 1)
    monkeypatch.setattr(answer_parts, "STRETCH", 2)


@pytest.fixture
def ran(written_by_tasks: Ran, tmp_path: Path) -> Ran:
    """A copy of the warehouse, in which parts of files may be left."""
    copy = Warehouse(str(shutil.copytree(written_by_tasks.warehouse.name, tmp_path / "warehouse")))
    return replace(written_by_tasks, warehouse=copy)


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
    tasks = -(-partitions // 2)
    read, *completed = [(job.work, job.tasks) for job in executor.jobs]
    assert read == ("_draft", tasks), "each row is read by one job"
    assert completed == ([("_complete", tasks)] if advise(results).decisions else [])
    assert not parts_left(ran)


def test_two_attempts_of_a_task_write_a_line_once_and_leave_nothing(ran: Ran, tmp_path: Path) -> None:
    results = by_tasks(ran, Pickling(attempts=2))
    write_report(results, str(tmp_path / "report"), "high")
    lines = gzip.decompress((tmp_path / "report" / LINES).read_bytes()).splitlines()
    assert len(lines) == 1 + len(results.partitions)
    assert not parts_left(ran)


class _Broken(Pickling):
    """Fails with the last task of one of the jobs that leave lines."""

    def __init__(self, work: str) -> None:
        super().__init__()
        self._work = work

    def map(self, tasks: Any, work: Any, ended: Any = None) -> Any:
        if name_of(work) != self._work:
            return super().map(tasks, work, ended)
        super().map(tasks[:-1], work, ended)
        raise RuntimeError("a task failed four times")


class _Refusing:
    """A store of which some rights are missing."""

    def __init__(self, filesystem: Any, refused: Sequence[str], all_parts: bool) -> None:
        self._filesystem, self._refused = filesystem, refused
        self._left = 1 << 30 if all_parts else 1

    def __getattr__(self, name: str) -> Any:
        if name in self._refused and self._left:
            self._left -= 1
            raise OSError(f"AWS Error ACCESS_DENIED during {name}")
        return getattr(self._filesystem, name)


def refuse(monkeypatch: pytest.MonkeyPatch, *refused: str, all_parts: bool = True) -> None:
    """Refuse some calls for parts of files that tasks leave; of each run only the first, unless those of `all_parts`."""
    opened = left_parts.open_directory
    monkeypatch.setattr(
        left_parts,
        "open_directory",
        lambda place: (_Refusing(opened(place)[0], refused, all_parts), opened(place)[1]),
    )


@pytest.mark.parametrize("work", ["_draft", "_complete"])
def test_a_job_that_fails_leaves_nothing(work: str, ran: Ran, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="four times"):
        write_report(by_tasks(ran, _Broken(work)), str(tmp_path / "report"), "high")
    assert not parts_left(ran)


def test_a_report_is_whole_where_nothing_can_be_deleted(
    ran: Ran, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = report_of(load_results(ran.warehouse, None, "high"), tmp_path / "report")
    refuse(monkeypatch, "delete_file")
    with pytest.warns(UserWarning, match="could not be deleted .*ACCESS_DENIED during delete_file"):
        assert report_of(by_tasks(ran, Pickling()), tmp_path / "report") == expected
    assert len(parts_left(ran)) == 6, "of three parts the lines without decisions, and with them"


def test_parts_after_one_that_cannot_be_deleted_are_deleted(
    ran: Ran, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch, "delete_file", all_parts=False)
    told: list[str] = []
    write_report(by_tasks(ran, Pickling()), str(tmp_path / "report"), "high", tell=told.append)
    assert len(told) == len(parts_left(ran)) == 1
    (run,) = {part.name.partition("-")[0] for part in parts_left(ran)}
    assert told[0].endswith(run)


@pytest.mark.parametrize("refused", ["delete_file", "get_file_info"])
def test_what_cannot_be_deleted_does_not_hide_why_a_job_failed(
    refused: str, ran: Ran, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch, refused)
    told: list[str] = []
    with pytest.raises(RuntimeError, match="four times"):
        write_report(by_tasks(ran, _Broken("_draft")), str(tmp_path / "report"), "high", tell=told.append)
    assert len(told) == 1


def test_one_process_writes_the_lines_where_tasks_cannot_leave_any(
    ran: Ran, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = load_results(ran.warehouse, None, "high")
    write_report(whole, str(tmp_path / "before"), "high")
    known = read_baseline(Settings(baseline=str(tmp_path / "before" / LINES)))
    for compare in (lambda results: results, known.compare):
        expected = report_of(compare(whole), tmp_path / "report")
        with monkeypatch.context() as patch, pytest.warns(UserWarning, match="ACCESS_DENIED during open_output_stream"):
            refuse(patch, "open_output_stream")
            assert report_of(compare(by_tasks(ran, Pickling())), tmp_path / "report") == expected
        assert not parts_left(ran)


def test_parts_of_a_killed_run_are_deleted_when_they_are_a_day_old(ran: Ran, tmp_path: Path) -> None:
    old, young = (left_parts.LeftParts(ran.warehouse.directory("partitions")).leave([b"lines"]) for _ in range(2))
    for name, hours in ((old, 25), (young, 23)):
        os.utime(Path(ran.warehouse.name, "partitions", name), (time.time() - hours * 3600,) * 2)
    before = {path for path in Path(ran.warehouse.name).rglob("*.parquet")}
    apply_retention(ran.warehouse, None, None)
    assert len(parts_left(ran)) == 2
    apply_retention(ran.warehouse, None, None, vacuum=True)
    assert [part.name for part in parts_left(ran)] == [young]
    assert before <= set(Path(ran.warehouse.name).rglob("*.parquet"))


def test_lines_of_one_process_are_packed_one_by_one_and_nothing_is_pickled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = show(str(FIXTURES / "diverged-multi")).results
    assert whole.stored is None
    rendered: list[str] = []
    texts = audit_lines.texts_by_place
    monkeypatch.setattr(audit_lines, "STRETCH", 1)
    monkeypatch.setattr(
        audit_lines, "texts_by_place", lambda name, *given: (rendered.append(name), texts(name, *given))[1]
    )
    monkeypatch.setattr(audit_lines, "pickle", None)
    counts: list[int] = []
    write = audit_lines.write_file
    monkeypatch.setattr(
        audit_lines,
        "write_file",
        lambda path, pieces: write(path, (counts.append(rendered.count("partitions")) or piece for piece in pieces)),
    )
    write_report(whole, str(tmp_path / "report"), "high")
    assert sorted(set(counts)) == list(range(1 + len(whole.partitions)))
    lines = gzip.decompress((tmp_path / "report" / LINES).read_bytes()).splitlines()
    assert len(lines) == 1 + len(whole.partitions)


def test_tasks_compare_with_a_baseline(ran: Ran, tmp_path: Path) -> None:
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


def test_a_report_after_the_end_of_the_session_is_written_by_one_process(ran: Ran, tmp_path: Path) -> None:
    executor = Pickling()
    results = by_tasks(ran, executor)
    executor.is_apart = False
    expected = report_of(load_results(ran.warehouse, None, "high"), tmp_path / "report")
    assert report_of(results, tmp_path / "report") == expected
    assert not executor.jobs


def test_of_a_further_partition_costs_and_conditions_come_back_and_decisions_are_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lines themselves go through files."""
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
        jobs = {job.work: job for job in executor.jobs}
        found, completed = jobs["_draft"], jobs["_complete"]
        assert completed.got / completed.tasks < 250, "a name for each task"
        assert (completed.sent - found.sent) / len(results.partitions) < 150, "decisions, packed"
        came.append((len(results.partitions), found.got, len(text)))
    (few, *less), (many, *more) = came
    found_each, written = ((after - before) / (many - few) for before, after in zip(less, more))
    assert written > 5000 and found_each < 1400, "costs and conditions"


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
        snapshot_id = ingest(InProcess(), warehouse, str(place / "snapshot"), settings, Progress())
        results = audit(_EachByItself(), warehouse, snapshot_id, settings, Progress())
        assert results.stored is not None
        opened.clear()
        write_report(results, str(place / "report"), "high")
        counts.append(len(opened))
    assert 0 < counts[1] <= 2.2 * counts[0]
