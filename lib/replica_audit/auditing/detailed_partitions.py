"""Partitions that are reported in detail: all of an audit of usual size, the worst ones of a large audit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import nsmallest
from operator import itemgetter

from replica_audit.literals import VERDICTS
from replica_audit.model import Place
from replica_audit.schema import PartitionRow

#: Partitions up to which everything is reported of each.
WHOLE = 10_000
#: Partitions in detail where there are more.
DETAILED = 2_000
#: Partitions that a text names one by one at most.
NAMED = 40


def worst_first(partitions: Iterable[PartitionRow]) -> list[PartitionRow]:
    """Worst verdict first, then most committed records lost, then most lost, then by name."""
    return sorted(partitions, key=_rank)


def detailed(partitions: Sequence[PartitionRow], most: int | None = None) -> list[PartitionRow]:
    """The partitions that are reported in detail, at `most` so many where that is given, in the order of `worst_first`: of equal
    verdicts and losses those with graver findings.
    """
    ranked = worst_first(partitions)
    if most is None:
        most = len(ranked) if len(ranked) <= WHOLE else DETAILED
    if most >= len(ranked):
        return ranked
    gravest = nsmallest(
        most, enumerate(ranked), key=lambda one: (*_badness(one[1]), [-count for count in one[1].findings])
    )
    return [row for _, row in sorted(gravest, key=itemgetter(0))]


def told_places(partitions: Sequence[PartitionRow]) -> frozenset[Place]:
    """The partitions in detail, and those that lists begin with, by what was lost or by name."""
    by_name = nsmallest(NAMED, partitions, key=lambda row: (VERDICTS.index(row.verdict), row.topic, row.partition))
    told = (*detailed(partitions), *nsmallest(NAMED, partitions, key=_rank), *by_name)
    return frozenset((row.topic, row.partition) for row in told)


def _rank(row: PartitionRow) -> tuple[int, int, int, str, int]:
    return *_badness(row), row.topic, row.partition


def _badness(row: PartitionRow) -> tuple[int, int, int]:
    return VERDICTS.index(row.verdict), -(row.lost_committed or 0), -(row.lost_records or 0)
