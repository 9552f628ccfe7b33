"""The stages as transactions: what is there is recognised, what failed is replaced, what finished is left alone."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.audit_json_text import audit_json_text
from tests.support.in_process import Ran, run_stages, without_run
from tests.support.planted import write_small
from tests.support.stored_rows import stored

from replica_audit.config import Settings
from replica_audit.errors import UsageError
from replica_audit.progress import Progress
from replica_audit.results import Results
from replica_audit.runner import ingest as ingesting
from replica_audit.runner.executor import InProcess
from replica_audit.runner.ingest import ingest
from replica_audit.runner.ingested_source import audit
from replica_audit.text import now
from replica_audit.warehouse.answer_tables import load_results
from replica_audit.warehouse.attempts import attempts, finished_attempts, latest_attempt, own_rows, record_attempt
from replica_audit.warehouse.delta_tables import StoredTables, Warehouse

SAMPLE = Path(__file__).parents[2] / "data" / "samples" / "last-replica-standing"
#: Bronze tables with rows of a small snapshot.
FILLED = ("snapshots", "replica_dirs", "segments", "batches", "leader_epochs", "offset_checkpoints")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The warehouse that these tests share, as audits do."""
    return tmp_path_factory.mktemp("shared") / "warehouse"


@pytest.fixture(scope="module")
def warehouse(place: Path) -> Warehouse:
    return Warehouse(str(place))


@pytest.fixture(scope="module")
def sample(place: Path) -> Ran:
    """A small sample with findings, audited."""
    return run_stages(SAMPLE, place)


def ingest_again(warehouse: Warehouse, snapshot: Path, **settings: object) -> str:
    """Ingest a snapshot, and no more."""
    chosen = Settings(warehouse=warehouse.name, quiet=True, **settings)
    return ingest(InProcess(), warehouse, str(snapshot), chosen, Progress())


def audit_again(warehouse: Warehouse, snapshot_id: str) -> Results:
    """Audit an ingested snapshot."""
    return audit(InProcess(), warehouse, snapshot_id, Settings(warehouse=warehouse.name, quiet=True), Progress())


