"""Producers of lost records, from the table `lost_producers`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from replica_audit.auditing.detailed_partitions import ranked
from replica_audit.results import Results, by_place, place_of
from replica_audit.schema import LostProducerRow, PartitionRow

#: Maximum number of producers of lost records, and of consumer groups, that summary.md names.
READER_LIMIT = 8


class LostWriter(NamedTuple):
    """A producer of lost records, and the brokers that hold the same records of it."""

    records: LostProducerRow
    """Row of the first broker."""
    brokers: Sequence[int]


class LostWriters(NamedTuple):
    """The producers of lost records of all partitions."""

    total: int
    worst: tuple[tuple[PartitionRow, LostWriter], ...]
    """The first `READER_LIMIT` with their partitions, worst partition first."""


def writers_of(rows: Sequence[LostProducerRow]) -> list[LostWriter]:
    """Producers of one partition's lost records, most records first."""
    same: dict[LostProducerRow, list[LostProducerRow]] = defaultdict(list)
    for row in rows:
        same[row._replace(broker_id=-1)].append(row)
    writers = [LostWriter(some[0], sorted(row.broker_id for row in some)) for some in same.values()]
    return sorted(writers, key=lambda one: (-one.records.record_count, one.records.start_offset, one.brokers))


def find_writers(results: Results) -> LostWriters:
    """Producers of the partitions in `results`, all or a part of an audit."""
    of_place = by_place(results.lost_producers)
    losing = [row for row in results.partitions if place_of(row) in of_place]
    found = [(row, one) for row in ranked(losing) for one in writers_of(of_place[place_of(row)])]
    return LostWriters(len(found), tuple(found[:READER_LIMIT]))


def join_writers(parts: Iterable[LostWriters]) -> LostWriters:
    """The sum of several parts of an audit."""
    parts = list(parts)
    found = list(chain.from_iterable(part.worst for part in parts))
    rank = {place_of(row): number for number, row in enumerate(ranked(row for row, _ in found))}
    found.sort(key=lambda one: rank[place_of(one[0])])
    return LostWriters(sum(part.total for part in parts), tuple(found[:READER_LIMIT]))
