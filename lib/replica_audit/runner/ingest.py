"""The ingest stage: a snapshot's files into the bronze tables.

Executors write what is large and the driver commits it. The snapshot's id is a hash of what was read, so it is known after the
scan; rows carry the `ingest_id` of this attempt, and count once its `finished` row is in `audits`.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from typing import NamedTuple

from replica_audit import __version__
from replica_audit.auditing.bronze_rows import COPY_TABLES, copy_rows, directory_rows, leadership_rows
from replica_audit.auditing.snapshot_id import (
    TextDigest,
    digest_texts,
    hash_piece,
    identify_snapshot,
    inventory_lines,
    merge_lines,
    pack_lines,
    pieces_of,
    row_lines,
    sum_lines,
    text_files,
)
from replica_audit.bronze_tables import SnapshotRow
from replica_audit.config import Settings
from replica_audit.progress import Progress
from replica_audit.redaction import redact
from replica_audit.results import place_of
from replica_audit.row_classes import Row, plain
from replica_audit.runner.executor import Executor, map_each
from replica_audit.runner.observation_files import LOG_EVENTS, PROGRESS, scan_broker_logs, scan_progress
from replica_audit.runner.scanning import SCANNED_TABLES, ReadBytes, ScannedFiles, scan_files
from replica_audit.runner.task_planning import ScanTask, SegmentWork, deal_packs, deal_work
from replica_audit.schema import AttemptRow
from replica_audit.snapshot.consumer_offsets import GROUP_OFFSETS
from replica_audit.snapshot.inventory import Inventory
from replica_audit.snapshot.opening import open_snapshot
from replica_audit.snapshot.packed_replicas import pack_replicas
from replica_audit.snapshot.remote_log_metadata import REMOTE_SEGMENTS
from replica_audit.snapshot.remote_store import read_listings
from replica_audit.snapshot.share_state import SHARE_OFFSETS
from replica_audit.snapshot.spread_discovery import DirReader, DirStretch, PackedDirs
from replica_audit.snapshot.storage import Snapshot
from replica_audit.text import now
from replica_audit.warehouse.attempts import Attempt, attempts, finished_attempts, record_attempt
from replica_audit.warehouse.delta_tables import Warehouse
from replica_audit.warehouse.known_batches import EarlierSegments
from replica_audit.warehouse.table_layout import DataFile

#: Table of leadership, written a few rows at a time; number of its lines packed together.
STATES = "partition_states"
_LINES = 1 << 12


def ingest(executor: Executor, warehouse: Warehouse, uri: str, settings: Settings, progress: Progress) -> str:
    """Ingest the snapshot at `uri` and return its id.

    A snapshot at the place of its last ingest, with no file changed since, is not scanned again. Otherwise the scan determines
    its id (`auditing.snapshot_id`); if that id is known, so are its rows, and only its place is noted. Segments that an earlier
    ingest of the cluster knows are not scanned again either, and one that has grown is scanned from its former end
    (`segment_scan`); with `settings.full` all are scanned.

    Raises UsageError if `settings.topics` match nothing and InputError if there is no log dir at all (`open_snapshot`).
    """
    started = now()
    spreading = SpreadTasks(executor)
    snapshot, inventory = open_snapshot(
        uri, settings.topics, settings.leadership, settings.leadership_source, spreading, progress
    )
    rows = directory_rows(inventory)
    lines = inventory_lines(inventory, settings.topics, rows)
    runs = list(_state_lines(inventory))
    changes = hash_changes(snapshot, inventory, merge_lines(lines, runs), spreading.changes)
    same = None if settings.full else ingested_before(warehouse, changes)
    if same is not None:
        progress.tell_reading(ReadBytes(known_bytes=inventory.segment_bytes, known_segments=inventory.segment_count))
        return same
    ingest_id, cluster_id = uuid.uuid4().hex, inventory.cluster_id
    attempt = Attempt(
        started=started, cluster_id=cluster_id, snapshot_id=None, audit_id=None, ingest_id=ingest_id, options=None
    )
    warehouse.describe_commits(stage="ingest", ingest_id=ingest_id)
    try:
        rows, files, scanned = _scan(executor, warehouse, snapshot, inventory, rows, ingest_id, settings, progress)
        read = ReadBytes.sum(part.read for part in scanned)
        counts = {table: len(rows.get(table, ())) + _count(files.get(table, ())) for table in (*files, *rows)}
        attempt["options"] = json.dumps({"full": settings.full, **read._asdict()}, sort_keys=True)
        texts = hash_texts(executor, snapshot, text_files(inventory))
        digests = (digest for part in scanned for digest in part.digests)
        runs += (*inventory.spread.lines, *(part.lines for part in scanned if part.lines is not None))
        attempt["snapshot_id"] = snapshot_id = identify_snapshot(lines, digests, texts, runs)
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
        record_attempt(warehouse, "ingest", "failed", **attempt)
        raise
    tables = ("snapshots", "batches")
    counts["snapshots"] = 1
    record_attempt(warehouse, "ingest", "finished", tables=tables, row_counts=counts, **attempt)
    progress.tell_reading(read)
    return snapshot_id


def finished_here(warehouse: Warehouse, snapshot_id: str) -> list[AttemptRow]:
    """The finished attempt for a snapshot, as from `finished_attempts`, if this version made it."""
    found = finished_attempts(warehouse, "ingest", snapshot_id=snapshot_id)
    return [row for row in found if row.tool_version == __version__]


def hash_changes(
    snapshot: Snapshot, inventory: Inventory, lines: Iterable[str], changes: Iterable[int | None]
) -> str | None:
    """32 hex digits over the snapshot's place, the content of its small files (`inventory_lines`), and size and last change of
    each file that is scanned; None if a storage does not tell when a file was changed.

    `changes` are sums over what tasks have read (`SpreadTasks.changes`).
    """
    paths = {file.path: file.size_bytes for file in inventory.all_segments if file.source == "segment"}
    paths |= {part.path: part.end for file in inventory.all_segments for part in file.parts}
    paths |= dict(text_files(inventory))
    files = sorted(paths.items())
    found = snapshot.last_changes([path for path, _ in files])
    sums = [*changes]
    if None in found or None in sums:
        return None
    own = sum_lines(chain([json.dumps(["location", snapshot.location])], _file_lines(files, found), lines))
    return f"{(own + sum(one for one in sums if one is not None)) % (1 << 128):032x}"


def _file_lines(files: Iterable[tuple[str, int]], changes: Iterable[str | None]) -> Iterable[str]:
    """A line for each file (path, size) with its last change."""
    return (json.dumps([path, size, change]) for (path, size), change in zip(files, changes, strict=True))


class SpreadTasks:
    """Runs the tasks of a large discovery on an executor (`snapshot.spread_discovery.Spreading`)."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self.changes: list[int | None] = []
        """Each task's contribution to `hash_changes`; None if the storage does not tell when files were changed."""

    def read(self, reader: DirReader, stretches: Sequence[DirStretch]) -> list[PackedDirs]:
        found = self._executor.map(stretches, partial(_read_stretch, reader))
        self.changes += (change for _, change in found)
        return [packed for packed, _ in found]


