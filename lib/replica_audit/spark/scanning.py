"""The scan on the executors: segment files in, batches, segment summaries and unusable bytes out, in one pass.

A pass over the bytes is the expensive part, so one job gives all three as rows of one shape, told apart by `kind`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from replica_audit.formats.inventory import SegmentFile
from replica_audit.tables import BRONZE_TABLES

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from replica_audit.formats.storage import Snapshot

#: Columns of `batches` that come from `BATCH_DTYPE`.
BATCH_COLUMNS = tuple(column for column in BRONZE_TABLES["batches"][5:])

#: Where -1 in the header means that there is none.
_NULLABLE = {"leader_epoch", "base_timestamp", "max_timestamp", "producer_id", "producer_epoch", "base_sequence"}

_ARROW = {
    "string": "string",
    "bigint": "int64",
    "int": "int32",
    "smallint": "int16",
    "tinyint": "int8",
    "boolean": "bool",
}

#: A task scans about this many bytes, so that a cluster has work for every core and the driver few tasks to plan.
_TASK_BYTES = 256 << 20

SCAN_DDL = (
    "kind string, broker_id int, log_dir string, topic string, partition int, segment_base_offset bigint, "
    + ", ".join(f"`{column.name}` {column.type}" for column in BATCH_COLUMNS)
    + ", payload string"
)


def scan_schema() -> pa.Schema:
    """The Arrow schema of `SCAN_DDL`; `payload` is a segment's or a quarantine row as JSON."""
    import pyarrow as pa

    fields = []
    for part in SCAN_DDL.split(", "):
        name, kind = part.replace("`", "").split(" ")
        fields.append(pa.field(name, pa.type_for_alias(_ARROW[kind])))
    return pa.schema(fields)


def plan_tasks(files: Sequence[SegmentFile], cores: int) -> list[list[SegmentFile]]:
    """Files dealt out to tasks of about equal bytes, largest first; at least one task."""
    total = sum(file.size_bytes for file in files)
    count = max(1, min(len(files), max(cores, total // _TASK_BYTES)))
    tasks: list[list[SegmentFile]] = [[] for _ in range(count)]
    sizes = [0] * count
    for file in sorted(files, key=lambda file: (-file.size_bytes, file.path)):
        index = min(range(count), key=sizes.__getitem__) if count <= 64 else sizes.index(min(sizes))
        tasks[index].append(file)
        sizes[index] += file.size_bytes + 4096
    return tasks


def scan_files(
    spark: SparkSession, snapshot: Snapshot, files: Sequence[SegmentFile], *, rows: bool = True, done=None
) -> DataFrame:
    """A DataFrame of `SCAN_DDL` over `files`, without the batches when `rows` is false.

    `done` is an accumulator of (files, bytes), for progress only.
    """
    tasks = plan_tasks(files, spark.sparkContext.defaultParallelism)

    def scan_task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for task in batch.column(0).to_pylist():
                for file in tasks[task]:
                    yield from scan_file(snapshot, file, rows)
                    if done is not None:
                        done.add((1, file.size_bytes))

    return spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(scan_task, SCAN_DDL)


def scan_file(snapshot: Snapshot, file: SegmentFile, rows: bool) -> Iterator[pa.RecordBatch]:
    """One file's rows, of its batches too when `rows` is true. A file that cannot be read gives one quarantine row, and the audit goes on."""
    from replica_audit.auditing.opened_snapshot import unreadable_row
    from replica_audit.formats.bronze import damage_rows, segment_row
    from replica_audit.formats.errors import FormatError
    from replica_audit.formats.sources import open_source
    from replica_audit.model import Damage

    names = {"broker_id": file.broker_id, "log_dir": file.log_dir, "topic": file.topic, "partition": file.partition}
    try:
        with open_source(snapshot, file) as (items, summariser):
            for item in items:
                summariser.add(item)
                if rows and not isinstance(item, Damage) and len(item):
                    yield _batch_rows(file, item)
    except (OSError, FormatError) as error:
        yield _payload_rows(file, "quarantine", [unreadable_row(names, file, error)])
        return
    summary = summariser.finish()
    yield _payload_rows(file, "segment", [segment_row(names, summary)])
    damaged = list(damage_rows(names, summary))
    if damaged:
        yield _payload_rows(file, "quarantine", damaged)


def _batch_rows(file: SegmentFile, rows: np.ndarray) -> pa.RecordBatch:
    import pyarrow as pa

    schema = scan_schema()
    count = len(rows)
    columns = [_repeated("batch", pa.string(), count), *_names(file, count)]
    for column in BATCH_COLUMNS:
        values = rows[column.name]
        mask = values == -1 if column.name in _NULLABLE else None
        array = pa.array(values, mask=mask if mask is not None and mask.any() else None)
        columns.append(array.cast(schema.field(column.name).type))
    columns.append(pa.nulls(count, pa.string()))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _payload_rows(file: SegmentFile, kind: str, rows: list[dict]) -> pa.RecordBatch:
    import json

    import pyarrow as pa

    schema = scan_schema()
    count = len(rows)
    columns = [_repeated(kind, pa.string(), count), *_names(file, count)]
    columns += [pa.nulls(count, schema.field(column.name).type) for column in BATCH_COLUMNS]
    columns.append(pa.array([json.dumps(row) for row in rows], pa.string()))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _names(file: SegmentFile, count: int) -> list[pa.Array]:
    import pyarrow as pa

    return [
        _repeated(file.broker_id, pa.int32(), count),
        _repeated(file.log_dir, pa.string(), count),
        _repeated(file.topic, pa.string(), count),
        _repeated(file.partition, pa.int32(), count),
        _repeated(file.base_offset, pa.int64(), count),
    ]


def _repeated(value, kind: pa.DataType, count: int) -> pa.Array:
    import pyarrow as pa

    return pa.repeat(pa.scalar(value, kind), count)
