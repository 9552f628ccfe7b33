"""The data files of one version of a Delta table, read one by one into the columns that are asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from replica_audit.arrow_arrays import value_to_arrow, values_to_arrow
from replica_audit.errors import EngineError, InputError

if TYPE_CHECKING:
    from deltalake import DeltaTable


def damage_sentence(what: str, warehouse: str | None = None) -> str:
    """The error for a damaged warehouse: `what` is wrong with it, and what to do."""
    name = f"the warehouse {warehouse}" if warehouse else "the warehouse"
    remedy = "restore it, or move the warehouse away and run again, which reads the snapshot from the start"
    return f"{name} is damaged: {what}; {remedy}"


def list_files(handle: DeltaTable, key: str | None, before: datetime | None = None) -> list[tuple[str, str | None]]:
    """Path, relative to the table, and partition of each file of its version, in order of the path; `before`: of files
    that were committed before it.

    Files are read one by one: deltalake's data set skips those whose statistics lack a column, and it is not in all.
    """
    if handle.protocol().min_reader_version > 1:
        raise InputError(f"{handle.table_uri} is a Delta table with reader features, expected none: turn them off")
    actions = pa.table(handle.get_add_actions(flatten=True)).to_pylist()
    moment = None if before is None else before.timestamp() * 1000
    actions = [row for row in actions if moment is None or _milliseconds(row["modification_time"]) < moment]
    return sorted((unquote(row["path"]), row[f"partition.{key}"] if key else None) for row in actions)


def count_rows(handle: DeltaTable, column: str | None, key: str | None) -> int:
    """Rows of the files of one partition of a table, as their commits say; every writer of ours says it."""
    actions = pa.table(handle.get_add_actions(flatten=True)).to_pylist()
    return sum(row["num_records"] or 0 for row in actions if column is None or row[f"partition.{column}"] == key)


def _milliseconds(time: int | datetime) -> float:
    """Deltalake gives a number or a time without zone, by version."""
    return time if isinstance(time, int) else time.replace(tzinfo=timezone.utc).timestamp() * 1000


def read_file(
    filesystem: fs.FileSystem,
    path: str,
    schema: pa.Schema,
    partition: Mapping[str | None, str | None],
    wanted: Mapping[str, Sequence[str | None]],
) -> pa.Table:
    """Rows of one file in the columns of `schema`; one that it does not have is the partition's, or null.

    Raises EngineError for a file that is gone or broken.
    """
    # One column at least: a table without any has no count of rows.
    needed = {*schema.names, *wanted, "cluster_id"} - set(partition)
    try:
        with filesystem.open_input_file(path) as stream:
            file = pq.ParquetFile(stream)
            found = file.read(columns=[name for name in file.schema_arrow.names if name in needed])
    except (FileNotFoundError, pa.ArrowInvalid) as error:
        what = "is missing" if isinstance(error, FileNotFoundError) else "is not a whole Parquet file"
        raise EngineError(damage_sentence(f"{path} {what}")) from error
    # An update by deltalake writes string views, which few functions take.
    texts = [pa.field(one.name, pa.string()) if pa.types.is_string_view(one.type) else one for one in found.schema]
    found = found.cast(pa.schema(texts))
    for name, values in wanted.items():
        if name in found.schema.names:
            found = found.filter(pc.is_in(found[name], values_to_arrow(values, pa.string())))
        elif name not in partition and None not in values:
            found = found.slice(0, 0)
    columns = []
    for column in schema:
        if column.name in found.schema.names:
            columns.append(found[column.name].cast(column.type))
        else:
            columns.append(pa.repeat(value_to_arrow(partition.get(column.name), column.type), found.num_rows))
    return pa.table(columns, schema=schema)
