"""The Delta tables: their place, and the only ways of reading and writing them.

A table belongs to snapshots or to audits and is partitioned by that id: a re-run replaces the rows of its own id and
touches no other (`replaceWhere`). Delta is atomic per table only, so a stage is finished when its row in `audits` says
so, which is written last; readers take finished stages only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from replica_audit import __version__
from replica_audit.errors import InputError, UsageError
from replica_audit.tables import AUDIT_COLUMNS, AUDITS, BRONZE_TABLES, REPORT_TABLES, SNAPSHOT_COLUMNS, Column, ddl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_WRITERS = 4

#: Table properties, given when a table is made. A row of `batches` is cheaper to write than its statistics.
_PROPERTIES = {"batches": {"delta.dataSkippingNumIndexedCols": "0"}}

#: Spark's and Delta's names for a table that is not there.
_MISSING = ("DELTA_MISSING_DELTA_TABLE", "DELTA_TABLE_NOT_FOUND", "DELTA_PATH_DOES_NOT_EXIST", "PATH_NOT_FOUND", "TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND")


def now() -> str:
    """The present moment in UTC, ISO 8601 with milliseconds."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Warehouse:
    """Delta tables below a directory or URI, or in a schema of a catalog."""

    def __init__(self, spark: SparkSession, location: str, catalog: str | None = None) -> None:
        """`catalog` is NAME.SCHEMA and goes before `location`."""
        self._spark = spark
        self._location = location.rstrip("/")
        self._catalog = catalog

    def columns(self, table: str) -> tuple[Column, ...]:
        """All columns of a table, ids first. There is one `quarantine`, that of the snapshot."""
        if table == "audits":
            return AUDITS
        if table in BRONZE_TABLES:
            return (*SNAPSHOT_COLUMNS, *BRONZE_TABLES[table])
        return (*AUDIT_COLUMNS, *REPORT_TABLES[table])

    def read(self, table: str, **equals: str) -> DataFrame:
        """Rows of a table whose columns equal the values given; raises InputError when the table is not there."""
        from pyspark.sql import functions as F

        frame = self._load(table)
        if frame is None:
            raise InputError(f"{self._name(table)} is no Delta table: run replica-audit ingest with this warehouse first")
        for column, value in equals.items():
            frame = frame.where(F.col(column) == F.lit(value))
        return frame

    def exists(self, table: str) -> bool:
        """Whether the table was written before."""
        return self._load(table) is not None

    def _load(self, table: str) -> DataFrame | None:
        from pyspark.errors import AnalysisException

        try:
            if self._catalog:
                return self._spark.read.table(self._name(table))
            return self._spark.read.format("delta").load(self._name(table))
        except AnalysisException as error:
            if error.getCondition() in _MISSING:
                return None
            raise

    def frame(self, table: str, rows: Iterable[Mapping[str, Any]], ids: Mapping[str, str | None]) -> DataFrame:
        """A DataFrame of `rows` (dicts without the ids) in the table's own columns and types."""
        columns = self.columns(table)
        values = [tuple({**row, **ids}.get(column.name) for column in columns) for row in rows]
        return self._spark.createDataFrame(values, ddl(columns))

    def replace(self, table: str, frame: DataFrame, key: str, value: str) -> None:
        """Replace the rows of `table` whose `key` column is `value` by `frame`, in one Delta transaction."""
        self._write(table, frame, key, "overwrite", {"replaceWhere": f"{key} = '{value}'"})

    def append(self, table: str, frame: DataFrame, key: str) -> None:
        """Add rows of an id that is new to `table`: cheaper than `replace`, since nothing is looked for."""
        self._write(table, frame, key, "append", {})

    def put(self, table: str, frame: DataFrame, *, again: bool, key: str, value: str) -> None:
        """`replace` when rows of this id may be there from an attempt that failed, else `append`."""
        if again:
            self.replace(table, frame, key, value)
        else:
            self.append(table, frame, key)

    def append_all(self, frames: Mapping[str, DataFrame], key: str) -> None:
        """`append` to several tables, side by side; the first failure is raised."""
        run_together([(lambda table=table, frame=frame: self.append(table, frame, key)) for table, frame in frames.items()])

    def _write(self, table: str, frame: DataFrame, key: str, mode: str, options: Mapping[str, str]) -> None:
        columns = [column.name for column in self.columns(table)]
        writer = frame.select(*columns).write.format("delta").mode(mode).partitionBy(key)
        for name, value in {"userMetadata": f"replica-audit {__version__}", **_PROPERTIES.get(table, {}), **options}.items():
            writer = writer.option(name, value)
        writer.saveAsTable(self._name(table)) if self._catalog else writer.save(self._name(table))

    def record(
        self, stage: str, state: str, *, started: str, snapshot_id: str, audit_id: str | None, cluster_id: str | None
    ) -> dict:
        """Append a row to `audits` and return it: the last thing a stage does when it has finished or failed."""
        row = {
            "cluster_id": cluster_id,
            "snapshot_id": snapshot_id,
            "audit_id": audit_id,
            "stage": stage,
            "state": state,
            "started": started,
            "finished": None if state == "running" else now(),
            "tool_version": __version__,
            "table_versions": None,
        }
        writer = self.frame("audits", [row], {}).coalesce(1).write.format("delta").mode("append")
        writer.saveAsTable(self._name("audits")) if self._catalog else writer.save(self._name("audits"))
        return row

    def runs(self, stage: str, **equals: str) -> list[dict]:
        """Rows of `stage` in `audits`, oldest first, in whatever state."""
        if not self.exists("audits"):
            return []
        rows = self.read("audits", stage=stage, **equals).collect()
        return sorted((row.asDict() for row in rows), key=lambda row: row["finished"] or row["started"])

    def latest(self, stage: str, **equals: str) -> dict:
        """The last finished run of `stage`; raises UsageError when there is none, or none with that id."""
        rows = [row for row in self.runs(stage, **equals) if row["state"] == "finished"]
        if not rows:
            wanted = " ".join(f"with {name} {value}" for name, value in equals.items())
            raise UsageError(f"no finished {stage} {wanted} in {self._catalog or self._location}: run that stage first".replace("  ", " "))
        return rows[-1]

    def _name(self, table: str) -> str:
        return f"{self._catalog}.{table}" if self._catalog else f"{self._location}/{table}"


def run_together(tasks: Iterable[Callable[[], None]]) -> None:
    """Run tasks in a few threads, wait for all, raise the first failure."""
    with ThreadPoolExecutor(max_workers=_WRITERS) as pool:
        for future in [pool.submit(task) for task in tasks]:
            future.result()
