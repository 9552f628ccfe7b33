"""Lines of `replica_progress` that are plainly no rows, told cheaply before Arrow reads the others."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence

import pyarrow as pa

from replica_audit.formats.files.side_files import INT32, INT64, is_whole, parse_json, parse_whole
from replica_audit.formats.format_error import FormatError

#: Cells that hold nothing.
NULLS = ("", "null", "NULL", "None", "none")


def plainly_none(form: str, names: Sequence[str], schema: pa.Schema) -> Callable[[bytes], str | None]:
    """A function that says why a line, jsonl or csv with the columns `names`, is not a row; None where it may be
    one.
    """
    greatest = {field.name: INT32 if field.type == pa.int32() else INT64 for field in schema if _is_number(field)}
    if form == "csv":
        return lambda line: _no_cells(line, names, greatest)
    return lambda line: _no_object(line, schema, greatest)


def _is_number(field: pa.Field) -> bool:
    return pa.types.is_integer(field.type)


def _no_cells(line: bytes, names: Sequence[str], greatest: dict[str, int]) -> str | None:
    try:
        cells = next(csv.reader([line.decode("utf-8").rstrip("\r\n")]), [])
    except (csv.Error, UnicodeDecodeError) as error:
        return f"no cells: {error}"
    if len(cells) != len(names):
        return f"{len(cells)} cells"
    for name, cell in zip(names, cells, strict=True):
        limit = greatest.get(name)
        if limit is not None and cell.strip() not in NULLS and parse_whole(cell.strip(), -limit - 1, limit) is None:
            return f"{cell[:40]!r} for {name}"
    return None


def _no_object(line: bytes, schema: pa.Schema, greatest: dict[str, int]) -> str | None:
    try:
        row = parse_json(line, "", "")
    except FormatError:
        return "no JSON"
    if not isinstance(row, dict):
        return "no object"
    for field in schema:
        value = row.get(field.name)
        if value is None:
            continue
        limit = greatest.get(field.name)
        if limit is not None:
            fits = is_whole(value, -limit - 1, limit)
        elif pa.types.is_list(field.type):
            fits = isinstance(value, list) and all(one is None or is_whole(one, -INT32 - 1) for one in value)
        else:
            fits = isinstance(value, bool if pa.types.is_boolean(field.type) else str)
        if not fits:
            return f"{str(value)[:40]!r} for {field.name}"
    return None
