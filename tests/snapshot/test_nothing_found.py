"""Something else given as a snapshot: the error says what to give instead."""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.support.encoder import encode_batch
from tests.support.snapshots import Replica, write_log_dir

from replica_audit.errors import ReplicaAuditError, UsageError
from replica_audit.snapshot.opening import open_snapshot


def write(path: Path, broker: int = 1, partitions: Sequence[int] = (7,), cluster_id: str | None = None) -> Path:
    batches = [encode_batch(0, 5, 0)]
    replicas = [Replica(batches, topic="orders-eu", topic_id=None, partition=number) for number in partitions]
    return write_log_dir(path, broker, replicas, cluster_id=cluster_id)


def told(path: Path | str) -> str:
    with pytest.raises(ReplicaAuditError) as caught:
        open_snapshot(str(path), (), None)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_log_dir_with_its_id_is_a_snapshot_of_one_broker(tmp_path):
    _, inventory = open_snapshot(str(write(tmp_path / "data")), (), None)
    assert [one.broker_id for one in inventory.replicas] == [1]


@pytest.mark.parametrize("identity", (None, "version=1\n"))
def test_a_log_dir_without_an_id(identity, tmp_path):
    meta = write(tmp_path / "data") / "meta.properties"
    meta.unlink() if identity is None else meta.write_text(identity)
    text = told(tmp_path / "data")
    assert "log directory without a broker id" in text and "broker-<id>" in text
    (tmp_path / "whole").mkdir()
    shutil.move(tmp_path / "data", tmp_path / "whole" / "broker-4")
    _, inventory = open_snapshot(str(tmp_path / "whole"), (), None)
    assert [one.broker_id for one in inventory.replicas] == [4]


def test_the_directory_of_one_partition(tmp_path, monkeypatch):
    path = write(tmp_path / "my copy" / "broker-1") / "orders-eu-7"
    text = told(path)
    assert "is the directory of one partition: give the directory above the log directories of all brokers" in text
    assert f"replica-audit show '{tmp_path}/my copy' orders-eu-7" in text
    monkeypatch.chdir(path)
    assert "show ../.. orders-eu-7" in told(".")


def test_several_directories_without_an_id(tmp_path):
    for name in ("a", "b"):
        (write(tmp_path / name) / "meta.properties").unlink()
    text = told(tmp_path)
    assert "no broker id is known of a, b" in text and "meta.properties" in text


