"""Tables without Spark: what goes in comes out, an attempt's rows are its own, an older warehouse is brought up to date."""

from __future__ import annotations

import multiprocessing
import shutil
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from tests.support.stored_rows import made, stored

from replica_audit.arrow_rows import arrow_schema, arrow_type
from replica_audit.bronze_tables import BRONZE_TABLES, LeaderEpochRow, PlacedSegment, SegmentNames
from replica_audit.errors import InputError, UsageError
from replica_audit.model import CHUNK_OFFSETS, CheckpointFile
from replica_audit.schema import REPORT_TABLES, SCHEMA_VERSION, AttemptRow
from replica_audit.segments.record_batch import BATCH_DTYPE
from replica_audit.warehouse.attempts import attempts, finished_attempts, latest_attempt, record_attempt
from replica_audit.warehouse.delta_tables import Warehouse
from replica_audit.warehouse.table_files import BatchFileWriter, check_batch_files, read_batches
from replica_audit.warehouse.table_layout import columns_of, key_of

IDS = {"cluster_id": None, "snapshot_id": "s1", "ingest_id": "i1"}
SEGMENT = {"broker_id": 1, "log_dir": "broker-1", "topic": "orders", "partition": 0}


@pytest.fixture
def warehouse(tmp_path):
    return Warehouse(str(tmp_path / "a place" / "warehouse"))


def epochs(count, topic="orders"):
    return [
        LeaderEpochRow(**{**SEGMENT, "topic": topic}, entry=entry, leader_epoch=entry, start_offset=2**62 + entry)
        for entry in range(count)
    ]


def test_every_table_has_arrow_types():
    for table in (*BRONZE_TABLES, *REPORT_TABLES, "audits"):
        assert arrow_schema(columns_of(table)).names == [column.name for column in columns_of(table)]
    assert arrow_type("array<struct<a:int,b:array<bigint>>>") == pa.list_(
        pa.struct([("a", pa.int32()), ("b", pa.list_(pa.int64()))])
    )
    with pytest.raises(ValueError, match="decimal"):
        arrow_type("decimal")


def test_rows_come_back_as_they_were_with_nulls_maps_and_structs(warehouse):
    row = {
        "topic": "t", "partition": 0, "source": "user", "entry": 0, "isr": [1, 2], "elr": None,
        "configs": {"b": "2", "a": None},
    }  # fmt: skip
    warehouse.append("partition_states", [made(row)], IDS)
    (found,) = stored(warehouse, "partition_states", snapshot_id="s1")
    assert {name: found[name] for name in row} == row and list(found["configs"]) == ["a", "b"]
    file = {"state": "present", "path": "p", "problem": None}
    directory = {**SEGMENT, "epoch_file": CheckpointFile(**file), "index_bases": [0]}
    warehouse.append("replica_dirs", [made(directory)], IDS)
    (found,) = stored(warehouse, "replica_dirs", ("epoch_file", "index_bases", "ingest_id"), ingest_id="i1")
    assert found == {"epoch_file": file, "index_bases": [0], "ingest_id": "i1"}


def test_rows_are_read_by_id_and_by_nothing_else(warehouse):
    warehouse.append("leader_epochs", epochs(3), IDS)
    warehouse.append("leader_epochs", epochs(2), {**IDS, "ingest_id": "i2"})
    warehouse.append("leader_epochs", epochs(1), {**IDS, "snapshot_id": "s2"})
    assert len(stored(warehouse, "leader_epochs")) == 6
    assert len(stored(warehouse, "leader_epochs", ("topic",), snapshot_id="s1", ingest_id="i2")) == 2
    assert len(stored(warehouse, "leader_epochs", ("snapshot_id",), snapshot_id=["s2", "s1"])) == 6
    assert stored(warehouse, "leader_epochs", snapshot_id="none") == []
    assert stored(warehouse, "segments") == []


def test_an_empty_table_is_made_and_nothing_is_committed_twice(warehouse):
    assert not warehouse.exists("leader_epochs")
    warehouse.append("leader_epochs", [], IDS)
    assert warehouse.versions(["leader_epochs", "segments"]) == {"leader_epochs": 0}
    warehouse.append("leader_epochs", [], IDS)
    assert warehouse.versions(["leader_epochs"]) == {"leader_epochs": 0}


