"""Parquet files that tasks write into a table's directory, and that the driver commits; those of `batches` are read by segment."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyarrow import fs

from replica_audit.arrow_rows import arrow_schema, numbers_to_arrow, rows_to_arrow, value_to_arrow, values_to_arrow
from replica_audit.batch_header import BATCH_COLUMNS
from replica_audit.bronze_tables import PlacedSegment, SegmentNames
from replica_audit.errors import InputError
from replica_audit.row_classes import Row
from replica_audit.segments.digests import rows_of_chunks
from replica_audit.segments.header_columns import columns_to_headers, headers_to_columns
from replica_audit.warehouse.table_layout import DataFile, columns_of, key_of, open_directory
from replica_audit.warehouse.table_reads import FileRows, damage_sentence

#: Default number of rows in a row group, which is written at once.
GROUP_ROWS = 1 << 16


class TableFileWriter:
    """One file of rows of `table`, created with the first rows, under a name unique to each attempt of a task.

    `constants` are the ids in front of every row; the column that the table is partitioned by is in no file. Long rows need
    smaller groups (`group_rows`), since readers take a group at a time.
    """

    def __init__(
        self, directory: str, table: str, constants: Mapping[str, str | None], group_rows: int = GROUP_ROWS
    ) -> None:
        self._filesystem, self._root = open_directory(directory)
        self._constants, self._group_rows = constants, group_rows
        self.schema = pa.schema([field for field in arrow_schema(columns_of(table)) if field.name != key_of(table)])
        self.path = f"{uuid.uuid4().hex}.parquet"
        self.row_count = 0
        self._stream: pa.NativeFile | None = None
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0

    def add(self, columns: Mapping[str, object], count: int) -> None:
        """Write `count` rows; a column is an Arrow array or one value for all of them; a missing one is null."""
        arrays = []
        for field in self.schema:
            value = self._constants.get(field.name, columns.get(field.name))
            if isinstance(value, pa.ChunkedArray):
                value = value.combine_chunks()
            if isinstance(value, pa.Array):
                arrays.append(value.cast(field.type))
            else:
                arrays.append(pa.repeat(value_to_arrow(value, field.type), count))
        self._waiting.append(pa.RecordBatch.from_arrays(arrays, schema=self.schema))
        self._waiting_rows += count
        self.row_count += count
        if self._waiting_rows >= self._group_rows:
            self._flush()

    def add_arrow(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Write rows in the columns of the table that they are named for."""
        self.add(dict(zip(rows.schema.names, rows.columns, strict=True)), rows.num_rows)

    def add_rows(self, rows: Iterable[Row]) -> None:
        """Write rows of one class."""
        self.add_arrow(rows_to_arrow(rows, self.schema))

    def close(self) -> DataFile | None:
        """The file, for the commit; None if no rows came."""
        self._flush()
        if self._writer is None or self._stream is None:
            return None
        self._writer.close()
        self._stream.close()
        size = self._filesystem.get_file_info(f"{self._root}/{self.path}").size
        return DataFile(self.path, size, self.row_count)

    def discard(self) -> None:
        """Delete what was written, for a task that starts over or cannot continue."""
        if self._stream is not None:
            with suppress(OSError):  # on a full disk nothing more can be written
                if self._writer is not None:
                    self._writer.close()
            with suppress(OSError):
                self._stream.close()
            self._filesystem.delete_file(f"{self._root}/{self.path}")

    def _flush(self) -> None:
        if not self._waiting:
            return
        if self._writer is None:
            self._stream = self._filesystem.open_output_stream(f"{self._root}/{self.path}")
            # Texts repeat from row to row. Numbers increase or stay: delta encoding takes two thirds of the time to write, half
            # of it to read, and half of the space.
            texts = [field.name for field in self.schema if pa.types.is_string(field.type)]
            numbers = [field.name for field in self.schema if field.type in (pa.int32(), pa.int64())]
            self._writer = pq.ParquetWriter(
                self._stream,
                self.schema,
                compression="zstd",
                use_dictionary=texts,
                column_encoding=dict.fromkeys(numbers, "DELTA_BINARY_PACKED"),
            )
        self._writer.write_table(pa.Table.from_batches(self._waiting), row_group_size=2 * self._group_rows)
        self._waiting, self._waiting_rows = [], 0


