"""Alignment of two logs, refined by their records: the part of a comparison that reads batches.

A follower of a log that is not compacted stores the leader's bytes, so records are rarely needed: after a format conversion
during an upgrade, or if two replicas really hold different records (KAFKA-1211, KIP-101).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from replica_audit.auditing.compare.alignment import Alignment, Difference, align
from replica_audit.auditing.compare.compacted import Compaction, compare_compacted
from replica_audit.auditing.compare.ended_apart import with_aborted
from replica_audit.auditing.compare.record_comparison import (
    RecordComparison,
    RecordProblem,
    RecordSource,
    Window,
    offsets_only_in,
    unequal_offsets,
    unequal_ranges,
)
from replica_audit.auditing.compare.remote_storage import differences_below
from replica_audit.auditing.compare.replays import replay_lineage
from replica_audit.auditing.compare.resent import with_resent
from replica_audit.auditing.replicas.offset_ranges import shared_start
from replica_audit.batch_header import or_none
from replica_audit.literals import DifferenceKind
from replica_audit.model import OffsetRange
from replica_audit.segments.batch_rows import Batches

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replica_audit.auditing.compare.wanted_chunks import Pair
    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
    from replica_audit.batch_header import Batch


def decide_by_records(
    reference: ReplicaFacts, follower: ReplicaFacts, alignment: Alignment, reading: RecordComparison
) -> Alignment:
    """Decide the `content` and `format` differences of a log that is not compacted by its records.

    Only the differing records of a batch are a difference; equal ones make it `batching` or `format`, with `compared` set; a
    record on one side only is a hole. If records cannot be read the header-based kind stays.
    """
    undecided = {item.batches[0]: item for item in alignment.differences if item.kind in ("content", "format")}
    if not undecided:
        return alignment
    floor = shared_start(reference, follower)
    own, theirs = _clusters(alignment, [batch.base_offset for batch in undecided])
    decided = [item for item in alignment.differences if item.kind not in ("content", "format")]
    for window in reading.windows(reference, follower, own, theirs):
        decided.extend(_decide(window, undecided, floor, reference, follower))
    return alignment.with_differences(decided)


def _clusters(alignment: Alignment, chosen: Sequence[int]) -> tuple[Batches, Batches]:
    """Batches of either side that overlap a follower's batch at one of the `chosen` offsets, directly or via other batches."""
    own = alignment.own
    theirs = alignment.reference
    starts = np.concatenate((own.starts, theirs.starts))
    ends = np.concatenate((own.ends, theirs.ends))
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
    conflicting: list[OffsetRange] = []
    for batch in window.own_batches:
        item = undecided.get(batch)
        if item is None:
            continue
        if window.cannot_read(batch.base_offset, batch.end_offset):
            yield item
            conflicting.append(OffsetRange(batch.base_offset, batch.end_offset))
            continue
        ranges = unequal_ranges(window.own, window.theirs, unequal, batch)
        mixed = (item.leader_epoch is None) != (item.replica_epoch is None)
        for start, end in ranges:
            kind: DifferenceKind = "epoch" if mixed else "content"
            yield item._replace(kind=kind, start_offset=start, end_offset=end, compared=True)
        conflicting += ranges
        if not ranges:
            yield item._replace(kind="format" if item.kind == "format" else "batching", compared=True)
    sides: tuple[tuple[DifferenceKind, NDArray[np.void], NDArray[np.void], int], ...] = (
        ("hole_there", window.own, window.theirs, reference.log_end_offset),
        ("hole_here", window.theirs, window.own, follower.log_end_offset),
    )
    for kind, one, other, other_end in sides:
        rows = one[offsets_only_in(one, other)]
        rows = rows[(rows["offset"] >= floor) & (rows["offset"] < other_end)]
        for stretch in _stretches(rows):
            start = int(stretch["offset"][0])
            end = int(stretch["offset"][-1]) + 1
            if window.cannot_read(start, end) or any(part.overlaps(start, end) for part in conflicting):
                continue
            epoch = or_none(int(stretch["leader_epoch"][0]))
            batches = Batches.of(
                batch
                for batch in window.own_batches
                if kind == "hole_there" and batch.base_offset < end and start < batch.end_offset
            )
            here, there = (None, epoch) if kind == "hole_there" else (epoch, None)
            yield Difference(kind, start, end, here, there, batches, compared=True)


def _stretches(rows: NDArray[np.void]) -> list[NDArray[np.void]]:
    """Group rows at consecutive offsets and of one epoch."""
    if not len(rows):
        return []
    breaks = (np.diff(rows["offset"]) != 1) | (np.diff(rows["leader_epoch"]) != 0)
    return np.split(rows, np.flatnonzero(breaks) + 1)


class Records(NamedTuple):
    """Source of a pair's records, and the batches of either side whose records are read."""

    read: RecordSource
    own: NDArray[np.void]
    """Batches of the follower (`BATCH_DTYPE`)."""
    theirs: NDArray[np.void]


def align_pair(
    pair: Pair, theirs: Batches, own: Batches, records: Records | None, tiered: bool
) -> tuple[Alignment, Compaction | None, tuple[RecordProblem, ...]]:
    """Align a follower with the reference (arguments as in `compare`); also returns `compaction` and `problems` of the `Comparison`."""
    follower = pair.follower
    leader = pair.reference.facts
    lineage = replay_lineage(leader, tiered)
    alignment = align(leader, follower, pair.reference.past_end, theirs, own, lineage, replay_lineage(follower, tiered))
    if below := list(differences_below(leader, follower, lineage, own)):
        alignment = alignment._replace(differences=(*below, *alignment.differences))
    compaction = None
    problems: tuple[RecordProblem, ...] = ()
    if leader.second_hand or follower.second_hand:
        records = None
    resent = None if records is None else RecordComparison(records.read)
    alignment = with_resent(leader, follower, alignment, resent)
    if records is not None and resent is not None:
        alignment = with_aborted(leader, follower, alignment, resent)
        reading = RecordComparison(records.read)
        if leader.compacted or follower.compacted:
            alignment, compaction = compare_compacted(leader, follower, alignment, records.own, records.theirs, reading)
        else:
            alignment = decide_by_records(leader, follower, alignment, reading)
        problems = (*reading.problems, *(one for one in resent.problems if one.kind == "not_captured"))
    if unchecked := _unchecked(leader, follower, alignment):
        # Other missing parts may be damaged too.
        places = {(one.path, one.position) for one in unchecked}
        problems = (*unchecked, *(one for one in problems if (one.path, one.position) not in places))
        compaction = None
    return alignment, compaction, problems


def _unchecked(reference: ReplicaFacts, follower: ReplicaFacts, alignment: Alignment) -> list[RecordProblem]:
    """Differing batches whose checksums were never computed."""
    if not (reference.unchecked_batches or follower.unchecked_batches):
        return []
    named = [alignment.own_unchecked, *(item.batches.unchecked for item in alignment.differences)]
    return [
        RecordProblem(
            facts.broker_id,
            path,
            batch.position,
            batch.base_offset,
            batch.end_offset,
            batch.size,
            "its checksum was not computed",
            "unchecked",
        )
        for facts, batches in ((follower, Batches.joined(named).once()), (reference, alignment.reference_unchecked))
        for batch in batches
        for path in facts.paths_of(batch)
    ]
