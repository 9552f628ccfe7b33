"""Rows have exactly the columns of their tables, in the order in which tables.py has them."""

from __future__ import annotations

import pytest
from tests.support.captures import audit_capture
from tests.support.some import some

from replica_audit.auditing.answer_rows import report_rows
from replica_audit.auditing.comparison_plan import ComparisonPlan
from replica_audit.auditing.conclude import conclude
from replica_audit.auditing.evidence import PartitionEvidence
from replica_audit.model import TopicPartition
from replica_audit.schema import REPORT_TABLES

#: `show` gives the bronze rows of `partition_states`, whose columns the engine puts in order.
TABLES = tuple(name for name in REPORT_TABLES if name != "partition_states")


@pytest.mark.parametrize(
    "capture", ["diverged-unclean", "reassigned-2-done", "recreated-1-before", "txn-failover-1-unclean"]
)
def test_rows_are_those_of_their_tables(capture):
    for results in some(audit_capture(capture).values()):
        for table in TABLES:
            names = [column.name for column in REPORT_TABLES[table]]
            assert all(list(row) == names for row in results.rows(table)), table


def test_a_partition_without_any_replica_has_them_too():
    audit = conclude(ComparisonPlan(PartitionEvidence(TopicPartition("orders", 0), ())))
    rows = report_rows(audit)
    for table in ("partitions", "findings"):
        assert [list(row._fields) for row in rows.table(table)] == [[column.name for column in REPORT_TABLES[table]]], (
            table
        )
