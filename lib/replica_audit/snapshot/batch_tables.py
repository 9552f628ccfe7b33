"""Batch or record metadata as JSONL, CSV or Parquet in place of segments: whose log it describes, and its batches.

A batch table has the columns of the bronze table `batches`, a record table a row for each record. Unknown columns are
ignored; what remains unproven without a column is noted. No column has record contents.
"""

from __future__ import annotations

import csv
import io
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet
from numpy.typing import NDArray

from replica_audit.arrow_rows import arrow_to_numbers
from replica_audit.batch_header import ABSENT, BATCH_COLUMNS
from replica_audit.bronze_tables import BRONZE_TABLES
from replica_audit.errors import FormatError
from replica_audit.literals import SegmentSource
from replica_audit.model import Damage, SegmentFile
from replica_audit.parsing import parse_json
from replica_audit.segments.record_batch import BATCH_DTYPE
from replica_audit.snapshot.provenance import BATCHES, FINGERPRINT, SecondHandLog
from replica_audit.snapshot.storage import Snapshot

#: The columns of the table `batches`, with the widest number types: values that do not fit their field are reported later.
BATCH_TABLE = {
    column.name: {"string": pa.string(), "boolean": pa.bool_()}.get(column.type, pa.int64())
    for column in BRONZE_TABLES["batches"]
}
RECORD_TABLE = {
    **{name: BATCH_TABLE[name] for name in ("broker_id", "log_dir", "topic", "partition")},
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
#: Other names accepted for a column.
ALIASES = {"broker": "broker_id", "epoch": "leader_epoch"}
#: Errors of pyarrow for an unreadable table, including names that are not UTF-8 and duplicate columns.
TABLE_ERRORS = (pa.ArrowException, UnicodeDecodeError, KeyError)
_HINT = "docs/capture.md lists the columns and their types"
_HEAD_BYTES = 1 << 20
_QUOTED = re.compile(r"(, got \d+|couldn't parse):.*|:?\s['\"].*")


class LogKey(NamedTuple):
    """Segment that a row belongs to; without `segment_base_offset` a whole log counts as one segment."""

    broker_id: int
    log_dir: str
    topic: str
    partition: int
    segment_base_offset: int | None


class LogRows(NamedTuple):
    """Rows of one segment in a table: least offset and number."""

    least_offset: int
    row_count: int


def table_kind(snapshot: Snapshot, path: str) -> SegmentSource | None:
    """batch_table or record_table by its columns, None for any other table. Raises OSError and FormatError."""
    names = _column_names(snapshot, path)
    return next((kind for kind, required in _REQUIRED.items() if set(required) <= names), None)


def table_columns(snapshot: Snapshot, path: str, kind: str) -> tuple[str, ...]:
    """Known columns of a table, in the order of `COLUMNS`; in JSONL some may first appear in later lines.

    Raises OSError and FormatError.
    """
    found = _column_names(snapshot, path) & set(COLUMNS[kind])
    if path.endswith(".jsonl"):
        for batch in read_table(snapshot, path, kind):
            found.update(name for name in batch.schema.names if batch[name].null_count < len(batch))
            if len(found) == len(COLUMNS[kind]):
                break
    return tuple(name for name in COLUMNS[kind] if name in found)


def count_table(snapshot: Snapshot, path: str, kind: SegmentSource) -> dict[LogKey, LogRows]:
    """Segments with rows in a table, from one pass over it. Raises OSError and FormatError."""
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
    """A table's rows in file order, with the columns of `COLUMNS`; a missing column is null.

    Raises OSError, and FormatError for a value that does not fit its column's type.
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
    """Error text of pyarrow without the row and value it quotes, since unused columns may hold records."""
    return _QUOTED.sub(r"\1", str(error).splitlines()[0])[:200]


def _named(batch: pa.RecordBatch, types: Mapping[str, pa.DataType]) -> pa.RecordBatch:
    """The batch in the columns of `types`; a missing or empty column is taken from its alias."""
    columns = []
    for name, kind in types.items():
        candidates = [name, *(alias for alias, meant in ALIASES.items() if meant == name)]
        given = [batch[one] for one in candidates if one in batch.schema.names]
        chosen = next((one for one in given if one.null_count < len(one)), None)
        columns.append(pa.nulls(len(batch), kind) if chosen is None else cast_column(chosen, kind))
    return pa.RecordBatch.from_arrays(columns, names=list(types))


def cast_column(values: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """The values as another type; times become milliseconds since the epoch. Raises ArrowException."""
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp("ms", values.type.tz), safe=False)
    values = values.cast(kind)
    if pa.types.is_string(kind):
        values.validate(full=True)  # neither JSON nor Parquet has been checked for UTF-8
    return values


def _column_names(snapshot: Snapshot, path: str) -> set[str]:
    """Column names of a table, with aliases replaced; for JSONL those of the first line."""
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


#: Words of `UNPROVEN` for each column that a batch table may lack.
_BATCH_COLUMNS = {
    "crc": ("batch_checksums", "contents"),
    "crc_valid": ("checksum_verdicts",),
    "size": ("sizes",),
    "position": ("positions",),
    "record_count": ("record_counts",),
    "attributes": ("attributes",),
    "base_timestamp": ("first_timestamps",),
    "max_timestamp": ("timestamps",),
    "producer_id": ("producers",),
}
#: Columns that identify a record, with the words of `UNPROVEN` for those that are missing.
_RECORD_COLUMNS = {
    "timestamp": ("timestamps",),
    "key_size": (),
    "value_size": (),
    "checksum": ("contents",),
    "producer_id": ("producers",),
    "producer_epoch": (),
    "sequence": (),
}


def read_table_rows(snapshot: Snapshot, file: SegmentFile) -> SecondHandLog:
    """The rows of `file.parts` about the segment `file`. Raises OSError and FormatError."""
    paths = sorted({part.path for part in file.parts})
    batches = (batch for path in paths for batch in read_table(snapshot, path, file.source))
    schema = pa.schema(list(COLUMNS[file.source].items()))
    table = pa.Table.from_batches([batch.filter(_belongs(batch, file)) for batch in batches], schema)
    # A table may be exported twice, in overlapping parts, or joined to another: equal rows belong to one batch or record.
    table = table.group_by(table.column_names, use_threads=False).aggregate([])
    columns = {name for part in file.parts for name in part.columns}
    assemble = _assemble_batches if file.source == "batch_table" else _assemble_records
    return assemble(table, columns, file)


def _belongs(batch: pa.RecordBatch, file: SegmentFile) -> pa.Array:
    segment = file.parts[0].segment_base_offset
    mask = pc.equal(pc.fill_null(batch["log_dir"], ""), file.parts[0].log_dir)
    for name in ("broker_id", "topic", "partition"):
        mask = pc.and_(mask, pc.equal(batch[name], getattr(file, name)))
    if "segment_base_offset" in batch.schema.names:
        bases = batch["segment_base_offset"]
        mask = pc.and_(mask, pc.is_null(bases) if segment is None else pc.fill_null(pc.equal(bases, segment), False))
    return mask


def _assemble_batches(table: pa.Table, columns: set[str], file: SegmentFile) -> SecondHandLog:
    unproven = {"checksums", "tail", *_missing(_BATCH_COLUMNS, columns)}
    if table["crc_valid"].null_count:
        unproven.update(_BATCH_COLUMNS["crc_valid"])
    order = "position" if "position" in columns else "base_offset"
    table = table.take(pc.sort_indices(table[order]))
    batches = np.zeros(table.num_rows, BATCH_DTYPE)
    for name in BATCH_COLUMNS:
        _fill(batches, name, table[name], file, {"magic": 2, "size": 0, "attributes": 0}.get(name, ABSENT))
    _check_offsets(batches, file)
    if "record_count" not in columns:
        batches["record_count"] = batches["last_offset"] - batches["base_offset"] + 1
    if "position" not in columns:
        batches["position"] = np.cumsum(batches["size"]) - batches["size"]
    if "leader_epoch" not in columns and (batches["magic"] >= 2).any():
        unproven.add("leader_epochs")
    if {"position", "size"} <= columns and len(kept := _without_overlap(batches)) < len(batches):
        unproven.add("overlap")
        batches = batches[kept]
    needed = {"crc", "size", "crc_valid"} - columns
    form = f"batches without {', '.join(sorted(needed))}" if needed else BATCHES
    damage = tuple(_unlisted_bytes(batches)) if {"position", "size"} <= columns else ()
    size = int((batches["position"] + batches["size"]).max()) if len(batches) else 0
    return SecondHandLog(batches, damage, size, tuple(sorted(unproven)), form)


def _assemble_records(table: pa.Table, columns: set[str], file: SegmentFile) -> SecondHandLog:
    known_by = [name for name in _RECORD_COLUMNS if name in columns]
    unproven = {"batch_checksums", "sizes", "positions", "tail", "attributes", *_missing(_RECORD_COLUMNS, columns)}
    table = table.take(pc.sort_indices(table["offset"]))
    batches = np.zeros(table.num_rows, BATCH_DTYPE)
    names = {
        "base_offset": "offset",
        "last_offset": "offset",
        "base_timestamp": "timestamp",
        "max_timestamp": "timestamp",
        "base_sequence": "sequence",
        **{name: name for name in ("leader_epoch", "magic", "producer_id", "producer_epoch")},
    }
    for name, column in names.items():
        _fill(batches, name, table[column], file, 2 if name == "magic" else ABSENT)
    _check_offsets(batches, file)
    if "leader_epoch" not in columns and (batches["magic"] >= 2).any():
        unproven.add("leader_epochs")
    batches["record_count"], batches["crc_valid"] = 1, True
    for name in ("key_size", "value_size"):
        batches["size"] += np.maximum(arrow_to_numbers(table[name], ABSENT), 0)
    batches["position"] = np.cumsum(batches["size"]) - batches["size"]
    shown = zip(*(arrow_to_numbers(table[name], ABSENT).tolist() for name in known_by), strict=True) if known_by else ()
    batches["crc"] = [FINGERPRINT | zlib.crc32(repr(row).encode("ascii")) for row in shown] or FINGERPRINT
    form = f"records by {', '.join(['offset', *known_by])}"
    return SecondHandLog(batches, (), int(batches["size"].sum()), tuple(sorted(unproven)), form)


def _missing(wanted: dict[str, tuple[str, ...]], columns: set[str]) -> Iterable[str]:
    return (word for name, words in wanted.items() if name not in columns for word in words)


def _fill(batches: NDArray[np.void], name: str, values: pa.ChunkedArray, file: SegmentFile, absent: int) -> None:
    if name == "crc_valid":
        batches[name] = arrow_to_numbers(values, True)
        return
    numbers = arrow_to_numbers(values, absent)
    limits = np.iinfo(BATCH_DTYPE[name])
    wrong = np.flatnonzero((numbers < limits.min) | (numbers > limits.max))
    if len(wrong):
        expected = f"{name} of {limits.min} to {limits.max}"
        raise FormatError(
            file.parts[0].path, None, expected, str(numbers[wrong[0]]), "docs/capture.md lists the columns"
        )
    batches[name] = numbers


def _check_offsets(batches: NDArray[np.void], file: SegmentFile) -> None:
    wrong = np.flatnonzero((batches["base_offset"] < 0) | (batches["last_offset"] < batches["base_offset"]))
    if len(wrong):
        row = batches[wrong[0]]
        found = f"offsets {row['base_offset']} to {row['last_offset']}"
        raise FormatError(
            file.parts[0].path, None, "offsets from 0 on, the last not below the base", found, "mend the table"
        )


def _without_overlap(batches: NDArray[np.void]) -> list[int]:
    """Indexes of the batches, in order of position, that do not overlap the one before."""
    kept, end = [], 0
    for index, (position, size) in enumerate(zip(batches["position"].tolist(), batches["size"].tolist(), strict=True)):
        if position >= end:
            kept.append(index)
            end = position + size
    return kept


def _unlisted_bytes(batches: NDArray[np.void]) -> Iterator[Damage]:
    """Bytes between two batches without a row in the table: they hold no sound batch, or rows are missing."""
    ends: Sequence[int] = [0, *(batches["position"] + batches["size"]).tolist()]
    starts = batches["position"].tolist()
    for index, (end, start) in enumerate(zip(ends, starts, strict=False)):
        if start > end:
            before = int(batches["last_offset"][index - 1]) + 1 if index else None
            reason = f"the table has no batch for the {start - end} bytes from {end} on"
            yield Damage(end, start - end, reason, "corrupt", before, int(batches["base_offset"][index]))
