"""Delta tables below a directory or URI, or in a schema of a catalog: rows in, rows out, one commit each.

Rows are only ever added; a table belongs to snapshots or to audits and is partitioned by that id. Delta is atomic per table
only, so a stage is finished when its row in `audits` says so (`attempts`). Tables are plain Delta (reader 1, writer 2), for
Spark and for any other reader.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, cast

import pyarrow as pa
from pyarrow import fs

from replica_audit import __version__
from replica_audit.arrow_rows import arrow_schema, arrow_to_rows, rows_to_arrow, value_to_arrow
from replica_audit.errors import InputError
from replica_audit.row_classes import AnyRow, Column, Row, column_names
from replica_audit.schema import SCHEMA_VERSION
from replica_audit.snapshot.read_ahead import run_ahead
from replica_audit.warehouse.table_files import TableFileWriter
from replica_audit.warehouse.table_layout import (
    DataFile,
    absolute_location,
    columns_of,
    key_of,
    open_directory,
    partition_of,
    schema_of,
)
from replica_audit.warehouse.table_reads import PlacedFiles, count_rows, file_bounds, list_files, read_file

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable
    from deltalake.transaction import RemoveAction

#: Footers of files in a store that are read concurrently: each takes two requests.
_FOOTERS = 64

#: A table's description, with the schema version of its rows.
DESCRIPTION = f"replica-audit, schema {SCHEMA_VERSION}"
_SCHEMA = re.compile(r"replica-audit, schema (\d{1,9})")


def open_at_this_version(name: str, handle: DeltaTable, columns: Iterable[Column]) -> DeltaTable:
    """The handle of the table `name`, with all `columns`.

    Raises InputError if a later version of the project gave its rows a meaning that this one does not know.
    """
    described = _SCHEMA.fullmatch(handle.metadata().description or "")
    found = int(described[1]) if described else 1
    if found > SCHEMA_VERSION:
        raise InputError(
            f"{name} was written by a later version of replica-audit: its schema is {found}, expected "
            f"at most {SCHEMA_VERSION}; upgrade (this is {__version__}), or give another --warehouse"
        )
    known = {column.name for column in handle.schema().fields}
    new = [column for column in columns if column.name not in known]
    if new:
        from deltalake import Schema

        handle.alter.set_table_description(DESCRIPTION)
        handle.alter.add_columns(Schema.from_arrow(arrow_schema(new)).fields)
        handle.update_incremental()
    return handle


def with_dropped_columns(data: pa.Table, handle: DeltaTable) -> pa.Table:
    """`data` with nulls for columns that an earlier version wrote and this one does not."""
    for field in pa.schema(handle.schema().to_arrow()):
        if field.name not in data.schema.names:
            data = data.append_column(field.name, pa.nulls(data.num_rows, field.type))
    return data


#: Rows in a row group written here: a reader of one partition's rows reads little more of the file.
_GROUP_ROWS = 1 << 11

#: Rows converted to columns at a time.
_ROWS_AT_ONCE = 1 << 12

#: Attempts to commit rows while other writers change the table; each does so only once, when it creates it or adds columns.
_ATTEMPTS = 5

#: Size and time of change, in ns.
_Identity = tuple[int, int]

_PERIODS = ("delta.logRetentionDuration", "delta.deletedFileRetentionDuration")


def table_properties(time_travel_days: int | None) -> dict[str, str]:
    """Delta properties of a new table: the days for which replaced versions can be read; None: Delta's own period."""
    return {} if time_travel_days is None else dict.fromkeys(_PERIODS, f"interval {time_travel_days} days")


