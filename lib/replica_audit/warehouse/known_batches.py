"""Segments that earlier ingests of a cluster have scanned, so that no byte is scanned twice."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from replica_audit import __version__
from replica_audit.model import Damage, SegmentFile, SegmentSummary
from replica_audit.results import place_of
from replica_audit.segments.digests import ContentDigest
from replica_audit.segments.known_segments import KnownSegment, in_order
from replica_audit.warehouse.attempts import finished_attempts, own_rows
from replica_audit.warehouse.delta_tables import Warehouse
from replica_audit.warehouse.ingested_rows import placed_segments, read_summary, segment_files
from replica_audit.warehouse.table_files import open_batches
from replica_audit.warehouse.table_reads import PlacedFiles, WantedPlaces

#: Number of the cluster's latest ingests searched: they may have been of different topics.
_LOOK_BACK = 4

#: The file read last, with one row group of it: a task reads files one after the other.
_open_file = lru_cache(maxsize=1)(open_batches)


#: The fields of a `KnownSegment` in its row; the location of its snapshot precedes them.
_known_of = attrgetter(*KnownSegment._fields[1:])


class _Location(NamedTuple):
    location: str


class StaleBatchesError(Exception):
    """The file of `batches` with the rows of a segment is missing or has other rows; None: the segment has no rows."""

    def __init__(self, batch_file: str | None) -> None:
        super().__init__(batch_file)
        self.batch_file = batch_file


@dataclass(frozen=True, slots=True)
class EarlierSegments:
    """Segments that the cluster's latest ingests have scanned, by this version: another may have kept less of a file."""

    attempts: tuple[tuple[str | None, PlacedFiles], ...] = ()
    """Location of each ingest's snapshot, and the files with its rows; latest first."""

    @classmethod
    def of(cls, warehouse: Warehouse, cluster_id: str | None) -> EarlierSegments:
        finished = finished_attempts(warehouse, "ingest", cluster_id=cluster_id)
        attempts = [row for row in finished if row.tool_version == __version__]
        found = []
        for attempt in attempts[: -_LOOK_BACK - 1 : -1]:
            snapshots = warehouse.read("snapshots", _Location, snapshot_id=attempt.snapshot_id)
            location = next((row.location for row in snapshots), None)
            found.append((location, segment_files(warehouse, **own_rows(attempt))))
        return cls(tuple(found))

    def find(
        self, files: Collection[SegmentFile], *, all_partitions: bool = True
    ) -> dict[tuple[int, str], KnownSegment]:
        """Known segments among `files`, the latest of each, by (broker id, path). Unless `files` are of all partitions, no rows
        of others are read."""
        wanted = {(file.broker_id, file.path) for file in files if file.source == "segment"}
        places = None if all_partitions else WantedPlaces({place_of(file) for file in files})
        found: dict[tuple[int, str], KnownSegment] = {}
        for location, of_attempt in self.attempts:
            if not wanted:
                break
            for row in placed_segments(of_attempt, places):
                key = (row.broker_id, row.path)
                has_place = not row.batch_count or row.batch_file is not None
                if key in wanted and has_place and row.last_change and row.headers:
                    found[key] = KnownSegment(location, *_known_of(row))
            wanted -= found.keys()
        return found


def known_summary(directory: str, known: KnownSegment) -> SegmentSummary | None:
    """The summary of `known`, from the `directory` of `segments`; None if it is no longer there."""
    try:
        return read_summary(directory, known.summary_file, known.summary_row)
    except (OSError, pa.ArrowException, ValueError, KeyError, TypeError):
        return None


def known_batches(directory: str, known: KnownSegment, summary: SegmentSummary) -> Iterator[NDArray[np.void]]:
    """The batches (`BATCH_DTYPE`) of a segment that an earlier ingest scanned, in order, from the table's `directory`.

    Raises StaleBatchesError, perhaps only after the last array, if they are not the ones that `summary` was made of.
    """
    digest = ContentDigest()
    for item in in_order(_rows(directory, known), summary.damage):
        digest.add(item)
        if not isinstance(item, Damage):
            yield item
    if digest.hex_digits() != summary.digest:
        raise StaleBatchesError(known.batch_file)


def _rows(directory: str, known: KnownSegment) -> Iterator[NDArray[np.void]]:
    if known.batch_file is None or known.batch_row is None:
        return
    try:
        yield from _open_file(directory, known.batch_file).rows(known.batch_row, known.batch_count)
    except (OSError, pa.ArrowException, KeyError) as error:
        raise StaleBatchesError(known.batch_file) from error
