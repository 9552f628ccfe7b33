"""What events make of registrations, worked out once: in whichever scenario and attempt, and at whichever step a partition is registered so."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable

from replica_audit.protocol.controller import Registration

#: A registration after an event, with the brokers that are alive then.
Event = Callable[[Registration, frozenset[int]], Registration]


class Transition:
    """What an event makes of registrations while some brokers are alive; a registration that stays as it is is the same object."""

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
    """What an event makes of registrations: it depends on those of their brokers only that are alive."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, frozenset[int]], tuple[Registration, Registration]] = {}

    def after(self, one: Registration, event: Event, alive: frozenset[int]) -> Registration:
        own = alive.intersection((*one.replicas, *one.isr, *one.elr, *one.last_known))
        found = self._known.get((id(one), own))
        if found is None:
            after = event(one, alive)
            # With the first, so that no other gets its identity.
            found = self._known[id(one), own] = one, one if after == one else after
        return found[1]


class Transitions:
    """Changes by the name of their event, which stands for one function."""

    def __init__(self) -> None:
        self._changes: dict[tuple[Hashable, frozenset[int]], Transition] = {}
        self._alike: dict[Hashable, _KnownOutcomes] = defaultdict(_KnownOutcomes)

    def change(self, name: Hashable, alive: frozenset[int], event: Event) -> Transition:
        """What the event makes of registrations while the brokers `alive` are."""
        found = self._changes.get((name, alive))
        if found is None:
            found = self._changes[name, alive] = Transition(event, alive, self._alike[name])
        return found
