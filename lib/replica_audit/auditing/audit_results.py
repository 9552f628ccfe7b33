"""The answers of one audit put together: the object `audit` of audit.json, and every table in its order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from replica_audit.auditing.accounting import account_for_input, check_losses
from replica_audit.auditing.catalogue import audit_verdict
from replica_audit.results import AuditObject, Results
from replica_audit.schema import REPORT_TABLES, sort_rows

_RUN = ("audit_id", "snapshot_id", "cluster_id", "tool_version", "started", "finished")


def audit_results(
    run: Mapping[str, Any],
    inputs: Mapping[str, Any],
    options: Mapping[str, Any] | None,
    tables: Mapping[str, Sequence[Mapping[str, Any]]],
    observations: int,
    location: str | None,
) -> Results:
    """`run` is the finished row of `audits`, `inputs` what was read (snapshot, log_dirs, replicas, segments, size_bytes, files,
    brokers), `options` as from `options_row`, `observations` how many the timeline has in all.

    Rows may have more columns than their tables. Raises EngineError where a loss has no finding.
    """
    rows = {
        table: _of_columns([column.name for column in columns], tables.get(table, ()))
        for table, columns in REPORT_TABLES.items()
    }
    check_losses(rows["partitions"], rows["findings"])
    audit = {
        **{name: run[name] for name in _RUN},
        "verdict": audit_verdict([row["verdict"] for row in rows["partitions"]], rows["findings"]),
        "inputs": {
            **inputs,
            **account_for_input(rows["quarantine"]),
            **({"observations": observations} if observations else {}),
        },
        "options": options,
    }
    return Results(cast(AuditObject, audit), {table: sort_rows(of_table) for table, of_table in rows.items()}, location)


def _of_columns(names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [row if len(row) == len(names) else {name: row[name] for name in names} for row in rows]
