"""Content found in a snapshot: the captures as they are, and trees made to mislead."""

from __future__ import annotations

import os
import pickle
import shutil
from pathlib import Path

import pytest
from tests.support.encoder import encode_batch
from tests.support.scanned import CAPTURES, FIXTURES

from replica_audit.errors import FormatError
from replica_audit.model import TopicPartition
from replica_audit.snapshot.discovery import discover
from replica_audit.snapshot.inventory import DuplicateReplica, Inventory
from replica_audit.snapshot.log_dir_names import (
    broker_of_directory,
    parse_directory_name,
    parse_file_name,
    parse_node_name,
)
from replica_audit.snapshot.object_store import ObjectStore
from replica_audit.snapshot.storage import Snapshot

HEX = "0123456789abcdef0123456789abcdef"
UUID = "IERmnjDIQw2bVhQoxuqSAQ"


def find(path: Path, *topics: str) -> Inventory:
    return discover(Snapshot.open(str(path)), topics)


def file_counts(inventory: Inventory) -> int:
    return sum(
        number for kind, number in inventory.counts.items() if not kind.startswith(("directory_", "log_superseded"))
    )


def write(path: Path, data: bytes | str = b"") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def partition(log_dir: Path, name: str, *batches: bytes, base_offset: int = 0, topic_id: str | None = UUID) -> Path:
    write(log_dir / name / f"{base_offset:020d}.log", b"".join(batches))
    write(log_dir / name / "leader-epoch-checkpoint")
    if topic_id:
        write(log_dir / name / "partition.metadata", f"version: 0\ntopic_id: {topic_id}")
    return log_dir / name


def meta(log_dir: Path, node_id: int, cluster_id: str = "cluster", directory_id: str = "") -> None:
    write(log_dir / "meta.properties", f"node.id={node_id}\ncluster.id={cluster_id}\ndirectory.id={directory_id}\n")


def test_an_archive_beside_log_dirs_is_told(tmp_path: Path) -> None:
    meta(tmp_path / "broker-1", 1)
    partition(tmp_path / "broker-1", "orders-0", encode_batch(0, [], 0))
    for name in ("broker-2.tgz", "notes", "broker-1/old.tgz"):
        write(tmp_path / name, b"\x1f\x8b")
    told = {row.path: row.reason for row in find(tmp_path).quarantine if row.code == "INPUT-IGNORED"}
    assert told == {"broker-2.tgz": "an archive is not read: unpack it"}


def test_tables_of_a_warehouse_are_no_tables_of_batches(tmp_path: Path) -> None:
    meta(tmp_path / "broker-1", 1)
    partition(tmp_path / "broker-1", "orders-0", encode_batch(0, [], 0))
    for name in ("_delta_log/0.json", "_delta_log/0.checkpoint.parquet", "a.parquet", "topic=x/b.parquet"):
        write(tmp_path / "warehouse" / "segments" / name, b"PAR1")
    write(tmp_path / "warehouse" / "segments.csv", "topic,partition\n")
    found = find(tmp_path)
    assert (found.counts["batch_table"], found.counts["unknown"]) == (1, 4)
    assert all("segments/" not in row.path for row in found.quarantine)


@pytest.mark.parametrize("capture", CAPTURES)
def test_every_file_of_a_capture_is_counted_and_every_partition_directory_found(capture):
    root = FIXTURES / capture
    inventory = find(root)
    assert file_counts(inventory) == sum(len(files) for _, _, files in os.walk(root))
    assert inventory.size_bytes == sum(path.stat().st_size for path in root.rglob("*") if path.is_file())
    expected = {
        path.parent.relative_to(root).as_posix()
        for path in root.glob("broker-*/**/*.log")
        if not path.parent.name.startswith("__cluster_metadata")
        and not path.parent.name.endswith(("-delete", "-stray", "-future"))
    }
    assert {replica.path for replica in inventory.replicas} >= expected - {""}
    assert {segment.path for segment in inventory.segments} == {
        path.relative_to(root).as_posix()
        for path in root.glob("broker-*/**/*.log")
        if path.parent.relative_to(root).as_posix() in expected
    }
    assert not [row for row in inventory.quarantine if row.path.endswith("meta.properties")]


