"""Losses from earlier audits of a warehouse: only of finished ones, of this cluster, with something to lose."""

from __future__ import annotations

from tests.support.fixtures import FIXTURES

from replica_audit.config import Settings
from replica_audit.runner.in_process import audit_all
from replica_audit.warehouse import past_audits
from replica_audit.warehouse.answer_tables import REPORTED_TABLES
from replica_audit.warehouse.attempts import record_attempt
from replica_audit.warehouse.delta_tables import Warehouse
from replica_audit.warehouse.past_audits import past_losses

PLACES = {("ledger", number) for number in range(3)}


def write(warehouse: Warehouse, audit_id: str, results, cluster_id: str | None, state: str = "finished") -> None:
    ids = {"cluster_id": cluster_id, "snapshot_id": "s", "audit_id": audit_id}
    for table in REPORTED_TABLES:
        warehouse.append(table, results.table(table), ids)
    record_attempt(warehouse, "audit", state, started="2026-01-01", ingest_id="i", **ids)


def test_runs_of_finished_audits_of_the_cluster_are_found(tmp_path, unclean):
    warehouse = Warehouse(str(tmp_path))
    assert past_losses(warehouse, "c", PLACES) == {}
    write(warehouse, "a", unclean, "c")
    write(warehouse, "failed", unclean, "c", "failed")
    write(warehouse, "other", unclean, "d")
    found = past_losses(warehouse, "c", PLACES)
    assert found.keys() == PLACES
    assert {run.audit_id for losses in found.values() for run in losses.runs} == {"a"}
    (run,) = found["ledger", 0].runs
    assert (run.start_offset, run.end_offset, run.records, run.broker_ids, run.committed) == (34, 79, 45, (0,), True)
    assert past_losses(warehouse, "c", {("ledger", 1)}).keys() == {("ledger", 1)}
    assert past_losses(warehouse, None, PLACES) == {} == past_losses(warehouse, "e", PLACES)


def test_audits_without_a_loss_are_not_looked_into(tmp_path, monkeypatch):
    warehouse = Warehouse(str(tmp_path))
    write(warehouse, "a", audit_all(str(FIXTURES / "diverged-healed"), Settings(topics=("ledger",))), "c")
    read, tables = warehouse.read_parts, []
    monkeypatch.setattr(
        warehouse, "read_parts", lambda table, *rest, **equals: tables.append(table) or read(table, *rest, **equals)
    )
    assert past_losses(warehouse, "c", PLACES) == {} and set(tables) == {"audits", "partitions"}


def test_a_history_holds_the_rows_of_one_file_at_once(tmp_path, unclean, monkeypatch):
    warehouse, held = Warehouse(str(tmp_path)), []
    for audit_id in "abc":
        write(warehouse, audit_id, unclean, "c")
    real = past_audits.arrow_to_rows
    monkeypatch.setattr(past_audits, "arrow_to_rows", lambda rows, kind: held.append(rows.num_rows) or real(rows, kind))
    whole = warehouse.read
    monkeypatch.setattr(
        warehouse, "read", lambda table, *rest, **equals: whole({"audits": table}[table], *rest, **equals)
    )
    found = past_audits.load_history(warehouse)
    assert [one.audit_id for one in found.audits] == ["a", "b", "c"]
    assert sum(found.audits[0].partitions.values()) == len(unclean.partitions) and len(found.findings) > 3
    assert max(held) == max(len(unclean.partitions), len(unclean.findings))
