"""What an audit answers: the audit itself and the rows of every report table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from replica_audit.model import Place
from replica_audit.schema import REPORT_TABLES


@dataclass(frozen=True)
class Results:
    """One finished audit: `audit` describes the run, `tables` has the rows of the tables that were computed.

    `audit` has audit_id, snapshot_id, cluster_id, tool_version, started, finished, verdict and inputs; a table that is
    absent was not computed. `location` is where the snapshot was read from, as it was given: commands that a report tells
    its reader to run name it; audit.json does not have it. Raises ValueError for a table that is not among
    `REPORT_TABLES`.
    """

    audit: Mapping[str, Any]
    tables: Mapping[str, Sequence[Mapping[str, Any]]]
    location: str | None = None

    def __post_init__(self) -> None:
        unknown = sorted(set(self.tables) - set(REPORT_TABLES))
        if unknown:
            raise ValueError(f"no report tables: {', '.join(unknown)}; known are {', '.join(REPORT_TABLES)}")

    def rows(self, table: str) -> Sequence[Mapping[str, Any]]:
        """Rows of `table`; none when it was not computed."""
        if table not in REPORT_TABLES:
            raise KeyError(table)
        return self.tables.get(table, ())

    def rows_of(self, table: str) -> Mapping[Place, Sequence[Mapping[str, Any]]]:
        """Rows of `table` by partition, which are looked up again and again; one without rows is not there."""
        if table not in self._by_partition:
            grouped = defaultdict(list)
            for row in self.rows(table):
                grouped[row["topic"], row["partition"]].append(row)
            self._by_partition[table] = dict(grouped)
        return self._by_partition[table]

    @cached_property
    def remembered(self) -> dict[str, Any]:
        """What was worked out once from these rows and is asked for again, by name."""
        return {}

    @cached_property
    def _by_partition(self) -> dict[str, dict[Place, list[Mapping[str, Any]]]]:
        return {}
