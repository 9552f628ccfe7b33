"""Comparison of a segment file with the segment that an earlier ingest found under its path: the same, grown, or another.

The properties that copying keeps are compared: size, time of the last change (or ETag), first and last batch header. Only a
scan of the whole file would see a change that keeps all of these.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from replica_audit.model import Damage, SegmentSummary
from replica_audit.segments.record_batch import HEADER_BYTES


class Relation(Enum):
    """Relation of a file to the segment known under its path."""

    SAME = "same"
    GROWN = "grown"
    """Unchanged up to the end of the known segment's sound batches; the rest is new."""
    OTHER = "other"


class KnownSegment(NamedTuple):
    """A segment of an earlier ingest, and the places of its summary and batches in the tables' files."""

    location: str | None
    """Location of the snapshot in which it was found."""
    size_bytes: int
    batch_count: int
    last_change: str
    """Value of `Snapshot.last_change`."""
    headers: str
    """Value of `hash_headers`."""
    last_position: int | None
    """Position of its last batch; None without one."""
    summary_file: str
    """File of the table `segments` with the row of the summary."""
    summary_row: int
    batch_file: str | None
    batch_row: int | None


def is_unchanged(before: str, now: str | None, same_place: bool) -> bool:
    """True if two descriptions of a file's last change, from `Snapshot.last_change`, show that its content is the same.

    All times must be equal for a local file that is still the same inode at the same path. For a copy or a link elsewhere,
    the time of the content counts, which copying can keep.
    """
    if now is None or before == now:
        return before == now
    old, new = before.split(), now.split()
    if not len(old) == len(new) == 3 or (same_place and old[0] == new[0]):
        return False
    return old[1] == new[1]


def hash_headers(stream: BinaryIO, last_position: int | None) -> str:
    """SHA-256 (32 hex digits) of the first 61 bytes of a file and, if there is a batch, of the first 61 of its last one.

    The header of magic 2 has the CRC of the whole batch. Only a hash is kept, since older entries have their key and value there.
    """
    digest = hashlib.sha256()
    for position in (0, *(() if last_position is None else (last_position,))):
        stream.seek(position)
        head = stream.read(HEADER_BYTES)
        digest.update(b"%d %d " % (position, len(head)) + head)
    return digest.hexdigest()[:32]


def relate(
    stream: BinaryIO,
    size_bytes: int,
    last_change: str | None,
    location: str,
    known: KnownSegment,
    summary: SegmentSummary,
) -> Relation:
    """The relation of a file of `size_bytes`, changed at `last_change`, in the snapshot at `location`, to `known` with its
    `summary`. Reads at most two headers of the file."""
    same_size = size_bytes == known.size_bytes
    if size_bytes < known.size_bytes:
        return Relation.OTHER
    is_same = same_size and is_unchanged(known.last_change, last_change, known.location == location)
    # A preallocated file grows into its zeros.
    can_grow = not same_size or summary.tail_kind == "zero_filled"
    if not is_same and not (can_grow and sound_end(summary) is not None):
        return Relation.OTHER
    # An old entry shorter than a header is followed by other bytes once the file grows, which then counts as another.
    if hash_headers(stream, known.last_position) != known.headers:
        return Relation.OTHER
    return Relation.SAME if is_same else Relation.GROWN


def sound_end(summary: SegmentSummary) -> int | None:
    """Position from which a grown file is scanned: the end of its batches if everything up to there is sound, else None.

    Damage is judged by what follows it, so a file with damage is read again.
    """
    damage = summary.damage
    if summary.irregularity_counts.get("crc") or len(damage) > 1 or not summary.batch_count:
        return None
    if not damage:
        return summary.size_bytes
    return None if damage[0].kind == "corrupt" else damage[0].position


def in_order(batches: Iterable[NDArray[np.void]], damage: Iterable[Damage]) -> Iterator[NDArray[np.void] | Damage]:
    """Arrays of `BATCH_DTYPE` and the damage between them by position, as from a scan."""
    waiting = list(damage)
    for rows in batches:
        while waiting and len(rows) and waiting[0].position <= rows["position"][-1]:
            count = int(np.searchsorted(rows["position"], waiting[0].position))
            if count:
                yield rows[:count]
            yield waiting.pop(0)
            rows = rows[count:]
        if len(rows):
            yield rows
    yield from waiting
