"""Partitions that a report shows in detail: all of an audit of usual size, the worst ones of a large audit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from replica_audit.auditing import detailed_partitions as detail
from replica_audit.auditing.catalogue import VERDICTS
from replica_audit.model import Place
from replica_audit.results import Results, place_of
from replica_audit.schema import PartitionRow, ReportRow


def detailed_partitions(results: Results) -> list[PartitionRow]:
    """Rows of `partitions` that are shown in detail, in the order of `worst_partitions`. Worked out once."""
    found = results.remembered.get("detailed")
    if not isinstance(found, list):
        found = results.remembered["detailed"] = detail.detailed(results.partitions)
    return found


def is_large(results: Results) -> bool:
    """True where there are more partitions than are shown in detail."""
    return len(results.partitions) > detail.WHOLE


def other_partitions(results: Results) -> list[PartitionRow]:
    """Rows of the partitions that are not shown in detail, by name."""
    told = detailed_places(results)
    others = (row for row in results.partitions if (row.topic, row.partition) not in told)
    return sorted(others, key=lambda row: (row.topic, row.partition))


def detailed_places(results: Results) -> frozenset[Place]:
    """The partitions that are shown in detail."""
    return frozenset((row.topic, row.partition) for row in detailed_partitions(results))


def told_rows(results: Results, table: str) -> list[ReportRow]:
    """Rows of a table without those of partitions that are not shown in detail, as they are in `results`; of `quarantine` the first
    of a large audit, as many as there are partitions in detail.
    """
    if table == "quarantine" and is_large(results):
        return list(results.tables.get(table, ()))[: detail.DETAILED]
    told = detailed_places(results)
    left_out = frozenset(place for row in results.partitions if (place := (row.topic, row.partition)) not in told)
    return [row for row in results.tables.get(table, ()) if place_of(row) not in left_out]


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


def _ranges(numbers: Sequence[int]) -> str:
    joined: list[list[int]] = []
    for number in numbers:
        if joined and number == joined[-1][1] + 1:
            joined[-1][1] = number
        else:
            joined.append([number, number])
    return ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in joined)
