"""Batches of segments in a remote store, compared with `__remote_log_metadata` and the local log (T9)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from replica_audit.auditing.compare.remote_storage import needed_from_store, own_ranges
from replica_audit.model import (
    CHUNK_OFFSETS,
    OffsetRange,
    OffsetSet,
    RemoteObject,
    RemoteSegment,
    SegmentSummary,
    joined,
    without,
)
from replica_audit.segments.record_batch import BATCH_DTYPE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
    from replica_audit.protocol.lineage import Lineage


@dataclass(frozen=True, slots=True, eq=False)
class StoredContent:
    """One segment read in the store; `summary` is None if it was unreadable, for the reason `unread`."""

    segment: RemoteSegment
    stored: RemoteObject
    summary: SegmentSummary | None = None
    unread: str | None = None
    batches: NDArray[np.void] = field(default_factory=lambda: np.empty(0, BATCH_DTYPE))
    """Batches at offsets that a local log has too (`BATCH_DTYPE`); empty if a local segment is the same."""

    @property
    def chunks(self) -> set[int]:
        """Chunks of offsets that `batches` overlap."""
        if not len(self.batches):
            return set()
        first = int(self.batches["base_offset"].min())
        last = int(self.batches["last_offset"].max())
        return set(range(first // CHUNK_OFFSETS, last // CHUNK_OFFSETS + 1))


class ContentDeviation(NamedTuple):
    """A segment in the store that is damaged, holds something else, or could not be read."""

    kind: Literal["damaged", "differs", "unread"]
    segment: RemoteSegment
    path: str
    text: str
    """Clause on the deviation."""
    damaged: tuple[OffsetRange, ...] = ()
    """Offsets of the segment whose batches are unreadable there."""
    needed: tuple[OffsetRange, ...] = ()
    """Part of `damaged` that belongs to the log, below its local start, and is in no other segment."""
    is_encoded: bool = False
    """True if it is unreadable because of how it is stored: encrypted, or not described by its manifest."""


def check_contents(
    facts: ReplicaFacts, lineage: Lineage, contents: Sequence[StoredContent], local: NDArray[np.void]
) -> tuple[ContentDeviation, ...]:
    """Find deviations of the segments that were read; `local` are the log's batches (`BATCH_DTYPE`) in their chunks."""
    # An unreadable segment may be sound.
    sound = OffsetSet.of(part for one in contents for part in without(own_ranges(one.segment, lineage), _damaged(one)))
    found: list[ContentDeviation] = []
    for one in contents:
        path = one.stored.log_path or ""
        if one.summary is None:
            is_encoded = one.stored.unread is not None
            found.append(ContentDeviation("unread", one.segment, path, one.unread or "", is_encoded=is_encoded))
            continue
        if damaged := _damaged(one):
            own = (
                OffsetRange(max(part.start_offset, whole.start_offset), min(part.end_offset, whole.end_offset))
                for part in damaged
                for whole in own_ranges(one.segment, lineage)
            )
            needed = needed_from_store(facts, own, sound)
            reason = one.summary.damage[0].reason if one.summary.damage else None
            spans = " and ".join(f"[{part.start_offset}, {part.end_offset})" for part in damaged[:3])
            text = f"{spans} cannot be read" + (f": {reason}" if reason else "")
            found.append(ContentDeviation("damaged", one.segment, path, text, damaged, needed))
        found += (
            ContentDeviation("differs", one.segment, path, text)
            for text in (*_beside_metadata(one), *_beside_log(facts, lineage, one, local))
        )
    return tuple(found)


def _damaged(one: StoredContent) -> tuple[OffsetRange, ...]:
    """Offsets of a segment whose batches are unreadable there."""
    if one.summary is None:
        return ()
    found = [
        OffsetRange(item.base_offset, item.last_offset + 1) for item in one.summary.irregularities if item.kind == "crc"
    ]
    return joined((*found, *without_batch(one.segment, one.stored, one.summary)))


def without_batch(segment: RemoteSegment, stored: RemoteObject, summary: SegmentSummary) -> tuple[OffsetRange, ...]:
    """Offsets of a finished segment without a batch in the store: other bytes, or an early end.

    The segment was complete when copied; its torn or zero-filled end, unlike that of a local log, once had batches.
    """
    found = []
    for damage in summary.damage:
        start = segment.start_offset if damage.expected_offset is None else damage.expected_offset
        found.append(OffsetRange(start, segment.end_offset if damage.next_offset is None else damage.next_offset))
    end = segment.start_offset if summary.greatest_last_offset is None else summary.greatest_last_offset + 1
    # In a log that was once compacted, the last records of a segment may have been cleaned before the copy. Then it has as
    # many bytes as its broker copied, and still ends early.
    if stored.segment_bytes != segment.size_bytes:
        found.append(OffsetRange(end, segment.end_offset))
    return joined(part for part in found if part.start_offset < part.end_offset)


def _beside_metadata(one: StoredContent) -> Iterator[str]:
    """Clauses on offsets and epochs that differ from the metadata."""
    summary, segment = one.summary, one.segment
    if summary is None or summary.first_base_offset is None or summary.greatest_last_offset is None:
        return
    first = summary.first_base_offset
    end = summary.greatest_last_offset + 1
    if first < segment.start_offset or end > segment.end_offset:
        yield f"it has offsets {first} to {end - 1}, and not {segment.start_offset} to {segment.end_offset - 1}"
        return
    for start in summary.epoch_starts:
        known = [epoch for epoch, begin in segment.epochs if begin <= start.base_offset]
        if start.leader_epoch >= 0 and known[-1:] != [start.leader_epoch]:
            named = f"epoch {known[-1]}" if known else "no epoch"
            yield f"its batch at {start.base_offset} is of epoch {start.leader_epoch}, and its metadata has {named} there"
            return


def _beside_log(facts: ReplicaFacts, lineage: Lineage, one: StoredContent, local: NDArray[np.void]) -> Iterator[str]:
    """Clause on the first batch in the log's epochs that differs from the local log's, both with valid checksums."""
    if not len(one.batches):
        return
    inside = (local["base_offset"] >= facts.local_start_offset) & (local["last_offset"] < facts.log_end_offset)
    sound = local[inside & local["crc_valid"] & ~local["crc_unchecked"]]
    by_offset = {
        int(base): (int(last), int(crc)) for base, last, crc in zip(*(sound[name] for name in _FIELDS), strict=True)
    }
    for batch in one.batches[one.batches["crc_valid"]]:
        base, last, crc = (int(batch[name]) for name in _FIELDS)
        known = by_offset.get(base)
        is_own = lineage.epoch_for_offset(base) == int(batch["leader_epoch"])
        if known is not None and is_own and known != (last, crc):
            yield f"its batch at {base} is not the one that broker {facts.broker_id} has there in the same epoch"
            return


_FIELDS = ("base_offset", "last_offset", "crc")