def test_rows_of_an_audit_are_replaced_in_one_commit(warehouse):
    ids = {"cluster_id": "c", "snapshot_id": "s1"}
    for audit_id in ("a1", "a2"):
        warehouse.put("quality", [made({"suite": "x", "name": "old"})], {**ids, "audit_id": audit_id}, again=True)
    version = warehouse.versions(["quality"])["quality"]
    warehouse.put("quality", [made({"suite": "x", "name": "new"})], {**ids, "audit_id": "a1"}, again=True)
    assert warehouse.versions(["quality"])["quality"] == version + 1
    rows = stored(warehouse, "quality", ("audit_id", "name"))
    assert sorted((row["audit_id"], row["name"]) for row in rows) == [("a1", "new"), ("a2", "old")]


def test_a_table_of_an_earlier_version_gets_the_columns_that_came_since(warehouse, tmp_path):
    from deltalake import write_deltalake

    old = [field for field in arrow_schema(columns_of("leader_epochs")) if field.name not in ("ingest_id", "entry")]
    rows = pa.Table.from_pylist(
        [{**epochs(1)[0]._asdict(), "cluster_id": "c", "snapshot_id": "s0"}], schema=pa.schema(old)
    )
    place = tmp_path / "a place" / "warehouse" / "leader_epochs"
    place.mkdir(parents=True)
    write_deltalake(str(place), rows, partition_by=[key_of("leader_epochs")])
    (found,) = stored(warehouse, "leader_epochs", snapshot_id="s0", ingest_id=None)
    assert (found["ingest_id"], found["entry"], found["topic"]) == (None, None, "orders")
    warehouse.append("leader_epochs", epochs(1), IDS)
    assert {row["ingest_id"] for row in stored(warehouse, "leader_epochs")} == {None, "i1"}
    assert stored(warehouse, "leader_epochs", snapshot_id="s0", ingest_id="i1") == []


def test_a_column_that_an_earlier_version_had_is_null_in_new_rows(warehouse, tmp_path):
    from deltalake import write_deltalake

    schema = arrow_schema(columns_of("quality")).append(pa.field("gone", pa.list_(pa.int32())))
    old = pa.Table.from_pylist([{"snapshot_id": "s0", "audit_id": "a0", "gone": [1]}], schema=schema)
    place = tmp_path / "a place" / "warehouse" / "quality"
    place.mkdir(parents=True)
    write_deltalake(str(place), old, partition_by=[key_of("quality")])
    ids = {"cluster_id": None, "snapshot_id": "s1"}
    warehouse.append("quality", [made({"suite": "x"})], {**ids, "audit_id": "a1"})
    warehouse.put("quality", [made({"suite": "y"})], {**ids, "audit_id": "a0"}, again=True)
    rows = stored(warehouse, "quality", ("audit_id", "suite"))
    assert sorted((row["audit_id"], row["suite"]) for row in rows) == [("a0", "y"), ("a1", "x")]


def _append(place, number):
    warehouse = Warehouse(place)
    for turn in range(5):
        warehouse.append("leader_epochs", epochs(1), {**IDS, "ingest_id": f"{number}-{turn}"})


@pytest.mark.skipif(sys.platform != "linux", reason="starts processes by fork server")
def test_writers_at_once_on_a_fresh_warehouse_lose_nothing(warehouse, tmp_path):
    place = str(tmp_path / "fresh")
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_append, args=(place, number)) for number in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    rows = stored(Warehouse(place), "leader_epochs", ("ingest_id",))
    assert sorted(row["ingest_id"] for row in rows) == sorted(f"{a}-{b}" for a in range(3) for b in range(5))


def test_rows_are_committed_though_another_writer_changed_the_table_meanwhile(warehouse, monkeypatch):
    warehouse.append("leader_epochs", epochs(1), {**IDS, "ingest_id": "before"})
    place, write = warehouse.directory("leader_epochs"), warehouse.write

    def write_beside_a_change(*rows):
        DeltaTable(place).alter.set_table_description("as another writer made it")
        return write(*rows)

    monkeypatch.setattr(warehouse, "write", write_beside_a_change)
    warehouse.append("leader_epochs", epochs(1), {**IDS, "ingest_id": "meanwhile"})
    found = [row["ingest_id"] for row in stored(warehouse, "leader_epochs", ("ingest_id",))]
    assert sorted(found) == ["before", "meanwhile"]


def test_a_commit_that_always_fails_is_an_error(warehouse, monkeypatch):
    tried = []

    def fail(*arguments, **options):
        tried.append(arguments)
        raise CommitFailedError("Metadata changed since last commit")

    monkeypatch.setattr(DeltaTable, "create_write_transaction", fail)
    with pytest.raises(CommitFailedError, match="Metadata changed"):
        warehouse.append("leader_epochs", epochs(1), {**IDS, "ingest_id": "a"})
    assert 1 < len(tried) < 20


