"""Simulated clusters: the leader of each partition after each step of a plan, and its right to lead."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import permutations
from typing import NamedTuple

from replica_audit.cached_property import cached_property
from replica_audit.elect.cluster_state import PresentState
from replica_audit.model import TopicPartition
from replica_audit.protocol.controller import Registration, catch_up, elect, prefer, start_broker, stop_broker


class Round(NamedTuple):
    """A candidate and the partitions that it is to lead."""

    candidate_id: int
    places: tuple[TopicPartition, ...]


def order_rounds(
    choices: Mapping[TopicPartition, int],
    takers: Mapping[TopicPartition, Collection[int]],
    late: Set[TopicPartition],
) -> list[Round]:
    """Rounds, ordered so that candidates take as few partitions of others as possible, of equal ones those with `late` partitions
    last.

    `takers` are the brokers that lead a partition as soon as they are up. A partition that is taken has its round later, and
    the taker is stopped for it.
    """
    left: dict[int, list[TopicPartition]] = defaultdict(list)
    for place, candidate in sorted(choices.items()):
        left[candidate].append(place)
    taken = {
        candidate: [place for place in choices if choices[place] != candidate and candidate in takers[place]]
        for candidate in left
    }
    rounds = []
    while left:
        candidate = min(
            left,
            key=lambda one: (
                sum(choices[place] in left for place in taken[one]),
                not late.isdisjoint(left[one]),
                one,
            ),
        )
        rounds.append(Round(candidate, tuple(left.pop(candidate))))
    return rounds


class LeaderChange(NamedTuple):
    """A replica became leader of a partition: from the ISR, as eligible, as last known leader, or uncleanly."""

    place: TopicPartition
    leader_id: int
    right: str
    ordered: bool
    """True if the plan asked for the election; False if it happened by itself."""


#: A registration after an event, given the live brokers.
Event = Callable[[Registration, frozenset[int]], Registration]
#: Effect of an event on a registration; returns the same object if nothing changes.
Change = Callable[[Registration], Registration]


class Transitions:
    """Changes of registrations by the name of their event, one function each. Cached: they depend only on which of the registration's
    brokers are alive."""

    def __init__(self) -> None:
        self._changes: dict[tuple[Hashable, frozenset[int]], Change] = {}
        self._outcomes: dict[Hashable, _Outcomes] = defaultdict(dict)

    def change(self, name: Hashable, alive: frozenset[int], event: Event) -> Change:
        """The event's effect on registrations while the brokers `alive` are."""
        found = self._changes.get((name, alive))
        if found is None:
            found = self._changes[name, alive] = _remembered(event, alive, self._outcomes[name])
        return found


#: Outcomes by identity of a registration (hashing one takes as long as most changes) and those of its brokers that are alive; each
#: with the registration, so that no other object gets the same identity.
_Outcomes = dict[tuple[int, frozenset[int]], tuple[Registration, Registration]]


def _remembered(event: Event, alive: frozenset[int], outcomes: _Outcomes) -> Change:
    known: dict[int, Registration] = {}

    def change(one: Registration) -> Registration:
        if (found := known.get(id(one))) is not None:
            return found
        key = id(one), alive.intersection((*one.replicas, *one.isr, *one.elr, *one.last_known))
        if key not in outcomes:
            after = event(one, alive)
            outcomes[key] = one, one if after == one else after
        after = known[id(one)] = outcomes[key][1]
        return after

    return change


