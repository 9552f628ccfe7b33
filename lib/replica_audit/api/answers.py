"""What an audit answers, for a Python program: verdict, rows, report. Nothing here needs Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from replica_audit.answering.verdict import build_verdict
from replica_audit.auditing.audits.earlier_audit import Earlier
from replica_audit.config import Settings
from replica_audit.model import TopicPartition
from replica_audit.reporting.files import write_report
from replica_audit.reporting.terminal.partition_page import render_partition
from replica_audit.reporting.terminal.summary import render_summary
from replica_audit.reporting.written.answer_html import render_answer_html
from replica_audit.results import Results
from replica_audit.tables import REPORT_TABLES

if TYPE_CHECKING:
    import pyarrow as pa


class Answers:
    """The answers of one audit. Its tables are those of `audit.json`, by the same names and with the same columns."""

    def __init__(
        self, results: Results, fail_on: str, earlier: Earlier | None = None, partition: TopicPartition | None = None
    ) -> None:
        """`earlier` is the audit that a report compares with; `partition` the only one that was asked for."""
        self.results = results
        self.fail_on = fail_on
        self._earlier = earlier
        self._partition = partition

    @property
    def audit_id(self) -> str | None:
        """Names the audit in the warehouse; None where nothing was written."""
        return self.results.audit["audit_id"]

    @property
    def verdict(self) -> str:
        """The worst verdict of all partitions, e.g. COMMITTED_LOSS (`docs/semantics.md`)."""
        return self.results.audit["verdict"]

    @property
    def verdict_json(self) -> dict[str, Any]:
        """What `verdict.json` says: verdict, status, exit_status and counts."""
        return build_verdict(self.results, self.fail_on)

    @property
    def exit_status(self) -> int:
        """What the command line would end with: 0, 1 (findings at or above `fail_on`) or 3 (cannot be trusted whole)."""
        return self.verdict_json["exit_status"]

    def rows(self, table: str) -> Sequence[Mapping[str, Any]]:
        """Rows of a table as they are in audit.json. Raises KeyError for a table that there is none of."""
        return self.results.rows(table)

    def arrow(self, table: str) -> pa.Table:
        """The same as an Arrow table."""
        from replica_audit.warehouse.arrow_types import arrow_schema, rows_to_arrow

        return rows_to_arrow(self.rows(table), arrow_schema(REPORT_TABLES[table]))

    def report(self, directory: str) -> str:
        """Write the report's files into `directory`, which is made; returns its path. Raises OSError."""
        return write_report(self.results, directory, self.fail_on, self._earlier)

    def __str__(self) -> str:
        """What `show` prints: everything about the one partition, or the summary of all."""
        return render_summary(self.results) if self._partition is None else render_partition(self.results)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.verdict}, {len(self.rows('partitions'))} partitions>"

    def _repr_html_(self) -> str:
        return render_answer_html(self.results, self.verdict_json)


def show_snapshot(
    path: str, partition: TopicPartition | None, settings: Settings, progress: Any = None, known: Any = None
) -> Answers:
    """Audit the snapshot at `path` in this process, or one partition of it; nothing is written.

    `known` is a `Baseline`. Raises UsageError and InputError as `local.audit` does.
    """
    from replica_audit.local.audit import audit_all, audit_one

    if partition is None:
        results = audit_all(path, settings, progress)
    else:
        results = audit_one(path, partition, settings)
    if known is not None:
        results = known.compare(results)
    return Answers(results, settings.fail_on, None, partition)
