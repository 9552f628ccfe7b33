"""How far the cleaners of a partition have come, as one of its replicas sees it."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from replica_audit.model import OffsetRange


@dataclass(frozen=True, slots=True)
class Cleaning:
    """How far cleaners have come in a compacted partition, as one of its replicas sees it (`auditing.replicas.cleaner_gaps`)."""

    cleaned_to: int = 0
    """The replica's own has come so far, by its checkpoint."""
    reached: int = 0
    """It may have come so far until the segments were copied."""
    furthest: int = 0
    """The same two of the partition's most advanced cleaner."""
    furthest_reached: int = 0
    shared: tuple[OffsetRange, ...] = ()
    """Stretches in order: at an offset of theirs at which this replica has nothing, another has nothing either."""

    def explains(self, start_offset: int, end_offset: int) -> bool:
        """Whether cleaners removed what the replica lacks at [start, end): its own, or that of the leader it fetched from."""
        return self._explains(start_offset, end_offset, self.cleaned_to, self.furthest)

    def may_explain(self, start_offset: int, end_offset: int) -> bool:
        """The same, counting what cleaners may have done between the copies of their checkpoints and of the segments."""
        return self._explains(start_offset, end_offset, self.reached, self.furthest_reached)

    def _explains(self, start: int, end: int, own: int, furthest: int) -> bool:
        start = max(start, own)
        if start >= end:
            return True
        at = bisect_right(self.shared, start, key=lambda part: part.start_offset) - 1
        return end <= furthest and at >= 0 and end <= self.shared[at].end_offset
