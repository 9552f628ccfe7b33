"""Rows of an ingest: the driver holds an index of the partitions, tasks read the rows of theirs. Summaries of segments, which
grow with the log, are read one at a time."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replica_audit.arrow_rows import arrow_to_numbers, arrow_to_rows, joined, numbers_to_arrow, value_to_arrow
from replica_audit.bronze_tables import LeaderEpochRow, OffsetCheckpointRow, PlacedSegment, ReplicaDirRow
from replica_audit.model import SegmentSummary, TopicPartition
from replica_audit.results import place_of
from replica_audit.row_classes import column_names
from replica_audit.schema import PartitionStateRow, QuarantineRow
from replica_audit.segments.summary import summary_from_json
from replica_audit.snapshot.log_dir_names import kind_of_copy
from replica_audit.warehouse.delta_tables import Warehouse
from replica_audit.warehouse.table_layout import schema_of
from replica_audit.warehouse.table_reads import (
    PLACE_COLUMNS,
    ROW_NUMBER,
    FileRows,
    PlacedFiles,
    WantedPlaces,
    place_keys,
    place_of_key,
)

SEGMENTS = "segments"

#: Files open at a time; one row group of each is kept.
_OPEN_FILES = 16

#: Threads open segments ahead, but a Parquet file is read by one at a time.
_lock = threading.Lock()

#: Columns of a `PlacedSegment` that its own row has.
_COLUMNS = [name for name in PlacedSegment._fields if name not in ("summary_file", ROW_NUMBER)]


def _place_segments(rows: pa.Table, path: str) -> Iterator[PlacedSegment]:
    """Rows of the file at `path` below `segments`, with their numbers in it."""
    return arrow_to_rows(
        rows.append_column("summary_file", pa.repeat(value_to_arrow(path, pa.string()), rows.num_rows)), PlacedSegment
    )


def _segment_schema() -> pa.Schema:
    """Columns that `_place_segments` needs."""
    return schema_of(SEGMENTS, _COLUMNS).append(pa.field(ROW_NUMBER, pa.int64()))


def segment_files(warehouse: Warehouse, *, snapshot_id: str | None, ingest_id: str | None) -> PlacedFiles:
    """The files with the rows of an attempt."""
    return warehouse.placed_files(SEGMENTS, snapshot_id, ingest_id=ingest_id)


def placed_segments(files: PlacedFiles, places: WantedPlaces | None = None) -> list[PlacedSegment]:
    """The rows of `files`, restricted to `places` if given, in order of partition, broker and path."""
    read = files.read(_segment_schema(), places)
    found = (row for path, rows in read for row in _place_segments(rows, path))
    return sorted(found, key=lambda row: (row.topic, row.partition, row.broker_id, row.path))


def read_summary(directory: str, path: str, row: int) -> SegmentSummary:
    """One summary from a file of the table `segments` in `directory`. Raises OSError or ArrowException if the file is missing
    or broken, ValueError if it has no such row."""
    with _lock:
        found = [text for texts in _open_file(directory, path).rows(row, 1) for text in texts]
    if found:
        return summary_from_json(found[0])
    raise ValueError(f"{path} of the table {SEGMENTS} has no row {row}")


def _texts(table: pa.Table) -> list[str]:
    return table["summary"].to_pylist()


@lru_cache(maxsize=_OPEN_FILES)
def _open_file(directory: str, path: str) -> FileRows[list[str]]:
    return FileRows(directory, path, ["summary"], _texts)


class IndexedPartition(NamedTuple):
    """A partition in the driver's index, without its rows."""

    place: TopicPartition
    batch_count: int = 0
    segment_files: tuple[str, ...] = ()
    """Files of the table `segments` with rows of it."""


@dataclass(frozen=True, slots=True)
class StoredPartition:
    """Rows of a partition; the fields are named for the tables."""

    replica_dirs: list[ReplicaDirRow] = field(default_factory=list)
    leader_epochs: list[LeaderEpochRow] = field(default_factory=list)
    offset_checkpoints: list[OffsetCheckpointRow] = field(default_factory=list)
    partition_states: list[PartitionStateRow] = field(default_factory=list)
    segments: list[PlacedSegment] = field(default_factory=list)


#: Tables with evidence of a partition.
EVIDENCE_TABLES = tuple(one.name for one in fields(StoredPartition))


@dataclass(frozen=True, slots=True)
class EvidenceIndex:
    """The driver's index of the rows of an ingest."""

    partitions: list[IndexedPartition]
    """Partitions in order."""
    counts: dict[str, int]
    """Number of rows by table."""
    log_dirs: frozenset[str]
    """Log dirs with a current copy of a partition."""
    batch_files: frozenset[str]
    """Files of the table `batches` that segments with batches name."""
    topics: Mapping[str, str]
    """Names of the topics by their ids, as far as directories tell them."""


