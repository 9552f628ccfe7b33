"""Records on Spark: what they decide is what `show` says, and none of them, nor a hash, gets into the warehouse."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.rebatched import DELETE, rebatched
from tests.support.report_rows import tables_of
from tests.support.scanned import FIXTURES
from tests.support.scenario import audit
from tests.support.snapshots import Replica

from replica_audit.model import TopicPartition
from replica_audit.progress import Progress
from replica_audit.runner.in_process import audit_one
from replica_audit.schema import REPORT_TABLES


def assert_as_shown(audited, name):
    """The rows of one partition are those of `show`, in every table that has partitions."""
    one = TopicPartition.parse(name)
    shown = audit_one(str(audited.path), one, audited.settings)
    for table, columns in REPORT_TABLES.items():
        if "topic" in {column.name for column in columns}:
            own, theirs = (
                [row for row in found.rows(table) if (row["topic"], row["partition"]) == (one.topic, one.partition)]
                for found in (audited.results, shown)
            )
            assert json.loads(json.dumps(own)) == json.loads(json.dumps(theirs)), (table, name)


def _findings(results, code: str) -> list[tuple]:
    rows = [row for row in results.rows("findings") if row["code"] == code]
    return [(row["topic"], row["partition"], row["broker_id"], row["start_offset"], row["end_offset"]) for row in rows]


@pytest.fixture(scope="module")
def compacted(run_stages):
    return run_stages(FIXTURES / "compacted-skewed-2")


def test_compacted_replicas_are_as_show_has_them(compacted):
    for row in compacted.results.rows("partitions"):
        assert_as_shown(compacted, f"{row['topic']}-{row['partition']}")
    assert _findings(compacted.results, "DIV-KEY-STATE") == [("zombies", 0, 2, 0, 11)]


def test_no_record_gets_into_the_warehouse(compacted):
    words = set()
    for path in (FIXTURES / "compacted-skewed-2").glob("broker-*/zombies-0/*.log"):
        words |= set(re.findall(rb"[a-z]+[0-9]{2} [a-z]+[0-9]{2}", path.read_bytes()))
    assert len(words) > 20
    files = [path for path in Path(compacted.settings.warehouse).rglob("*") if path.is_file()]
    assert len(files) > 20
    for path in files:
        content = path.read_bytes()
        assert not [word for word in words if word in content], path


def test_transactions_are_as_show_has_them(run_stages):
    audited = run_stages(FIXTURES / "txn-failover-1-unclean")
    for number in range(4):
        assert_as_shown(audited, f"wallet-{number}")
    assert _findings(audited.results, "TXN-HANGING") == [("wallet", 0, 1, 9, 14), ("wallet", 1, 1, 9, 12)]
    assert _findings(audited.results, "TXN-MARKER-LOST") == [("wallet", 0, 0, 17, 18), ("wallet", 1, 0, 16, 17)]


def test_other_batches_are_as_show_has_them_wherever_the_snapshot_lies(run_stages, spark, tmp_path):
    """The audit of a warehouse reads where the snapshot was ingested, `run` where it is given; gone is unreadable."""
    from replica_audit.spark.pipeline import run_audit

    place, other = tmp_path / "first", tmp_path / "second"
    audit(place, {1: Replica(rebatched(0, 30, 5)), 2: Replica(rebatched(0, 30, 10, odd=(13,)))}, configs=DELETE)
    audited = run_stages(place)
    assert_as_shown(audited, "orders-0")
    assert _findings(audited.results, "DIV-CONTENT") == [("orders", 0, 2, 13, 14)]
    shutil.move(place, other)
    moved = run_audit(spark, audited.snapshot_id, audited.settings, Progress(), str(other))
    assert_as_shown(replace(audited, path=other, results=moved), "orders-0")
    gone = run_audit(spark, audited.snapshot_id, audited.settings, Progress())
    assert _findings(gone, "CAP-UNREADABLE") == [("orders", 0, 1, 0, 30), ("orders", 0, 2, 0, 30)]
    assert _findings(gone, "DIV-CONTENT") == [("orders", 0, 2, 0, 30)], "the headers' word stands"
    assert str(tmp_path) not in str(tables_of(gone))
