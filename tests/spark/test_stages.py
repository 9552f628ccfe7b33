"""The stages in a session: what they write is there for Spark and in a catalog; tests/warehouse has them as transactions."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest
from tests.support.audit_json_text import audit_json_text
from tests.support.in_process import without_run
from tests.support.planted import CLUSTER_ID, FAR, UNLED, write_far, write_leadership
from tests.support.stored_rows import stored

from replica_audit.bronze_tables import BRONZE_TABLES
from replica_audit.config import Settings
from replica_audit.errors import UsageError
from replica_audit.model import TopicPartition
from replica_audit.progress import Progress
from replica_audit.runner.in_process import audit_one
from replica_audit.schema import REPORT_TABLES, AttemptRow
from replica_audit.spark import pipeline
from replica_audit.spark.catalogs import open_warehouse
from replica_audit.warehouse.answer_tables import load_results
from replica_audit.warehouse.delta_tables import Warehouse


@pytest.fixture(scope="module")
def warehouse(settings):
    return Warehouse(settings.warehouse)


def test_a_program_is_warned_of_a_store_that_may_lose_commits(monkeypatch):
    monkeypatch.setattr(pipeline, "loses_commits", lambda place: True)
    monkeypatch.setattr(pipeline, "open_warehouse", lambda *_: None)
    monkeypatch.setattr(pipeline, "ingest", lambda *_: "an id")
    with pytest.warns(UserWarning, match="no conditional puts"):
        assert pipeline.run_ingest(None, "snapshot", Settings(), Progress()) == "an id"


def test_batches_at_offsets_that_no_floating_point_number_has_are_found(run_stages, tmp_path):
    audited = run_stages(write_far(tmp_path / "snapshot"))
    (row,) = audited.results.rows("divergences")
    assert (row["start_offset"], row["end_offset"], row["record_count"]) == (FAR + 10, FAR + 15, 5)
    assert audited.results.rows("divergences") == audit_one(
        str(audited.path), TopicPartition("far", 0), audited.settings
    ).rows("divergences")


def test_a_topic_pattern_and_a_leadership_file(run_stages, planted, tmp_path):
    (inferred,) = [row for row in planted.results.rows("high_watermarks") if row["topic"] == UNLED]
    assert inferred["leadership_source"] == "inferred" and inferred["isr"] is None
    leadership = str(write_leadership(tmp_path / "leadership.json"))
    chosen = run_stages(planted.path, topics=("unl*",), leadership=leadership)
    assert chosen.snapshot_id != planted.snapshot_id
    (mark,) = chosen.results.rows("high_watermarks")
    assert [mark[name] for name in ("topic", "leadership_source", "leader_id", "leader_epoch", "isr")] == [
        UNLED, "user", 2, 7, [1, 2],
    ]  # fmt: skip
    assert {row["topic"] for row in chosen.results.rows("replicas")} == {UNLED}


def test_a_pattern_that_matches_nothing_is_told(spark, planted):
    from replica_audit.spark.pipeline import run_ingest

    with pytest.raises(UsageError, match=r"Upper\* matches no topic .*topics there: .*UPPER"):
        run_ingest(spark, str(planted.path), replace(planted.settings, topics=("Upper*",)), Progress())


def test_tables_in_a_catalog_hold_the_same(spark, sample):
    from replica_audit.spark.pipeline import run_audit, run_ingest

    spark.sql("CREATE SCHEMA IF NOT EXISTS audits_of_kafka")
    try:
        own = Settings(catalog="spark_catalog.audits_of_kafka")
        snapshot_id = run_ingest(spark, str(sample.path), own, Progress())
        results = run_audit(spark, snapshot_id, own, Progress())
        assert without_run(results) == without_run(sample.results)
        assert audit_json_text(load_results(open_warehouse(spark, own), None, "high")) == audit_json_text(results)
        tables = {row.tableName for row in spark.sql("SHOW TABLES IN spark_catalog.audits_of_kafka").collect()}
        assert {"audits", "batches", "findings", "partitions"} <= tables
        spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        scheduler = spark.sparkContext._jsc.sc().dagScheduler()
        before = scheduler.numTotalJobs()
        assert open_warehouse(spark, own).exists("findings")
        assert scheduler.numTotalJobs() - before <= 1, "its log is not replayed for the number of its files"
    finally:
        spark.sql("DROP SCHEMA audits_of_kafka CASCADE")


def test_what_is_not_a_delta_table_is_refused_in_a_catalog(spark):
    spark.sql("CREATE SCHEMA IF NOT EXISTS of_others")
    try:
        spark.sql("CREATE TABLE of_others.findings (code string) USING parquet")
        spark.sql("CREATE VIEW of_others.partitions AS SELECT 1 AS partition")
        warehouse = open_warehouse(spark, Settings(catalog="spark_catalog.of_others"))
        for table in ("findings", "partitions"):
            with pytest.raises(UsageError, match=f"spark_catalog.of_others.{table} is not a Delta table"):
                warehouse.exists(table)
        assert not warehouse.exists("replicas")
    finally:
        spark.sql("DROP SCHEMA of_others CASCADE")


@pytest.mark.parametrize(("feature", "is_refused"), [("catalogManaged", True), ("vacuumProtocolCheck", False)])
def test_a_table_whose_catalog_manages_commits_is_refused(feature, is_refused, tmp_path):
    """As Spark describes such a table; a session's own catalog makes none."""
    described = {
        "location": "string",
        "# Detailed Table Information": "",
        "Location": f"file:{tmp_path}",
        "Provider": "delta",
        "Table Properties": f"[delta.feature.{feature}=supported,delta.minReaderVersion=3]",
    }
    rows = [{"col_name": name, "data_type": value} for name, value in described.items()]
    session = SimpleNamespace(sql=lambda statement: SimpleNamespace(collect=lambda: rows))
    warehouse = open_warehouse(session, Settings(catalog="unity.audits"))
    with pytest.raises(UsageError, match="its catalog manages commits") if is_refused else nullcontext():
        assert not warehouse.exists("findings")