def attempt(warehouse, state, ingest_id, snapshot_id="s1", stage="ingest", audit_id=None):
    return record_attempt(
        warehouse, stage, state, started="2026-01-01T00:00:00.000Z", snapshot_id=snapshot_id, audit_id=audit_id,
        ingest_id=ingest_id, cluster_id=None,
    )  # fmt: skip


def test_the_first_finished_ingest_of_a_snapshot_counts_and_every_finished_audit(warehouse):
    assert attempts(warehouse, "ingest") == []
    with pytest.raises(
        UsageError,
        match=r"no finished ingest with snapshot_id s1 in .*warehouse: replica-audit ingest SNAPSHOT --warehouse ",
    ):
        latest_attempt(warehouse, "ingest", snapshot_id="s1")
    attempt(warehouse, "failed", "i0")
    with pytest.raises(
        UsageError, match=r"; the one begun at 2026-\S+ failed: replica-audit ingest SNAPSHOT --warehouse "
    ):
        latest_attempt(warehouse, "ingest")
    attempt(warehouse, "finished", "i1")
    attempt(warehouse, "running", "i1", stage="audit", audit_id="a0")
    asked = r"audit in .*; the one begun at 2026-\S+ has not ended; a snapshot is ingested: replica-audit audit --warehouse "
    with pytest.raises(UsageError, match=asked):
        latest_attempt(warehouse, "audit")
    attempt(warehouse, "finished", "i2")
    attempt(warehouse, "finished", "i3", snapshot_id="s2")
    assert [row.ingest_id for row in finished_attempts(warehouse, "ingest")] == ["i1", "i3"]
    assert latest_attempt(warehouse, "ingest", snapshot_id="s1").ingest_id == "i1"
    for audit_id in ("a1", "a2"):
        attempt(warehouse, "finished", "i1", stage="audit", audit_id=audit_id)
    assert latest_attempt(warehouse, "audit").audit_id == "a2"
    warehouse.mark_removed(audit_id=["a2"], snapshot_id=["s2"])
    assert [row.audit_id for row in finished_attempts(warehouse, "audit")] == ["a1"]
    assert [row.ingest_id for row in finished_attempts(warehouse, "ingest")] == ["i1"]
    warehouse.delete("audits", "state", ["removed"])
    assert {row["state"] for row in stored(warehouse, "audits", ("state",))} == {"failed", "finished", "running"}
    assert list(AttemptRow._fields) == list(stored(warehouse, "audits")[0])


def batches(base, count, step=1):
    rows = np.zeros(count, BATCH_DTYPE)
    rows["base_offset"] = base + step * np.arange(count)
    rows["last_offset"] = rows["base_offset"]
    rows["crc"] = 7 * np.arange(count)
    for name in ("leader_epoch", "producer_id", "producer_epoch", "base_sequence"):
        rows[name] = -1
    return rows


