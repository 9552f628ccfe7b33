"""Causes of divergence: the election that left a replica's records behind."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from replica_audit.protocol.election import Election


@dataclass(frozen=True, slots=True)
class Cause:
    """The election that left records behind which the reference does not have."""

    election: Election | None
    """The one at which the two logs parted; None if the history does not reach back so far."""
    clean: bool | None
    """None if that is not known."""
    promised_records: int | None
    """Records that were promised to producers with acks=all at most; None if that is not known."""
    suspects: int = 1
    """Number of elections that may have been the one, because no log tells any more whether their leaders had the records."""
    came_back: bool = False
    """The winner of that election, or of one of the suspects, may have lost the end of its log while it was down."""
    elections: tuple[Election, ...] = ()
    """Every one that left them behind: a deposed leader that comes back uncleanly may have brought them back in between."""

    @property
    def excludes_commitment(self) -> bool:
        """True if the records left behind were not committed: a clean election loses nothing while its winner's log is whole."""
        return self.clean is True and not self.came_back


@dataclass(frozen=True, slots=True)
class Tail:
    """Last records that a follower has past the reference's end, with something known of all of them."""

    start_offset: int
    why: str
    """Clause saying what is known of them, and from what."""


def promised_in_all(causes: Iterable[Cause | None]) -> int | None:
    """At most so many records were promised to producers with acks=all; None if that is not known for one of `causes`."""
    total = 0
    for cause in causes:
        if cause is None or cause.promised_records is None:
            return None
        total += cause.promised_records
    return total
