"""Rows of a table's Parquet file by their numbers in it, for tasks that know where in the table theirs are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from replica_audit.warehouse.table_layout import open_directory

#: Rows as `FileRows` gives them: a list or an array.
Rows = TypeVar("Rows")


class FileRows(Generic[Rows]):
    """The `columns` of a file below a table's `directory`, opened once; the row group that was read last is kept.

    `convert` makes of a row group what can be sliced by rows.
    """

    def __init__(self, directory: str, path: str, columns: Sequence[str], convert: Callable[[pa.Table], Rows]) -> None:
        filesystem, root = open_directory(directory)
        self._file = pq.ParquetFile(filesystem.open_input_file(f"{root}/{path}"))
        self._columns, self._convert = list(columns), convert
        metadata = self._file.metadata
        counts = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
        self._starts = np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))
        self._kept: tuple[int, Any] | None = None

    def rows(self, start: int, count: int) -> Iterator[Rows]:
        """Rows [start, start + count) of the file, a row group at a time."""
        end = start + count
        group = int(np.searchsorted(self._starts, start, side="right")) - 1
        while group < len(self._starts) - 1 and self._starts[group] < end:
            rows, first = self._group(group), int(self._starts[group])
            yield rows[max(0, start - first) : end - first]
            group += 1

    def _group(self, number: int) -> Any:
        if self._kept is None or self._kept[0] != number:
            self._kept = number, self._convert(self._file.read_row_group(number, columns=self._columns))
        return self._kept[1]
