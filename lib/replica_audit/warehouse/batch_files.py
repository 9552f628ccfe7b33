"""Parquet files of `batches`: a scan task writes one for many segments, an audit reads rows of some segments."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from pyarrow import fs

from replica_audit.arrow_rows import numbers_to_arrow, values_to_arrow
from replica_audit.batch_header import BATCH_FIELDS
from replica_audit.bronze_tables import PlacedSegment, SegmentNames
from replica_audit.errors import InputError
from replica_audit.segments.digests import rows_of_chunks
from replica_audit.segments.header_columns import columns_to_headers, headers_to_columns
from replica_audit.warehouse.table_files import TableFileWriter
from replica_audit.warehouse.table_layout import DataFile, open_directory
from replica_audit.warehouse.table_reads import FileRows, damage_sentence

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Buffered rows per conversion to Arrow.
_STEP = 1 << 13

#: Footers that a task keeps, of files that several of its partitions are in.
_OPEN_FILES = 8


class BatchFileWriter:
    """One file of `batches` of many segments; `row` is where those of the next segment begin."""

    def __init__(self, directory: str, constants: Mapping[str, str | None]) -> None:
        self._file = TableFileWriter(directory, "batches", constants)
        self._waiting: list[tuple[SegmentNames, NDArray[np.void]]] = []
        self._waiting_rows = 0

    @property
    def path(self) -> str:
        """Relative to the table."""
        return self._file.path

    @property
    def row(self) -> int:
        return self._file.row_count + self._waiting_rows

    def add(self, names: SegmentNames, rows: NDArray[np.void]) -> None:
        """Write `rows` (`BATCH_DTYPE`) of a segment."""
        if len(rows):
            self._waiting.append((names, rows))
            self._waiting_rows += len(rows)
            if self._waiting_rows >= _STEP:
                self._write()

    def close(self) -> DataFile | None:
        """The file, for the commit; None when no rows came."""
        self._write()
        return self._file.close()

    def discard(self) -> None:
        """Delete the file."""
        self._file.discard()

    def _write(self) -> None:
        if not self._waiting:
            return
        names, rows = zip(*self._waiting, strict=True)
        counts = [len(of_segment) for of_segment in rows]
        segments = numbers_to_arrow(np.repeat(np.arange(len(counts)), counts))
        columns = {
            name: values_to_arrow([getattr(of, name) for of in names], self._file.schema.field(name).type).take(
                segments
            )
            for name in SegmentNames._fields
        }
        self._file.add({**columns, **headers_to_columns(np.concatenate(rows))}, self._waiting_rows)
        self._waiting, self._waiting_rows = [], 0


def read_batches(
    directory: str, segments: Iterable[PlacedSegment], wanted: Mapping[tuple[int, str], Collection[int]]
) -> dict[tuple[int, str], NDArray[np.void]]:
    """Batches (`BATCH_DTYPE`) of the chunks `wanted` of each copy, keyed by (broker id, log dir), in order of the file.

    `segments` are those of one partition, which passed `check_batch_files`.
    """
    found: dict[tuple[int, str], list[NDArray[np.void]]] = defaultdict(list)
    for one in sorted(segments, key=lambda row: row.base_offset):
        chunks = wanted.get((one.broker_id, one.log_dir))
        if chunks and one.batch_count and one.batch_file is not None and one.batch_row is not None:
            for rows in _open_file(directory, one.batch_file).rows(one.batch_row, one.batch_count):
                if len(chosen := rows_of_chunks(rows, chunks)):
                    found[one.broker_id, one.log_dir].append(chosen)
    return {key: np.concatenate(parts) for key, parts in found.items()}


def check_batch_files(directory: str, names: Collection[str | None]) -> None:
    """Raise InputError where the files that segments with batches name are not there, or one names none."""
    if None in names:
        raise InputError(
            "the snapshot was ingested by an earlier version, which did not note where its batches are: run replica-audit "
            "ingest for it again"
        )
    filesystem, root = open_directory(directory)
    named = sorted(name for name in names if name is not None)
    found = filesystem.get_file_info([f"{root}/{name}" for name in named])
    gone = [name for name, info in zip(named, found, strict=True) if info.type != fs.FileType.File]
    if gone:
        what = f"the file {gone[0]} of the table batches is missing (was the table rewritten and vacuumed?)"
        raise InputError(damage_sentence(what))


def open_batches(directory: str, path: str) -> FileRows[NDArray[np.void]]:
    """The batches of a file as arrays of `BATCH_DTYPE`."""
    return FileRows(directory, path, list(BATCH_FIELDS), columns_to_headers)


_open_file = lru_cache(maxsize=_OPEN_FILES)(open_batches)
