"""Rows of `segments` without their summaries, which grow with the log and are read by tasks only."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import lru_cache

import pyarrow as pa

from replica_audit.arrow_rows import arrow_to_rows
from replica_audit.bronze_tables import PlacedSegment
from replica_audit.model import SegmentSummary
from replica_audit.segments.summary import summary_from_json
from replica_audit.warehouse.delta_tables import Warehouse
from replica_audit.warehouse.table_layout import schema_of
from replica_audit.warehouse.table_reads import ROW_NUMBER, FileRows, PlacedFiles, WantedPlaces

TABLE = "segments"

#: Files that are open at once; of each one row group is kept.
_OPEN_FILES = 16

#: Segments are opened ahead in threads, and a Parquet file is read by one at a time.
_lock = threading.Lock()

#: Columns of a `PlacedSegment` that its own row has.
_COLUMNS = [name for name in PlacedSegment._fields if name not in ("summary_file", ROW_NUMBER)]


def place_segments(rows: pa.Table, path: str) -> Iterator[PlacedSegment]:
    """Rows of the file at `path` below `segments`, with their numbers in it."""
    return arrow_to_rows(rows.append_column("summary_file", pa.repeat(pa.scalar(path), rows.num_rows)), PlacedSegment)


def segment_schema() -> pa.Schema:
    """What `place_segments` reads of a file."""
    return schema_of(TABLE, _COLUMNS).append(pa.field(ROW_NUMBER, pa.int64()))


def segment_files(warehouse: Warehouse, *, snapshot_id: str | None, ingest_id: str | None) -> PlacedFiles:
    """The files with the rows of an attempt."""
    return warehouse.placed_files(TABLE, snapshot_id, ingest_id=ingest_id)


def placed_segments(files: PlacedFiles, places: WantedPlaces | None = None) -> list[PlacedSegment]:
    """The rows of `files`, of `places` where these are given, in order of partition, broker and path."""
    read = files.read(segment_schema(), places)
    found = (row for path, rows in read for row in place_segments(rows, path))
    return sorted(found, key=lambda row: (row.topic, row.partition, row.broker_id, row.path))


def read_summary(directory: str, path: str, row: int) -> SegmentSummary:
    """One summary, `directory` being that of `segments`. Raises OSError or ArrowException where the file is gone or broken, ValueError
    where it is shorter.
    """
    with _lock:
        found = [text for texts in _open_file(directory, path).rows(row, 1) for text in texts]
    if found:
        return summary_from_json(found[0])
    raise ValueError(f"{path} of the table {TABLE} has no row {row}")


def _texts(table: pa.Table) -> list[str]:
    return table["summary"].to_pylist()


@lru_cache(maxsize=_OPEN_FILES)
def _open_file(directory: str, path: str) -> FileRows[list[str]]:
    return FileRows(directory, path, ["summary"], _texts)
