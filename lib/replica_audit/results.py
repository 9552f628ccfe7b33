"""What an audit answers: the audit itself and the rows of every report table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from replica_audit.tables import REPORT_TABLES


@dataclass(frozen=True, slots=True)
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
