"""An audit from Python: in the caller's session, its tables as DataFrames, its answers those of the command."""

from __future__ import annotations

import json

import pytest
from tests.support.samples import SAMPLES

import replica_audit
from replica_audit.errors import UsageError

SAMPLE = str(SAMPLES / "last-replica-standing")


def test_quality_needs_a_place_for_its_pages_and_a_warehouse_lies_outside_the_snapshot(tmp_path):
    with pytest.raises(UsageError, match="quality needs report"):
        replica_audit.audit(None, SAMPLE, quality=True)
    with pytest.raises(UsageError, match="lies inside the snapshot"):
        replica_audit.audit(None, SAMPLE, warehouse=f"{SAMPLE}/warehouse")


def test_an_audit_gives_dataframes_of_its_own_rows_and_leaves_the_session_alone(spark, tmp_path):
    place = {"warehouse": str(tmp_path / "warehouse")}
    first = replica_audit.audit(spark, SAMPLE, **place)
    second = replica_audit.audit(spark, SAMPLE, report=str(tmp_path / "report"), fail_on="never", **place)
    assert first.audit_id != second.audit_id and first.verdict == second.verdict
    told = json.loads((tmp_path / "report" / "audit.json").read_text())
    for table in ("partitions", "findings", "replicas", "divergences", "truncations", "high_watermarks", "quarantine"):
        frame = getattr(second, table)
        names = [name for name in told[table][0]] if told[table] else []
        found = [row.asDict(True) for row in frame.select(*names).collect()] if names else []
        assert frame.count() == len(told[table]), table
        if names and "finding_id" in names:
            assert {row["finding_id"] for row in found} == {row["finding_id"] for row in told[table]}
        if table != "quarantine":
            assert {row["audit_id"] for row in frame.select("audit_id").collect()} <= {second.audit_id}
    segments = second.table("segments").agg({"batch_count": "sum"}).first()[0]
    assert second.batches.count() == segments > 0
    assert second.exit_status == 0 and first.exit_status == 1
    assert spark.range(3).count() == 3
    with pytest.raises(KeyError):
        second.table("no_such_table")
