"""What quality suites look at, as DataFrames: facts and answers, never batches again unless a suite names that table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from replica_audit.auditing.quality import SEGMENT_COUNTS, fact_rows, name_place
from replica_audit.results import Results
from replica_audit.spark.warehouse import Warehouse
from replica_audit.tables import BRONZE_TABLES, FACT_TABLES, REPORT_TABLES, Column, ddl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Of a segment's summary, what its counts are made of.
_SUMMARY_DDL = (
    "irregularity_counts map<string,bigint>, first_base_offset bigint, greatest_last_offset bigint, "
    "first_leader_epoch bigint, last_leader_epoch bigint"
)
_REPLICA = ("topic", "partition", "broker_id", "log_dir")


def segment_counts(warehouse: Warehouse, snapshot_id: str) -> list[dict[str, Any]]:
    """`SEGMENT_COUNTS` of every replica of a snapshot, out of the summaries of its segments; one small job."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    segments = warehouse.read("segments", snapshot_id=snapshot_id).select(
        *_REPLICA, "base_offset", F.from_json("summary", _SUMMARY_DDL).alias("found")
    )
    replica = Window.partitionBy(*_REPLICA).orderBy("base_offset")
    earlier = replica.rowsBetween(Window.unboundedPreceding, -1)
    end = F.coalesce(F.col("found.greatest_last_offset") + 1, F.col("base_offset"))
    first_epoch, last_epoch = F.col("found.first_leader_epoch"), F.col("found.last_leader_epoch")
    judged = (
        segments.withColumn("end_before", F.max(end).over(earlier))
        .withColumn("epoch_before", F.last(F.when(last_epoch >= 0, last_epoch), ignorenulls=True).over(earlier))
        .withColumn("border_regression", F.col("found.first_base_offset") < F.col("end_before"))
        .withColumn("border_epoch_regression", (first_epoch >= 0) & (first_epoch < F.col("epoch_before")))
    )
    counts = [
        F.sum(
            F.col(name).cast("bigint") if name.startswith("border_") else F.col(f"found.irregularity_counts.{name}")
        ).alias(name)
        for name in SEGMENT_COUNTS
    ]
    return [row.asDict() for row in judged.groupBy(*_REPLICA).agg(*counts).collect()]


def quality_frames(
    spark: SparkSession,
    warehouse: Warehouse,
    results: Results,
    counts: Iterable[Mapping[str, Any]],
    tables: Sequence[str],
) -> dict[str, DataFrame]:
    """A DataFrame for each of `tables`, with the column `place` first.

    Facts and answers come from the rows at hand, and are constants of the query plan: looking at them reads nothing.
    Bronze tables are read from the warehouse.
    """
    facts = fact_rows(results, counts)
    frames = {}
    for table in tables:
        if table in FACT_TABLES:
            frames[table] = _local_frame(spark, FACT_TABLES[table], facts[table])
        elif table in REPORT_TABLES:
            columns = (Column("place", "string"), *REPORT_TABLES[table])
            frames[table] = _local_frame(spark, columns, results.rows(table))
        else:
            frames[table] = _bronze_frame(warehouse, table, results.audit["snapshot_id"])
    return frames


def _local_frame(spark: SparkSession, columns: tuple[Column, ...], rows: Sequence[Mapping[str, Any]]) -> DataFrame:
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    schema = StructType.fromDDL(ddl(columns))
    # Data Docs show `place`, and do not escape what they show: a directory's name is not markup.
    placed = [{**row, "place": escape(row.get("place") or name_place(row))} for row in rows]
    table = pa.Table.from_pylist(
        [{column.name: row[column.name] for column in columns} for row in placed], schema=to_arrow_schema(schema)
    )
    return spark.createDataFrame(table, schema)


def _bronze_frame(warehouse: Warehouse, table: str, snapshot_id: str) -> DataFrame:
    from pyspark.sql import functions as F

    names = [column.name for column in BRONZE_TABLES[table]]
    parts = []
    if {"topic", "partition"} <= set(names):
        parts.append(F.concat_ws("-", F.col("topic"), F.col("partition").cast("string")))
    if "broker_id" in names:
        parts.append(F.concat(F.lit("broker "), F.col("broker_id").cast("string")))
    if "path" in names:
        parts.append(F.col("path"))
    place = F.concat_ws(" ", *parts) if parts else F.lit(table)
    for character, text in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        place = F.replace(place, F.lit(character), F.lit(text))
    return warehouse.read(table, snapshot_id=snapshot_id).select(place.alias("place"), *names)
