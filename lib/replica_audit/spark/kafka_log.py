"""The data source `kafka_log`: rows of a snapshot's log dirs as they are, for any query, without an audit.

`spark.read.format("kafka_log").option("rows", "batches").load(path)`. Its rows are those of the bronze tables that an ingest
writes, and it reads with the same functions; a file is read by one task. `docs/reference.md` has the options.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from replica_audit.bronze_tables import BRONZE_TABLES, PayloadRow, RecordRow, SegmentNames
from replica_audit.config import nearest
from replica_audit.errors import InputError, UsageError
from replica_audit.row_classes import Column, columns, ddl
from replica_audit.runner.task_planning import SegmentWork, deal_work
from replica_audit.spark.callers_session import use_own_python
from replica_audit.spark.row_filters import Condition, matching_rows, may_match, take_filters
from replica_audit.spark.tasks import parallelism
from replica_audit.warehouse.table_layout import absolute_location

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import StructType

    from replica_audit.model import SegmentFile
    from replica_audit.snapshot.inventory import Inventory

FORMAT = "kafka_log"

#: Values of `rows`, and the bronze table of each.
_TABLES = {
    "batches": "batches",
    "epochs": "leader_epochs",
    "checkpoints": "offset_checkpoints",
    "leadership": "partition_states",
}

#: Rows that are read from segments, file by file.
_OF_SEGMENTS = ("batches", "records")

_ROWS = (*_TABLES, "records")

_OPTIONS = ("path", "rows", "topic", "partition", "broker", "payloads", "unreadable", "tasks")

#: Columns whose filters are accepted from Spark.
_FILTERED = ("topic", "partition", "broker_id", "base_offset", "last_offset", "offset", "start_offset")

#: Spark plans a read with this worker only if it pushes filters down; otherwise it rejects a reader that accepts them.
_PUSHING_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Checked options of a read, and conditions on columns."""

    path: str
    rows: str
    topics: tuple[str, ...]
    conditions: tuple[Condition, ...]
    payloads: bool
    skip_unreadable: bool
    tasks: int


class LogPart(InputPartition):
    """Input of one task: segments, or all small files if there are none."""

    def __init__(self, number: int, files: tuple[SegmentFile, ...] = ()) -> None:
        super().__init__(number)
        self.files = files


