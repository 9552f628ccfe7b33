"""Large reports on Spark have the answers that they have on the driver."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.planted import marked_batch, moved
from tests.support.scanned import FIXTURES
from tests.support.scenario import audit
from tests.support.snapshots import Replica

from replica_audit.auditing import detailed_partitions
from replica_audit.progress import Progress
from replica_audit.report.report_files import write_report
from replica_audit.report.whole_files import LINES
from replica_audit.warehouse import answer_parts
from replica_audit.warehouse.answer_tables import load_results
from replica_audit.warehouse.delta_tables import Warehouse

#: Chunks are 65,536 offsets each.
_STEP, _PARTED, _END = 1000, 100_000, 400_000


def _diverged(path):
    """Two logs of seven chunks that part in the second."""
    usual, other = marked_batch(0, _STEP), marked_batch(0, _STEP, leader_epoch=1, mark=b"-other")
    leader = [moved(usual, start) for start in range(0, _PARTED, _STEP)]
    leader += [moved(other, start) for start in range(_PARTED, _END, _STEP)]
    follower = [moved(usual, start) for start in range(0, _END + 30 * _STEP, _STEP)]
    audit(path, {1: Replica(leader), 2: Replica(follower)}, configs={"cleanup.policy": "delete"})
    return path


@pytest.mark.parametrize(
    ("make", "runs"), [(_diverged, 1), (lambda _: FIXTURES / "txn-failover-1-unclean", 4)], ids=["long", "transactions"]
)
def test_where_rows_are_written_changes_no_answer(spark, run_stages, tmp_path, make, runs):
    """Tasks write the report's tables themselves: with the same answers, and in as many jobs."""
    from replica_audit.schema import REPORT_TABLES
    from replica_audit.spark.pipeline import run_audit

    audited = run_stages(make(tmp_path / "snapshot"), warehouse=str(tmp_path / "warehouse"))
    scheduler = spark.sparkContext._jsc.sc().dagScheduler()
    jobs = []
    for bounds in ({}, {"driver_rows": 1}):
        settings = replace(audited.settings, **bounds)
        before = scheduler.numTotalJobs()
        again = run_audit(spark, audited.snapshot_id, settings, Progress())
        jobs.append(scheduler.numTotalJobs() - before)
        loaded = load_results(Warehouse(settings.warehouse), again.audit["audit_id"], "high")
        for results in (again, loaded):
            for table in REPORT_TABLES:
                assert results.rows(table) == audited.results.rows(table), (bounds, table)
    assert jobs[0] == jobs[1]
    assert len(audited.results.rows("divergences")) >= runs
    commit = max(Path(settings.warehouse, "partitions", "_delta_log").glob("*.json"))
    added = [line["add"]["stats"] for line in map(json.loads, commit.read_text().splitlines()) if "add" in line]
    assert all(json.loads(one).keys() == {"numRecords"} for one in added) and added, "tasks wrote them"


def test_tasks_write_the_lines_of_a_large_audit(spark, run_stages, tmp_path, monkeypatch):
    """In two jobs, however many partitions there are; and once the session has ended, in this process."""
    from replica_audit.spark.tasks import SparkExecutor

    for name in ("WHOLE", "DETAILED", "NAMED"):
        monkeypatch.setattr(detailed_partitions, name, 1)
    monkeypatch.setattr(answer_parts, "STRETCH", 2)
    place = str(tmp_path / "warehouse")
    audited = run_stages(FIXTURES / "diverged-multi", warehouse=place, driver_rows=1)
    assert audited.results.stored is not None
    scheduler = spark.sparkContext._jsc.sc().dagScheduler()
    before = scheduler.numTotalJobs()
    write_report(audited.results, str(tmp_path / "report"), "high")
    assert scheduler.numTotalJobs() - before == 2
    lines = (tmp_path / "report" / LINES).read_bytes()
    assert not list(Path(place, "partitions").glob("*.part"))
    write_report(load_results(Warehouse(place), None, "high"), str(tmp_path / "report"), "high")
    assert (tmp_path / "report" / LINES).read_bytes() == lines
    monkeypatch.setattr(SparkExecutor, "is_apart", False)
    write_report(audited.results, str(tmp_path / "report"), "high")
    assert scheduler.numTotalJobs() - before == 2
    assert (tmp_path / "report" / LINES).read_bytes() == lines
