"""The ingest stage: a snapshot's files into the bronze tables."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from replica_audit import __version__
from replica_audit.auditing.snapshot import open_snapshot
from replica_audit.config import Settings
from replica_audit.formats.batches import PREFIX_BYTES
from replica_audit.formats.bronze import bronze_rows
from replica_audit.formats.identity import (
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
from replica_audit.formats.inventory import Inventory, SegmentFile
from replica_audit.formats.storage import Snapshot
from replica_audit.moments import now
from replica_audit.spark.observations import LOG_EVENTS, PROGRESS, problems_of, scan_broker_logs, scan_progress
from replica_audit.spark.scanning import scan_files
from replica_audit.spark.session import COMPILE_FROM_BYTES, compile_queries
from replica_audit.spark.warehouse import Warehouse, run_together
from replica_audit.tables import BRONZE_TABLES, ddl

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

#: Segments that are looked at to see how large batches are.
_SAMPLED = 16

#: The scan gives batches, and summaries of segments. Where batches are large their rows are few, and are kept for the
#: second question; where they are small, rows are dearer than bytes, and the files are read a second time.
_KEEP_FROM_BATCH_BYTES = 4096


def ingest(spark: SparkSession, uri: str, settings: Settings, progress) -> str:
    """Ingest the snapshot at `uri` and return its id.

    A snapshot that lies where it lay when it was ingested, with no file changed since, is not scanned again. Else it is
    scanned first, which tells its id (`formats.identity`); where that id is there, its rows are these, and only where it
    lies is noted. Raises UsageError when `settings.topics` match nothing and InputError when there is no log dir at all
    (`open_snapshot`).
    """
    started = now()
    snapshot, inventory = open_snapshot(uri, settings.topics, settings.leadership)
    lines = inventory_lines(inventory, settings.topics)
    warehouse = Warehouse(spark, settings.warehouse, settings.catalog, settings.time_travel_days)
    changes = hash_changes(snapshot, inventory, lines)
    finished = _finished_ingests(warehouse)
    if changes is not None and finished and (known := _ingested_before(warehouse, changes, finished)):
        return known
    with ExitStack() as kept:
        size = sum(file.size_bytes for file in inventory.segments)
        compile_queries(spark, size + sum(size for _, size in inventory.progress_files))
        scan = _Scan(spark, snapshot, inventory, progress, kept)
        snapshot_id = identify_snapshot(lines, scan.segments(), hash_texts(spark, snapshot, text_files(inventory)))
        ids = {"cluster_id": inventory.cluster_id, "snapshot_id": snapshot_id}
        row = _snapshot_row(warehouse, snapshot, inventory, ids, changes)
        warehouse.describe_commits(stage="ingest", snapshot_id=snapshot_id)
        if snapshot_id in finished:
            warehouse.put("snapshots", row, again=True, key="snapshot_id", value=snapshot_id)
            return snapshot_id
        stage = {"started": started, "audit_id": None, **ids}
        again = bool(warehouse.runs("ingest", snapshot_id=snapshot_id))
        warehouse.record("ingest", "running", **stage)
        try:
            put = partial(warehouse.put, again=again, key="snapshot_id", value=snapshot_id)
            _write(spark, warehouse, put, scan, ids, row, settings.topics)
        except BaseException:
            warehouse.record("ingest", "failed", **stage)
            raise
        warehouse.record("ingest", "finished", tables=("snapshots", "batches"), **stage)
    return snapshot_id


def _finished_ingests(warehouse: Warehouse) -> set[str]:
    """Ids of the snapshots whose last ingest finished, and was by this version: another one may keep more of a file."""
    newest = {run["snapshot_id"]: run for run in warehouse.runs("ingest")}
    return {
        snapshot_id
        for snapshot_id, run in newest.items()
        if run["state"] == "finished" and run["tool_version"] == __version__
    }


def _ingested_before(warehouse: Warehouse, changes: str, finished: Collection[str]) -> str | None:
    """The snapshot of which nothing changed since it was ingested, where it lies now; None where there is none."""
    rows = warehouse.read("snapshots", last_changes=changes).select("snapshot_id").collect()
    return min((row["snapshot_id"] for row in rows if row["snapshot_id"] in finished), default=None)


def hash_changes(snapshot: Snapshot, inventory: Inventory, lines: Iterable[str]) -> str | None:
    """32 hex digits over where the snapshot lies, what its small files say (`inventory_lines`), and size and last change of
    each file that is scanned; None where a storage does not say when a file was changed.
    """
    paths = {file.path: file.size_bytes for file in inventory.segments if file.source == "segment"}
    paths |= {part.path: part.end for file in inventory.segments for part in file.parts}
    paths |= dict(text_files(inventory))
    listed = sorted(paths)
    changes = snapshot.last_changes(listed)
    if None in changes:
        return None
    files = (json.dumps([path, paths[path], change]) for path, change in zip(listed, changes))
    return hash_lines([json.dumps(["location", snapshot.location]), *files, *lines])


def hash_texts(spark: SparkSession, snapshot: Snapshot, files: Sequence[tuple[str, int]]) -> list[TextDigest]:
    """Digests of files (path, size), which may be large: each executor reads pieces of them."""
    pieces = list(pieces_of(files))
    if not pieces:
        return []

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            numbers = batch.column(0).to_pylist()
            found = [hash_piece(snapshot, pieces[number]) for number in numbers]
            columns = [pa.array(numbers, pa.int64()), pa.array(found, pa.string())]
            yield pa.RecordBatch.from_arrays(columns, names=["number", "digest"])

    tasks = min(len(pieces), 4 * spark.sparkContext.defaultParallelism)
    rows = spark.range(0, len(pieces), 1, tasks).mapInArrow(read, "number bigint, digest string").collect()
    found = {row["number"]: row["digest"] for row in rows}
    return digest_texts(files, ((piece, found[number]) for number, piece in enumerate(pieces)))


class _Scan:
    """The scan of a snapshot's segments: first what they come to, by which it is identified, then their batches.

    Where batches are large both are one pass; where they are small they are read a second time, when the id is known.
    """

    def __init__(
        self, spark: SparkSession, snapshot: Snapshot, inventory: Inventory, progress, kept: ExitStack
    ) -> None:
        self.snapshot, self.inventory = snapshot, inventory
        files = inventory.segments
        size = sum(file.size_bytes for file in files)
        done = kept.enter_context(_counted(spark, progress, len(files), size))
        one_pass = size < COMPILE_FROM_BYTES or _batch_bytes(snapshot, files) >= _KEEP_FROM_BATCH_BYTES
        self.found = scan_files(spark, snapshot, files, rows=one_pass, done=done).persist()
        kept.callback(self.found.unpersist)
        self.batches = self.found if one_pass else scan_files(spark, snapshot, files)

    def segments(self) -> list[SegmentDigest]:
        """Every segment with its digest."""
        from pyspark.sql import functions as F

        summary = F.get_json_object("payload", "$.summary")
        rows = self.found.where("kind = 'segment'").select(
            "broker_id",
            F.get_json_object("payload", "$.path").alias("path"),
            F.get_json_object(summary, "$.digest").alias("digest"),
        )
        digests = {(row["broker_id"], row["path"]): row["digest"] for row in rows.collect()}
        return [
            SegmentDigest(file.broker_id, file.path, file.size_bytes, digests.get((file.broker_id, file.path)))
            for file in self.inventory.segments
        ]


def _write(
    spark: SparkSession,
    warehouse: Warehouse,
    put: Callable[[str, DataFrame], None],
    scan: _Scan,
    ids: Mapping[str, str | None],
    snapshot_row: DataFrame,
    topics: tuple[str, ...],
) -> None:
    """Write all bronze tables."""
    snapshot, inventory, snapshot_id = scan.snapshot, scan.inventory, ids["snapshot_id"]
    rows = bronze_rows(inventory)
    problems = warehouse.frame("quarantine", rows.pop("quarantine"), ids)
    if inventory.progress_files:
        put(PROGRESS, _named(scan_progress(spark, snapshot, inventory.progress_files, topics), ids))
        problems = problems.unionByName(problems_of(warehouse, PROGRESS, snapshot_id))
    if inventory.broker_logs:
        put(LOG_EVENTS, _named(scan_broker_logs(spark, snapshot, inventory.broker_logs), ids))
        problems = problems.unionByName(problems_of(warehouse, LOG_EVENTS, snapshot_id))
    put("batches", _named(scan.batches, ids).where("kind = 'batch'"))
    found = _named(scan.found, ids)
    frames = {
        "segments": _unpack(found, "segment", "segments"),
        "quarantine": _unpack(found, "quarantine", "quarantine").unionByName(problems),
        **{table: warehouse.frame(table, of_table, ids).coalesce(1) for table, of_table in rows.items()},
        "snapshots": snapshot_row,
    }
    run_together([partial(put, table, frame) for table, frame in frames.items()])


def _batch_bytes(snapshot: Snapshot, files: tuple[SegmentFile, ...]) -> float:
    """Mean size of the first batches of the largest segments; 0 when none can be read."""
    sizes = []
    for file in sorted((one for one in files if one.source == "segment"), key=lambda file: -file.size_bytes)[:_SAMPLED]:
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
