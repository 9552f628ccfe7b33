"""Contents of one log, by the summaries of its segments: epochs, irregularities, gaps, and the kind of its tail (A.9, B.1)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from replica_audit.auditing.replicas.offset_ranges import damaged_stretches
from replica_audit.batch_header import ABSENT
from replica_audit.literals import Confidence, TailKind
from replica_audit.model import Irregularity, OffsetRange, SegmentSummary
from replica_audit.protocol.lineage import Lineage
from replica_audit.snapshot.provenance import NOT_CAPTURED


class CorruptEpoch(NamedTuple):
    """Batches of one copy whose leader epoch was changed on its disk (`auditing.compare.epoch_corruption`)."""

    key: tuple[int, str]
    start_offset: int
    end_offset: int
    leader_epoch: int
    """Epoch as found."""
    true_epoch: int
    """Epoch of the same batches on another replica."""
    good_key: tuple[int, str]
    confidence: Confidence
    in_file: bool
    """True if the copy's epoch file has the changed epoch too, written there by recovery."""


def starts_of_epochs(
    segments: Sequence[SegmentSummary], rot: Sequence[CorruptEpoch], found_end: int
) -> tuple[tuple[int, int], ...]:
    """(leader epoch, base offset) of the first batch of each range of one epoch, in order; changed epochs restored.

    `found_end` is the end of the last batch with a readable header.
    """
    starts = [(start.leader_epoch, start.base_offset) for segment in segments for start in segment.epoch_starts]
    for one in rot:
        within = [place for place, (_, start) in enumerate(starts) if start <= one.start_offset]
        before = starts[: within[-1] + 1] if within else []
        after = [entry for entry in starts[len(before) :] if entry[1] >= one.end_offset]
        last = starts[len(starts) - len(after) - 1][0]
        goes_on = (not after or after[0][1] > one.end_offset) and one.end_offset < found_end
        before = before[:-1] if before and before[-1][1] == one.start_offset else before
        starts = [*before, (one.true_epoch, one.start_offset)]
        if goes_on:
            starts.append((last, one.end_offset))
        starts += after
    joined = [entry for place, entry in enumerate(starts) if place == 0 or starts[place - 1][0] != entry[0]]
    return tuple(joined)


def lineage_of_batches(epoch_starts: Sequence[tuple[int, int]]) -> Lineage:
    """Lineage that recovery builds: an entry for every batch whose epoch exceeds all before it (`LogLoader`)."""
    greatest = accumulate((epoch for epoch, _ in epoch_starts), max, initial=-1)
    return Lineage.of(entry for entry, known in zip(epoch_starts, greatest) if entry[0] > known)


def readable_lineage(epoch_starts: Sequence[tuple[int, int]], log_start: int, log_end: int) -> Lineage:
    """Lineage of the batches that are still readable: an epoch whose batches were all deleted needs no entry."""
    if log_start >= log_end:
        return Lineage()
    return lineage_of_batches(epoch_starts).truncate_from_start(log_start)


def needed_epochs(epoch_starts: Sequence[tuple[int, int]]) -> Sequence[tuple[int, int]]:
    """The part of `epoch_starts` that leader-epoch-checkpoint must have: after the last batch without an epoch, since Kafka drops all
    entries as it appends one (A.3)."""
    epochless = [place for place, (epoch, _) in enumerate(epoch_starts) if epoch == ABSENT]
    return epoch_starts[epochless[-1] + 1 :] if epochless else epoch_starts


def irregularities_of(
    segments: Sequence[SegmentSummary], log_start: int
) -> Iterator[tuple[SegmentSummary, Irregularity]]:
    """Irregularities found by the scan, and those between the end of one segment and the start of the next."""
    last_offset = last_epoch = None
    where = "first batch of the segment"
    for segment in segments:
        base = segment.first_base_offset
        epoch = segment.first_leader_epoch
        # A segment has both as soon as it has a batch; a batch without an epoch has -1.
        if base is not None and epoch is not None:
            if last_offset is not None and base <= last_offset:
                yield segment, Irregularity("regression", 0, base, base, epoch, last_offset, where)
            expected = max(segment.base_offset, log_start)
            if base > expected and not (segment.damage and segment.damage[0].expected_offset is None):
                yield segment, Irregularity("gap", 0, base, base, epoch, expected - 1, where)
            if last_epoch is not None and 0 <= epoch < last_epoch:
                yield segment, Irregularity("epoch_regression", 0, base, base, epoch, last_epoch, where)
        for item in segment.irregularities:
            yield segment, item
        if segment.greatest_last_offset is not None:
            last_offset = max(segment.greatest_last_offset, -1 if last_offset is None else last_offset)
        if segment.last_leader_epoch is not None and segment.last_leader_epoch >= 0:
            last_epoch = segment.last_leader_epoch


def gaps_among(irregularities: Iterable[tuple[SegmentSummary, Irregularity]]) -> Iterator[OffsetRange]:
    """Offsets without a batch, of the irregularities that are gaps."""
    for _, item in irregularities:
        if item.kind == "gap" and item.previous is not None:
            yield OffsetRange(item.previous + 1, item.base_offset)


def unreadable_stretches(
    segments: Sequence[SegmentSummary],
    irregularities: Sequence[tuple[SegmentSummary, Irregularity]],
    found_end: int,
) -> tuple[OffsetRange, ...]:
    """Offsets that the log had but that cannot be read: damage, batches with a wrong checksum, and gaps next to these."""
    ranges = [OffsetRange(item.base_offset, item.last_offset + 1) for _, item in irregularities if item.kind == "crc"]
    # A batch missing next to a damaged one may have been overwritten by, or lost with, the damage.
    damaged = {offset for one in ranges for offset in (one.start_offset, one.end_offset)}
    ranges += [gap for gap in gaps_among(irregularities) if {gap.start_offset, gap.end_offset} & damaged]
    ranges += [stretch for _, _, stretch in damaged_stretches(segments, found_end) if stretch.size]
    return tuple(sorted(ranges))


def border_gaps(segments: Sequence[SegmentSummary]) -> Iterator[OffsetRange]:
    """Offsets between the end of one segment and the base of the next."""
    for segment, following in zip(segments, segments[1:]):
        end = segment.base_offset if segment.greatest_last_offset is None else segment.greatest_last_offset + 1
        damaged_tail = any(damage.next_offset is None for damage in segment.damage) or NOT_CAPTURED in segment.unproven
        if following.base_offset > end and not damaged_tail:
            yield OffsetRange(end, following.base_offset)


def tail_kind_of(segments: Sequence[SegmentSummary], found_end: int, log_end: int) -> TailKind:
    """Kind of the bytes after the last sound batch: clean, partial, zero_filled or garbage."""
    if not segments:
        return "clean"
    if segments[-1].tail_kind == "clean" and found_end > log_end:
        return "garbage"
    return segments[-1].tail_kind
