"""The epoch lineage of one replica: the start offset of each leader epoch.

Follows Kafka's `LeaderEpochFileCache` (KIP-101, KIP-279; eviction rules since KAFKA-7415). A lineage is immutable;
every operation returns a new one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter

_epoch, _start = itemgetter(0), itemgetter(1)


def increases(entries: Sequence[tuple[int, int]]) -> bool:
    """True if epochs and offsets of an epoch file both rise throughout, as Kafka writes them (`LeaderEpochCheckpointFile`)."""
    return all(one[0] < two[0] and one[1] < two[1] for one, two in zip(entries, entries[1:]))


@dataclass(frozen=True, slots=True)
class Lineage:
    """Entries (leader epoch, start offset), both strictly increasing: epoch e's first record here is at its start."""

    entries: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, entries: Iterable[tuple[int, int]]) -> Lineage:
        """The lineage that Kafka's loader makes of `entries`, assigned one by one in file order.

        Entries with a negative epoch or offset, which `assign` refuses, are left out; the reader of the file reports them.
        """
        assigned: list[tuple[int, int]] = []
        for leader_epoch, start_offset in entries:
            if leader_epoch >= 0 and start_offset >= 0:
                _assign(assigned, leader_epoch, start_offset)
        return cls(tuple(assigned))

    def __bool__(self) -> bool:
        return bool(self.entries)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self.entries)

    @property
    def latest_epoch(self) -> int | None:
        """Greatest epoch of the lineage; None when it is empty."""
        return self.entries[-1][0] if self.entries else None

    def start_of(self, leader_epoch: int) -> int | None:
        """Start offset of exactly this epoch; None when the lineage does not have it."""
        index = bisect_right(self.entries, leader_epoch, key=_epoch)
        return self.entries[index - 1][1] if index and self.entries[index - 1][0] == leader_epoch else None

    def assign(self, leader_epoch: int, start_offset: int) -> Lineage:
        """The lineage after a batch of `leader_epoch` at `start_offset` was appended, or the epoch began there.

        Entries that contradict the new one (an epoch or a start not below it) are evicted from the end. Raises
        ValueError for a negative epoch or offset (`LeaderEpochFileCache.assign`).
        """
        if leader_epoch < 0 or start_offset < 0:
            raise ValueError(f"cannot assign epoch {leader_epoch} from offset {start_offset}: both must be 0 or more")
        entries = list(self.entries)
        return Lineage(tuple(entries)) if _assign(entries, leader_epoch, start_offset) else self

    def truncate_from_end(self, end_offset: int) -> Lineage:
        """The lineage without entries that start at or after `end_offset` (`LeaderEpochFileCache.truncateFromEndAsyncFlush`)."""
        kept = bisect_left(self.entries, end_offset, key=_start)
        return self if kept == len(self.entries) else Lineage(self.entries[:kept])

    def truncate_from_start(self, start_offset: int) -> Lineage:
        """The lineage without entries before `start_offset`, the last of which now starts there
        (`LeaderEpochFileCache.truncateFromStartAsyncFlush`)."""
        below = bisect_right(self.entries, start_offset, key=_start)
        if not below or self.entries[0][1] == start_offset:
            return self
        return Lineage(((self.entries[below - 1][0], start_offset), *self.entries[below:]))

    def epoch_for_offset(self, offset: int) -> int | None:
        """Epoch that wrote `offset`; None below the first entry (`LeaderEpochFileCache.epochForOffset`)."""
        index = bisect_right(self.entries, offset, key=_start)
        return self.entries[index - 1][0] if index else None

    def lacked_from(self, other: Lineage) -> int | None:
        """Offset at which `other` begins an epoch later than the first one here: below the start of this log, all from there on never
        was in it, so that neither retention nor DeleteRecords removed it. None without such an epoch."""
        first = next(iter(self.entries), None)
        return None if first is None else next((start for epoch, start in other.entries if epoch > first[0]), None)

    def agrees_to(self, other: Lineage, start_offset: int, end_offset: int) -> int:
        """The offset up to which, from `start_offset` and at most to `end_offset`, both lineages assign the same epoch to every
        offset."""
        starts = {start for _, start in (*self.entries, *other.entries) if start_offset < start < end_offset}
        for offset in (start_offset, *sorted(starts)):
            if self.epoch_for_offset(offset) != other.epoch_for_offset(offset):
                return offset
        return max(start_offset, end_offset)

    def shared_with(self, other: Lineage, end_offset: int) -> int:
        """The offset, at most `end_offset`, below which two logs have the same records: the lesser end of their last
        common epoch (KIP-101); 0 without a common epoch.

        An epoch has one leader, and whoever has a record of it has what that leader's log had below.
        """
        for epoch, _ in reversed(self.entries):
            if other.start_of(epoch) is not None:
                ends = (one.end_offset_for(epoch, end_offset) for one in (self, other))
                return min(end_offset, *(end[1] for end in ends if end is not None))
        return 0

    def end_offset_for(self, requested_epoch: int | None, log_end_offset: int) -> tuple[int, int] | None:
        """Answer to OffsetsForLeaderEpoch: (epoch, its end offset), or None for undefined.

        The end of an epoch is the start of the next greater one, or the log end for the latest. Since 2.0.1: below
        the first entry the requested epoch itself is answered, with the first entry's start (`LeaderEpochFileCache.endOffsetFor`).
        """
        if requested_epoch is None or requested_epoch < 0 or not self.entries:
            return None
        if requested_epoch == self.entries[-1][0]:
            return requested_epoch, log_end_offset
        index = bisect_right(self.entries, requested_epoch, key=_epoch)
        if index == len(self.entries):
            return None
        end_offset = self.entries[index][1]
        return (self.entries[index - 1][0] if index else requested_epoch), end_offset

    def end_offset_for_kip101(self, requested_epoch: int | None, log_end_offset: int) -> int | None:
        """The end offset alone, as 0.11 to 2.0.0 answered: undefined also below the first entry (KIP-101)."""
        if not self.entries or requested_epoch is None or requested_epoch < self.entries[0][0]:
            return None
        answer = self.end_offset_for(requested_epoch, log_end_offset)
        return answer[1] if answer else None


def _assign(entries: list[tuple[int, int]], leader_epoch: int, start_offset: int) -> bool:
    """Add an entry to `entries` in place, as `Lineage.assign` does; True if that changed them."""
    if entries and entries[-1][0] == leader_epoch and start_offset >= entries[-1][1]:
        return False
    while entries and (entries[-1][0] >= leader_epoch or entries[-1][1] >= start_offset):
        entries.pop()
    entries.append((leader_epoch, start_offset))
    return True
