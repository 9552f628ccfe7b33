"""Past audits out of the warehouse, and their end: what is kept how long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from fnmatch import fnmatchcase
from typing import Any

from replica_audit.auditing.earlier_audit import Earlier, build_earlier
from replica_audit.auditing.history import AuditHistory, build_history
from replica_audit.bronze_tables import BRONZE_TABLES
from replica_audit.schema import REPORT_TABLES
from replica_audit.warehouse.attempts import attempts, finished_attempts, latest_attempt
from replica_audit.warehouse.committed_rows import check_audits, check_committed
from replica_audit.warehouse.delta_tables import Warehouse

#: Tables that belong to audits; there is one `quarantine`, that of the snapshot.
AUDIT_TABLES = tuple(table for table in REPORT_TABLES if table not in BRONZE_TABLES)

_FINDING = ("code", "severity", "topic", "partition", "broker_id", "start_offset", "message")


def load_history(warehouse: Warehouse, topics: Sequence[str] = (), limit: int | None = None) -> AuditHistory:
    """The history of the finished audits, the latest `limit` of them; `topics` are patterns as in `--topic`.

    Raises UsageError when there is no finished audit.
    """
    latest_attempt(warehouse, "audit")
    # All of them, whatever is shown: what was before says what is new in an audit.
    audits = finished_attempts(warehouse, "audit")
    numbers = {run["audit_id"]: number for number, run in enumerate(audits)}
    clusters = {run["audit_id"]: run["cluster_id"] for run in audits}
    partitions: dict[tuple, dict[str, Any]] = {}
    findings: dict[tuple, dict[str, Any]] = {}
    verdicts = warehouse.read("partitions", ("audit_id", "topic", "partition", "verdict"), audit_id=list(numbers))
    check_audits(warehouse, audits, "partitions", verdicts)
    for row in verdicts:
        place = {"cluster_id": clusters[row["audit_id"]], "topic": row["topic"], "partition": row["partition"]}
        seen = partitions.setdefault(tuple(place.values()), {**place, "verdicts": []})
        seen["verdicts"].append((numbers[row["audit_id"]], row["verdict"]))
    found = warehouse.read("findings", ("audit_id", "finding_id", *_FINDING), audit_id=list(numbers))
    check_audits(warehouse, audits, "findings", found)
    for row in found:
        audit_id = row.pop("audit_id")
        number, key = numbers[audit_id], (clusters[audit_id], row["finding_id"])
        known = findings.setdefault(key, {"present": {}, "number": -1})
        known["present"][number] = row["severity"]
        if number > known["number"]:
            # The words are those of the last audit that has it.
            known.update(row, cluster_id=key[0], number=number)
    kept = [{**row, "present": list(row["present"].items())} for row in findings.values()]
    return build_history(audits, list(partitions.values()), kept, limit, lambda topic: _matches(topic, topics))


def load_earlier(warehouse: Warehouse, audit: Mapping[str, Any]) -> Earlier | None:
    """The finished audit of the same cluster before `audit` (that of Results).

    None where there is no such audit, and where the cluster has no name: it may be another one.
    """
    if audit["cluster_id"] is None:
        return None
    runs = finished_attempts(warehouse, "audit", cluster_id=audit["cluster_id"])
    before = [run for run in runs if run["finished"] < audit["finished"]]
    if not before:
        return None
    names = {table: [column.name for column in REPORT_TABLES[table]] for table in ("partitions", "findings")}
    rows = {table: warehouse.read(table, names[table], audit_id=before[-1]["audit_id"]) for table in names}
    check_committed(warehouse, before[-1], {table: len(rows[table]) for table in names})
    return build_earlier({"audit": before[-1], **rows})


def _matches(topic: str | None, patterns: Sequence[str]) -> bool:
    return not patterns or (topic is not None and any(fnmatchcase(topic, pattern) for pattern in patterns))


def expired_audits(
    runs: Sequence[dict[str, Any]], keep_days: int | None, keep_audits: int | None, today: datetime
) -> list[str]:
    """Ids of the finished audits that neither setting keeps; the latest of every cluster is always kept.

    `runs` are the rows of `audits` of that stage, oldest first. An audit goes when it is older than `keep_days`, or
    when its cluster has `keep_audits` newer ones; None sets no limit.
    """
    finished = [run for run in runs if run["state"] == "finished"]
    oldest = None if keep_days is None else (today - timedelta(days=keep_days)).isoformat(timespec="milliseconds")
    newer: dict[str | None, int] = {}
    expired = []
    for run in reversed(finished):
        count = newer.get(run["cluster_id"], 0)
        newer[run["cluster_id"]] = count + 1
        too_old = oldest is not None and run["finished"].replace("Z", "+00:00") < oldest
        too_many = keep_audits is not None and count >= keep_audits
        if count and (too_old or too_many):
            expired.append(run["audit_id"])
    return expired


def apply_retention(
    warehouse: Warehouse, keep_days: int | None, keep_audits: int | None, *, vacuum: bool = False
) -> tuple[list[str], list[str]]:
    """Remove expired audits and the snapshots that then have none; returns the ids of both.

    First `audits` says that they are going, so that no reader takes half of one; its rows go last. What a removal that
    was interrupted left is removed by the next. With `vacuum` files that no version within the time-travel period
    needs are deleted, and the period of `Warehouse` is set on tables that were made with another.
    """
    runs = attempts(warehouse, "audit")
    going = sorted({run["audit_id"] for run in runs if run["state"] == "removed"})
    going += expired_audits(runs, keep_days, keep_audits, datetime.now(timezone.utc))
    staying = {run["snapshot_id"] for run in runs if run["state"] == "finished" and run["audit_id"] not in going}
    snapshots = sorted({run["snapshot_id"] for run in runs if run["audit_id"] in going} - staying)
    # An ingest of the snapshot that is newer than its audits waits for one of its own.
    last_audit = {run["snapshot_id"]: run["finished"] or run["started"] for run in runs}
    waiting = {
        run["snapshot_id"]
        for run in attempts(warehouse, "ingest")
        if run["started"] > last_audit.get(run["snapshot_id"], "")
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
    return going, snapshots
