"""Discovery by tasks finds what one pass finds, whatever is among the directories of partitions."""

from __future__ import annotations

import json
import os
import shutil
import tracemalloc
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from pyarrow import fs
from tests.support.fixtures import CAPTURES, FIXTURES
from tests.support.spread import as_one_pass, spread_everything, spreading

from replica_audit.model import Leadership, ReplicaDir
from replica_audit.snapshot import storage
from replica_audit.snapshot.discovery import discover
from replica_audit.snapshot.file_tree import Tree
from replica_audit.snapshot.log_dir_names import OFFSET_CHECKPOINTS
from replica_audit.snapshot.object_store import ObjectStore
from replica_audit.snapshot.overtaken import marked_if_overtaken
from replica_audit.snapshot.packed_replicas import PackedReplicas
from replica_audit.snapshot.spread_discovery import AllReplicas, FoundDirs, PackedDirs, read_spread
from replica_audit.snapshot.storage import Snapshot

CAPTURE = "retention-skewed"


def discovered(place: Path | Snapshot, topics: tuple[str, ...] = ()) -> tuple[int, int]:
    """Replicas that tasks have read, and those that were left; all that is found is what one pass finds."""
    snapshot = place if isinstance(place, Snapshot) else Snapshot.open(place)
    found, one_pass = discover(snapshot, topics, spreading()), discover(snapshot, topics)
    assert as_one_pass(found) == one_pass
    assert found.replica_count == len(one_pass.replicas)
    assert found.segment_count == len(one_pass.all_segments)
    assert found.segment_bytes == sum(file.size_bytes for file in one_pass.all_segments)
    assert list(found.spread) == sorted(found.spread, key=lambda one: (one.topic, one.partition, one.broker_id))
    return len(found.spread), len(found.replicas)


def without_dumps(name: str, directory: Path) -> Path:
    """A capture without texts of kafka-dump-log: with these, one pass reads all."""
    return shutil.copytree(
        FIXTURES / name, directory / "copy", symlinks=True, ignore=lambda _, names: {"dump"} & {*names}
    )


@pytest.fixture(autouse=True)
def of_everything(monkeypatch):
    spread_everything(monkeypatch)


@pytest.fixture
def copy(tmp_path) -> Path:
    return without_dumps(CAPTURE, tmp_path)


def partition_directories(copy: Path) -> list[Path]:
    return sorted(path.parent for path in copy.glob("*/*/leader-epoch-checkpoint") if "-" in path.parent.name)


@pytest.mark.parametrize("name", CAPTURES)
def test_tasks_read_of_a_capture_what_one_pass_reads(name, tmp_path):
    discovered(without_dumps(name, tmp_path))


def write_leaders(copy: Path, replicas: Iterable[ReplicaDir], told: Mapping[str, object]) -> None:
    """A leadership.json in which these lead."""
    leaders = [{"topic": one.topic, "partition": one.partition, "leader": one.broker_id, **told} for one in replicas]
    (copy / "leadership.json").write_text(json.dumps(leaders))


@pytest.mark.parametrize("name", ["diverged-unclean", "reassigned-2-done"])
@pytest.mark.parametrize("told", [{"leader_epoch": 0}, {"leader_epoch": 0, "isr": [0, 1, 2]}, {"isr": [0, 1, 2]}, {}])
def test_a_file_that_is_older_than_the_logs_is_recognised(name, told, tmp_path):
    copy = without_dumps(name, tmp_path)
    answers = set()
    for replica in discover(Snapshot.open(copy)).replicas:
        write_leaders(copy, [replica], told)
        snapshot = Snapshot.open(copy)
        found = discover(snapshot, (), spreading())
        assert as_one_pass(found) == discover(snapshot)
        (one,) = (one for one in found.leaderships if one.source == "user")
        answers.add(one.overtaken)
    assert answers == ({True, False} if told else {False})


@pytest.mark.parametrize(("epoch", "is_read"), [(1 << 20, False), (0, True)])
def test_packs_are_read_only_where_a_log_may_be_newer_than_a_file(epoch, is_read, tmp_path, monkeypatch):
    spread = discover(Snapshot.open(without_dumps("diverged-unclean", tmp_path)), (), spreading()).spread
    told = {
        (one.topic, one.partition): Leadership(one.topic, one.partition, "user", one.broker_id, epoch, (one.broker_id,))
        for one in spread
    }
    read = []
    unpack = PackedReplicas.unpack
    monkeypatch.setattr(PackedReplicas, "unpack", lambda pack: (read.append(pack), unpack(pack))[1])
    marked = marked_if_overtaken(told.values(), AllReplicas((), spread))
    assert bool(read) == is_read and {one.overtaken for one in marked} == {is_read}


def test_most_directories_are_read_by_tasks(copy):
    spread, left = discovered(copy)
    assert spread > 4 and spread > left


@pytest.mark.parametrize("size", [1, 2, 1000])
def test_however_directories_are_dealt_out(monkeypatch, copy, size):
    spread_everything(monkeypatch, stretch=size, pack=size, large=100 * (size - 1))
    assert discovered(copy)[0] > 4


def test_topics_that_are_not_wanted_are_counted(copy):
    topics = {path.name.rpartition("-")[0] for path in partition_directories(copy)}
    for topic in (*sorted(topics), "none"):
        discovered(copy, (topic,))


def test_few_are_read_in_one_pass(monkeypatch, copy):
    monkeypatch.setattr("replica_audit.snapshot.spread_discovery.SPREAD_ABOVE", 10_000)
    assert discovered(copy)[0] == 0


