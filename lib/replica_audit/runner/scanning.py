"""The scan of segments: each task writes its rows as Parquet and returns the files' facts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING, NamedTuple

from replica_audit.runner.executor import Executor
from replica_audit.runner.task_planning import ScanTask, SegmentWork
from replica_audit.warehouse.table_layout import DataFile

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from replica_audit.auditing.snapshot_id import SegmentDigest
    from replica_audit.bronze_tables import SegmentNames
    from replica_audit.runner.segment_scan import OpenSegment, ScannedSegment, WriteBatches
    from replica_audit.snapshot.storage import Snapshot
    from replica_audit.warehouse.known_batches import EarlierSegments
    from replica_audit.warehouse.table_files import BatchFileWriter, RowFiles


#: Tables that the scan writes.
SCANNED_TABLES = ("batches", "segments", "quarantine")

#: Rows of `segments` in a row group: an audit reads those of single partitions.
_GROUP_ROWS = 64
_COPY_GROUP_ROWS = 1 << 11


class ReadBytes(NamedTuple):
    """Bytes of segments that an ingest read, and those taken over from earlier ones."""

    read_bytes: int = 0
    known_bytes: int = 0
    known_segments: int = 0
    """Files of which only two headers were read."""

    def plus(self, other: ReadBytes) -> ReadBytes:
        return ReadBytes(*(one + two for one, two in zip(self, other, strict=True)))

    @classmethod
    def sum(cls, parts: Iterable[ReadBytes]) -> ReadBytes:
        return reduce(cls.plus, parts, cls())


@dataclass(frozen=True, slots=True)
class ScannedFiles:
    """A task's results: its Parquet files by table (`SCANNED_TABLES`), and inputs of the snapshot's id."""

    files: Mapping[str, DataFile]
    digests: list[SegmentDigest]
    """One for each segment of `works`."""
    read: ReadBytes
    lines: bytes | None = None
    """Inputs of the snapshot's id for the segments of packs (`snapshot_id.pack_lines`)."""


def scan_files(
    executor: Executor,
    snapshot: Snapshot,
    tasks: Sequence[ScanTask],
    directories: Mapping[str, str],
    constants: Mapping[str, str | None],
    earlier: EarlierSegments | None = None,
    ended: Callable[[ScanTask], None] | None = None,
) -> list[ScannedFiles]:
    """Scan segments; rows go below `directories` (`SCANNED_TABLES`; for packs also `COPY_TABLES`) and wait for a commit.

    `constants` are the ids of every row (cluster_id, ingest_id); known segments of packs are looked up in `earlier`. `ended` is
    called with each task that has ended.
    """

    def scan(task: ScanTask) -> list[ScannedFiles]:
        if task.works:
            return [scan_task(snapshot, task.works, directories, constants)]
        return [scan_packs(snapshot, task, directories, constants, earlier)]

    return executor.map(tasks, scan, ended)


def scan_packs(
    snapshot: Snapshot,
    task: ScanTask,
    directories: Mapping[str, str],
    constants: Mapping[str, str | None],
    earlier: EarlierSegments | None,
) -> ScannedFiles:
    """`scan_task` for all segments of packs; the rows of their replicas are written too."""
    from replica_audit.auditing.bronze_rows import COPY_TABLES, copy_rows
    from replica_audit.auditing.snapshot_id import pack_lines, segment_lines
    from replica_audit.warehouse.table_files import RowFiles

    held = [one for pack in task.replicas for one in pack.unpack()]
    files = [file for one in held for file in one.segments]
    files += (file for pack in task.segments for file in pack.unpack())
    known = {} if earlier is None else earlier.find(files, all_partitions=False)
    works = [SegmentWork(file, known.get((file.broker_id, file.path))) for file in files]
    rows = copy_rows(one.replica for one in held)
    writer = RowFiles({table: directories[table] for table in COPY_TABLES}, constants, _COPY_GROUP_ROWS)
    writer.add(rows)
    found = scan_task(snapshot, works, directories, constants)
    lines = pack_lines(segment_lines(found.digests))
    return ScannedFiles({**found.files, **writer.close()}, [], found.read, lines)


