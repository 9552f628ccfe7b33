"""In which order candidates are started and elected: nobody before the partitions that it would take by itself."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from replica_audit.model import Place
from replica_audit.protocol.controller import Registration


@dataclass(frozen=True, slots=True)
class Round:
    """One candidate and the partitions that it is to lead."""

    candidate_id: int
    places: tuple[Place, ...]


def takers(partition: Registration) -> set[int]:
    """Brokers that lead the partition as soon as they are up and nobody leads: in sync, eligible, or last known leader."""
    last = set(partition.last_known) if len(partition.last_known) == 1 else set()
    return {*partition.isr, *partition.elr, *last}


def order_rounds(
    choices: Mapping[Place, int], partitions: Mapping[Place, Registration]
) -> tuple[list[Round], dict[Place, str]]:
    """Rounds in order, and the partitions that no order serves, with the reason.

    Where two candidates would each take a partition of the other, one of them goes first, so that as few partitions as
    possible are left out.
    """
    left: dict[int, list[Place]] = defaultdict(list)
    for place, candidate in sorted(choices.items()):
        left[candidate].append(place)
    rounds, unserved = [], {}
    while left:
        cost = {candidate: _robbed(candidate, left, partitions) for candidate in left}
        candidate = min(left, key=lambda one: (len(cost[one]), one))
        for place in cost[candidate]:
            rival = choices[place]
            left[rival].remove(place)
            unserved[place] = (
                f"broker {candidate} leads it as soon as it is started, and has to be started for other partitions before "
                f"broker {rival} can be"
            )
        left = defaultdict(list, {one: places for one, places in left.items() if places})
        if places := left.pop(candidate, ()):
            rounds.append(Round(candidate, tuple(places)))
    return rounds, unserved


def _robbed(
    candidate: int, left: Mapping[int, Sequence[Place]], partitions: Mapping[Place, Registration]
) -> list[Place]:
    """Partitions of other candidates that this one would take when it is started before them."""
    return [
        place
        for other, places in left.items()
        if other != candidate
        for place in places
        if candidate in takers(partitions[place])
    ]