@pytest.mark.parametrize("base", [0, 2**53 + 1, 2**62])
def test_batches_of_the_chunks_asked_for_come_back_whatever_their_offsets(warehouse, base):
    """Also past 2^53, where a quotient of doubles names other chunks."""
    directory = warehouse.directory("batches")
    writer = BatchFileWriter(directory, IDS)
    rows, segments = {}, []
    for number, (broker_id, count) in enumerate(((1, 200_000), (2, 70_000), (1, 10))):
        own = batches(base + 300_000 * number, count)
        absent = dict.fromkeys(PlacedSegment._fields)
        place = {"base_offset": int(own["base_offset"][0]), "batch_file": writer.path, "batch_row": writer.row}
        segments.append(PlacedSegment(**{**absent, **SEGMENT, **place, "broker_id": broker_id, "batch_count": count}))
        for start in range(0, count, 30_000):
            writer.add(
                SegmentNames(**{**SEGMENT, "broker_id": broker_id}, segment_base_offset=base),
                own[start : start + 30_000],
            )
        rows.setdefault(broker_id, []).append(own)
    file = writer.close()
    warehouse.append("batches", (), {"snapshot_id": "s1"}, [file])
    assert file.row_count == 270_010 and len(stored(warehouse, "batches", ("topic",), snapshot_id="s1")) == 270_010
    first = base // CHUNK_OFFSETS
    wanted = {(1, "broker-1"): {first, first + 2, (base + 600_005) // CHUNK_OFFSETS}, (2, "broker-1"): {first + 5}}
    found = read_batches(directory, segments, wanted)
    for (broker_id, _), chunks in wanted.items():
        own = np.concatenate(rows[broker_id])
        expected = own[np.isin(own["base_offset"] // CHUNK_OFFSETS, sorted(chunks))]
        assert len(expected) and (found[broker_id, "broker-1"] == expected).all()
    kept = pq.read_table(f"{directory}/{file.path}", columns=["leader_epoch", "crc"], partitioning=None)
    assert kept["leader_epoch"].null_count == 270_010 and kept["crc"].null_count == 0


def test_files_of_batches_that_are_not_there_are_told_with_what_to_do(warehouse):
    directory = warehouse.directory("batches")
    writer = BatchFileWriter(directory, IDS)
    writer.add(SegmentNames(**SEGMENT, segment_base_offset=0), batches(0, 3))
    path = writer.close().path
    check_batch_files(directory, {path})
    (warehouse_file,) = Path(directory).glob("*.parquet")
    warehouse_file.unlink()
    with pytest.raises(InputError, match=f"damaged: the file {warehouse_file.name} of the table batches is missing"):
        check_batch_files(directory, {path})


def test_a_writer_that_got_nothing_leaves_no_file(warehouse):
    writer = BatchFileWriter(warehouse.directory("batches"), IDS)
    writer.add({**SEGMENT, "segment_base_offset": 0}, batches(0, 0))
    assert writer.close() is None
    assert read_batches(warehouse.directory("batches"), [], {}) == {}


def test_a_table_with_a_later_schema_is_refused_and_not_touched(warehouse, tmp_path):
    from deltalake import DeltaTable

    warehouse.append("leader_epochs", epochs(2), IDS)
    table = DeltaTable(warehouse.directory("leader_epochs"))
    assert table.metadata().description == f"replica-audit, schema {SCHEMA_VERSION}"
    table.alter.set_table_description(f"replica-audit, schema {SCHEMA_VERSION + 1}")
    for use in (lambda: stored(warehouse, "leader_epochs"), lambda: warehouse.append("leader_epochs", epochs(1), IDS)):
        with pytest.raises(
            InputError, match=f"its schema is {SCHEMA_VERSION + 1}, expected at most {SCHEMA_VERSION}; upgrade"
        ):
            use()
    assert DeltaTable(table.table_uri).version() == table.version()


@pytest.fixture(params=["path", "uri"])
def named(request, warehouse):
    """The warehouse named by its path, and by a URI as a store is."""
    return warehouse if request.param == "path" else Warehouse(Path(warehouse.name).as_uri())


def test_a_commit_of_another_process_is_seen_at_the_next_look(named):
    named.append("leader_epochs", epochs(2), IDS)
    assert len(stored(named, "leader_epochs")) == 2
    Warehouse(named.name).append("leader_epochs", epochs(3), IDS)
    assert named.versions(["leader_epochs"]) == {"leader_epochs": 2}
    assert len(stored(named, "leader_epochs")) == 5


@pytest.mark.parametrize("commits", [1, 2, 4])
def test_a_table_that_was_deleted_is_not_there_and_one_made_in_its_place_is(named, warehouse, commits):
    for _ in range(2):
        named.append("leader_epochs", epochs(2), IDS)
    place = Path(warehouse.name) / "leader_epochs"
    shutil.rmtree(place)
    assert not named.exists("leader_epochs") and stored(named, "leader_epochs") == []
    other = Warehouse(warehouse.name)
    for _ in range(commits):
        other.append("leader_epochs", epochs(1), IDS)
    assert len(stored(named, "leader_epochs")) == commits
    shutil.rmtree(place)
    named.append("leader_epochs", epochs(5), IDS)
    assert len(stored(other, "leader_epochs")) == 5


def test_commits_that_were_cleaned_up_since_a_look_are_in_the_checkpoint(named, warehouse):
    named.append("leader_epochs", epochs(2), IDS)
    assert len(stored(named, "leader_epochs")) == 2
    other = Warehouse(warehouse.name)
    for _ in range(3):
        other.append("leader_epochs", epochs(1), IDS)
    table = DeltaTable(f"{warehouse.name}/leader_epochs")
    table.create_checkpoint()
    for commit in (Path(warehouse.name) / "leader_epochs/_delta_log").glob("*.json"):
        if int(commit.stem) < table.version():
            commit.unlink()
    assert len(stored(named, "leader_epochs")) == 5
