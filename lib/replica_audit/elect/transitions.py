"""Outcomes of events on registrations, cached across scenarios, attempts and steps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable

from replica_audit.protocol.controller import Registration

#: A registration after an event, given the live brokers.
Event = Callable[[Registration, frozenset[int]], Registration]


class Transition:
    """An event's effect on registrations while some brokers are alive; an unchanged registration stays the same object."""

    def __init__(self, event: Event, alive: frozenset[int], alike: _KnownOutcomes) -> None:
        self._event, self._alive, self._alike = event, alive, alike
        self._known: dict[int, Registration] = {}

    def __call__(self, one: Registration) -> Registration:
        """Known registrations are found by their identity: hashing one takes as long as most changes."""
        after = self._known.get(id(one))
        if after is None:
            after = self._known[id(one)] = self._alike.after(one, self._event, self._alive)
        return after


class _KnownOutcomes:
    """An event's outcomes by registration; they depend only on which of its brokers are alive."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, frozenset[int]], tuple[Registration, Registration]] = {}

    def after(self, one: Registration, event: Event, alive: frozenset[int]) -> Registration:
        own = alive.intersection((*one.replicas, *one.isr, *one.elr, *one.last_known))
        found = self._known.get((id(one), own))
        if found is None:
            after = event(one, alive)
            # Kept with its key, so that no other object gets the same identity.
            found = self._known[id(one), own] = one, one if after == one else after
        return found[1]


class Transitions:
    """Transitions by the name of their event; a name stands for one function."""

    def __init__(self) -> None:
        self._changes: dict[tuple[Hashable, frozenset[int]], Transition] = {}
        self._alike: dict[Hashable, _KnownOutcomes] = defaultdict(_KnownOutcomes)

    def change(self, name: Hashable, alive: frozenset[int], event: Event) -> Transition:
        """The event's effect on registrations while the brokers `alive` are."""
        found = self._changes.get((name, alive))
        if found is None:
            found = self._changes[name, alive] = Transition(event, alive, self._alike[name])
        return found
