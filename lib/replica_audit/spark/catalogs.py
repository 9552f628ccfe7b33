"""The tables that the settings name: in files, or in a schema of a catalog, where Spark creates them and knows their locations
while rows go in and out as in a directory.

A catalog that manages commits itself (Unity Catalog's catalog-managed tables) accepts no commit from outside: such a table is
refused, and an external location has to be given with --warehouse instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replica_audit.config import Settings
from replica_audit.errors import UsageError
from replica_audit.row_classes import ddl
from replica_audit.warehouse.delta_tables import Warehouse, table_properties
from replica_audit.warehouse.table_layout import columns_of, key_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Spark's names of errors for a missing table.
_MISSING = ("TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND")


def open_warehouse(spark: SparkSession | None, settings: Settings) -> Warehouse:
    """The tables that the settings name; those of a catalog need a session."""
    if not settings.catalog:
        return Warehouse(settings.warehouse, time_travel_days=settings.time_travel_days)
    if spark is None:
        raise UsageError(f"the tables of the catalog {settings.catalog} need a Spark session, and none was started")
    return _catalog_warehouse(spark, settings.catalog, settings.time_travel_days)


def _catalog_warehouse(spark: SparkSession, catalog: str, time_travel_days: int) -> Warehouse:
    """The tables of `catalog` (NAME.SCHEMA)."""
    found: dict[str, str] = {}

    def locate(table: str, make: bool) -> str | None:
        if table not in found:
            where = _location(spark, f"{catalog}.{table}")
            if where is None and make:
                _make(spark, f"{catalog}.{table}", time_travel_days, table)
                where = _location(spark, f"{catalog}.{table}")
            if where is None:
                return None
            found[table] = where
        return found[table]

    return Warehouse(catalog, time_travel_days=time_travel_days, locate=locate)


def _location(spark: SparkSession, name: str) -> str | None:
    """Location of a table in the catalog, None if it is missing. Raises UsageError for one that accepts no commits from outside.

    Not by DESCRIBE DETAIL, which replays the log of each table in several Spark jobs to count its files.
    """
    from pyspark.errors import AnalysisException

    try:
        rows = spark.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()
    except AnalysisException as error:
        if error.getCondition() in _MISSING:
            return None
        raise
    names = [row["col_name"] for row in rows]
    # The rows before are the table's columns.
    facts = {row["col_name"]: row["data_type"] for row in rows[names.index("# Detailed Table Information") :]}
    if facts.get("Provider", "none").lower() != "delta":
        raise UsageError(f"{name} is not a Delta table; give another schema with --catalog")
    if "delta.feature.catalogManaged=" in facts.get("Table Properties", ""):
        raise UsageError(
            f"{name}: its catalog manages commits itself, and takes none from here; give an external location with "
            "--warehouse instead of --catalog"
        )
    return facts["Location"]


def _make(spark: SparkSession, name: str, time_travel_days: int, table: str) -> None:
    properties = table_properties(time_travel_days)
    listed = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
    key = key_of(table)
    spark.sql(
        f"CREATE TABLE IF NOT EXISTS {name} ({ddl(columns_of(table))}) USING delta"
        + (f" PARTITIONED BY ({key})" if key else "")
        + (f" TBLPROPERTIES ({listed})" if listed else "")
    )
