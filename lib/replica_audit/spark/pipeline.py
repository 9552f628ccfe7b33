"""The stages as the command line calls them."""

from __future__ import annotations

import json
from functools import reduce
from typing import TYPE_CHECKING

from replica_audit.auditing.catalogue import worst_verdict
from replica_audit.config import Settings
from replica_audit.results import Results
from replica_audit.spark.audit import AUDITED_TABLES, audit
from replica_audit.spark.ingest import ingest
from replica_audit.spark.warehouse import Warehouse
from replica_audit.tables import REPORT_TABLES, sort_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run_ingest(spark: SparkSession, snapshot_uri: str, settings: Settings, progress) -> str:
    """Ingest a snapshot; returns its id. See `ingest.ingest`."""
    return ingest(spark, snapshot_uri, settings, progress)


def run_audit(spark: SparkSession, snapshot_id: str | None, settings: Settings, progress) -> str:
    """Audit an ingested snapshot; returns the audit's id. See `audit.audit`."""
    return audit(spark, snapshot_id, settings, progress)


def load_results(spark: SparkSession, audit_id: str | None, settings: Settings) -> Results:
    """The rows of a finished audit, the latest when `audit_id` is None; raises UsageError when there is none."""
    from pyspark.sql import functions as F

    warehouse = Warehouse(spark, settings.warehouse, settings.catalog)
    finished = warehouse.latest("audit", **({"audit_id": audit_id} if audit_id else {}))
    parts = []
    for table in (*AUDITED_TABLES, "quarantine"):
        ids = {"snapshot_id": finished["snapshot_id"]} if table == "quarantine" else {"audit_id": finished["audit_id"]}
        names = [column.name for column in REPORT_TABLES[table]]
        row = F.to_json(F.struct(*names), {"ignoreNullFields": "false"})
        parts.append(warehouse.read(table, **ids).select(F.lit(table).alias("kind"), row.alias("payload")))
    parts.append(
        warehouse.read("snapshots", snapshot_id=finished["snapshot_id"]).select(F.lit("snapshot").alias("kind"), F.to_json(F.struct("*")).alias("payload"))
    )
    tables: dict[str, list[dict]] = {table: [] for table in REPORT_TABLES}
    snapshot: dict = {}
    # One job for all tables: they are read side by side.
    for kind, payload in reduce(lambda one, other: one.unionByName(other), parts).collect():
        if kind == "snapshot":
            snapshot = json.loads(payload)
        else:
            tables[kind].append(json.loads(payload))
    verdicts = [row["verdict"] for row in tables["partitions"]]
    unplaced = any(row["topic"] is None and row["code"] == "CAP-UNREADABLE" for row in tables["findings"])
    info = {
        "audit_id": finished["audit_id"],
        "snapshot_id": finished["snapshot_id"],
        "cluster_id": finished["cluster_id"],
        "tool_version": finished["tool_version"],
        "started": finished["started"],
        "finished": finished["finished"],
        "verdict": worst_verdict([*verdicts, "INCONCLUSIVE"] if unplaced else verdicts),
        "inputs": {
            "snapshot": snapshot.get("uri"),
            "log_dirs": snapshot.get("log_dir_count"),
            "replicas": snapshot.get("replica_count"),
            "segments": snapshot.get("segment_count"),
            "batches": snapshot.get("batch_count"),
            "size_bytes": snapshot.get("size_bytes"),
            "files": snapshot.get("inventory"),
        },
    }
    return Results(info, {table: sort_rows(rows) for table, rows in tables.items()})
