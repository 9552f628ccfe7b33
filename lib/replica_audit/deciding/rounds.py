"""In which order candidates are started and elected: each after the partitions of others that it would take by itself."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from replica_audit.model import Place


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