def test_a_healthy_capture_has_its_brokers_controller_and_nothing_in_quarantine():
    inventory = find(FIXTURES / "healthy")
    assert [(one.path, one.broker_id, one.kind, one.clean_shutdown) for one in inventory.log_dirs] == [
        ("broker-0", 0, "broker", True),
        ("broker-1", 1, "broker", True),
        ("broker-2", 2, "broker", True),
        ("controller", 100, "controller", False),
    ]
    assert inventory.cluster_id == "DECmSijzSHWkZ4NRILA-1Q" and inventory.quarantine == ()
    assert len(inventory.replicas) == 57 and len(inventory.metadata_logs) == 4
    assert inventory.leadership_files == ("kafka-topics-describe.txt",)
    sources = [one.source for one in inventory.leaderships]
    assert (sources.count("topics_describe"), sources.count("metadata_log")) == (18, 19)
    assert inventory.orphan_checkpoints == () and inventory.duplicates == ()
    assert inventory.counts["log_deleted"] == 9 and inventory.counts["clean_shutdown"] == 3
    trimmed = next(one for one in inventory.replicas if (one.topic, one.partition, one.broker_id) == ("trimmed", 0, 1))
    assert (trimmed.log_start_checkpoint, trimmed.high_watermark_checkpoint) == (25, 78)
    assert trimmed.epoch_file.state == "present" and trimmed.topic_id and trimmed.clean_shutdown
    empty = next(one for one in inventory.replicas if (one.topic, one.partition, one.broker_id) == ("empty", 0, 1))
    assert empty.epoch_file.state == "empty" and empty.checkpoint_epochs == ()


def test_old_brokers_without_cluster_id_epoch_files_or_topic_ids():
    inventory = find(FIXTURES / "old-formats")
    assert inventory.cluster_id is None and {one.broker_id for one in inventory.log_dirs} == {0, 1}
    assert {one.epoch_file.state for one in inventory.replicas} == {"missing"}
    assert {(one.topic_id, one.checkpoint_epochs) for one in inventory.replicas} == {(None, None)}
    assert {one.log_start_file.state for one in inventory.replicas} == {"missing"}


def test_a_moving_partition_gets_the_checkpoint_of_the_disk_its_directory_is_on():
    inventory = find(FIXTURES / "jbod-moving")
    wide = [one for one in inventory.replicas if (one.topic, one.partition, one.broker_id) == ("wide", 0, 0)]
    assert [(one.log_dir, one.high_watermark_checkpoint) for one in wide] == [("broker-0/disk-b", 86)]
    orphans = {
        (one.log_dir, one.topic, one.partition, one.value)
        for one in inventory.orphan_checkpoints
        if one.file.startswith("repl")
    }
    assert ("broker-0/disk-a", "wide", 0, 17) in orphans
    assert inventory.counts["directory_future"] == 3 and inventory.duplicates == ()


def test_one_broker_copied_twice_is_a_duplicate_and_both_copies_are_kept():
    inventory = find(FIXTURES / "corrupted-same-broker-id")
    assert inventory.duplicates == (DuplicateReplica(0, "codecs", 1, ("broker-0", "broker-2")),)
    assert len(inventory.replicas) == 2


@pytest.mark.parametrize(
    ("capture", "file", "state"),
    [
        ("corrupted-hw-garbage", "high_watermark_file", "malformed"),
        ("corrupted-hw-missing", "high_watermark_file", "missing"),
        ("corrupted-hw-empty", "high_watermark_file", "empty"),
        ("corrupted-hw-no-entry", "high_watermark_file", "present"),
        ("corrupted-epoch-words", "epoch_file", "malformed"),
        ("corrupted-epoch-missing", "epoch_file", "missing"),
        ("corrupted-epoch-empty", "epoch_file", "empty"),
        ("corrupted-epoch-crlf", "epoch_file", "present"),
    ],
)
def test_the_state_of_a_checkpoint_is_told_and_only_the_unreadable_is_in_quarantine(capture, file, state):
    inventory = find(FIXTURES / capture)
    damaged = next(one for one in inventory.replicas if one.broker_id == 2)
    assert getattr(damaged, file).state == state
    if capture.startswith("corrupted-hw"):
        assert damaged.high_watermark_checkpoint is None
    rows = [(row.code, row.broker_id, row.path) for row in inventory.quarantine]
    assert rows == ([("CAP-UNREADABLE", 2, getattr(damaged, file).path)] if state == "malformed" else [])


