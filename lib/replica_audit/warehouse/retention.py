"""Removal of rows from the warehouse: audits that are no longer kept, and rows that no finished attempt owns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta, timezone

from replica_audit.bronze_tables import BRONZE_TABLES
from replica_audit.schema import REPORT_TABLES, AttemptRow
from replica_audit.text import parse_moment
from replica_audit.warehouse.attempts import attempts, finished_attempts
from replica_audit.warehouse.delta_tables import StoredTables, Warehouse
from replica_audit.warehouse.left_parts import sweep_parts

#: Tables that belong to audits; the only `quarantine` is the snapshot's.
AUDIT_TABLES = tuple(table for table in REPORT_TABLES if table not in BRONZE_TABLES)


def expired_audits(
    runs: Sequence[AttemptRow], keep_days: int | None, keep_audits: int | None, today: datetime
) -> list[str]:
    """Ids of the finished audits that neither setting keeps; the latest of every cluster is always kept.

    `runs` are the rows of `audits` of that stage, oldest first. An audit goes when it is older than `keep_days`, or when its
    cluster has `keep_audits` newer ones; None sets no limit.
    """
    finished = [run for run in runs if run.state == "finished"]
    oldest = None if keep_days is None else (today - timedelta(days=keep_days)).isoformat(timespec="milliseconds")
    newer: dict[str | None, int] = {}
    expired = []
    for run in reversed(finished):
        count = newer.get(run.cluster_id, 0)
        newer[run.cluster_id] = count + 1
        too_old = oldest is not None and run.ended.replace("Z", "+00:00") < oldest
        too_many = keep_audits is not None and count >= keep_audits
        if run.audit_id is not None and count and (too_old or too_many):
            expired.append(run.audit_id)
    return expired


def apply_retention(
    warehouse: Warehouse, keep_days: int | None, keep_audits: int | None, *, vacuum: bool = False
) -> tuple[list[str], list[str]]:
    """Remove expired audits and the snapshots that then have none; returns the ids of both.

    First `audits` marks them as removed, so that no reader takes half of one; its rows go last. An interrupted removal
    is completed by the next one. With `vacuum`, files that no version within the time-travel period needs, and parts of
    reports left by killed runs, are deleted, and tables made with another period get that of `Warehouse`.
    """
    runs = attempts(warehouse, "audit")
    going = sorted(_ids(run.audit_id for run in runs if run.state == "removed"))
    going += expired_audits(runs, keep_days, keep_audits, datetime.now(timezone.utc))
    staying = {run.snapshot_id for run in runs if run.state == "finished" and run.audit_id not in going}
    snapshots = sorted(_ids(run.snapshot_id for run in runs if run.audit_id in going) - staying)
    # A snapshot that was ingested after its last audit is still to be audited.
    last_audit = {run.snapshot_id: run.ended for run in runs}
    waiting = {
        run.snapshot_id for run in attempts(warehouse, "ingest") if run.started > last_audit.get(run.snapshot_id, "")
    }
    snapshots = [snapshot_id for snapshot_id in snapshots if snapshot_id not in waiting]
    if going:
        warehouse.describe_commits(stage="retention")
        warehouse.mark_removed(audit_id=going, snapshot_id=snapshots)
        for tables, key, ids in ((AUDIT_TABLES, "audit_id", going), (BRONZE_TABLES, "snapshot_id", snapshots)):
            for table in tables:
                warehouse.delete(table, key, ids)
        warehouse.delete("audits", "state", ["removed"])
    if vacuum:
        for table in ("audits", *BRONZE_TABLES, *AUDIT_TABLES):
            warehouse.vacuum(table)
        if warehouse.exists("partitions"):
            sweep_parts(warehouse.directory("partitions"), datetime.now(timezone.utc) - LONGEST_RUN)
    return going, snapshots


def unfinished_audits(warehouse: StoredTables) -> list[str]:
    """Audits that committed answers after the latest finished one, and have no row in `audits`.

    They were interrupted, or still run, or the last commit of `audits` is lost: the latest finished audit is not the latest
    that there was.
    """
    runs = attempts(warehouse, "audit")
    finished = [run.ended for run in runs if run.state == "finished"]
    if not finished:
        return []
    committed = warehouse.owners("partitions", "audit_id", datetime.now(timezone.utc))
    unknown = {owner for owner, _ in committed if owner is not None} - {run.audit_id for run in runs}
    if not unknown:
        return []
    until = parse_moment(finished[-1])
    return sorted(unknown - {owner for owner, _ in warehouse.owners("partitions", "audit_id", until)})


#: A stage commits its tables within minutes of each other, so older rows belong to no run in progress.
LONGEST_RUN = timedelta(days=1)


def sweep(warehouse: Warehouse, *, before: datetime | None = None) -> int:
    """Delete the rows that were committed before `before` (default: `LONGEST_RUN` ago) by attempts that do not count; returns how many.

    Those are attempts without a `finished` row in `audits`, and ingests of a snapshot that another attempt finished first. Rows
    without an id of either stay.
    """
    before = before or datetime.now(timezone.utc) - LONGEST_RUN
    warehouse.describe_commits(stage="sweep")
    ingests = _ids(row.ingest_id for row in finished_attempts(warehouse, "ingest"))
    audits = _ids(row.audit_id for row in finished_attempts(warehouse, "audit"))
    return _sweep(warehouse, BRONZE_TABLES, "ingest_id", ingests, before) + _sweep(
        warehouse, AUDIT_TABLES, "audit_id", audits, before
    )


def _ids(found: Iterable[str | None]) -> set[str]:
    return {one for one in found if one is not None}


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
