"""Partitions that are reported in detail: all of an audit of usual size, the worst ones of a large audit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from replica_audit.auditing.catalogue import VERDICTS
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
    return sorted(partitions, key=lambda row: (*_badness(row), row.topic, row.partition))


def detailed(partitions: Sequence[PartitionRow]) -> list[PartitionRow]:
    """The partitions that are reported in detail, in the order of `worst_first`: of equal verdicts and losses those with graver findings."""
    ranked = worst_first(partitions)
    if len(partitions) <= WHOLE:
        return ranked
    grave = lambda index: (*_badness(ranked[index]), [-count for count in ranked[index].findings])  # noqa: E731
    # The sort keeps the order of equal ones.
    return [ranked[index] for index in sorted(sorted(range(len(ranked)), key=grave)[:DETAILED])]


def told_places(partitions: Sequence[PartitionRow]) -> frozenset[Place]:
    """The partitions in detail, and those that lists begin with, by what was lost or by name."""
    by_name = sorted(partitions, key=lambda row: (VERDICTS.index(row.verdict), row.topic, row.partition))
    told = (*detailed(partitions), *worst_first(partitions)[:NAMED], *by_name[:NAMED])
    return frozenset((row.topic, row.partition) for row in told)


def _badness(row: PartitionRow) -> tuple[int, int, int]:
    return VERDICTS.index(row.verdict), -(row.lost_committed or 0), -(row.lost_records or 0)
