"""An ingest whose driver has no object for each replica: the tables, the id and the answers of one whose driver reads all."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.support.encoder import encode_batch
from tests.support.fixtures import FIXTURES
from tests.support.held_objects import count_held, only_new_objects
from tests.support.long_logs import write_long_logs
from tests.support.spread import Pickling, spread_everything
from tests.support.stored_rows import stored

from replica_audit.bronze_tables import BRONZE_TABLES
from replica_audit.config import Settings
from replica_audit.model import ReplicaDir, SegmentFile
from replica_audit.progress import Progress
from replica_audit.runner.executor import InProcess
from replica_audit.runner.ingest import ingest
from replica_audit.runner.ingested_source import audit
from replica_audit.schema import REPORT_TABLES
from replica_audit.snapshot.file_tree import TreeEntry
from replica_audit.snapshot.log_dirs import Folder
from replica_audit.warehouse.attempts import latest_attempt
from replica_audit.warehouse.delta_tables import Warehouse

#: Columns that name the run, and files of it.
_OF_THE_RUN = {"ingest_id", "batch_file", "batch_row", "last_changes"}

CAPTURES = ["retention-skewed", "txn-failover-1-unclean", "last-replica-elr-2-cut", "corrupted-middle-zeros"]


class Told(Progress):
    """Report of an ingest on its reading."""

    def tell_reading(self, reading):
        self.reading = reading


def copied(name: str, directory: Path) -> Path:
    return shutil.copytree(FIXTURES / name, directory / name, ignore=lambda _, names: {"dump"} & {*names})


def tables(warehouse: Warehouse) -> dict[str, list[str]]:
    """The rows of the latest ingest."""
    ingest_id = latest_attempt(warehouse, "ingest").ingest_id
    found = {}
    for table in BRONZE_TABLES:
        rows = stored(warehouse, table, ingest_id=ingest_id) if warehouse.exists(table) else []
        kept = ({name: row[name] for name in row if name not in _OF_THE_RUN} for row in rows)
        found[table] = sorted(json.dumps(row, sort_keys=True) for row in kept)
    return found


def answers(warehouse: Warehouse, snapshot_id: str) -> dict[str, str]:
    results = audit(InProcess(), warehouse, snapshot_id, Settings(), Progress())
    return {table: json.dumps(results.rows(table)) for table in REPORT_TABLES}


class Ingested(NamedTuple):
    """A snapshot, its id, and what an ingest of it left."""

    path: Path
    snapshot_id: str
    tables: dict[str, list[str]]
    row_counts: dict[str, int]
    answers: dict[str, str]


@pytest.fixture(scope="module")
def in_one_pass(tmp_path_factory):
    """Rows of a capture, by its name, from a driver that reads everything."""

    @cache
    def ingested(name: str) -> Ingested:
        place = tmp_path_factory.mktemp("one")
        path, warehouse = copied(name, place), Warehouse(str(place / "warehouse"))
        whole = ingest(InProcess(), warehouse, str(path), Settings(), Progress())
        counts = latest_attempt(warehouse, "ingest").row_counts
        return Ingested(path, whole, tables(warehouse), counts, answers(warehouse, whole))

    return ingested


@pytest.mark.parametrize(("name", "attempts"), [(CAPTURES[0], 1), *((name, 2) for name in CAPTURES)])
def test_tables_id_and_answers(name, attempts, in_one_pass, tmp_path, monkeypatch):
    """Also where each task is attempted twice: what the first attempt wrote nobody names."""
    one, other = in_one_pass(name), Warehouse(str(tmp_path / "other"))
    spread_everything(monkeypatch, large=300)
    executor = Pickling(attempts)
    assert ingest(executor, other, str(one.path), Settings(), Progress()) == one.snapshot_id
    assert len(executor.jobs) >= 2, "one that discovers, one that scans"
    assert tables(other) == one.tables
    counts = latest_attempt(other, "ingest").row_counts
    assert {**counts, **one.row_counts} == counts
    assert answers(other, one.snapshot_id) == one.answers


def test_the_next_day(tmp_path, monkeypatch):
    """Nothing is scanned where nothing changed, and where a log has grown only what is new."""
    path, warehouse = copied(CAPTURES[0], tmp_path), Warehouse(str(tmp_path / "warehouse"))
    spread_everything(monkeypatch)
    first = ingest(Pickling(), warehouse, str(path), Settings(), Progress())
    executor, told = Pickling(), Told()
    assert ingest(executor, warehouse, str(path), Settings(), told) == first
    assert len(executor.jobs) == 1 and not told.reading.read_bytes
    log = max(path.glob("broker-*/[!_]*-*/*.log"), key=lambda one: (one.stat().st_size, one))
    log.write_bytes(log.read_bytes() + encode_batch(1 << 20, 1, 1 << 10, mark="n"))
    second = ingest(Pickling(), warehouse, str(path), Settings(), told)
    assert second != first
    assert told.reading.known_segments == len(tables(warehouse)["segments"]) - 1
    whole, other = replace(Settings(), full=True), Warehouse(str(tmp_path / "other"))
    assert ingest(Pickling(), other, str(path), whole, told) == second and not told.reading.known_segments
    assert tables(warehouse)["segments"] == tables(other)["segments"]


def test_a_checkpoint_that_changed_is_another_snapshot(tmp_path, monkeypatch):
    path, warehouse = copied(CAPTURES[0], tmp_path), Warehouse(str(tmp_path / "warehouse"))
    spread_everything(monkeypatch)
    first = ingest(Pickling(), warehouse, str(path), Settings(), Progress())
    next(path.glob("broker-*/[!_]*-*/leader-epoch-checkpoint")).write_text("0\n1\n7 0\n")
    assert ingest(Pickling(), warehouse, str(path), Settings(), Progress()) != first


class Counted(Progress):
    """How many objects of files and replicas the driver holds when the scan begins, and when it has ended."""

    def __init__(self):
        self.counts = []

    def begin(self, stage, files=0, size_bytes=0):
        self._count()

    def end(self):
        self._count()

    def _count(self):
        self.counts.append(count_held(ReplicaDir, SegmentFile, TreeEntry, Folder))


@pytest.mark.parametrize("is_led", [False, True])
def test_the_driver_holds_bytes_and_no_objects_for_each_replica(is_led, tmp_path, monkeypatch):
    spread_everything(monkeypatch, stretch=64, pack=256)
    seen = []
    for partitions in (50, 100):
        path, executor, progress = tmp_path / str(partitions), Pickling(), Counted()
        write_long_logs(path / "snapshot", 1, partitions)
        led = [{"topic": "orders", "partition": number, "leader": 1, "isr": [1, 2]} for number in range(partitions)]
        if is_led:
            (path / "snapshot" / "leadership.json").write_text(json.dumps(led))
        with only_new_objects():
            ingest(executor, Warehouse(str(path / "warehouse")), str(path / "snapshot"), Settings(), progress)
        replicas = len(list(path.glob("snapshot/broker-*/*-*/")))
        assert len(executor.jobs) == 2, "one that discovers, one that scans"
        assert max(progress.counts) < 100
        seen.append((replicas, executor.jobs))
        shutil.rmtree(path)
    (few, low), (many, high) = seen
    for less, more in zip(low, high):
        assert more.sent - less.sent < 150 * (many - few), "bytes to tasks"
        assert more.got - less.got < 150 * (many - few), "bytes back"
