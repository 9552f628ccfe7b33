"""Rows of report tables for tests: every column null unless the test says otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from replica_audit.literals import SEVERITIES
from replica_audit.results import Results
from replica_audit.row_classes import column_names, read_row
from replica_audit.schema import REPORT_ROWS, REPORT_TABLES, AttemptRow, ReportRows

#: What a report is written as.
REPORT_FILES = ("audit.json", "index.html", "junit.xml", "metrics.prom", "summary.md", "verdict.json")

AUDIT = {
    "audit_id": "a" * 16,
    "snapshot_id": "b" * 64,
    "cluster_id": "MkU3OEVBNTcwNTJENDM2Qk",
    "tool_version": "0.1.0",
    "started": "2026-01-02T03:04:05.000Z",
    "finished": "2026-01-02T03:04:06.000Z",
    "verdict": "CONSISTENT",
    "inputs": {},
}


def row(table: str, /, **values: Any) -> dict[str, Any]:
    """A row of `table` with exactly its columns; raises KeyError for a column that it does not have."""
    made = {column.name: None for column in REPORT_TABLES[table]}
    for name, value in values.items():
        if name not in made:
            raise KeyError(name)
        made[name] = value
    return made


def orders_row(table: str, /, **values: Any) -> dict[str, Any]:
    """A row of `table` about orders-0."""
    return row(table, topic="orders", partition=0, **values)


def partition(topic: str = "orders", number: int = 0, verdict: str = "CONSISTENT", **values: Any) -> dict[str, Any]:
    defaults = {"leader_id": 1, "reference_id": 1, "hw_lower": 10, "hw_upper": 10, "dropped_records": 0}
    defaults["findings"] = dict.fromkeys(SEVERITIES, 0)
    return row("partitions", topic=topic, partition=number, verdict=verdict, **{**defaults, **values})


def finding(
    code: str, severity: str, topic: str | None = "orders", number: int | None = 0, **values: Any
) -> dict[str, Any]:
    defaults = {"confidence": "proven", "message": f"What {code} says.", "evidence": [], "status": "new"}
    return row("findings", code=code, severity=severity, topic=topic, partition=number, **{**defaults, **values})


def attempt(**values: Any) -> AttemptRow:
    """A row of `audits`, of a finished audit unless `values` say otherwise."""
    known = dict.fromkeys(AttemptRow._fields) | {
        "stage": "audit",
        "state": "finished",
        "started": "",
        "tool_version": "1",
    }
    return AttemptRow(**{**known, **values})


def objects(table: str, rows: Iterable[Any]) -> list[Any]:
    """The rows of `table` as the objects that reports work on."""
    kind = REPORT_ROWS[table]
    return [
        one if isinstance(one, tuple) else read_row(kind, {**dict.fromkeys(column_names(kind)), **one}) for one in rows
    ]


def answers_of(audit: Any, tables: Mapping[str, list[Any]], location: str | None = None) -> Results:
    """Results with rows given as audit.json has them, or as objects."""
    return Results.of(audit, ReportRows(**{table: objects(table, rows) for table, rows in tables.items()}), location)


def change_rows(answers: Results, table: str, new: Callable[[Any], Mapping[str, Any]]) -> None:
    """Give each row of `table` the values that `new` says of it."""
    rows = answers.table(table)
    rows[:] = [row._replace(**new(row)) for row in rows]


def tables_of(answers: Results) -> dict[str, list[dict[str, Any]]]:
    """The rows of every table as audit.json has them."""
    return {table: answers.rows(table) for table in REPORT_TABLES}


def results(partitions: list | None = None, findings: list | None = None, **tables: list) -> Results:
    """Results with one consistent partition unless `partitions` says otherwise."""
    partitions = [partition()] if partitions is None else partitions
    return answers_of(AUDIT, {"partitions": partitions, "findings": findings or [], **tables})
