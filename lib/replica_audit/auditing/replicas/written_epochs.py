"""Leader epochs in which a log's batches were written, corrupt ones restored, and their lineage (B.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from replica_audit.literals import Confidence
from replica_audit.protocol.lineage import Lineage

if TYPE_CHECKING:
    from replica_audit.model import SegmentSummary


@dataclass(frozen=True, slots=True)
class CorruptEpoch:
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
    """The copy's own epoch file has the changed epoch too: recovery wrote it there."""
    is_contested: bool = False
    """Another replica has that epoch at these offsets: only other bytes there show that this one never had it."""


def starts_of_epochs(
    segments: Sequence[SegmentSummary], rot: Sequence[CorruptEpoch], found_end: int
) -> tuple[tuple[int, int], ...]:
    """(leader epoch, base offset) of the first batch of each stretch of one epoch, in order; changed epochs restored.

    `found_end` is where the last batch with a readable header ends.
    """
    starts = [(start.leader_epoch, start.base_offset) for segment in segments for start in segment.epoch_starts]
    for one in rot:
        within = [place for place, (_, start) in enumerate(starts) if start <= one.start_offset]
        before = starts[: within[-1] + 1] if within else []
        after = [entry for entry in starts[len(before) :] if entry[1] >= one.end_offset]
        last = starts[len(starts) - len(after) - 1][0]
        goes_on = (not after or after[0][1] > one.end_offset) and one.end_offset < found_end
        before = before[:-1] if before and before[-1][1] == one.start_offset else before
        starts = [*before, (one.true_epoch, one.start_offset), *([(last, one.end_offset)] if goes_on else []), *after]
    joined = [entry for place, entry in enumerate(starts) if place == 0 or starts[place - 1][0] != entry[0]]
    return tuple(joined)


def lineage_of_batches(epoch_starts: Sequence[tuple[int, int]]) -> Lineage:
    """The lineage that recovery builds: an entry for every batch whose epoch is above all before it (`LogLoader`)."""
    greatest = accumulate((epoch for epoch, _ in epoch_starts), max, initial=-1)
    return Lineage.of(entry for entry, known in zip(epoch_starts, greatest) if entry[0] > known)


def readable_lineage(epoch_starts: Sequence[tuple[int, int]], log_start: int, log_end: int) -> Lineage:
    """The lineage of the batches that can still be read: an epoch all of whose batches were deleted needs no entry."""
    if log_start >= log_end:
        return Lineage()
    return lineage_of_batches(epoch_starts).truncate_from_start(log_start)
