"""`run` answers through its tables as `show` answers from the files: a snapshot for each kind of input.

That tasks on executors answer as this process does, for every capture, is in tests/spark/test_as_shown.py.
"""

from __future__ import annotations

import json
import shutil
import struct
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake
from tests.support.answering_brokers import write_observed
from tests.support.captures_with_more import with_groups, with_logs, with_share_groups
from tests.support.encoder import Record, encode_batch
from tests.support.fixtures import ATTACKS, FIXTURES
from tests.support.identity import identify
from tests.support.in_process import Ran, run_stages
from tests.support.less import without
from tests.support.new_disks import write_left_disk, write_new_disks
from tests.support.remote_log import LEADS, copied, with_remote
from tests.support.remote_stores import plain_path, put, segment_id, write_listing
from tests.support.samples import SAMPLES, TEXTBOOK, write_cluster
from tests.support.scenario import written
from tests.support.second_hand import batch_rows, copy_files, copy_text, write_table
from tests.support.snapshots import TOPIC_ID, make_uuid
from tests.support.stored_rows import stored

from replica_audit.auditing import remote_reading
from replica_audit.config import Settings
from replica_audit.elect.election_plan import advise
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.results import Results
from replica_audit.runner.in_process import audit_all
from replica_audit.schema import REPORT_TABLES
from replica_audit.snapshot.storage import Snapshot
from replica_audit.warehouse.answer_tables import load_results
from replica_audit.warehouse.delta_tables import Warehouse
from replica_audit.warehouse.table_layout import key_of

_LATER = 3_600_000_000_000
#: The suites' checks run over the tables, and show has none.
_TABLES = tuple(table for table in REPORT_TABLES if table != "quality")


def as_json(rows: Any) -> Any:
    return json.loads(json.dumps(rows))


def _alike(snapshot: Path, place: Path, **settings: Any) -> Ran:
    """`run` of a snapshot; its tables and what it says of its inputs are those of `show`."""
    ran = run_stages(snapshot, place, **settings)
    _check(ran, audit_all(str(snapshot), Settings(**settings)))
    return ran


def _check(ran: Ran, shown: Results) -> None:
    for table in _TABLES:
        assert as_json(ran.results.rows(table)) == as_json(shown.rows(table)), table
    for name in ("cluster_id", "verdict", "options"):
        assert ran.results.audit[name] == shown.audit[name]
    # show counts copies put aside too.
    assert {**ran.results.audit["inputs"], "replicas": 0} == {**shown.audit["inputs"], "replicas": 0}


def of_topic(results: Results, table: str, topic: str) -> list[Any]:
    return [row for row in results.rows(table) if row["topic"] == topic]


#: By what is in them besides replicas that were captured whole.
SNAPSHOTS: dict[str, Callable[[Path], Path]] = {
    "a history of leaders": lambda path: FIXTURES / "diverged-unclean",
    "eligible leader replicas": lambda path: FIXTURES / "last-replica-elr-2-cut",
    "copies put aside": lambda path: FIXTURES / "corrupted-odd-dirs",
    "a copy on its way to another disk": lambda path: FIXTURES / "jbod-moving",
    "files that are about to be deleted": lambda path: FIXTURES / "kafka-3.9-diverged-healed",
    "remote storage": lambda path: FIXTURES / "tiered-2-follower",
    "transactions": lambda path: FIXTURES / "txn-failover-1-unclean",
    "compacted logs": lambda path: FIXTURES / "compacted-skewed-1",
    "an uncommitted end of the metadata log": lambda path: FIXTURES / "quorum3-3-uncommitted",
    "a broker that is not captured": lambda path: without(FIXTURES / "diverged-unclean", path / "part", brokers=[0]),
    "what brokers answered": lambda path: write_observed(path / "observed"),
    "a new, empty disk": lambda path: write_new_disks(path / "disks"),
    "a disk that its broker left": lambda path: write_left_disk(path / "disks"),
    "observations": lambda path: ATTACKS / "07-timeline" / "first-hw-unknown",
}


@pytest.mark.parametrize("what", SNAPSHOTS)
def test_run_tells_what_show_tells(tmp_path: Path, run_of: Callable[[Path], Ran], what: str) -> None:
    snapshot = SNAPSHOTS[what](tmp_path)
    ran = run_of(snapshot)
    _check(ran, audit_all(str(snapshot), Settings()))
    assert ran.results.rows("captures")


def test_an_ingest_of_before_a_column_answers_without_it(tmp_path: Path) -> None:
    ran = run_stages(write_new_disks(tmp_path / "disks"), tmp_path / "warehouse")
    place = str(tmp_path / "warehouse" / "snapshots")
    rows = DeltaTable(place).to_pyarrow_table().drop_columns(["blank"])
    write_deltalake(place, rows, mode="overwrite", schema_mode="overwrite", partition_by=[key_of("snapshots")])
    found = load_results(Warehouse(str(tmp_path / "warehouse")), None, "high")
    inputs = dict(ran.results.inputs)
    assert inputs.pop("blank") and found.inputs == inputs
    assert [one.procedure for one in advise(found).decisions] == [
        one.procedure for one in advise(ran.results).decisions
    ]


