"""Files of observations: the three forms say the same, parts add up to the whole, and what is no row is told."""

from __future__ import annotations

import csv
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from replica_audit.schema import QuarantineRow
from replica_audit.snapshot import replica_progress as progress
from replica_audit.snapshot.log_dir_names import progress_form
from replica_audit.snapshot.replica_progress import (
    PROGRESS_SCHEMA,
    ProgressPart,
    plan_progress,
    read_progress,
)
from replica_audit.snapshot.storage import Snapshot

ROW = {
    "topic": "orders",
    "partition": 3,
    "time_ms": 1_700_000_000_000,
    "sequence": 2,
    "leader_id": 1,
    "leader_epoch": 7,
    "isr": [1, 2],
    "pending_isr": [3],
    "min_insync_replicas": 2,
    "lag_time_ms": 10_000,
    "broker_id": 2,
    "known_log_end_offset": -1,
    "log_end_offset": 40,
    "last_caught_up_ms": 1_699_999_999_000,
    "high_watermark": None,
    "eligible": True,
}


def read(path, size=None, topics=()):
    """(rows, quarantine) of every file below `path`."""
    snapshot = Snapshot.open(path)
    files = sorted(
        (str(file.relative_to(path)), file.stat().st_size)
        for file in path.rglob("*")
        if progress_form(str(file.relative_to(path)))
    )
    rows, bad = [], []
    for part in plan_progress(snapshot, files):
        for item in [part] if isinstance(part, QuarantineRow) else read_progress(snapshot, part, topics):
            if isinstance(item, QuarantineRow):
                bad.append(item)
            else:
                assert item.schema == PROGRESS_SCHEMA
                rows += item.to_pylist()
    return rows, bad


def write_jsonl(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def test_which_files_are_observations():
    assert progress_form("replica_progress.jsonl") == progress_form("replica_progress-2024/part-0.json") == "jsonl"
    assert progress_form("replica_progress.csv") == "csv" and progress_form("replica_progress/a.parquet") == "parquet"
    for path in (
        "batches.jsonl",
        "replica_progress/_SUCCESS",
        "replica_progress/.part-0.parquet.crc",
        "replica_progress.txt",
    ):
        assert progress_form(path) is None


def test_the_three_forms_say_the_same(tmp_path):
    rows = [ROW, {**ROW, "broker_id": 1, "isr": [], "pending_isr": None, "high_watermark": 38, "eligible": False}]
    for form in ("jsonl", "csv", "parquet"):
        (tmp_path / form).mkdir()
    write_jsonl(tmp_path / "jsonl" / "replica_progress.jsonl", rows)
    with (tmp_path / "csv" / "replica_progress.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(ROW))
        writer.writeheader()
        writer.writerows(
            {k: " ".join(map(str, v)) if isinstance(v, list) else v for k, v in row.items()} for row in rows
        )
    pq.write_table(pa.Table.from_pylist(rows, PROGRESS_SCHEMA), tmp_path / "parquet" / "replica_progress.parquet")
    assert read(tmp_path / "jsonl") == read(tmp_path / "parquet") == (rows, [])
    (first, second), bad = read(tmp_path / "csv")
    # An empty cell is a list that is not known; [] is the empty one.
    assert not bad and first == rows[0] and second == {**rows[1], "isr": None}


@pytest.mark.parametrize("text", ["1,2", "1 2", "[1, 2]", "1;2", " 1, 2 ", "1|2"])
def test_ids_in_one_cell(tmp_path, text):
    (tmp_path / "replica_progress.csv").write_text(
        f'topic,partition,time_ms,broker_id,isr\norders,0,5,1,"{text}"\norders,0,5,2,[]\n'
    )
    rows, bad = read(tmp_path)
    assert not bad and [row["isr"] for row in rows] == [[1, 2], []]


def test_times_may_be_text(tmp_path):
    times = ["2023-11-14T22:13:20Z", "2023-11-14T22:13:20.000", "2023-11-14 23:13:20.000+01:00"]
    write_jsonl(
        tmp_path / "replica_progress.jsonl",
        [{"topic": "t", "partition": 0, "broker_id": 1, "time": time} for time in times],
    )
    stamps = pa.array([1_700_000_000_000] * 2, pa.timestamp("ms", "UTC"))
    exact = pa.array([1_700_000_000_000_000_000, None], pa.timestamp("ns", "UTC"))
    table = pa.table({"topic": ["t", "t"], "partition": [0, 0], "broker_id": [1, 2], "time": stamps, "time_ms": exact})
    pq.write_table(table, tmp_path / "replica_progress.parquet")
    rows, bad = read(tmp_path)
    assert not bad and [row["time_ms"] for row in rows] == [1_700_000_000_000] * 5


def test_minus_one_is_none_but_for_what_a_new_leader_knows(tmp_path):
    names = (
        "leader_id",
        "leader_epoch",
        "log_end_offset",
        "last_caught_up_ms",
        "high_watermark",
        "known_log_end_offset",
    )
    write_jsonl(tmp_path / "replica_progress.jsonl", [{**ROW, **dict.fromkeys(names, -1)}])
    ((row,), _) = read(tmp_path)
    assert [row[name] for name in names] == [None] * 5 + [-1]


def test_columns_that_are_not_known_are_left_alone_and_lacking_ones_are_null(tmp_path):
    write_jsonl(
        tmp_path / "replica_progress.jsonl",
        [{"topic": "t", "partition": 0, "time_ms": 1, "broker_id": 0, "rack": {"a": 1}}],
    )
    ((row,), bad) = read(tmp_path)
    assert not bad and row["sequence"] == 0 and row["isr"] is None and row["eligible"] is None


@pytest.mark.parametrize("form", ["jsonl", "csv"])
@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_parts_of_any_size_add_up_to_the_file(tmp_path, monkeypatch, form, size):
    rows = [{**ROW, "sequence": n, "topic": "t" * (n % 9 + 1)} for n in range(12)]
    path = tmp_path / f"replica_progress.{form}"
    if form == "jsonl":
        write_jsonl(path, rows)
    else:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(ROW))
            writer.writeheader()
            writer.writerows({**row, "isr": "1 2", "pending_isr": "3"} for row in rows)
    monkeypatch.setattr(progress, "PART_BYTES", size)
    assert read(tmp_path) == (rows, [])


@pytest.mark.parametrize(
    "line", ["garbage", '{"topic": "orders", "partition": "x"}', "[1]", '{"topic": "orders"', '{"isr": "no list"}']
)
def test_a_line_that_is_no_row_is_told_with_its_place_and_the_others_stay(tmp_path, line):
    good = json.dumps(ROW)
    (tmp_path / "replica_progress.jsonl").write_text(f"{good}\n{line}\n\n{good}\n")
    rows, (bad,) = read(tmp_path)
    assert rows == [ROW, ROW]
    assert (bad.code, bad.path, bad.position) == ("INPUT-IGNORED", "replica_progress.jsonl", len(good) + 1)
    assert "no list" not in bad.reason or "isr" in line


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"orders,3,1700000000000,2,\xff", "no cells: 'utf-8' codec"),
        (b"orders,3,1700000000000,2", "4 cells"),
        (b"orders,three,1700000000000,2,true", "'three' for partition"),
        (b"orders,3,1700000000000,99999999999999999999,true", "'99999999999999999999' for broker_id"),
        (b"orders,3,1700000000000,2,maybe", "CSV conversion error"),
    ],
)
def test_a_line_of_csv_that_is_no_row_is_told_with_its_place_and_the_others_stay(tmp_path, line, reason):
    head, good = b"topic,partition,time_ms,broker_id,eligible\n", b"orders,3,1700000000000,2,true\n"
    (tmp_path / "replica_progress.csv").write_bytes(head + 3 * good + line + b"\n" + 2 * good)
    rows, (bad,) = read(tmp_path)
    assert [(row["partition"], row["eligible"]) for row in rows] == [(3, True)] * 5
    assert (bad.code, bad.position, bad.length) == ("INPUT-IGNORED", len(head + 3 * good), len(line) + 1)
    assert reason in bad.reason


