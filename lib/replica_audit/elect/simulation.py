"""A cluster carried forward from its present state, step by step: who leads what after each, and by which right."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import permutations

from replica_audit.elect.cluster_state import PresentState
from replica_audit.model import Place
from replica_audit.protocol.controller import Registration, catch_up, elect, prefer, start_broker, stop_broker


@dataclass(frozen=True, slots=True)
class Round:
    """One candidate and the partitions that it is to lead."""

    candidate_id: int
    places: tuple[Place, ...]


def order_rounds(choices: Mapping[Place, int], takers: Mapping[Place, Collection[int]]) -> list[Round]:
    """Rounds in an order in which candidates take as few partitions of others as possible.

    `takers` are the brokers that lead a partition as soon as they are up. One that is taken has its own round later, for
    which the taker is stopped.
    """
    left: dict[int, list[Place]] = defaultdict(list)
    for place, candidate in sorted(choices.items()):
        left[candidate].append(place)
    taken = {
        candidate: [place for place in choices if choices[place] != candidate and candidate in takers[place]]
        for candidate in left
    }
    rounds = []
    while left:
        candidate = min(left, key=lambda one: (sum(choices[place] in left for place in taken[one]), one))
        rounds.append(Round(candidate, tuple(left.pop(candidate))))
    return rounds


@dataclass(frozen=True, slots=True)
class LeaderChange:
    """A replica began to lead a partition, by right of the ISR, as eligible, as last known leader, or uncleanly."""

    place: Place
    leader_id: int
    right: str
    ordered: bool
    """An election that the plan asked for, not one that happened by itself."""


class Kinds:
    """Partitions that fare alike whatever is done, so that one stands for all of them: registered alike and treated alike."""

    def __init__(self, state: PresentState, treatment: Callable[[Place], Hashable]) -> None:
        """`treatment` is what the steps do with a partition, and what is judged of it."""
        self._first: dict[Place, Place] = {}
        self._members: dict[Place, list[Place]] = defaultdict(list)
        first: dict[tuple[int, Hashable], Place] = {}
        for place, number in state.kinds.items():
            one = self._first[place] = first.setdefault((number, treatment(place)), place)
            self._members[one].append(place)

    @property
    def firsts(self) -> Collection[Place]:
        """One of each kind: those that stand for the others."""
        return self._members.keys()

    def first(self, place: Place) -> Place:
        """The one that stands for a partition; itself where nothing shows its assignment."""
        return self._first.get(place, place)

    def alike(self, place: Place) -> Sequence[Place]:
        """All that fare as the partition does, itself included."""
        return self._members.get(self.first(place)) or (place,)

    def one_of_each(self, places: Iterable[Place]) -> Iterable[Place]:
        """One partition for each kind among `places`, in their order."""
        return dict.fromkeys(map(self.first, places))

    def where(self, places: Iterable[Place], holds: Callable[[Place], bool]) -> list[Place]:
        """Those of `places` of whose kind something holds, which is asked once for each kind."""
        holding = cache(holds)
        return [place for place in places if holding(self.first(place))]


class ImaginedCluster:
    """All partitions of a snapshot, one for each of their `kinds`, and the brokers that are up. Nothing is written anywhere."""

    def __init__(
        self,
        state: PresentState,
        kinds: Kinds,
        *,
        has_elr: bool,
        unclean: Callable[[Place], bool],
        up: Iterable[int],
        fenced: Iterable[int] = (),
    ) -> None:
        """`unclean` says of each partition whether unclean elections are allowed at first; brokers that are not `up` are
        fenced in the order of `fenced`, as the controller does when it no longer hears of them.
        """
        self._kinds = kinds
        self.partitions = {
            place: replace(state.partitions[place], has_elr=has_elr, unclean=unclean(place)) for place in kinds.firsts
        }
        order = list(fenced)
        self.up = set(up) | set(order)
        self.clean = set(state.clean)
        self.changes: list[LeaderChange] = []
        self.reassigned: frozenset[Place] = frozenset()
        """Those of `partitions` whose reassignment has ended."""
        for broker in order:
            self.up.discard(broker)
            self._change(partial(_fence, broker, frozenset(self.up)), broker)
        self.changes.clear()

    def copy(self) -> ImaginedCluster:
        """Another one in the same state, whose changes begin anew."""
        other = ImaginedCluster.__new__(ImaginedCluster)
        other._kinds = self._kinds
        other.partitions, other.up, other.clean, other.changes = (
            dict(self.partitions),
            set(self.up),
            set(self.clean),
            [],
        )
        other.reassigned = self.reassigned
        return other

    def is_like(self, other: ImaginedCluster) -> bool:
        """Whether nothing tells the two apart."""
        return self.up == other.up and self.partitions == other.partitions

    def registration(self, place: Place) -> Registration | None:
        """A partition as the controller has it; its leader epoch is that of the one that stands for it."""
        return self.partitions.get(self._kinds.first(place))

    def leader(self, place: Place) -> int | None:
        """Who leads; None where nobody does, and of a partition whose assignment the snapshot does not show."""
        registration = self.registration(place)
        return None if registration is None else registration.leader_id

    def is_reassigned(self, place: Place) -> bool:
        """Whether a reassignment of the partition has ended."""
        return self._kinds.first(place) in self.reassigned

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
        for place in self._kinds.one_of_each(places):
            self._one(place, lambda one: elect(one, self.up, unclean=True), ordered=True)
        self.settle()

    def reorder(self, place: Place, replicas: tuple[int, ...]) -> None:
        """The same assignment in another order, and its first broker elected (H9)."""
        self.partitions[place] = replace(self.partitions[place], replicas=replicas)
        self._one(place, lambda one: prefer(one, self.up), ordered=True)

    def settle(self) -> None:
        """Time enough for all that are alive to be in sync."""
        after = cache(lambda one: catch_up(one, self.up))
        ended = set()
        for place, one in self.partitions.items():
            self.partitions[place] = after(one)
            if self.partitions[place].removing != one.removing:
                ended.add(place)
        self.reassigned |= ended

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
            self.changes.append(LeaderChange(place, after.leader_id, _right(before, after.leader_id), ordered))


class ImaginedClusters:
    """One cluster, imagined in every way that its snapshot leaves open: whether there are eligible leader replicas, whether
    topics that do not show it allow unclean elections, which brokers are up where nothing tells, and in which order the
    controller fences those that went down, so that another one stays in sync (H14).
    """

    def __init__(self, state: PresentState, treatment: Callable[[Place], Hashable] = lambda place: place) -> None:
        """`treatment` as `Kinds` has it; without it every partition stands for itself."""
        said = state.unclean_said
        self.kinds = Kinds(state, treatment)
        self._epochs = {place: state.partitions[place].leader_epoch for place in self.kinds.firsts}
        self.ways: list[ImaginedCluster] = []
        for has_elr in (True, False) if state.has_elr is None else (state.has_elr,):
            for unclean in (lambda place: said[place] is True, lambda place: said[place] is not False):
                for also_up in {frozenset[int](), state.unknown}:
                    up = state.up | also_up
                    for fenced in _orders(state, sorted(state.brokers - up)):
                        way = ImaginedCluster(state, self.kinds, has_elr=has_elr, unclean=unclean, up=up, fenced=fenced)
                        if not any(way.is_like(other) for other in self.ways):
                            self.ways.append(way)

    def __iter__(self) -> Iterator[ImaginedCluster]:
        return iter(self.ways)

    @property
    def up(self) -> set[int]:
        """Brokers that are up in every way."""
        return set.intersection(*(way.up for way in self.ways))

    @property
    def perhaps_up(self) -> set[int]:
        """Brokers that are up in any of the ways."""
        return set.union(*(way.up for way in self.ways))

    @property
    def reassigned(self) -> frozenset[Place]:
        """Partitions whose reassignment has ended in any of the ways."""
        ended = frozenset[Place]().union(*(way.reassigned for way in self.ways))
        return frozenset(place for one in ended for place in self.kinds.alike(one))

    def leader(self, place: Place) -> int | None:
        """Who leads in the first way: nothing that is not shown is allowed."""
        return self.ways[0].leader(place)

    def is_led_by(self, place: Place, broker_id: int) -> bool:
        """Whether the broker leads in every way."""
        return all(way.leader(place) == broker_id for way in self.ways)

    def takers(self, place: Place) -> set[int]:
        """Brokers that lead the partition as soon as they are up and nobody leads, in any of the ways."""
        first = self.kinds.first(place)
        return set().union(*(takers(way.partitions[first]) for way in self.ways))

    def takers_of(self, places: Iterable[Place]) -> dict[Place, set[int]]:
        """`takers` of each of `places`."""
        found = cache(self.takers)
        return {place: found(self.kinds.first(place)) for place in places}

    def epochs_gained(self, place: Place) -> int:
        """Leader epochs that have begun since the snapshot, in the way with the fewest."""
        first = self.kinds.first(place)
        return min(way.partitions[first].leader_epoch for way in self.ways) - self._epochs[first]


def takers(partition: Registration) -> set[int]:
    """Brokers that lead the partition as soon as they are up and nobody leads: in sync, eligible, or last known leader."""
    last = set(partition.last_known) if len(partition.last_known) == 1 else set()
    return {*partition.isr, *partition.elr, *last}


#: Up to as many brokers that are down every order of fencing is imagined; of more each one comes last once.
_FEW = 3


def _orders(state: PresentState, down: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Orders in which the controller may fence the brokers that are down: one, where no two of a partition are in sync or
    eligible.
    """
    gone = frozenset(down)
    if not any(len((one.isr | one.elr) & gone) > 1 for one in state.partitions.values()):
        yield tuple(down)
    elif len(down) <= _FEW:
        yield from permutations(down)
    else:
        for number in range(len(down)):
            order = (*down[number:], *down[:number])
            yield order
            yield order[::-1]


def _fence(broker_id: int, alive: frozenset[int], one: Registration) -> Registration:
    """After the controller fenced a broker; nothing where it knows of it already: no leader, and none but it in sync."""
    is_known = broker_id not in one.isr or (one.leader_id is None and one.isr == {broker_id})
    return one if is_known and one.leader_id != broker_id else stop_broker(one, broker_id, alive)


def _right(before: Registration, leader_id: int) -> str:
    if leader_id in before.isr:
        return "isr"
    if leader_id in before.elr:
        return "elr"
    return "last_known" if before.has_elr and before.last_known == (leader_id,) else "unclean"
