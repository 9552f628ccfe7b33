"""Layout of a warehouse in files: its location, the columns and partition column of each table, and files that wait for a commit."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import fs

from replica_audit.arrow_rows import arrow_schema
from replica_audit.bronze_tables import BRONZE_TABLES
from replica_audit.paths import local_path
from replica_audit.row_classes import Column, columns
from replica_audit.schema import AUDIT_COLUMNS, INGEST_COLUMNS, REPORT_TABLES, AttemptRow


def absolute_location(location: str) -> str:
    """A path or URI valid in every process, without a final slash; `s3a://` becomes `s3://`."""
    location = location.rstrip("/") or "/"
    if location.startswith("s3a://"):
        return "s3://" + location[len("s3a://") :]
    if "://" in location:
        return location
    if location.startswith("file:"):
        location = location[len("file:") :]
    return os.path.abspath(location)


def spark_path(location: str) -> str:
    """`location` for Spark: Hadoop's reader of S3 uses the scheme s3a, and takes what is not escaped for a pattern of names."""
    location = re.sub(r"[][{}*?\\]", r"\\\g<0>", location)
    return "s3a://" + location[len("s3://") :] if location.startswith("s3://") else location


def open_directory(location: str) -> tuple[fs.FileSystem, str]:
    """The file system and the path in it of a table's directory."""
    # deltalake's URIs of local tables have brackets, which pyarrow does not parse.
    if (local := local_path(location)) is not None:
        return fs.LocalFileSystem(), local.rstrip("/")
    filesystem, root = fs.FileSystem.from_uri(location)
    return filesystem, root.rstrip("/")


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file that a task wrote into a table's directory and that no commit names yet."""

    path: str
    """Relative to the table."""
    size_bytes: int
    row_count: int


def columns_of(table: str) -> tuple[Column, ...]:
    """All columns of a table, ids first. The only `quarantine` and `partition_states` are the snapshot's."""
    if table == "audits":
        return columns(AttemptRow)
    if table in BRONZE_TABLES:
        return (*INGEST_COLUMNS, *BRONZE_TABLES[table])
    return (*AUDIT_COLUMNS, *REPORT_TABLES[table])


def schema_of(table: str, names: Iterable[str]) -> pa.Schema:
    """The Arrow schema of some columns of a table, in the given order."""
    known = arrow_schema(columns_of(table))
    return pa.schema([known.field(name) for name in names])


def key_of(table: str) -> str | None:
    """The column that a table is partitioned by; None for `audits`, which is not partitioned."""
    return None if table == "audits" else partition_of(table)


def partition_of(table: str) -> str:
    """Partition column of a table other than `audits`."""
    return "snapshot_id" if table in BRONZE_TABLES else "audit_id"
