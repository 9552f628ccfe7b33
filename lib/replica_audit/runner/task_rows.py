"""Destination of a task's report rows: the stage, or files of the tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from replica_audit.auditing.lost_producers import awaits_coordinator
from replica_audit.schema import ReportRows

if TYPE_CHECKING:
    from replica_audit.warehouse.table_files import RowFiles
    from replica_audit.warehouse.table_layout import DataFile


@dataclass(frozen=True, slots=True)
class Outlet:
    """Destination of a task's rows; without `directories` they stay in memory."""

    directories: Mapping[str, str] = field(default_factory=dict)
    """Directories of the tables that tasks write."""
    ids: Mapping[str, str | None] = field(default_factory=dict)
    """Ids of every row that is written."""


class TaskRows:
    """The rows of one task, partition after partition."""

    def __init__(self, outlet: Outlet) -> None:
        self.rows = ReportRows()
        self._outlet = outlet
        self._files: RowFiles | None = None

    def add(self, rows: ReportRows) -> None:
        """Add the rows of a partition."""
        self.rows.take(self._write(rows) if self._outlet.directories else rows)

    def close(self) -> Mapping[str, DataFile]:
        """The files that were written, by table, for the commit."""
        return {} if self._files is None else self._files.close()

    def _write(self, rows: ReportRows) -> ReportRows:
        """Write rows; returns those that stay in memory, since the coordinator's states, read once for all, may be added."""
        from replica_audit.warehouse.table_files import RowFiles

        if self._files is None:
            self._files = RowFiles(self._outlet.directories, self._outlet.ids)
        written = [row for row in rows.lost_producers if not awaits_coordinator(row)]
        self._files.add(vars(replace(rows, lost_producers=written)))
        return ReportRows(lost_producers=list(filter(awaits_coordinator, rows.lost_producers)))