def test_a_topic_id_that_cannot_be_read_is_a_problem_of_the_replica():
    inventory = find(FIXTURES / "corrupted-topic-id-garbage")
    damaged = next(one for one in inventory.replicas if one.broker_id == 2)
    assert damaged.topic_id is None and "nonsense" in damaged.problem
    assert [(row.topic, row.partition) for row in inventory.quarantine] == [("codecs", 1)]


def test_indexes_without_their_log_are_told():
    inventory = find(FIXTURES / "corrupted-segment-missing-middle")
    assert {one.broker_id: 68 in one.index_bases for one in inventory.replicas} == {0: False, 2: True}


def test_odd_directories_are_counted_and_one_that_is_no_partition_is_named(tmp_path):
    shutil.copytree(FIXTURES / "corrupted-odd-dirs", tmp_path / "s")
    (tmp_path / "s/broker-2/lost+found").mkdir()
    write(tmp_path / "s/broker-2/remote-log-index-cache/x.index", b"1")
    inventory = find(tmp_path / "s")
    counts = inventory.counts
    assert (counts["directory_delete"], counts["directory_future"], counts["directory_stray"]) == (1, 1, 1)
    assert [(row.code, row.path) for row in inventory.quarantine] == [("INPUT-IGNORED", "broker-2/lost+found")]
    assert len(inventory.replicas) == 2


def test_a_whole_capture_with_dumps_and_a_recovered_log_dir(tmp_path):
    shutil.copytree(FIXTURES / "corrupted-flip-crc", tmp_path / "s")
    shutil.copytree(tmp_path / "s/broker-2", tmp_path / "s/recovered")
    (tmp_path / "s/recovered/meta.properties").unlink()
    write(tmp_path / "s/dump/broker-2.batches.txt", "Dumping x")
    write(tmp_path / "s/some.dump.txt", "Dumping x")
    write(tmp_path / "s/batches.jsonl", "{}")
    inventory = find(tmp_path / "s")
    assert [(row.code, row.path) for row in inventory.quarantine] == [
        ("INPUT-IGNORED", "batches.jsonl"),  # not the columns of such a table
        ("INPUT-IGNORED", "dump/broker-2.batches.txt"),  # nor a listing of kafka-dump-log
        ("CAP-UNREADABLE", "recovered"),
        ("CAP-UNREADABLE", "some.dump.txt"),
    ]
    assert (inventory.counts["dump_text"], inventory.counts["batch_table"]) == (2, 1)
    assert {one.log_dir for one in inventory.replicas} == {"broker-0", "broker-2"}


def test_the_snapshot_may_be_a_log_dir_itself(tmp_path):
    shutil.copytree(FIXTURES / "healthy/broker-1", tmp_path / "data")
    inventory = find(tmp_path / "data")
    assert [(one.path, one.broker_id) for one in inventory.log_dirs] == [("", 1)]
    assert len(inventory.replicas) == 19 and all(not one.path.startswith("/") for one in inventory.replicas)
    (tmp_path / "data/meta.properties").unlink()
    assert [row.path for row in find(tmp_path / "data").quarantine] == ["."]
    (tmp_path / "data").rename(tmp_path / "broker-4")
    assert {one.broker_id for one in find(tmp_path / "broker-4").replicas} == {4}


def test_broker_ids_come_from_meta_properties_then_from_the_name_above(tmp_path):
    partition(tmp_path / "hosts/broker-12/disk-a", "t-0")
    partition(tmp_path / "broker-3", "t-0")
    meta(tmp_path / "broker-3", 7)
    write(tmp_path / "broker-5/meta.properties", "node.id=x\n")
    partition(tmp_path / "broker-5", "t-0")
    inventory = find(tmp_path)
    assert {(one.log_dir, one.broker_id) for one in inventory.replicas} == {
        ("hosts/broker-12/disk-a", 12),
        ("broker-3", 7),
        ("broker-5", 5),
    }
    assert [(row.code, row.path) for row in inventory.quarantine] == [("CAP-UNREADABLE", "broker-5/meta.properties")]


@pytest.mark.parametrize("content", ["", "\0" * 90, "version=1\ncluster.id=a\n"])
def test_a_meta_properties_without_an_id_is_damaged_though_the_name_above_has_one(content, tmp_path):
    write(tmp_path / "broker-5/meta.properties", content)
    partition(tmp_path / "broker-5", "t-0")
    inventory = find(tmp_path)
    assert [one.broker_id for one in inventory.replicas] == [5]
    (row,) = inventory.quarantine
    assert (row.code, row.path, row.position) == ("CAP-UNREADABLE", "broker-5/meta.properties", 0)
    assert "expected a line node.id= or broker.id=, found none; with KRaft no broker starts so" in row.reason


