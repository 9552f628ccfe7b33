"""Audits of texts and tables against audits of the segments that they show, and what they must not conclude."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.support.dump_lines import batch_line, listing
from tests.support.report_rows import tables_of
from tests.support.scanned import FIXTURES
from tests.support.second_hand import batch_rows, copy_files, copy_text, write_table
from tests.support.snapshots import write_manifest

from replica_audit.config import Settings
from replica_audit.model import TopicPartition
from replica_audit.runner.in_process import audit_one
from replica_audit.snapshot.discovery import discover
from replica_audit.snapshot.storage import Snapshot

KEPT = (
    "log_start_offset",
    "log_end_offset",
    "epochs",
    "batch_count",
    "record_count",
    "tail_kind",
    "common_prefix_end",
    "is_leader",
    "in_isr",
)
RUN = (
    "broker_id",
    "start_offset",
    "end_offset",
    "code",
    "leader_epoch",
    "replica_epoch",
    "record_count",
    "reference_id",
)
CUT = ("broker_id", "protocol", "truncate_to", "reason", "dropped_records", "dropped_bytes")


def audit(path: Path, partition: str) -> dict[str, list[dict]]:
    """The report tables of one partition."""
    return tables_of(audit_one(str(path), TopicPartition.parse(partition), Settings()))


def codes(tables: dict[str, list[dict]], severity: str | None = None) -> set[str]:
    return {row["code"] for row in tables["findings"] if severity in (None, row["severity"])}


def verdict(tables: dict[str, list[dict]]) -> str:
    return tables["partitions"][0]["verdict"]


def said(tables: dict[str, list[dict]], broker_id: int) -> dict:
    """The finding that a replica is known second-hand."""
    (row,) = [row for row in tables["findings"] if (row["code"], row["broker_id"]) == ("CAP-SECOND-HAND", broker_id)]
    return row


PAIRS = [
    ("diverged-unclean", ("ledger-0", "ledger-1")),
    ("diverged-multi2", ("journal-0", "journal-1", "journal-2", "journal-3")),
    ("kip279-1-before", ("kip279-0", "kip279-1")),
    ("zk-2.8-diverged-unclean", ("ledger-0", "ledger-1")),
    ("kafka-3.9-diverged-unclean", ("ledger-0", "ledger-1")),
    ("lagging", ("followed-0",)),
    ("kip279-2-healed", ("kip279-0", "kip279-1")),
]


def _partitions() -> list:
    found = []
    for capture, partitions in PAIRS:
        names = {
            str(one.topic_partition)
            for one in discover(Snapshot.open(FIXTURES / capture)).replicas
            if not one.topic.startswith("__")
        }
        found += [
            pytest.param(capture, name, id=f"{capture}-{name}") for name in sorted(names & set(partitions) or names)
        ]
    return found


@pytest.mark.parametrize("kinds", [("batches",), ("batches", "records")], ids="+".join)
@pytest.mark.parametrize(("capture", "partition"), _partitions())
def test_text_gives_the_divergences_and_cuts_that_the_segments_give(tmp_path, capture, partition, kinds):
    copy_files(capture, tmp_path / "files")
    copy_text(capture, tmp_path / "text", *kinds)
    files, text = audit(tmp_path / "files", partition), audit(tmp_path / "text", partition)
    assert files["replicas"] and len(files["replicas"]) == len(text["replicas"])
    for one, other in zip(files["replicas"], text["replicas"], strict=True):
        assert [one[name] for name in KEPT] == [other[name] for name in KEPT]
        assert other["clean_shutdown"] is other["loaded_log_end_offset"] is other["checkpoint_epochs"] is None
    for table, names in (("divergences", RUN), ("truncations", CUT)):
        by_epochs = [
            [
                tuple(row[name] for name in names)
                for row in tables[table]
                if row.get("protocol") in (None, "fetch", "kip-279", "kip-101")
            ]
            for tables in (files, text)
        ]
        assert by_epochs[0] == by_epochs[1]
    for row in text["replicas"]:
        evidence = {item["kind"] for item in said(text, row["broker_id"])["evidence"]}
        assert evidence == {"input", "unproven"} and said(text, row["broker_id"])["severity"] == "info"


@pytest.mark.parametrize(
    "capture",
    ["diverged-healed", "diverged-multi2-healed", "quorum3-2-healed", "retention-skewed", "lagging-caught-up"],
)
def test_text_of_sound_logs_raises_no_alarm(tmp_path, capture):
    copy_text(capture, tmp_path, "batches")
    partitions = sorted({str(one.topic_partition) for one in discover(Snapshot.open(tmp_path)).replicas})
    assert partitions
    for partition in partitions:
        tables = audit(tmp_path, partition)
        assert not codes(tables, "critical") | codes(tables, "high") | codes(tables, "medium"), partition
        assert verdict(tables) in ("CONSISTENT", "LAGGING") and tables["partitions"][0]["dropped_records"] == 0


def test_checkpoints_that_were_kept_prove_with_text_what_they_prove_with_segments(tmp_path):
    copy_files("diverged-unclean", tmp_path / "files")
    copy_files("diverged-unclean", tmp_path / "both", logs=False)
    copy_text("diverged-unclean", tmp_path / "both", "batches")
    for partition in ("ledger-0", "ledger-1", "ledger-2"):
        files, both = audit(tmp_path / "files", partition), audit(tmp_path / "both", partition)
        assert verdict(both) == verdict(files) == "COMMITTED_LOSS"
        assert codes(both) == codes(files) | {"CAP-SECOND-HAND"}
        assert [{**row, "first_timestamp_ms": None} for row in both["divergences"]] == [
            {**row, "first_timestamp_ms": None} for row in files["divergences"]
        ]
        assert both["high_watermarks"] == files["high_watermarks"]


def test_the_checkpoints_of_a_log_dir_count_without_the_partitions_directory(tmp_path):
    copy_files("diverged-unclean", tmp_path, logs=False)
    for folder in tmp_path.glob("broker-*/ledger-*"):
        shutil.rmtree(folder)
    copy_text("diverged-unclean", tmp_path, "batches")
    tables = audit(tmp_path, "ledger-0")
    assert verdict(tables) == "COMMITTED_LOSS" and "CHK-ORPHAN-ENTRY" not in codes(tables)
    assert {row["high_watermark_checkpoint"] for row in tables["replicas"]} == {52, 79}


def test_a_leader_with_segments_is_compared_with_followers_of_text(tmp_path):
    copy_files("diverged-unclean", tmp_path / "files")
    copy_files("diverged-unclean", tmp_path / "mixed", brokers=(1,))
    copy_text("diverged-unclean", tmp_path / "mixed", "batches", brokers=(0, 2))
    files, mixed = audit(tmp_path / "files", "ledger-0"), audit(tmp_path / "mixed", "ledger-0")
    assert [tuple(row[name] for name in RUN) for row in mixed["divergences"]] == [
        tuple(row[name] for name in RUN) for row in files["divergences"]
    ]
    assert {row["broker_id"] for row in mixed["findings"] if row["code"] == "CAP-SECOND-HAND"} == {0, 2}


def test_text_without_epochs_or_checksums_of_batches_decides_nothing(tmp_path):
    copy_text("kip279-1-before", tmp_path, "records")
    for partition in ("kip279-0", "kip279-1"):
        tables = audit(tmp_path, partition)
        assert verdict(tables) == "INCONCLUSIVE" and tables["divergences"] == tables["truncations"] == []
        assert not codes(tables, "critical") | codes(tables, "high")
        assert "no leader epochs" in said(tables, 0)["message"] and len(tables["replicas"]) == 2


def test_text_in_two_forms_is_not_compared(tmp_path):
    copy_text("old-formats", tmp_path, "records", brokers=(0,))
    copy_text("old-formats", tmp_path, "batches", brokers=(1,))
    tables = audit(tmp_path, "fmt-v1-0")
    assert verdict(tables) == "INCONCLUSIVE" and tables["divergences"] == []
    assert any("not given in the same form" in row["message"] for row in tables["findings"])


def test_without_checkpoints_a_difference_of_old_logs_is_neither_cut_nor_forgiven(tmp_path):
    copy_text("old-silent-2-healed", tmp_path, "batches", "records")
    tables = audit(tmp_path, "silent-0")
    assert verdict(tables) == "INCONCLUSIVE" and not codes(tables, "critical")
    assert [(row["start_offset"], row["end_offset"]) for row in tables["divergences"]] == [(11, 15)]
    assert "its high watermark" in said(tables, tables["divergences"][0]["broker_id"])["message"]


@pytest.mark.parametrize("kinds", [("batches",), ("records",), ("batches", "records")], ids="+".join)
def test_equal_old_logs_are_consistent_and_nothing_is_dropped(tmp_path, kinds):
    copy_text("old-formats", tmp_path, *kinds)
    for partition in ("fmt-v0-0", "fmt-v1-1", "mixed-0", "compact-v0-0"):
        tables = audit(tmp_path, partition)
        assert verdict(tables) == "CONSISTENT", partition
        assert {row["dropped_records"] for row in tables["truncations"]} == {0} and not codes(tables, "medium")


def test_an_epoch_without_records_may_be_in_a_file_that_is_not_given(tmp_path):
    copy_text("diverged-unclean", tmp_path, "batches")
    tables = audit(tmp_path, "ledger-2")
    assert verdict(tables) == "INCONCLUSIVE" and "was elected" in said(tables, 0)["message"]


def test_keys_of_compacted_logs_that_differ_are_left_open(tmp_path):
    copy_text("compacted-skewed-2", tmp_path, "batches", "records")
    tables = audit(tmp_path, "zombies-0")
    assert verdict(tables) == "INCONCLUSIVE" and not codes(tables, "high") | codes(tables, "critical")
    assert any("latest value of each key" in row["message"] for row in tables["findings"])


LEADER = listing(
    "broker-1/t-0/00000000000000000000.log", batch_line(0, 9, 0, 100, crc=1), batch_line(10, 19, 100, 100, crc=2)
)


def _pair(path: Path, follower: str) -> dict[str, list[dict]]:
    (path / "broker-1.dump.txt").write_text(LEADER)
    (path / "broker-2.dump.txt").write_text(follower.replace("broker-1", "broker-2"))
    (path / "leadership.json").write_text(
        json.dumps([{"topic": "t", "partition": 0, "leader": 1, "leader_epoch": 0, "isr": [1, 2]}])
    )
    write_manifest(path, quiesced=True)
    return audit(path, "t-0")


@pytest.mark.parametrize("epoch", [None, 9])
def test_a_follower_with_a_later_epoch_is_judged_only_where_the_leaders_is_known(tmp_path, epoch):
    """The leader of the third epoch has no record of it: only its own epoch file, or a source, tells that there is one."""
    name = "broker-1/t-0/00000000000000000000.log"
    leader = listing(name, batch_line(0, 9, 0, 100, crc=1), batch_line(10, 29, 100, 200, epoch=2, crc=2))
    follower = listing(name, batch_line(0, 9, 0, 100, crc=1), batch_line(10, 19, 100, 100, epoch=5, crc=3))
    leadership = {"topic": "t", "partition": 0, "leader": 1, "isr": [1]} | ({"leader_epoch": epoch} if epoch else {})
    (tmp_path / "broker-1.dump.txt").write_text(leader)
    (tmp_path / "broker-2.dump.txt").write_text(follower.replace("broker-1", "broker-2"))
    (tmp_path / "leadership.json").write_text(json.dumps([leadership]))
    tables = audit(tmp_path, "t-0")
    if epoch is None:
        assert verdict(tables) == "INCONCLUSIVE" and tables["divergences"] == [] and not codes(tables, "critical")
    else:
        assert [(row["start_offset"], row["code"]) for row in tables["divergences"]] == [(10, "DIV-EPOCH")]
        assert verdict(tables) == "UNCOMMITTED_DIVERGENCE"


@pytest.mark.parametrize("epoch", [None, 0])
def test_an_end_past_the_leaders_is_left_open_where_its_epoch_is_not_known(tmp_path, epoch):
    leadership = {"topic": "t", "partition": 0, "leader": 1, "isr": [1, 2], "leader_epoch": epoch}
    (tmp_path / "broker-1.dump.txt").write_text(LEADER)
    (tmp_path / "broker-2.dump.txt").write_text(
        LEADER.replace("broker-1", "broker-2") + batch_line(20, 24, 200, 50) + "\n"
    )
    (tmp_path / "leadership.json").write_text(
        json.dumps([{name: value for name, value in leadership.items() if value is not None}])
    )
    tables = audit(tmp_path, "t-0")
    assert verdict(tables) == ("INCONCLUSIVE" if epoch is None else "CONSISTENT")
    assert ("later epoch" in said(tables, 2)["message"]) == (epoch is None)


def test_a_text_that_cannot_be_read_is_told_with_every_partition(tmp_path):
    (tmp_path / "broker-3.dump.txt").write_bytes(LEADER.encode("utf-16"))
    tables = _pair(tmp_path, LEADER)
    (row,) = [row for row in tables["findings"] if row["code"] == "CAP-UNREADABLE"]
    assert row["topic"] is None and "UTF-16" in row["message"]


def test_a_whole_pair_of_texts_is_consistent(tmp_path):
    tables = _pair(tmp_path, LEADER)
    assert verdict(tables) == "CONSISTENT" and codes(tables) == {"CAP-SECOND-HAND"}


@pytest.mark.parametrize(
    "follower",
    [
        LEADER[:-30],
        "".join(LEADER.splitlines(keepends=True)[:2]) + LEADER.splitlines(keepends=True)[3],
        LEADER + "and so on\n",
        "\n".join(LEADER.splitlines()[:1]),
    ],
    ids=["cut in a line", "a line missing", "another line", "only its name"],
)
def test_a_text_that_is_not_whole_is_no_short_log(tmp_path, follower):
    tables = _pair(tmp_path, follower)
    assert verdict(tables) == "INCONCLUSIVE" and not codes(tables, "critical") | codes(tables, "high")
    assert said(tables, 2)["severity"] == "medium" and "left_out" not in said(tables, 2)["message"]
    assert tables["partitions"][0]["hw_upper"] == 20


def test_a_wrong_checksum_in_a_text_is_the_tools_verdict(tmp_path):
    tables = _pair(tmp_path, LEADER.replace("crc: 1 isvalid: true", "crc: 1 isvalid: false"))
    assert verdict(tables) == "LATENT_CORRUPTION" and "LOG-CORRUPT-MID" in codes(tables)
    assert any("were not computed" in item["text"] for item in said(tables, 2)["evidence"])


def test_the_tool_that_died_on_zeros_says_nothing_bad(tmp_path):
    thrown = "org.apache.kafka.common.errors.CorruptRecordException: Found record size 0 smaller than minimum record"
    died = f'Exception in thread "main" {thrown} overhead (14)'
    tables = _pair(tmp_path, LEADER + died + "\n")
    assert verdict(tables) == "CONSISTENT" and codes(tables) == {"CAP-SECOND-HAND", "LOG-TAIL-ZERO"}
    assert "does not show what follows" in next(
        row["message"] for row in tables["findings"] if row["code"] == "LOG-TAIL-ZERO"
    )


def test_tables_give_the_same_divergences_and_less_columns_less(tmp_path):
    rows = [row for partition in ("ledger-0",) for row in batch_rows("diverged-unclean", partition)]
    copy_files("diverged-unclean", tmp_path / "files")
    files = audit(tmp_path / "files", "ledger-0")
    for name, columns in (("all", set(rows[0])), ("no-epochs", set(rows[0]) - {"leader_epoch"})):
        (tmp_path / name).mkdir()
        write_table(
            tmp_path / name / "batches.parquet",
            [{key: value for key, value in row.items() if key in columns} for row in rows],
        )
        shutil.copy(FIXTURES / "diverged-unclean/kafka-topics-describe.txt", tmp_path / name)
    whole, without = audit(tmp_path / "all", "ledger-0"), audit(tmp_path / "no-epochs", "ledger-0")
    assert [tuple(row[name] for name in RUN) for row in whole["divergences"]] == [
        tuple(row[name] for name in RUN) for row in files["divergences"]
    ]
    assert (
        verdict(whole) == "UNCOMMITTED_DIVERGENCE"
        and verdict(without) == "INCONCLUSIVE"
        and without["divergences"] == []
    )


def test_records_alone_show_where_logs_part(tmp_path):
    rows = [
        {
            "broker_id": broker,
            "topic": "t",
            "partition": 0,
            "offset": offset,
            "leader_epoch": epoch,
            "timestamp": 1000 + offset,
            "key_size": 4,
            "value_size": size,
        }
        for broker, tail in ((1, 9), (2, 8))
        for offset, epoch, size in [*((n, 0, 5) for n in range(10)), *((n, broker, tail) for n in range(10, 14))]
    ]
    (tmp_path / "records.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "leadership.json").write_text(
        json.dumps([{"topic": "t", "partition": 0, "leader": 2, "leader_epoch": 2, "isr": [2]}])
    )
    tables = audit(tmp_path, "t-0")
    assert [tuple(row[name] for name in RUN[:6]) for row in tables["divergences"]] == [(1, 10, 14, "DIV-EPOCH", 2, 1)]
    assert verdict(tables) == "UNCOMMITTED_DIVERGENCE" and said(tables, 1)["severity"] == "info"
    assert any("do not prove equal records" in item["text"] for item in said(tables, 1)["evidence"])
