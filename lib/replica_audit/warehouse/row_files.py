"""Rows of a task in Parquet files of their tables, where they are, or may be, too many to be handed to the driver."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from replica_audit.warehouse.arrow_types import rows_to_arrow
from replica_audit.warehouse.table_files import GROUP_ROWS, TableFileWriter
from replica_audit.warehouse.table_layout import DataFile

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
        self._waiting: dict[str, list[Mapping[str, Any]]] = defaultdict(list)

    def add(self, rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        """Write rows by table; those of a table without a directory are nobody's."""
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
