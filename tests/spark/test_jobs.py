"""How many Spark jobs a run starts: two, and a few more for each kind of input that most snapshots lack."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.support.captures_with_more import with_logs
from tests.support.fixtures import ATTACKS, FIXTURES
from tests.support.quality_checks import built_in
from tests.support.samples import SAMPLES
from tests.support.spread import spread_everything

from replica_audit.config import Settings
from replica_audit.runner.in_process import audit_all

ROOT = Path(__file__).parents[2]
TIMELINE = ATTACKS / "07-timeline" / "first-hw-unknown"

_RUN = "import sys; from replica_audit.cli.main import main; sys.exit(main())"


@pytest.mark.spark
def test_a_run_with_quality_checks_starts_two_jobs_and_no_query(tmp_path):
    events = tmp_path / "events"
    events.mkdir()
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
    }
    (tmp_path / "audit.yaml").write_text(json.dumps({"spark": settings}))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("REPLICA_AUDIT_")}
    ran = subprocess.run(
        [sys.executable, "-c", _RUN, "run", str(SAMPLES / "last-replica-standing"), "--config", str(tmp_path / "audit.yaml")],
        cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert ran.returncode == 1, ran.stderr
    assert len(json.loads((tmp_path / "replica-audit-report" / "audit.json").read_text())["quality"]) == built_in()
    logs = [path for path in events.rglob("*") if path.is_file() and path.stat().st_size and path.name[0] != "."]
    found = Counter(json.loads(line)["Event"] for path in logs for line in path.read_text().splitlines())
    assert found["SparkListenerApplicationEnd"] == 1
    assert found["SparkListenerJobStart"] == 2
    assert not [event for event in found if "sql" in event], found


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
