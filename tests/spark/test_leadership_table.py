"""Leadership and its history in the warehouse, for readers with Spark."""

from __future__ import annotations

from tests.support.fixtures import FIXTURES

from replica_audit.bronze_tables import BRONZE_TABLES


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
