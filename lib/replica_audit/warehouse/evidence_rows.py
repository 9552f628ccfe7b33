"""Rows of an ingest by partition: the driver holds an index of the partitions, tasks read the rows of theirs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from replica_audit.arrow_rows import arrow_schema, arrow_to_rows
from replica_audit.auditing.evidence import EVIDENCE_TABLES
from replica_audit.bronze_tables import BRONZE_TABLES
from replica_audit.model import Place
from replica_audit.snapshot.log_dir_names import kind_of_copy
from replica_audit.warehouse.delta_tables import Warehouse
from replica_audit.warehouse.segment_index import TABLE as SEGMENTS
from replica_audit.warehouse.table_layout import columns_of, open_directory
from replica_audit.warehouse.table_reads import ROW_NUMBER, WantedPlaces, read_file


class IndexedPartition(NamedTuple):
    """A partition in the driver's index, without its rows."""

    place: Place
    batch_count: int = 0
    segment_files: tuple[str, ...] = ()
    """Files of the table `segments` that have rows of it."""


@dataclass(frozen=True, slots=True)
class EvidenceIndex:
    """The driver's index of the rows of an ingest."""

    partitions: list[IndexedPartition]
    """In their order."""
    counts: dict[str, int]
    """Rows by table."""
    log_dirs: frozenset[str]
    """In which partitions have a current copy."""
    batch_files: frozenset[str | None]
    """Files of the table `batches` that segments with batches name."""


@dataclass(frozen=True, slots=True)
class EvidenceRows:
    """The rows of one ingest in `EVIDENCE_TABLES`."""

    directories: Mapping[str, str]
    files: Mapping[str, tuple[str, ...]]
    """Those of the snapshot, relative to each table."""
    attempt: Mapping[str, str | None]
    """snapshot_id and ingest_id."""

    @classmethod
    def of(cls, warehouse: Warehouse, attempt: Mapping[str, str | None]) -> EvidenceRows:
        """The rows of an attempt in a warehouse."""
        directories = {table: warehouse.directory(table) for table in EVIDENCE_TABLES}
        files = {table: tuple(warehouse.files(table, attempt["snapshot_id"])) for table in EVIDENCE_TABLES}
        return cls(directories, files, dict(attempt))

    def index(self) -> EvidenceIndex:
        """Reads a few columns of all rows. Raises EngineError for a file that is gone or broken."""
        # Also of a table that has no file any more: its last commit was lost.
        counts = dict.fromkeys(EVIDENCE_TABLES, 0)
        places: list[pa.Table] = []
        log_dirs: set[str] = set()
        batch_files: set[str | None] = set()
        for table in EVIDENCE_TABLES:
            names = _INDEXED.get(table, ())
            for path, rows in self._read(table, (*_PLACE, *names), self.files[table]):
                counts[table] += rows.num_rows
                if table == "replica_dirs":
                    log_dirs |= _current_log_dirs(rows)
                if table == SEGMENTS:
                    filled = rows.filter(pc.greater(rows["batch_count"], 0))
                    batch_files |= set(filled["batch_file"].unique().to_pylist())
                count = rows["batch_count"] if table == SEGMENTS else pa.nulls(rows.num_rows, pa.int64())
                of_file = pa.scalar(path if table == SEGMENTS else None, pa.string())
                columns = [rows["topic"], rows["partition"], count, pa.repeat(of_file, rows.num_rows)]
                grouped = pa.table(columns, ["topic", "partition", "batches", "file"]).group_by([*_PLACE, "file"])
                places.append(grouped.aggregate([("batches", "sum")]))
        found = pa.concat_tables(places).group_by(list(_PLACE), use_threads=False)
        partitions = found.aggregate([("batches_sum", "sum"), ("file", "list")])
        partitions = partitions.sort_by([(name, "ascending") for name in _PLACE])
        named = [
            IndexedPartition((row["topic"], row["partition"]), row["batches_sum_sum"] or 0, _paths(row["file_list"]))
            for batch in partitions.to_batches(max_chunksize=_STEP)
            for row in batch.to_pylist()
        ]
        return EvidenceIndex(named, counts, frozenset(log_dirs), frozenset(batch_files))

    def read(
        self, places: Sequence[Place], segment_files: Collection[str]
    ) -> dict[Place, dict[str, list[dict[str, Any]]]]:
        """The rows of `places` by table, those of segments without summaries, but with the places of these
        (`segment_index.read_summaries`)."""
        wanted = WantedPlaces(places)
        found: dict[Place, dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
        for table in EVIDENCE_TABLES:
            names = [column.name for column in BRONZE_TABLES[table] if column.name != "summary"]
            paths = [path for path in self.files[table] if table != SEGMENTS or path in segment_files]
            for row in self._rows(table, names, paths, wanted):
                found[row["topic"], row["partition"]][table].append(row)
        for rows in found.values():
            rows[SEGMENTS].sort(key=lambda row: (row["broker_id"], row["path"]))
        return {place: dict(rows) for place, rows in found.items()}

    def _rows(
        self, table: str, names: Sequence[str], paths: Iterable[str], wanted: WantedPlaces
    ) -> Iterator[dict[str, Any]]:
        numbered = (ROW_NUMBER,) if table == SEGMENTS else ()
        for path, rows in self._read(table, (*names, *numbered), paths, wanted):
            for row in arrow_to_rows(rows):
                yield {**row, "summary_file": path} if numbered else row

    def _read(
        self, table: str, names: Sequence[str], paths: Iterable[str], wanted: WantedPlaces | None = None
    ) -> Iterator[tuple[str, pa.Table]]:
        known = arrow_schema(columns_of(table))
        schema = pa.schema([pa.field(name, pa.int64()) if name == ROW_NUMBER else known.field(name) for name in names])
        filesystem, root = open_directory(self.directories[table])
        snapshot_id, ingest_id = self.attempt["snapshot_id"], self.attempt["ingest_id"]
        for path in paths:
            of_ingest = {"ingest_id": [ingest_id]}
            yield path, read_file(filesystem, f"{root}/{path}", schema, {"snapshot_id": snapshot_id}, of_ingest, wanted)


_PLACE = ("topic", "partition")
_INDEXED = {"replica_dirs": ("path", "log_dir"), SEGMENTS: ("batch_count", "batch_file")}
#: Rows that are Python objects at once.
_STEP = 1 << 16


def _current_log_dirs(rows: pa.Table) -> set[str]:
    found = set()
    for batch in rows.select(["path", "log_dir"]).to_batches(max_chunksize=_STEP):
        for path, log_dir in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            if log_dir not in found and kind_of_copy(path, log_dir) == "current":
                found.add(log_dir)
    return found


def _paths(found: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(sorted({path for path in found if path is not None}))
