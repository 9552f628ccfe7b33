"""Batches of a segment from its source: the file itself, text of kafka-dump-log, or a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from replica_audit.model import Damage, SegmentFile, SegmentSummary
from replica_audit.segments.frames import FrameStream
from replica_audit.segments.scan import scan_segment
from replica_audit.segments.summary import Summariser
from replica_audit.snapshot.dump.dump_text import Section
from replica_audit.snapshot.dump.dumped_segment import assemble_dumped_log, parse_listing
from replica_audit.snapshot.provenance import NOT_CAPTURED, SecondHandLog
from replica_audit.snapshot.storage import Snapshot


class OpenSource(NamedTuple):
    """An opened segment: its items in order, and the summariser for them."""

    items: Iterator[NDArray[np.void] | Damage]
    """Batches and damage in the form of `scan_segment`."""
    summariser: Summariser
    """Empty; every item must be added to it."""


@contextmanager
def open_source(snapshot: Snapshot, file: SegmentFile) -> Iterator[OpenSource]:
    """Open `file` for one pass. Raises OSError and FormatError, here or while items are taken."""
    if file.source == "segment":
        with snapshot.open_file(file.path) as stream:
            yield scan_source(stream, file)
        return
    log = _read_second_hand(snapshot, file)
    batches = [log.batches] if len(log.batches) else []
    items: Iterator[NDArray[np.void] | Damage] = iter([*batches, *log.damage])
    summariser = Summariser(
        file.path, file.base_offset, log.size_bytes, source=file.source, form=log.form, unproven=log.unproven
    )
    yield OpenSource(items, summariser)


def scan_source(
    stream: BinaryIO, file: SegmentFile, evidence: FrameStream | None = None, known: Iterable[NDArray[np.void]] = ()
) -> OpenSource:
    """The scan of an open segment, `known` as for `scan_segment`; `evidence`: the evidence that `stream` reads from, if any.

    If evidence lacks bytes that are not covered by headers, the segment is known by its headers only.
    """
    evidence = stream if isinstance(stream, FrameStream) else evidence
    items: Iterator[NDArray[np.void] | Damage]
    if evidence is None:
        items = scan_segment(stream, file.size_bytes, file.base_offset, known=known)
    elif evidence.missing:
        summariser = Summariser(
            file.path, file.base_offset, file.size_bytes, source="evidence", unproven=(NOT_CAPTURED,)
        )
        return OpenSource(evidence.known(), summariser)
    else:
        items = scan_segment(stream, file.size_bytes, file.base_offset, known=evidence.known())
    return OpenSource(items, Summariser(file.path, file.base_offset, file.size_bytes))


def summarise_source(snapshot: Snapshot, file: SegmentFile) -> SegmentSummary:
    """Summary of `file`. Raises OSError and FormatError."""
    with open_source(snapshot, file) as source:
        for item in source.items:
            source.summariser.add(item)
    return source.summariser.finish()


def _read_second_hand(snapshot: Snapshot, file: SegmentFile) -> SecondHandLog:
    if file.source != "dump_text":
        # Imported here: pyarrow loads more slowly than a small snapshot is audited, and few snapshots have tables.
        from replica_audit.snapshot.batch_tables import read_table_rows

        return read_table_rows(snapshot, file)
    listings = []
    for part in file.parts:
        with snapshot.open_file(part.path) as stream:
            listings.append(parse_listing(stream, Section(part.dumped_path, part.start, part.end)))
    return assemble_dumped_log(listings, file.base_offset)
