"""What was seen of a running cluster, in the stages: observations with their timeline, and brokers' own logs.

Both may be far larger than all else that is ingested, so files are read on the executors, part by part.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING

from replica_audit.auditing.evidence import LOG_EVENTS, TIMELINE
from replica_audit.formats.inventory import BrokerLogFile
from replica_audit.formats.progress import PROGRESS_SCHEMA, ProgressPart, plan_progress, read_progress
from replica_audit.formats.storage import Snapshot
from replica_audit.model import QuarantineRow
from replica_audit.protocol.high_watermark import Rule
from replica_audit.spark.timeline import recompute
from replica_audit.spark.warehouse import Warehouse
from replica_audit.tables import BRONZE_TABLES, REPORT_TABLES, ddl

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

PROGRESS, TIMELINE_TABLE = "replica_progress", "high_watermark_timeline"

#: Rows of the timeline in audit.json; of more, those that deviate go first. The Delta table has all of them.
REPORTED_ROWS = 100_000


def scan_progress(
    spark: SparkSession, snapshot: Snapshot, files: tuple[tuple[str, int], ...], topics: tuple[str, ...]
) -> DataFrame:
    """Rows of the bronze table `replica_progress`; one with a `problem` is what could not be used, as JSON."""
    planned = list(plan_progress(snapshot, files))
    schema = PROGRESS_SCHEMA

    def told(row: QuarantineRow) -> pa.RecordBatch:
        import pyarrow as pa

        nulls = [pa.nulls(1, field.type) for field in schema]
        return pa.RecordBatch.from_arrays(
            [*nulls, pa.array([json.dumps(asdict(row))])], names=[*schema.names, "problem"]
        )

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            for number in batch.column(0).to_pylist():
                part = planned[number]
                for item in read_progress(snapshot, part, topics) if isinstance(part, ProgressPart) else [part]:
                    if isinstance(item, QuarantineRow):
                        yield told(item)
                    else:
                        yield from item.append_column("problem", pa.nulls(item.num_rows, pa.string())).to_batches(
                            max_chunksize=65_536
                        )

    return spark.range(0, len(planned), 1, max(1, len(planned))).mapInArrow(read, ddl(BRONZE_TABLES[PROGRESS]))


def scan_broker_logs(spark: SparkSession, snapshot: Snapshot, files: tuple[BrokerLogFile, ...]) -> DataFrame:
    """Rows of the bronze table `broker_log_events`; one with a `problem` is a log that could not be read."""
    names = [column.name for column in BRONZE_TABLES[LOG_EVENTS]]

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        from replica_audit.formats.broker_logs import read_broker_log

        schema = _arrow_schema(LOG_EVENTS)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                items = read_broker_log(snapshot, files[number].path, files[number].broker_id)
                while rows := list(islice(items, 10_000)):
                    told = [
                        {"problem": json.dumps(asdict(one))} if isinstance(one, QuarantineRow) else asdict(one)
                        for one in rows
                    ]
                    yield pa.RecordBatch.from_pylist([{**dict.fromkeys(names), **row} for row in told], schema)

    return spark.range(0, len(files), 1, max(1, len(files))).mapInArrow(read, ddl(BRONZE_TABLES[LOG_EVENTS]))


def _arrow_schema(table: str) -> pa.Schema:
    import pyarrow as pa

    kinds = {
        "string": pa.string(),
        "bigint": pa.int64(),
        "int": pa.int32(),
        "boolean": pa.bool_(),
        "array<int>": pa.list_(pa.int32()),
    }
    return pa.schema([(column.name, kinds[column.type]) for column in BRONZE_TABLES[table]])


def log_evidence(warehouse: Warehouse, snapshot_id: str, evidence: DataFrame) -> DataFrame | None:
    """What brokers' own logs say of each partition that there is other `evidence` of; None where there are no logs."""
    from pyspark.sql import functions as F

    if not warehouse.exists(LOG_EVENTS):
        return None
    known = evidence.select("topic", "partition").distinct()
    rows = warehouse.read(LOG_EVENTS, snapshot_id=snapshot_id).join(known, ["topic", "partition"], "left_semi")
    names = [column.name for column in BRONZE_TABLES[LOG_EVENTS] if column.name != "problem"]
    payload = F.to_json(F.struct(*names), {"ignoreNullFields": "false"}).alias("payload")
    return rows.select(
        "topic",
        "partition",
        F.lit(LOG_EVENTS).alias("kind"),
        payload,
        "broker_id",
        F.lit(None).cast("string").alias("log_dir"),
    )


