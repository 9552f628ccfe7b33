"""Batch and record metadata as JSONL, CSV and Parquet in place of segments."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from tests.support.scanned import FIXTURES, batches_of, damage_of, scan_file
from tests.support.second_hand import batch_rows, write_table

from replica_audit.errors import FormatError
from replica_audit.model import Damage
from replica_audit.snapshot.discovery import discover
from replica_audit.snapshot.inventory import Inventory
from replica_audit.snapshot.segment_sources import open_source, summarise_source
from replica_audit.snapshot.storage import Snapshot

ENDINGS = ("jsonl", "csv", "parquet")


def find(path: Path) -> Inventory:
    return discover(Snapshot.open(path))


def logs(path: Path) -> dict[tuple[int, int], tuple[np.ndarray, list[Damage], tuple[str, ...], str]]:
    """Batches, damage, what is unproven and the form of every segment, by broker and base offset."""
    snapshot = Snapshot.open(path)
    found = {}
    for file in discover(snapshot).segments:
        with open_source(snapshot, file) as source:
            items = list(source.items)
        summary = summarise_source(snapshot, file)
        found[file.broker_id, file.base_offset] = batches_of(items), damage_of(items), summary.unproven, summary.form
    return found


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize(("capture", "partition"), [("diverged-unclean", "ledger-0"), ("old-formats", "fmt-v1-0")])
def test_a_table_of_batches_gives_what_the_segments_gave(tmp_path, ending, capture, partition):
    rows = batch_rows(capture, partition)
    write_table(tmp_path / f"batches.{ending}", reversed(rows))
    files = {
        (int(p.parts[-3][-1]), int(p.name[:20])): p for p in (FIXTURES / capture).glob(f"broker-*/{partition}/*.log")
    }
    found = logs(tmp_path)
    assert set(found) == set(files)
    for key, (batches, damage, unproven, form) in found.items():
        assert np.array_equal(batches, batches_of(scan_file(files[key]))), key
        assert (damage, unproven, form) == ([], ("checksums", "tail"), "batches")
    inventory = find(tmp_path)
    assert {one.log_dir for one in inventory.replicas} == {f"broker-{broker}" for broker, _ in files}
    assert {file.source for file in inventory.segments} == {"batch_table"} and inventory.topics == (
        partition.rpartition("-")[0],
    )


def test_bytes_that_no_row_is_about_are_damage(tmp_path):
    rows = batch_rows("corrupted-flip-crc", "codecs-1")
    kept = [row for row in rows if not (row["broker_id"] == 2 and row["base_offset"] == 80)]
    gone = next(row for row in rows if row not in kept)
    write_table(tmp_path / "batches.parquet", kept)
    (damage,) = [one for _, damage, _, _ in logs(tmp_path).values() for one in damage]
    assert (damage.position, damage.length, damage.kind) == (gone["position"], gone["size"], "corrupt")
    assert (damage.expected_offset, damage.next_offset) == (80, gone["last_offset"] + 1)


def test_least_columns_with_other_names_are_enough_and_what_is_missing_is_said(tmp_path):
    rows = [
        {"broker": 1, "topic": "t", "partition": 0, "base_offset": 5 * n, "last_offset": 5 * n + 4, "epoch": 1}
        for n in (1, 0)
    ]
    write_table(tmp_path / "some.jsonl", rows)
    ((key, (batches, damage, unproven, form)),) = logs(tmp_path).items()
    assert key == (1, 0) and damage == []
    assert batches["base_offset"].tolist() == [0, 5] and batches["record_count"].tolist() == [5, 5]
    assert batches["leader_epoch"].tolist() == [1, 1] and batches["crc_valid"].all()
    assert set(unproven) >= {
        "batch_checksums",
        "checksum_verdicts",
        "contents",
        "positions",
        "sizes",
        "record_counts",
        "attributes",
        "tail",
    }
    assert "leader_epochs" not in unproven and form == "batches without crc, crc_valid, size"
    write_table(
        tmp_path / "some.jsonl", [{name: value for name, value in row.items() if name != "epoch"} for row in rows]
    )
    ((_, _, unproven, _),) = logs(tmp_path).values()
    assert "leader_epochs" in unproven


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_table_of_records(tmp_path, ending):
    rows = [
        {
            "broker_id": 3,
            "topic": "t",
            "partition": 1,
            "offset": offset,
            "leader_epoch": offset // 2,
            "timestamp": 100 + offset,
            "key_size": -1 if offset == 1 else 4,
            "value_size": 10,
            "extra": "not looked at",
        }
        for offset in (1, 0, 2)
    ]
    types = {name: pa.int64() for name in rows[0]} | {"topic": pa.string(), "extra": pa.string()}
    write_table(tmp_path / f"records.{ending}", rows, types)
    ((key, (batches, _, unproven, form)),) = logs(tmp_path).items()
    assert key == (3, 0)
    assert batches["base_offset"].tolist() == batches["last_offset"].tolist() == [0, 1, 2]
    assert batches["leader_epoch"].tolist() == [0, 0, 1] and batches["record_count"].tolist() == [1, 1, 1]
    assert batches["max_timestamp"].tolist() == [100, 101, 102] and batches["size"].tolist() == [14, 10, 14]
    assert len(set(batches["crc"].tolist())) == 3 and (batches["crc"] >= 1 << 40).all()
    assert form == "records by offset, timestamp, key_size, value_size" and "contents" in unproven


def test_a_checksum_of_the_content_counts(tmp_path):
    row = {"broker_id": 1, "topic": "t", "partition": 0, "offset": 0, "leader_epoch": 0, "timestamp": 1, "checksum": 7}
    write_table(tmp_path / "a.jsonl", [row, {**row, "broker_id": 2, "checksum": 8}])
    one, other = logs(tmp_path).values()
    assert one[0]["crc"].tolist() != other[0]["crc"].tolist() and "contents" not in one[2]


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("left_out", [set(), {"segment_base_offset"}])
def test_one_table_in_several_files_is_one_log_and_a_row_in_two_of_them_counts_once(tmp_path, left_out, order):
    rows = [row for row in batch_rows("diverged-unclean", "ledger-0") if row["broker_id"] == 1]
    told = [{name: value for name, value in row.items() if name not in left_out} for row in rows]
    for number, part in enumerate((told[:4], told[3:])[::order]):
        write_table(tmp_path / f"part-{number}.parquet", part)
    ((_, (batches, _, _, form)),) = logs(tmp_path).items()
    assert batches["base_offset"].tolist() == [row["base_offset"] for row in rows] and form == "batches"


def test_checksums_that_a_table_of_evidence_does_not_know_are_taken_to_be_right_and_said_to_be_unproven(tmp_path):
    rows = [row for row in batch_rows("diverged-unclean", "ledger-0") if row["broker_id"] == 1]
    write_table(tmp_path / "known.parquet", rows)
    ((_, (_, _, unproven, _)),) = logs(tmp_path).items()
    assert "checksum_verdicts" not in unproven
    write_table(tmp_path / "known.parquet", [{**row, "crc_valid": None} for row in rows])
    ((_, (batches, _, unproven, _)),) = logs(tmp_path).items()
    assert "checksum_verdicts" in unproven and batches["crc_valid"].all() and not batches["crc_unchecked"].any()


def test_a_table_is_only_counted_beside_segments_or_text(tmp_path):
    rows = batch_rows("diverged-unclean", "ledger-0")
    write_table(tmp_path / "batches.csv", rows)
    (tmp_path / "dump").mkdir()
    text = (FIXTURES / "diverged-unclean/dump/broker-0.batches.txt").read_text()
    (tmp_path / "dump/broker-0.batches.txt").write_text(text)
    inventory = find(tmp_path)
    sources = {(file.broker_id, file.partition): file.source for file in inventory.segments if file.topic == "ledger"}
    assert sources == {
        (0, 0): "dump_text",
        (0, 1): "dump_text",
        (0, 2): "dump_text",
        (1, 0): "batch_table",
        (2, 0): "batch_table",
    }
    assert inventory.counts["log_superseded_by_text"] == 1


def test_a_table_of_something_else_is_ignored_and_said(tmp_path):
    (tmp_path / "people.csv").write_text("name,age\na,5\n")
    (tmp_path / "events.jsonl").write_text('["x"]\n')
    (tmp_path / "empty.jsonl").write_text("")
    pa.parquet.write_table(pa.table({"x": [1]}), tmp_path / "x.parquet")
    rows = find(tmp_path).quarantine
    assert [(row.code, row.path) for row in rows] == [
        ("INPUT-IGNORED", name) for name in ("empty.jsonl", "events.jsonl", "people.csv", "x.parquet")
    ]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"base_offset": "x"}, "types in docs/capture.md"),
        ({"topic": None}, "a value for topic"),
        ({"base_offset": -5}, "offsets from 0"),
        ({"last_offset": 1, "base_offset": 2}, "offsets from 0"),
        ({"leader_epoch": 1 << 40}, "leader_epoch of -2147483648"),
    ],
)
def test_a_table_with_a_wrong_value_is_not_used(tmp_path, changes, words):
    row = {"broker_id": 1, "topic": "t", "partition": 0, "base_offset": 0, "last_offset": 0, "leader_epoch": 0}
    write_table(tmp_path / "b.jsonl", [row, row | changes])
    snapshot = Snapshot.open(tmp_path)
    inventory = discover(snapshot)
    if inventory.segments:
        with pytest.raises(FormatError, match=words):
            summarise_source(snapshot, inventory.segments[0])
    else:
        (row,) = inventory.quarantine
        assert row.code == "CAP-UNREADABLE" and words in row.reason


def test_a_broken_parquet_file_cannot_be_read(tmp_path):
    (tmp_path / "b.parquet").write_bytes(b"PAR1 nothing")
    (row,) = find(tmp_path).quarantine
    assert (row.code, row.path) == ("CAP-UNREADABLE", "b.parquet")


def test_observations_of_replicas_are_no_batches(tmp_path):
    (tmp_path / "replica_progress.csv").write_text("name,age\na,5\n")
    assert "batch_table" not in find(tmp_path).counts


def test_the_same_summary_but_for_where_it_is_from(tmp_path):
    rows = [row for row in batch_rows("diverged-unclean", "ledger-1") if row["broker_id"] == 0]
    write_table(tmp_path / "batches.parquet", rows)
    files = sorted((FIXTURES / "diverged-unclean").glob("broker-0/ledger-1/*.log"))
    table, real = Snapshot.open(tmp_path), Snapshot.open(FIXTURES / "diverged-unclean")
    given = [summarise_source(table, file) for file in discover(table).segments]
    wanted = [file for file in discover(real, ("ledger",)).segments if (file.broker_id, file.partition) == (0, 1)]
    assert len(given) == len(wanted) == len(files)
    for one, file in zip(given, wanted, strict=True):
        own = summarise_source(real, file)
        assert replace(one, path=own.path, source="segment", unproven=()) == own


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("dropped", ((), ("position",), ("position", "size", "crc")))
def test_a_table_that_has_every_row_twice_is_the_log_it_would_be_with_each_once(tmp_path, ending, dropped):
    rows = [
        {name: row[name] for name in row if name not in dropped} for row in batch_rows("diverged-unclean", "ledger-0")
    ]
    found = []
    for name, given in (("once", rows), ("twice", [*rows, *rows]), ("paired", [row for row in rows for _ in "12"])):
        (tmp_path / name).mkdir()
        write_table(tmp_path / name / f"t.{ending}", given)
        snapshot = Snapshot.open(tmp_path / name)
        found.append([summarise_source(snapshot, file) for file in discover(snapshot).segments])
    assert found[0] and found[0] == found[1] == found[2]


def test_rows_that_claim_the_same_bytes_are_not_of_one_moment(tmp_path):
    rows = batch_rows("diverged-unclean", "ledger-0")
    later = [{**row, "crc": row["crc"] ^ 1, "leader_epoch": row["leader_epoch"] + 1} for row in rows[-2:]]
    write_table(tmp_path / "t.jsonl", [*rows, *later])
    snapshot = Snapshot.open(tmp_path)
    summaries = [summarise_source(snapshot, file) for file in discover(snapshot).segments]
    assert any("overlap" in summary.unproven for summary in summaries)
    assert sum(summary.batch_count for summary in summaries) == len(rows)
    assert not any(item.kind != "crc" for summary in summaries for item in summary.irregularities)
