"""Rows of the report tables by partition, worst partition first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from replica_audit.auditing.findings.catalogue import VERDICTS
from replica_audit.results import Results

Row = Mapping[str, Any]
Rows = Mapping[str, Sequence[Row]]

#: Tables that say something of one partition, beside `partitions` itself.
DETAIL_TABLES = (
    "replicas",
    "high_watermarks",
    "high_watermark_timeline",
    "partition_states",
    "divergences",
    "truncations",
    "verifications",
    "elections",
    "group_offsets",
    "lost_producers",
    "findings",
)


def worst_partitions(results: Results) -> list[Row]:
    """Rows of `partitions`: worst verdict first, then most committed records lost, then most lost, then by name."""

    def key(row: Row) -> tuple:
        lost = -(row["lost_committed"] or 0), -(row["lost_records"] or 0)
        return VERDICTS.index(row["verdict"]), lost, row["topic"], row["partition"]

    return sorted(results.rows("partitions"), key=key)


def render_lost(row: Row, column: str) -> str:
    """A number of lost records of a row of `partitions`: 41, at most 41, or - where it is not known."""
    count = row[column]
    if count is None:
        return "-"
    return f"at most {count}" if row["lost_at_most"] and count else str(count)


def rows_by_partition(results: Results) -> Iterator[tuple[Row, Rows]]:
    """Each partition with its rows of `DETAIL_TABLES`, in the order of `worst_partitions`."""
    grouped: dict[str, dict[tuple, list[Row]]] = {}
    for table in DETAIL_TABLES:
        of_table = grouped[table] = defaultdict(list)
        for row in results.rows(table):
            of_table[(row["topic"], row["partition"])].append(row)
    for row in worst_partitions(results):
        place = (row["topic"], row["partition"])
        yield row, {table: grouped[table].get(place, ()) for table in DETAIL_TABLES}
