"""History of the brokers in the metadata log: fencing and registration (docs/semantics.md F.0)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter, itemgetter

ELR_FEATURE = "eligible.leader.replicas.version"


@dataclass(frozen=True, slots=True)
class BrokerEvent:
    """A change of a broker's registration, which counts from the end of its batch on."""

    batch_end: int
    fenced: bool | None
    """None: as it was."""
    registered: bool
    """A process of it came up."""


class BrokerCourse:
    """The changes of one broker's registration, in order."""

    def __init__(self, events: Sequence[BrokerEvent]) -> None:
        self._fencings = [event for event in events if event.fenced is not None]
        self._ends = {
            fenced: [event.batch_end for event in self._fencings if event.fenced == fenced] for fenced in (True, False)
        }
        self._registrations = [event.batch_end for event in events if event.registered]

    def is_fenced(self, offset: int) -> bool:
        """True if the broker was fenced at `offset`; one that never registered counts as fenced."""
        index = bisect_right(self._fencings, offset, key=attrgetter("batch_end"))
        return index == 0 or self._fencings[index - 1].fenced is True

    def becomes(self, fenced: bool, after: int, before: int) -> bool:
        """True if a batch that ends between the two offsets fenced the broker, or unfenced it."""
        ends = self._ends[fenced]
        index = bisect_right(ends, after)
        return index < len(ends) and ends[index] < before

    @property
    def came_back(self) -> bool:
        """True if the broker registered again: the end of its copy is then no longer what it knew as leader."""
        return len(self._registrations) > 1

    def registered_after(self, offset: int) -> bool:
        return bool(self._registrations) and self._registrations[-1] > offset


class ClusterCourse:
    """History of the brokers, and the ends of their own copies of the metadata log.

    `elr_levels` are (batch end, level) of the feature's settings; `copy_ends`, by node id, the end of what its copy has in
    common with the newest one; `end_offset` that of the log as far as it is known.
    """

    def __init__(
        self,
        brokers: Mapping[int, Sequence[BrokerEvent]],
        elr_levels: Sequence[tuple[int, int]],
        copy_ends: Mapping[int, int],
        end_offset: int,
    ) -> None:
        self._brokers = {broker: BrokerCourse(events) for broker, events in brokers.items()}
        self._elr_levels = elr_levels
        self.copy_ends, self.end_offset = copy_ends, end_offset

    def of(self, broker_id: int) -> BrokerCourse:
        return self._brokers.get(broker_id, _UNKNOWN)

    def has_elr(self, offset: int) -> bool:
        """True if eligible leader replicas were enabled in the batch that ends at `offset`; the cluster's default
        min.insync.replicas is then in the log.
        """
        index = bisect_right(self._elr_levels, offset, key=itemgetter(0))
        return index > 0 and self._elr_levels[index - 1][1] > 0


_UNKNOWN = BrokerCourse(())
