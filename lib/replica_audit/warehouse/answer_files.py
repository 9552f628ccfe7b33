"""Report rows of a task in Parquet files of their tables, where they are too many to be handed to the driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from replica_audit.warehouse.arrow_types import rows_to_arrow
from replica_audit.warehouse.delta_tables import DataFile
from replica_audit.warehouse.table_files import TableFileWriter


class AnswerFiles:
    """A file for each table that gets rows: `directories` of the tables, `constants` as in `TableFileWriter`."""

    def __init__(self, directories: Mapping[str, str], constants: Mapping[str, str | None]) -> None:
        self._directories, self._constants = directories, constants
        self._writers: dict[str, TableFileWriter] = {}

    def add(self, rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        """Write rows by table; those of a table without a directory are nobody's."""
        for table, directory in self._directories.items():
            if not rows.get(table):
                continue
            writer = self._writers.get(table)
            if writer is None:
                writer = self._writers[table] = TableFileWriter(directory, table, self._constants)
            found = rows_to_arrow(rows[table], writer.schema)
            writer.add(dict(zip(found.schema.names, found.columns, strict=True)), found.num_rows)

    def close(self) -> dict[str, DataFile]:
        """The files by table, for the commit."""
        files = {table: writer.close() for table, writer in self._writers.items()}
        return {table: file for table, file in files.items() if file is not None}
