"""The Delta tables: their place, and the only ways of reading and writing them.

A table belongs to snapshots or to audits and is partitioned by that id: a re-run replaces the rows of its own id and
touches no other (`replaceWhere`). Delta is atomic per table only, so a stage is finished when its row in `audits` says
so, which is written last; readers take finished stages only.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from replica_audit import __version__
from replica_audit.errors import InputError, UsageError
from replica_audit.moments import now
from replica_audit.tables import AUDIT_COLUMNS, AUDITS, BRONZE_TABLES, REPORT_TABLES, SNAPSHOT_COLUMNS, Column, ddl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_WRITERS = 4

#: Table properties, given when a table is made. A row of `batches` is cheaper to write than its statistics.
_PERIODS = ("delta.logRetentionDuration", "delta.deletedFileRetentionDuration")
_PROPERTIES = {"batches": {"delta.dataSkippingNumIndexedCols": "0"}}

#: Spark's and Delta's names for a table that is not there.
_MISSING = (
    "DELTA_MISSING_DELTA_TABLE",
    "DELTA_TABLE_NOT_FOUND",
    "DELTA_PATH_DOES_NOT_EXIST",
    "PATH_NOT_FOUND",
    "TABLE_OR_VIEW_NOT_FOUND",
    "SCHEMA_NOT_FOUND",
)


class Warehouse:
    """Delta tables below a directory or URI, or in a schema of a catalog."""

    def __init__(
        self, spark: SparkSession, location: str, catalog: str | None = None, time_travel_days: int | None = None
    ) -> None:
        """`catalog` is NAME.SCHEMA and goes before `location`.

        `time_travel_days`: how long versions of new tables can be read after they were replaced; None is Delta's own.
        """
        self._spark = spark
        self._location = location.rstrip("/")
        self._catalog = catalog
        self._commit: dict[str, str | None] = {}
        period = f"interval {time_travel_days} days"
        self._periods = {} if time_travel_days is None else {name: period for name in _PERIODS}

    def describe_commits(self, **run: str | None) -> None:
        """Say which run the commits from now on are of: `userMetadata` in the history of every table."""
        self._commit = run

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
            raise InputError(
                f"{self._name(table)} is not a Delta table: run replica-audit ingest with this warehouse first"
            )
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
        run_together(
            [(lambda table=table, frame=frame: self.append(table, frame, key)) for table, frame in frames.items()]
        )

    def _write(self, table: str, frame: DataFrame, key: str, mode: str, options: Mapping[str, str]) -> None:
        columns = [column.name for column in self.columns(table)]
        writer = frame.select(*columns).write.format("delta").mode(mode).partitionBy(key)
        # A warehouse of an older version lacks columns that were added since.
        properties = {**self._periods, **_PROPERTIES.get(table, {}), "mergeSchema": "true"}
        for name, value in {"userMetadata": self._user_metadata(self._commit), **properties, **options}.items():
            writer = writer.option(name, value)
        writer.saveAsTable(self._name(table)) if self._catalog else writer.save(self._name(table))

    def record(
        self,
        stage: str,
        state: str,
        *,
        started: str,
        snapshot_id: str,
        audit_id: str | None,
        cluster_id: str | None,
        tables: Iterable[str] = (),
        options: str | None = None,
    ) -> dict:
        """Append a row to `audits` and return it: the last thing a stage does when it has finished or failed.

        `tables` are those that the stage wrote: their versions go into `table_versions`. `options` is JSON.
        """
        row = {
            "cluster_id": cluster_id,
            "snapshot_id": snapshot_id,
            "audit_id": audit_id,
            "stage": stage,
            "state": state,
            "started": started,
            "finished": None if state == "running" else now(),
            "tool_version": __version__,
            "table_versions": self.versions(tables) or None,
            "options": options,
        }
        writer = (
            self.frame("audits", [row], {}).coalesce(1).write.format("delta").mode("append").options(**self._periods)
        ).option("mergeSchema", "true")
        described = {"stage": stage, "snapshot_id": snapshot_id, "audit_id": audit_id}
        writer = writer.option("userMetadata", self._user_metadata(described))
        writer.saveAsTable(self._name("audits")) if self._catalog else writer.save(self._name("audits"))
        return row

    def versions(self, tables: Iterable[str]) -> dict[str, int]:
        """The Delta version of each table as this session knows it: that of its own last commit, or a later one.

        Rows are only ever added, so a later version has the rows of the earlier too.
        """
        from delta.tables import DeltaTable

        found = {}
        for table in tables:
            name = self._name(table)
            handle = DeltaTable.forName(self._spark, name) if self._catalog else DeltaTable.forPath(self._spark, name)
            # `history(1)` says it too, but reads the log with a job of its own, half a second for each table.
            found[table] = handle._jdt.deltaLog().unsafeVolatileSnapshot().version()
        return found

    def numbers(self, numbers: Mapping[str, int]) -> DataFrame:
        """A DataFrame (audit_id, number)."""
        return self._spark.createDataFrame(list(numbers.items()), "audit_id string, number int")

    def mark_removed(self, audit_ids: Iterable[str], snapshot_ids: Iterable[str]) -> None:
        """Set the rows of these audits, and all rows of these snapshots, in `audits` to the state `removed`."""
        places = [
            f"{key} IN ({_literals(ids)})"
            for key, ids in (("audit_id", audit_ids), ("snapshot_id", snapshot_ids))
            if ids
        ]
        self._sql(f"UPDATE {self._reference('audits')} SET state = 'removed' WHERE {' OR '.join(places)}")

    def delete(self, table: str, key: str, values: Iterable[str]) -> None:
        """Delete the rows whose `key` column is one of `values`, where the table exists."""
        values = list(values)
        if values and self.exists(table):
            self._sql(f"DELETE FROM {self._reference(table)} WHERE {key} IN ({_literals(values)})")

    def vacuum(self, table: str) -> None:
        """Delete the files that no version within the table's period needs; sets the period first."""
        if not self.exists(table):
            return
        if self._periods:
            properties = ", ".join(f"'{name}' = '{value}'" for name, value in self._periods.items())
            self._sql(f"ALTER TABLE {self._reference(table)} SET TBLPROPERTIES ({properties})")
        self._spark.sql(f"VACUUM {self._reference(table)}").collect()

    def _sql(self, statement: str) -> None:
        """Run a statement that commits; a statement has no option for `userMetadata`, the session has."""
        name = "spark.databricks.delta.commitInfo.userMetadata"
        self._spark.conf.set(name, self._user_metadata(self._commit))
        try:
            self._spark.sql(statement).collect()
        finally:
            self._spark.conf.unset(name)

    def _reference(self, table: str) -> str:
        return self._name(table) if self._catalog else f"delta.`{self._name(table)}`"

    def _user_metadata(self, run: Mapping[str, str | None]) -> str:
        return json.dumps({"tool": f"replica-audit {__version__}", **run}, sort_keys=True)

    def runs(self, stage: str, **equals: str) -> list[dict]:
        """Rows of `stage` in `audits`, oldest first, in whatever state."""
        if not self.exists("audits"):
            return []
        rows = self.read("audits", stage=stage, **equals).collect()
        return sorted((row.asDict() for row in rows), key=lambda row: row["finished"] or row["started"])

    def latest(self, stage: str, **equals: str) -> dict:
        """The last finished run of `stage`; raises UsageError when there is none, or none with that id.

        An ingest that another one of the same snapshot followed and did not finish has lost some of its rows to it.
        """
        newest = {(row["snapshot_id"], row["audit_id"]): row for row in self.runs(stage, **equals)}
        rows = [row for row in newest.values() if row["state"] == "finished"]
        if not rows:
            wanted = " ".join(f"with {name} {value}" for name, value in equals.items())
            raise UsageError(
                f"no finished {stage} {wanted} in {self._catalog or self._location}: run that stage first".replace(
                    "  ", " "
                )
            )
        return max(rows, key=lambda row: row["finished"])

    def _name(self, table: str) -> str:
        return f"{self._catalog}.{table}" if self._catalog else f"{self._location}/{table}"


def _literals(values: Iterable[str]) -> str:
    """Values of our own making (ids, states) as SQL literals."""
    return ", ".join("'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'" for value in values)


def run_together(tasks: Iterable[Callable[[], None]]) -> None:
    """Run tasks in a few threads, wait for all, raise the first failure."""
    with ThreadPoolExecutor(max_workers=_WRITERS) as pool:
        for future in [pool.submit(task) for task in tasks]:
            future.result()
