"""What quality suites look at, as DataFrames: facts and answers, never batches again unless a suite names that table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from replica_audit.auditing.quality import fact_rows, name_place
from replica_audit.results import Results
from replica_audit.tables import BRONZE_TABLES, FACT_TABLES, REPORT_TABLES, Column, ddl
from replica_audit.warehouse.attempts import latest_attempt
from replica_audit.warehouse.delta_tables import Warehouse, spark_location

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
            frames[table] = _bronze_frame(spark, warehouse, table, results.audit["snapshot_id"])
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


def _bronze_frame(spark: SparkSession, warehouse: Warehouse, table: str, snapshot_id: str) -> DataFrame:
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
    attempt = latest_attempt(warehouse, "ingest", snapshot_id=snapshot_id)
    rows = spark.read.format("delta").load(spark_location(warehouse.directory(table)))
    for name in ("snapshot_id", "ingest_id"):
        rows = rows.where(F.col(name).eqNullSafe(F.lit(attempt[name])))
    return rows.select(place.alias("place"), *names)
