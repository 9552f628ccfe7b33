"""The states that the model can reach in a few events: all of them, or some on random ways."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

from tests.exhaustive.events import happenings
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
    chance = random.Random(f"{seed} {events}")
    for _ in range(count):
        state = created(*chance.choice(CONFIGURATIONS))
        for _ in range(events):
            state = chance.choice(list(happenings(state)))
        yield state


def _unlike(states: Iterable[State]) -> list[State]:
    """Of states that differ in memory only, and so leave the same files, the first."""
    found: dict[tuple, State] = {}
    for state in states:
        replicas = (one._replace(high_watermark=0, log_start=0) for one in state.replicas)
        found.setdefault(key(state._replace(replicas=tuple(replicas), fetched=(0, 0, 0))), state)
    return list(found.values())


def _shows(state: State) -> bool:
    """Whether the state is not one of a simpler configuration as well."""
    changes = [entry for _, entries in state.metadata for entry in entries]
    if state.elr_on:
        return any(entry.elr or entry.last_known for entry in changes)
    return state.min_isr == 1 or any(entry.isr is not None and len(entry.isr) < state.min_isr for entry in changes)


def key(state: State) -> tuple:
    """The same for states that differ in the names of brokers and in times only."""
    return min(_renamed(state, names) for names in _NAMES)


_NAMES = ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0))


def _renamed(state: State, names: tuple[int, ...]) -> tuple:
    """What can be told of a state, each broker b called names[b]; numbers only, so that any two can be put in order."""
    order = sorted(BROKERS, key=lambda broker: names[broker])

    def several(brokers: Iterable[int] | None) -> tuple[int, ...]:
        return (-9,) if brokers is None else tuple(sorted(names[broker] for broker in brokers))

    def single(broker: int | None) -> int:
        return -9 if broker is None else broker if broker < 0 else names[broker]

    replicas = []
    for broker in order:
        one = state.replicas[broker]
        names_of = tuple(batch.name for batch in one.batches)
        start_mark = -1 if one.start_mark is None else one.start_mark
        replicas.append(
            (names_of, one.first, one.log_start, one.epochs, one.high_watermark, *one[5:7], start_mark, one.status)
        )
    entries = tuple(
        (item.kind, single(item.broker), single(item.leader), several(item.isr), several(item.elr))
        + (several(item.last_known), -1 if item.recovering is None else int(item.recovering))
        for _, batch in state.metadata
        for item in batch
    )
    return (
        tuple(replicas),
        single(state.leader),
        tuple(state.fetched[broker] for broker in order),
        tuple(sorted(state.committed)),
        state.deleted_to,
        entries,
    )
