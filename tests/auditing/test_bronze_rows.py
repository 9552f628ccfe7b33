"""Directories, leaderships and lines of brokers' logs come back from their rows as they were, also out of JSON."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import fields, replace

from tests.support.captures import CAPTURES, FIXTURES

from replica_audit.auditing.bronze_rows import bronze_rows, directories_of_rows
from replica_audit.auditing.leadership.broker_log_evidence import event_row, events_of_rows
from replica_audit.auditing.opening import open_snapshot
from replica_audit.model import ReplicaDir
from replica_audit.schema import PartitionStateRow, read_row
from replica_audit.snapshot.broker_logs import BrokerLogEvent
from replica_audit.snapshot.leadership_rows import leadership_of_rows


def _of_partitions(rows):
    """Rows by table, of each partition."""
    found = defaultdict(lambda: defaultdict(list))
    for table, of_table in rows.items():
        for row in of_table:
            found[row["topic"], row["partition"]][table].append(row)
    return found


def test_directories_and_leaderships_come_back_from_their_rows():
    directories = leaderships = 0
    for capture in CAPTURES:
        _, inventory = open_snapshot(str(FIXTURES / capture), (), None)
        rows = _of_partitions(json.loads(json.dumps(bronze_rows(inventory))))
        found = [one for of_partition in rows.values() for one in directories_of_rows(of_partition)[0]]
        assert {(one.path, one.log_dir): one for one in found} == {
            (one.path, one.log_dir): one for one in inventory.copies
        }
        orphans = sum(len(directories_of_rows(of_partition)[1]) for of_partition in rows.values())
        assert orphans == len(inventory.orphan_checkpoints)
        directories += len(found)
        for leadership in inventory.leaderships:
            of_partition = rows[leadership.topic, leadership.partition]["partition_states"]
            states = [read_row(PartitionStateRow, row) for row in of_partition if row["source"] == leadership.source]
            # What only reading the metadata log needs is in no row.
            history = tuple(replace(state, batch_end=None) for state in leadership.history)
            assert leadership_of_rows(states) == replace(leadership, history=history)
            leaderships += 1
    assert directories > 1000
    assert leaderships > 300


def test_lines_of_a_brokers_log_come_back_from_their_rows():
    bare = BrokerLogEvent("orders", 0, 1, "server.log", 5, "cut", 7, None)
    full = BrokerLogEvent(
        "orders", 0, 1, "server.log", 6, "starts", 8, "[2026]", 3, 4, 10, 9, 2, (1, 2), True, "id", False
    )
    assert None not in [getattr(full, field.name) for field in fields(full)]
    rows = json.loads(json.dumps([event_row(one) for one in (bare, full)]))
    assert events_of_rows(rows) == (bare, full)


def test_a_directory_has_a_column_for_each_field():
    """A field that is added and is in no row would be lost between ingest and audit."""
    other = {"checkpoint_epochs", *(field.name for field in fields(ReplicaDir) if field.name.endswith("_checkpoint"))}
    _, inventory = open_snapshot(str(FIXTURES / CAPTURES[0]), (), None)
    (row, *_) = bronze_rows(inventory)["replica_dirs"]
    assert set(row) == {field.name for field in fields(ReplicaDir)} - other
