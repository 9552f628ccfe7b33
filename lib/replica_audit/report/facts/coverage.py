"""Replicas that the answer depends on and lacks, and replicas that were compared with nothing."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from replica_audit.elect.cluster_state import find_up, newest_states
from replica_audit.model import Place
from replica_audit.results import Results
from replica_audit.schema import CaptureRow
from replica_audit.snapshot.log_dir_names import METADATA_PARTITION

#: Roles of the copies that are compared.
_COMPARED = ("leader", "reference", "compared")

#: States of `captures` in the order in which they are shown.
STATES = ("whole", "partial", "named", "absent")


@dataclass(frozen=True, slots=True)
class NeededBrokers:
    """Brokers whose replicas of the same partitions were not captured and may hold committed records."""

    brokers: tuple[int, ...]
    places: tuple[Place, ...]
    is_up: bool | None
    """None: nothing tells."""
    state: str
    """One of `STATES`: files of these replicas are here, of other replicas of these brokers, or none."""


@dataclass(frozen=True, slots=True)
class Compared:
    """How many copies of the partitions were compared; places in the order of `partitions`."""

    alone: tuple[Place, ...]
    """One copy is in the snapshot, and there are others, or nothing says that there are none."""
    single: tuple[Place, ...]
    """One copy is in the snapshot, and the partition has one replica."""
    unassigned: tuple[tuple[Place, int], ...]
    """Several copies are, so many, and nothing says whether these are all."""
    second_copies: tuple[tuple[Place, int], ...]
    """Copies on another disk of the same broker that were compared with nothing, with the broker."""

    @property
    def uncompared(self) -> frozenset[Place]:
        """Partitions of which nothing was compared."""
        return frozenset((*self.alone, *self.single))


def find_needed(results: Results) -> tuple[NeededBrokers, ...]:
    """Brokers that the answer depends on and lacks, those of the most partitions first."""
    up = find_up(results)
    places: dict[tuple[int, str], list[Place]] = defaultdict(list)
    for row in results.captures:
        if row.needed is not None:
            places[row.broker_id, row.state].append((row.topic, row.partition))
    alike: dict[tuple[tuple[Place, ...], bool | None, str], list[int]] = defaultdict(list)
    for (broker_id, state), of_broker in sorted(places.items()):
        alike[tuple(dict.fromkeys(of_broker)), up.get(broker_id), state].append(broker_id)
    found = [NeededBrokers(tuple(brokers), of_all, is_up, state) for (of_all, is_up, state), brokers in alike.items()]
    return tuple(sorted(found, key=lambda one: (-len(one.places), one.brokers)))


def find_compared(results: Results) -> Compared:
    """How many copies of each partition were compared, beside how many there are said to be."""
    assigned = {place: state.replicas for place, state in newest_states(results).items()}
    copies = Counter((row.topic, row.partition) for row in results.replicas if row.role in _COMPARED)
    alone: list[Place] = []
    single: list[Place] = []
    unassigned: list[tuple[Place, int]] = []
    for row in results.partitions:
        place = (row.topic, row.partition)
        replicas, count = assigned.get(place), copies[place]
        if count == 1:
            (single if replicas is not None and len(replicas) == 1 else alone).append(place)
        elif count and replicas is None:
            unassigned.append((place, count))
    second = [((row.topic, row.partition), row.broker_id) for row in results.replicas if row.role == "duplicate"]
    return Compared(tuple(alone), tuple(single), tuple(unassigned), tuple(second))


def join_compared(parts: Sequence[Compared]) -> Compared:
    """What was compared in several parts of an audit, in their order."""
    return Compared(
        alone=tuple(chain.from_iterable(one.alone for one in parts)),
        single=tuple(chain.from_iterable(one.single for one in parts)),
        unassigned=tuple(chain.from_iterable(one.unassigned for one in parts)),
        second_copies=tuple(chain.from_iterable(one.second_copies for one in parts)),
    )


def is_incomplete(captures: Sequence[CaptureRow]) -> bool:
    """True if a replica is missing or not whole; copies of the metadata log do not count."""
    return any(row.state != "whole" and not is_of_voter(row) for row in captures)


def is_of_voter(row: CaptureRow) -> bool:
    """True for a copy of the metadata log."""
    return row.topic == METADATA_PARTITION.topic
