"""No byte is scanned twice: what an ingest takes over from an earlier one is what a scan of every file gives. No JVM."""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path

import pytest
from tests.support.encoder import encode_batch
from tests.support.fixtures import FIXTURES
from tests.support.known_batches import directories, ingest
from tests.support.snapshots import Replica, write_snapshot

from replica_audit.model import SegmentFile
from replica_audit.runner.scanning import scan_task
from replica_audit.runner.task_planning import SegmentWork, deal_work
from replica_audit.segments.known_segments import KnownSegment
from replica_audit.snapshot.opening import open_snapshot
from replica_audit.warehouse.delta_tables import Warehouse
from replica_audit.warehouse.known_batches import EarlierSegments
from replica_audit.warehouse.table_files import BatchFileWriter

CAPTURES = (
    "healthy",
    "old-formats",
    "compacted-skewed-1",
    "corrupted-middle-zeros",
    "corrupted-tail-torn",
    "live-torn",
)


@pytest.fixture
def warehouse(tmp_path):
    return Warehouse(str(tmp_path / "warehouse"))


def copy(source, target):
    """A copy as rsync -a or cp -p leaves it: other files, the times of the originals."""
    return Path(shutil.copytree(source, target, symlinks=True))


def sizes(path):
    return sum(file.size_bytes for file in open_snapshot(str(path), (), None)[1].segments)


@pytest.mark.parametrize("capture", CAPTURES)
def test_a_copy_of_a_capture_is_taken_over_whole_and_reads_headers_only(warehouse, tmp_path, capture):
    first, read, _ = ingest(warehouse, FIXTURES / capture, "1")
    assert read.read_bytes >= sizes(FIXTURES / capture) and not read.known_segments
    again, read, segments = ingest(warehouse, copy(FIXTURES / capture, tmp_path / "copy"), "2")
    assert again == first
    assert read.read_bytes <= 2 * 61 * len(segments) and read.known_bytes == sizes(FIXTURES / capture)
    assert read.known_segments == len(segments)
    # What was taken over can be taken over again.
    third, read, segments = ingest(warehouse, FIXTURES / capture, "3")
    assert third == first and read.known_segments == len(segments)


def log(path, days, seed=7, partitions=3):
    """Two brokers after so many days: a segment rolls each day, and the last one goes on growing. Times are kept by copying."""
    replicas = {1: [], 2: []}
    for own in replicas.values():
        for number in range(partitions):
            source = random.Random(f"{seed} {number}")
            offset, batches, epochs = 0, [], []
            for day in range(days):
                epochs.append((day, offset))
                for _ in range(source.randint(2, 9)):
                    count = source.randint(1, 5)
                    batches.append(encode_batch(offset, count, day, mark="m" * source.randint(0, 300)))
                    offset += count
            own.append(Replica(batches, epochs, topic_id=None, partition=number, per_segment=7))
    write_snapshot(path, replicas, cluster_id="c")
    # A rolled segment is not touched again; the time tells the day.
    for file in path.rglob("*.log"):
        os.utime(file, ns=(10**18, 10**18 + file.stat().st_size))
    return path


def change(path, pattern, how):
    """Change the first segment that matches, and say which."""
    file = sorted(path.glob(pattern))[0]
    how(file)
    return file


def rewrite(keep_time):
    def apply(file):
        state, data = file.stat(), bytearray(file.read_bytes())
        data[:] = encode_batch(int(file.stem), 1, 5, mark="z" * 40) + data
        file.write_bytes(data[: state.st_size])
        if keep_time:
            os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))

    return apply


def flip_inside(keep_time):
    def apply(file):
        state, data = file.stat(), bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
        if keep_time:
            os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))

    return apply