def test_log_dirs_of_another_cluster_are_left_out_and_said(tmp_path):
    for broker, cluster in ((0, "a"), (1, "a"), (2, "b")):
        meta(tmp_path / f"broker-{broker}", broker, cluster)
        partition(tmp_path / f"broker-{broker}", "t-0")
    inventory = find(tmp_path)
    assert inventory.cluster_id == "a"
    assert {one.broker_id for one in inventory.replicas} == {0, 1}
    assert [(row.code, row.path, row.broker_id) for row in inventory.quarantine] == [
        ("META-FOREIGN-DIR", "broker-2", 2)
    ]


@pytest.mark.parametrize(
    ("name", "content", "topic_id", "is_told"),
    [
        (f"t-0.{HEX}-stray", b"x" * 100, None, True),
        (f"t-0.{HEX}-stray", b"", None, False),
        (f"t-0.{HEX}-stray", b"x" * 100, UUID, False),
        (f"t-0.{HEX}-delete", b"x" * 100, None, False),
        (f"other-0.{HEX}-stray", b"x" * 100, None, False),
    ],
)
def test_a_stray_log_without_its_topic_id_may_be_that_of_the_partition(name, content, topic_id, is_told, tmp_path):
    """What 4.3.1 and 3.9.1 left of a log whose partition.metadata was gone, beside the empty one that they began."""
    meta(tmp_path / "broker-1", 1)
    partition(tmp_path / "broker-1", "t-0")
    partition(tmp_path / "broker-1", name, content, topic_id=topic_id)
    told = [(row.code, row.path, row.broker_id) for row in find(tmp_path).quarantine]
    assert told == ([("CAP-UNREADABLE", f"broker-1/{name}", 1)] if is_told else [])


def test_a_stray_log_without_its_topic_id_is_no_trace_where_no_ids_were_copied(tmp_path):
    meta(tmp_path / "broker-1", 1)
    partition(tmp_path / "broker-1", "t-0", topic_id=None)
    partition(tmp_path / "broker-1", f"t-0.{HEX}-stray", b"x" * 100, topic_id=None)
    assert not find(tmp_path).quarantine


def test_topics_are_chosen_by_shell_patterns_on_the_whole_name(tmp_path):
    meta(tmp_path / "b", 1)
    for name in ("pay-0", "pay-1", "payments-0", "Pay-0", "x.pay-0"):
        partition(tmp_path / "b", name)
    assert {one.topic for one in find(tmp_path, "pay").replicas} == {"pay"}
    assert {one.topic for one in find(tmp_path, "pay*", "x.?ay").segments} == {"pay", "payments", "x.pay"}
    inventory = find(tmp_path, "nothing")
    assert inventory.replicas == () and inventory.topics == ("Pay", "pay", "payments", "x.pay")
    assert inventory.counts["log"] == 5


def test_deleted_cleaned_and_swap_files_are_resolved_as_kafka_does(tmp_path):
    meta(tmp_path / "b", 1)
    folder = tmp_path / "b/t-0"
    for base, count in ((0, 5), (5, 5), (10, 5), (15, 5)):
        write(folder / f"{base:020d}.log", encode_batch(base, count, 0))
    write(folder / f"{20:020d}.log.deleted", b"x")
    # A cleaned segment that replaces those of 0 and 5, and ends below 10.
    write(folder / f"{0:020d}.log.swap", encode_batch(0, 1, 0, last_offset_delta=9))
    inventory = find(tmp_path)
    names = [segment.path.rpartition("/")[2] for segment in inventory.segments]
    assert names == [f"{0:020d}.log.swap", f"{10:020d}.log", f"{15:020d}.log"]
    assert inventory.counts["log_superseded_by_swap"] == 2 and inventory.counts["log_deleted"] == 1
    # With a .cleaned at or below it the .swap is the rest of an incomplete split.
    write(folder / f"{0:020d}.log.cleaned", b"x")
    names = [segment.path.rpartition("/")[2] for segment in find(tmp_path).segments]
    assert names == [f"{base:020d}.log" for base in (0, 5, 10, 15)]


