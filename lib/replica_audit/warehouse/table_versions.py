"""Tables that another version of the project wrote: later ones are refused, earlier ones get the columns that came since."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from replica_audit import __version__
from replica_audit.errors import InputError
from replica_audit.tables import SCHEMA_VERSION, Column
from replica_audit.warehouse.arrow_types import arrow_schema

#: A table's description, which says what schema its rows have.
DESCRIPTION = f"replica-audit, schema {SCHEMA_VERSION}"
_SCHEMA = re.compile(r"replica-audit, schema (\d{1,9})")


def open_at_this_version(name: str, handle: Any, columns: Iterable[Column]) -> Any:
    """The handle of the table `name`, with all `columns`.

    Raises InputError where a later version of the project gave its rows a meaning that this one does not know.
    """
    described = _SCHEMA.fullmatch(handle.metadata().description or "")
    found = int(described[1]) if described else 1
    if found > SCHEMA_VERSION:
        raise InputError(
            f"{name} was written by a later version of replica-audit: its schema is {found}, expected "
            f"at most {SCHEMA_VERSION}; upgrade (this is {__version__}), or give another --warehouse"
        )
    known = {column.name for column in handle.schema().fields}
    new = [column for column in columns if column.name not in known]
    if new:
        from deltalake import Schema

        handle.alter.set_table_description(DESCRIPTION)
        handle.alter.add_columns(Schema.from_arrow(arrow_schema(new)).fields)
        handle.update_incremental()
    return handle


def with_dropped_columns(data: pa.Table, handle: Any) -> pa.Table:
    """`data` with nulls for columns that an earlier version wrote and this one does not."""
    for field in pa.schema(handle.schema().to_arrow()):
        if field.name not in data.schema.names:
            data = data.append_column(field.name, pa.nulls(data.num_rows, field.type))
    return data
