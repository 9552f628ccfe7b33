"""Small segments of a task are opened and read by several threads, and are what each is by itself."""

from __future__ import annotations

import threading
import time
from functools import partial
from pathlib import Path

import pytest
from tests.support.encoder import encode_batch

from replica_audit.model import SegmentFile
from replica_audit.runner.segment_scan import OpenSegment, open_segment, scan_together
from replica_audit.runner.task_planning import SegmentWork
from replica_audit.snapshot.storage import Snapshot


def _written(root: Path, number: int, count: int) -> SegmentWork:
    content = encode_batch(0, count, 1)
    path = f"broker-1/orders-{number}/{0:020d}.log"
    (root / path).parent.mkdir(parents=True)
    (root / path).write_bytes(content)
    return SegmentWork(SegmentFile(1, "broker-1", "orders", number, path, 0, len(content)))


@pytest.mark.parametrize("count", [1, 8, 9, 10, 100])
def test_each_is_opened_once_and_told_under_its_number(tmp_path: Path, count: int) -> None:
    works = [_written(tmp_path, number, number + 1) for number in range(count)]
    (tmp_path / works[-1].file.path).unlink()
    opened: list[str] = []
    opening = partial(open_segment, Snapshot.open(str(tmp_path)), str(tmp_path))

    def open_one(work: SegmentWork) -> OpenSegment | None:
        opened.append(work.file.path)
        return opening(work)

    found = scan_together(works, open_one)
    assert sorted(opened) == sorted(work.file.path for work in works)
    assert {number: one.scanned.summary.record_count for number, one in found.items()} == {
        number: number + 1 for number in range(count - 1)
    }


def test_a_local_disk_is_not_waited_for_one_by_one(tmp_path: Path) -> None:
    works = [_written(tmp_path, number, 1) for number in range(20)]
    opening = partial(open_segment, Snapshot.open(str(tmp_path)), str(tmp_path))
    waiting: list[SegmentWork] = []
    are_enough = threading.Event()

    def open_one(work: SegmentWork) -> OpenSegment | None:
        waiting.append(work)
        if len(waiting) == 4:
            are_enough.set()
        assert are_enough.wait(30), "no other is opened while this one is"
        return opening(work)

    assert len(scan_together(works, open_one)) == 20


def test_no_file_stays_open_where_memory_is_short(tmp_path: Path) -> None:
    works = [_written(tmp_path, number, 1) for number in range(100)]
    opening = partial(open_segment, Snapshot.open(str(tmp_path)), str(tmp_path))
    opened: list[OpenSegment] = []

    class Full:
        def __init__(self, one: OpenSegment) -> None:
            self.close = one.stream.close

        def read(self, size: int) -> bytes:
            raise MemoryError

    def open_one(work: SegmentWork) -> OpenSegment | None:
        one = opening(work)
        assert one is not None
        opened.append(one)
        return one._replace(stream=Full(one))

    with pytest.raises(MemoryError):
        scan_together(works, open_one)
    # Other threads may be reading still.
    until = time.monotonic() + 30
    while not (are_closed := all(one.stream.closed for one in opened)) and time.monotonic() < until:
        time.sleep(0.01)
    assert len(opened) > 1 and are_closed
