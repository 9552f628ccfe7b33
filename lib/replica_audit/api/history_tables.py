"""The answer of `history`: the audits of a warehouse, verdicts over time, and when each finding first appeared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from replica_audit.api.argument_settings import resolved
from replica_audit.api.typed_table import Tables
from replica_audit.auditing.history import HISTORY_ROWS, AuditHistory
from replica_audit.install.extras import check_extra
from replica_audit.paths import check_outputs
from replica_audit.report.history_text import render_history

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class History(Tables):
    """Tables of the audits of a warehouse: `audits`, `changes` of verdicts, and `findings`."""

    def __init__(self, past: AuditHistory) -> None:
        super().__init__(HISTORY_ROWS, lambda table: getattr(past, table))
        self.past = past

    def __str__(self) -> str:
        """The text that `history` prints."""
        return render_history(self.past)


def history(
    warehouse: str | None = None,
    *,
    catalog: str | None = None,
    spark: SparkSession | None = None,
    topics: Sequence[str] = (),
    limit: int | None = None,
    prune: bool = False,
    keep_days: int | None = None,
    keep_audits: int | None = None,
    config: str | None = None,
) -> History:
    """The history of the audits in `warehouse` (default: replica-audit-warehouse), or in a `catalog`, which needs `spark`.

    `limit` shows the latest audits only; `prune` first removes what retention does not keep. Raises UsageError, and
    EngineError without the extra `report`.
    """
    given = {
        "warehouse": warehouse,
        "catalog": catalog,
        "topics": tuple(topics),
        "keep_days": keep_days,
        "keep_audits": keep_audits,
    }
    settings = resolved(given, config)
    check_outputs(None, settings, report=False)
    check_extra("report", "history")
    from replica_audit.spark.catalogs import open_warehouse
    from replica_audit.warehouse.past_audits import load_history
    from replica_audit.warehouse.retention import apply_retention, sweep

    tables = open_warehouse(spark, settings)
    if prune:
        sweep(tables)
        apply_retention(tables, settings.keep_days, settings.keep_audits, vacuum=True)
    return History(load_history(tables, settings.topics, limit))