class Kinds:
    """Partitions grouped by kind: those with equal registration and treatment behave alike, so one represents all."""

    def __init__(
        self, state: PresentState, treatment: Callable[[TopicPartition], Hashable], transitions: Transitions
    ) -> None:
        """`treatment` returns everything else on which a partition's steps and their judgement depend."""
        self._first: dict[TopicPartition, TopicPartition] = {}
        self._members: dict[TopicPartition, list[TopicPartition]] = defaultdict(list)
        first: dict[tuple[int, Hashable], TopicPartition] = {}
        for place, number in state.kinds.items():
            one = self._first[place] = first.setdefault((number, treatment(place)), place)
            self._members[one].append(place)
        self._of_broker: dict[int, list[TopicPartition]] = defaultdict(list)
        for place in self.firsts:
            for broker in state.partitions[place].replicas:
                self._of_broker[broker].append(place)
        self.change = transitions.change

    @property
    def firsts(self) -> Collection[TopicPartition]:
        """The representative of each kind."""
        return self._members.keys()

    def assigned_to(self, broker_id: int) -> Sequence[TopicPartition]:
        """Representatives of partitions that have been assigned to a broker."""
        return self._of_broker.get(broker_id, ())

    def first(self, place: TopicPartition) -> TopicPartition:
        """The representative of the partition's kind; the partition itself if its assignment is unknown."""
        return self._first.get(place, place)

    def alike(self, place: TopicPartition) -> Sequence[TopicPartition]:
        """All partitions of the same kind, this one included."""
        return self._members.get(self.first(place)) or (place,)

    def one_of_each(self, places: Iterable[TopicPartition]) -> Iterable[TopicPartition]:
        """One partition for each kind in `places`, in order."""
        return dict.fromkeys(map(self.first, places))

    def where(self, places: Iterable[TopicPartition], holds: Callable[[TopicPartition], bool]) -> list[TopicPartition]:
        """The partitions among `places` for whose kind the condition holds; it is asked once for each kind."""
        holding = cache(holds)
        return [place for place in places if holding(self.first(place))]


@dataclass(frozen=True, eq=False)
class Scenario:
    """All partitions of a snapshot, one for each of their `kinds`, and the brokers that are up. Immutable: every step returns
    another scenario."""

    kinds: Kinds
    partitions: Mapping[TopicPartition, Registration]
    up: frozenset[int]
    clean: frozenset[int]
    """Brokers that are down and were stopped cleanly."""
    changes: tuple[LeaderChange, ...] = ()
    """Changes since the scenario began, in order."""
    reassigned: frozenset[TopicPartition] = frozenset()
    """Members of `partitions` whose reassignment has ended."""
    unsettled: frozenset[TopicPartition] = frozenset()
    """Members of `partitions` whose live replicas may be out of sync."""

    @classmethod
    def of(
        cls,
        state: PresentState,
        kinds: Kinds,
        *,
        has_elr: bool,
        unclean: Callable[[TopicPartition], bool],
        up: Iterable[int],
        fenced: Sequence[int] = (),
    ) -> Scenario:
        """`unclean` tells for each partition whether unclean elections are allowed at first; brokers that are not `up` are
        fenced in the order of `fenced`, as the controller does when it no longer hears from them."""
        begin = {
            allowed: kinds.change(
                ("begin", has_elr, allowed), frozenset(), partial(_begun, has_elr=has_elr, unclean=allowed)
            )
            for allowed in (True, False)
        }
        partitions = {place: begin[unclean(place)](state.partitions[place]) for place in kinds.firsts}
        scenario = cls(
            kinds, partitions, frozenset(up) | frozenset(fenced), state.clean, unsettled=frozenset(partitions)
        )
        for broker in fenced:
            left = scenario.up - {broker}
            change = kinds.change(("fence", broker), left, partial(_fence, broker))
            scenario = replace(scenario, up=left)._moved(kinds.assigned_to(broker), change)
        return replace(scenario, changes=())

    def is_like(self, other: Scenario) -> bool:
        """True if both have the same brokers up and the same partitions."""
        return self.up == other.up and self.partitions == other.partitions

    def leader(self, place: TopicPartition) -> int | None:
        """The leader; None without one, and for a partition whose assignment the snapshot does not show."""
        registration = self.partitions.get(self.kinds.first(place))
        return None if registration is None else registration.leader_id

    def is_reassigned(self, place: TopicPartition) -> bool:
        """True if a reassignment of the partition has ended."""
        return self.kinds.first(place) in self.reassigned

    def forbidden(self, topics: Collection[str]) -> Scenario:
        """The scenario after unclean.leader.election.enable=false for the topics."""
        forbid = self.kinds.change("forbid", frozenset(), lambda one, _: one._replace(unclean=False))
        partitions = {place: forbid(one) if place[0] in topics else one for place, one in self.partitions.items()}
        return replace(self, partitions=partitions)

    def stopped(self, broker_id: int) -> Scenario:
        """The scenario after SIGTERM, by which the broker leaves cleanly unless a log dir of it is offline (H19); unchanged if it is down."""
        if broker_id not in self.up:
            return self
        left = self.up - {broker_id}
        failed = any(broker_id in self.partitions[one].offline for one in self.kinds.assigned_to(broker_id))
        down = replace(self, up=left, clean=self.clean if failed else self.clean | {broker_id})
        change = self.kinds.change(("stop", broker_id), left, partial(_stop, broker_id))
        return down._moved(self.kinds.assigned_to(broker_id), change)

    def started(self, broker_id: int) -> Scenario:
        """The scenario after the broker has started with all its log dirs, and every live replica has caught up with its leader."""
        clean = broker_id in self.clean
        up = self.up | {broker_id}
        back = replace(self, up=up, clean=self.clean - {broker_id})
        change = self.kinds.change(("start", broker_id, clean), up, partial(_start, broker_id, clean))
        own = self.kinds.assigned_to(broker_id)
        return back._moved(own, change)._settled(own)

    def elected(self, places: Iterable[TopicPartition]) -> Scenario:
        """The scenario after an unclean election requested by an operator."""
        change = self.kinds.change("elect", self.up, partial(elect, unclean=True))
        return self._moved(self.kinds.one_of_each(places), change, ordered=True)._settled()

    def reordered(self, place: TopicPartition, replicas: tuple[int, ...]) -> Scenario:
        """The scenario once the assignment is reordered and its first broker is elected (H9)."""
        partitions = {**self.partitions, place: self.partitions[place]._replace(replicas=replicas)}
        return replace(self, partitions=partitions)._moved([place], lambda one: prefer(one, self.up), ordered=True)

    def _settled(self, more: Iterable[TopicPartition] = ()) -> Scenario:
        """The scenario once all live replicas are in sync; `more` are partitions with a replica that just came up."""
        after = self.kinds.change("settle", self.up, catch_up)
        partitions = dict(self.partitions)
        ended = set()
        for place in self.unsettled.union(more):
            before = partitions[place]
            partitions[place] = after(before)
            if partitions[place].removing != before.removing:
                ended.add(place)
        return replace(self, partitions=partitions, reassigned=self.reassigned | ended, unsettled=frozenset())

    def _moved(self, places: Iterable[TopicPartition], change: Change, ordered: bool = False) -> Scenario:
        partitions = dict(self.partitions)
        changes = list(self.changes)
        unsettled = set(self.unsettled)
        for place in places:
            before = partitions[place]
            after = change(before)
            if after is before:
                continue
            partitions[place] = after
            unsettled.add(place)
            if after.leader_id is not None and after.leader_id != before.leader_id:
                changes.append(LeaderChange(place, after.leader_id, _right(before, after.leader_id), ordered))
        return replace(self, partitions=partitions, changes=tuple(changes), unsettled=frozenset(unsettled))


