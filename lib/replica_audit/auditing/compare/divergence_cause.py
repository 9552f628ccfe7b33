"""Causes of divergence: the election that left a replica's records behind. Rules import it, so it loads without numpy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from replica_audit.protocol.election import Election


class Cause(NamedTuple):
    """The election that left behind records which the reference lacks."""

    election: Election | None
    """Election at which the two logs diverged; None if the history does not reach back so far."""
    clean: bool | None
    """True for a clean election; None if unknown."""
    promised_records: int | None
    """Upper bound of the records acknowledged with acks=all; None if unknown."""
    suspects: int = 1
    """Number of elections that may be the cause, because no log shows whether their leaders had the records."""
    came_back: bool = False
    """True if the winner of the election, or of one of the suspects, may have lost its log's end while down."""
    elections: tuple[Election, ...] = ()
    """All elections that left the records behind: in between, a deposed leader elected uncleanly may have restored them."""

    @property
    def excludes_commitment(self) -> bool:
        """True if the records left behind were not committed: a clean election loses nothing if its winner's log is complete."""
        return self.clean is True and not self.came_back


def promised_in_all(causes: Iterable[Cause | None]) -> int | None:
    """Upper bound of the records acknowledged with acks=all; None if unknown for one of `causes`."""
    total = 0
    for cause in causes:
        if cause is None or cause.promised_records is None:
            return None
        total += cause.promised_records
    return total