def test_spark_sees_tables_with_the_columns_of_the_contract_ids_first(spark, sample, warehouse):
    def seen(table):
        return spark.read.format("delta").load(warehouse.directory(table)).columns

    # The optional ones are there when a snapshot of the run has such files.
    optional = {"replica_progress", "broker_log_events"}
    for table in [table for table in BRONZE_TABLES if table not in optional or warehouse.exists(table)]:
        names = seen(table)
        assert names == ["cluster_id", "snapshot_id", "ingest_id", *(column.name for column in BRONZE_TABLES[table])], (
            table
        )
    for table, columns in REPORT_TABLES.items():
        if table not in BRONZE_TABLES and warehouse.exists(table):
            ids = ["cluster_id", "snapshot_id", "audit_id"]
            assert seen(table) == [*ids, *(column.name for column in columns)], table
    assert seen("audits") == list(AttemptRow._fields)


def test_what_a_batch_does_not_have_is_null_and_spark_counts_right(spark, planted, warehouse):
    batches = spark.read.format("delta").load(warehouse.directory("batches"))
    batches = batches.where(f"snapshot_id = '{planted.snapshot_id}'")
    assert batches.count() == len(stored(warehouse, "batches", ("topic",), snapshot_id=planted.snapshot_id))
    absent = ("producer_id", "producer_epoch", "base_sequence")
    counted = (f"count({name}) {name}" for name in absent)
    row = batches.selectExpr("count(*) n", *counted, "min(leader_epoch) least").first()
    assert row["n"] > 0 and row["least"] == 0
    assert [row[name] for name in absent] == [0, 0, 0]
    assert batches.select("cluster_id").distinct().collect()[0][0] == CLUSTER_ID