@dataclass(frozen=True, eq=False)
class Scenarios:
    """A cluster in every state that its snapshot leaves open: with or without eligible leader replicas; unclean elections
    allowed or not for topics that do not show it; brokers of unknown state up or down; and each order in which the controller
    may have fenced those that went down, which decides who stays in sync (H14)."""

    kinds: Kinds
    ways: tuple[Scenario, ...]
    """The first one allows nothing that the snapshot does not show."""
    first_epochs: Mapping[TopicPartition, int]
    """Leader epochs of the snapshot, by the representative of each kind."""

    @classmethod
    def of(cls, state: PresentState, kinds: Kinds) -> Scenarios:
        said = state.unclean_said
        ways: list[Scenario] = []
        eligible = (True, False) if state.has_elr is None else (state.has_elr,)
        for has_elr in eligible:
            for unclean in (lambda place: said[place] is True, lambda place: said[place] is not False):
                for also_up in {frozenset[int](), state.unknown}:
                    up = state.up | also_up
                    for fenced in _orders(state, state.brokers - up):
                        way = Scenario.of(state, kinds, has_elr=has_elr, unclean=unclean, up=up, fenced=fenced)
                        if not any(way.is_like(other) for other in ways):
                            ways.append(way)
        return cls(kinds, tuple(ways), {place: state.partitions[place].leader_epoch for place in kinds.firsts})

    def __iter__(self) -> Iterator[Scenario]:
        return iter(self.ways)

    def after(self, step: Callable[[Scenario], Scenario]) -> Scenarios:
        """All scenarios after `step`."""
        return replace(self, ways=tuple(map(step, self.ways)))

    @cached_property
    def up(self) -> frozenset[int]:
        """Brokers that are up in every scenario."""
        return frozenset.intersection(*(way.up for way in self.ways))

    @cached_property
    def perhaps_up(self) -> frozenset[int]:
        """Brokers that are up in any scenario."""
        return frozenset[int]().union(*(way.up for way in self.ways))

    @cached_property
    def reassigned(self) -> frozenset[TopicPartition]:
        """Partitions whose reassignment has ended in any scenario."""
        ended = frozenset[TopicPartition]().union(*(way.reassigned for way in self.ways))
        return frozenset(place for one in ended for place in self.kinds.alike(one))

    def leader(self, place: TopicPartition) -> int | None:
        """The leader in the first scenario."""
        return self.ways[0].leader(place)

    def is_led_by(self, place: TopicPartition, broker_id: int) -> bool:
        """True if the broker leads in every scenario."""
        return all(way.leader(place) == broker_id for way in self.ways)

    def is_led_by_one(self, place: TopicPartition) -> bool:
        """True if every scenario has the same leader, or none."""
        return len({way.leader(place) for way in self.ways}) == 1

    def offline(self, place: TopicPartition) -> frozenset[int]:
        """Brokers whose log dir with the partition is offline, which is the same in every scenario."""
        return self.ways[0].partitions[self.kinds.first(place)].offline

    def takers(self, place: TopicPartition) -> set[int]:
        """Brokers that would lead the partition, in any scenario, as soon as they are up and nobody leads."""
        first = self.kinds.first(place)
        return set().union(*(takers(way.partitions[first]) for way in self.ways))

    def takers_of(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, set[int]]:
        found = cache(self.takers)
        return {place: found(self.kinds.first(place)) for place in places}

    def epochs_gained(self, place: TopicPartition) -> int:
        """Leader epochs that have begun since the snapshot, in the scenario with the fewest."""
        first = self.kinds.first(place)
        return min(way.partitions[first].leader_epoch for way in self.ways) - self.first_epochs[first]


