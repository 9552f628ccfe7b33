"""The timeline on Spark is the pure one, whatever was observed; and `run` tells what `show` tells."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.support.observations import observed, random_observations, write_observations
from tests.support.stored_rows import stored

from replica_audit.auditing.leadership.timeline_deviations import ProgressRow, summary_from_text, timeline_of
from replica_audit.bronze_tables import BRONZE_TABLES
from replica_audit.model import TopicPartition
from replica_audit.protocol.high_watermark_rule import rule_of
from replica_audit.row_classes import ddl, to_dict
from replica_audit.runner.in_process import audit_one
from replica_audit.schema import REPORT_TABLES
from replica_audit.warehouse import answer_tables
from replica_audit.warehouse.delta_tables import Warehouse

PARTITIONS = 40
#: Brokers 3 and 4 of the sample have not caught up for long, so they hold nothing.
OUTSIDERS = {"min_insync_replicas": 1, "lag_time_ms": 30_000, "caught_up": {3: -(10**9), 4: -(10**9)}}
SAMPLE = Path(__file__).parents[2] / "data" / "samples" / "isr-minimum"


@pytest.fixture(scope="module")
def histories():
    return {partition: random_observations(partition, seed=partition) for partition in range(PARTITIONS)}


@pytest.fixture(scope="module")
def progress(spark, histories):
    columns = BRONZE_TABLES["replica_progress"]
    rows = [tuple(row.get(column.name) for column in columns) for of_one in histories.values() for row in of_one]
    return spark.createDataFrame(rows, ddl(columns)).repartition(7).persist()


@pytest.mark.parametrize("version", [None, (2, 6), (4, 3)])
def test_every_row_and_every_stretch_is_that_of_the_pure_rule(spark, histories, progress, version):
    from replica_audit.spark.timeline_job import recompute

    rule = rule_of(version)
    assigned = spark.createDataFrame(
        [("random", 1, 9), ("elsewhere", 0, 9)], "topic string, partition int, broker_id int"
    )
    found: dict[int, list[dict]] = {partition: [] for partition in histories}
    summaries = {}
    for row in recompute(progress, rule, assigned).collect():
        row = row.asDict(recursive=True)
        if (summary := row.pop("summary")) is not None:
            assert row["partition"] not in summaries
            summaries[row["partition"]] = summary_from_text(summary)
        found[row["partition"]].append(row)
    deviations = set()
    for partition, rows in histories.items():
        observed = [ProgressRow(*map(row.get, ProgressRow._fields)) for row in rows]
        expected, summary = timeline_of("random", partition, observed, rule, [9] if partition == 1 else [])
        for row, own in zip(found[partition], expected, strict=True):
            assert row == to_dict(own)
            deviations.add(own.deviation)
        assert summaries[partition] == summary
    assert deviations == {None, "ahead", "stuck", "regressed"}


def test_run_tells_what_show_tells(run_stages, spark, tmp_path):
    snapshot = tmp_path / "snapshot"
    shutil.copytree(SAMPLE, snapshot)
    marks = [
        (0, 20, 20, 20),
        (1000, 30, 25, 20),
        (2000, 31, 25, 20),
        (3000, 32, 25, 28),
        (4000, 33, 25, 24),
        (5000, 33, 26, 26),
    ]
    rows = [
        row
        for time, end, known, mark in marks
        for row in observed(time, {1: end, 2: known, 3: 0, 4: 0}, [1, 2], mark, leader=1, **OUTSIDERS)
    ]
    rows += observed(0, {1: 5, 2: 3, 3: 4}, [1, 2, 3], 3, leader=1, topic="elsewhere")
    path = write_observations(snapshot, rows)
    path.write_text(path.read_text() + "no row\n")
    audited = run_stages(snapshot)
    codes = {row["code"] for row in audited.results.rows("findings") if row["topic"] == "orders"}
    assert codes >= {"HWM-AHEAD", "HWM-STUCK", "HWM-REGRESSED"}
    for name in ("orders-0", "elsewhere-0"):
        place = TopicPartition.parse(name)
        shown = audit_one(str(snapshot), place, audited.settings)
        for table in ("high_watermark_timeline", "findings", "partitions"):
            of_run = [row for row in audited.results.rows(table) if row["topic"] == place.topic]
            assert json.loads(json.dumps(of_run)) == json.loads(json.dumps(shown.rows(table))), table
    assert len(audited.results.rows("high_watermark_timeline")) == 7
    (ignored,) = [row for row in audited.results.rows("quarantine")]
    assert ignored["code"] == "INPUT-IGNORED" and ignored["path"] == "replica_progress.jsonl"
    assert audited.results.audit["inputs"]["observations"] == 7
    audit_id = audited.results.audit["audit_id"]
    warehouse = Warehouse(audited.settings.warehouse)
    assert len(stored(warehouse, "high_watermark_timeline", audit_id=audit_id)) == 7
    loaded = answer_tables.load_results(warehouse, audit_id, "high")
    assert all(loaded.rows(table) == audited.results.rows(table) for table in REPORT_TABLES)


def test_of_a_long_timeline_those_that_deviate_are_reported_first(run_stages, monkeypatch, tmp_path):
    monkeypatch.setattr(answer_tables, "REPORTED_TIMELINE_ROWS", 5)
    snapshot = tmp_path / "snapshot"
    shutil.copytree(SAMPLE, snapshot)
    rows = [
        row
        for n in range(20)
        for row in observed(
            1000 * n, {1: 20 + n, 2: 20 + n, 3: 0, 4: 0}, [1, 2], 20 + n - (n > 17), leader=1, **OUTSIDERS
        )
    ]
    write_observations(snapshot, rows)
    audited = run_stages(snapshot)
    reported = audited.results.rows("high_watermark_timeline")
    assert [row["deviation"] for row in reported] == [None, None, None, "stuck", "stuck"]
    assert audited.results.audit["inputs"]["observations"] == 20
