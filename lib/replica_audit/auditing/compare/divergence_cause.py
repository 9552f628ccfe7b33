"""Why a replica has records that the reference has not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from replica_audit.protocol.election import Election


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a replica has records that the reference has not: the election that left them behind."""

    election: Election | None
    """The one at which the two logs parted; None where the history does not reach back so far."""
    clean: bool | None
    """None where that is not known."""
    promised_records: int | None
    """Records that were promised to producers with acks=all at most; None where that is not known."""
    suspects: int = 1
    """It was that election or one of so many, of whose leaders no log tells any more whether they had the records."""
    came_back: bool = False
    """The winner of that election, or of one of the suspects, may have lost the end of its log while it was down."""
    elections: tuple[Election, ...] = ()
    """Every one that left them behind: a deposed leader that comes back uncleanly may have brought them back in between."""

    @property
    def excludes_commitment(self) -> bool:
        """Whether what was left behind was not committed: a clean election loses nothing while its winner's log is whole."""
        return self.clean is True and not self.came_back


@dataclass(frozen=True, slots=True)
class Tail:
    """The last records that a follower has past the reference's end, of which one thing is known."""

    start_offset: int
    why: str
    """What is known of them, and from what, as a clause."""


def promised_in_all(causes: Iterable[Cause | None]) -> int | None:
    """At most so many records were promised to producers with acks=all; None where that is not known for one of `causes`."""
    total = 0
    for cause in causes:
        if cause is None or cause.promised_records is None:
            return None
        total += cause.promised_records
    return total