CHANGES = {
    "nothing": lambda file: None,
    "cut": lambda file: os.truncate(file, file.stat().st_size * 2 // 3),
    "replaced in the same size": rewrite(keep_time=False),
    "replaced in the same size and time": rewrite(keep_time=True),
    "renamed": lambda file: file.rename(file.with_name(f"{int(file.stem) + 1:020d}.log")),
    "deleted": lambda file: file.unlink(),
    "damaged inside": flip_inside(keep_time=False),
    "a torn batch at the end": lambda file: file.write_bytes(file.read_bytes() + encode_batch(900, 3, 9)[:40]),
    "zeros at the end": lambda file: file.write_bytes(file.read_bytes() + bytes(500)),
    "emptied": lambda file: file.write_bytes(b""),
}


@pytest.mark.parametrize("name", CHANGES)
def test_the_next_day_gives_what_a_full_scan_gives(warehouse, tmp_path, name):
    """The change is made to a segment with any number of others before and after it."""
    ingest(warehouse, log(tmp_path / "1", 4, partitions=2), "1", cores=2)
    day = log(tmp_path / "2", 5, partitions=2)
    change(day, random.Random(name).choice(["broker-1/orders-0/*.log", "broker-2/orders-1/*[1-9].log"]), CHANGES[name])
    found, read, _ = ingest(warehouse, day, "2", cores=2)
    full, read_fully, segments = ingest(warehouse, day, "3", full=True)
    assert found == full and found[2]
    assert 0 < read.known_segments < len(segments) and read.read_bytes < read_fully.read_bytes
    assert read_fully.known_bytes == 0


def test_a_grown_segment_is_read_from_where_it_ended(warehouse, tmp_path):
    ingest(warehouse, log(tmp_path / "1", 3, partitions=1), "1")
    day = copy(tmp_path / "1", tmp_path / "2")
    last = sorted(day.glob("broker-1/orders-0/*.log"))[-1]
    new = encode_batch(500, 2, 9, mark="n" * 200)
    last.write_bytes(last.read_bytes() + new)
    found, read, segments = ingest(warehouse, day, "2")
    # Of every file two headers at most, of this one two more, which the next ingest will know it by.
    assert read.read_bytes <= len(new) + 61 * 2 * (len(segments) + 1)
    assert read.known_bytes == sizes(day) - len(new) and read.known_segments == len(segments) - 1
    assert found == ingest(warehouse, day, "3", full=True)[0]


def test_damage_inside_a_copy_that_keeps_size_time_and_both_headers_is_seen_by_a_full_scan_only(warehouse, tmp_path):
    """As docs/operations.md says. The file itself, still that inode at that place, tells by its inode's time."""
    path = log(tmp_path / "1", 4)
    first, _, _ = ingest(warehouse, path, "1")
    day = copy(path, tmp_path / "2")
    change(day, "broker-1/orders-0/*.log", flip_inside(keep_time=True))
    assert ingest(warehouse, day, "2")[0] == first
    full = ingest(warehouse, day, "3", full=True)[0]
    assert full != first and any(not row["crc_valid"] for row in full[2])
    change(path, "broker-2/orders-0/*.log", flip_inside(keep_time=True))
    assert any(not row["crc_valid"] for row in ingest(Warehouse(str(tmp_path / "other")), path, "4")[0][2])
    own = Warehouse(str(tmp_path / "own"))
    ingest(own, day, "5", full=True)
    change(day, "broker-2/orders-0/*.log", flip_inside(keep_time=True))
    assert ingest(own, day, "6")[0] == ingest(own, day, "7", full=True)[0]


@pytest.mark.parametrize("spoil", ["gone", "rubbish", "other rows"])
def test_batches_that_the_warehouse_lost_are_scanned_again(warehouse, tmp_path, spoil):
    path = log(tmp_path / "1", 4)
    first, _, segments = ingest(warehouse, path, "1", cores=2)
    name = segments[0]["batch_file"]
    file = Path(warehouse.directory("batches"), name)
    if spoil == "gone":
        file.unlink()
    elif spoil == "rubbish":
        content = bytearray(file.read_bytes())
        content[len(content) // 4 : len(content) // 2] = bytes(len(content) // 2 - len(content) // 4)
        file.write_bytes(content)
    else:
        shutil.copy(_written_elsewhere(tmp_path), file)
    before = set(Path(warehouse.directory("batches")).glob("*.parquet"))
    snapshot, inventory = open_snapshot(str(copy(path, tmp_path / "2")), (), None)
    known = EarlierSegments.of(warehouse, "c").find(inventory.segments)
    works = [SegmentWork(one, known[one.broker_id, one.path]) for one in inventory.segments]
    part = scan_task(snapshot, works, directories(warehouse), {"cluster_id": "c", "ingest_id": "2"})
    assert part.read.known_segments == 0 and part.read.read_bytes >= sizes(path)
    assert part.files["batches"].row_count == len(first[2])
    assert {one.path: one.digest for one in part.digests} == {
        row["path"]: json.loads(row["summary"])["digest"] for row in segments
    }
    after = set(Path(warehouse.directory("batches")).glob("*.parquet"))
    assert {one.name for one in after - before} == {part.files["batches"].path}, "what the first try wrote is gone"


def _written_elsewhere(tmp_path):
    other = Warehouse(str(tmp_path / "elsewhere"))
    rows = ingest(other, log(tmp_path / "0", 4, seed=8), "1")[2]
    return Path(other.directory("batches"), rows[0]["batch_file"])


def test_ingests_of_different_topics_know_what_they_know_together(warehouse, tmp_path):
    path = copy(FIXTURES / "healthy", tmp_path / "1")
    topics = sorted({file.topic for file in open_snapshot(str(path), (), None)[1].segments})
    assert len(topics) > 1
    for number, topic in enumerate((topics[0], topics[1], topics[0])):
        _, read, segments = ingest(warehouse, path, str(number), topics=(topic,))
        assert read.known_segments == (len(segments) if number == 2 else 0)
    _, read, segments = ingest(warehouse, path, "all")
    assert read.known_segments == sum(row["topic"] in topics[:2] for row in segments)


def test_a_cluster_does_not_know_the_segments_of_another(warehouse, tmp_path):
    path = log(tmp_path / "1", 2)
    ingest(warehouse, path, "1")
    files = open_snapshot(str(path), (), None)[1].segments
    assert len(EarlierSegments.of(warehouse, "c").find(files)) == len(files)
    assert EarlierSegments.of(warehouse, "d").find(files) == EarlierSegments.of(warehouse, None).find(files) == {}


def test_what_cannot_be_written_is_no_fault_of_the_segment(warehouse, tmp_path, monkeypatch):
    snapshot, inventory = open_snapshot(str(log(tmp_path / "1", 1)), (), None)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(BatchFileWriter, "add", full)
    with pytest.raises(OSError, match="No space left"):
        scan_task(snapshot, [SegmentWork(file) for file in inventory.segments], directories(warehouse), {})


def test_what_is_known_is_dealt_out_in_stretches_that_no_two_tasks_share():
    def work(number, known):
        file = SegmentFile(1, "broker-1", "orders", number, f"broker-1/orders-{number}/0.log", 0, 1000)
        place = {"batch_file": f"f{number % 2}", "batch_row": 10**5 * number}
        return SegmentWork(file, KnownSegment("/a", 1000, 10**5, "1 2 3", "h", 0, "s", 0, **place) if known else None)

    works = [work(number, known=number % 5 > 0) for number in range(500)]
    tasks = deal_work(random.Random(1).sample(works, len(works)), 4)
    assert sorted((one for task in tasks for one in task), key=lambda one: one.file.partition) == works
    assert len(tasks) > 4
    for task in tasks:
        places = [(one.known.batch_file, one.known.batch_row) for one in task if one.known]
        breaks = sum(
            two[0] != one[0] or two[1] - one[1] > 4 * 10**5 for one, two in zip(places, places[1:], strict=False)
        )
        assert len(places) >= 10 and breaks <= 5
