"""The table `audits`: the attempts of all stages, which of them count, and checks that their committed rows are there, since
Delta does not notice that a last commit is lost.

A stage writes its tables and then its `finished` row. Bronze rows carry the `ingest_id` of the attempt that wrote them; of the
finished attempts of a snapshot the first is used, so that two runs at once do no harm.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from typing import TypedDict

from replica_audit import __version__
from replica_audit.errors import EngineError, UsageError
from replica_audit.schema import AttemptRow
from replica_audit.text import count, now
from replica_audit.warehouse.delta_tables import StoredTables, Warehouse
from replica_audit.warehouse.table_reads import damage_sentence


class Attempt(TypedDict):
    """Columns that all rows of one attempt share (`record_attempt`)."""

    started: str
    cluster_id: str | None
    snapshot_id: str | None
    audit_id: str | None
    ingest_id: str | None
    options: str | None


def ids_of(attempt: Attempt) -> dict[str, str | None]:
    """`cluster_id`, `snapshot_id` and `audit_id`, which rows of the report tables have."""
    return {"cluster_id": attempt["cluster_id"], "snapshot_id": attempt["snapshot_id"], "audit_id": attempt["audit_id"]}


def record_attempt(
    warehouse: Warehouse,
    stage: str,
    state: str,
    *,
    started: str,
    snapshot_id: str | None,
    audit_id: str | None,
    ingest_id: str | None,
    cluster_id: str | None,
    tables: Iterable[str] = (),
    row_counts: Mapping[str, int] | None = None,
    options: str | None = None,
) -> AttemptRow:
    """Append a row to `audits` and return it: the last thing a stage does when it has finished or failed.

    `tables` are those that the stage wrote: their versions go into `table_versions`. `row_counts`: rows that it committed to
    each table (`check_committed`). `options` is JSON.
    """
    row = AttemptRow(
        cluster_id=cluster_id,
        snapshot_id=snapshot_id,
        audit_id=audit_id,
        ingest_id=ingest_id,
        stage=stage,
        state=state,
        started=started,
        finished=None if state == "running" else now(),
        tool_version=__version__,
        table_versions=warehouse.versions(tables) or None,
        row_counts=row_counts,
        options=options,
    )
    warehouse.describe_commits(stage=stage, snapshot_id=snapshot_id, audit_id=audit_id)
    warehouse.append("audits", [row], {})
    return row


def attempts(warehouse: StoredTables, stage: str, **equals: str | None) -> list[AttemptRow]:
    """Rows of `stage` in `audits`, oldest first, in any state."""
    wanted = {"stage": stage, **equals}
    rows = (
        row
        for row in warehouse.read_all("audits", AttemptRow)
        if all(getattr(row, name) == value for name, value in wanted.items())
    )
    return sorted(rows, key=lambda row: (row.ended, row.ingest_id or ""))


def finished_attempts(warehouse: StoredTables, stage: str, **equals: str | None) -> list[AttemptRow]:
    """The attempts that count, oldest first: for an ingest of a snapshot the first that finished, for audits all that did."""
    rows = [row for row in attempts(warehouse, stage, **equals) if row.state == "finished"]
    if stage != "ingest":
        return rows
    first: dict[str | None, AttemptRow] = {}
    for row in rows:
        first.setdefault(row.snapshot_id, row)
    return list(first.values())


def latest_attempt(warehouse: StoredTables, stage: str, **equals: str | None) -> AttemptRow:
    """The last finished attempt of `stage`; the beginning of an audit's id will do if no other has it. Raises UsageError if there is
    none, or none with that id."""
    rows = finished_attempts(warehouse, stage, **equals)
    alike: list[AttemptRow] = []
    beginning = equals.get("audit_id")
    if not rows and beginning:
        alike = [row for row in finished_attempts(warehouse, stage) if (row.audit_id or "").startswith(beginning)]
        rows = alike if len(alike) == 1 else []
    if not rows:
        wanted = "".join(f" with {name} {value}" for name, value in equals.items())
        several = f"{len(alike)} finished audits have an id that begins with {beginning}"
        said = [several if alike else f"no finished {stage}{wanted} in {warehouse.name}"]
        for begun in attempts(warehouse, stage, **equals)[-1:]:
            said.append(f"the one begun at {begun.started} {'failed' if begun.state == 'failed' else 'has not ended'}")
        option = f"--warehouse {shlex.quote(warehouse.name)}"
        command = f"replica-audit {'run' if stage == 'audit' else 'ingest'} SNAPSHOT {option} makes one"
        if stage == "audit" and not equals and finished_attempts(warehouse, "ingest"):
            said.append("a snapshot is ingested")
            command = f"replica-audit audit {option} audits it"
        elif stage == "audit" and finished_attempts(warehouse, stage):
            command = f"replica-audit history {option} --columns audit_id,finished,verdict lists them"
        raise UsageError(f"{'; '.join(said)}: {command}")
    return rows[-1]


def own_rows(attempt: AttemptRow) -> dict[str, str | None]:
    """`snapshot_id` and `ingest_id` of an attempt, which select its bronze rows."""
    return {"snapshot_id": attempt.snapshot_id, "ingest_id": attempt.ingest_id}


def check_committed(warehouse: StoredTables, finished: AttemptRow, found: Mapping[str, int]) -> None:
    """Raise EngineError unless each table of `found` has as many rows of this stage as it committed, if recorded."""
    committed = finished.row_counts or {}
    for table, number in found.items():
        if committed.get(table, number) != number:
            whose = f"this {finished.stage} ({finished.audit_id or finished.ingest_id})"
            what = f"{warehouse.name}/{table} has {count(number, 'row')} of {whose}, expected {committed[table]}"
            raise EngineError(damage_sentence(what))


def check_large(warehouse: StoredTables, finished: AttemptRow, tables: Iterable[str], key: str | None) -> None:
    """`check_committed` for tables too large to read for it: their files must have at least as many rows of `key`.

    A file has the rows of one ingest, and a table may have several ingests of a snapshot.
    """
    committed = finished.row_counts or {}
    for table in tables:
        number = warehouse.count_rows(table, key)
        if number < committed.get(table, 0):
            check_committed(warehouse, finished, {table: number})
