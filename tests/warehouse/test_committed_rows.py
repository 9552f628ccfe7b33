"""A warehouse whose last commit of a table is gone: Delta reads on, and the stage's counts tell."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.report_rows import attempt
from tests.support.some import some

from replica_audit.bronze_tables import SnapshotRow
from replica_audit.cli.main import main
from replica_audit.errors import EngineError
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.schema import QualityRow, QuarantineRow
from replica_audit.spark import quality_run
from replica_audit.spark.quality_run import keep_quality
from replica_audit.warehouse.answer_tables import REPORTED_TABLES, load_results
from replica_audit.warehouse.attempts import check_large, record_attempt
from replica_audit.warehouse.delta_tables import Warehouse
from replica_audit.warehouse.past_audits import VerifiedRows, load_earlier, load_history, past_losses
from replica_audit.warehouse.retention import unfinished_audits

INGESTED = ("quarantine", "partition_states")
#: No consumer group committed offsets in this capture, and nothing is in remote storage.
WITHOUT_ROWS = ("group_offsets", "remote_segments")
SNAPSHOT = SnapshotRow("s", "/nowhere", None, None, 1, (), 1, 1, 1, {}, (), ())
IGNORED = QuarantineRow(None, None, None, "x", None, None, "INPUT-IGNORED", "no input")


def write(warehouse: Warehouse, results) -> None:
    """Write the rows of an ingest and an audit."""
    of_ingest = {"cluster_id": "c", "snapshot_id": "s", "ingest_id": "i"}
    of_audit = {"cluster_id": "c", "snapshot_id": "s", "audit_id": "a"}
    rows = {table: results.table(table) for table in INGESTED}
    rows["quarantine"] = [QuarantineRow(None, None, None, *row[1:]) for row in rows["quarantine"]] + [IGNORED]
    rows["snapshots"] = [SNAPSHOT]
    for table, of_table in rows.items():
        warehouse.append(table, of_table, of_ingest)
    counts = {table: len(of_table) for table, of_table in rows.items()}
    record_attempt(warehouse, "ingest", "finished", started="2026-01-01", audit_id=None, row_counts=counts, **of_ingest)
    for table in REPORTED_TABLES:
        warehouse.append(table, results.table(table), of_audit)
    counts = {table: len(results.rows(table)) for table in REPORTED_TABLES}
    record_attempt(warehouse, "audit", "finished", started="2026-01-02", ingest_id="i", row_counts=counts, **of_audit)


@pytest.fixture(scope="module")
def written(unclean, tmp_path_factory) -> Path:
    """A warehouse with an audit and its counts, to be copied."""
    place = tmp_path_factory.mktemp("written") / "warehouse"
    write(Warehouse(str(place)), unclean)
    return place


@pytest.fixture(scope="module")
def whole(written):
    """The answers before anything is lost."""
    return load_results(Warehouse(str(written)), None, "high")


def lose_last_commit(place: Path, table: str) -> int:
    """Take away the newest commit of a table; how many it has left."""
    commits = sorted((place / table / "_delta_log").glob("*.json"))
    commits.pop().unlink()
    return len(commits)


@pytest.mark.parametrize(
    "table", [*INGESTED, "snapshots", *(table for table in REPORTED_TABLES if table not in WITHOUT_ROWS)]
)
def test_a_lost_commit_ends_with_4_and_never_ok(tmp_path, capsys, written, whole, table):
    place = shutil.copytree(written, tmp_path / "warehouse")
    assert table == "snapshots" or whole.rows(table)
    assert build_verdict(whole, "high")["exit_status"] == 1
    lose_last_commit(place, table)
    with pytest.raises(EngineError, match=f"{table} has 0 rows of this .*, expected"):
        load_results(Warehouse(str(place)), None, "high")
    assert main(["report", "--warehouse", str(place), "--report", str(tmp_path / "r")]) == 4
    assert "is damaged" in capsys.readouterr().err


QUALITY = [
    QualityRow(
        **{
            **dict.fromkeys(QualityRow._fields),
            "suite": "mine",
            "expectation": name,
            "severity": "high",
            "success": met,
        }
    )
    for name, met in (("x", True), ("y", False))
]


@pytest.fixture
def checked(tmp_path, written, unclean):
    """A warehouse with an audit, and how its quality is written."""
    shutil.copytree(written, tmp_path, dirs_exist_ok=True)
    audit = {**unclean.audit, "cluster_id": "c", "snapshot_id": "s", "audit_id": "a"}

    def keep(rows, *, again):
        keep_quality(Warehouse(str(tmp_path)), replace(unclean, audit=audit), rows, again=again)

    return keep


def test_quality_that_is_gone_is_no_quality_that_was_not_checked(tmp_path, checked):
    warehouse = Warehouse(str(tmp_path))
    assert load_results(warehouse, None, "high").rows("quality") == []
    checked(QUALITY, again=False)
    assert len(load_results(warehouse, None, "high").rows("quality")) == 2
    lose_last_commit(tmp_path, "quality")
    with pytest.raises(EngineError, match="quality has 0 rows of this quality .*, expected 2"):
        load_results(warehouse, None, "high")


def test_quality_that_is_checked_again_may_have_other_rows(tmp_path, checked, monkeypatch):
    warehouse = Warehouse(str(tmp_path))
    checked(QUALITY, again=False)
    checked(QUALITY[:1], again=True)
    assert len(load_results(warehouse, None, "high").rows("quality")) == 1
    # A run that is killed between its rows and its count leaves no damage.
    monkeypatch.setattr(quality_run, "record_attempt", only_running)
    checked(QUALITY, again=True)
    assert len(load_results(warehouse, None, "high").rows("quality")) == 2


def only_running(warehouse, stage, state, **more):
    if state == "running":
        record_attempt(warehouse, stage, state, **more)


def test_an_audit_whose_end_is_lost_is_named_before_the_one_before_it(tmp_path, unclean, capsys, monkeypatch):
    """Delta reads on without the last commit of `audits`, and the audit before it looks like the latest."""
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "warehouse"
    warehouse = Warehouse(str(place))
    write(warehouse, unclean)
    asked = ["--warehouse", str(place), "--report", str(tmp_path / "report")]
    assert main(["report", *asked]) == 1
    assert capsys.readouterr().err == f"report: {tmp_path}/report\n"
    of_audit = {"cluster_id": "c", "snapshot_id": "s", "audit_id": "later"}
    for table in REPORTED_TABLES:
        warehouse.append(table, unclean.table(table), of_audit)
    counts = {table: len(unclean.rows(table)) for table in REPORTED_TABLES}
    record_attempt(warehouse, "audit", "finished", started="2026-01-03", ingest_id="i", row_counts=counts, **of_audit)
    assert unfinished_audits(Warehouse(str(place))) == []
    lose_last_commit(place, "audits")
    for command in ("report", "history"):
        assert main([command, *asked[: 4 if command == "report" else 2]]) == (1 if command == "report" else 0)
        assert "audit later in" in capsys.readouterr().err, command
    assert main(["report", *asked, "--audit-id", "a"]) == 1
    assert "later" not in capsys.readouterr().err


def test_past_audits_are_checked_too(tmp_path, unclean):
    write(Warehouse(str(tmp_path / "whole")), unclean)
    later = {"cluster_id": "c", "finished": "9999"}
    readers = {
        "findings": [
            load_history,
            lambda one: load_earlier(one, later),
            lambda one: past_losses(one, "c", {("ledger", 0)}),
        ],
        "partitions": [
            load_history,
            lambda one: load_earlier(one, later),
            lambda one: VerifiedRows.of(one, "a", "c"),
        ],
        "divergences": [lambda one: past_losses(one, "c", {("ledger", 0)})],
        "replicas": [lambda one: VerifiedRows.of(one, "a", "c")],
    }
    for table, of_table in readers.items():
        place = tmp_path / table
        shutil.copytree(tmp_path / "whole", place)
        for read in of_table:
            if table != "replicas":
                read(Warehouse(str(tmp_path / "whole")))
        lose_last_commit(place, table)
        for read in some(of_table):
            with pytest.raises(EngineError, match="is damaged"):
                read(Warehouse(str(place)))


def test_large_tables_are_counted_by_their_commits(tmp_path, unclean):
    warehouse = Warehouse(str(tmp_path))
    write(warehouse, unclean)
    number = len(unclean.rows("findings"))
    assert warehouse.count_rows("findings", "a") == number > 0 == warehouse.count_rows("findings", "b")
    run = attempt(audit_id="a", ingest_id="i", row_counts={"findings": number + 1})
    with pytest.raises(EngineError, match="is damaged"):
        check_large(warehouse, run, ["findings"], "a")
    check_large(warehouse, run._replace(row_counts={"findings": number}), ["findings"], "a")


def test_committed_loss_without_a_finding_is_a_fault_of_the_program(tmp_path, unclean):
    warehouse = Warehouse(str(tmp_path))
    write(warehouse, replace(unclean, findings=[]))
    with pytest.raises(EngineError, match="internal error: ledger-0 is COMMITTED_LOSS"):
        load_results(warehouse, None, "high")
