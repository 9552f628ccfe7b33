"""Consumer groups in the main job: `run` tells what `show` tells."""

from __future__ import annotations

import json
import struct
from dataclasses import replace

from tests.auditing.test_group_positions import with_groups
from tests.spark.conftest import SILENT
from tests.support.encoder import Record, encode_batch
from tests.support.fixtures import FIXTURES

from replica_audit.runner.in_process import audit_all


def test_offsets_that_cannot_be_decoded_leave_the_row_of_quarantine_that_show_leaves(run_stages, tmp_path):
    snapshot = with_groups("diverged-unclean", tmp_path / "s", ("audit", "ledger", 0, 70, 0, 3_600_000_000_000))
    key = struct.pack(">hh1sh6si", 1, 1, b"g", 6, b"ledger", 0)
    for log in snapshot.glob(f"broker-*/__consumer_offsets-0/{0:020}.log"):
        log.write_bytes(log.read_bytes() + encode_batch(1, (Record(key, struct.pack(">hq", 99, 1)),), 9))
    audited = run_stages(snapshot)
    shown = audit_all(str(snapshot), audited.settings)
    unread = [row for row in audited.results.rows("quarantine") if "consumer groups committed" in row["reason"]]
    assert [row["path"].split("/")[0] for row in unread] == ["broker-1", "broker-2"]
    assert all("expected a committed offset of version 0 to 4, found 99" in row["reason"] for row in unread)
    for table in ("quarantine", "findings", "group_offsets"):
        assert json.loads(json.dumps(audited.results.rows(table))) == json.loads(json.dumps(shown.tables[table])), table


def test_lost_producers_have_their_transactional_ids_where_tasks_write_the_tables(spark, run_stages):
    from replica_audit.spark.pipeline import load_results, run_audit

    audited = run_stages(FIXTURES / "txn-failover-1-unclean")
    settings = replace(audited.settings, driver_rows=1)
    again = run_audit(spark, audited.snapshot_id, settings, SILENT)
    rows = audited.results.rows("lost_producers")
    assert {row["transactional_id"] for row in rows} > {None}
    for results in (again, load_results(spark, again.audit["audit_id"], settings)):
        assert results.rows("lost_producers") == rows


def test_run_tells_of_groups_what_show_tells(run_stages, tmp_path):
    later = 3_600_000_000_000
    groups = [
        ("audit", "ledger", 0, 70, 0, later),
        ("billing", "ledger", 0, 45, 0, later),
        ("sound", "ledger", 1, 5, 0, later),
    ]
    snapshot = with_groups("diverged-unclean", tmp_path / "s", *groups)
    audited = run_stages(snapshot)
    shown = audit_all(str(snapshot), audited.settings)
    for table in ("group_offsets", "lost_producers", "findings"):
        assert json.loads(json.dumps(audited.results.rows(table))) == json.loads(json.dumps(shown.tables[table])), table
    assert audited.results.rows("lost_producers")
    assert [row["effect"] for row in audited.results.rows("group_offsets")] == [
        "past_end",
        "epoch_differs",
        "unaffected",
    ]
