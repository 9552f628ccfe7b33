"""The data source: its rows are those that an ingest writes, it reads only what was asked for, and says what is wrong."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.support.fixtures import FIXTURES
from tests.support.stored_rows import stored

import replica_audit
from replica_audit.bronze_tables import BRONZE_TABLES
from replica_audit.config import Settings
from replica_audit.errors import UsageError
from replica_audit.progress import Progress
from replica_audit.runner.executor import InProcess
from replica_audit.runner.ingest import ingest
from replica_audit.segments.record_batch import BATCH_DTYPE
from replica_audit.spark.kafka_log import FORMAT, KafkaLogSource, parse_options
from replica_audit.spark.record_rows import wanted_batches
from replica_audit.spark.row_filters import Condition, may_match
from replica_audit.warehouse.attempts import latest_attempt, own_rows
from replica_audit.warehouse.delta_tables import Warehouse

#: Sound and damaged logs, old formats, two log dirs of a broker, and every source of leadership.
CAPTURES = (
    "healthy",
    "corrupted-batch-length-huge",
    "diverged-unclean",
    "jbod-moving",
    "kip101-restart-3-lost",
    "old-formats",
)

TABLES = {
    "batches": "batches",
    "epochs": "leader_epochs",
    "checkpoints": "offset_checkpoints",
    "leadership": "partition_states",
}


def told(rows) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


@pytest.mark.parametrize("capture", CAPTURES)
def test_rows_are_those_of_the_tables(spark, tmp_path, capture):
    """Of an ingest in this process: that tasks of Spark ingest the same is in test_as_shown.py."""
    path, warehouse = str(FIXTURES / capture), Warehouse(str(tmp_path / "warehouse"))
    snapshot_id = ingest(InProcess(), warehouse, path, Settings(), Progress())
    attempt = own_rows(latest_attempt(warehouse, "ingest", snapshot_id=snapshot_id))
    for rows, table in TABLES.items():
        found = spark.read.format(FORMAT).option("rows", rows).load(path).collect()
        names = [column.name for column in BRONZE_TABLES[table]]
        assert told(row.asDict(True) for row in found) == told(stored(warehouse, table, names, **attempt)), rows


def test_the_functions_of_the_package_read_what_is_chosen(spark):
    path = str(FIXTURES / "diverged-unclean")
    batches = replica_audit.read_batches(spark, path)
    assert batches.columns == [column.name for column in BRONZE_TABLES["batches"]]
    places = {(row.topic, row.broker_id) for row in batches.select("topic", "broker_id").distinct().collect()}
    (topic, broker_id) = sorted(places)[0]
    chosen = replica_audit.read_batches(
        spark, path, topics=[topic], brokers=[broker_id], columns=["base_offset", "broker_id"]
    )
    assert chosen.columns == ["base_offset", "broker_id"]
    expected = batches.where((batches.topic == topic) & (batches.broker_id == broker_id)).select(
        "base_offset", "broker_id"
    )
    assert sorted(chosen.collect()) == sorted(expected.collect()) != []
    states = replica_audit.read_metadata_log(spark, path)
    assert states.count() > 0 and {row.source for row in states.select("source").distinct().collect()} == {
        "metadata_log"
    }


def test_filters_are_pushed_down_where_spark_does_that(spark):
    path = str(FIXTURES / "diverged-unclean")
    batches = spark.read.format(FORMAT).load(path)
    everything = batches.collect()
    one = everything[len(everything) // 2]
    where = (
        f"topic = '{one.topic}' AND broker_id IN ({one.broker_id}) AND base_offset >= {one.base_offset} AND size > 0"
    )
    expected = sorted(
        row
        for row in everything
        if (row.topic, row.broker_id) == (one.topic, one.broker_id) and row.base_offset >= one.base_offset
    )
    assert sorted(batches.where(where).collect()) == expected
    if spark.version < "4.1":
        return
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        filtered = spark.read.format(FORMAT).load(path).where(where)
        assert sorted(filtered.collect()) == expected
        plan = filtered._jdf.queryExecution().executedPlan().toString()
        # What is left for Spark to look at; the rest of the condition the reader has taken.
        assert "> 0)" in plan and ">=" not in plan and one.topic not in plan, plan
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "give its directory to load"),
        ({"path": "x", "rows": "bathces"}, "rows is 'bathces', expected batches, "),
        ({"path": "x", "topics": "a"}, "no option topics; did you mean topic?"),
        ({"path": "x", "partition": "one"}, "partition is 'one', expected whole numbers"),
        ({"path": "x", "payloads": "true"}, "payloads is 'true' with rows=batches"),
        ({"path": "x", "unreadable": "no"}, "unreadable is 'no', expected fail or skip"),
    ],
)
def test_wrong_options_are_told(options, said):
    with pytest.raises(UsageError, match=said):
        KafkaLogSource(options).schema()


def test_files_that_cannot_match_are_left_out():
    conditions = parse_options({"path": "x", "partition": "0, 2", "Broker": "1"}).conditions
    assert may_match(conditions, {"partition": 2, "broker_id": 1, "topic": "t"})
    assert not may_match(conditions, {"partition": 1, "broker_id": 1})
    assert not may_match([Condition("partition", "LessThan", 5)], {"partition": None})


@pytest.mark.parametrize("capture", ["old-formats", "corrupted-flip-payload", "healthy"])
def test_records_are_those_of_the_batches_and_a_problem_where_they_cannot_be_read(spark, capture):
    path = str(FIXTURES / capture)
    records = replica_audit.read_records(spark, path)
    assert not {"key", "value", "headers"} & set(records.columns), "content only where it is asked for"
    batches = replica_audit.read_batches(spark, path).collect()
    counts = dict(records.where("problem IS NULL").groupBy("broker_id", "topic", "partition").count().rdd.map(
        lambda row: ((row[0], row[1], row[2]), row[3])).collect())  # fmt: skip
    expected: dict = {}
    for batch in batches:
        if batch.crc_valid:
            place = (batch.broker_id, batch.topic, batch.partition)
            expected[place] = expected.get(place, 0) + batch.record_count
    assert counts == {place: count for place, count in expected.items() if count}
    problems = records.where("problem IS NOT NULL").collect()
    assert len(problems) >= sum(not batch.crc_valid for batch in batches)
    assert all(row.offset is None and row.batch_base_offset is not None for row in problems if "batch" in row.problem)
    if capture == "healthy":
        one = replica_audit.read_records(spark, path, payloads=True).where("key_size > 0").first()
        assert (len(one.key), len(one.value), len(one.headers)) == (one.key_size, one.value_size, one.header_count)
        assert problems == []


def test_batches_outside_the_offsets_that_are_asked_for_are_not_decoded():
    batches = np.zeros(3, BATCH_DTYPE)
    batches["base_offset"], batches["last_offset"] = [0, 10, 20], [9, 19, 29]

    def wanted(kind, value):
        return wanted_batches(batches, [Condition("offset", kind, value), Condition("topic", "EqualTo", "t")]).tolist()

    assert wanted("EqualTo", 10) == [False, True, False]
    assert wanted("In", (9, 29, None)) == [True, False, True]
    assert wanted("GreaterThan", 19) == [False, False, True]
    assert wanted("GreaterThanOrEqual", 19) == [False, True, True]
    assert wanted("LessThan", 10) == [True, False, False]
    assert wanted("LessThanOrEqual", 10) == [True, True, False]
