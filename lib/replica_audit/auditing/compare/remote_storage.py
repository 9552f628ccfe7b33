"""Comparison of followers with the reference's segments in remote storage: other histories, and missing parts (T1, T2, T7).

The reference's epoch file covers its whole log, including remote storage (KIP-405).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple

from replica_audit.auditing.compare.alignment import Difference
from replica_audit.auditing.compare.distinct_records import RecordRange
from replica_audit.auditing.compare.replays import lacked_below_start
from replica_audit.batch_header import or_absent
from replica_audit.literals import RemoteLineage
from replica_audit.model import CHUNK_OFFSETS, OffsetRange, OffsetSet, RemoteSegment, without
from replica_audit.segments.batch_rows import Batches
from replica_audit.snapshot.remote_log_metadata import DELETE_STARTED

if TYPE_CHECKING:
    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
    from replica_audit.protocol.lineage import Lineage


def remote_range(reference: ReplicaFacts, follower: ReplicaFacts) -> OffsetRange:
    """Offsets that the reference has in remote storage only and the follower has locally."""
    return OffsetRange(max(reference.log_start_offset, follower.local_start_offset), reference.local_start_offset)


def chunks_within(part: OffsetRange) -> set[int]:
    """Chunks of these offsets."""
    return set(range(part.start_offset // CHUNK_OFFSETS, (part.end_offset - 1) // CHUNK_OFFSETS + 1))


def chunks_below(reference: ReplicaFacts, follower: ReplicaFacts, lineage: Lineage) -> set[int]:
    """Chunks of the follower in `remote_range` whose epochs differ from the reference's `lineage`, and those below the
    reference's log start with records that it never had."""
    low, high = remote_range(reference, follower)
    lacked = lacked_below_start(reference, follower)
    wanted = set() if lacked is None else chunks_within(lacked)
    for start, end, epoch in epoch_parts(follower.lineage, low, min(high, follower.log_end_offset)):
        if any(had != epoch for _, _, had in epoch_parts(lineage, start, end)):
            wanted |= chunks_within(OffsetRange(start, end))
    return wanted & follower.chunks.keys()


def differences_below(
    reference: ReplicaFacts, follower: ReplicaFacts, lineage: Lineage, batches: Batches
) -> Iterator[Difference]:
    """Parts of the follower's `batches` in `remote_range` whose epoch differs from the reference's there, and those below the
    reference's log start that it never had (`lacked_below_start`)."""
    if lacked := lacked_below_start(reference, follower):
        low = max(lacked.start_offset, follower.log_start_offset)
        high = lacked.end_offset
        for batch in batches.where((batches.starts >= low) & (batches.starts < high)):
            if batch.crc_valid:
                end = min(batch.end_offset, high)
                yield Difference("epoch", batch.base_offset, end, None, batch.epoch, Batches.of((batch,)))
    low, high = remote_range(reference, follower)
    if low >= high:
        return
    for batch in batches.where((batches.starts < high) & (batches.ends > low)):
        start = max(batch.base_offset, low)
        end = min(batch.end_offset, high)
        if start < end and batch.crc_valid and batch.epoch is not None:
            for first, last, epoch in epoch_parts(lineage, start, end):
                if epoch != batch.epoch:
                    yield Difference("epoch", first, last, epoch, batch.epoch, Batches.of((batch,)))


def differing_epochs(
    follower: ReplicaFacts, lineage: Lineage, below: OffsetRange
) -> Iterator[tuple[OffsetRange, int, int]]:
    """(offsets, its epoch, the log's epoch) of a follower's records in the range `below`, in epochs that `lineage` rules out there."""
    latest = or_absent(lineage.latest_epoch)
    low = max(below.start_offset, follower.local_start_offset)
    high = min(below.end_offset, follower.log_end_offset)
    for start, end, epoch in epoch_parts(follower.lineage, low, high):
        for first, last, had in epoch_parts(lineage, start, end):
            if had != epoch and epoch <= latest:
                yield OffsetRange(first, last), epoch, had


