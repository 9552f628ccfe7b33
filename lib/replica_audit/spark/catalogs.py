"""Tables in a schema of a catalog: Spark makes them and says where they lie; rows go in and out as in a directory.

A catalog that manages commits itself (Unity Catalog's catalog-managed tables) takes no commit from outside: such a
table is refused, and an external location has to be given with --warehouse instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replica_audit.config import Settings
from replica_audit.errors import UsageError
from replica_audit.tables import ddl
from replica_audit.warehouse.delta_tables import Warehouse, table_properties
from replica_audit.warehouse.table_layout import columns_of, key_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Spark's and Delta's names for a table that is not there.
_MISSING = (
    "DELTA_MISSING_DELTA_TABLE",
    "DELTA_TABLE_NOT_FOUND",
    "DELTA_PATH_DOES_NOT_EXIST",
    "PATH_NOT_FOUND",
    "TABLE_OR_VIEW_NOT_FOUND",
    "SCHEMA_NOT_FOUND",
)


def catalog_warehouse(spark: SparkSession, catalog: str, settings: Settings) -> Warehouse:
    """The tables of `catalog` (NAME.SCHEMA)."""
    found: dict[str, str] = {}

    def locate(table: str, make: bool) -> str | None:
        if table not in found:
            where = _location(spark, f"{catalog}.{table}")
            if where is None and make:
                _make(spark, f"{catalog}.{table}", settings.time_travel_days, table)
                where = _location(spark, f"{catalog}.{table}")
            if where is None:
                return None
            found[table] = where
        return found[table]

    return Warehouse(catalog, time_travel_days=settings.time_travel_days, locate=locate)


def _location(spark: SparkSession, name: str) -> str | None:
    from pyspark.errors import AnalysisException

    try:
        (row,) = spark.sql(f"DESCRIBE DETAIL {name}").collect()
    except AnalysisException as error:
        if error.getCondition() in _MISSING:
            return None
        raise
    if "catalogManaged" in (row["tableFeatures"] or ()):
        raise UsageError(
            f"{name}: its catalog manages commits itself, and takes none from here; give an external location with "
            "--warehouse instead of --catalog"
        )
    return row["location"]


def _make(spark: SparkSession, name: str, time_travel_days: int, table: str) -> None:
    properties = table_properties(time_travel_days)
    listed = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
    key = key_of(table)
    spark.sql(
        f"CREATE TABLE IF NOT EXISTS {name} ({ddl(columns_of(table))}) USING delta"
        + (f" PARTITIONED BY ({key})" if key else "")
        + (f" TBLPROPERTIES ({listed})" if listed else "")
    )