def problems_of(warehouse: Warehouse, table: str, snapshot_id: str) -> DataFrame:
    """What of the observations, or of the brokers' logs, could not be used, as rows of `quarantine`."""
    from pyspark.sql import functions as F

    rows = warehouse.read(table, snapshot_id=snapshot_id).where(F.col("problem").isNotNull())
    parsed = F.from_json("problem", ddl(BRONZE_TABLES["quarantine"])).alias("row")
    return rows.select("cluster_id", "snapshot_id", parsed).select("cluster_id", "snapshot_id", "row.*")


def observation_count(warehouse: Warehouse, snapshot_id: str) -> int:
    """Rows of `replica_progress` of a snapshot; 0 where nothing was observed."""
    return warehouse.read(PROGRESS, snapshot_id=snapshot_id).count() if warehouse.exists(PROGRESS) else 0


def write_timeline(
    warehouse: Warehouse, ids: Mapping[str, str | None], rule: Rule, keep: Callable[[DataFrame], DataFrame]
) -> DataFrame:
    """Recompute the timeline of every observed partition of a snapshot into its table; returns what the timeline of
    each partition comes to, as evidence. `keep` has a frame computed once only.
    """
    from pyspark.sql import functions as F

    snapshot_id = ids["snapshot_id"]
    progress = warehouse.read(PROGRESS, snapshot_id=snapshot_id).where(F.col("problem").isNull())
    timeline = keep(recompute(progress, rule, _assigned_replicas(warehouse, snapshot_id)))
    literals = [F.lit(value).cast("string").alias(name) for name, value in ids.items()]
    warehouse.append(TIMELINE_TABLE, timeline.drop("summary").select(*literals, "*"), "audit_id")
    place = F.lit(None).cast("int").alias("broker_id"), F.lit(None).cast("string").alias("log_dir")
    summaries = timeline.where(F.col("summary").isNotNull())
    return summaries.select(
        "topic", "partition", F.lit(TIMELINE).alias("kind"), F.col("summary").alias("payload"), *place
    )


def _assigned_replicas(warehouse: Warehouse, snapshot_id: str) -> DataFrame:
    """(topic, partition, broker_id) of every replica that states or directories name: `auditing.timeline.assigned_replicas`."""
    from pyspark.sql import functions as F

    states = warehouse.read("partition_states", snapshot_id=snapshot_id)
    states = states.select("topic", "partition", F.explode("replicas").alias("broker_id"))
    directories = warehouse.read("replica_dirs", snapshot_id=snapshot_id).select("topic", "partition", "broker_id")
    return states.unionByName(directories).distinct()


def timeline_answers(warehouse: Warehouse, audit_id: str) -> tuple[list[tuple[str, dict]], int]:
    """Rows of the timeline for audit.json, at most `REPORTED_ROWS`, and how many there are in all."""
    from pyspark.sql import functions as F

    if not warehouse.exists(TIMELINE_TABLE):
        return [], 0
    rows = warehouse.read(TIMELINE_TABLE, audit_id=audit_id)
    count = rows.count()
    if not count:
        return [], 0
    order = ["topic", "partition", "time_ms", "sequence"]
    if count > REPORTED_ROWS:
        order.insert(0, F.col("deviation").isNull())
    names = [column.name for column in REPORT_TABLES[TIMELINE_TABLE]]
    payload = F.to_json(F.struct(*names), {"ignoreNullFields": "false"}).alias("payload")
    # A limit after a sort keeps that many rows on each task, and no more on the driver.
    chosen = rows.orderBy(*order).limit(REPORTED_ROWS) if count > REPORTED_ROWS else rows
    return [(TIMELINE_TABLE, json.loads(row["payload"])) for row in chosen.select(payload).collect()], count