class StoredTables:
    """The tables of a warehouse for reading, each at its newest version; other processes only add rows."""

    def __init__(self, location: str, locate: Callable[[str, bool], str | None] | None = None) -> None:
        """`location`: a directory or URI that has a directory for each table, or a catalog's NAME.SCHEMA.

        `locate(table, make)` returns the location of a table in a catalog, None if there is no such table; with `make` the
        table's location is created.
        """
        self.name = location
        self._location = absolute_location(location)
        self._locate = locate
        #: By location, with what identifies the file of its newest commit.
        self._handles: dict[str, tuple[DeltaTable, _Identity | None]] = {}
        #: By table, with the handle and the version that they were read by.
        self._rows: dict[str, tuple[DeltaTable, int, object]] = {}

    def exists(self, table: str) -> bool:
        return self._open(table) is not None

    def read_arrow(
        self, table: str, columns: Sequence[str] | None = None, **equals: str | Sequence[str | None] | None
    ) -> pa.Table:
        """Rows of a table whose string columns equal the given value, or one of the given values.

        `columns` None means all. A missing table has no rows.
        """
        return pa.concat_tables(self.read_parts(table, columns, **equals))

    def read_parts(
        self, table: str, columns: Sequence[str] | None = None, **equals: str | Sequence[str | None] | None
    ) -> Iterator[pa.Table]:
        """Rows of `read_arrow` in parts, for more rows than fit in memory; the first part is empty."""
        wanted = {name: _listed(value) for name, value in equals.items()}
        schema = schema_of(table, columns or [column.name for column in columns_of(table)])
        key = key_of(table)
        yield pa.Table.from_batches([], schema)
        handle = self._open(table)
        if handle is None:
            return
        filesystem, root = open_directory(handle.table_uri)
        for path, value in list_files(handle, key):
            if key not in wanted or value in wanted[key]:
                yield from read_file(filesystem, f"{root}/{path}", schema, {key: value}, wanted)

    def read(self, table: str, kind: type[AnyRow], **equals: str | Sequence[str | None] | None) -> list[AnyRow]:
        """`read_arrow` as objects of a class whose fields are columns of the table."""
        return list(arrow_to_rows(self.read_arrow(table, column_names(kind), **equals), kind))

    def read_all(self, table: str, kind: type[AnyRow]) -> list[AnyRow]:
        """All rows of a small table, cached until the table changes; callers must not modify the list."""
        handle = self._open(table)
        if handle is None:
            return []
        known, version, rows = self._rows.get(table, (None, 0, None))
        if known is handle and version == handle.version():
            return cast("list[AnyRow]", rows)
        found = self.read(table, kind)
        self._rows[table] = handle, handle.version(), found
        return found

    def files(self, table: str, key: str | None) -> list[str]:
        """Paths, relative to the table, of the files with the rows of a snapshot or an audit."""
        handle = self._open(table)
        if handle is None:
            return []
        return [path for path, value in list_files(handle, key_of(table)) if value == key]

    def placed_files(self, table: str, key: str | None, **equals: str | None) -> PlacedFiles:
        """The files with the rows of a snapshot or an audit, for reading those of some partitions; empty for a missing table."""
        return next(self.each_placed_files(table, [key], **equals))

    def each_placed_files(self, table: str, keys: Iterable[str | None], **equals: str | None) -> Iterator[PlacedFiles]:
        """`placed_files` of each snapshot or audit: the table is listed once, and a file opened when its turn comes."""
        handle, column = self._open(table), key_of(table)
        wanted = {name: [value] for name, value in equals.items()}
        if handle is None:
            yield from (PlacedFiles(table, "", {}, {column: key}, wanted) for key in keys)
            return
        filesystem, root = open_directory(handle.table_uri)
        paths: dict[str | None, list[str]] = defaultdict(list)
        for path, value in list_files(handle, column):
            paths[value].append(path)
        ahead = 0 if isinstance(filesystem, fs.LocalFileSystem) else _FOOTERS
        for key in keys:
            reads = run_ahead(lambda path: file_bounds(filesystem, f"{root}/{path}"), paths[key], ahead)
            bounds = {path: read.result() for path, read in reads}
            yield PlacedFiles(table, handle.table_uri, bounds, {column: key}, wanted)

    def count_rows(self, table: str, key: str | None) -> int:
        """Number of rows of a snapshot or an audit by the commits, without reading a file; 0 for a missing table."""
        handle = self._open(table)
        return 0 if handle is None else count_rows(handle, key_of(table), key)

    def owners(self, table: str, column: str, before: datetime) -> Iterator[tuple[str | None, int]]:
        """Values of a string column in the files committed before `before`, some rows at a time, each with its number of rows."""
        handle = self._open(table)
        if handle is None:
            return
        filesystem, root = open_directory(handle.table_uri)
        schema = schema_of(table, [column])
        key = key_of(table)
        for path, value in list_files(handle, key, before):
            for rows in read_file(filesystem, f"{root}/{path}", schema, {key: value}, {}):
                for one in rows[column].value_counts().to_pylist():
                    yield one["values"], one["counts"]

    def versions(self, tables: Iterable[str]) -> dict[str, int]:
        """The Delta version of each existing table. Rows are only added, so a later version has those of an earlier one."""
        handles = {table: self._open(table) for table in tables}
        return {table: handle.version() for table, handle in handles.items() if handle is not None}

    def _open(self, table: str) -> DeltaTable | None:
        """The table's handle at its newest version; None if there is no such table."""
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        uri = self._uri(table)
        if uri is None:
            return None
        # A kept handle reads only later commits; checking whether there are any costs a fraction of that.
        handle, kept = self._handles.get(uri, (None, None))
        if handle is not None:
            own, next_one = _commits(uri, handle.version(), handle.version() + 1)
            if own is None or own != kept:
                # The table was deleted, or another has taken its place.
                handle = None
            elif next_one is None:
                return handle
        try:
            if handle is None:
                handle = DeltaTable(uri)
            else:
                handle.update_incremental()
        except TableNotFoundError:
            return None
        return self._keep(table, uri, handle)

    def _keep(self, table: str, uri: str, handle: DeltaTable) -> DeltaTable:
        handle = open_at_this_version(f"{self.name}/{table}", handle, columns_of(table))
        (own,) = _commits(uri, handle.version())
        self._handles[uri] = handle, own
        return handle

    def _uri(self, table: str, make: bool = False) -> str | None:
        if self._locate is not None:
            found = self._locate(table, make)
            return found and absolute_location(found)
        return f"{self._location}/{table}"