#: Rows converted to columns at a time: each conversion costs as much as some 20 rows.
_STEP = 512


class RowFiles:
    """A file for each table that gets rows: `directories` of the tables, `constants` and `group_rows` as in `TableFileWriter`."""

    def __init__(
        self, directories: Mapping[str, str], constants: Mapping[str, str | None], group_rows: int = GROUP_ROWS
    ) -> None:
        self._directories, self._constants, self._group_rows = directories, constants, group_rows
        self._writers: dict[str, TableFileWriter] = {}
        self._waiting: dict[str, list[Row]] = defaultdict(list)

    def add(self, rows: Mapping[str, Sequence[Row]]) -> None:
        """Write rows by table; rows of a table without a directory are not written."""
        for table in self._directories:
            self._waiting[table] += rows.get(table, ())
            if len(self._waiting[table]) >= _STEP:
                self._write(table)

    def close(self) -> dict[str, DataFile]:
        """Write the remaining rows and close the files; returns the files by table, for the commit."""
        for table in self._directories:
            self._write(table)
        files = {table: writer.close() for table, writer in self._writers.items()}
        return {table: file for table, file in files.items() if file is not None}

    def discard(self) -> None:
        """Delete what was written, for a task that starts over."""
        for writer in self._writers.values():
            writer.discard()

    def _write(self, table: str) -> None:
        rows = self._waiting.pop(table, ())
        if not rows:
            return
        writer = self._writers.get(table)
        if writer is None:
            writer = TableFileWriter(self._directories[table], table, self._constants, self._group_rows)
            self._writers[table] = writer
        writer.add_rows(rows)


#: Buffered rows per conversion to Arrow.
_BATCHES_AT_ONCE = 1 << 13

#: Footers that a task keeps, for files that several of its partitions are in.
_OPEN_FILES = 8


class BatchFileWriter:
    """One file of `batches` of many segments; `row` is the first row of the next segment."""

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
            if self._waiting_rows >= _BATCHES_AT_ONCE:
                self._write()

    def close(self) -> DataFile | None:
        """The file, for the commit; None if no rows came."""
        self._write()
        return self._file.close()

    def discard(self) -> None:
        self._file.discard()

    def _write(self) -> None:
        if not self._waiting:
            return
        names, rows = zip(*self._waiting, strict=True)
        counts = [len(of_segment) for of_segment in rows]
        segments = numbers_to_arrow(np.repeat(np.arange(len(counts)), counts))
        columns: dict[str, pa.Array] = {}
        for name in SegmentNames._fields:
            values = values_to_arrow([getattr(of, name) for of in names], self._file.schema.field(name).type)
            columns[name] = values.take(segments)
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
    return {key: parts[0] if len(parts) == 1 else np.concatenate(parts) for key, parts in found.items()}


def check_batch_files(directory: str, names: Collection[str]) -> None:
    """Raise InputError if a file named by segments with batches is missing."""
    filesystem, root = open_directory(directory)
    named = sorted(names)
    found = filesystem.get_file_info([f"{root}/{name}" for name in named])
    gone = [name for name, info in zip(named, found, strict=True) if info.type != fs.FileType.File]
    if gone:
        what = f"the file {gone[0]} of the table batches is missing (was the table rewritten and vacuumed?)"
        raise InputError(damage_sentence(what))


def open_batches(directory: str, path: str) -> FileRows[NDArray[np.void]]:
    """The batches of a file as arrays of `BATCH_DTYPE`."""
    return FileRows(directory, path, list(BATCH_COLUMNS), columns_to_headers)


_open_file = lru_cache(maxsize=_OPEN_FILES)(open_batches)