def test_leadership_and_manifest_of_the_root(tmp_path):
    meta(tmp_path / "b", 1)
    partition(tmp_path / "b", "t-0")
    write(tmp_path / "my-topics-describe-1.txt", "Topic: t\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1\nnoise\n")
    write(tmp_path / "my-topics-describe-2.txt", "Topic: t\tPartition: 0\tLeader: 2\tReplicas: 1\tIsr: 1\n")
    write(tmp_path / "leadership.json", '[{"topic": "t", "partition": 0, "leader": 3}]')
    write(tmp_path / "manifest.json", '{"schema_version": 1, "quiesced": true}')
    inventory = find(tmp_path)
    assert [(one.source, one.leader_id) for one in inventory.leaderships] == [("topics_describe", 2), ("user", 3)]
    assert inventory.manifest.quiesced is True
    assert [(row.code, row.path) for row in inventory.quarantine] == [("INPUT-IGNORED", "my-topics-describe-1.txt")]
    write(tmp_path / "leadership.json", "[")
    write(tmp_path / "manifest.json", "{}")
    inventory = find(tmp_path)
    assert [row.path for row in inventory.quarantine if row.code == "CAP-UNREADABLE"] == [
        "leadership.json",
        "manifest.json",
    ]
    assert inventory.manifest is None


def test_links_that_lead_back_out_or_nowhere_and_pipes_are_survived_and_said(tmp_path):
    meta(tmp_path / "s/b", 1)
    partition(tmp_path / "s/b", "t-0", encode_batch(0, 2, 0))
    (tmp_path / "s/b/loop").symlink_to(tmp_path / "s")
    (tmp_path / "s/broken").symlink_to(tmp_path / "s/nowhere")
    os.mkfifo(tmp_path / "s/b/t-0/00000000000000000009.log")
    (tmp_path / "s/b/t-0/leader-epoch-checkpoint").unlink()
    os.mkfifo(tmp_path / "s/b/t-0/leader-epoch-checkpoint")
    os.mkfifo(tmp_path / "s/b/t-0/00000000000000000000.index")
    partition(tmp_path / "elsewhere", "u-0")
    (tmp_path / "s/b/u-0").symlink_to(tmp_path / "elsewhere/u-0")
    (tmp_path / "s/c").symlink_to("b")
    inventory = find(tmp_path / "s")
    assert {one.topic: one.segment_bases for one in inventory.replicas} == {"t": (0, 9), "u": ()}
    replica = next(one for one in inventory.replicas if one.topic == "t")
    assert replica.epoch_file.state == "unreadable" and "a named pipe" in replica.epoch_file.problem
    rows = {row.path: (row.code, row.topic) for row in inventory.quarantine}
    assert rows == {
        "b/loop": ("CAP-UNREADABLE", None),
        "b/t-0/00000000000000000000.index": ("CAP-UNREADABLE", None),
        "b/t-0/leader-epoch-checkpoint": ("CAP-UNREADABLE", "t"),
        "b/u-0": ("CAP-UNREADABLE", "u"),
        "broken": ("CAP-UNREADABLE", None),
        "c": ("INPUT-IGNORED", None),
    }
    assert not any(str(tmp_path) in row.reason for row in inventory.quarantine)
    with pytest.raises(OSError, match="a named pipe"):
        Snapshot.open(tmp_path / "s").open_file("b/t-0/00000000000000000009.log")


def test_dotfiles_and_underscores_are_listed(tmp_path):
    for name in (".kafka_cleanshutdown", "_x", ".hidden/y", "__consumer_offsets-0/00000000000000000000.log"):
        write(tmp_path / "b" / name)
    meta(tmp_path / "b", 1)
    inventory = find(tmp_path)
    assert file_counts(inventory) == 5
    assert inventory.log_dirs[0].clean_shutdown and [one.topic for one in inventory.replicas] == ["__consumer_offsets"]


def test_a_snapshot_is_opened_by_path_or_uri_and_travels_to_executors(tmp_path):
    write(tmp_path / "a b/x#y", b"data")
    for target in (str(tmp_path), tmp_path, tmp_path.as_uri()):
        snapshot = pickle.loads(pickle.dumps(Snapshot.open(target)))
        assert [entry.path for entry in snapshot.list_tree().entries] == ["a b", "a b/x#y"]
        assert snapshot.read_bytes("a b/x#y") == b"data"
        with snapshot.open_file("a b/x#y") as stream:
            stream.seek(2)
            assert stream.read() == b"ta"
    with pytest.raises(FileNotFoundError):
        Snapshot.open(str(tmp_path / "none"))
    with pytest.raises(NotADirectoryError):
        Snapshot.open(str(tmp_path / "a b/x#y"))
    with pytest.raises(ValueError, match="gopher"):
        Snapshot.open("gopher://x/y")


