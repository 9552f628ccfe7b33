"""One segment of a scan task: scanned, scanned from its former end, or taken over from an earlier ingest."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import numpy as np

from replica_audit.errors import FormatError
from replica_audit.model import Damage, SegmentSummary
from replica_audit.runner.task_planning import SegmentWork, cut_stretches
from replica_audit.segments.frames import FrameStream
from replica_audit.segments.known_segments import KnownSegment, Relation, hash_headers, relate, sound_end
from replica_audit.segments.scan import decode_small
from replica_audit.segments.summary import Summariser, sum_up
from replica_audit.snapshot.read_ahead import run_ahead
from replica_audit.snapshot.segment_sources import open_source, scan_source
from replica_audit.snapshot.storage import OPENED_AHEAD
from replica_audit.warehouse.known_batches import known_batches, known_summary

if TYPE_CHECKING:
    from concurrent.futures import Future

    from numpy.typing import NDArray

    from replica_audit.snapshot.storage import Snapshot


#: Takes the batches of a segment, `BATCH_DTYPE`.
WriteBatches = Callable[["NDArray[np.void]"], None]


class SegmentMarks(NamedTuple):
    """Columns of `segments` by which the next ingest recognises a file."""

    last_change: str | None = None
    last_position: int | None = None
    headers: str | None = None


class ScannedSegment(NamedTuple):
    """A segment's summary, and the effort it took."""

    summary: SegmentSummary
    marks: SegmentMarks
    read_bytes: int
    """Bytes read from the snapshot."""
    known_bytes: int = 0
    """Bytes of the file that were taken over."""
    is_known: bool = False
    """True if nothing in it is new."""


class _CountedStream(io.RawIOBase, BinaryIO):
    """A stream that counts the bytes read."""

    def __init__(self, stream: BinaryIO) -> None:
        super().__init__()
        self._stream = stream
        self.count = 0

    def close(self) -> None:
        self._stream.close()
        super().close()

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._stream.seek(offset, whence)

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self.count += len(data)
        return data


class OpenSegment(NamedTuple):
    """An open segment file, compared with its known state."""

    stream: _CountedStream
    last_change: str | None
    relation: Relation
    before: tuple[KnownSegment, SegmentSummary] | None
    """Known state of the segment, if the file is unchanged or has grown."""
    evidence: FrameStream | None = None
    """The evidence that `stream` reads from, if any."""


def open_segment(snapshot: Snapshot, directory: str, work: SegmentWork) -> OpenSegment | None:
    """Open a segment and relate it to its known state, whose summary is below `directory` (of the table `segments`); None for a
    text or table in place of a segment. Raises OSError."""
    file, known = work
    if file.source != "segment":
        return None
    opened = snapshot.open_file(file.path, checked=False)
    try:
        stream, change = _CountedStream(opened), snapshot.last_change(file.path, opened)
        relation, before = Relation.OTHER, None
        summary = None if known is None else known_summary(directory, known)
        if known is not None and summary is not None:
            relation = relate(stream, file.size_bytes, change, snapshot.location, known, summary)
            if relation is Relation.GROWN and isinstance(opened, FrameStream):
                relation = Relation.OTHER  # all headers are in the evidence, and cost less to read than known ones
            before = None if relation is Relation.OTHER else (known, summary)
        if relation is not Relation.SAME:
            snapshot.check_copy(file.path, opened)
            snapshot.expect(opened, _taken_over(before))
        evidence = opened if isinstance(opened, FrameStream) else None
        return OpenSegment(stream, change, relation, before, evidence)
    except BaseException:
        opened.close()
        raise


def _taken_over(before: tuple[KnownSegment, SegmentSummary] | None) -> int:
    """Bytes of a file that need not be scanned again."""
    return 0 if before is None else sound_end(before[1]) or 0


def scan_segment_file(
    snapshot: Snapshot,
    work: SegmentWork,
    opened: OpenSegment | None,
    directory: str,
    write: WriteBatches,
) -> ScannedSegment:
    """Pass the batches of a segment, opened by `open_segment`, to `write`, and summarise them; closes it.

    Known batches are below `directory` (of the table `batches`). Raises OSError, FormatError and StaleBatchesError, possibly
    after batches were written.
    """
    file = work.file
    if opened is None:
        with open_source(snapshot, file) as (items, summariser):
            _pass_on(items, summariser, write)
        return ScannedSegment(summariser.finish(), SegmentMarks(), file.size_bytes)
    with closing(opened.stream) as stream:
        taken_over = () if opened.before is None else known_batches(directory, *opened.before)
        if opened.relation is Relation.SAME and opened.before is not None:
            for rows in taken_over:
                write(rows)
            known, summary = opened.before
            marks = SegmentMarks(opened.last_change, known.last_position, known.headers)
            return ScannedSegment(summary, marks, stream.count, file.size_bytes, True)
        items, summariser = scan_source(stream, file, opened.evidence, taken_over)
        last_position = _pass_on(items, summariser, write)
        headers = hash_headers(stream, last_position)
        marks = SegmentMarks(opened.last_change, last_position, headers)
        return ScannedSegment(summariser.finish(), marks, stream.count, _taken_over(opened.before))


