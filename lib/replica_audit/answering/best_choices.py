"""Whom the cost matrix lets lead, partition by partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from replica_audit.answering.by_partition import Row


def best_rows(elections: Sequence[Row]) -> Mapping[tuple[str, int], Row]:
    """The row of the best candidate of each partition that has one."""
    return {
        (row["topic"], row["partition"]): row
        for row in elections
        if row["choice"] == "best" and row["candidate_id"] == row["broker_id"]
    }


def goes_on_leading(row: Row) -> bool:
    """Whether the candidate of a row of `elections` leads already."""
    return row["standing"] == "leader"