class KafkaLogSource(DataSource):
    """Rows of a snapshot; `path` is a directory above log dirs, local, `s3://` or `hdfs://`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return ddl(columns_of_rows(parse_options(self.options)))

    def reader(self, schema: StructType) -> DataSourceReader:
        selection = parse_options(self.options)
        known = {column.name for column in columns_of_rows(selection)}
        if unknown := [name for name in schema.fieldNames() if name not in known]:
            raise UsageError(
                f"{FORMAT} with rows={selection.rows} has no column {unknown[0]}; it has {', '.join(sorted(known))}"
            )
        pushing = _PUSHING_WORKER in sys.modules
        return (FilteringReader if pushing else LogReader)(selection, schema)


def columns_of_rows(selection: ReadOptions) -> tuple[Column, ...]:
    """Columns of the rows that are read."""
    if selection.rows == "records":
        return (*columns(RecordRow), *(columns(PayloadRow) if selection.payloads else ()))
    return BRONZE_TABLES[_TABLES[selection.rows]]


class LogReader(DataSourceReader):
    """Reads what `selection` chooses, with the columns of `schema` only."""

    def __init__(self, selection: ReadOptions, schema: StructType) -> None:
        self._selection = selection
        self._conditions = list(selection.conditions)
        self._schema = schema

    def partitions(self) -> Sequence[LogPart]:
        if self._selection.rows not in _OF_SEGMENTS:
            return [LogPart(0)]
        inventory = _discover(self._selection)
        files = [file for file in inventory.all_segments if may_match(self._conditions, _file_values(file))]
        parts = deal_work([SegmentWork(file) for file in files], self._selection.tasks)
        return [LogPart(number, tuple(work.file for work in part)) for number, part in enumerate(parts)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from pyspark.sql.pandas.types import to_arrow_schema

        assert isinstance(partition, LogPart), "Spark hands back what `partitions` made"
        schema = to_arrow_schema(self._schema)
        if self._selection.rows == "records":
            read = self._read_records(partition, schema)
        else:
            read = self._read_batches(partition, schema) if partition.files else self._read_small_files(schema)
        for batch in read:
            batch = matching_rows(batch, self._conditions)
            if batch.num_rows:
                yield batch

    def _read_batches(self, part: LogPart, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        from replica_audit.errors import FormatError
        from replica_audit.model import Damage
        from replica_audit.segments.header_columns import headers_to_columns
        from replica_audit.snapshot.segment_sources import open_source
        from replica_audit.snapshot.storage import Snapshot

        snapshot = Snapshot.open(self._selection.path)
        for file in part.files:
            names = _file_values(file)
            try:
                with open_source(snapshot, file) as (items, _):
                    for item in items:
                        if isinstance(item, Damage):
                            continue
                        columns = headers_to_columns(item, schema.names)
                        yield pa.RecordBatch.from_arrays(
                            [
                                columns[field.name].cast(field.type)
                                if field.name in columns
                                else pa.repeat(pa.scalar(names[field.name], field.type), len(item))
                                for field in schema
                            ],
                            schema=schema,
                        )
            except (OSError, FormatError) as error:
                if not self._selection.skip_unreadable:
                    raise InputError(
                        f"{file.path} could not be read: {error}; to read the others give option unreadable=skip"
                    ) from error

    def _read_records(self, part: LogPart, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        from replica_audit.snapshot.storage import Snapshot
        from replica_audit.spark.record_rows import record_batches

        snapshot = Snapshot.open(self._selection.path)
        for file in part.files:
            values = _file_values(file)
            yield from record_batches(snapshot, file, values, schema, self._conditions, self._selection.payloads)

    def _read_small_files(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        from replica_audit.arrow_rows import rows_to_arrow
        from replica_audit.auditing.bronze_rows import bronze_rows

        inventory = _discover(self._selection)
        rows = bronze_rows(inventory)[_TABLES[self._selection.rows]]
        yield from rows_to_arrow(rows, schema).to_batches()


class FilteringReader(LogReader):
    """A `LogReader` to which Spark pushes filters down (spark.sql.python.filterPushdown.enabled, from 4.1 on)."""

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
        """Accept filters on topic, partition, broker and offsets. Files are skipped by the first three only: a damaged log may
        have a batch in a segment that it does not belong to."""
        kept = [name for name in _FILTERED if name in self._schema.names]
        taken, left = take_filters(filters, kept)
        self._conditions += taken
        yield from left


def _discover(selection: ReadOptions) -> Inventory:
    """Contents of the snapshot. Raises UsageError and InputError as an audit does, which is loaded only for that."""
    from replica_audit.snapshot.discovery import discover
    from replica_audit.snapshot.storage import Snapshot

    try:
        inventory = discover(Snapshot.open(selection.path), selection.topics)
        if inventory.replicas or inventory.leaderships:
            return inventory
    except (OSError, ValueError):
        pass  # reported below, in the words of an audit
    from replica_audit.snapshot.opening import open_snapshot

    return open_snapshot(selection.path, selection.topics, None)[1]


def parse_options(options: Mapping[str, str]) -> ReadOptions:
    """The options of a read. Raises UsageError for an unknown option or an invalid value."""
    given = {name.lower(): value for name, value in options.items()}
    for name in given:
        if name not in _OPTIONS:
            raise UsageError(f"{FORMAT}: no option {name}; {nearest(name, _OPTIONS)}")
    if "path" not in given:
        raise UsageError(f"{FORMAT} reads one snapshot: give its directory to load()")
    rows = given.get("rows", "batches")
    if rows not in _ROWS:
        raise UsageError(f"{FORMAT}: rows is {rows!r}, expected {', '.join(_ROWS)}")
    payloads = given.get("payloads", "false")
    if payloads not in ("true", "false") or (payloads == "true" and rows != "records"):
        raise UsageError(f"{FORMAT}: payloads is {payloads!r} with rows={rows}; it is true or false, with rows=records")
    unreadable = given.get("unreadable", "fail")
    if unreadable not in ("fail", "skip"):
        raise UsageError(f"{FORMAT}: unreadable is {unreadable!r}, expected fail or skip")
    conditions = [
        Condition(column, "In", tuple(_number(option, text) for text in _listed(given[option])))
        for option, column in (("partition", "partition"), ("broker", "broker_id"))
        if option in given
    ]
    tasks = _number("tasks", given["tasks"]) if "tasks" in given else os.cpu_count() or 1
    topics = tuple(_listed(given.get("topic", "")))
    return ReadOptions(given["path"], rows, topics, tuple(conditions), payloads == "true", unreadable == "skip", tasks)


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _number(option: str, text: str) -> int:
    if not text.isdigit():
        raise UsageError(f"{FORMAT}: {option} is {text!r}, expected whole numbers")
    return int(text)


def _file_values(file: SegmentFile) -> dict[str, object]:
    return SegmentNames(file.broker_id, file.log_dir, file.topic, file.partition, file.base_offset)._asdict()


_registered: weakref.WeakSet = weakref.WeakSet()


def register(spark: SparkSession) -> None:
    """Register the format `kafka_log` with a session that has not found it by itself, as in a script run by the Python of an
    environment that is not activated; a local session's workers then use that Python."""
    from pyspark.errors import AnalysisException

    if spark in _registered:
        return
    use_own_python(spark)
    try:
        spark.dataSource.register(KafkaLogSource)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
    _registered.add(spark)


def open_rows(
    spark: SparkSession, path: str, rows: str, options: Mapping[str, str], columns: Sequence[str] = ()
) -> DataFrame:
    """The rows of the snapshot at `path` as a DataFrame, with `columns` only if any are named."""
    chosen = {"rows": rows, "tasks": str(parallelism(spark)), **options}
    known = {column.name: column for column in columns_of_rows(parse_options({**chosen, "path": path}))}
    if unknown := [name for name in columns if name not in known]:
        raise UsageError(f"no column {unknown[0]} in rows={rows}; there are {', '.join(known)}")
    register(spark)
    reader = spark.read.format(FORMAT).options(**chosen)
    if columns:
        reader = reader.schema(ddl([known[name] for name in columns]))
    return reader.load(absolute_location(path))