class Warehouse(StoredTables):
    """The tables of a warehouse with commits to them. A task that writes files needs only their directory (`directory`)."""

    def __init__(
        self,
        location: str,
        *,
        time_travel_days: int | None = None,
        locate: Callable[[str, bool], str | None] | None = None,
    ) -> None:
        """`location` and `locate` as for `StoredTables`; `time_travel_days` as for `table_properties`."""
        super().__init__(location, locate)
        self._periods = table_properties(time_travel_days)
        self._commit: dict[str, str | None] = {}

    def describe_commits(self, **run: str | None) -> None:
        """Set the run that later commits name as `userMetadata` in the history of every table."""
        self._commit = run

    def directory(self, table: str) -> str:
        """Path or URI of the table's directory, for tasks that write its files. The table is created if it does not exist."""
        self._open_or_create(table)
        return self._made(table)

    def append(
        self,
        table: str,
        rows: Sequence[Row],
        ids: Mapping[str, str | None],
        files: Iterable[DataFile] = (),
    ) -> None:
        """Add rows, which have no ids, and those of Parquet files in the table's directory, in one commit.

        The table is created if it is missing. Rows are written here: on a full disk delta-rs' own writer panics in its threads,
        beside its error.
        """
        from deltalake.exceptions import CommitFailedError
        from deltalake.transaction import AddAction

        handle = self._open_or_create(table)
        column, moment = key_of(table), int(time.time() * 1000)
        values = {} if column is None else {column: ids[column]}
        actions: list[AddAction | RemoveAction] = [
            AddAction(file.path, file.size_bytes, values, moment, True, _statistics(file))
            for file in (*files, *self.write(table, rows, ids))
        ]
        if not actions:
            return
        for left in reversed(range(_ATTEMPTS)):
            try:
                handle.create_write_transaction(
                    actions,
                    "append",
                    handle.schema(),
                    partition_by=[] if column is None else [column],
                    commit_properties=self._properties_of_commit(),
                )
            except CommitFailedError:
                # Another writer has created the table, or added columns, since it was opened: nothing was committed.
                if not left:
                    raise
                handle = self._open_or_create(table)
            else:
                break

    def write(self, table: str, rows: Iterable[Row], ids: Mapping[str, str | None]) -> tuple[DataFile, ...]:
        """The file of some rows, taken a few at a time, for `append`; empty without rows."""
        remaining = iter(rows)
        if not (some := list(islice(remaining, _ROWS_AT_ONCE))):
            return ()
        writer = TableFileWriter(self._made(table), table, ids, _GROUP_ROWS)
        try:
            while some:
                writer.add_rows(some)
                some = list(islice(remaining, _ROWS_AT_ONCE))
            file = writer.close()
        except BaseException:
            writer.discard()
            raise
        return () if file is None else (file,)

    def put(self, table: str, rows: Sequence[Row], ids: Mapping[str, str | None], *, again: bool) -> None:
        """Add rows of an audit; with `again` they replace its present rows in the same commit."""
        from deltalake import write_deltalake

        key, handle = partition_of(table), self._open(table) if again else None
        if handle is None:
            self.append(table, rows, ids)
            return
        owner = ids[key]
        if owner is None:
            raise ValueError(f"rows of {table} need their {key}")
        data = rows_to_arrow(rows, arrow_schema(columns_of(table)))
        for name, value in ids.items():
            if (at := data.schema.get_field_index(name)) >= 0:
                data = data.set_column(
                    at, data.schema.field(at), pa.repeat(value_to_arrow(value, pa.string()), len(rows))
                )
        write_deltalake(
            handle,
            with_dropped_columns(data, handle),
            mode="overwrite",
            predicate=f"{key} = {_literals([owner])}",
            commit_properties=self._properties_of_commit(),
        )

    def discard_files(self, files: Mapping[str, Iterable[DataFile]]) -> None:
        """Delete files, by table, that no commit will name."""
        for table, of_table in files.items():
            filesystem, root = open_directory(self.directory(table))
            for file in of_table:
                filesystem.delete_file(f"{root}/{file.path}")

    def delete(self, table: str, column: str, values: Iterable[str]) -> None:
        """Delete the rows whose `column` is one of `values` (ids and states of our own), if the table exists."""
        values, handle = list(values), self._open(table)
        if values and handle is not None:
            handle.delete(f"{column} IN ({_literals(values)})", commit_properties=self._properties_of_commit())

    def mark_removed(self, **ids: Iterable[str]) -> None:
        """Set the rows of `audits` with one of these ids in the named column to the state `removed`."""
        handle = self._open("audits")
        conditions = [f"{column} IN ({_literals(values)})" for column, values in ids.items() if values]
        if handle is not None and conditions:
            handle.update(
                new_values={"state": "removed"},
                predicate=" OR ".join(conditions),
                commit_properties=self._properties_of_commit(),
            )

    def vacuum(self, table: str) -> None:
        """Delete the files that no version within the table's period needs; sets the period first."""
        handle = self._open(table)
        if handle is None:
            return
        if self._periods:
            handle.alter.set_table_properties(self._periods)
        handle.vacuum(dry_run=False, full=True)
        # Opening a table reads the commits since its last checkpoint, and lists those that are kept.
        handle.create_checkpoint()
        handle.cleanup_metadata()

    def _open_or_create(self, table: str) -> DeltaTable:
        """The table's handle; the table is created if it does not exist."""
        from deltalake import DeltaTable

        if (handle := self._open(table)) is None:
            uri = self._made(table)
            made = DeltaTable.create(
                uri,
                arrow_schema(columns_of(table)),
                mode="ignore",
                partition_by=key_of(table),
                configuration=self._periods,
                description=DESCRIPTION,
                commit_properties=self._properties_of_commit(),
            )
            handle = self._keep(table, uri, made)
        return handle

    def _made(self, table: str) -> str:
        """Path or URI of the table's directory, which is created."""
        uri = self._uri(table, make=True)
        # `locate` returns a location if it is to create one.
        assert uri is not None
        if "://" not in uri:
            os.makedirs(uri, exist_ok=True)
        return uri

    def _properties_of_commit(self) -> CommitProperties:
        from deltalake import CommitProperties

        run = {"tool": f"replica-audit {__version__}", **self._commit}
        return CommitProperties(custom_metadata={"userMetadata": json.dumps(run, sort_keys=True)})


def _commits(uri: str, *versions: int) -> list[_Identity | None]:
    """Identities of the files of a table's commits; None for a missing one."""
    filesystem, root = open_directory(uri)
    found = filesystem.get_file_info([f"{root}/_delta_log/{version:020}.json" for version in versions])
    return [(one.size, one.mtime_ns) if one.is_file else None for one in found]


def _listed(value: str | Sequence[str | None] | None) -> list[str | None]:
    return [value] if value is None or isinstance(value, str) else list(value)


def _literals(values: Iterable[str]) -> str:
    """Ids and states of our own as SQL literals."""
    return ", ".join("'" + value.replace("'", "''") + "'" for value in values)


def _statistics(file: DataFile) -> str:
    """Statistics of a file: the number of rows only, which Spark's `count()` trusts. Bounds of only some columns would make
    other readers skip files that they need; those of row groups are in the file itself."""
    return json.dumps({"numRecords": file.row_count})
