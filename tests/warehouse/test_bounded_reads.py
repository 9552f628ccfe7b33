"""Reads of a driver from earlier audits and damaged files: only the rows that it needs, however many there are."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from pyarrow import fs
from tests.support.long_logs import write_long_logs
from tests.support.spread import Pickling

from replica_audit import arrow_rows
from replica_audit.config import Settings
from replica_audit.progress import Progress
from replica_audit.runner.in_process import audit_all
from replica_audit.runner.ingest import ingest
from replica_audit.runner.ingested_source import audit
from replica_audit.schema import REPORT_TABLES, QuarantineRow
from replica_audit.warehouse import delta_tables, table_reads
from replica_audit.warehouse.attempts import latest_attempt, own_rows
from replica_audit.warehouse.delta_tables import Warehouse
from replica_audit.warehouse.ingested_rows import EvidenceRows, unplaced_rows
from replica_audit.warehouse.table_layout import open_directory, schema_of


class OnDriver(Pickling):
    """Knows whether a task runs."""

    is_task = False

    def map(self, tasks, work, ended=None):
        self.is_task = True
        try:
            return super().map(tasks, work, ended)
        finally:
            self.is_task = False


def _since(directory: Path, partitions: int, monkeypatch: pytest.MonkeyPatch) -> tuple[Counter[str], Counter[str]]:
    """Rows of each class that became objects on the driver, and in tasks, in an audit above an earlier one; its answers are checked."""
    path, executor = str(write_long_logs(directory / "snapshot", 1, partitions)), OnDriver()
    warehouse, settings = Warehouse(str(directory / "warehouse")), replace(Settings(), driver_rows=1)
    snapshot_id = ingest(executor, warehouse, path, settings, Progress())
    first = audit(executor, warehouse, snapshot_id, settings, Progress())
    counts: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    real = arrow_rows.arrow_to_rows

    def counting(table, kind):
        for row in real(table, kind):
            counts[executor.is_task][kind.__name__] += 1
            yield row

    with monkeypatch.context() as patched:
        for module in ("past_audits", "ingested_rows", "delta_tables", "table_reads"):
            patched.setattr(f"replica_audit.warehouse.{module}.arrow_to_rows", counting)
        later = audit(executor, warehouse, snapshot_id, replace(settings, since=first.audit["audit_id"]), Progress())
    told = audit_all(path, settings)
    assert [later.rows(table) for table in REPORT_TABLES] == [told.rows(table) for table in REPORT_TABLES]
    return counts


def test_what_an_earlier_audit_verified_is_read_by_tasks(tmp_path, monkeypatch):
    """No row more comes to the driver for a further partition, and each task reads those of its own partitions once."""
    (few, by_few), (many, by_many) = (_since(tmp_path / str(count), count, monkeypatch) for count in (4, 12))
    assert many == few
    assert by_few["_Compared"] == 2 * 4 and by_many["_Compared"] == 2 * 12, "each replica once"
    assert by_many["PlacedSegment"] == 3 * by_few["PlacedSegment"] > 0


def test_of_what_could_not_be_read_only_what_belongs_to_no_partition_comes_to_the_driver(tmp_path, monkeypatch):
    snapshot = write_long_logs(tmp_path / "snapshot", 1, 8)
    for log in snapshot.glob("broker-1/*-*/*150.log"):
        log.write_bytes(log.read_bytes()[:-7])
    (snapshot / "broker-1" / "recovery-point-offset-checkpoint").write_text("of another kind")
    executor, warehouse = OnDriver(), Warehouse(str(tmp_path / "warehouse"))
    ingest(executor, warehouse, str(snapshot), Settings(), Progress())
    ingested = latest_attempt(warehouse, "ingest")
    rows = warehouse.read("quarantine", QuarantineRow, **own_rows(ingested))
    made = []
    monkeypatch.setattr(
        "replica_audit.warehouse.ingested_rows.arrow_to_rows",
        lambda table, kind: made.extend(found := list(arrow_rows.arrow_to_rows(table, kind))) or found,
    )
    assert unplaced_rows(warehouse, own_rows(ingested)) == made == [row for row in rows if row.topic is None]
    assert 0 < len(made) < len(rows)


def test_of_partitions_in_the_same_files_their_names_are_held_once_and_sent_once(tmp_path):
    sent = []
    for partitions in (4, 24):
        executor, warehouse = OnDriver(), Warehouse(str(tmp_path / str(partitions)))
        snapshot = write_long_logs(tmp_path / f"snapshot-{partitions}", 1, partitions)
        ingest(executor, warehouse, str(snapshot), Settings(), Progress())
        indexed = EvidenceRows.of(warehouse, own_rows(latest_attempt(warehouse, "ingest"))).index().partitions
        assert len(indexed) == partitions
        assert len({id(one.segment_files) for one in indexed}) == len({one.segment_files for one in indexed})
        assert len({id(one.place[0]) for one in indexed}) == 1
        executor.jobs.clear()
        executor.cut = lambda items, cost, least: [list(items)]
        audit(executor, warehouse, None, Settings(), Progress())
        (job,) = executor.jobs
        sent.append(job.sent)
    assert sent[1] - sent[0] < 20 * 60, "bytes of a further partition"


def test_a_file_is_read_some_rows_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also across row groups; rows keep their numbers, and of a partition each file is named once."""
    snapshot = write_long_logs(tmp_path / "snapshot", 1, 30)
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    ingest(OnDriver(), warehouse, str(snapshot), Settings(), Progress())
    evidence = EvidenceRows.of(warehouse, own_rows(latest_attempt(warehouse, "ingest")))
    places = [one.place for one in evidence.index().partitions]

    def read() -> tuple[list[int], object, object]:
        sizes = [rows.num_rows for _, rows in evidence.files["segments"].read(schema_of("segments", ["path"]))]
        index = evidence.index()
        return sizes, index, evidence.read(places, {file for one in index.partitions for file in one.segment_files})

    whole, *expected = read()
    monkeypatch.setattr(table_reads, "ROWS_AT_ONCE", 7)
    parts, *found = read()
    assert found == expected and sum(parts) == sum(whole) and max(parts) == 7 < max(whole), (parts, whole)
    assert len({one.summary_row for rows in expected[1].values() for one in rows.segments}) > 7


def test_footers_of_files_in_a_store_are_read_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes two requests, of tens of milliseconds; on a disk no thread is needed."""
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    for number in range(3):
        row = QuarantineRow(1, "orders", number, f"broker-1/orders-{number}/x.log", 0, 1, "CAP-UNREADABLE", "")
        warehouse.append("quarantine", [row], {"cluster_id": "c", "snapshot_id": "s", "ingest_id": "i"})
    on_disk = warehouse.placed_files("quarantine", "s")
    together, threads = threading.Barrier(3), set()
    real = delta_tables.file_bounds

    def read(filesystem, path):
        threads.add(threading.get_ident())
        if not isinstance(filesystem, fs.LocalFileSystem):
            together.wait(10)
        return real(filesystem, path)

    monkeypatch.setattr(delta_tables, "file_bounds", read)
    assert warehouse.placed_files("quarantine", "s") == on_disk and threads == {threading.get_ident()}
    below = fs.SubTreeFileSystem("/", fs.LocalFileSystem())
    monkeypatch.setattr(delta_tables, "open_directory", lambda uri: (below, open_directory(uri)[1].lstrip("/")))
    assert warehouse.placed_files("quarantine", "s") == on_disk and len(on_disk.bounds) == 3
    assert len(threads) >= 3
