"""One segment of a scan task: scanned, scanned from where it ended, or taken over from an earlier ingest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from replica_audit.formats.inventory import SegmentFile
from replica_audit.formats.segments.known_segments import KnownSegment, Relation, hash_headers, relate, sound_end
from replica_audit.formats.segments.scan import scan_segment
from replica_audit.formats.segments.segment_summary import Summariser, summary_from_json
from replica_audit.formats.sources import open_source
from replica_audit.model import Damage, SegmentSummary
from replica_audit.warehouse.known_batches import known_batches

if TYPE_CHECKING:
    from replica_audit.formats.files.storage import Snapshot


@dataclass(frozen=True, slots=True)
class ScannedSegment:
    """A segment's summary, and what it took."""

    summary: SegmentSummary
    marks: dict[str, Any]
    """Columns of `segments` that the next ingest knows it by: last_change, last_position, headers."""
    read_bytes: int
    """Of the snapshot, as read."""
    known_bytes: int = 0
    """Bytes of the file that were taken over."""
    is_known: bool = False
    """Nothing of it is new."""


class _Counted:
    """A stream of which it is counted how many bytes are read."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.seek = stream.seek
        self.count = 0

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self.count += len(data)
        return data


def scan_one(
    snapshot: Snapshot,
    file: SegmentFile,
    known: KnownSegment | None,
    directory: str,
    write: Callable[[np.ndarray], None],
) -> ScannedSegment:
    """Give the batches of `file` to `write`, and summarise them.

    `known`: the segment of an earlier ingest under its path, whose batches are below `directory`, that of the table
    `batches`. Raises OSError, FormatError and StaleBatchesError, each perhaps after batches were written.
    """
    if file.source != "segment":
        with open_source(snapshot, file) as (items, summariser):
            _pass_on(items, summariser, write)
        none = dict.fromkeys(("last_change", "last_position", "headers"))
        return ScannedSegment(summariser.finish(), none, file.size_bytes)
    with snapshot.open_file(file.path) as opened:
        stream, change = _Counted(opened), snapshot.last_change(file.path, opened)
        before, relation = None, Relation.OTHER
        if known is not None:
            before = summary_from_json(known.summary)
            relation = relate(stream, file.size_bytes, change, snapshot.location, known, before)
        if relation is Relation.SAME:
            for rows in known_batches(directory, known, before):
                write(rows)
            marks = {"last_change": change, "last_position": known.last_position, "headers": known.headers}
            return ScannedSegment(before, marks, stream.count, file.size_bytes, True)
        grown = relation is Relation.GROWN
        taken_over = known_batches(directory, known, before) if grown else ()
        summariser = Summariser(file.path, file.base_offset, file.size_bytes)
        items = scan_segment(stream, file.size_bytes, file.base_offset, known=taken_over)
        last_position = _pass_on(items, summariser, write)
        marks = {"last_change": change, "last_position": last_position, "headers": hash_headers(stream, last_position)}
        return ScannedSegment(summariser.finish(), marks, stream.count, sound_end(before) if grown else 0)


def _pass_on(items, summariser: Summariser, write: Callable[[np.ndarray], None]) -> int | None:
    """Where the last batch begins; None where there is none."""
    last_position = None
    for item in items:
        summariser.add(item)
        if not isinstance(item, Damage):
            write(item)
            last_position = int(item["position"][-1])
    return last_position