def _read_stretch(reader: DirReader, stretch: DirStretch) -> list[tuple[PackedDirs, int | None]]:
    found = reader.read(stretch)
    files = [(file.path, file.size_bytes) for one in found.held for file in one.segments]
    changes = reader.snapshot.last_changes([path for path, _ in files])
    lines = list(row_lines(copy_rows(one.replica for one in found.held)))
    total = None if None in changes else sum_lines([*lines, *_file_lines(files, changes)])
    return [(PackedDirs(found._replace(held=()), *pack_replicas(found.held), pack_lines(lines)), total)]


def _state_lines(inventory: Inventory) -> Iterator[bytes]:
    """The lines of leadership, packed."""
    rows = leadership_rows(inventory)
    while part := list(islice(rows, _LINES)):
        yield pack_lines(row_lines({STATES: part}))


class _Ingested(NamedTuple):
    snapshot_id: str
    ingest_id: str


def ingested_before(warehouse: Warehouse, changes: str | None) -> str | None:
    """The snapshot at its present place in which nothing changed since its ingest; None if there is none.

    Ingests of another version do not count, since it may have kept less of a file.
    """
    if changes is None:
        return None
    rows = warehouse.read("snapshots", _Ingested, last_changes=changes)
    if not rows:
        return None
    finished = {
        (row.snapshot_id, row.ingest_id)
        for row in attempts(warehouse, "ingest")
        if row.state == "finished" and row.tool_version == __version__
    }
    return min((row.snapshot_id for row in rows if row in finished), default=None)


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
    known_rows: Mapping[str, list[Row]],
    ingest_id: str,
    settings: Settings,
    progress: Progress,
) -> tuple[dict[str, list[Row]], dict[str, list[DataFile]], list[ScannedFiles]]:
    """Rows of the small bronze tables, files of the scan that wait for their commit, and what tasks returned."""
    # In order of partitions, so that a task of the audit finds its rows side by side.
    rows = {table: _by_partition(of_table) for table, of_table in known_rows.items()}
    rows["segments"] = []
    constants = {"cluster_id": inventory.cluster_id, "ingest_id": ingest_id}
    files: dict[str, list[DataFile]] = {table: [] for table in (*SCANNED_TABLES, *COPY_TABLES)}
    files[STATES] = [*warehouse.write(STATES, leadership_rows(inventory), constants)]
    earlier = EarlierSegments() if settings.full else EarlierSegments.of(warehouse, inventory.cluster_id)
    known = earlier.find(inventory.all_segments)
    works = [SegmentWork(file, known.get((file.broker_id, file.path))) for file in inventory.all_segments]

    def ended(task: ScanTask) -> None:
        progress.advance(task.segment_count, task.size_bytes)

    progress.begin("scanning", inventory.segment_count, inventory.segment_bytes)
    try:
        tables = (*SCANNED_TABLES, *(COPY_TABLES if inventory.spread else ()))
        directories = {table: warehouse.directory(table) for table in tables}
        tasks = deal_packs(inventory.spread, executor.parallelism) if inventory.spread else []
        tasks += (ScanTask(dealt) for dealt in deal_work(works, executor.parallelism))
        scanned = scan_files(executor, snapshot, tasks, directories, constants, earlier, ended)
        for part in scanned:
            for table, file in part.files.items():
                files[table].append(file)
        if inventory.progress_files:
            directory, given = warehouse.directory(PROGRESS), inventory.progress_files
            files[PROGRESS], unused = scan_progress(executor, snapshot, given, directory, constants, settings.topics)
            rows["quarantine"] += unused
        if inventory.broker_logs:
            directory = warehouse.directory(LOG_EVENTS)
            files[LOG_EVENTS], unused = scan_broker_logs(
                executor, snapshot, inventory.broker_logs, directory, constants
            )
            rows["quarantine"] += unused
        log_dirs = [one.path for one in inventory.log_dirs if one.kind == "broker"]
        for topic in (GROUP_OFFSETS, SHARE_OFFSETS, REMOTE_SEGMENTS):
            rows["quarantine"] += topic.check_all(snapshot, log_dirs, partial(map_each, executor))
        rows["quarantine"] += read_listings(snapshot)[1]
    finally:
        progress.end()
    return rows, files, scanned


def _by_partition(rows: Iterable[Row]) -> list[Row]:
    def key(row: Row) -> tuple[str, int]:
        topic, partition = place_of(row)
        return topic or "", -1 if partition is None else partition

    return sorted(rows, key=key)


def _count(files: Iterable[DataFile]) -> int:
    return sum(file.row_count for file in files)


def snapshot_row(snapshot: Snapshot, inventory: Inventory, changes: str | None) -> SnapshotRow:
    """The row of `snapshots`; `changes` as from `hash_changes`."""
    manifest = None if inventory.manifest is None else json.dumps(plain(inventory.manifest), sort_keys=True)
    return SnapshotRow(
        uri=snapshot.name,
        location=redact(snapshot.location),
        last_changes=changes,
        manifest=manifest,
        log_dir_count=len(inventory.log_dirs),
        brokers=list(inventory.brokers),
        replica_count=inventory.replica_count,
        segment_count=inventory.segment_count,
        size_bytes=inventory.segment_bytes,
        inventory=dict(inventory.counts),
        voters=inventory.voters,
        metadata_logs=inventory.metadata_copies,
        remote_logs=inventory.remote_logs,
        blank=inventory.blank,
    )