def takers(partition: Registration) -> set[int]:
    """Brokers that would lead the partition as soon as they are up and nobody leads: in sync, eligible, or last known leader."""
    last = set(partition.last_known) if len(partition.last_known) == 1 else set()
    return {*partition.isr, *partition.elr, *last}


#: Most brokers down for which every order of fencing is simulated; with more, each one comes last once.
_FEW = 3


def _orders(state: PresentState, down: frozenset[int]) -> Iterator[tuple[int, ...]]:
    """Orders in which the controller may fence the brokers that are down, after those already fenced; a single one if the order of the
    rest changes no partition's leader or ISR."""
    first = tuple(sorted(down & state.fenced))
    gone = down - state.fenced
    rest = sorted(gone)
    if not any(_depends(one, state.unclean_said[place], gone) for place, one in state.partitions.items()):
        yield (*first, *rest)
    elif len(rest) <= _FEW:
        yield from ((*first, *order) for order in permutations(rest))
    else:
        for number in range(len(rest)):
            order = (*rest[number:], *rest[:number])
            yield (*first, *order)
            yield (*first, *order[::-1])


def _depends(one: Registration, unclean: bool | None, gone: frozenset[int]) -> bool:
    """True if the order in which brokers are fenced matters: two are in sync or eligible, or one may be elected uncleanly in place of
    the leader before it is fenced itself."""
    if len((one.isr | one.elr) & gone) > 1:
        return True
    return unclean is not False and one.leader_id in gone and len(gone.intersection(one.replicas)) > 1


def _begun(one: Registration, _: frozenset[int], *, has_elr: bool, unclean: bool) -> Registration:
    return one._replace(has_elr=has_elr, unclean=unclean)


def _stop(broker_id: int, one: Registration, alive: frozenset[int]) -> Registration:
    # A reassignment may have taken the partition from the broker.
    return stop_broker(one, broker_id, alive) if broker_id in one.replicas else one


def _start(broker_id: int, clean: bool, one: Registration, alive: frozenset[int]) -> Registration:
    return start_broker(one, broker_id, alive, clean=clean) if broker_id in one.replicas else one


def _fence(broker_id: int, one: Registration, alive: frozenset[int]) -> Registration:
    """The registration after the controller fenced a broker; unchanged if it already had: there is no leader, and only this broker is in sync."""
    is_known = broker_id not in one.isr or (one.leader_id is None and one.isr == {broker_id})
    return one if is_known and one.leader_id != broker_id else stop_broker(one, broker_id, alive)


def _right(before: Registration, leader_id: int) -> str:
    if leader_id in before.isr:
        return "isr"
    if leader_id in before.elr:
        return "elr"
    return "last_known" if before.has_elr and before.last_known == (leader_id,) else "unclean"
