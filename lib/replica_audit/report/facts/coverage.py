"""What of the replicas is in the snapshot, as data: those that the answer depends on and lacks, and those compared with nothing."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

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
    """Of `STATES`: whether there are files of these replicas, of others of these brokers, or none at all."""


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


@dataclass(frozen=True, slots=True)
class BrokerCaptures:
    """How many replicas of a broker, or of each of several, are in each state; `needed` of those that were not captured."""

    brokers: tuple[int, ...]
    states: tuple[int, ...]
    """In the order of `STATES`."""
    needed: int


@dataclass(frozen=True, slots=True)
class MissingReplicas:
    """Partitions of which the same brokers' replicas are missing in the same way: rows of `captures` of any other state than whole."""

    places: tuple[Place, ...]
    rows: tuple[CaptureRow, ...]
    """Of the first of them."""


@dataclass(frozen=True, slots=True)
class CaptureMatrix:
    """Broker by partition, equal rows once."""

    brokers: tuple[BrokerCaptures, ...]
    missing: tuple[MissingReplicas, ...]
    """Those with a needed replica first."""
    controllers: tuple[MissingReplicas, ...]
    """The voters whose copies of the metadata log are missing."""


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


def find_matrix(results: Results) -> CaptureMatrix | None:
    """The matrix of captures; None where every copy that anything names was captured whole.

    Where all replicas were and a voter's copy of the metadata log was not, it has no rows by broker.
    """
    everything = results.captures
    rows = [row for row in everything if not _is_of_voter(row)]
    controllers = _missing([row for row in everything if _is_of_voter(row)])
    if not is_incomplete(rows):
        return CaptureMatrix((), (), controllers) if controllers else None
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    for row in rows:
        counts[row.broker_id][row.state] += 1
        counts[row.broker_id]["needed"] += row.needed is not None
    alike: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for broker_id, count in sorted(counts.items()):
        alike[tuple(count[name] for name in (*STATES, "needed"))].append(broker_id)
    brokers = tuple(BrokerCaptures(tuple(ids), numbers[:-1], numbers[-1]) for numbers, ids in alike.items())
    return CaptureMatrix(brokers, _missing(rows), controllers)


def _missing(rows: Sequence[CaptureRow]) -> tuple[MissingReplicas, ...]:
    by_place: dict[Place, list[CaptureRow]] = defaultdict(list)
    for row in rows:
        if row.state != "whole":
            by_place[row.topic, row.partition].append(row)
    groups: dict[tuple[object, ...], list[Place]] = defaultdict(list)
    for place, of_place in by_place.items():
        groups[tuple(_kind(row) for row in of_place)].append(place)
    missing = [MissingReplicas(tuple(places), tuple(by_place[places[0]])) for places in groups.values()]
    return tuple(sorted(missing, key=lambda one: all(row.needed is None for row in one.rows)))


def is_incomplete(captures: Sequence[CaptureRow]) -> bool:
    """Whether a replica is not in the snapshot, or not whole; copies of the metadata log do not count."""
    return any(row.state != "whole" and not _is_of_voter(row) for row in captures)


def _is_of_voter(row: CaptureRow) -> bool:
    return row.topic == METADATA_PARTITION.topic


def _kind(row: CaptureRow) -> tuple[object, ...]:
    return row.broker_id, row.state, tuple(row.missing), row.needed