def counts(warehouse: Warehouse, **equals: str | None) -> dict[str, int]:
    return {table: len(stored(warehouse, table, **equals)) for table in FILLED}


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Lets the commit of one table fail."""

    def fill(of_table):
        real = Warehouse.append

        def append(self, table, *rest):
            if table == of_table:
                raise OSError("no space left on device")
            real(self, table, *rest)

        monkeypatch.setattr(Warehouse, "append", append)

    return fill


def test_what_a_failed_ingest_left_counts_for_nobody(
    warehouse: Warehouse, sample: Ran, full_disk: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = write_small(tmp_path / "snapshot")
    before = counts(warehouse, snapshot_id=sample.snapshot_id)
    full_disk("snapshots")
    with pytest.raises(OSError, match="no space left"):
        ingest_again(warehouse, path)
    monkeypatch.undo()
    assert [run.state for run in attempts(warehouse, "ingest")][-1] == "failed"
    left = {row["snapshot_id"] for row in stored(warehouse, "batches", ("snapshot_id",))}
    known = {run.snapshot_id for run in finished_attempts(warehouse, "ingest")}
    (orphan,) = left - known
    with pytest.raises(UsageError, match="no finished ingest"):
        audit_again(warehouse, orphan)

    assert ingest_again(warehouse, path) == orphan
    (attempt,) = finished_attempts(warehouse, "ingest", snapshot_id=orphan)
    own = counts(warehouse, **own_rows(attempt))
    assert own["batches"] == 1 and own["snapshots"] == 1
    assert len(stored(warehouse, "batches", snapshot_id=orphan)) == 2, "of both attempts"
    assert audit_again(warehouse, orphan).rows("partitions")
    assert counts(warehouse, snapshot_id=sample.snapshot_id) == before


def test_of_two_ingests_of_one_snapshot_the_first_that_finished_is_used(
    place: Path, warehouse: Warehouse, tmp_path: Path
) -> None:
    path = write_small(tmp_path / "snapshot", ("raced",), batches=3)
    first = run_stages(path, place)
    with pytest.MonkeyPatch.context() as patch:
        # A second run that began before the first had finished sees nothing of it.
        patch.setattr(ingesting, "ingested_before", lambda *_: None)
        patch.setattr(ingesting, "finished_here", lambda *_: [])
        assert ingest_again(warehouse, path) == first.snapshot_id
    assert len(stored(warehouse, "batches", snapshot_id=first.snapshot_id)) == 6
    again = audit_again(warehouse, first.snapshot_id)
    assert without_run(again) == without_run(first.results)


def test_a_snapshot_that_is_there_is_recognised_and_nothing_is_added(sample: Ran, warehouse: Warehouse) -> None:
    before = counts(warehouse)
    assert ingest_again(warehouse, SAMPLE) == sample.snapshot_id
    assert counts(warehouse) == before


def test_what_changed_inside_a_file_is_another_snapshot_whatever_its_time_says(
    place: Path, warehouse: Warehouse, tmp_path: Path
) -> None:
    path = write_small(tmp_path / "snapshot", ("rotten",), batches=3)
    before = run_stages(path, place)
    (segment,) = path.glob("broker-1/rotten-0/*.log")
    content, state = bytearray(segment.read_bytes()), segment.stat()
    content[len(content) // 2] ^= 1
    segment.write_bytes(content)
    os.utime(segment, ns=(state.st_atime_ns, state.st_mtime_ns))
    after = run_stages(path, place)
    assert after.snapshot_id != before.snapshot_id, "size, name and both ends of the file are as they were"
    for one in (before, after):
        assert len(stored(warehouse, "batches", snapshot_id=one.snapshot_id)) == 3
    told = [{row["code"] for row in one.results.rows("findings")} for one in (before, after)]
    assert "LOG-CORRUPT-MID" in told[1] - told[0]


def test_a_copy_elsewhere_is_the_same_snapshot_and_only_its_place_is_noted(
    place: Path, warehouse: Warehouse, tmp_path: Path
) -> None:
    path = write_small(tmp_path / "snapshot", ("moved",))
    before = run_stages(path, place)
    rows, copy = counts(warehouse), tmp_path / "elsewhere"
    path.rename(copy)
    assert ingest_again(warehouse, copy) == before.snapshot_id
    assert counts(warehouse) == rows and len(attempts(warehouse, "ingest", snapshot_id=before.snapshot_id)) == 1
    (row,) = stored(warehouse, "snapshots", snapshot_id=before.snapshot_id)
    assert row["location"] == str(copy)


def test_an_unchanged_snapshot_is_not_scanned_again(
    warehouse: Warehouse, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_small(tmp_path / "snapshot", ("unchanged",))
    before = run_stages(path, place)
    scans = []
    real = ingesting.scan_files
    monkeypatch.setattr(ingesting, "scan_files", lambda *args, **named: scans.append(1) or real(*args, **named))
    assert ingest_again(warehouse, path) == before.snapshot_id and not scans
    (segment,) = path.glob("broker-1/unchanged-0/*.log")
    segment.touch()
    assert ingest_again(warehouse, path) == before.snapshot_id and scans


def test_a_second_audit_has_its_own_id_gives_the_same_answers_and_leaves_the_first_alone(
    warehouse: Warehouse, sample: Ran
) -> None:
    first = sample.results
    second = audit_again(warehouse, sample.snapshot_id)
    assert second.audit["audit_id"] != first.audit["audit_id"]
    assert without_run(second) == without_run(first)
    loaded = load_results(warehouse, first.audit["audit_id"], "high")
    assert audit_json_text(loaded) == audit_json_text(first)


def test_an_audit_is_named_by_the_id_that_history_shows(sample: Ran) -> None:
    loaded = load_results(sample.warehouse, sample.results.audit["audit_id"][:8], "high")
    assert audit_json_text(loaded) == audit_json_text(sample.results)


def test_an_unknown_audit_is_told(sample: Ran) -> None:
    with pytest.raises(
        UsageError,
        match="no finished audit with audit_id none-such in .*: replica-audit history .* --columns audit_id,finished,verdict lists them",
    ):
        load_results(sample.warehouse, "none-such", "high")


def test_a_beginning_that_several_ids_have_is_told(tmp_path: Path) -> None:
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    for audit_id in ("ab1", "ab2"):
        record_attempt(
            warehouse,
            "audit",
            "finished",
            started=now(),
            ingest_id="i",
            snapshot_id="s",
            audit_id=audit_id,
            cluster_id="c",
        )
    with pytest.raises(UsageError, match="2 finished audits have an id that begins with ab: replica-audit history"):
        latest_attempt(warehouse, "audit", audit_id="ab")


def test_attempts_are_read_again_only_where_one_was_added_whoever_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A warehouse has a file for each: a run looks for attempts five times."""
    warehouse, other = (Warehouse(str(tmp_path / "warehouse")) for _ in range(2))
    ids = {"snapshot_id": "s", "audit_id": None, "cluster_id": "c"}
    read: list[str] = []
    real = StoredTables.read

    def noted(self, table, *arguments, **equals):
        read.append(table)
        return real(self, table, *arguments, **equals)

    monkeypatch.setattr(StoredTables, "read", noted)
    for number, writer in enumerate((warehouse, other), 1):
        record_attempt(writer, "ingest", "finished", started=now(), ingest_id=f"{number}", **ids)
        for stage, found in (("ingest", number), ("audit", 0), ("ingest", number)):
            assert len(attempts(warehouse, stage, cluster_id="c")) == found
            assert not attempts(warehouse, stage, cluster_id="another")
        assert read == ["audits"] * number
