"""Large partitions on Spark: compared in pieces by a third job they have the answers that they have in one task."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.auditing.scenario import Broker, audit
from tests.formats.captures import FIXTURES
from tests.spark.conftest import SILENT
from tests.spark.planted import marked_batch, moved

#: Chunks are 65,536 offsets each.
_STEP, _PARTED, _END = 1000, 100_000, 400_000


def _diverged(path):
    """Two logs of seven chunks that part in the second."""
    usual, other = marked_batch(0, _STEP), marked_batch(0, _STEP, leader_epoch=1, mark=b"-other")
    leader = [moved(usual, start) for start in range(0, _PARTED, _STEP)]
    leader += [moved(other, start) for start in range(_PARTED, _END, _STEP)]
    follower = [moved(usual, start) for start in range(0, _END + 30 * _STEP, _STEP)]
    audit(path, {1: Broker(leader), 2: Broker(follower)}, configs={"cleanup.policy": "delete"})
    return path


@pytest.mark.parametrize(
    ("make", "runs"), [(_diverged, 1), (lambda _: FIXTURES / "txn-failover-1-unclean", 4)], ids=["long", "transactions"]
)
def test_a_third_job_has_the_answers_of_one_task(spark, run_stages, tmp_path, make, runs):
    from replica_audit.spark.pipeline import run_audit

    audited = run_stages(make(tmp_path / "snapshot"), warehouse=str(tmp_path / "warehouse"))
    scheduler = spark.sparkContext._jsc.sc().dagScheduler()
    jobs = [scheduler.numTotalJobs()]
    for settings in (audited.settings, replace(audited.settings, piece_batches=1)):
        again = run_audit(spark, audited.snapshot_id, settings, SILENT)
        jobs.append(scheduler.numTotalJobs())
        assert again.tables == audited.results.tables
    assert jobs[2] - jobs[1] == jobs[1] - jobs[0] + 1
    assert len(audited.results.rows("divergences")) >= runs