def _link(place: Path) -> None:
    """The directory lies elsewhere in the snapshot, where a link leads to."""
    elsewhere = place.parent.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / place.name).symlink_to(place.rename(elsewhere / f"moved {place.name}"))
    place.symlink_to(elsewhere / f"moved {place.name}")


def _link_out(place: Path) -> None:
    outside = place.parent.parent.parent / "outside"
    place.rename(outside)
    place.symlink_to(outside)


def _second_copy(place: Path) -> None:
    """The broker has another log dir with a copy of the partition."""
    other = place.parent.parent / "broker-other"
    shutil.copytree(place, other / place.name)
    shutil.copy(place.parent / "meta.properties", other)


def _foreign(place: Path) -> None:
    path = place.parent / "meta.properties"
    path.write_text("version=1\nnode.id=1\ncluster.id=another\n")


def _unsound_checkpoint(place: Path) -> None:
    (place / "leader-epoch-checkpoint").write_text("0\n1\nx\n")
    (place.parent / "replication-offset-checkpoint").write_text("nothing of the kind")


def _nested_log_dir(place: Path) -> None:
    """A directory in that of a partition is a log dir."""
    shutil.copytree(place, place / "inner" / "nested-0")
    (place / "inner" / "meta.properties").write_text("version=1\nnode.id=77\n")


ODDITIES = {
    "a link": _link,
    "a link that leads out": _link_out,
    "a second copy": _second_copy,
    "a foreign cluster": _foreign,
    "unsound checkpoints": _unsound_checkpoint,
    "a nested log dir": _nested_log_dir,
    "a directory in it": lambda place: (place / "0").mkdir(),
    "nothing in it": lambda place: [path.unlink() for path in place.iterdir()],
    "a file in its place": lambda place: (shutil.rmtree(place), place.write_text("")),
    "a deleted segment": lambda place: (place / f"{0:020d}.log.deleted").write_bytes(b"x"),
    "a swap": lambda place: shutil.copy(next(place.glob("*.log")), place / f"{0:020d}.log.swap"),
    "a temporary file": lambda place: (place / "leader-epoch-checkpoint.tmp").write_text(""),
    "a file that leads out": lambda place: (place / f"{99:020d}.log").symlink_to("/etc/hostname"),
    "a pipe": lambda place: os.mkfifo(place / f"{99:020d}.index"),
    "a name not in UTF-8": lambda place: os.mkdir(os.fsencode(place.parent) + b"/\xff-0"),
    "another spelling": lambda place: place.rename(place.with_name(place.name.rpartition("-")[0] + "-007")),
    "put aside": lambda place: place.rename(place.with_name(f"{place.name}.{'a' * 32}-stray")),
    "text of kafka-dump-log": lambda place: (place.parent.parent / "a.dump.txt").write_text("Dumping x\n"),
    "evidence that is not listed": lambda place: (place / "segments.frames").write_bytes(b"x"),
    "a table": lambda place: (place.parent.parent / "batches.csv").write_text("broker_id,topic\n"),
    "without its owner": lambda place: (place.parent / "meta.properties").unlink(),
    "no log dir's files": lambda place: [path.unlink() for path in place.parent.iterdir() if path.is_file()],
}  # fmt: skip


@pytest.mark.parametrize("make", ODDITIES.values(), ids=ODDITIES)
def test_tasks_read_what_is_odd_as_one_pass_does(copy, make):
    place = partition_directories(copy)[1]
    make(place)
    discovered(copy)


def test_a_directory_that_cannot_be_listed(copy, monkeypatch):
    place, real = partition_directories(copy)[1], os.scandir

    def scandir(path):
        if str(path) == str(place):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(storage.os, "scandir", scandir)
    spread, left = discovered(copy)
    assert spread > left >= 1


def test_of_a_store(copy, monkeypatch):
    stored = ObjectStore(fs.SubTreeFileSystem(str(copy.parent), fs.LocalFileSystem()))
    remote = Snapshot("other://x", "copy", stored)
    monkeypatch.setattr(Snapshot, "__reduce__", lambda self: (Snapshot, ("other://x", "copy", stored)))
    assert discovered(remote) == discovered(copy)
    partition_directories(copy)[1].joinpath("0").write_text("")
    assert discovered(remote) == discovered(copy)


def test_a_further_directory_takes_little_memory_until_tasks_have_it(tmp_path):
    def peak(partitions: int) -> int:
        snapshot = tmp_path / str(partitions)
        for broker in (1, 2, 3):
            log_dir = snapshot / f"broker-{broker}"
            for number in range(partitions):
                (log_dir / f"orders-{number}").mkdir(parents=True)
            (log_dir / "meta.properties").write_text(f"version=1\nnode.id={broker}\n")
            lines = "".join(f"orders {number} {number}\n" for number in range(partitions))
            for name in OFFSET_CHECKPOINTS:
                (log_dir / name).write_text(f"0\n{partitions}\n{lines}")
        tracemalloc.start()
        reads = read_spread(Snapshot.open(snapshot), lambda _: True, Counting())
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert reads is not None and reads.counts == {"directories": 3 * partitions}
        return found

    class Counting:
        def read(self, reader, stretches):
            directories = sum(len(stretch.topic) for stretch in stretches)
            return [PackedDirs(FoundDirs((), {"directories": directories}, 0, (), Tree((), ())), (), (), b"")]

    few, many = peak(1000), peak(3000)
    # All names and files of all log dirs at once were 800 bytes each.
    assert (many - few) / (3 * 2000) < 520