def test_of_consumer_groups(tmp_path: Path) -> None:
    groups = [
        ("audit", "ledger", 0, 70, 0, _LATER),
        ("billing", "ledger", 0, 45, 0, _LATER),
        ("sound", "ledger", 1, 5, 0, _LATER),
    ]
    ran = _alike(with_groups("diverged-unclean", tmp_path / "s", *groups), tmp_path / "warehouse")
    assert ran.results.rows("lost_producers")
    effects = [row["effect"] for row in ran.results.rows("group_offsets")]
    assert effects == ["past_end", "epoch_differs", "unaffected"]


def test_of_share_groups(tmp_path: Path) -> None:
    groups = [("tasks", "ledger", 0, 70, 0), ("sound", "ledger", 1, 5, 0)]
    ran = _alike(with_share_groups("diverged-unclean", tmp_path / "s", *groups), tmp_path / "warehouse")
    said = [(row["group"], row["partition"], row["kind"], row["effect"]) for row in ran.results.rows("group_offsets")]
    assert said == [("tasks", 0, "share", "past_end"), ("sound", 1, "share", "unaffected")]


def test_of_offsets_that_cannot_be_decoded(tmp_path: Path) -> None:
    snapshot = with_groups("diverged-unclean", tmp_path / "s", ("audit", "ledger", 0, 70, 0, _LATER))
    key = struct.pack(">hh1sh6si", 1, 1, b"g", 6, b"ledger", 0)
    for log in snapshot.glob(f"broker-*/__consumer_offsets-0/{0:020}.log"):
        log.write_bytes(log.read_bytes() + encode_batch(1, (Record(key, struct.pack(">hq", 99, 1)),), 9))
    ran = _alike(snapshot, tmp_path / "warehouse")
    unread = [row for row in ran.results.rows("quarantine") if "consumer groups committed" in row["reason"]]
    assert [row["path"].split("/")[0] for row in unread] == ["broker-1", "broker-2"]
    assert all("expected a committed offset of version 0 to 4, found 99" in row["reason"] for row in unread)


def test_of_brokers_own_logs(tmp_path: Path) -> None:
    snapshot = with_logs("kip101-restart-3-lost", tmp_path / "s")
    with (snapshot / "logs" / "broker-1" / "server.log").open("a") as file:
        file.write("[run 3] 09:14:11,000 INFO Truncating log elsewhere-7 to offset 5. (Log)\n")
    ran = _alike(snapshot, tmp_path / "warehouse")
    assert [row["topic"] for row in ran.results.rows("partitions")] == ["kip101r"]
    assert {"TRN-LOGGED", "META-UNCLEAN-ELECTION"} <= {row["code"] for row in ran.results.rows("findings")}
    kinds = Counter(row["kind"] for row in stored(ran.warehouse, "broker_log_events", snapshot_id=ran.snapshot_id))
    assert kinds["cut"] == 5 and kinds["elected"] == 3


def _write_mixed(path: Path) -> Path:
    """Brokers given as segments, as text, and as a table."""
    capture = "diverged-unclean"
    copy_files(capture, path, brokers=(1,))
    copy_text(capture, path, "batches", "records", brokers=(0,))
    rows = [row for number in range(3) for row in batch_rows(capture, f"ledger-{number}") if row["broker_id"] == 2]
    write_table(path / "batches.parquet", rows)
    copy_text("kip279-1-before", path / "other", "records")
    for text in (path / "other/dump").iterdir():
        shutil.move(text, path / "dump" / f"other.{text.name}")
    shutil.rmtree(path / "other")
    return path


def test_of_logs_known_from_text_and_tables(tmp_path: Path) -> None:
    ran = _alike(_write_mixed(tmp_path / "snapshot"), tmp_path / "warehouse")
    names = {(row["topic"], row["partition"]) for row in ran.results.rows("partitions")}
    assert {("ledger", number) for number in range(3)} | {("kip279", 0), ("kip279", 1)} <= names
    verdicts = {f"{row['topic']}-{row['partition']}": row["verdict"] for row in ran.results.rows("partitions")}
    assert verdicts["ledger-0"] == "UNCOMMITTED_DIVERGENCE" and verdicts["kip279-0"] == "INCONCLUSIVE"
    codes = {(row["code"], row["broker_id"]) for row in of_topic(ran.results, "findings", "ledger")}
    assert {("CAP-SECOND-HAND", 0), ("CAP-SECOND-HAND", 2)} <= codes and ("CAP-SECOND-HAND", 1) not in codes
    assert ran.snapshot_id == identify(tmp_path / "snapshot"), "the id of its values"


