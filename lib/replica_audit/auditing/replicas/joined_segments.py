"""What segments laid end to end show: irregular borders, stretches that cannot be read, gaps between files, the tail."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from replica_audit.closed_sets import TailKind
from replica_audit.model import Irregularity, OffsetRange, SegmentSummary


def irregularities_of(
    segments: Sequence[SegmentSummary], log_start: int
) -> Iterator[tuple[SegmentSummary, Irregularity]]:
    """Those that the scan found, and those that only show between the end of one segment and the start of the next."""
    last_offset = last_epoch = None
    where = "first batch of the segment"
    for segment in segments:
        base, epoch = segment.first_base_offset, segment.first_leader_epoch
        # A segment has both as soon as it has a batch; the epoch of one that has none is -1.
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
    """Offsets that no batch claims, for each irregularity that is a gap."""
    for _, item in irregularities:
        if item.kind == "gap" and item.previous is not None:
            yield OffsetRange(item.previous + 1, item.base_offset)


def unreadable_stretches(
    segments: Sequence[SegmentSummary],
    irregularities: Sequence[tuple[SegmentSummary, Irregularity]],
    found_end: int,
) -> tuple[OffsetRange, ...]:
    """Offsets that the log had but that cannot be read: damage, batches with a wrong checksum, and gaps right beside these."""
    ranges = [OffsetRange(item.base_offset, item.last_offset + 1) for _, item in irregularities if item.kind == "crc"]
    # The bytes of a batch that is missing right beside a damaged one may be what damaged it, or have gone with it.
    damaged = {offset for one in ranges for offset in (one.start_offset, one.end_offset)}
    ranges += [gap for gap in gaps_among(irregularities) if {gap.start_offset, gap.end_offset} & damaged]
    for index, segment in enumerate(segments):
        border = segments[index + 1].base_offset if index + 1 < len(segments) else found_end
        for damage in segment.damage:
            start = segment.base_offset if damage.expected_offset is None else damage.expected_offset
            end = border if damage.next_offset is None else damage.next_offset
            if end > start:
                ranges.append(OffsetRange(start, end))
    return tuple(sorted(ranges))


def border_gaps(segments: Sequence[SegmentSummary]) -> Iterator[OffsetRange]:
    """Offsets between the end of one segment and the base of the next."""
    for segment, following in zip(segments, segments[1:]):
        end = segment.base_offset if segment.greatest_last_offset is None else segment.greatest_last_offset + 1
        damaged_tail = any(damage.next_offset is None for damage in segment.damage)
        if following.base_offset > end and not damaged_tail:
            yield OffsetRange(end, following.base_offset)


def tail_kind_of(segments: Sequence[SegmentSummary], found_end: int, log_end: int) -> TailKind:
    """clean, partial, zero_filled or garbage: what follows the last sound batch."""
    if not segments:
        return "clean"
    if segments[-1].tail_kind == "clean" and found_end > log_end:
        return "garbage"
    return segments[-1].tail_kind
