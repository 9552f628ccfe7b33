"""Rows of a warehouse for tests: made of a few columns, and read as dicts."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from replica_audit.warehouse.delta_tables import StoredTables


def made(values: Mapping[str, Any]) -> Any:
    """A row with some of its table's columns; the others are null."""
    return namedtuple("Made", values)(**values)


def stored(
    warehouse: StoredTables, table: str, columns: Sequence[str] | None = None, **equals: Any
) -> list[dict[str, Any]]:
    """Rows of a table as dicts, maps in the order of their keys."""
    found = warehouse.read_arrow(table, columns, **equals)
    maps = [field.name for field in found.schema if pa.types.is_map(field.type)]
    return [
        {name: dict(sorted(value)) if name in maps and value is not None else value for name, value in row.items()}
        for row in found.to_pylist()
    ]
