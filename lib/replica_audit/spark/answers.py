"""Answers out of the warehouse, or straight from the stage that wrote them: both become the same `Results`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any

from replica_audit.auditing.capture_times import times_of_manifest
from replica_audit.auditing.catalogue import audit_verdict
from replica_audit.results import Results
from replica_audit.spark.warehouse import Warehouse
from replica_audit.tables import REPORT_TABLES, sort_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SNAPSHOT = "snapshot"


def snapshot_answers(warehouse: Warehouse, snapshot_id: str) -> list[tuple[str, dict]]:
    """What the report says of the snapshot itself: its quarantine, who led when, and its inventory."""
    tables = [
        _payloads(warehouse.read(table, snapshot_id=snapshot_id), table, _names(table))
        for table in ("quarantine", "partition_states")
    ]
    inventory = _payloads(warehouse.read("snapshots", snapshot_id=snapshot_id), _SNAPSHOT, ["*"])
    return _collect([*tables, inventory])


def audit_answers(warehouse: Warehouse, audit_id: str, tables: Iterable[str]) -> list[tuple[str, dict]]:
    """Rows of the report tables of one audit, without their ids."""
    return _collect([_payloads(warehouse.read(table, audit_id=audit_id), table, _names(table)) for table in tables])


def assemble_results(
    finished: Mapping[str, Any], answers: Iterable[tuple[str, dict]], observations: int = 0
) -> Results:
    """Results from a `finished` row of `audits` and (table, row) pairs in any order, and how many observations there were."""
    tables: dict[str, list[dict]] = {table: [] for table in REPORT_TABLES}
    snapshot: dict = {}
    for kind, row in answers:
        if kind == _SNAPSHOT:
            snapshot = row
        else:
            if row.get("configs") is not None:
                row = {**row, "configs": dict(sorted(row["configs"].items()))}  # the engine gives a map in any order
            tables[kind].append(row)
    verdicts = [row["verdict"] for row in tables["partitions"]]
    names = ("audit_id", "snapshot_id", "cluster_id", "tool_version", "started", "finished")
    manifest = json.loads(snapshot.get("manifest") or "{}")
    audit = {
        **{name: finished[name] for name in names},
        "verdict": audit_verdict(verdicts, tables["findings"]),
        "inputs": {
            "snapshot": snapshot.get("uri"),
            "log_dirs": snapshot.get("log_dir_count"),
            "replicas": snapshot.get("replica_count"),
            "segments": snapshot.get("segment_count"),
            "size_bytes": snapshot.get("size_bytes"),
            "files": snapshot.get("inventory"),
            **({"observations": observations} if observations else {}),
            "brokers": times_of_manifest(manifest.get("brokers") or ()).kinds(),
        },
        "options": json.loads(finished["options"]) if finished.get("options") else None,
    }
    return Results(audit, {table: sort_rows(rows) for table, rows in tables.items()}, snapshot.get("location"))


def _names(table: str) -> list[str]:
    return [column.name for column in REPORT_TABLES[table]]


def _payloads(frame: DataFrame, kind: str, names: list[str]) -> DataFrame:
    from pyspark.sql import functions as F

    row = F.to_json(F.struct(*names), {"ignoreNullFields": "false"})
    return frame.select(F.lit(kind).alias("kind"), row.alias("payload"))


def _collect(parts: list[DataFrame]) -> list[tuple[str, dict]]:
    """One job for all parts: the tables are read side by side."""
    rows = reduce(lambda one, other: one.unionByName(other), parts).collect()
    return [(row["kind"], json.loads(row["payload"])) for row in rows]
