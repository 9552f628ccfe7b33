"""Rows that no finished stage owns go; rows that somebody reads, or may be writing, stay."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from tests.support.stored_rows import made, stored

from replica_audit.warehouse.attempts import record_attempt
from replica_audit.warehouse.delta_tables import Warehouse
from replica_audit.warehouse.retention import sweep

EPOCH = {
    "broker_id": 1,
    "log_dir": "broker-1",
    "topic": "orders",
    "partition": 0,
    "entry": 0,
    "leader_epoch": 3,
    "start_offset": 7,
}


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(str(tmp_path))


def _ingest(warehouse: Warehouse, ingest_id: str | None, state: str | None, snapshot_id: str = "s1") -> dict[str, Any]:
    ids = {"cluster_id": "c", "snapshot_id": snapshot_id, "ingest_id": ingest_id}
    warehouse.append("leader_epochs", [made(EPOCH), made({**EPOCH, "entry": 1})], ids)
    if state is not None:
        record_attempt(warehouse, "ingest", state, started="2025-01-01T00:00:00.000Z", audit_id=None, **ids)
    return {name: ids[name] for name in ("snapshot_id", "ingest_id")}


def _audit(warehouse: Warehouse, audit_id: str, state: str | None) -> None:
    ids = {"cluster_id": "c", "snapshot_id": "s1", "audit_id": audit_id}
    warehouse.append("partitions", [made({"topic": "orders", "partition": 0, "verdict": "CONSISTENT"})], ids)
    if state is not None:
        record_attempt(warehouse, "audit", state, started="2025-01-01T00:00:00.000Z", ingest_id="i1", **ids)


def test_rows_of_attempts_that_do_not_count_are_deleted(warehouse: Warehouse) -> None:
    kept = _ingest(warehouse, "i1", "finished")
    _ingest(warehouse, "killed", None)
    _ingest(warehouse, "failed", "failed")
    _ingest(warehouse, "second", "finished")  # of the same snapshot, so never read
    other = _ingest(warehouse, "i2", "finished", "s2")
    _audit(warehouse, "a1", "finished")
    _audit(warehouse, "a2", None)
    later = datetime.now(timezone.utc) + timedelta(minutes=1)
    assert sweep(warehouse, before=later) == 7
    assert len(stored(warehouse, "leader_epochs")) == 4
    assert len(stored(warehouse, "leader_epochs", **kept)) == len(stored(warehouse, "leader_epochs", **other)) == 2
    assert [row["audit_id"] for row in stored(warehouse, "partitions")] == ["a1"]
    assert sweep(warehouse, before=later) == 0


def test_rows_that_a_run_may_be_writing_stay(warehouse: Warehouse) -> None:
    _ingest(warehouse, "running", None)
    assert sweep(warehouse) == 0
    assert len(stored(warehouse, "leader_epochs")) == 2


def test_rows_of_a_warehouse_without_attempt_ids_stay(warehouse: Warehouse) -> None:
    _ingest(warehouse, None, "finished")
    assert sweep(warehouse, before=datetime.now(timezone.utc) + timedelta(minutes=1)) == 0
    assert len(stored(warehouse, "leader_epochs")) == 2


def test_nothing_is_committed_where_nothing_is_swept(warehouse: Warehouse, tmp_path: Path) -> None:
    _ingest(warehouse, "i1", "finished")
    version = DeltaTable(str(tmp_path / "leader_epochs")).version()
    assert sweep(warehouse, before=datetime.now(timezone.utc) + timedelta(minutes=1)) == 0
    assert DeltaTable(str(tmp_path / "leader_epochs")).version() == version
    assert sweep(Warehouse(str(tmp_path / "none"))) == 0
