"""Tables of the warehouse as DataFrames, read from the files that the newest version names.

Spark reads them as Parquet: the session needs nothing of Delta, and no job replays a table's log.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from replica_audit.bronze_tables import BRONZE_TABLES
from replica_audit.results import AuditObject
from replica_audit.row_classes import ddl
from replica_audit.schema import REPORT_TABLES
from replica_audit.warehouse.attempts import check_large, latest_attempt, own_rows
from replica_audit.warehouse.delta_tables import Warehouse
from replica_audit.warehouse.table_layout import columns_of, partition_of, spark_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def audit_frame(spark: SparkSession, warehouse: Warehouse, table: str, audit: AuditObject) -> DataFrame:
    """Rows of a table, report or bronze, of the audit that `audit` describes. Raises KeyError for an unknown table."""
    if table not in REPORT_TABLES and table not in BRONZE_TABLES:
        raise KeyError(table)
    finished = latest_attempt(warehouse, "audit", audit_id=audit["audit_id"])
    if table in BRONZE_TABLES:
        return ingested_frame(spark, warehouse, table, **own_rows(finished))
    check_large(warehouse, finished, [table], finished.audit_id)
    return table_frame(spark, warehouse, table, {"audit_id": finished.audit_id})


def ingested_frame(spark: SparkSession, warehouse: Warehouse, table: str, **ids: str | None) -> DataFrame:
    """Rows of a bronze table of the latest ingest with these ids."""
    ingested = latest_attempt(warehouse, "ingest", **ids)
    check_large(warehouse, ingested, [table], ingested.snapshot_id)
    return table_frame(spark, warehouse, table, own_rows(ingested))


def table_frame(spark: SparkSession, warehouse: Warehouse, table: str, ids: Mapping[str, str | None]) -> DataFrame:
    """Rows of `table` of one snapshot or audit, with all its columns; empty if the table was never written.

    `ids` has the id that the table is partitioned by, and may have others that rows must match (ingest_id).
    """
    from pyspark.sql import functions as F

    columns, key = columns_of(table), partition_of(table)
    names = [column.name for column in columns]
    files = warehouse.files(table, ids[key])
    if not files:
        return spark.createDataFrame([], ddl(columns))
    root = warehouse.directory(table)
    schema = ddl([column for column in columns if column.name != key])
    rows = (
        spark.read.schema(schema)
        .parquet(*(spark_path(f"{root}/{path}") for path in files))
        .withColumn(key, F.lit(ids[key]))
    )
    for name, value in ids.items():
        if name in names and name != key:
            rows = rows.where(F.col(name).eqNullSafe(F.lit(value)))
    return rows.select(*names)