#: Larger files are scanned one by one.
_SMALL_BYTES = 64 << 10
#: Bytes of small files that are held at once.
_TOGETHER_BYTES = 1 << 20


def in_stretches(works: Iterable[SegmentWork]) -> Iterator[tuple[bool, list[SegmentWork]]]:
    """`works` in their order, cut into stretches that are scanned together; True for stretches of small files that are not known yet."""
    for are_small, some in groupby(works, key=_is_small):
        limit = _TOGETHER_BYTES if are_small else sys.maxsize
        yield from ((are_small, stretch) for stretch in cut_stretches(some, _size, limit))


def _is_small(work: SegmentWork) -> bool:
    return work.known is None and work.file.source == "segment" and work.file.size_bytes <= _SMALL_BYTES


def _size(work: SegmentWork) -> int:
    return work.file.size_bytes


class SmallSegment(NamedTuple):
    """A segment that was scanned with others, and its batches."""

    scanned: ScannedSegment
    batches: NDArray[np.void]

    def pass_on(self, write: WriteBatches) -> ScannedSegment:
        """Pass the batches to `write`, as `scan_segment_file` does."""
        write(self.batches)
        return self.scanned


#: Most small files that one thread reads in turn: a thread for each costs more than reads from memory.
_READ_IN_TURN = 8


def scan_together(
    works: Sequence[SegmentWork], open_one: Callable[[SegmentWork], OpenSegment | None]
) -> dict[int, SmallSegment]:
    """Scan small segments together, and return those without any damage, by their index in `works`; the others are left to
    `scan_segment_file`.

    Several threads open and read them, on a local disk too: for a file that is not cached, directory, inode and content each take a wait.
    """
    each = min(_READ_IN_TURN, len(works) // (OPENED_AHEAD + 1)) or 1
    some = [works[at : at + each] for at in range(0, len(works), each)]
    reads = run_ahead(partial(_read_in_turn, open_one), some, OPENED_AHEAD)
    contents = [content for _, read in reads for content in read.result()]
    found = decode_small([content for content, _ in contents])
    summarisers = [
        Summariser(works[number].file.path, works[number].file.base_offset, len(contents[number][0]))
        for number in found.numbers
    ]
    sum_up(summarisers, found.batches, found.starts)
    segments = {}
    for (number, batches), summariser in zip(found.each(), summarisers, strict=True):
        content, last_change = contents[number]
        last_position = int(batches["position"][-1])
        marks = SegmentMarks(last_change, last_position, hash_headers(io.BytesIO(content), last_position))
        segments[number] = SmallSegment(ScannedSegment(summariser.finish(), marks, len(content)), batches)
    return segments


def _read_in_turn(
    open_one: Callable[[SegmentWork], OpenSegment | None], works: Sequence[SegmentWork]
) -> list[tuple[bytes, str | None]]:
    with ExitStack() as stack:
        # All are opened first: the content of an object is requested then.
        openings = list(run_ahead(open_one, works, 0))
        for _, opening in openings:
            stack.callback(_close, opening)
        return [_read_small(opening, work.file.size_bytes) for work, opening in openings]


def _close(opening: Future[OpenSegment | None]) -> None:
    if opening.exception() is None and (opened := opening.result()) is not None:
        opened.stream.close()


def _read_small(opening: Future[OpenSegment | None], size_bytes: int) -> tuple[bytes, str | None]:
    """Content and last change of a segment file; empty if it cannot be read, has another size, or is evidence."""
    try:
        opened = opening.result()
        if opened is None:
            return b"", None
        content = b"" if opened.evidence is not None else opened.stream.read(size_bytes)
    except (OSError, FormatError):
        return b"", None
    return (content, opened.last_change) if len(content) == size_bytes else (b"", None)


def _pass_on(items: Iterable[NDArray[np.void] | Damage], summariser: Summariser, write: WriteBatches) -> int | None:
    """Pass items on; returns the position of the last batch, if any."""
    last_position = None
    for item in items:
        summariser.add(item)
        if not isinstance(item, Damage):
            write(item)
            last_position = int(item["position"][-1])
    return last_position