def test_of_all_textbook_samples_as_topics_of_one_cluster(tmp_path: Path) -> None:
    ran = _alike(write_cluster(tmp_path / "snapshot", 1), tmp_path / "warehouse")
    expected = {
        name: next(iter(json.loads((SAMPLES / name / "expected.json").read_text())["partitions"].values()))
        for name in TEXTBOOK
    }
    assert len(expected) >= 9
    told = {row["topic"]: row["verdict"] for row in ran.results.rows("partitions")}
    assert told == {name: one["verdict"] for name, one in expected.items()}


@pytest.mark.parametrize("name", sorted({path.parent.name for path in SAMPLES.glob("*/expected.json")} - set(TEXTBOOK)))
def test_of_a_captured_sample_with_its_exit_status(tmp_path: Path, name: str) -> None:
    ran = _alike(SAMPLES / name, tmp_path / "warehouse")
    expected = json.loads((SAMPLES / name / "expected.json").read_text())
    assert build_verdict(ran.results, "high")["exit_status"] == expected["exit_status"]


def _with_store(path: Path) -> tuple[Path, Path]:
    """A snapshot and its remote store: one segment is missing, one damaged, one cut and one not known."""
    spans = [(0, 40, (0, 0)), (40, 60, (0, 40)), (60, 80, (1, 60)), (80, 100, (1, 80))]
    store, segments = path / "tier", []
    for start, end, epoch in spans:
        data = b"".join(written(start, end, epoch[0]))
        segments.append(copied(start, end, epoch, at=(1000 * start + 1, 1000 * start + 2), size=len(data)))
        content = {0: data, 60: data[:-1] + b"?", 80: data[:-7]}.get(start)
        if content is not None:
            put(store, plain_path(segment_id(start, end, epoch), start), content)
    put(store, plain_path(make_uuid("nobody's"), 7), modified_ms=1)
    with_remote(path / "snapshot", LEADS, *segments)
    return path / "snapshot", store


def _codes_of_store(results: Results) -> set[str]:
    return {row.code for row in results.findings if row.code.startswith("TIER-OBJECT")}


def test_of_a_remote_store(tmp_path: Path) -> None:
    snapshot, store = _with_store(tmp_path)
    looked = _alike(snapshot, tmp_path / "looked", remote=str(store))
    assert _codes_of_store(looked.results) == {"TIER-OBJECT-MISSING", "TIER-OBJECT-LEAKED"}
    read = _alike(snapshot, tmp_path / "read", remote=str(store), verify_remote=True)
    assert _codes_of_store(read.results) == {
        "TIER-OBJECT-MISSING",
        "TIER-OBJECT-LEAKED",
        "TIER-OBJECT-DAMAGED",
    }


def test_tasks_open_a_store_from_any_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot, _ = _with_store(tmp_path)
    opened: list[str] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(remote_reading, "open_store", lambda place: opened.append(place) or Snapshot.open(place))
    ran = run_stages(snapshot, tmp_path / "warehouse", remote="tier", verify_remote=True)
    assert set(opened) == {str(tmp_path / "tier")}
    assert ran.results.audit["options"]["remote"] == "tier"


@pytest.mark.parametrize("is_readable", [True, False])
def test_of_a_listing_of_a_remote_store(tmp_path: Path, is_readable: bool) -> None:
    snapshot, store = _with_store(tmp_path)
    objects = [(str(path.relative_to(store)), path.stat().st_size) for path in sorted(store.rglob("*.log"))]
    write_listing(snapshot, *objects)
    if not is_readable:
        with (snapshot / "remote_objects.jsonl").open("a") as listing:
            listing.write("no JSON\n")
    ran = _alike(snapshot, tmp_path / "warehouse")
    assert _codes_of_store(ran.results) == ({"TIER-OBJECT-MISSING"} if is_readable else set())
    refused = [row for row in ran.results.rows("quarantine") if row["path"] == "remote_objects.jsonl"]
    assert len(refused) == (0 if is_readable else 1)


def test_of_remote_storage_whose_metadata_cannot_be(tmp_path: Path) -> None:
    snapshot, store = tmp_path / "snapshot", tmp_path / "tier"
    put(store, plain_path(segment_id(0, 40, (0, 0)), 0))
    put(store, f"orders-0-{TOPIC_ID}/{'9' * 20}-{make_uuid('far')}.log")
    bad = (copied(40, 60), copied(100, 2**63, (1, 100)), copied(-5, 10, (1, 0)))
    with_remote(snapshot, LEADS, copied(0, 40, (0, 0)), *(one[:1] for one in bad))
    ran = _alike(snapshot, tmp_path / "warehouse", remote=str(store))
    assert "CAP-NOT-AUDITED" not in {row.code for row in ran.results.findings}
    assert len([row for row in ran.results.rows("quarantine") if "__remote_log_metadata" in row["path"]]) == len(bad)
