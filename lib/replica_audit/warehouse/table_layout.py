"""How a table of the warehouse lies in files: its columns, what it is partitioned by, and a file that waits for its commit."""

from __future__ import annotations

from dataclasses import dataclass

from replica_audit.bronze_tables import BRONZE_TABLES
from replica_audit.tables import AUDIT_COLUMNS, AUDITS, INGEST_COLUMNS, REPORT_TABLES, Column

#: Column that each table is partitioned by.
_BRONZE_KEY, _REPORT_KEY = "snapshot_id", "audit_id"


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file that a task wrote into a table's directory and that no commit names yet."""

    path: str
    """Relative to the table."""
    size_bytes: int
    row_count: int


def columns_of(table: str) -> tuple[Column, ...]:
    """All columns of a table, ids first. There is one `quarantine` and one `partition_states`, those of the snapshot."""
    if table == "audits":
        return AUDITS
    if table in BRONZE_TABLES:
        return (*INGEST_COLUMNS, *BRONZE_TABLES[table])
    return (*AUDIT_COLUMNS, *REPORT_TABLES[table])


def key_of(table: str) -> str | None:
    """The column that a table is partitioned by; None: `audits` is not partitioned."""
    return None if table == "audits" else partition_of(table)


def partition_of(table: str) -> str:
    """Partition column of a table other than `audits`."""
    return _BRONZE_KEY if table in BRONZE_TABLES else _REPORT_KEY
