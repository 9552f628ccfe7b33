"""Elections found in a partition's history: who was elected when, and whether that was clean.

Kafka: `PartitionChangeBuilder.electLeader`, `PartitionRegistration.merge`; KIP-966 for eligible leader replicas.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from replica_audit.model import PartitionState


class Election(NamedTuple):
    """A replica became leader in a new epoch."""

    leader_epoch: int
    leader_id: int
    time_ms: int
    """By the controller's clock."""
    metadata_offset: int
    clean: bool
    """True if the new leader was in the ISR, joined it by the same record (the end of a reassignment) or was an eligible leader
    replica, so that it had everything committed unless its own log was damaged. False for a last known leader that comes back (LastKnownElr)."""
    previous_leader_id: int | None
    """The most recent leader, even if it had stopped leading before; None where the history does not reach back so far."""
    previous_isr: tuple[int, ...]
    previous_elr: tuple[int, ...]
    had_all: tuple[int, ...]
    """Replicas in sync or eligible under the last leader, which so had all that was committed; empty if unknown."""
    from_last_known: bool
    """True if it was elected as the last known leader, after ISR and eligible leader replicas had become empty."""
    came_back: bool
    """True if the partition had no leader for want of a live replica: the elected one had been down, and may have lost
    the end of its log. False where the last leader was shut down in order, and with eligible leader replicas, from
    which a killed broker drops out (KIP-966)."""


def elections(history: Sequence[PartitionState]) -> tuple[Election, ...]:
    """Every committed election of a history, oldest first; the first leader of a new partition is not counted.

    A leader that only gets a new epoch was not elected: before metadata version 3.6 every change of the ISR raised the
    epoch, and the removal of replicas still does.
    """
    found: list[Election] = []
    committed = [state for state in history if not state.uncommitted]
    led: PartitionState | None = None
    for before, after in zip(committed, committed[1:]):
        if before.leader_id is not None:
            led = before
        if after.leader_id is None or after.leader_epoch <= before.leader_epoch or after.leader_id == before.leader_id:
            continue
        chosen = after.leader_id
        eligible = chosen in before.isr or chosen in before.elr or _ends_reassignment(before, after)
        # The controller marks an unclean election by the recovery state that it sets.
        said_unclean = after.recovering and not before.recovering
        found.append(
            Election(
                leader_epoch=after.leader_epoch,
                leader_id=chosen,
                time_ms=after.time_ms,
                metadata_offset=after.metadata_offset,
                clean=eligible and not said_unclean,
                previous_leader_id=None if led is None else led.leader_id,
                previous_isr=before.isr,
                previous_elr=before.elr,
                had_all=() if led is None else (*led.isr, *led.elr),
                from_last_known=not eligible and chosen in before.last_known_elr,
                came_back=_was_leaderless(before, led)
                and not (before.leader_stopped or before.elr or before.last_known_elr),
            )
        )
    return tuple(found)


def _ends_reassignment(before: PartitionState, after: PartitionState) -> bool:
    """True if a reassignment ended, not given up: the leader had who was missing join the ISR, and the controller removed the
    others, perhaps that leader, by one record (`PartitionChangeBuilder.completeReassignmentIfNeeded`)."""
    moved = before.adding or before.removing
    is_over = not (after.adding or after.removing)
    return (
        bool(moved) and is_over and {*before.adding} <= {*after.replicas} and not {*before.removing} & {*after.replicas}
    )


def _was_leaderless(state: PartitionState, led: PartitionState | None) -> bool:
    """True for a state in which no replica could lead: the controller starts a leader epoch for it."""
    return state.leader_id is None and led is not None and state.leader_epoch > led.leader_epoch


def last_led(history: Sequence[PartitionState]) -> PartitionState | None:
    """The last committed state with a leader; None where there never was a leader."""
    return next((state for state in reversed(history) if not state.uncommitted and state.leader_id is not None), None)


def first_known_epoch(history: Sequence[PartitionState]) -> int | None:
    """The leader epoch from which every election is in the history: -1 for a complete history, None for an empty one.

    A history that begins with a snapshot does not show how the snapshot's epoch began.
    """
    if not history:
        return None
    return -1 if history[0].occasion == "created" else history[0].leader_epoch


class CleanElections(NamedTuple):
    """The elections of a history that are known to have been clean."""

    known_from: int | None
    """First known epoch, from `first_known_epoch`."""
    unclean_epochs: tuple[int, ...]
    """Epochs begun by an unclean election, in ascending order."""

    @classmethod
    def of(cls, history: Sequence[PartitionState]) -> CleanElections:
        return cls(first_known_epoch(history), tuple(one.leader_epoch for one in elections(history) if not one.clean))

    def between(self, after: int, to: int) -> bool:
        """True if every election in epochs above `after`, up to `to`, is in the history and was clean."""
        if self.known_from is None or after < self.known_from:
            return False
        return bisect_right(self.unclean_epochs, after) == bisect_right(self.unclean_epochs, to)
