"""Captures known at second hand: tables of their batches, and text of the official tool."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from tests.support.scanned import FIXTURES, batches_of, scan_file

from replica_audit.batch_header import BATCH_COLUMNS
from replica_audit.snapshot.batch_tables import BATCH_TABLE

#: Columns that the bronze table has null where the header has -1.
NULL_AS_MINUS_ONE = (
    "leader_epoch",
    "base_timestamp",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
)


def batch_rows(capture: str, partition: str) -> list[dict]:
    """The rows that the bronze table `batches` has of a partition."""
    rows = []
    for path in sorted((FIXTURES / capture).glob(f"broker-*/{partition}/*.log")):
        topic, _, number = partition.rpartition("-")
        place = {
            "broker_id": int(path.parts[-3].removeprefix("broker-")),
            "log_dir": path.parts[-3],
            "topic": topic,
            "partition": int(number),
            "segment_base_offset": int(path.name[:20]),
        }
        for batch in batches_of(scan_file(path)):
            row = {name: batch[name].item() for name in BATCH_COLUMNS}
            rows.append(
                place
                | {name: None if name in NULL_AS_MINUS_ONE and value == -1 else value for name, value in row.items()}
            )
    return rows


def write_table(path: Path, rows: Iterable[dict], types: dict = BATCH_TABLE) -> None:
    """The rows in the format that the path's ending says."""
    rows = list(rows)
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return
    schema = pa.schema([(name, types.get(name, pa.string())) for name in rows[0]])
    table = pa.Table.from_pylist(rows, schema)
    if path.suffix == ".csv":
        pa.csv.write_csv(table, path)
    else:
        pa.parquet.write_table(table, path)


def copy_text(capture: str, path: Path, *kinds: str, brokers: tuple[int, ...] | None = None) -> None:
    """The listing of topics, and the dumps of the brokers (default all)."""
    (path / "dump").mkdir(parents=True, exist_ok=True)
    for kind in kinds:
        for text in (FIXTURES / capture / "dump").glob(f"broker-*.{kind}.txt"):
            if brokers is None or int(text.name.split(".")[0][7:]) in brokers:
                shutil.copy(text, path / "dump")
    for text in (FIXTURES / capture).glob("*describe*"):
        shutil.copy(text, path)


def copy_files(capture: str, path: Path, *, brokers: tuple[int, ...] | None = None, logs: bool = True) -> None:
    """The listing of topics and the log dirs, without the metadata log, and without segments if `logs` is false."""

    def left_out(_: str, names: list[str]) -> list[str]:
        return [name for name in names if name == "__cluster_metadata-0" or (name.endswith(".log") and not logs)]

    path.mkdir(parents=True, exist_ok=True)
    for folder in (FIXTURES / capture).glob("broker-*"):
        if brokers is None or int(folder.name[7:]) in brokers:
            shutil.copytree(folder, path / folder.name, ignore=left_out)
    for text in (FIXTURES / capture).glob("*describe*"):
        shutil.copy(text, path)
