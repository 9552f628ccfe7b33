"""Job one, the scan on the executors: each task writes the batches of its files as Parquet and returns the files' facts."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from replica_audit.formats.inventory import SegmentFile
from replica_audit.spark.tasks import parallelism, run_tasks
from replica_audit.warehouse.delta_tables import DataFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from replica_audit.formats.files.storage import Snapshot

#: A task scans about this many bytes, so that a cluster has work for every core and the driver few tasks to plan.
_TASK_BYTES = 256 << 20

#: Below this a second task costs more than it saves: a Python worker takes about a second to start.
_ONE_TASK_BYTES = 32 << 20

#: What a file costs beside its bytes: opening it, its summary and its row.
_FILE_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class ScannedFiles:
    """What a task found: the Parquet file with the batches, and rows of `segments` and `quarantine` without ids."""

    batches: DataFile | None
    segments: list[dict]
    quarantine: list[dict]


def deal_files(files: Iterable[SegmentFile], cores: int) -> list[list[SegmentFile]]:
    """Files dealt out to tasks of about equal work, largest first; in each task in the order of partitions."""
    weights = {file: file.size_bytes + _FILE_BYTES for file in files}
    total = sum(weights.values())
    count = 1 if total <= _ONE_TASK_BYTES else max(1, min(len(weights), max(cores, total // _TASK_BYTES)))
    tasks: list[list[SegmentFile]] = [[] for _ in range(count)]
    heap = [(0, number) for number in range(count)]
    for file in sorted(weights, key=lambda file: (-weights[file], file.path)):
        weight, number = heap[0]
        tasks[number].append(file)
        heapq.heapreplace(heap, (weight + weights[file], number))
    order = ("topic", "partition", "broker_id", "log_dir", "base_offset")
    return [sorted(task, key=lambda file: tuple(getattr(file, name) for name in order)) for task in tasks]


def scan_files(
    spark: SparkSession,
    snapshot: Snapshot,
    files: Sequence[SegmentFile],
    directory: str,
    constants: Mapping[str, str | None],
    ended: Callable[[list[SegmentFile]], None] | None = None,
) -> list[ScannedFiles]:
    """Scan `files` in one job; batches go below `directory`, that of the table `batches`, and wait for a commit.

    `constants` are the ids of every row (cluster_id, ingest_id); `ended` is called with the files of each task that has ended.
    """
    if not files:
        return []

    def scan(of_task: list[SegmentFile]) -> list[ScannedFiles]:
        return [scan_task(snapshot, of_task, directory, constants)]

    return run_tasks(spark, deal_files(files, parallelism(spark)), scan, ended)


def scan_task(
    snapshot: Snapshot, files: Sequence[SegmentFile], directory: str, constants: Mapping[str, str | None]
) -> ScannedFiles:
    """Scan the files of one task. A file that cannot be read gives a quarantine row, and the others go on."""
    from replica_audit.auditing.rows.bronze import damage_rows, segment_row
    from replica_audit.formats.format_error import FormatError
    from replica_audit.formats.sources import open_source
    from replica_audit.local.opened_snapshot import unreadable_row
    from replica_audit.model import Damage
    from replica_audit.warehouse.batch_files import BatchFileWriter

    writer = BatchFileWriter(directory, constants)
    segments: list[dict] = []
    quarantine: list[dict] = []
    for file in files:
        names = {"broker_id": file.broker_id, "log_dir": file.log_dir, "topic": file.topic, "partition": file.partition}
        start = writer.row
        try:
            with open_source(snapshot, file) as (items, summariser):
                for item in items:
                    summariser.add(item)
                    if not isinstance(item, Damage):
                        writer.add({**names, "segment_base_offset": file.base_offset}, item)
        except (OSError, FormatError) as error:
            quarantine.append(unreadable_row(names, file, error))
        else:
            summary = summariser.finish()
            place = {"batch_file": writer.path, "batch_row": start} if writer.row > start else {}
            segments.append({**segment_row(names, summary), "batch_file": None, "batch_row": None, **place})
            quarantine.extend(damage_rows(names, summary))
    return ScannedFiles(writer.close(), segments, quarantine)
