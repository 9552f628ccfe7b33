"""The states that the model can reach in a few events: all of them, or some on random ways."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from itertools import permutations

from tests.exhaustive.events import events_of, happenings
from tests.exhaustive.partition import BROKERS, State, created

#: (min.insync.replicas, eligible leader replicas on).
CONFIGURATIONS = ((1, False), (2, False), (1, True), (2, True))


def reachable(events: int) -> list[State]:
    """Every state that up to `events` events lead to, each once, whatever its brokers are called, nearest first.

    Of the configurations each has only states in which it shows: what min.insync.replicas 2 changes needs an ISR of one,
    and eligible leader replicas need one that was eligible.
    """
    found = []
    for min_isr, elr_on in CONFIGURATIONS:
        start = created(min_isr, elr_on)
        seen, newest = {key(start)}, [start]
        states = [start]
        for _ in range(events):
            following = []
            for state in newest:
                for after in happenings(state):
                    name = key(after)
                    if name not in seen:
                        seen.add(name)
                        following.append(after)
            states += following
            newest = following
        found += _unlike([state for state in states if _shows(state)])
    return sorted(found, key=lambda state: len(state.story))


def walks(seed: int, events: int, count: int) -> Iterator[State]:
    """`count` states after `events` random events each; a pure function of the seed."""
    return (way[-1] for way in histories(seed, events, count))


def histories(seed: int, events: int, count: int) -> Iterator[list[State]]:
    """`count` random ways of `events` events each, as lists of all their states, including the first."""
    chance = random.Random(f"{seed} {events}")
    for _ in range(count):
        way = [created(*chance.choice(CONFIGURATIONS))]
        for _ in range(events):
            way.append(chance.choice(list(events_of(way[-1]))).happen())
        yield way


def after(min_isr: int, elr_on: bool, story: Iterable[str]) -> State:
    """The state after the events of a story, as `State.story` has them. Raises StopIteration for an event that cannot happen."""
    state = created(min_isr, elr_on)
    for name in story:
        state = next(one for one in events_of(state) if one.name == name).happen()
    return state


def _unlike(states: Iterable[State]) -> list[State]:
    """The first of the states that differ in memory only, and so leave the same files."""
    found: dict[tuple, State] = {}
    for state in states:
        replicas = (one._replace(high_watermark=0, log_start=0) for one in state.replicas)
        found.setdefault(key(state._replace(replicas=tuple(replicas), fetched=(0, 0, 0))), state)
    return list(found.values())


def _shows(state: State) -> bool:
    """True unless the state belongs to a simpler configuration too."""
    changes = [entry for _, entries in state.metadata for entry in entries]
    if state.elr_on:
        return any(entry.elr or entry.last_known for entry in changes)
    return state.min_isr == 1 or any(entry.isr is not None and len(entry.isr) < state.min_isr for entry in changes)


def key(state: State) -> tuple:
    """Key that is equal for states which differ only in names of brokers and in times: numbers and words in order."""
    signs = [_sign(state, broker) for broker in BROKERS]
    ordered = sorted(signs)
    # Brokers that are told apart by themselves have their places; only of like ones all orders are tried.
    orders = (order for order in permutations(BROKERS) if [signs[broker] for broker in order] == ordered)
    return tuple(ordered), *min(_relations(state, order) for order in orders)


def _sign(state: State, broker: int) -> tuple:
    """Description of one broker that names no other."""
    one = state.replicas[broker]
    batches = tuple(batch.name for batch in one.batches)
    start_mark = -1 if one.start_mark is None else one.start_mark
    offsets = (one.first, one.log_start, one.high_watermark, one.recovery_point, one.mark, start_mark)
    places = (broker == state.leader, broker in state.isr, broker in state.elr, broker in state.last_known)
    return batches, one.epochs, offsets, one.status, places, state.fetched[broker]


def _relations(state: State, order: tuple[int, ...]) -> tuple:
    """The rest, the brokers being called 0, 1 and 2 in this order."""
    names = {broker: name for name, broker in enumerate(order)}

    def several(brokers: Iterable[int] | None) -> tuple[int, ...]:
        return (-9,) if brokers is None else tuple(sorted(names[broker] for broker in brokers))

    def single(broker: int | None) -> int:
        return -9 if broker is None else names.get(broker, broker)

    entries = tuple(
        (entry.kind, single(entry.broker), single(entry.leader), several(entry.isr), several(entry.elr))
        + (several(entry.last_known), -1 if entry.recovering is None else int(entry.recovering))
        for _, group in state.metadata
        for entry in group
    )
    return tuple(sorted(state.committed)), state.deleted_to, entries
