"""Partitions that are reported in detail: all in an audit of usual size, the worst in a large one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import nsmallest
from operator import attrgetter, itemgetter

from replica_audit.literals import VERDICTS
from replica_audit.model import TopicPartition
from replica_audit.results import place_of
from replica_audit.schema import PartitionRow

#: Maximum number of partitions that are all reported in detail.
WHOLE = 10_000
#: Number of partitions reported in detail in a larger audit.
DETAILED = 2_000
#: Maximum number of partitions that a text names one by one.
NAMED = 40

#: Order of partitions, worst first.
_GRAVITY: tuple[Callable[[PartitionRow], int], ...] = (
    lambda row: VERDICTS.index(row.verdict),
    lambda row: -(row.lost_committed or 0),
    lambda row: -(row.lost_records or 0),
)


def ranked(partitions: Iterable[PartitionRow]) -> list[PartitionRow]:
    """Sort by worst verdict, then most committed records lost, then most records lost, then name."""
    found = list(partitions)
    # Column by column, the last key first: tuples of all keys would take more memory than the rows.
    found.sort(key=attrgetter("partition"))
    found.sort(key=attrgetter("topic"))
    for column in reversed(_GRAVITY):
        found.sort(key=column)
    return found


def detailed(partitions: Sequence[PartitionRow], most: int | None = None) -> list[PartitionRow]:
    """Partitions reported in detail (at `most` that many if given), in the order of `ranked`; of partitions with equal
    verdict and losses, those with more severe findings are chosen."""
    return _gravest(ranked(partitions), most)


def _gravest(in_order: list[PartitionRow], most: int | None) -> list[PartitionRow]:
    if most is None:
        most = len(in_order) if len(in_order) <= WHOLE else DETAILED
    if most >= len(in_order):
        return in_order
    gravest = nsmallest(
        most,
        enumerate(in_order),
        key=lambda one: (*(of(one[1]) for of in _GRAVITY), *(-count for count in one[1].findings)),
    )
    return [row for _, row in sorted(gravest, key=itemgetter(0))]


def told_places(partitions: Sequence[PartitionRow]) -> frozenset[TopicPartition]:
    """Partitions in detail, and those at the start of lists sorted by loss or by name."""
    by_name = nsmallest(NAMED, partitions, key=lambda row: (VERDICTS.index(row.verdict), row.topic, row.partition))
    in_order = ranked(partitions)
    told = (*_gravest(in_order, None), *in_order[:NAMED], *by_name)
    return frozenset(place_of(row) for row in told)
