"""Ingests into one warehouse, and what they read of the snapshot."""

from __future__ import annotations

from tests.support.stored_rows import made, stored

from replica_audit.runner.scanning import SCANNED_TABLES, ReadBytes, scan_task
from replica_audit.runner.task_planning import SegmentWork, deal_work
from replica_audit.snapshot.opening import open_snapshot
from replica_audit.text import now
from replica_audit.warehouse.attempts import record_attempt
from replica_audit.warehouse.known_batches import EarlierSegments


def directories(warehouse):
    return {table: warehouse.directory(table) for table in SCANNED_TABLES}


def ingest(warehouse, path, ingest_id, full=False, cores=1, topics=()):
    """The rows of an attempt (segments, quarantine, batches), and what it read."""
    snapshot, inventory = open_snapshot(str(path), topics, None)
    known = {} if full else EarlierSegments.of(warehouse, inventory.cluster_id).find(inventory.segments)
    works = [SegmentWork(file, known.get((file.broker_id, file.path))) for file in inventory.segments]
    ids = {"cluster_id": inventory.cluster_id, "snapshot_id": f"s-{ingest_id}", "ingest_id": ingest_id}
    read = ReadBytes()
    for task in deal_work(works, cores):
        part = scan_task(snapshot, task, directories(warehouse), ids)
        for table, file in part.files.items():
            warehouse.append(table, (), ids, [file])
        read = read.plus(part.read)
    warehouse.append("snapshots", [made({"location": snapshot.location})], ids)
    record_attempt(warehouse, "ingest", "finished", started=now(), audit_id=None, **ids)
    own = {"segment_base_offset", "position", "path", "broker_id", "topic", "partition"}
    segments, quarantine, rows = (
        stored(warehouse, table, ingest_id=ingest_id) for table in ("segments", "quarantine", "batches")
    )
    ids = {"ingest_id", "snapshot_id", "batch_file", "batch_row", "last_change"}
    kept = [
        [{name: row[name] for name in row if name not in ids} for row in some] for some in (segments, quarantine, rows)
    ]
    return [sorted(some, key=lambda row: [str(row.get(name)) for name in sorted(own)]) for some in kept], read, segments
