"""Audits in the warehouse over time: history, the run behind each row, and retention."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest
from tests.support.fixtures import FIXTURES
from tests.support.in_process import run_stages
from tests.support.report_rows import attempt
from tests.support.stored_rows import stored

from replica_audit.config import Settings
from replica_audit.errors import UsageError
from replica_audit.progress import Progress
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.warehouse.answer_tables import load_results
from replica_audit.warehouse.attempts import attempts
from replica_audit.warehouse.past_audits import load_earlier, load_history
from replica_audit.warehouse.retention import apply_retention

SAMPLES = Path(__file__).parents[2] / "data" / "samples"
DAY = "2026-01-{:02d}T00:00:00.000Z"


@pytest.fixture(scope="module")
def past(tmp_path_factory):
    """A warehouse with two audits of one sample and then one of another: (settings, warehouse, audit ids)."""
    settings = Settings(warehouse=str(tmp_path_factory.mktemp("past") / "warehouse"), quiet=True, time_travel_days=90)
    runs = [
        run_stages(SAMPLES / sample, Path(settings.warehouse), time_travel_days=90)
        for sample in ("last-replica-standing", "last-replica-standing", "isr-minimum")
    ]
    return settings, runs[0].warehouse, [run.results.audit["audit_id"] for run in runs]


def test_every_audit_is_kept_and_told(spark, past):
    _, warehouse, ids = past
    history = load_history(warehouse)
    assert [audit.audit_id for audit in history.audits] == ids
    assert [audit.verdict for audit in history.audits] == ["COMMITTED_LOSS", "COMMITTED_LOSS", "LAGGING"]
    assert [audit.new for audit in history.audits][:2] == [4, 0]
    loss = [row for row in history.findings if row.code == "HWM-LOSS"]
    assert [(row.first_audit_id, row.last_audit_id, row.audits) for row in loss] == [(ids[0], ids[1], 2)]
    latest = load_history(warehouse, limit=1)
    assert [audit.audit_id for audit in latest.audits] == ids[-1:]
    assert not load_history(warehouse, ("none*",)).findings


def test_an_audit_is_compared_with_the_one_before_of_its_cluster(spark, past):
    _, warehouse, ids = past
    first, second, other = (load_results(warehouse, audit_id, "high") for audit_id in ids)
    earlier = load_earlier(warehouse, second.audit)
    assert earlier.audit_id == ids[0] and earlier.finished == first.audit["finished"]
    assert earlier.verdicts == {("orders", 0): "COMMITTED_LOSS"}
    assert earlier.finding_ids == {("orders", 0): {row["finding_id"] for row in first.rows("findings")}}
    assert load_earlier(warehouse, first.audit) is None
    assert other.audit["cluster_id"] != first.audit["cluster_id"] and load_earlier(warehouse, other.audit) is None
    unnamed = {**second.audit, "cluster_id": None}
    assert load_earlier(warehouse, unnamed) is None, "it may be another cluster"


def test_commits_and_versions_tie_rows_to_their_run(spark, past):
    settings, warehouse, ids = past
    runs = {run.audit_id: run for run in attempts(warehouse, "audit")}
    path = f"{settings.warehouse}/findings"
    commits = [json.loads(row["userMetadata"]) for row in spark.sql(f"DESCRIBE HISTORY delta.`{path}`").collect()]
    # The first run has a commit more: that which made the table.
    assert list(dict.fromkeys(commit["audit_id"] for commit in reversed(commits))) == ids
    assert len(commits) == len(ids) + 1
    assert {commit["stage"] for commit in commits} == {"audit"} and all(
        commit["tool"].startswith("replica-audit ") for commit in commits
    )
    for audit_id in ids:
        version = runs[audit_id].table_versions["findings"]
        then = spark.read.format("delta").option("versionAsOf", version).load(path)
        known = {row[0] for row in then.select("audit_id").distinct().collect()}
        assert known == set(ids[: ids.index(audit_id) + 1])
    audits = spark.sql(f"DESCRIBE HISTORY delta.`{settings.warehouse}/audits`").collect()
    assert {json.loads(row["userMetadata"])["stage"] for row in audits} == {"ingest", "audit"}
    batches = spark.sql(f"DESCRIBE HISTORY delta.`{settings.warehouse}/batches`").collect()
    assert len({json.loads(row["userMetadata"]).get("snapshot_id") for row in batches} - {None}) == 2


def test_the_period_of_time_travel_is_that_of_the_settings(spark, past):
    settings, _, _ = past
    for table in ("findings", "batches", "audits"):
        row = spark.sql(f"DESCRIBE DETAIL delta.`{settings.warehouse}/{table}`").first()
        assert row["properties"]["delta.logRetentionDuration"] == "interval 90 days", table
        assert row["properties"]["delta.deletedFileRetentionDuration"] == "interval 90 days", table


def runs(*clusters):
    return [
        attempt(audit_id=str(number), cluster_id=cluster, finished=DAY.format(number + 1))
        for number, cluster in enumerate(clusters)
    ]


@pytest.mark.parametrize(
    ("days", "count", "expired"),
    [
        (None, None, []),
        (None, 2, ["1", "0"]),
        (5, None, ["4", "1", "0"]),
        (30, None, []),
        (1, 1, ["4", "1", "0"]),
        (None, 9, []),
    ],
)
def test_which_audits_expire_by_age_and_by_number(days, count, expired):
    """Cluster c on days 1, 2, 5 and 10, cluster d on day 3: the latest of each always stays."""
    from replica_audit.warehouse.retention import expired_audits

    rows = [run for run in runs("c", "c", "d", "-", "c", "-", "-", "-", "-", "c") if run.cluster_id != "-"]
    today = datetime(2026, 1, 10, 12, tzinfo=timezone.utc)
    found = expired_audits(rows, days, count, today)
    assert found == expired
    rows[0] = rows[0]._replace(state="failed")
    assert "0" not in expired_audits(rows, days, count, today)


def test_retention_removes_audits_whole_and_snapshots_that_no_audit_needs(spark, past, tmp_path):
    """On a copy of the warehouse, since it is the other tests' too."""
    import shutil

    from replica_audit.spark.pipeline import run_ingest
    from replica_audit.warehouse.delta_tables import Warehouse

    settings, _, ids = past
    own = replace(settings, warehouse=str(shutil.copytree(settings.warehouse, tmp_path / "warehouse")))
    warehouse = Warehouse(own.warehouse)
    before = {run.snapshot_id for run in attempts(warehouse, "audit")}
    clusters = {run.cluster_id for run in attempts(warehouse, "audit")}
    removed, snapshots = apply_retention(warehouse, None, 1)
    assert removed == ([ids[0]] if len(clusters) == 2 else ids[:2][::-1])
    left = [audit_id for audit_id in ids if audit_id not in removed]
    assert [audit.audit_id for audit in load_history(warehouse).audits] == left
    for table in ("findings", "partitions", "replicas", "truncations"):
        assert not {row["audit_id"] for row in stored(warehouse, table, ("audit_id",))} & set(removed)
    assert {row["snapshot_id"] for row in stored(warehouse, "batches", ("snapshot_id",))} == before - set(snapshots)
    assert {run.state for run in attempts(warehouse, "audit")} == {"finished"}
    with pytest.raises(UsageError, match="no finished audit"):
        load_results(warehouse, removed[0], "high")
    assert load_results(warehouse, left[-1], "high").rows("partitions")
    last = spark.sql(f"DESCRIBE HISTORY delta.`{own.warehouse}/findings`").collect()
    assert "retention" in {json.loads(row["userMetadata"] or "{}").get("stage") for row in last}
    assert apply_retention(warehouse, None, 1) == ([], [])
    assert run_ingest(spark, str(SAMPLES / "last-replica-standing"), own, Progress()), "what is gone can come back"