@dataclass(frozen=True, slots=True)
class EvidenceRows:
    """The rows of one ingest in `EVIDENCE_TABLES`."""

    files: Mapping[str, PlacedFiles]
    """By table."""

    @classmethod
    def of(cls, warehouse: Warehouse, attempt: Mapping[str, str | None]) -> EvidenceRows:
        snapshot_id, ingest_id = attempt["snapshot_id"], attempt["ingest_id"]
        # Without bounds, which the driver would have to read from every file.
        placed = {table: dict.fromkeys(warehouse.files(table, snapshot_id)) for table in EVIDENCE_TABLES}
        key: dict[str | None, str | None] = {"snapshot_id": snapshot_id}
        wanted = {"ingest_id": [ingest_id]}
        return cls(
            {table: PlacedFiles(table, warehouse.directory(table), placed[table], key, wanted) for table in placed}
        )

    def index(self) -> EvidenceIndex:
        """Read a few columns of all rows. Raises EngineError for a missing or broken file."""
        # Includes tables that have lost their files with a last commit.
        counts = dict.fromkeys(EVIDENCE_TABLES, 0)
        found: dict[str, IndexedPartition] = {}
        log_dirs: set[str] = set()
        batch_files: set[str] = set()
        # Arrow makes another text for every row.
        topics: dict[str, str] = {}
        named: dict[str, str] = {}
        files: dict[tuple[str, ...], tuple[str, ...]] = {}
        for table in EVIDENCE_TABLES:
            names = _INDEXED.get(table, ())
            for path, rows in self.files[table].read(schema_of(table, (*PLACE_COLUMNS, *names))):
                counts[table] += rows.num_rows
                # Grouping a pyarrow.Table would import pandas.
                encoded = joined(place_keys(rows)).dictionary_encode()
                keys = encoded.dictionary.to_pylist()
                for key in keys:
                    if key not in found:
                        topic, partition = place_of_key(key)
                        found[key] = IndexedPartition(TopicPartition(topics.setdefault(topic, topic), partition))
                if table == "replica_dirs":
                    log_dirs |= _current_log_dirs(rows)
                    named.update(_topics_by_id(rows))
                if table == SEGMENTS:
                    counted = arrow_to_numbers(rows["batch_count"], 0)
                    filled = rows.filter(numbers_to_arrow(counted > 0))
                    batch_files |= set(filled["batch_file"].unique().to_pylist())
                    batches = np.bincount(arrow_to_numbers(encoded.indices), counted, len(keys))
                    for key, more in zip(keys, batches.astype(np.int64).tolist(), strict=True):
                        known = found[key]
                        others = known.segment_files
                        paths = others if others[-1:] == (path,) else (*others, path)
                        found[key] = known._replace(
                            batch_count=known.batch_count + more, segment_files=files.setdefault(paths, paths)
                        )
        return EvidenceIndex(sorted(found.values()), counts, frozenset(log_dirs), frozenset(batch_files), named)

    def read(
        self, places: Sequence[TopicPartition], segment_files: Collection[str]
    ) -> dict[TopicPartition, StoredPartition]:
        """The rows of `places`; of segments those in `segment_files`, with the places of their summaries."""
        wanted = WantedPlaces(places)
        found: dict[TopicPartition, StoredPartition] = defaultdict(StoredPartition)
        for directory in self.files["replica_dirs"].read_rows(ReplicaDirRow, wanted):
            found[place_of(directory)].replica_dirs.append(directory)
        for line in self.files["leader_epochs"].read_rows(LeaderEpochRow, wanted):
            found[place_of(line)].leader_epochs.append(line)
        for entry in self.files["offset_checkpoints"].read_rows(OffsetCheckpointRow, wanted):
            found[place_of(entry)].offset_checkpoints.append(entry)
        for state in self.files["partition_states"].read_rows(PartitionStateRow, wanted):
            found[place_of(state)].partition_states.append(state)
        of_task = replace(self.files[SEGMENTS], bounds=dict.fromkeys(sorted(segment_files)))
        for path, rows in of_task.read(_segment_schema(), wanted):
            for segment in _place_segments(rows, path):
                found[place_of(segment)].segments.append(segment)
        for of_place in found.values():
            of_place.segments.sort(key=lambda row: (row.broker_id, row.path))
        return dict(found)


def unplaced_rows(warehouse: Warehouse, attempt: Mapping[str, str | None]) -> list[QuarantineRow]:
    """The rows of `quarantine` of an attempt that belong to no partition."""
    parts = warehouse.read_parts("quarantine", column_names(QuarantineRow), **attempt)
    unplaced = (rows.filter(pc.is_null(rows["topic"])) for rows in parts)
    return [row for rows in unplaced for row in arrow_to_rows(rows, QuarantineRow)]


_INDEXED = {"replica_dirs": ("path", "log_dir", "topic_id"), SEGMENTS: ("batch_count", "batch_file")}
#: Rows that are Python objects at a time.
_STEP = 1 << 16


def _topics_by_id(rows: pa.Table) -> dict[str, str]:
    names = rows["topic"].combine_chunks().dictionary_encode()
    ids = rows["topic_id"].combine_chunks().dictionary_encode()
    known = ids.indices.is_valid()
    pairs = np.stack([arrow_to_numbers(one.indices.filter(known)) for one in (ids, names)])
    return {
        ids.dictionary[topic_id].as_py(): names.dictionary[name].as_py()
        for topic_id, name in np.unique(pairs, axis=1).T.tolist()
    }


def _current_log_dirs(rows: pa.Table) -> set[str]:
    found = set()
    for batch in rows.select(["path", "log_dir"]).to_batches(max_chunksize=_STEP):
        for path, log_dir in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            if log_dir not in found and kind_of_copy(path, log_dir) == "current":
                found.add(log_dir)
    return found
