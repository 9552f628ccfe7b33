"""The table `audits`: which attempts of which stages were made, which of them count, and rows that no finished one owns.

A stage writes its tables and then its `finished` row. Bronze rows carry the `ingest_id` of the attempt that wrote them;
of the finished attempts of a snapshot the first is used, so that two runs at once do no harm.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

from replica_audit import __version__
from replica_audit.bronze_tables import BRONZE_TABLES
from replica_audit.errors import UsageError
from replica_audit.schema import REPORT_TABLES
from replica_audit.text import now
from replica_audit.warehouse.delta_tables import Warehouse


def record_attempt(
    warehouse: Warehouse,
    stage: str,
    state: str,
    *,
    started: str,
    snapshot_id: str | None,
    audit_id: str | None,
    ingest_id: str | None,
    cluster_id: str | None,
    tables: Iterable[str] = (),
    row_counts: Mapping[str, int] | None = None,
    options: str | None = None,
) -> dict[str, Any]:
    """Append a row to `audits` and return it: the last thing a stage does when it has finished or failed.

    `tables` are those that the stage wrote: their versions go into `table_versions`. `row_counts`: rows that
    it committed to each table (`committed_rows`). `options` is JSON.
    """
    row = {
        "cluster_id": cluster_id,
        "snapshot_id": snapshot_id,
        "audit_id": audit_id,
        "ingest_id": ingest_id,
        "stage": stage,
        "state": state,
        "started": started,
        "finished": None if state == "running" else now(),
        "tool_version": __version__,
        "table_versions": warehouse.versions(tables) or None,
        "row_counts": row_counts,
        "options": options,
    }
    warehouse.describe_commits(stage=stage, snapshot_id=snapshot_id, audit_id=audit_id)
    warehouse.append("audits", [row], {})
    return row


def attempts(warehouse: Warehouse, stage: str, **equals: str | None) -> list[dict[str, Any]]:
    """Rows of `stage` in `audits`, oldest first, in whatever state."""
    if not warehouse.exists("audits"):
        return []
    rows = warehouse.read("audits", stage=stage, **equals)
    return sorted(rows, key=lambda row: (row["finished"] or row["started"], row["ingest_id"] or ""))


def finished_attempts(warehouse: Warehouse, stage: str, **equals: str | None) -> list[dict[str, Any]]:
    """The attempts that count, oldest first: of an ingest the first that finished, of audits all that did."""
    rows = [row for row in attempts(warehouse, stage, **equals) if row["state"] == "finished"]
    if stage != "ingest":
        return rows
    first: dict[str, dict[str, Any]] = {}
    for row in rows:
        first.setdefault(row["snapshot_id"], row)
    return list(first.values())


def latest_attempt(warehouse: Warehouse, stage: str, **equals: str) -> dict[str, Any]:
    """The last finished attempt of `stage`; raises UsageError when there is none, or none with that id."""
    rows = finished_attempts(warehouse, stage, **equals)
    if not rows:
        wanted = "".join(f" with {name} {value}" for name, value in equals.items())
        raise UsageError(f"no finished {stage}{wanted} in {warehouse.name}: run that stage first")
    return rows[-1]


def own_rows(attempt: Mapping[str, Any]) -> dict[str, Any]:
    """What the bronze rows of an attempt are read by: `snapshot_id` and `ingest_id`."""
    return {name: attempt[name] for name in ("snapshot_id", "ingest_id")}


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
