"""The ingest stage: a snapshot's files into the bronze tables.

Executors write what is large and the driver commits it. The snapshot's id is a hash of what was read, so it is known
after the scan; rows carry the `ingest_id` of this attempt, and count once its `finished` row is in `audits`.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from replica_audit import __version__
from replica_audit.auditing.bronze_rows import bronze_rows
from replica_audit.auditing.opening import open_snapshot
from replica_audit.auditing.snapshot_id import (
    SegmentDigest,
    TextDigest,
    digest_texts,
    hash_lines,
    hash_piece,
    identify_snapshot,
    inventory_lines,
    pieces_of,
    text_files,
)
from replica_audit.config import Settings
from replica_audit.redaction import redact
from replica_audit.runner.executor import Executor, map_each
from replica_audit.runner.observation_files import LOG_EVENTS, PROGRESS, scan_broker_logs, scan_progress
from replica_audit.runner.scanning import SCANNED_TABLES, ReadBytes, scan_files
from replica_audit.runner.task_planning import SegmentWork
from replica_audit.schema import AttemptRow
from replica_audit.snapshot.consumer_offsets import GROUP_OFFSETS
from replica_audit.snapshot.inventory import Inventory
from replica_audit.snapshot.remote_log_metadata import REMOTE_SEGMENTS
from replica_audit.snapshot.storage import Snapshot
from replica_audit.text import now
from replica_audit.warehouse.attempts import attempts, finished_attempts, record_attempt
from replica_audit.warehouse.delta_tables import Warehouse
from replica_audit.warehouse.known_batches import known_segments
from replica_audit.warehouse.table_layout import DataFile


def ingest(executor: Executor, warehouse: Warehouse, uri: str, settings: Settings, progress) -> str:
    """Ingest the snapshot at `uri` and return its id.

    A snapshot that lies where it lay when it was ingested, with no file changed since, is not scanned again. Else it is
    scanned first, which tells its id (`auditing.snapshot_id`); where that id is there, its rows are these, and only where
    it lies is noted. Segments that an earlier ingest of the cluster knows are not scanned again either, and one that has
    grown is scanned from where it ended (`segment_scan`); with `settings.full` all are scanned.

    Raises UsageError when `settings.topics` match nothing and InputError when there is no log dir at all
    (`open_snapshot`).
    """
    started = now()
    progress.begin("listing log dirs")
    try:
        snapshot, inventory = open_snapshot(uri, settings.topics, settings.leadership, settings.leadership_source)
    finally:
        progress.end()
    rows = bronze_rows(inventory)
    lines = inventory_lines(inventory, settings.topics, rows)
    changes = hash_changes(snapshot, inventory, lines)
    same = None if settings.full else ingested_before(warehouse, changes)
    if same is not None:
        progress.tell_reading(ReadBytes(known_bytes=_size(inventory), known_segments=len(inventory.all_segments)))
        return same
    ingest_id, cluster_id = uuid.uuid4().hex, inventory.cluster_id
    attempt: dict[str, Any] = {"started": started, "audit_id": None, "ingest_id": ingest_id, "cluster_id": cluster_id}
    warehouse.describe_commits(stage="ingest", ingest_id=ingest_id)
    snapshot_id = None
    try:
        rows, files, digests, read = _scan(
            executor, warehouse, snapshot, inventory, rows, ingest_id, settings, progress
        )
        counts = {table: len(rows.get(table, ())) + _count(files.get(table, ())) for table in (*files, *rows)}
        attempt["options"] = json.dumps({"full": settings.full, **read._asdict()}, sort_keys=True)
        snapshot_id = identify_snapshot(lines, digests, hash_texts(executor, snapshot, text_files(inventory)))
        ids = {"cluster_id": cluster_id, "snapshot_id": snapshot_id, "ingest_id": ingest_id}
        row = snapshot_row(snapshot, inventory, changes)
        warehouse.describe_commits(stage="ingest", snapshot_id=snapshot_id, ingest_id=ingest_id)
        if before := finished_here(warehouse, snapshot_id):
            warehouse.discard_files(files)
            warehouse.put("snapshots", [row], {**ids, "ingest_id": before[0].ingest_id}, again=True)
            progress.tell_reading(read)
            return snapshot_id
        for table in (*files, *(table for table in rows if table not in files)):
            warehouse.append(table, rows.get(table, ()), ids, files.get(table, ()))
        warehouse.append("snapshots", [row], ids)
    except BaseException:
        record_attempt(warehouse, "ingest", "failed", snapshot_id=snapshot_id, **attempt)
        raise
    tables = ("snapshots", "batches")
    counts["snapshots"] = 1
    record_attempt(
        warehouse, "ingest", "finished", snapshot_id=snapshot_id, tables=tables, row_counts=counts, **attempt
    )
    progress.tell_reading(read)
    return snapshot_id


def finished_here(warehouse: Warehouse, snapshot_id: str) -> list[AttemptRow]:
    """The attempt that counts of a snapshot that is there, as `finished_attempts`, if this version made it."""
    found = finished_attempts(warehouse, "ingest", snapshot_id=snapshot_id)
    return [row for row in found if row.tool_version == __version__]


def hash_changes(snapshot: Snapshot, inventory: Inventory, lines: Iterable[str]) -> str | None:
    """32 hex digits over where the snapshot lies, what its small files say (`inventory_lines`), and size and last change of
    each file that is scanned; None where a storage does not say when a file was changed.
    """
    paths = {file.path: file.size_bytes for file in inventory.all_segments if file.source == "segment"}
    paths |= {part.path: part.end for file in inventory.all_segments for part in file.parts}
    paths |= dict(text_files(inventory))
    listed = sorted(paths)
    changes = snapshot.last_changes(listed)
    if None in changes:
        return None
    files = (json.dumps([path, paths[path], change]) for path, change in zip(listed, changes))
    return hash_lines([json.dumps(["location", snapshot.location]), *files, *lines])


def ingested_before(warehouse: Warehouse, changes: str | None) -> str | None:
    """The snapshot of which nothing changed since it was ingested, where it lies now; None where there is none.

    Another version may have kept less of a file, so what it ingested is not taken for it.
    """
    if changes is None or not warehouse.exists("snapshots"):
        return None
    rows = warehouse.read("snapshots", ("snapshot_id", "ingest_id"), last_changes=changes)
    finished = {
        (row.snapshot_id, row.ingest_id)
        for row in (attempts(warehouse, "ingest") if rows else ())
        if row.state == "finished" and row.tool_version == __version__
    }
    return min((row["snapshot_id"] for row in rows if tuple(row.values()) in finished), default=None)


def hash_texts(executor: Executor, snapshot: Snapshot, files: Sequence[tuple[str, int]]) -> list[TextDigest]:
    """Digests of files (path, size), which may be large: each executor reads pieces of them."""
    pieces = list(pieces_of(files))
    hashes = map_each(executor, partial(hash_piece, snapshot), pieces, 4 * executor.parallelism)
    return digest_texts(files, zip(pieces, hashes, strict=True))


def _scan(
    executor: Executor,
    warehouse: Warehouse,
    snapshot: Snapshot,
    inventory: Inventory,
    known_rows: Mapping[str, list[dict]],
    ingest_id: str,
    settings: Settings,
    progress,
) -> tuple[dict[str, list[dict]], dict[str, list[DataFile]], list[SegmentDigest], ReadBytes]:
    """Rows of the small bronze tables, files of what was scanned, which wait for their commit, the segments' digests, and
    what it took.
    """
    # In order of partitions: a task of the audit reads the rows of its own, which are neighbours then.
    rows = {table: _by_partition(of_table) for table, of_table in known_rows.items()}
    rows["segments"] = []
    files: dict[str, list[DataFile]] = {table: [] for table in SCANNED_TABLES}
    digests: list[SegmentDigest] = []
    known = {} if settings.full else known_segments(warehouse, inventory.cluster_id, inventory.all_segments)
    works = [SegmentWork(file, known.get((file.broker_id, file.path))) for file in inventory.all_segments]
    read = ReadBytes()
    constants = {"cluster_id": inventory.cluster_id, "ingest_id": ingest_id}

    def ended(of_task: list[SegmentWork]) -> None:
        progress.advance(len(of_task), sum(work.file.size_bytes for work in of_task))

    progress.begin("scanning", len(works), _size(inventory))
    try:
        directories = {table: warehouse.directory(table) for table in SCANNED_TABLES}
        for part in scan_files(executor, snapshot, works, directories, constants, ended):
            for table, file in part.files.items():
                files[table].append(file)
            digests += part.digests
            read = read.plus(part.read)
        scans: tuple[tuple[str, Callable[..., Any], Sequence[Any]], ...] = (
            (PROGRESS, scan_progress, inventory.progress_files),
            (LOG_EVENTS, scan_broker_logs, inventory.broker_logs),
        )
        for table, scan, paths in scans:
            if paths:
                files[table], problems = scan(
                    executor, snapshot, paths, warehouse.directory(table), constants, settings.topics
                )
                rows["quarantine"] += problems
        log_dirs = [one.path for one in inventory.log_dirs if one.kind == "broker"]
        for topic in (GROUP_OFFSETS, REMOTE_SEGMENTS):
            unread = topic.check_all(snapshot, log_dirs, partial(map_each, executor))
            rows["quarantine"] += (row._asdict() for row in unread)
    finally:
        progress.end()
    return rows, files, digests, read


def _by_partition(rows: list[dict]) -> list[dict]:
    return sorted(rows, key=lambda row: (row["topic"] or "", -1 if row["partition"] is None else row["partition"]))


def _count(files: Iterable[DataFile]) -> int:
    return sum(file.row_count for file in files)


def _size(inventory: Inventory) -> int:
    return sum(file.size_bytes for file in inventory.all_segments)


def snapshot_row(snapshot: Snapshot, inventory: Inventory, changes: str | None) -> dict[str, Any]:
    """The row of `snapshots`; `changes` as from `hash_changes`."""
    manifest = None if inventory.manifest is None else json.dumps(asdict(inventory.manifest), sort_keys=True)
    return {
        "uri": snapshot.name,
        "location": redact(snapshot.location),
        "last_changes": changes,
        "manifest": manifest,
        "log_dir_count": len(inventory.log_dirs),
        "brokers": list(inventory.brokers),
        "replica_count": len(inventory.replicas),
        "segment_count": len(inventory.all_segments),
        "size_bytes": _size(inventory),
        "inventory": dict(inventory.counts),
        "voters": [one._asdict() for one in inventory.voters],
    }
