"""The columns of `schema` as Arrow schemas, and rows as Arrow tables and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import pyarrow as pa

from replica_audit.arrow_arrays import values_to_arrow
from replica_audit.schema import Column

_PLAIN = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "int": pa.int32(),
    "smallint": pa.int16(),
    "tinyint": pa.int8(),
    "boolean": pa.bool_(),
}


@cache
def arrow_type(ddl: str) -> pa.DataType:
    """The Arrow type of a Spark DDL type, e.g. `array<struct<start:bigint,code:string>>`; ValueError for others."""
    if ddl in _PLAIN:
        return _PLAIN[ddl]
    kind, _, inner = ddl.removesuffix(">").partition("<")
    if kind == "array":
        return pa.list_(arrow_type(inner))
    parts = _split(inner)
    if kind == "map":
        return pa.map_(*map(arrow_type, parts))
    if kind == "struct":
        return pa.struct([(name, arrow_type(of)) for name, _, of in (part.partition(":") for part in parts)])
    raise ValueError(f"{ddl}: no type of a column here")


def arrow_schema(columns: Sequence[Column]) -> pa.Schema:
    """The Arrow schema of `columns`, in their order."""
    return pa.schema([(column.name, arrow_type(column.type)) for column in columns])


def rows_to_arrow(rows: Iterable[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """An Arrow table of `rows`; a key that a row does not have is null, one that `schema` does not have is left out."""
    rows = list(rows)
    columns = [values_to_arrow([row.get(field.name) for row in rows], field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def arrow_to_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Rows as plain dicts, maps as dicts in the order of their keys."""
    rows = table.to_pylist()
    for field in table.schema:
        if pa.types.is_map(field.type):
            for row in rows:
                if row[field.name] is not None:
                    row[field.name] = dict(sorted(row[field.name]))
    return rows


def _split(text: str) -> list[str]:
    """The parts of `text` between the commas that are in no angle brackets."""
    parts, depth, start = [], 0, 0
    for index, character in enumerate(text):
        depth += (character == "<") - (character == ">")
        if character == "," and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    return [*parts, text[start:]]
