"""Rows of `segments` without their summaries, which grow with the log and are read by tasks only."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from replica_audit.arrow_rows import arrow_schema, arrow_to_rows
from replica_audit.bronze_tables import PlacedSegment
from replica_audit.model import SegmentSummary
from replica_audit.segments.summary import summary_from_json
from replica_audit.warehouse.delta_tables import Warehouse
from replica_audit.warehouse.table_layout import columns_of, open_directory
from replica_audit.warehouse.table_reads import ROW_NUMBER, FileRows, WantedPlaces, read_file

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
    known = arrow_schema(columns_of(TABLE))
    return pa.schema([*(known.field(name) for name in _COLUMNS), pa.field(ROW_NUMBER, pa.int64())])


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

    def read(self, places: WantedPlaces | None = None) -> list[PlacedSegment]:
        """The rows, of `places` where these are given, in order of partition, broker and path."""
        schema = segment_schema()
        filesystem, root = open_directory(self.directory)
        of_snapshot: dict[str | None, str | None] = {"snapshot_id": self.snapshot_id}
        of_ingest = {"ingest_id": [self.ingest_id]}
        found: list[PlacedSegment] = []
        for path in self.paths:
            found += place_segments(
                read_file(filesystem, f"{root}/{path}", schema, of_snapshot, of_ingest, places), path
            )
        return sorted(found, key=lambda row: (row.topic, row.partition, row.broker_id, row.path))


def placed_segments(warehouse: Warehouse, *, snapshot_id: str | None, ingest_id: str | None) -> list[PlacedSegment]:
    """All rows of `segments` of an attempt (`PlacedSegments.read`)."""
    return PlacedSegments.of(warehouse, snapshot_id=snapshot_id, ingest_id=ingest_id).read()


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
