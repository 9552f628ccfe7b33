"""How many rows a stage committed to each table, and whether they are still there: Delta does not notice a lost last commit."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from replica_audit.errors import EngineError
from replica_audit.text import count
from replica_audit.warehouse.delta_tables import Warehouse
from replica_audit.warehouse.table_reads import damage_sentence


def committed_counts(finished: Mapping[str, Any]) -> dict[str, int]:
    """Rows by table as a `finished` row of `audits` says; of a stage of an earlier version only what that kept."""
    counts = finished.get("row_counts")
    return dict(counts or json.loads(finished.get("options") or "{}").get("rows") or {})


def check_committed(warehouse: Warehouse, finished: Mapping[str, Any], found: Mapping[str, int]) -> None:
    """Raise EngineError unless each table of `found` has as many rows of this stage as it committed, if it says how many."""
    committed = committed_counts(finished)
    for table, number in found.items():
        if committed.get(table, number) != number:
            whose = f"this {finished['stage']} ({finished['audit_id'] or finished['ingest_id']})"
            what = f"{warehouse.name}/{table} has {count(number, 'row')} of {whose}, expected {committed[table]}"
            raise EngineError(damage_sentence(what))


def check_audits(
    warehouse: Warehouse, audits: Iterable[Mapping[str, Any]], table: str, rows: Iterable[Mapping[str, Any]]
) -> None:
    """The same of one table of several audits; `rows` are theirs, with their audit_id."""
    numbers = Counter(row["audit_id"] for row in rows)
    for finished in audits:
        check_committed(warehouse, finished, {table: numbers[finished["audit_id"]]})


def check_large(warehouse: Warehouse, finished: Mapping[str, Any], tables: Iterable[str], key: str) -> None:
    """The same of tables that are too large to be read for it: their files have at least as many rows of `key`.

    A file has the rows of one ingest, and a table may have several ingests of a snapshot.
    """
    committed = committed_counts(finished)
    for table in tables:
        number = warehouse.count_rows(table, key)
        if number < committed.get(table, 0):
            check_committed(warehouse, finished, {table: number})
