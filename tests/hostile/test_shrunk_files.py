"""Files that became shorter between the listing of a snapshot and its reading: a row of quarantine, never a traceback."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.support.encoder import Record, encode_batch
from tests.support.fixtures import FIXTURES
from tests.support.snapshots import Replica, make_uuid, write_snapshot

from replica_audit.config import Settings
from replica_audit.runner.in_process import audit_all
from replica_audit.snapshot import storage
from replica_audit.snapshot.file_tree import Tree, TreeEntry


@pytest.fixture
def listed_longer(monkeypatch):
    """Has one file listed with more bytes than it has when it is read."""

    def lengthen(path: str) -> None:
        def seen(entry: TreeEntry) -> TreeEntry:
            return entry._replace(size=entry.size + 77) if entry.path == path else entry

        tree, directory = storage.walk, storage.list_directory
        monkeypatch.setattr(
            storage, "walk", lambda *place: Tree(tuple(map(seen, tree(*place).entries)), tree(*place).problems)
        )
        monkeypatch.setattr(storage, "list_directory", lambda *place: tuple(map(seen, directory(*place))))

    return lengthen


def small(path: Path) -> Path:
    """Two brokers with a segment each, one of them with a `.swap` beside it, and files that are read whole."""
    batch = encode_batch(0, [Record(None, b"value")] * 3, 0)
    write_snapshot(
        path, dict.fromkeys((1, 2), Replica([batch], recovery_point=0)), cluster_id=make_uuid("c"), disks="d"
    )
    (log,) = (path / "broker-1" / "orders-0").glob("*.log")
    shutil.copy(log, log.with_suffix(".log.swap"))
    (path / "replica_progress.jsonl").write_text('{"topic": "orders", "partition": 0, "time_ms": 1, "broker_id": 1}\n')
    (path / "batches.csv").write_text("topic,partition,broker_id,base_offset,last_offset\nother,0,9,0,3\n")
    (path / "server.log").write_text("[2026-01-01 00:00:00,000] INFO started\n")
    return path


NAMES = [
    "00000000000000000000.log", "00000000000000000000.log.swap", "leader-epoch-checkpoint", "partition.metadata",
    "replication-offset-checkpoint", "meta.properties", "replica_progress.jsonl", "batches.csv", "server.log",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_whatever_shrinks_is_told(tmp_path, listed_longer, name):
    path = small(tmp_path / "snapshot")
    found = sorted(str(file.relative_to(path)) for file in path.rglob(name))
    listed_longer(found[0])
    results = audit_all(str(path), Settings())
    if ".log" in name and name != "server.log" and not (name.endswith(".log") and "broker-1" in found[0]):
        rows = [row for row in results.rows("quarantine") if row["path"] == found[0]]
        assert [row["code"] for row in rows] == ["CAP-UNREADABLE"] and "was cut while it was read" in rows[0]["reason"]
    assert "CAP-NOT-AUDITED" not in {row["code"] for row in results.rows("findings")}


def test_a_compacted_log_none_of_whose_segments_can_be_read_is_audited(tmp_path, listed_longer):
    path = tmp_path / "snapshot"
    shutil.copytree(FIXTURES / "txn-failover-1-unclean", path, symlinks=True)
    for broker in sorted(path.glob("broker-*")):
        logs = sorted((broker / "__consumer_offsets-0").glob("*.log"))
        if len(logs) == 1:
            break
    listed_longer(str(logs[0].relative_to(path)))
    results = audit_all(str(path), Settings(topics=("__consumer_offsets",)))
    codes = {row["code"] for row in results.rows("findings")}
    assert "CAP-UNREADABLE" in codes and "CAP-NOT-AUDITED" not in codes