def test_many_bad_lines_are_told_one_by_one_up_to_a_number(tmp_path):
    (tmp_path / "replica_progress.jsonl").write_text("x\n" * 50)
    rows, bad = read(tmp_path)
    assert not rows and len(bad) == 21 and "30 more unusable rows" in bad[-1].reason


def test_rows_without_a_place_or_a_time_are_counted(tmp_path):
    write_jsonl(
        tmp_path / "replica_progress.jsonl",
        [ROW, {**ROW, "time_ms": None}, {**ROW, "topic": None}, {**ROW, "broker_id": None}],
    )
    rows, (bad,) = read(tmp_path)
    assert rows == [ROW] and bad.code == "INPUT-IGNORED" and "3 rows without" in bad.reason


@pytest.mark.parametrize("name", ["replica_progress.csv", "replica_progress.parquet"])
def test_a_file_that_is_none_is_unreadable(tmp_path, name):
    (tmp_path / name).write_bytes(b"host,value\n1,2\n")
    rows, (bad,) = read(tmp_path)
    assert not rows and bad.code == "CAP-UNREADABLE" and bad.path == name


def test_topics_are_chosen_by_patterns(tmp_path):
    write_jsonl(
        tmp_path / "replica_progress.jsonl", [{**ROW, "topic": topic} for topic in ("orders", "Orders", "other")]
    )
    assert [row["topic"] for row in read(tmp_path, topics=("o*",))[0]] == ["orders", "other"]


def test_row_groups_are_parts(tmp_path):
    table = pa.Table.from_pylist([{**ROW, "sequence": n} for n in range(10)], PROGRESS_SCHEMA)
    pq.write_table(table, tmp_path / "replica_progress.parquet", row_group_size=3)
    parts = list(plan_progress(Snapshot.open(tmp_path), [("replica_progress.parquet", 1)]))
    assert parts == [ProgressPart("replica_progress.parquet", "parquet", n, n + 1) for n in range(4)]
    assert [row["sequence"] for row in read(tmp_path)[0]] == list(range(10))
