"""Where tasks write the report's tables, the coordinator is asked all the same."""

from __future__ import annotations

from dataclasses import replace

from tests.support.fixtures import FIXTURES

from replica_audit.progress import Progress
from replica_audit.warehouse.answer_tables import load_results
from replica_audit.warehouse.delta_tables import Warehouse


def test_lost_producers_have_their_transactional_ids_where_tasks_write_the_tables(spark, run_stages):
    from replica_audit.spark.pipeline import run_audit

    audited = run_stages(FIXTURES / "txn-failover-1-unclean")
    settings = replace(audited.settings, driver_rows=1)
    again = run_audit(spark, audited.snapshot_id, settings, Progress())
    rows = audited.results.rows("lost_producers")
    assert {row["transactional_id"] for row in rows} > {None}
    for results in (again, load_results(Warehouse(settings.warehouse), again.audit["audit_id"], "high")):
        assert results.rows("lost_producers") == rows
