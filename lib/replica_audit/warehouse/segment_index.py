"""Rows of `segments` without their summaries, which grow with the log and are read by tasks only."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import pyarrow as pa

from replica_audit.arrow_rows import arrow_schema, arrow_to_rows
from replica_audit.bronze_tables import BRONZE_TABLES
from replica_audit.warehouse.delta_tables import Warehouse
from replica_audit.warehouse.table_layout import columns_of, open_directory
from replica_audit.warehouse.table_reads import ROW_NUMBER, FileRows, read_file

TABLE = "segments"

#: Files that are open at once; of each one row group is kept.
_OPEN_FILES = 16

#: Segments are opened ahead in threads, and a Parquet file is read by one at a time.
_lock = threading.Lock()

_ORDER = ("topic", "partition", "broker_id", "path")


def placed_segments(warehouse: Warehouse, *, snapshot_id: str | None, ingest_id: str | None) -> list[dict[str, Any]]:
    """Rows of `segments` of an attempt, in order of partition, broker and path.

    In place of `summary` they have `summary_file`, relative to the table, and `summary_row`, its number in that file.
    """
    names = [column.name for column in BRONZE_TABLES[TABLE] if column.name != "summary"]
    known = arrow_schema(columns_of(TABLE))
    schema = pa.schema([*(known.field(name) for name in names), pa.field(ROW_NUMBER, pa.int64())])
    filesystem, root = open_directory(warehouse.directory(TABLE))
    found = []
    for path in warehouse.files(TABLE, snapshot_id):
        of_ingest = {"ingest_id": [ingest_id]}
        rows = read_file(filesystem, f"{root}/{path}", schema, {"snapshot_id": snapshot_id}, of_ingest)
        found += [{**row, "summary_file": path} for row in arrow_to_rows(rows)]
    return sorted(found, key=lambda row: [row[name] for name in _ORDER])


def read_summaries(directory: str, rows: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """`rows` as from `placed_segments`, or some of their columns, each with its `summary`; `directory` is that of `segments`."""
    for row in rows:
        yield {**row, "summary": read_summary(directory, row["summary_file"], row["summary_row"])}


def read_summary(directory: str, path: str, row: int) -> str:
    """One summary (JSON). Raises OSError or ArrowException where the file is gone or broken, ValueError where it is shorter."""
    with _lock:
        found = [text for texts in _open_file(directory, path).rows(row, 1) for text in texts]
    if found:
        return found[0]
    raise ValueError(f"{path} of the table {TABLE} has no row {row}")


def _texts(table: pa.Table) -> list[str]:
    return table["summary"].to_pylist()


@lru_cache(maxsize=_OPEN_FILES)
def _open_file(directory: str, path: str) -> FileRows[list[str]]:
    return FileRows(directory, path, ["summary"], _texts)
