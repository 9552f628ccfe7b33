"""How many Spark jobs ingest and audit start: a few more for each kind of input that most snapshots lack.

That each starts one for any other, and no query, is in test_submit.py.
"""

from __future__ import annotations

import json
import shutil

import pytest
from tests.support.captures_with_more import with_logs
from tests.support.fixtures import ATTACKS, FIXTURES
from tests.support.spread import spread_everything

from replica_audit.config import Settings
from replica_audit.runner.in_process import audit_all

TIMELINE = ATTACKS / "07-timeline" / "first-hw-unknown"


@pytest.mark.parametrize(
    ("make", "greatest"),
    [
        (lambda directory: FIXTURES / "txn-failover-1-unclean", 6),
        (lambda directory: FIXTURES / "txn-failover-2-healed", 6),
        (lambda directory: with_logs("kip101-restart-3-lost", directory), 6),
        (lambda directory: TIMELINE, 12),
    ],
    ids=["transactions", "transactions healed", "broker logs", "observations"],
)
def test_no_kind_of_input_costs_many_jobs(spark, run_stages, tmp_path, make, greatest):
    scheduler = spark.sparkContext._jsc.sc().dagScheduler()
    before = scheduler.numTotalJobs()
    audited = run_stages(make(tmp_path), warehouse=str(tmp_path / "warehouse"))
    assert audited.results.rows("partitions")
    assert 2 <= scheduler.numTotalJobs() - before <= greatest


def test_of_many_replicas_a_job_more_reads_the_directories(spark, run_stages, tmp_path, monkeypatch):
    path = shutil.copytree(
        FIXTURES / "last-replica-elr-2-cut", tmp_path / "snapshot", ignore=lambda _, names: {"dump"} & {*names}
    )
    spread_everything(monkeypatch)
    scheduler = spark.sparkContext._jsc.sc().dagScheduler()
    before = scheduler.numTotalJobs()
    found = run_stages(path, warehouse=str(tmp_path / "warehouse")).results
    assert scheduler.numTotalJobs() - before == 3
    shown = audit_all(str(path), Settings())
    assert json.dumps(found.rows("replicas")) == json.dumps(shown.rows("replicas"))
    assert json.dumps(found.rows("findings")) == json.dumps(shown.rows("findings"))
