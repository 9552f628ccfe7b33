"""Partitions that a report shows in detail: all of an audit of usual size, the worst ones of a large audit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from replica_audit.auditing.catalogue import VERDICTS
from replica_audit.model import Place
from replica_audit.report.facts.by_partition import worst_partitions
from replica_audit.results import Results
from replica_audit.schema import PartitionRow

#: Partitions up to which every file of the report has everything.
WHOLE = 10_000
#: Partitions in detail where there are more.
DETAILED = 2_000


def detailed_partitions(results: Results) -> list[PartitionRow]:
    """Rows of `partitions` that are shown in detail, in the order of `worst_partitions`. Worked out once."""
    found = results.remembered.get("detailed")
    if not isinstance(found, list):
        found = results.remembered["detailed"] = _detailed(results)
    return found


def is_large(results: Results) -> bool:
    """True where there are more partitions than are shown in detail."""
    return len(results.partitions) > WHOLE


def _detailed(results: Results) -> list[PartitionRow]:
    ranked = worst_partitions(results)
    if not is_large(results):
        return ranked
    # Of equal verdicts and losses those with graver findings; the sort keeps the order of equal ones.
    worst = sorted(range(len(ranked)), key=lambda index: _rank(ranked[index]))
    return [ranked[index] for index in sorted(worst[:DETAILED])]


def other_partitions(results: Results) -> list[PartitionRow]:
    """Rows of the partitions that are not shown in detail, by name."""
    told = detailed_places(results)
    others = (row for row in results.partitions if (row.topic, row.partition) not in told)
    return sorted(others, key=lambda row: (row.topic, row.partition))


def detailed_places(results: Results) -> frozenset[Place]:
    """The partitions that are shown in detail."""
    return frozenset((row.topic, row.partition) for row in detailed_partitions(results))


class PartitionRanges(NamedTuple):
    """Partitions of one verdict and topic."""

    verdict: str
    topic: str
    numbers: str
    """As ranges: 0-249,251."""
    size: int


def partition_ranges(partitions: Iterable[PartitionRow]) -> list[PartitionRanges]:
    """`partitions`, given by name, by verdict, the worst first, and topic."""
    numbers: dict[tuple[str, str], list[int]] = defaultdict(list)
    for row in partitions:
        numbers[row.verdict, row.topic].append(row.partition)
    found = [PartitionRanges(*key, _ranges(of_key), len(of_key)) for key, of_key in numbers.items()]
    return sorted(found, key=lambda one: VERDICTS.index(one.verdict))


def _rank(row: PartitionRow) -> tuple[object, ...]:
    lost = -(row.lost_committed or 0), -(row.lost_records or 0)
    return VERDICTS.index(row.verdict), lost, [-count for count in row.findings]


def _ranges(numbers: Sequence[int]) -> str:
    joined: list[list[int]] = []
    for number in numbers:
        if joined and number == joined[-1][1] + 1:
            joined[-1][1] = number
        else:
            joined.append([number, number])
    return ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in joined)
