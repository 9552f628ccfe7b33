"""Parquet files that tasks write into a table's directory, and that the driver commits."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet as pq

from replica_audit.arrow_rows import arrow_schema, rows_to_arrow, value_to_arrow
from replica_audit.schema import Row
from replica_audit.warehouse.table_layout import DataFile, columns_of, key_of, open_directory

#: Rows that are written at once, as one row group, unless told.
GROUP_ROWS = 1 << 16


class TableFileWriter:
    """One file of rows of `table`, made when the first rows come, with a name of its own for each attempt of a task.

    `constants` are the ids in front of every row; the column that the table is partitioned by is in no file. Long rows
    are written in groups of fewer, `group_rows`, since readers take a group at a time.
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
        """Write `count` rows; a column is an Arrow array, or one value for all of them, and null where there is none."""
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

    def close(self) -> DataFile | None:
        """The file, for the commit; None when no rows came."""
        self._flush()
        if self._writer is None or self._stream is None:
            return None
        self._writer.close()
        self._stream.close()
        size = self._filesystem.get_file_info(f"{self._root}/{self.path}").size
        return DataFile(self.path, size, self.row_count)

    def discard(self) -> None:
        """Delete what was written, for a task that begins anew or cannot go on."""
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
            # Texts repeat from row to row. Numbers rise or stay: their differences are packed in fewer bits, which takes two
            # thirds of the time to write, half of it to read, and half of the space.
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


#: Rows that become columns at once.
_STEP = 64


class RowFiles:
    """A file for each table that gets rows: `directories` of the tables, `constants` and `group_rows` as in
    `TableFileWriter`."""

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
        """The files by table, for the commit."""
        for table in self._directories:
            self._write(table)
        files = {table: writer.close() for table, writer in self._writers.items()}
        return {table: file for table, file in files.items() if file is not None}

    def discard(self) -> None:
        """Delete what was written, for a task that begins anew."""
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
        found = rows_to_arrow(rows, writer.schema)
        writer.add(dict(zip(found.schema.names, found.columns, strict=True)), found.num_rows)
