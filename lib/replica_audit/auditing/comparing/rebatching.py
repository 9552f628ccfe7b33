"""Batches that differ though their offsets agree, decided by their records: other content, or only other batches.

A follower of a log that is not compacted stores the leader's bytes, so this is rare: message formats converted for it
during an upgrade, or two replicas that really hold other records (KAFKA-1211, KIP-101).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from replica_audit.auditing.comparing.alignment import Alignment, Difference
from replica_audit.auditing.comparing.contents import Reading, Window, offsets_only_in, unequal_offsets, unequal_ranges
from replica_audit.auditing.replicas.shared_range import shared_start
from replica_audit.closed_sets import DifferenceKind
from replica_audit.formats.segments.batch_rows import Batches

if TYPE_CHECKING:
    from replica_audit.auditing.replicas.facts import ReplicaFacts
    from replica_audit.batch_header import Batch


def decide_by_records(
    reference: ReplicaFacts, follower: ReplicaFacts, alignment: Alignment, reading: Reading
) -> Alignment:
    """`alignment` of a log that is not compacted, with its `content` and `format` differences decided by records.

    Of a batch only the records that differ are a difference; equal ones make it `batching` or `format`, `compared`; a
    record that only one side has is a hole. Where records cannot be read the headers' word stands.
    """
    undecided = {item.batches[0]: item for item in alignment.differences if item.kind in ("content", "format")}
    if not undecided:
        return alignment
    floor = shared_start(reference, follower)
    own, theirs = _clusters(alignment, [batch.base_offset for batch in undecided])
    decided = [item for item in alignment.differences if item.kind not in ("content", "format")]
    for window in reading.windows(reference, follower, own, theirs):
        decided.extend(_decide(window, undecided, floor, reference, follower))
    return replace(alignment, differences=tuple(sorted(decided, key=lambda item: (item.start_offset, item.end_offset))))


def _clusters(alignment: Alignment, chosen: Sequence[int]) -> tuple[Batches, Batches]:
    """All batches of either side that overlap those of the follower that begin at `chosen` offsets, directly or through others."""
    own, theirs = alignment.own, alignment.reference
    starts, ends = (np.concatenate(columns) for columns in ((own.starts, theirs.starts), (own.ends, theirs.ends)))
    order = starts.argsort(kind="stable")
    begins = starts[order][1:] >= np.maximum.accumulate(ends[order])[:-1]
    clusters = np.empty(len(order), np.int64)
    clusters[order] = np.concatenate(([0], np.cumsum(begins)))
    is_own = np.arange(len(order)) < len(own)
    kept = np.isin(clusters, clusters[is_own & np.isin(starts, chosen)])
    return own.where(kept[: len(own)]), theirs.where(kept[len(own) :])


def _decide(
    window: Window, undecided: dict[Batch, Difference], floor: int, reference: ReplicaFacts, follower: ReplicaFacts
) -> Iterator[Difference]:
    unequal = unequal_offsets(window.own, window.theirs)
    unequal = unequal[unequal >= floor]
    conflicting: list[tuple[int, int]] = []
    for batch in window.own_batches:
        item = undecided.get(batch)
        if item is None:
            continue
        if window.cannot_read(batch.base_offset, batch.end_offset):
            yield item
            conflicting.append((batch.base_offset, batch.end_offset))
            continue
        ranges = unequal_ranges(window.own, window.theirs, unequal, batch)
        mixed = (item.leader_epoch is None) != (item.replica_epoch is None)
        for start, end in ranges:
            kind: DifferenceKind = "epoch" if mixed else "content"
            yield replace(item, kind=kind, start_offset=start, end_offset=end, compared=True)
        conflicting += ranges
        if not ranges:
            yield replace(item, kind="format" if item.kind == "format" else "batching", compared=True)
    sides: tuple[tuple[DifferenceKind, np.ndarray, np.ndarray, tuple[Batch, ...], int], ...] = (
        ("hole_there", window.own, window.theirs, window.their_batches, reference.log_end_offset),
        ("hole_here", window.theirs, window.own, window.own_batches, follower.log_end_offset),
    )
    for kind, one, other, other_batches, other_end in sides:
        rows = one[offsets_only_in(one, other)]
        rows = rows[(rows["offset"] >= floor) & (rows["offset"] < other_end)]
        for stretch in _stretches(rows):
            start, end = int(stretch["offset"][0]), int(stretch["offset"][-1]) + 1
            if window.cannot_read(start, end) or any(low < end and start < high for low, high in conflicting):
                continue
            if any(batch.base_offset <= start < batch.end_offset and _thinned(batch) for batch in other_batches):
                continue
            epoch = None if stretch["leader_epoch"][0] < 0 else int(stretch["leader_epoch"][0])
            batches = Batches.of(
                batch
                for batch in window.own_batches
                if kind == "hole_there" and batch.base_offset < end and start < batch.end_offset
            )
            here, there = (None, epoch) if kind == "hole_there" else (epoch, None)
            yield Difference(kind, start, end, here, there, batches, compared=True)


def _stretches(rows: np.ndarray) -> list[np.ndarray]:
    """Rows at consecutive offsets and of one epoch, together."""
    if not len(rows):
        return []
    breaks = (np.diff(rows["offset"]) != 1) | (np.diff(rows["leader_epoch"]) != 0)
    return np.split(rows, np.flatnonzero(breaks) + 1)


def _thinned(batch: Batch) -> bool:
    """A batch of magic 2 with fewer records than its span: the topic was compacted once, whatever its policy is now."""
    return batch.magic >= 2 and batch.record_count < batch.end_offset - batch.base_offset
