"""A cluster carried forward from its present state, step by step: who leads what after each, and by which right."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache

from replica_audit.deciding.present_state import PresentState
from replica_audit.model import Place
from replica_audit.protocol.controller import Registration, catch_up, elect, prefer, start_broker, stop_broker


@dataclass(frozen=True, slots=True)
class Change:
    """A replica began to lead a partition, by right of the ISR, as eligible, as last known leader, or uncleanly."""

    place: Place
    leader_id: int
    right: str
    ordered: bool
    """An election that the plan asked for, not one that happened by itself."""


class ImaginedCluster:
    """All partitions of a snapshot and the brokers that are up. Nothing is written anywhere."""

    def __init__(self, state: PresentState, *, has_elr: bool, unclean: Callable[[Place], bool]) -> None:
        """`unclean` says of each partition whether unclean elections are allowed at first."""
        self.partitions = {
            place: replace(one, has_elr=has_elr, unclean=unclean(place)) for place, one in state.partitions.items()
        }
        self.up = set(state.up)
        self.clean = set(state.clean)
        self.changes: list[Change] = []

    def copy(self) -> ImaginedCluster:
        """Another one in the same state, whose changes begin anew."""
        other = ImaginedCluster.__new__(ImaginedCluster)
        other.partitions, other.up, other.clean, other.changes = (
            dict(self.partitions),
            set(self.up),
            set(self.clean),
            [],
        )
        return other

    def leader(self, place: Place) -> int | None:
        """Who leads; None where nobody does, and of a partition whose assignment the snapshot does not show."""
        registration = self.partitions.get(place)
        return None if registration is None else registration.leader_id

    def forbid_unclean(self, topics: Collection[str]) -> None:
        """unclean.leader.election.enable=false for the topics."""
        for place, one in self.partitions.items():
            if place[0] in topics:
                self.partitions[place] = replace(one, unclean=False)

    def stop(self, broker_id: int) -> None:
        """SIGTERM: the broker leaves cleanly."""
        self.up.discard(broker_id)
        self.clean.add(broker_id)
        self._change(lambda one: stop_broker(one, broker_id, self.up), broker_id)

    def start(self, broker_id: int) -> None:
        """The broker comes back, and every replica that is alive catches up with its leader."""
        clean = broker_id in self.clean
        self.up.add(broker_id)
        self.clean.discard(broker_id)
        self._change(lambda one: start_broker(one, broker_id, self.up, clean=clean), broker_id)
        self.settle()

    def elect(self, places: Iterable[Place]) -> None:
        """An unclean election that an operator asks for."""
        for place in places:
            self._one(place, lambda one: elect(one, self.up, unclean=True), ordered=True)
        self.settle()

    def reorder(self, place: Place, replicas: tuple[int, ...]) -> None:
        """The same assignment in another order, and its first broker elected (H9)."""
        self.partitions[place] = replace(self.partitions[place], replicas=replicas)
        self._one(place, lambda one: prefer(one, self.up), ordered=True)

    def settle(self) -> None:
        """Time enough for all that are alive to be in sync."""
        after = cache(lambda one: catch_up(one, self.up))
        for place, one in self.partitions.items():
            self.partitions[place] = after(one)

    def _change(self, change: Callable[[Registration], Registration], broker_id: int) -> None:
        # Of thousands of partitions most are registered alike.
        change = cache(change)
        for place, one in list(self.partitions.items()):
            if broker_id in one.replicas:
                self._one(place, change)

    def _one(self, place: Place, change: Callable[[Registration], Registration], ordered: bool = False) -> None:
        before = self.partitions[place]
        after = self.partitions[place] = change(before)
        if after.leader_id is not None and after.leader_id != before.leader_id:
            self.changes.append(Change(place, after.leader_id, _right(before, after.leader_id), ordered))


class ImaginedClusters:
    """One cluster, imagined in every way that its snapshot leaves open: whether there are eligible leader replicas, and
    whether topics that do not show it allow unclean elections.
    """

    def __init__(self, state: PresentState) -> None:
        said = state.unclean_said
        self.ways = [
            ImaginedCluster(state, has_elr=has_elr, unclean=unclean)
            for has_elr in ((True, False) if state.has_elr is None else (state.has_elr,))
            for unclean in (lambda place: said[place] is True, lambda place: said[place] is not False)
        ]

    def __iter__(self) -> Iterator[ImaginedCluster]:
        return iter(self.ways)

    @property
    def up(self) -> set[int]:
        """Brokers that are up, which no way has otherwise."""
        return self.ways[0].up

    def leader(self, place: Place) -> int | None:
        """Who leads in the first way: nothing that is not shown is allowed."""
        return self.ways[0].leader(place)

    def is_led_by(self, place: Place, broker_id: int) -> bool:
        """Whether the broker leads in every way."""
        return all(way.leader(place) == broker_id for way in self.ways)


def _right(before: Registration, leader_id: int) -> str:
    if leader_id in before.isr:
        return "isr"
    if leader_id in before.elr:
        return "elr"
    return "last_known" if before.has_elr and before.last_known == (leader_id,) else "unclean"
