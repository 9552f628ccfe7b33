"""Directories, leaderships and lines of brokers' logs come back from their rows as they were, also out of JSON."""

from __future__ import annotations

from dataclasses import replace

from tests.support.captures import CAPTURES, FIXTURES

from replica_audit.arrow_rows import arrow_schema, arrow_to_rows, rows_to_arrow
from replica_audit.auditing.bronze_rows import bronze_rows, directories_of_rows
from replica_audit.bronze_tables import BRONZE_ROWS, BRONZE_TABLES, BrokerLogEvent, ReplicaDirRow
from replica_audit.model import ReplicaDir
from replica_audit.results import by_place
from replica_audit.snapshot.leadership_rows import leadership_of_rows
from replica_audit.snapshot.opening import open_snapshot


def _arrived(rows, table):
    """Rows as they are read out of Parquet."""
    kind = BRONZE_ROWS[table]
    return list(arrow_to_rows(rows_to_arrow(rows, arrow_schema(BRONZE_TABLES[table])), kind))


def test_directories_and_leaderships_come_back_from_their_rows():
    directories = leaderships = 0
    for capture in CAPTURES:
        _, inventory = open_snapshot(str(FIXTURES / capture), (), None)
        rows = {table: by_place(_arrived(of_table, table)) for table, of_table in bronze_rows(inventory).items()}
        names = ("replica_dirs", "leader_epochs", "offset_checkpoints")
        read = [
            directories_of_rows(*(rows[name].get(place, ()) for name in names))
            for place in {place for name in names for place in rows[name]}
        ]
        found = [one for of_partition, _ in read for one in of_partition]
        assert {(one.path, one.log_dir): one for one in found} == {
            (one.path, one.log_dir): one for one in inventory.copies
        }
        assert sum(len(orphans) for _, orphans in read) == len(inventory.orphan_checkpoints)
        directories += len(found)
        for leadership in inventory.leaderships:
            of_partition = rows["partition_states"][leadership.topic, leadership.partition]
            states = [row for row in of_partition if row.source == leadership.source]
            # What only reading the metadata log needs is in no row.
            history = tuple(state._replace(batch_end=None) for state in leadership.history)
            assert leadership_of_rows(states) == replace(leadership, history=history)
            leaderships += 1
    assert directories > 1000
    assert leaderships > 300


def test_lines_of_a_brokers_log_come_back_from_their_rows():
    bare = BrokerLogEvent("orders", 0, 1, "server.log", 5, "cut", 7, None)
    full = BrokerLogEvent(
        "orders", 0, 1, "server.log", 6, "starts", 8, "[2026]", 3, 4, 10, 9, 2, [1, 2], True, "id", False, "p"
    )
    assert None not in full
    assert _arrived([bare, full], "broker_log_events") == [bare, full]


def test_a_directory_has_a_column_for_each_field():
    """A field that is added and is in no row would be lost between ingest and audit."""
    other = {"checkpoint_epochs", *(name for name in ReplicaDir._fields if name.endswith("_checkpoint"))}
    assert set(ReplicaDirRow._fields) == {*ReplicaDir._fields} - other
