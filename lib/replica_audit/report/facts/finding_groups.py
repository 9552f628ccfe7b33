"""Findings of one partition grouped by fact: each fact is stated once, with its brokers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from replica_audit.auditing.catalogue import codes_with
from replica_audit.model import OffsetRange, joined
from replica_audit.report.facts.by_partition import headline_rank, worst_first
from replica_audit.schema import FindingRow


class Fact(NamedTuple):
    """A fact that one or more findings report.

    `head` is the first of them by `headline_rank`; `same` are the findings with the code of `head`, `other` those with other codes,
    both worst first; `brokers` are the broker ids of `same` in ascending order; `ranges` are the joined ranges of `same`.
    """

    head: FindingRow
    same: tuple[FindingRow, ...]
    other: tuple[FindingRow, ...]
    brokers: tuple[int, ...]
    ranges: tuple[OffsetRange, ...]


def group_facts(findings: Sequence[FindingRow]) -> list[Fact]:
    """Group `findings` into facts, worst first, resolved ones last.

    Findings of one partition and status report one fact if they
    - have the same code, severity and confidence, on any brokers and ranges, or
    - report divergence, truncation or loss of the same records of one broker.
    """
    rows = sorted(worst_first(findings), key=lambda row: row.status == "resolved")
    parents = list(range(len(rows)))

    def root(number: int) -> int:
        while parents[number] != number:
            parents[number] = parents[parents[number]]
            number = parents[number]
        return number

    for pair in (*_alike(rows), *_about_the_same_records(rows)):
        one, other = sorted(map(root, pair))
        parents[other] = one
    groups: dict[int, list[FindingRow]] = defaultdict(list)
    for number, row in enumerate(rows):
        groups[root(number)].append(row)
    return [_fact(groups[number]) for number in sorted(groups)]


def _alike(rows: Sequence[FindingRow]) -> Iterator[tuple[int, int]]:
    """Pairs of row indexes: each row, and the first row with its partition, code, severity and confidence."""
    first: dict[tuple[object, ...], int] = {}
    for number, row in enumerate(rows):
        key = (*_place(row), row.code, row.severity, row.confidence)
        yield first.setdefault(key, number), number


def _about_the_same_records(rows: Sequence[FindingRow]) -> Iterator[tuple[int, int]]:
    """Pairs of row indexes of one broker whose ranges overlap or touch; a range without an end overlaps everything after it."""
    by_broker: dict[tuple[object, ...], list[tuple[float, float, int]]] = defaultdict(list)
    for number, row in enumerate(rows):
        if row.broker_id is not None and row.start_offset is not None and row.code in codes_with("records"):
            end = float("inf") if row.end_offset is None else row.end_offset
            by_broker[(*_place(row), row.broker_id)].append((row.start_offset, end, number))
    for spans in by_broker.values():
        spans.sort()
        reach = spans[0][1]
        furthest = spans[0][2]
        for start, end, number in spans[1:]:
            if start <= reach:
                yield furthest, number
            if end > reach:
                reach = end
                furthest = number


def _place(row: FindingRow) -> tuple[object, ...]:
    return row.topic, row.partition, row.status


def brokers_of(rows: Iterable[FindingRow]) -> tuple[int, ...]:
    """The brokers of findings, in ascending order."""
    return tuple(sorted({row.broker_id for row in rows if row.broker_id is not None}))


def ranges_of(rows: Iterable[FindingRow]) -> tuple[OffsetRange, ...]:
    """Ranges of findings on all brokers, joined if they touch; ranges without an end are left out."""
    spans = ((row.start_offset, row.end_offset) for row in rows)
    return joined(OffsetRange(start, end) for start, end in spans if start is not None and end is not None)


def _fact(rows: Sequence[FindingRow]) -> Fact:
    head = min(rows, key=headline_rank)
    same = tuple(row for row in rows if row.code == head.code)
    return Fact(head, same, tuple(row for row in rows if row.code != head.code), brokers_of(same), ranges_of(same))