def test_discovering_changes_nothing(tmp_path):
    shutil.copytree(FIXTURES / "jbod-moving", tmp_path / "s")
    before = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in (tmp_path / "s").rglob("*")}
    find(tmp_path / "s")
    assert {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in (tmp_path / "s").rglob("*")} == before


@pytest.mark.parametrize(
    ("name", "kind", "topic_partition"),
    [
        ("t-0", "current", TopicPartition("t", 0)),
        ("a-b.c_d-12", "current", TopicPartition("a-b.c_d", 12)),
        (f"t-0.{HEX}-delete", "delete", TopicPartition("t", 0)),
        (f"t.x-0.{HEX}-future", "future", TopicPartition("t.x", 0)),
        (f"t-0.{HEX}-stray", "stray", TopicPartition("t", 0)),
        (f"cut-sho.{HEX}-delete", "delete", None),
        ("__cluster_metadata-0", "metadata", TopicPartition("__cluster_metadata", 0)),
        ("lost+found", "other", None),
        ("-0", "other", None),
        ("t-", "other", None),
        ("t--1", "current", TopicPartition("t-", 1)),
        ("t-99999999999", "other", None),
        ("t-٣", "other", None),
    ],
)
def test_names_of_directories(name, kind, topic_partition):
    assert parse_directory_name(name) == (kind, topic_partition)


@pytest.mark.parametrize(
    ("name", "counted_as", "base_offset"),
    [
        ("00000000000000000042.log", "log", 42),
        ("00000000000000000042.index.deleted", "index_deleted", 42),
        ("00000000000000000042.timeindex.cleaned", "timeindex_cleaned", 42),
        ("00000000000000000042.log.swap", "log_swap", 42),
        ("00000000000000000042.snapshot", "snapshot", 42),
        ("00000000000000000042.txnindex", "txnindex", 42),
        ("00000000000000000042-0000000003.checkpoint", "kraft_snapshot", 42),
        ("00000000000000000042-0000000003.checkpoint.deleted", "kraft_snapshot_deleted", 42),
        ("leader-epoch-checkpoint", "epoch_checkpoint", None),
        ("leader-epoch-checkpoint.tmp", "tmp", None),
        ("partition.metadata", "partition_metadata", None),
        ("quorum-state", "quorum_state", None),
        ("42.log", "unknown", None),
        ("99999999999999999999.log", "unknown", None),
        ("00000000000000000042.log.bak", "unknown", None),
    ],
)
def test_names_of_files(name, counted_as, base_offset):
    parsed = parse_file_name(name)
    assert (parsed.counted_as, parsed.base_offset) == (counted_as, base_offset)


def test_a_remote_tree_is_listed_as_a_local_one():
    from pyarrow import fs

    remote = Snapshot(
        "other://x", "jbod-moving", ObjectStore(fs.SubTreeFileSystem(str(FIXTURES), fs.LocalFileSystem()))
    )
    local = Snapshot.open(str(FIXTURES / "jbod-moving"))
    assert [(one.path, one.size, one.is_dir) for one in remote.list_tree().entries] == [
        (one.path, one.size, one.is_dir) for one in local.list_tree().entries
    ]
    assert discover(remote) == discover(local)


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 200_000])
def test_a_small_file_is_read_whole_and_one_above_the_limit_not_at_all(tmp_path, size):
    data = bytes(range(256)) * (size // 256 + 1)
    (tmp_path / "x").write_bytes(data[:size])
    snapshot = Snapshot.open(tmp_path)
    assert snapshot.read_bytes("x") == snapshot.read_bytes("x", size) == data[:size]
    if size:
        with pytest.raises(FormatError):
            snapshot.read_bytes("x", size - 1)


@pytest.mark.parametrize("role", ["broker", "controller"])
def test_a_directory_is_named_by_any_id_that_a_node_may_have(role):
    for name, node_id in ((f"{role}-1234567890", 1234567890), (f"{role}-2147483648", None), (f"{role}-1x", None)):
        node = parse_node_name(name)
        assert (node.node_id if node is not None and not node.rest else None) == node_id
        assert broker_of_directory(name) == (node_id if role == "broker" else None)
    assert parse_node_name("broker-1_orders-0.dump.txt") == ("broker", 1, "_orders-0.dump.txt")