def test_vacuum_sets_the_period_and_keeps_what_is_in_it(spark, past, tmp_path):
    import shutil

    from replica_audit.warehouse.delta_tables import Warehouse

    settings, _, ids = past
    place = str(shutil.copytree(settings.warehouse, tmp_path / "warehouse"))
    warehouse = Warehouse(place, time_travel_days=30)
    warehouse.delete("findings", "audit_id", ids[:1])
    warehouse.vacuum("findings")
    warehouse.vacuum("verifications")
    row = spark.sql(f"DESCRIBE DETAIL delta.`{place}/findings`").first()
    assert row["properties"]["delta.deletedFileRetentionDuration"] == "interval 30 days"
    then = spark.read.format("delta").option("versionAsOf", 1).load(f"{place}/findings")
    assert then.where(f"audit_id = '{ids[0]}'").count() == 4


def test_a_removal_that_was_interrupted_is_finished_by_the_next(spark, past, tmp_path, monkeypatch):
    import shutil

    from replica_audit.warehouse.delta_tables import Warehouse

    settings, _, ids = past
    own = replace(settings, warehouse=str(shutil.copytree(settings.warehouse, tmp_path / "warehouse")))
    with monkeypatch.context() as patch:
        patch.setattr(Warehouse, "delete", lambda *arguments: (_ for _ in ()).throw(OSError("no space left")))
        with pytest.raises(OSError, match="no space"):
            apply_retention(Warehouse(own.warehouse), None, 1)
    assert ids[0] not in {audit.audit_id for audit in load_history(Warehouse(own.warehouse)).audits}
    assert ids[0] in apply_retention(Warehouse(own.warehouse), None, None)[0]
    assert stored(Warehouse(own.warehouse), "findings", audit_id=ids[0]) == []


def test_records_that_an_earlier_audit_saw_and_nobody_holds_now_are_told_once(tmp_path):
    """The pair of captures before and after the old leader followed the new one, and the audit after that."""
    found = []
    for name in ("diverged-unclean", "diverged-healed", "diverged-healed"):
        results = run_stages(FIXTURES / name, tmp_path / "warehouse", topics=("ledger",)).results
        rows = [row for row in results.rows("findings") if row["code"] == "HWM-GONE"]
        verdicts = {row["verdict"] for row in results.rows("partitions")}
        found.append((rows, verdicts, build_verdict(results, "high")["exit_status"], results.audit["audit_id"]))
    (before, _, _, first), (once, verdicts, status, _), (again, after, quiet, _) = found
    assert not before and verdicts == {"COMMITTED_LOSS"} and status == 1
    assert {row["partition"] for row in once} == {0, 1, 2} and {row["status"] for row in once} == {"new"}
    assert all(first in row["evidence"][0]["text"] for row in once)
    assert [row["finding_id"] for row in again] == [row["finding_id"] for row in once]
    assert {row["status"] for row in again} == {"known"} and after == {"CONSISTENT"} and quiet == 0
