"""Rows of an audit by partition, as audit.json has them."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from replica_audit.results import Results


def rows_of(results: Results, table: str) -> dict[tuple[str, int], list[dict[str, Any]]]:
    """The rows of a table by partition; one without rows is not there."""
    found = defaultdict(list)
    for row in results.rows(table):
        found[row["topic"], row["partition"]].append(row)
    return dict(found)
