"""The next day's snapshot of a cluster in the same warehouse: the answers of a full run, from the bytes that are new."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest
from tests.support.in_process import without_run
from tests.support.planted import marked_batch
from tests.support.samples import SAMPLES
from tests.support.stored_rows import stored

from replica_audit import audit
from replica_audit.cli.progress_lines import ProgressLine
from replica_audit.errors import UsageError
from replica_audit.progress import Progress
from replica_audit.report.show_text import render_summary
from replica_audit.warehouse.attempts import attempts, own_rows
from replica_audit.warehouse.delta_tables import Warehouse
from replica_audit.warehouse.retention import apply_retention


def test_the_next_day_costs_what_is_new_and_outlives_the_first(spark, run_stages, tmp_path):
    from replica_audit.spark.pipeline import run_audit, run_ingest

    warehouse = str(tmp_path / "warehouse")
    first = run_stages(SAMPLES / "isr-minimum", warehouse=warehouse)
    day = tmp_path / "day 2"
    shutil.copytree(SAMPLES / "isr-minimum", day)
    log = sorted(day.glob("broker-1/orders-0/*.log"))[-1]
    new = marked_batch(10_000, 5, 9)
    log.write_bytes(log.read_bytes() + new)

    progress = ProgressLine(quiet=True)
    own = replace(first.settings, time_travel_days=1)
    snapshot_id = run_ingest(spark, str(day), own, progress)
    results = run_audit(spark, snapshot_id, own, Progress())
    segments = results.audit["inputs"]["segments"]
    assert progress.reading.known_segments == segments - 1
    assert progress.reading.read_bytes <= len(new) + 61 * 2 * (segments + 1)
    assert progress.reading.known_bytes == results.audit["inputs"]["size_bytes"] - len(new)

    fully = ProgressLine(quiet=True)
    other = replace(own, warehouse=str(tmp_path / "other"), full=True)
    full = run_audit(spark, run_ingest(spark, str(day), other, fully), other, Progress())
    assert without_run(results) == without_run(full) and fully.reading.known_bytes == 0

    # Above what the first audit verified there is the same to say, and it is said that only this was compared.
    before = first.results.audit["audit_id"]
    since = run_audit(spark, snapshot_id, replace(own, since=before), Progress())
    shown = " ".join(render_summary(since).split())
    assert f"lies above the offsets that audit {before} verified, and what has changed since, was compared." in shown
    assert since.audit["options"].pop("since") == before
    assert without_run(since) == without_run(results)
    with pytest.raises(UsageError, match="no finished audit with audit_id none"):
        run_audit(spark, snapshot_id, replace(own, since="none"), Progress())
    # A run says so before it reads the snapshot.
    begun = len(attempts(Warehouse(warehouse), "ingest"))
    with pytest.raises(
        UsageError, match="no finished audit with audit_id none .* --columns audit_id,finished,verdict lists them"
    ):
        audit(spark, str(SAMPLES / "zombie"), warehouse=warehouse, since="none")
    assert len(attempts(Warehouse(warehouse), "ingest")) == begun

    # In the warehouse that knows it a full scan finds what is there, and adds nothing.
    rows = len(stored(Warehouse(warehouse), "batches", ("topic",)))
    assert run_ingest(spark, str(day), replace(own, full=True), fully) == snapshot_id
    assert fully.reading.known_bytes == 0 and len(stored(Warehouse(warehouse), "batches", ("topic",))) == rows

    removed, snapshots = apply_retention(Warehouse(warehouse, time_travel_days=1), None, 1, vacuum=True)
    assert before in removed and snapshots == [first.snapshot_id]
    (attempt,) = attempts(Warehouse(warehouse), "ingest", snapshot_id=snapshot_id)
    told = {"full": False, "read_bytes": progress.reading.read_bytes, "known_bytes": progress.reading.known_bytes}
    assert json.loads(attempt.options).items() >= told.items()
    batches = stored(Warehouse(warehouse), "batches", **own_rows(attempt))
    assert len(batches) == sum(row["batch_count"] for row in results.rows("replicas"))
    assert without_run(run_audit(spark, snapshot_id, own, Progress())) == without_run(results)
