"""Rows of the data files of a Delta table: files filtered by partition, or rows by their numbers in a file."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import accumulate
from typing import TYPE_CHECKING, Generic, TypeVar
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from replica_audit.arrow_rows import arrow_to_rows, numbers_to_arrow, value_to_arrow, values_to_arrow
from replica_audit.errors import EngineError, InputError
from replica_audit.model import TopicPartition
from replica_audit.row_classes import AnyRow, column_names
from replica_audit.warehouse.table_layout import open_directory, schema_of

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from numpy.typing import NDArray


def damage_sentence(what: str, warehouse: str | None = None) -> str:
    """The error for a damaged warehouse: `what` is wrong with it, and the remedy."""
    name = f"the warehouse {warehouse}" if warehouse else "the warehouse"
    remedy = "restore it, or move the warehouse away and run again, which reads the snapshot from the start"
    return f"{name} is damaged: {what}; {remedy}"


def list_files(handle: DeltaTable, key: str | None, before: datetime | None = None) -> list[tuple[str, str | None]]:
    """Path, relative to the table, and partition of each file of its version, in order of the path; `before`: only files
    committed before it.

    Files are read one by one: deltalake's data set skips those whose statistics lack a column, and some lack it.
    """
    if handle.protocol().min_reader_version > 1:
        raise InputError(f"{handle.table_uri} is a Delta table with reader features, expected none: turn them off")
    actions = _actions(handle).to_pylist()
    moment = None if before is None else before.timestamp() * 1000
    actions = [row for row in actions if moment is None or row["modification_time"] < moment]
    return sorted((unquote(row["path"]), row[f"partition.{key}"] if key else None) for row in actions)


def count_rows(handle: DeltaTable, column: str | None, key: str | None) -> int:
    """Rows of the files of one partition of a table, by their commits, which all our writers record."""
    actions = _actions(handle).to_pylist()
    return sum(row["num_records"] or 0 for row in actions if column is None or row[f"partition.{column}"] == key)


def _actions(handle: DeltaTable) -> pa.Table:
    """The commits' entry for each file of a table's version."""
    return pa.RecordBatchReader.from_stream(handle.get_add_actions(flatten=True)).read_all()


#: Columns that name a partition.
PLACE_COLUMNS = ("topic", "partition")
#: Rows of a file that are held at a time.
ROWS_AT_ONCE = 1 << 13
#: Virtual column: the number of a row in its file.
ROW_NUMBER = "summary_row"


_SEPARATOR = value_to_arrow("/", pa.string())


def place_keys(rows: pa.Table) -> pa.ChunkedArray:
    """The partition of each row as one text, 0/orders; null for a row without one."""
    return pc.binary_join_element_wise(rows["partition"].cast(pa.string()), rows["topic"], _SEPARATOR)


def keys_of(places: Iterable[TopicPartition]) -> pa.Array:
    """Partitions in the form of `place_keys`."""
    return values_to_arrow([f"{partition}/{topic}" for topic, partition in places], pa.string())


def place_of_key(key: str) -> TopicPartition:
    """The partition named by a text of `place_keys`."""
    partition, _, topic = key.partition("/")
    return TopicPartition(topic, int(partition))


class WantedPlaces:
    """Partitions whose rows are read; in a file sorted by partition only row groups that may have such rows."""

    def __init__(self, places: Iterable[TopicPartition]) -> None:
        self._places = sorted(places)
        self._keys = keys_of(self._places)

    def groups(self, file: pq.ParquetFile) -> list[int]:
        """Numbers of the row groups that may have rows of these partitions."""
        return [number for number, bounds in enumerate(group_bounds(file)) if self.overlap(bounds)]

    def filter(self, rows: pa.Table) -> pa.Table:
        """`rows` of these partitions only."""
        return rows.filter(pc.is_in(place_keys(rows), self._keys))

    def overlap(self, bounds: Bounds) -> bool:
        """True if one of these partitions may be within `bounds`."""
        if bounds is None:
            return True
        return bisect_left(self._places, bounds[0]) < bisect_right(self._places, bounds[1])


#: The least and the greatest partition of some rows, by topic and number; None if unknown.
Bounds = tuple[TopicPartition, TopicPartition] | None


def group_bounds(file: pq.ParquetFile) -> Iterator[Bounds]:
    """Bounds of each row group of a file."""
    names = [file.metadata.schema.column(number).path for number in range(file.metadata.num_columns)]
    columns = [names.index(name) for name in PLACE_COLUMNS]
    for number in range(file.num_row_groups):
        group = file.metadata.row_group(number)
        topics, partitions = (group.column(column).statistics for column in columns)
        if topics is None or partitions is None or not (topics.has_min_max and partitions.has_min_max):
            yield None
        else:
            yield TopicPartition(topics.min, partitions.min), TopicPartition(topics.max, partitions.max)


def file_bounds(filesystem: fs.FileSystem, path: str) -> Bounds:
    """Bounds of all rows of a file. Raises EngineError for a missing or broken one."""
    with _opened(filesystem, path) as file:
        bounds = list(group_bounds(file))
    known = [one for one in bounds if one is not None]
    if not known or len(known) < len(bounds):
        return None
    return min(first for first, _ in known), max(last for _, last in known)


def _parquet(filesystem: fs.FileSystem, stream: pa.NativeFile) -> pq.ParquetFile:
    # To read ahead is for stores: of a file on a disk it takes a third of each small read.
    return pq.ParquetFile(stream, pre_buffer=not isinstance(filesystem, fs.LocalFileSystem))


@contextmanager
def _opened(filesystem: fs.FileSystem, path: str) -> Iterator[pq.ParquetFile]:
    try:
        with filesystem.open_input_file(path) as stream:
            yield _parquet(filesystem, stream)
    except (FileNotFoundError, pa.ArrowInvalid) as error:
        what = "is missing" if isinstance(error, FileNotFoundError) else "is not a whole Parquet file"
        raise EngineError(damage_sentence(f"{path} {what}")) from error


def read_file(
    filesystem: fs.FileSystem,
    path: str,
    schema: pa.Schema,
    partition: Mapping[str | None, str | None],
    wanted: Mapping[str, Sequence[str | None]],
    places: WantedPlaces | None = None,
) -> Iterator[pa.Table]:
    """Rows of one file in the columns of `schema`, some at a time; a missing column gets the partition's value, or null.

    `wanted` are values by column, `places` the partitions whose rows are read.

    Raises EngineError for a missing or broken file.
    """
    # At least one column: a table without columns has no row count.
    needed = {*schema.names, *wanted, "cluster_id", *(() if places is None else PLACE_COLUMNS)} - set(partition)
    with _opened(filesystem, path) as file:
        names = [name for name in file.schema_arrow.names if name in needed]
        groups = list(range(file.num_row_groups) if places is None else places.groups(file))
        numbers = _numbers(file, groups if ROW_NUMBER in schema.names else ())
        # Threads cost more than they spare: most files are small, and tasks run side by side.
        for batch in file.iter_batches(ROWS_AT_ONCE, groups, names, use_threads=False):
            found = pa.Table.from_batches([batch])
            if ROW_NUMBER in schema.names:
                found = found.append_column(ROW_NUMBER, numbers[: found.num_rows])
                numbers = numbers[found.num_rows :]
            yield _selected(found if places is None else places.filter(found), schema, partition, wanted)


def _selected(
    found: pa.Table,
    schema: pa.Schema,
    partition: Mapping[str | None, str | None],
    wanted: Mapping[str, Sequence[str | None]],
) -> pa.Table:
    # An update by deltalake writes string views, which few functions accept.
    if any(pa.types.is_string_view(one) for one in found.schema.types):
        texts = [pa.field(one.name, pa.string()) if pa.types.is_string_view(one.type) else one for one in found.schema]
        found = found.cast(pa.schema(texts))
    names = found.schema.names
    for name, values in wanted.items():
        if name in names:
            found = found.filter(pc.is_in(found[name], values_to_arrow(values, pa.string())))
        elif name not in partition and None not in values:
            found = found.slice(0, 0)
    columns = []
    for column in schema:
        if column.name in names:
            held = found[column.name]
            # A cast takes as long if there is nothing to convert.
            columns.append(held if held.type.equals(column.type) else held.cast(column.type))
        else:
            columns.append(pa.repeat(value_to_arrow(partition.get(column.name), column.type), found.num_rows))
    return pa.table(columns, schema=schema)


@dataclass(frozen=True, slots=True)
class PlacedFiles:
    """Files of a table, each with the partitions that it may have rows of: what a task needs to read the rows of its own."""

    table: str
    directory: str
    """Directory of the table."""
    bounds: Mapping[str, Bounds]
    """By path, relative to it."""
    partition: Mapping[str | None, str | None]
    wanted: Mapping[str, Sequence[str | None]]
    """Values to select by column, in the form of `read_file`."""

    def read(self, schema: pa.Schema, places: WantedPlaces | None = None) -> Iterator[tuple[str, pa.Table]]:
        """Rows of each file that may have some, with its path, some at a time, in the columns of `schema`; restricted to `places` if given."""
        filesystem, root = open_directory(self.directory)
        for path, bounds in self.bounds.items():
            if places is None or places.overlap(bounds):
                parts = read_file(filesystem, f"{root}/{path}", schema, self.partition, self.wanted, places)
                yield from ((path, rows) for rows in parts)

    def among(self, places: WantedPlaces) -> PlacedFiles:
        """The files that may have rows of `places`."""
        return replace(self, bounds={path: one for path, one in self.bounds.items() if places.overlap(one)})

    def read_rows(self, kind: type[AnyRow], places: WantedPlaces | None = None) -> Iterator[AnyRow]:
        """`read` as objects of a class whose fields are columns of the table."""
        for _, rows in self.read(schema_of(self.table, column_names(kind)), places):
            yield from arrow_to_rows(rows, kind)


def _numbers(file: pq.ParquetFile, groups: Iterable[int]) -> pa.Array:
    starts = _starts(file)
    numbers = [np.arange(starts[one], starts[one + 1], dtype=np.int64) for one in groups]
    return numbers_to_arrow(np.concatenate([np.empty(0, np.int64), *numbers]))


def _starts(file: pq.ParquetFile) -> list[int]:
    """Number of the first row of each row group, then of all rows."""
    return [0, *accumulate(file.metadata.row_group(number).num_rows for number in range(file.num_row_groups))]


#: Rows as returned by `FileRows`.
Rows = TypeVar("Rows", list[str], "NDArray[np.void]")


class FileRows(Generic[Rows]):
    """The `columns` of a file below a table's `directory`, opened once; the row group read last is kept.

    `convert` turns a row group into a sequence that can be sliced by rows.
    """

    def __init__(self, directory: str, path: str, columns: Sequence[str], convert: Callable[[pa.Table], Rows]) -> None:
        filesystem, root = open_directory(directory)
        self._file = _parquet(filesystem, filesystem.open_input_file(f"{root}/{path}"))
        self._columns: list[str] = list(columns)
        self._convert: Callable[[pa.Table], Rows] = convert
        self._starts = _starts(self._file)
        self._kept: tuple[int, Rows] | None = None

    def rows(self, start: int, count: int) -> Iterator[Rows]:
        """Rows [start, start + count) of the file, a row group at a time."""
        end = start + count
        group = bisect_right(self._starts, start) - 1
        while group < len(self._starts) - 1 and self._starts[group] < end:
            rows, first = self._group(group), self._starts[group]
            yield rows[max(0, start - first) : end - first]
            group += 1

    def _group(self, number: int) -> Rows:
        if self._kept is None or self._kept[0] != number:
            self._kept = number, self._convert(self._file.read_row_group(number, columns=self._columns))
        return self._kept[1]
