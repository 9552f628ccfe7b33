"""The stages on a snapshot whose brokers are given as segments, text, and a table: the answers of `show`, in one pass."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.snapshot.test_batch_tables import batch_rows, write_table
from tests.snapshot.test_provenance import copy_files, copy_text
from tests.spark.test_samples_as_shown import assert_as_shown
from tests.support.identity import identify

CAPTURE = "diverged-unclean"


def write_mixed(path: Path) -> Path:
    copy_files(CAPTURE, path, brokers=(1,))
    copy_text(CAPTURE, path, "batches", "records", brokers=(0,))
    rows = [row for number in range(3) for row in batch_rows(CAPTURE, f"ledger-{number}") if row["broker_id"] == 2]
    write_table(path / "batches.parquet", rows)
    copy_text("kip279-1-before", path / "other", "records")
    for text in (path / "other/dump").iterdir():
        shutil.move(text, path / "dump" / f"other.{text.name}")
    shutil.rmtree(path / "other")
    return path


@pytest.fixture(scope="module")
def mixed(run_stages, tmp_path_factory):
    return run_stages(write_mixed(tmp_path_factory.mktemp("mixed") / "snapshot"))


def test_every_partition_is_as_show_has_it(mixed):
    names = {(row["topic"], row["partition"]) for row in mixed.results.rows("partitions")}
    assert {("ledger", number) for number in range(3)} | {("kip279", 0), ("kip279", 1)} <= names
    for topic, partition in sorted(names):
        assert_as_shown(mixed, f"{topic}-{partition}")
    verdicts = {f"{row['topic']}-{row['partition']}": row["verdict"] for row in mixed.results.rows("partitions")}
    assert verdicts["ledger-0"] == "UNCOMMITTED_DIVERGENCE" and verdicts["kip279-0"] == "INCONCLUSIVE"
    codes = {(row["code"], row["broker_id"]) for row in mixed.results.rows("findings") if row["topic"] == "ledger"}
    assert {("CAP-SECOND-HAND", 0), ("CAP-SECOND-HAND", 2)} <= codes and ("CAP-SECOND-HAND", 1) not in codes


def test_the_snapshot_has_the_id_of_its_values(mixed):
    assert mixed.snapshot_id == identify(mixed.path)
