"""Leadership and its history in the warehouse: what Spark concludes of a capture is what `show` does."""

from __future__ import annotations

import pytest
from tests.auditing.captures import FIXTURES, audit_capture

from replica_audit.bronze_tables import BRONZE_TABLES
from replica_audit.schema import REPORT_TABLES, sort_rows

CAPTURES = ("diverged-unclean", "last-replica-elr-2-cut", "quorum3-3-uncommitted")
#: Tables of partitions; what belongs to the snapshot as a whole is not `show`'s.
TABLES = ("partitions", "replicas", "high_watermarks", "partition_states", "divergences", "truncations", "findings")


@pytest.mark.parametrize("capture", CAPTURES)
def test_both_paths_give_the_same_answers(run_stages, capture):
    results = run_stages(FIXTURES / capture).results
    shown = audit_capture(capture)
    for table in TABLES:
        names = [column.name for column in REPORT_TABLES[table]]
        expected = [row for one in shown.values() for row in one.tables[table] if row["topic"] is not None]
        found = [row for row in results.tables[table] if row["topic"] is not None]
        assert [list(row) for row in found] == [names] * len(expected), table
        assert sort_rows(found) == sort_rows(expected), table


def test_partition_states_is_a_delta_table_with_every_state(spark, settings, run_stages):
    from replica_audit.warehouse.delta_tables import Warehouse

    done = run_stages(FIXTURES / "diverged-unclean")
    table = Warehouse(settings.warehouse).directory("partition_states")
    frame = spark.read.format("delta").load(table).where(f"snapshot_id = '{done.snapshot_id}'")
    assert frame.columns == [
        "cluster_id",
        "snapshot_id",
        "ingest_id",
        *(column.name for column in BRONZE_TABLES["partition_states"]),
    ]
    rows = frame.where("topic = 'ledger' and partition = 0 and source = 'metadata_log'").orderBy("entry").collect()
    assert [
        (row["occasion"], row["leader_id"], row["leader_epoch"], row["isr"], row["recovering"]) for row in rows
    ] == [
        ("created", 0, 0, [0, 1, 2], False),
        ("changed", 0, 0, [0, 1], False),
        ("changed", 0, 0, [0], False),
        ("changed", 1, 1, [1], True),
        ("changed", 1, 1, [1, 2], False),
    ]
    assert all(row["time_ms"] > 1_700_000_000_000 and row["uncommitted"] is False for row in rows)
    assert rows[0]["configs"]["unclean.leader.election.enable"] == "true"