def scan_task(
    snapshot: Snapshot,
    works: Sequence[SegmentWork],
    directories: Mapping[str, str],
    constants: Mapping[str, str | None],
) -> ScannedFiles:
    """Scan the segments of one task. A file that cannot be read gives a quarantine row, and the others are scanned.

    If batches to be taken over are no longer there, all segments of their file are scanned.
    """
    from replica_audit.warehouse.known_batches import StaleBatchesError
    from replica_audit.warehouse.table_files import BatchFileWriter, RowFiles

    others = {table: directories[table] for table in ("segments", "quarantine")}
    while True:
        writer, rows = BatchFileWriter(directories["batches"], constants), RowFiles(others, constants, _GROUP_ROWS)
        try:
            digests, read = _scan(snapshot, works, directories, writer, rows)
            batches = writer.close()
            return ScannedFiles({**({"batches": batches} if batches else {}), **rows.close()}, digests, read)
        except StaleBatchesError as error:
            writer.discard()
            rows.discard()
            works = [
                work._replace(known=None) if work.known and work.known.batch_file == error.batch_file else work
                for work in works
            ]


def _scan(
    snapshot: Snapshot,
    works: Sequence[SegmentWork],
    directories: Mapping[str, str],
    writer: BatchFileWriter,
    rows: RowFiles,
) -> tuple[list[SegmentDigest], ReadBytes]:
    from replica_audit.auditing.bronze_rows import damage_rows, segment_row, unreadable_row
    from replica_audit.auditing.snapshot_id import SegmentDigest
    from replica_audit.bronze_tables import SegmentNames
    from replica_audit.errors import FormatError

    digests, read = [], ReadBytes()
    for work, scan in _scans(snapshot, works, directories):
        file, digest = work.file, None
        start = writer.row
        names = SegmentNames(file.broker_id, file.log_dir, file.topic, file.partition, file.base_offset)
        try:
            one = scan(_write_to(writer, names))
        except _NotWritten as error:
            raise error.reason from None
        except (OSError, FormatError) as error:
            rows.add({"quarantine": [unreadable_row(file, error)]})
        else:
            row = segment_row(file, one.summary)._replace(**one.marks._asdict())
            if writer.row > start:
                row = row._replace(batch_file=writer.path, batch_row=start)
            rows.add({"segments": [row], "quarantine": list(damage_rows(file, one.summary))})
            read = read.plus(ReadBytes(one.read_bytes, one.known_bytes, one.is_known))
            digest = one.summary.digest
        digests.append(SegmentDigest(file.broker_id, file.path, file.size_bytes, digest))
    return digests, read


def _scans(
    snapshot: Snapshot, works: Sequence[SegmentWork], directories: Mapping[str, str]
) -> Iterator[tuple[SegmentWork, Callable[[WriteBatches], ScannedSegment]]]:
    """Each of `works`, in order, with a function that passes its batches on and returns its summary; small files are read together."""
    from replica_audit.runner.segment_scan import in_stretches, open_segment, scan_segment_file, scan_together
    from replica_audit.snapshot.read_ahead import run_ahead

    opening_one = partial(open_segment, snapshot, directories["segments"])

    def scan_opened(
        work: SegmentWork, open_one: Callable[[], OpenSegment | None], write: WriteBatches
    ) -> ScannedSegment:
        return scan_segment_file(snapshot, work, open_one(), directories["batches"], write)

    for are_small, stretch in in_stretches(works):
        if not are_small:
            openings = run_ahead(opening_one, stretch, snapshot.opens_ahead)
            yield from ((work, partial(scan_opened, work, opening.result)) for work, opening in openings)
            continue
        found = scan_together(stretch, opening_one)
        for number, work in enumerate(stretch):
            if number in found:
                yield work, found[number].pass_on
            else:
                yield work, partial(scan_opened, work, partial(opening_one, work))


class _NotWritten(Exception):
    """The warehouse could not be written, through no fault of the segment being read."""

    def __init__(self, reason: OSError) -> None:
        super().__init__(reason)
        self.reason = reason


def _write_to(writer: BatchFileWriter, names: SegmentNames) -> WriteBatches:
    def write(rows: NDArray[np.void]) -> None:
        try:
            writer.add(names, rows)
        except OSError as error:
            raise _NotWritten(error) from error

    return write
