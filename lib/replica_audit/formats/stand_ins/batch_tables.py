"""Batch or record metadata as JSONL, CSV or Parquet: which replicas a table is about, and its rows.

A batch table has the columns of the bronze table `batches`, a record table a row for each record. Columns that are not
known are passed over; what a missing one leaves unproven is said. Contents of records have no column.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from replica_audit.bronze_tables import BRONZE_TABLES
from replica_audit.closed_sets import SegmentSource
from replica_audit.formats.files.side_files import parse_json
from replica_audit.formats.files.storage import TABLE_ERRORS, Snapshot
from replica_audit.formats.format_error import FormatError

#: The columns of the table `batches`, numbers as wide as they can be: one that does not fit its field is named later.
BATCH_TABLE = {
    column.name: {"string": pa.string(), "boolean": pa.bool_()}.get(column.type, pa.int64())
    for column in BRONZE_TABLES["batches"]
}
_PLACE = {name: BATCH_TABLE[name] for name in ("broker_id", "log_dir", "topic", "partition")}
RECORD_TABLE = {
    **_PLACE,
    "offset": pa.int64(),
    "leader_epoch": pa.int64(),
    "magic": pa.int64(),
    "timestamp": pa.int64(),
    "key_size": pa.int64(),
    "value_size": pa.int64(),
    "checksum": pa.int64(),
    "producer_id": pa.int64(),
    "producer_epoch": pa.int64(),
    "sequence": pa.int64(),
}
_REQUIRED: dict[SegmentSource, tuple[str, ...]] = {
    "batch_table": ("broker_id", "topic", "partition", "base_offset", "last_offset"),
    "record_table": ("broker_id", "topic", "partition", "offset"),
}
COLUMNS = {"batch_table": BATCH_TABLE, "record_table": RECORD_TABLE}
#: Other names that are taken for a column.
ALIASES = {"broker": "broker_id", "epoch": "leader_epoch"}
_HINT = "docs/capture.md lists the columns and their types"
_HEAD_BYTES = 1 << 20
_QUOTED = re.compile(r"(, got \d+|couldn't parse):.*|:?\s['\"].*")


class LogKey(NamedTuple):
    """Which segment a row belongs to; without `segment_base_offset` a whole log is one segment."""

    broker_id: int
    log_dir: str
    topic: str
    partition: int
    segment_base_offset: int | None


class LogRows(NamedTuple):
    """How much of a table is about one segment."""

    least_offset: int
    row_count: int


def table_kind(snapshot: Snapshot, path: str) -> SegmentSource | None:
    """batch_table or record_table by its columns, None for any other table. Raises OSError and FormatError."""
    names = _column_names(snapshot, path)
    for kind, required in _REQUIRED.items():
        if set(required) <= names:
            return kind
    return None


def table_columns(snapshot: Snapshot, path: str, kind: str) -> tuple[str, ...]:
    """The columns that a table has, in the order of `COLUMNS`; JSONL may have some in later lines only.

    Raises OSError and FormatError.
    """
    found = _column_names(snapshot, path) & set(COLUMNS[kind])
    if not path.endswith(".jsonl"):
        return tuple(name for name in COLUMNS[kind] if name in found)
    for batch in read_table(snapshot, path, kind):
        found.update(name for name in batch.schema.names if batch[name].null_count < len(batch))
        if len(found) == len(COLUMNS[kind]):
            break
    return tuple(name for name in COLUMNS[kind] if name in found)


def count_table(snapshot: Snapshot, path: str, kind: SegmentSource) -> dict[LogKey, LogRows]:
    """The segments that a table has rows of, by one pass over it. Raises OSError and FormatError."""
    offset = "base_offset" if kind == "batch_table" else "offset"
    found: dict[LogKey, LogRows] = {}
    for batch in read_table(snapshot, path, kind):
        missing = [name for name in _REQUIRED[kind] if batch[name].null_count]
        if missing:
            raise FormatError(path, None, f"a value for {missing[0]} in every row", "none in some", _HINT)
        names = [name for name in LogKey._fields if name in batch.schema.names]
        grouped = pa.Table.from_batches([batch]).group_by(names).aggregate([(offset, "min"), (offset, "count")])
        for row in grouped.to_pylist():
            key = LogKey(*(row.get(name) for name in LogKey._fields))._replace(log_dir=row.get("log_dir") or "")
            known = found.get(key, LogRows(row[f"{offset}_min"], 0))
            least = min(known.least_offset, row[f"{offset}_min"])
            found[key] = LogRows(least, known.row_count + row[f"{offset}_count"])
    return found


def read_table(snapshot: Snapshot, path: str, kind: str) -> Iterator[pa.RecordBatch]:
    """A table's rows in their order, in the columns of `COLUMNS`; a column that is not there is null.

    Raises OSError, and FormatError for a value that is not of its column's type.
    """
    types = COLUMNS[kind]
    accepted = {**types, **{alias: types[name] for alias, name in ALIASES.items() if name in types}}
    try:
        with _open_table(snapshot, path, accepted) as batches:
            for batch in batches:
                if batch.num_rows:
                    yield _named(batch, types)
    except TABLE_ERRORS as error:
        raise FormatError(path, None, "columns of the types in docs/capture.md", _reason(error), _HINT) from None


@contextmanager
def _open_table(snapshot: Snapshot, path: str, types: Mapping[str, pa.DataType]) -> Iterator[Iterator[pa.RecordBatch]]:
    with snapshot.open_file(path) as stream:
        if path.endswith(".parquet"):
            file = pa.parquet.ParquetFile(stream)
            yield file.iter_batches(columns=[name for name in file.schema_arrow.names if name in types])
        elif path.endswith(".csv"):
            options = pa.csv.ConvertOptions(
                column_types=types, include_columns=list(types), include_missing_columns=True
            )
            yield pa.csv.open_csv(stream, convert_options=options)
        else:
            options = pa.json.ParseOptions(
                explicit_schema=pa.schema(list(types.items())), unexpected_field_behavior="ignore"
            )
            yield pa.json.open_json(stream, parse_options=options)


def _reason(error: Exception) -> str:
    """What pyarrow says, without the row and the value that it quotes: columns that are passed over may hold records."""
    return _QUOTED.sub(r"\1", str(error).splitlines()[0])[:200]


def _named(batch: pa.RecordBatch, types: Mapping[str, pa.DataType]) -> pa.RecordBatch:
    """The batch in the columns of `types`, taken from their aliases where the column itself has nothing."""
    columns = []
    for name, kind in types.items():
        candidates = [name, *(alias for alias, meant in ALIASES.items() if meant == name)]
        given = [batch[one] for one in candidates if one in batch.schema.names]
        chosen = next((one for one in given if one.null_count < len(one)), None)
        columns.append(pa.nulls(len(batch), kind) if chosen is None else _cast(chosen, kind))
    return pa.RecordBatch.from_arrays(columns, names=list(types))


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp("ms", values.type.tz), safe=False)
    values = values.cast(kind)
    if pa.types.is_string(kind):
        values.validate(full=True)  # neither JSON nor Parquet has been checked for UTF-8
    return values


def _column_names(snapshot: Snapshot, path: str) -> set[str]:
    """Names of a table's columns, aliases put right; of JSONL those of the first line."""
    with snapshot.open_file(path) as stream:
        if path.endswith(".parquet"):
            try:
                names: Sequence[str] = pa.parquet.read_schema(stream).names
            except TABLE_ERRORS as error:
                raise FormatError(path, None, "a Parquet file", _reason(error), _HINT) from None
        else:
            head = stream.read(_HEAD_BYTES).decode("utf-8-sig", "replace").lstrip()
            names = _csv_names(head) if path.endswith(".csv") else _json_names(head)
    return {ALIASES.get(name, name) for name in names}


def _csv_names(head: str) -> Sequence[str]:
    try:
        return next(csv.reader(io.StringIO(head.partition("\n")[0])), [])
    except csv.Error:
        return []


def _json_names(head: str) -> Sequence[str]:
    try:
        row = parse_json(head.partition("\n")[0], "", _HINT)
    except FormatError:
        return []
    return list(row) if isinstance(row, dict) else []
