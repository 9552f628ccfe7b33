"""The ingest stage: a snapshot's files into the bronze tables."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from replica_audit.auditing.snapshot import open_snapshot
from replica_audit.config import Settings
from replica_audit.formats.batches import PREFIX_BYTES
from replica_audit.formats.bronze import bronze_rows
from replica_audit.formats.inventory import Inventory, SegmentFile
from replica_audit.formats.sources import hash_part
from replica_audit.formats.storage import Snapshot
from replica_audit.moments import now
from replica_audit.spark.observations import LOG_EVENTS, PROGRESS, problems_of, scan_broker_logs, scan_progress
from replica_audit.spark.scanning import scan_files
from replica_audit.spark.session import COMPILE_FROM_BYTES, compile_queries
from replica_audit.spark.warehouse import Warehouse, run_together
from replica_audit.tables import BRONZE_TABLES, ddl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Read at both ends of every segment for the snapshot's id: a batch header.
_HEADER_BYTES = 61
#: Read at both ends of a file of observations.
_TEXT_BYTES = 4096
_READERS = 16

#: The scan gives batches, and summaries of segments. Where batches are large their rows are few, and are kept for the
#: second question; where they are small, rows are dearer than bytes, and the files are read a second time.
_KEEP_FROM_BATCH_BYTES = 4096


def ingest(spark: SparkSession, uri: str, settings: Settings, progress) -> str:
    """Ingest the snapshot at `uri` and return its id.

    A snapshot that is there, finished, is not scanned again, when it lies where it lay and none of its files was
    changed since: its id alone does not prove that, being of the ends of files. Raises UsageError when
    `settings.topics` match nothing and InputError when there is no log dir at all (`open_snapshot`).
    """
    started = now()
    snapshot, inventory = open_snapshot(uri, settings.topics, settings.leadership)
    snapshot_id = identify(snapshot, inventory, settings.topics)
    warehouse = Warehouse(spark, settings.warehouse, settings.catalog, settings.time_travel_days)
    earlier = warehouse.runs("ingest", snapshot_id=snapshot_id)
    changes = hash_changes(snapshot, inventory)
    if earlier and earlier[-1]["state"] == "finished":
        known = warehouse.read("snapshots", snapshot_id=snapshot_id).select("last_changes").first()
        if changes is not None and known == (changes,):
            return snapshot_id
    stage = {"started": started, "snapshot_id": snapshot_id, "audit_id": None, "cluster_id": inventory.cluster_id}
    warehouse.describe_commits(stage="ingest", snapshot_id=snapshot_id)
    warehouse.record("ingest", "running", **stage)
    try:
        _write(spark, warehouse, snapshot, inventory, snapshot_id, changes, bool(earlier), progress, settings.topics)
    except BaseException:
        warehouse.record("ingest", "failed", **stage)
        raise
    warehouse.record("ingest", "finished", tables=("snapshots", "batches"), **stage)
    return snapshot_id


def identify(snapshot: Snapshot, inventory: Inventory, topics: tuple[str, ...] = ()) -> str:
    """The snapshot's id: 32 hex digits over cluster id, and path, size, first and last bytes of everything it audits.

    Two copies of one state have one id, wherever they lie; a file that changed makes another.
    """
    digest = hashlib.sha256()
    parts = sorted({(part.path, part.start, part.end) for file in inventory.segments for part in file.parts})
    with ThreadPoolExecutor(_READERS) as pool:
        hashes = dict(zip(parts, pool.map(lambda part: hash_part(snapshot, *part), parts), strict=True))
        ends = pool.map(lambda file: _ends(snapshot, file, hashes), inventory.segments)
        rows = [
            f"{file.broker_id}\x00{file.path}\x00{file.size_bytes}\x00{edge}"
            for file, edge in zip(inventory.segments, ends)
        ]
    small = repr(
        (
            inventory.cluster_id,
            sorted(repr(replica) for replica in inventory.replicas),
            sorted(repr(leadership) for leadership in inventory.leaderships),
            sorted(repr(row) for row in inventory.quarantine),
            repr(inventory.manifest),
        )
    )
    texts = [*inventory.progress_files, *((file.path, file.size_bytes) for file in inventory.broker_logs)]
    rows += [f"{path}\x00{size}\x00{_edges(snapshot, path, size, _TEXT_BYTES)}" for path, size in texts]
    if inventory.progress_files:
        # What was observed of other topics is not ingested, and the files do not tell.
        rows.append(f"topics\x00{sorted(topics)!r}")
    for text in (small, *sorted(rows)):
        digest.update(text.encode("utf-8", "surrogateescape") + b"\x01")
    return digest.hexdigest()[:32]


def hash_changes(snapshot: Snapshot, inventory: Inventory) -> str | None:
    """32 hex digits over where the snapshot lies and the last change of each file that is scanned; None where unknown."""
    paths = {file.path for file in inventory.segments if file.source == "segment"}
    paths |= {part.path for file in inventory.segments for part in file.parts}
    paths |= {path for path, _ in inventory.progress_files} | {file.path for file in inventory.broker_logs}
    listed = sorted(paths)
    changes = snapshot.last_changes(listed)
    if None in changes:
        return None
    content = repr((snapshot.location, list(zip(listed, changes))))
    return hashlib.sha256(content.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _ends(snapshot: Snapshot, file: SegmentFile, hashes: Mapping[tuple, str]) -> str:
    if file.source != "segment":
        return " ".join(hashes[part.path, part.start, part.end] for part in file.parts)
    return _edges(snapshot, file.path, file.size_bytes, _HEADER_BYTES)


def _edges(snapshot: Snapshot, path: str, size: int, length: int) -> str:
    try:
        with snapshot.open_file(path) as stream:
            head = stream.read(length)
            stream.seek(max(0, size - length))
            return (head + stream.read(length)).hex()
    except OSError as error:
        return f"unreadable: {error}"  # the scan puts it into quarantine


def _write(
    spark: SparkSession,
    warehouse: Warehouse,
    snapshot: Snapshot,
    inventory: Inventory,
    snapshot_id: str,
    changes: str | None,
    again: bool,
    progress,
    topics: tuple[str, ...],
) -> None:
    """Write all bronze tables; `again`: an earlier attempt may have left rows of this snapshot, which are replaced."""
    ids = {"cluster_id": inventory.cluster_id, "snapshot_id": snapshot_id}
    rows = bronze_rows(inventory)
    size = sum(file.size_bytes for file in inventory.segments)
    compile_queries(spark, size + sum(size for _, size in inventory.progress_files))
    put = partial(warehouse.put, again=again, key="snapshot_id", value=snapshot_id)
    with _counted(spark, progress, len(inventory.segments), size) as done:
        scanned = scan_files(spark, snapshot, inventory.segments, done=done)
        summaries = scan_files(spark, snapshot, inventory.segments, rows=False)
        if keeps := size < COMPILE_FROM_BYTES or _batch_bytes(snapshot, inventory.segments) >= _KEEP_FROM_BATCH_BYTES:
            scanned = summaries = scanned.persist()
        try:
            problems = warehouse.frame("quarantine", rows.pop("quarantine"), ids)
            if inventory.progress_files:
                put(PROGRESS, _named(scan_progress(spark, snapshot, inventory.progress_files, topics), ids))
                problems = problems.unionByName(problems_of(warehouse, PROGRESS, snapshot_id))
            if inventory.broker_logs:
                put(LOG_EVENTS, _named(scan_broker_logs(spark, snapshot, inventory.broker_logs), ids))
                problems = problems.unionByName(problems_of(warehouse, LOG_EVENTS, snapshot_id))
            put("batches", _named(scanned, ids).where("kind = 'batch'"))
            found = _named(summaries, ids)
            frames = {
                "segments": _unpack(found, "segment", "segments"),
                "quarantine": _unpack(found, "quarantine", "quarantine").unionByName(problems),
                **{table: warehouse.frame(table, of_table, ids).coalesce(1) for table, of_table in rows.items()},
                "snapshots": _snapshot_row(warehouse, snapshot, inventory, ids, changes),
            }
            run_together([partial(put, table, frame) for table, frame in frames.items()])
        finally:
            if keeps:
                scanned.unpersist()


def _batch_bytes(snapshot: Snapshot, files: tuple[SegmentFile, ...]) -> float:
    """Mean size of the first batches of the largest segments; 0 when none can be read."""
    sizes = []
    for file in sorted((one for one in files if one.source == "segment"), key=lambda file: -file.size_bytes)[:_READERS]:
        try:
            with snapshot.open_file(file.path) as stream:
                head = stream.read(PREFIX_BYTES)
        except OSError:
            continue  # the scan puts it into quarantine
        if len(head) == PREFIX_BYTES:
            sizes.append(min(file.size_bytes, max(0, int.from_bytes(head[8:12], "big", signed=True))))
    return sum(sizes) / len(sizes) if sizes else 0.0


def _named(scanned: DataFrame, ids: Mapping[str, str | None]) -> DataFrame:
    from pyspark.sql import functions as F

    return scanned.select(*[F.lit(value).cast("string").alias(name) for name, value in ids.items()], "*")


def _unpack(named: DataFrame, kind: str, table: str) -> DataFrame:
    """Rows of one kind of the scan, out of their JSON, in the columns of their table."""
    from pyspark.sql import functions as F

    parsed = named.where(F.col("kind") == kind).select(
        "cluster_id", "snapshot_id", F.from_json("payload", ddl(BRONZE_TABLES[table])).alias("row")
    )
    return parsed.select("cluster_id", "snapshot_id", "row.*")


def _snapshot_row(
    warehouse: Warehouse, snapshot: Snapshot, inventory: Inventory, ids: dict, changes: str | None
) -> DataFrame:
    row = {
        "uri": snapshot.name,
        "location": snapshot.location,
        "last_changes": changes,
        "manifest": None if inventory.manifest is None else _manifest_text(inventory),
        "log_dir_count": len(inventory.log_dirs),
        "replica_count": len(inventory.replicas),
        "segment_count": len(inventory.segments),
        "size_bytes": sum(file.size_bytes for file in inventory.segments),
        "inventory": dict(inventory.counts),
    }
    return warehouse.frame("snapshots", [row], ids)


def _manifest_text(inventory: Inventory) -> str:
    import json
    from dataclasses import asdict

    return json.dumps(asdict(inventory.manifest), sort_keys=True)


@contextmanager
def _counted(spark: SparkSession, progress, files: int, size_bytes: int) -> Iterator:
    """An accumulator of (files, bytes) scanned, shown by `progress` while the block runs."""
    from pyspark.accumulators import AccumulatorParam

    class Pairs(AccumulatorParam):
        def zero(self, value):
            return 0, 0

        def addInPlace(self, one, other):
            return one[0] + other[0], one[1] + other[1]

    done = spark.sparkContext.accumulator((0, 0), Pairs())
    finished = threading.Event()

    def watch() -> None:
        while not finished.wait(0.3):
            progress.update(*done.value)

    progress.begin("scanning", files, size_bytes)
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield done
    finally:
        finished.set()
        watcher.join()
        progress.update(*done.value)
        progress.end()