def test_an_archive_and_a_single_file(tmp_path):
    write(tmp_path / "broker-1")
    with tarfile.open(tmp_path / "copy.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "broker-1", "broker-1")
    assert "is an archive: unpack it" in told(tmp_path / "copy.tar.gz")
    (tmp_path / "copies").mkdir()
    shutil.copy(tmp_path / "copy.tar.gz", tmp_path / "copies" / "broker-1.tgz")
    assert told(tmp_path / "copies").endswith(
        f"copies has archives (broker-1.tgz) and no log directory: unpack each, and give {tmp_path}/copies again"
    )
    assert "is a file: give the directory" in told(tmp_path / "broker-1/meta.properties")


def test_links_that_lead_out_and_nothing_at_all(tmp_path):
    write(tmp_path / "elsewhere")
    (tmp_path / "s").mkdir()
    (tmp_path / "s/broker-1").symlink_to(tmp_path / "elsewhere")
    text = told(tmp_path / "s")
    assert "broker-1: a link that leads out of the snapshot" in text and "copy what it leads to" in text
    (tmp_path / "empty").mkdir()
    assert "no log directory found" in told(tmp_path / "empty")


@pytest.mark.parametrize("clusters", [("one", "one"), ("one", "another")], ids=["before and after", "two clusters"])
def test_a_directory_above_several_snapshots(tmp_path: Path, clusters: tuple[str, str]) -> None:
    for name, cluster in zip(("my 1st", "2nd"), clusters, strict=True):
        for broker in (1, 2):
            write(tmp_path / name / f"broker-{broker}", broker, cluster_id=cluster)
    assert told(tmp_path) == (
        f"{tmp_path} is the directory above 2 snapshots; audit one: replica-audit show {tmp_path}/2nd, replica-audit show "
        f"'{tmp_path}/my 1st'"
    )
    (tmp_path / "leadership.json").write_text('[{"topic": "orders-eu", "partition": 7, "leader": 1}]')
    open_snapshot(str(tmp_path), (), None)


def test_disks_and_racks_are_no_snapshots_of_their_own(tmp_path: Path) -> None:
    for disk in (1, 2):
        for broker in (1, 2):
            # One was moved to another disk, and is in the first one still.
            partitions = (1, 2) if (disk, broker) == (1, 1) else (disk,)
            write(tmp_path / "disks" / f"disk-{disk}" / f"broker-{broker}", broker, partitions)
            write(tmp_path / "racks" / f"rack-{disk}" / f"broker-{10 * disk + broker}", 10 * disk + broker)
            write(tmp_path / "brokers" / f"host-{broker}" / f"disk-{disk}", broker, (disk,))
    for layout in ("disks", "racks", "brokers"):
        _, inventory = open_snapshot(str(tmp_path / layout), (), None)
        assert len(inventory.log_dirs) == 4


def test_a_log_dir_of_another_cluster_is_left_out(tmp_path: Path) -> None:
    for broker in (1, 2):
        write(tmp_path / f"broker-{broker}", broker, cluster_id="one")
    write(tmp_path / "found" / "broker-3", 3, cluster_id="another")
    _, inventory = open_snapshot(str(tmp_path), (), None)
    assert [row.code for row in inventory.quarantine] == ["META-FOREIGN-DIR"]


def test_hdfs_without_hadoop_is_one_line() -> None:
    assert told("hdfs://nowhere/copies").startswith("hdfs://nowhere/copies: ")


@pytest.mark.parametrize("given", ("", "broker-1", "broker-1/kafka/orders", "broker-1/kafka/orders/0_12"))
def test_a_data_directory_of_redpanda_is_refused_by_name(given, tmp_path):
    partition = tmp_path / "broker-1/kafka/orders/0_12"
    partition.mkdir(parents=True)
    for name in ("0-1-v1.log", "0-1-v1.base_index", "4107-3-v1.log", "4107-3-v1.compaction_index"):
        (partition / name).write_bytes(b"\x01" * 100)
    (tmp_path / "broker-1/redpanda/controller/0_0").mkdir(parents=True)
    text = told(tmp_path / given)
    assert "segments of Redpanda" in text and "-v1.log" in text and "only log directories of Kafka" in text


def test_a_snapshot_that_may_not_be_read(tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda *_: False)  # root may read everything
    assert told(tmp_path) == f"{tmp_path} cannot be read: Permission denied; run this as a user that can"


@pytest.mark.parametrize("told_by_store", [(13, "Permission denied"), ("Permission denied",)])
def test_a_store_that_refuses_its_listing(told_by_store, tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(*told_by_store)

    monkeypatch.setattr("replica_audit.snapshot.opening.discover", refuse)
    assert told(tmp_path) == f"{tmp_path} cannot be read: Permission denied; run this as a user that can"


@pytest.mark.parametrize("given", ([], [{"topic": "orders-us", "partition": 7, "leader": 1}]))
def test_leaders_of_none_of_its_partitions(given, tmp_path):
    (tmp_path / "leaders.json").write_text(json.dumps(given))
    write(tmp_path / "s" / "broker-1")
    with pytest.raises(UsageError, match="--leadership .*: it names none of the partitions that are here"):
        open_snapshot(str(tmp_path / "s"), (), str(tmp_path / "leaders.json"))


def test_leaders_of_topics_that_are_not_asked_for(tmp_path):
    """One file of leaders serves the audits of all topics."""
    (tmp_path / "leaders.json").write_text(json.dumps([{"topic": "orders-eu", "partition": 0, "leader": 1}]))
    both = [Replica([encode_batch(0, 5, 0)], topic=topic) for topic in ("orders-eu", "other")]
    write_log_dir(tmp_path / "s" / "broker-1", 1, both)
    _, inventory = open_snapshot(str(tmp_path / "s"), ("other",), str(tmp_path / "leaders.json"))
    assert not [one for one in inventory.leaderships if one.source == "user"]
