"""Rows of `segments` without their summaries, which grow with the log and are read by tasks only."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa

from replica_audit.arrow_rows import arrow_schema, arrow_to_rows
from replica_audit.bronze_tables import BRONZE_TABLES
from replica_audit.warehouse.delta_tables import Warehouse
from replica_audit.warehouse.table_layout import columns_of, open_directory
from replica_audit.warehouse.table_reads import ROW_NUMBER, FileRows, WantedPlaces, read_file

TABLE = "segments"

#: Files that are open at once; of each one row group is kept.
_OPEN_FILES = 16

#: Segments are opened ahead in threads, and a Parquet file is read by one at a time.
_lock = threading.Lock()

_ORDER = ("topic", "partition", "broker_id", "path")


@dataclass(frozen=True, slots=True)
class PlacedSegments:
    """The files with the rows of `segments` of one attempt."""

    directory: str
    paths: tuple[str, ...]
    snapshot_id: str | None
    ingest_id: str | None

    @classmethod
    def of(cls, warehouse: Warehouse, *, snapshot_id: str | None, ingest_id: str | None) -> PlacedSegments:
        """Those of an attempt in a warehouse."""
        paths = tuple(warehouse.files(TABLE, snapshot_id))
        return cls(warehouse.directory(TABLE), paths, snapshot_id, ingest_id)

    def read(self, places: WantedPlaces | None = None) -> list[dict[str, Any]]:
        """The rows, of `places` where these are given, in order of partition, broker and path.

        In place of `summary` they have `summary_file`, relative to the table, and `summary_row`, its number in that file.
        """
        names = [column.name for column in BRONZE_TABLES[TABLE] if column.name != "summary"]
        known = arrow_schema(columns_of(TABLE))
        schema = pa.schema([*(known.field(name) for name in names), pa.field(ROW_NUMBER, pa.int64())])
        filesystem, root = open_directory(self.directory)
        of_snapshot: dict[str | None, str | None] = {"snapshot_id": self.snapshot_id}
        of_ingest = {"ingest_id": [self.ingest_id]}
        found = []
        for path in self.paths:
            rows = read_file(filesystem, f"{root}/{path}", schema, of_snapshot, of_ingest, places)
            found += [{**row, "summary_file": path} for row in arrow_to_rows(rows)]
        return sorted(found, key=lambda row: [row[name] for name in _ORDER])


def placed_segments(warehouse: Warehouse, *, snapshot_id: str | None, ingest_id: str | None) -> list[dict[str, Any]]:
    """All rows of `segments` of an attempt (`PlacedSegments.read`)."""
    return PlacedSegments.of(warehouse, snapshot_id=snapshot_id, ingest_id=ingest_id).read()


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