def epoch_parts(lineage: Lineage, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """(start, end, epoch) of a lineage's epochs within [start, end)."""
    if start >= end:
        return
    bounds = [start, *(first for _, first in lineage if start < first < end), end]
    for first, last in zip(bounds, bounds[1:], strict=False):
        epoch = lineage.epoch_for_offset(first)
        if epoch is not None:
            yield first, last, epoch


#: Copy key that stands for remote storage.
REMOTE = (-1, "remote storage")


class RemoteOrphan(NamedTuple):
    """A range of records in remote storage outside the log's history: the log has others there, was truncated before them, or
    lost its end."""

    start_offset: int
    end_offset: int
    leader_epoch: int
    segment_ids: tuple[str, ...]

    @property
    def offsets(self) -> OffsetRange:
        return OffsetRange(self.start_offset, self.end_offset)

    @property
    def piece(self) -> RecordRange:
        """The range with all records proven committed: Kafka copies only below the last stable offset."""
        span = self.offsets
        return RecordRange(REMOTE, (self.leader_epoch,), *span, span.size, self.end_offset, 0, exact=True)


def known_start(facts: ReplicaFacts, lineage: Lineage, replicas: Iterable[ReplicaFacts]) -> int:
    """First offset of the log that is not known to be deleted: the greatest log start known to a replica of the topic id.

    The log-start checkpoint is written once a minute; the epoch file loses its entries below a log start at once
    (`UnifiedLog.maybeIncrementLogStartOffset`). Another replica that starts where an epoch of `lineage` starts proves nothing: a truncation
    below its local start emptied it, like an old leader after an unclean election. Inside an epoch only a log start truncates an epoch file.
    """
    forks = {start for _, start in lineage}
    starts = [facts.log_start_offset, _first_entry(facts)[1]]
    for one in replicas:
        epoch, first = _first_entry(one)
        begun = lineage.start_of(epoch)
        if begun is not None and begun < first:
            starts.append(first)
        if (checkpoint := one.directory.log_start_checkpoint) is not None and checkpoint not in forks:
            starts.append(checkpoint)
    return max(starts)


def _first_entry(facts: ReplicaFacts) -> tuple[int, int]:
    """First entry of the epoch file, unless the batches contradict it; (-1, 0) if it proves nothing."""
    entries = facts.file_entries
    if not entries or not facts.file_increases:
        return -1, 0
    epoch, start = entries[0]
    is_written = start < facts.log_end_offset and facts.lineage.epoch_for_offset(start) in (None, epoch)
    return (epoch, start) if is_written or start == facts.log_end_offset else (-1, 0)


def find_contradictory(lineage: Lineage, segments: Iterable[RemoteSegment]) -> tuple[RemoteSegment, ...]:
    """Segments whose epochs contradict those of the log or their own offsets (T9).

    An epoch has one leader and starts at one offset, and two logs with the same epoch at an offset are equal below it. The
    first epoch of either may appear to start late: its beginning was deleted, or is in the preceding segment.
    """
    return tuple(one for one in segments if _contradicts(lineage, one))


def _contradicts(lineage: Lineage, segment: RemoteSegment) -> bool:
    entries = segment.epochs
    epochs = [epoch for epoch, _ in entries]
    is_inside = all(segment.start_offset <= start < segment.end_offset for _, start in entries)
    if not entries or not is_inside or any(one >= two for one, two in pairwise(epochs)):
        return True
    first = [epoch for epoch, _ in lineage.entries[:1]]
    if any(
        (start := lineage.start_of(epoch)) is not None and start != given and (number or start > given)
        for number, (epoch, given) in enumerate(entries)
        if epoch not in first
    ):
        return True
    own = [had == epoch for start, end, epoch in stretches(segment) for *_, had in epoch_parts(lineage, start, end)]
    return own != sorted(own, reverse=True)


def find_orphans(
    facts: ReplicaFacts, lineage: Lineage, segments: Iterable[RemoteSegment], start_offset: int, *, is_whole: bool
) -> tuple[RemoteOrphan, ...]:
    """Ranges of `segments` from `start_offset` on in an epoch that the log's `lineage` rules out there.

    An epoch later than the log's latest is not ruled out: the log was copied before. Nor is a range past the log's end,
    unless the copy `is_whole`: a later one would have no more.
    """
    latest = or_absent(lineage.latest_epoch)
    found: list[RemoteOrphan] = []
    for segment in sorted(segments, key=lambda one: (one.epochs, one.start_offset)):
        for first, last, epoch, had in _beside(lineage, segment, start_offset):
            if had == epoch and is_whole:
                first = max(first, facts.log_end_offset)
            elif had == epoch or epoch > latest:
                continue
            if first >= last:
                continue
            before = found[-1] if found else None
            if before is not None and (before.leader_epoch, before.end_offset) == (epoch, first):
                found[-1] = RemoteOrphan(before.start_offset, last, epoch, (*before.segment_ids, segment.segment_id))
            else:
                found.append(RemoteOrphan(first, last, epoch, (segment.segment_id,)))
    return tuple(sorted(found, key=lambda one: (one.start_offset, one.leader_epoch)))


def without_orphans(found: Iterable[RemoteOrphan], others: Sequence[RemoteOrphan]) -> tuple[RemoteOrphan, ...]:
    """Remove from `found` the parts that `others` have in the same epoch."""
    return tuple(
        one._replace(start_offset=left.start_offset, end_offset=left.end_offset)
        for one in found
        for left in without([one.offsets], [two.offsets for two in others if two.leader_epoch == one.leader_epoch])
    )


def find_stable(lineage: Lineage, segments: Iterable[RemoteSegment]) -> tuple[int, RemoteSegment] | None:
    """Greatest offset below which segments prove the log with `lineage` stable, and the segment that proves it; None without one.

    A leader copies only segments that end at or below its last stable offset (`RemoteLogManager.candidateLogSegments`), so one
    with an unfinished copy, or deleted since, proves as much.
    """
    found = [
        (last, one)
        for one in segments
        for _, last, epoch, had in _beside(lineage, one, one.start_offset)
        if had == epoch
    ]
    return max(found, default=None, key=lambda pair: (pair[0], pair[1].segment_id))


def place_segment(
    facts: ReplicaFacts, lineage: Lineage, segment: RemoteSegment, start_offset: int
) -> tuple[RemoteLineage, int | None]:
    """Relation of a segment in any state to a log with `lineage`, and the first offset outside the log's history; offsets below
    `start_offset` are deleted."""
    if segment.end_offset <= start_offset:
        return "below_start", None
    latest = or_absent(lineage.latest_epoch)
    is_known = False
    past: int | None = None
    for first, last, epoch, had in _beside(lineage, segment, start_offset):
        is_known = True
        if had != epoch and epoch <= latest:
            return "left", first
        if past is None and (had != epoch or last > facts.log_end_offset):
            past = first if had != epoch else max(first, facts.log_end_offset)
    if past is not None:
        return "past_end", past
    return ("own" if is_known else "unknown"), None


def _beside(lineage: Lineage, segment: RemoteSegment, start_offset: int) -> Iterator[tuple[int, int, int, int]]:
    """(start, end, epoch, epoch of the log there) of a segment from `start_offset` on."""
    for start, end, epoch in stretches(segment):
        for first, last, had in epoch_parts(lineage, max(start, start_offset), end):
            yield first, last, epoch, had


class RemoteHoles(NamedTuple):
    """Offsets between a log's start and its local start that no copied segment of its history has."""

    gaps: tuple[OffsetRange, ...] = ()
    """Holes followed by later segments: Kafka copies in order, so these were copied once (T2)."""
    uncopied: OffsetRange | None = None
    """Hole up to the local start, although Kafka deletes local files only after copying them (T7, T8)."""

    removed: tuple[OffsetRange, ...] = ()
    """Holes of copied segments that the remote store no longer has (T5)."""

    @property
    def ranges(self) -> tuple[OffsetRange, ...]:
        return (*self.gaps, *([] if self.uncopied is None else [self.uncopied]), *self.removed)


def latest_epochs(found: Iterable[tuple[int, int]]) -> Callable[[int], int]:
    """Function from an offset to the greatest epoch of the (start offset, epoch) in `found` that start below it; -1 without any."""
    ordered = sorted(found)
    starts = [start for start, _ in ordered]
    latest = [-1, *accumulate((epoch for _, epoch in ordered), max)]
    return lambda offset: latest[bisect_left(starts, offset)]


def find_passed(
    lineage: Lineage, segments: Sequence[RemoteSegment], began_before: Callable[[RemoteSegment], bool]
) -> int:
    """Greatest offset that a log start has passed according to deletions; 0 without any.

    Kafka first advances the log start. Then it deletes the segments below with an epoch that the log still has, oldest
    first, and then those of earlier epochs (`cleanupExpiredRemoteLogSegments`). So a deletion proves a log start unless an
    older segment with its last epoch remains, or it `began_before` the copy of the log, which lacks that log start.
    """
    own = [one for one in segments if one.copied_ms is not None and own_ranges(one, lineage)]
    kept = latest_epochs((one.start_offset, one.epochs[-1][0]) for one in own if one.state < DELETE_STARTED)
    return max(
        (
            one.end_offset
            for one in own
            if one.state >= DELETE_STARTED and not began_before(one) and kept(one.start_offset) < one.epochs[-1][0]
        ),
        default=0,
    )


def find_holes(facts: ReplicaFacts, lineage: Lineage, segments: Sequence[RemoteSegment], start: int) -> RemoteHoles:
    """Find holes in remote storage between `start` and a log's local start; `segments` are those of its topic id.

    Segments at the beginning that retention is deleting do not count, whatever the log-start checkpoint says: it is written
    once a minute. Nothing is known below the first known epoch, and unless `__remote_log_metadata` is complete from its
    start. A contradictory segment counts as having all its offsets.
    """
    end = facts.local_start_offset
    if not lineage or not all(segment.is_whole for segment in segments):
        return RemoteHoles()
    start = max(start, lineage.entries[0][1])
    copied = [segment for segment in segments if segment.copied_ms is not None]
    unclear = find_contradictory(lineage, copied)
    parts = sorted(
        (max(part.start_offset, start), min(part.end_offset, end), one.state)
        for one in copied
        for part in ([one.offsets] if one in unclear else own_ranges(one, lineage))
        if part.overlaps(start, end)
    )
    gaps = []
    reached = start
    is_deleting = True
    for first, last, state in parts:
        if is_deleting and state >= DELETE_STARTED:
            reached = max(reached, last)
            continue
        if state >= DELETE_STARTED:
            continue
        if first > reached:
            gaps.append(OffsetRange(reached, first))
        is_deleting = False
        reached = max(reached, last)
    return RemoteHoles(tuple(gaps), OffsetRange(reached, end) if reached < end else None)


def stretches(segment: RemoteSegment) -> Iterator[tuple[int, int, int]]:
    """(start, end, epoch) of the epochs within a segment."""
    starts = [*(start for _, start in segment.epochs), segment.end_offset]
    for (epoch, start), end in zip(segment.epochs, starts[1:], strict=True):
        if max(start, segment.start_offset) < end:
            yield max(start, segment.start_offset), end, epoch


def own_ranges(segment: RemoteSegment, lineage: Lineage) -> list[OffsetRange]:
    """Offsets of a segment in epochs that the log has there."""
    return [
        OffsetRange(first, last)
        for first, last, epoch, had in _beside(lineage, segment, segment.start_offset)
        if had == epoch
    ]


def needed_from_store(
    facts: ReplicaFacts, parts: Iterable[OffsetRange], elsewhere: OffsetSet
) -> tuple[OffsetRange, ...]:
    """Offsets among `parts` of a log that are at or above its start, in none of its files, and not `elsewhere` in remote storage."""
    low, high = facts.log_start_offset, facts.local_start_offset
    inside = (OffsetRange(max(one.start_offset, low), min(one.end_offset, high)) for one in parts)
    return tuple(elsewhere.missing_from(one for one in inside if one.start_offset < one.end_offset))
