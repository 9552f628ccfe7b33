"""Observations of replicas over time: `replica_progress` as JSON lines, CSV or Parquet, read part by part.

A row is one replica at one moment (columns: `PROGRESS_SCHEMA`); the rows of one topic, partition, `time_ms` and `sequence`
are one observation, with equal values for the leader. A file is cut into parts for many tasks; a part is converted to Arrow
columns at once, and row by row only if that fails.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from replica_audit.arrow_rows import arrow_schema, value_to_arrow, values_to_arrow
from replica_audit.bronze_tables import BRONZE_TABLES
from replica_audit.errors import FormatError
from replica_audit.parsing import INT32, INT64, is_whole, matches, parse_json, parse_whole
from replica_audit.schema import QuarantineRow
from replica_audit.snapshot.batch_tables import TABLE_ERRORS, cast_column
from replica_audit.snapshot.log_dir_names import progress_form
from replica_audit.snapshot.storage import Snapshot
from replica_audit.text import count

#: Columns of the table `replica_progress` that a file may have.
PROGRESS_SCHEMA = arrow_schema([column for column in BRONZE_TABLES["replica_progress"] if column.name != "problem"])
REQUIRED = ("topic", "partition", "broker_id")
#: -1 means absent; in `known_log_end_offset` it means that a new leader has seen no fetch yet.
_MINUS_ONE_IS_NONE = ("leader_id", "leader_epoch", "log_end_offset", "last_caught_up_ms", "high_watermark")
LISTS = ("isr", "pending_isr")
HINT = "docs/capture.md has the columns of replica_progress"


def from_columns(table: pa.Table) -> pa.Table:
    """Any table's columns converted to those of the schema. Raises FormatError or an ArrowException for a type that does not fit."""
    columns = []
    for field in PROGRESS_SCHEMA:
        if field.name not in table.column_names:
            if field.name in REQUIRED:
                raise FormatError(
                    "replica_progress", None, f"the column {field.name}", ", ".join(table.column_names), HINT
                )
            column = pa.nulls(table.num_rows, field.type)
        else:
            column = table[field.name]
        if field.name == "time_ms" and "time" in table.column_names:
            column = pc.coalesce(cast_column(column, pa.int64()), _times(table["time"]))
        if field.name in LISTS and pa.types.is_string(column.type):
            column = _ids(column)
        if field.name == "sequence":
            column = pc.fill_null(column.cast(pa.int64()), value_to_arrow(0, pa.int64()))
        column = cast_column(column, field.type)
        if field.name in _MINUS_ONE_IS_NONE:
            absent = pc.less(column, value_to_arrow(0, field.type))
            column = pc.if_else(absent, value_to_arrow(None, field.type), column)
        columns.append(column)
    return pa.table(columns, schema=PROGRESS_SCHEMA)


