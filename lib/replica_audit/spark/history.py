"""Past audits out of the warehouse, and their end: what is kept how long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from replica_audit.auditing.earlier import Earlier, build_earlier
from replica_audit.auditing.history import History, build_history
from replica_audit.spark.answers import audit_answers
from replica_audit.spark.warehouse import Warehouse
from replica_audit.tables import BRONZE_TABLES, REPORT_TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Tables that belong to audits; there is one `quarantine`, that of the snapshot.
AUDIT_TABLES = tuple(table for table in REPORT_TABLES if table not in BRONZE_TABLES)

_FINDING = ("code", "severity", "topic", "partition", "broker_id", "start_offset", "message")


def load_history(warehouse: Warehouse, topics: Sequence[str] = (), limit: int | None = None) -> History:
    """The history of the finished audits, the latest `limit` of them; `topics` are patterns as in `--topic`.

    Raises UsageError when there is no finished audit.
    """
    from pyspark.sql import functions as F

    warehouse.latest("audit")
    audits = [run for run in warehouse.runs("audit") if run["state"] == "finished"][-(limit or 0) :]
    numbers = warehouse.numbers({run["audit_id"]: number for number, run in enumerate(audits)})
    partitions = (
        warehouse.read("partitions")
        .join(F.broadcast(numbers), "audit_id")
        .groupBy("cluster_id", "topic", "partition")
        .agg(F.collect_list(F.struct("number", "verdict")).alias("verdicts"))
    )
    latest = [F.max_by(name, "number").alias(name) for name in _FINDING]
    findings = (
        warehouse.read("findings")
        .join(F.broadcast(numbers), "audit_id")
        .groupBy("cluster_id", "finding_id")
        .agg(*latest, F.collect_set("number").alias("present"))
    )
    kept = [row for row in _rows(partitions) if _matches(row["topic"], topics)]
    for row in kept:
        row["verdicts"] = [(step["number"], step["verdict"]) for step in row["verdicts"]]
    return build_history(audits, kept, [row for row in _rows(findings) if _matches(row["topic"], topics)])


def load_earlier(warehouse: Warehouse, audit: Mapping[str, Any]) -> Earlier | None:
    """The finished audit of the same cluster before `audit` (that of Results).

    None where there is no such audit, and where the cluster has no name: it may be another one.
    """
    if audit["cluster_id"] is None:
        return None
    runs = warehouse.runs("audit", cluster_id=audit["cluster_id"])
    before = [run for run in runs if run["state"] == "finished" and run["finished"] < audit["finished"]]
    if not before:
        return None
    content: dict[str, Any] = {"audit": before[-1], "partitions": [], "findings": []}
    for table, row in audit_answers(warehouse, before[-1]["audit_id"], ("partitions", "findings")):
        content[table].append(row)
    return build_earlier(content)


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in frame.collect()]


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
    runs = warehouse.runs("audit")
    going = sorted({run["audit_id"] for run in runs if run["state"] == "removed"})
    going += expired_audits(runs, keep_days, keep_audits, datetime.now(timezone.utc))
    staying = {run["snapshot_id"] for run in runs if run["state"] == "finished" and run["audit_id"] not in going}
    snapshots = sorted({run["snapshot_id"] for run in runs if run["audit_id"] in going} - staying)
    # An ingest of the snapshot that is newer than its audits waits for one of its own.
    last_audit = {run["snapshot_id"]: run["finished"] or run["started"] for run in runs}
    waiting = {
        run["snapshot_id"]
        for run in warehouse.runs("ingest")
        if run["started"] > last_audit.get(run["snapshot_id"], "")
    }
    snapshots = [snapshot_id for snapshot_id in snapshots if snapshot_id not in waiting]
    if going:
        warehouse.describe_commits(stage="retention")
        warehouse.mark_removed(going, snapshots)
        for tables, key, ids in ((AUDIT_TABLES, "audit_id", going), (BRONZE_TABLES, "snapshot_id", snapshots)):
            for table in tables:
                warehouse.delete(table, key, ids)
        warehouse.delete("audits", "state", ["removed"])
    if vacuum:
        for table in ("audits", *BRONZE_TABLES, *AUDIT_TABLES):
            warehouse.vacuum(table)
    return going, snapshots
