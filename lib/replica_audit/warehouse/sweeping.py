"""Rows that no finished stage owns: what killed and failed runs committed before they ended."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta, timezone

from replica_audit.bronze_tables import BRONZE_TABLES
from replica_audit.tables import REPORT_TABLES
from replica_audit.warehouse.attempts import finished_attempts
from replica_audit.warehouse.delta_tables import Warehouse

#: A stage commits its tables within minutes of each other, so rows older than this belong to no run that goes on.
LONGEST_RUN = timedelta(days=1)


def sweep(warehouse: Warehouse, *, before: datetime | None = None) -> int:
    """Delete the rows that were committed before `before` (default: `LONGEST_RUN` ago) by attempts that do not count;
    returns how many.

    Those are attempts without a `finished` row in `audits`, and ingests of a snapshot that another attempt finished
    first. Rows without an `ingest_id`, of warehouses that earlier versions made, stay.
    """
    before = before or datetime.now(timezone.utc) - LONGEST_RUN
    warehouse.describe_commits(stage="sweep")
    ingests = {row["ingest_id"] for row in finished_attempts(warehouse, "ingest")}
    audits = {row["audit_id"] for row in finished_attempts(warehouse, "audit")}
    answers = (table for table in REPORT_TABLES if table not in BRONZE_TABLES)
    return _sweep(warehouse, BRONZE_TABLES, "ingest_id", ingests, before) + _sweep(
        warehouse, answers, "audit_id", audits, before
    )


def _sweep(warehouse: Warehouse, tables: Iterable[str], column: str, owners: set[str], before: datetime) -> int:
    count = 0
    for table in tables:
        found: dict[str, int] = {}
        for owner, rows in warehouse.owners(table, column, before):
            if owner is not None and owner not in owners:
                found[owner] = found.get(owner, 0) + rows
        warehouse.delete(table, column, found)
        count += sum(found.values())
    return count