def _ids(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """`1,2`, `1 2`, `1;2` or `[1, 2]` as lists."""
    plain = pc.utf8_trim_whitespace(pc.replace_substring_regex(column, r"[\[\]{}()]", ""))
    parts = pc.split_pattern_regex(plain, r"[\s,;|]+")
    empty = value_to_arrow((), pa.list_(pa.string()))
    is_empty = pc.equal(plain, value_to_arrow("", pa.string()))
    return pc.if_else(is_empty, empty, parts).cast(pa.list_(pa.int32()))


def _times(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """ISO 8601 (UTC unless a zone is given) as milliseconds."""
    if pa.types.is_timestamp(column.type):
        return cast_column(column, pa.int64())
    zoned = pc.match_substring_regex(column, r"(?:Z|[+-]\d\d:?\d\d)$")
    utc, nothing = (value_to_arrow(text, pa.string()) for text in ("Z", ""))
    whole = pc.if_else(zoned, column, pc.binary_join_element_wise(column, utc, nothing))
    return whole.cast(pa.timestamp("ms", "UTC")).cast(pa.int64())


#: Texts of an empty cell.
NULLS = ("", "null", "NULL", "None", "none")
#: Greatest number of a column.
_GREATEST = {
    field.name: INT32 if field.type == pa.int32() else INT64
    for field in PROGRESS_SCHEMA
    if pa.types.is_integer(field.type)
}


def _no_cells(line: bytes, names: Sequence[str]) -> str | None:
    """Reason why a line of CSV is clearly not a row; None if it may be one."""
    try:
        cells = next(csv.reader([line.decode("utf-8").rstrip("\r\n")]), [])
    except (csv.Error, UnicodeDecodeError) as error:
        return f"no cells: {error}"
    if len(cells) != len(names):
        return f"{len(cells)} cells"
    for name, cell in zip(names, cells, strict=True):
        limit = _GREATEST.get(name)
        if limit is not None and cell.strip() not in NULLS and parse_whole(cell.strip(), -limit - 1, limit) is None:
            return f"{cell[:40]!r} for {name}"
    return None


def _no_object(line: bytes) -> str | None:
    """Reason why a line of JSON is clearly not a row; None if it may be one."""
    try:
        row = parse_json(line, "", "")
    except FormatError:
        return "no JSON"
    if not isinstance(row, dict):
        return "no object"
    for field in PROGRESS_SCHEMA:
        value = row.get(field.name)
        if value is None:
            continue
        limit = _GREATEST.get(field.name)
        if limit is not None:
            fits = is_whole(value, -limit - 1, limit)
        elif pa.types.is_list(field.type):
            fits = isinstance(value, list) and all(one is None or is_whole(one, -INT32 - 1) for one in value)
        else:
            fits = isinstance(value, bool if pa.types.is_boolean(field.type) else str)
        if not fits:
            return f"{str(value)[:40]!r} for {field.name}"
    return None


#: Maximum number of halvings of groups of lines to find bad ones.
_HALVINGS = 500
_GREATEST_HEADER = 64 << 10


def from_text(path: str, form: str, header: bytes, data: bytes, position: int) -> tuple[pa.Table, list[QuarantineRow]]:
    """The rows in complete lines at `position` of their file, and a quarantine row for each other line."""
    if position == 0 and data.startswith(b"\xef\xbb\xbf"):
        data = data[3:]
    names = _header_names(path, header) if form == "csv" else []
    if not data.strip():
        return PROGRESS_SCHEMA.empty_table(), []
    try:
        return _parse(form, names, data), []
    except (pa.ArrowException, FormatError):
        return _find_rows(path, form, names, data, position)


def _find_rows(
    path: str, form: str, names: list[str], data: bytes, position: int
) -> tuple[pa.Table, list[QuarantineRow]]:
    """Lines that are rows, and a quarantine row for each other line. Arrow decides on many lines at once: lines that are
    clearly not rows are removed first, and a group that Arrow rejects is halved, up to `_HALVINGS` times."""
    lines: list[tuple[int, bytes]] = []
    bad: list[tuple[int, bytes, str]] = []
    at = position
    for line in data.splitlines(keepends=True):
        if line.strip():
            reason = _no_cells(line, names) if form == "csv" else _no_object(line)
            if reason is None:
                lines.append((at, line if line.endswith(b"\n") else line + b"\n"))
            else:
                bad.append((at, line, reason))
        at += len(line)
    tables, groups, left = [], [lines] if lines else [], _HALVINGS
    while groups:
        group = groups.pop()
        text = b"".join(line for _, line in group)
        try:
            tables.append(_parse(form, names, text))
        except (pa.ArrowException, FormatError) as error:
            half = len(group) // 2
            if half and left:
                left -= 1
                groups += [group[half:], group[:half]]
            else:
                bad += [(at, line, " ".join(str(error).split())[:120]) for at, line in group]
    rows = [
        QuarantineRow.of(
            "INPUT-IGNORED",
            path,
            f"expected a row of replica_progress, found {reason}; {HINT}",
            position=at,
            length=len(line),
        )
        for at, line, reason in sorted(bad)
    ]
    return pa.concat_tables(tables) if tables else PROGRESS_SCHEMA.empty_table(), rows


def _parse(form: str, names: list[str], data: bytes) -> pa.Table:
    return from_columns(_parse_csv(names, data) if form == "csv" else _parse_json(data))


def _parse_json(data: bytes) -> pa.Table:
    fields = [*PROGRESS_SCHEMA, pa.field("time", pa.string())]
    options = pa.json.ParseOptions(explicit_schema=pa.schema(fields), unexpected_field_behavior="ignore")
    read = pa.json.ReadOptions(block_size=max(1 << 20, len(data) + 1))
    return pa.json.read_json(io.BytesIO(data), read, options)


def _parse_csv(names: list[str], data: bytes) -> pa.Table:
    types = {field.name: pa.string() if field.name in LISTS else field.type for field in PROGRESS_SCHEMA}
    convert = pa.csv.ConvertOptions(
        column_types={name: types.get(name, pa.string()) for name in names},
        null_values=list(NULLS),
        strings_can_be_null=True,
        quoted_strings_can_be_null=True,
        true_values=["true", "True", "TRUE", "1"],
        false_values=["false", "False", "FALSE", "0"],
    )
    read = pa.csv.ReadOptions(column_names=names, block_size=max(1 << 20, len(data) + 1))
    return pa.csv.read_csv(io.BytesIO(data), read, pa.csv.ParseOptions(newlines_in_values=False), convert)


def _header_names(path: str, header: bytes) -> list[str]:
    if len(header) > _GREATEST_HEADER:
        raise FormatError(path, 0, f"a header of at most {_GREATEST_HEADER} bytes", f"{len(header)} bytes", HINT)
    try:
        names = [name.strip() for name in next(csv.reader([header.decode("utf-8-sig").strip()]), [])]
    except csv.Error as error:
        raise FormatError(path, 0, "a header, and lines that end in LF or CRLF", str(error), HINT) from None
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise FormatError(path, 0, "each column once", f"{twice[0][:80]!r} twice", HINT)
    lacking = [name for name in REQUIRED if name not in names]
    if lacking:
        raise FormatError(
            path, 0, f"a header with the columns {', '.join(REQUIRED)}, time_ms", f"none called {lacking[0]}", HINT
        )
    return names


#: Bytes of text in a part.
PART_BYTES = 32 << 20
#: Unusable rows of a part that are reported one by one; the rest are counted.
_TOLD = 20


class ProgressPart(NamedTuple):
    """A piece of a file for one task: bytes [start, end) of a text, or row groups [start, end) of Parquet."""

    path: str
    form: str
    start: int
    end: int


def plan_progress(snapshot: Snapshot, files: Iterable[tuple[str, int]]) -> Iterator[ProgressPart | QuarantineRow]:
    """Parts of the files (path, size); a quarantine row for a file that cannot be divided."""
    for path, size in files:
        form = progress_form(path)
        if form is None:
            raise ValueError(f"{path} is not called as observations are")
        if form != "parquet":
            yield from (ProgressPart(path, form, at, min(size, at + PART_BYTES)) for at in range(0, size, PART_BYTES))
            continue
        try:
            with snapshot.open_file(path) as stream:
                groups = pq.ParquetFile(stream).num_row_groups
        except (OSError, *TABLE_ERRORS) as error:
            yield _problem(path, None, str(error))
            continue
        yield from (ProgressPart(path, form, group, group + 1) for group in range(groups))


def read_progress(
    snapshot: Snapshot, part: ProgressPart, topics: Sequence[str] = ()
) -> Iterator[pa.Table | QuarantineRow]:
    """Tables of `PROGRESS_SCHEMA`, filtered to topics that match a shell pattern, and rows for unusable parts."""
    bad: list[QuarantineRow] = []
    try:
        with snapshot.open_file(part.path) as stream:
            if part.form == "parquet":
                group = pq.ParquetFile(stream).read_row_groups(list(range(part.start, part.end)))
                found = from_columns(group)
            else:
                header, data, position = _cut(stream, part)
                found, bad = from_text(part.path, part.form, header, data, position)
    except (OSError, *TABLE_ERRORS) as error:
        yield _problem(part.path, part.start if part.form != "parquet" else None, str(error))
        return
    except FormatError as error:
        yield QuarantineRow.of("CAP-UNREADABLE", part.path, error)
        return
    yield from bad[:_TOLD]
    if len(bad) > _TOLD:
        text = f"{count(len(bad) - _TOLD, 'more unusable row')} from here on"
        yield _problem(part.path, bad[_TOLD].position, text, "INPUT-IGNORED")
    whole = pc.is_valid(found["time_ms"])
    for name in REQUIRED:
        whole = pc.and_(whole, pc.is_valid(found[name]))
    lacking = found.num_rows - pc.sum(whole).as_py() if found.num_rows else 0
    if lacking:
        text = f"{count(lacking, 'row')} without a topic, partition, time or broker_id"
        yield _problem(part.path, part.start if part.form != "parquet" else None, text, "INPUT-IGNORED")
        found = found.filter(whole)
    if topics:
        names = [one for one in pc.unique(found["topic"]).to_pylist() if matches(topics, one)]
        found = found.filter(pc.is_in(found["topic"], values_to_arrow(names, pa.string())))
    if found.num_rows:
        yield found


def _cut(stream: BinaryIO, part: ProgressPart) -> tuple[bytes, bytes, int]:
    """Header line (CSV only), the lines that begin in the part, and the position of the first of them."""
    header = b""
    if part.form == "csv":
        stop = _next_line(stream, 1)
        stream.seek(0)
        header = stream.read(stop)
    start = max(len(header), _next_line(stream, part.start))
    end = _next_line(stream, part.end)
    if start >= end:
        return header, b"", start
    stream.seek(start)
    return header, stream.read(end - start), start


def _next_line(stream: BinaryIO, position: int) -> int:
    """Start of the first line at or after `position`."""
    if position == 0:
        return 0
    stream.seek(position - 1)
    at = position - 1
    while chunk := stream.read(64 << 10):
        found = chunk.find(b"\n")
        if found >= 0:
            return at + found + 1
        at += len(chunk)
    return at


def _problem(path: str, position: int | None, reason: str, code: str = "CAP-UNREADABLE") -> QuarantineRow:
    text = f"{path}: expected rows of replica_progress, found {' '.join(reason.split())[:200]}; {HINT}"
    return QuarantineRow.of(code, path, text, position=position)
