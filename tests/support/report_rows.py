"""Rows of report tables for tests: unless the test says otherwise, lists and maps that cannot be null are empty, and all else is null."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, get_origin, get_type_hints

from replica_audit.literals import SEVERITIES
from replica_audit.results import Results, place_of
from replica_audit.row_classes import read_row
from replica_audit.schema import (
    REPORT_ROWS,
    REPORT_TABLES,
    AttemptRow,
    LostHolder,
    PartitionRow,
    ReplicaRow,
    ReportRows,
)

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

#: What every audit says, of one that is in no warehouse.
OF_NO_RUN = {**AUDIT, "audit_id": None, "snapshot_id": None, "cluster_id": None, "options": {}}


@cache
def _origins(kind: type) -> dict[str, Any]:
    """By the name of a column of class `kind`, whether it is a list or a map; large audits ask it 100,000 times."""
    return {name: get_origin(hint) for name, hint in get_type_hints(kind).items()}


def empty_row(kind: type) -> dict[str, Any]:
    """A row of class `kind` that says nothing."""
    empty = {Sequence: [], Mapping: {}}
    return {name: empty.get(origin) for name, origin in _origins(kind).items()}


def row(table: str, /, **values: Any) -> dict[str, Any]:
    """A row of `table` with exactly its columns; raises KeyError for a column that it does not have."""
    made = empty_row(REPORT_ROWS[table])
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
    """The rows of `table` as the objects that reports work on; a replica's files begin at its log start unless the test says otherwise."""
    kind = REPORT_ROWS[table]
    made = [one if isinstance(one, tuple) else read_row(kind, {**empty_row(kind), **one}) for one in rows]
    if table == "replicas":
        made = [
            one._replace(local_start_offset=one.log_start_offset or 0) if one.local_start_offset is None else one
            for one in made
        ]
    return made


def holders_of(replicas: Iterable[ReplicaRow], partition: PartitionRow) -> list[LostHolder]:
    """The holders of a partition's lost records by the counts of its replicas, one for each broker."""
    counts = ("lost_held", "lost_committed_held", "lost_only_here", "lost_committed_only_here")
    own = [one for one in replicas if place_of(one) == place_of(partition) and one.lost_held]
    return [LostHolder(one.broker_id, *(getattr(one, name) or 0 for name in counts)) for one in own]


def answers_of(audit: Any, tables: Mapping[str, list[Any]], location: str | None = None) -> Results:
    """Results with rows given as audit.json has them, or as objects; who holds lost records is taken from the replicas."""
    made = ReportRows(**{table: objects(table, rows) for table, rows in tables.items()})
    made.partitions[:] = [
        row if row.holders else row._replace(holders=holders_of(made.replicas, row)) for row in made.partitions
    ]
    return Results.of({**OF_NO_RUN, **audit}, made, location)


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
