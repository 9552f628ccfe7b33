"""Which segments a scan task gets: about equal work for each, and of the warehouse's files each row for one task only."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from replica_audit.formats.inventory import SegmentFile
from replica_audit.formats.segments.known_segments import KnownSegment

#: A task scans about this many bytes, so that a cluster has work for every core and the driver few tasks to plan.
_TASK_BYTES = 256 << 20

#: Below this a second task costs more than it saves: a Python worker takes about a second to start.
_ONE_TASK_BYTES = 32 << 20

#: What a file costs beside its bytes: opening it, its summary and its row.
_FILE_BYTES = 64 << 10

#: What a batch costs that is taken over, as bytes to scan.
_KNOWN_BATCH_BYTES = 128


class SegmentWork(NamedTuple):
    """A file to scan, and what is known of it."""

    file: SegmentFile
    known: KnownSegment | None = None


def deal_work(works: Iterable[SegmentWork], cores: int) -> list[list[SegmentWork]]:
    """Segments dealt out to tasks of about equal work, most first.

    What is known lies in the warehouse's files in order of its rows, and is dealt out in stretches of them, so that no two
    tasks read the same; what is not is scanned in the order of partitions.
    """
    works = list(works)
    total = sum(map(_weigh, works))
    count = 1 if total <= _ONE_TASK_BYTES else max(1, min(len(works), max(cores, total // _TASK_BYTES)))
    units = [[work] for work in works if work.known is None]
    units += _stretches([(work, work.known) for work in works if work.known is not None], total // (4 * count))
    tasks: list[list[list[SegmentWork]]] = [[] for _ in range(count)]
    heap = [(0, number) for number in range(count)]
    weights = {id(unit): sum(map(_weigh, unit)) for unit in units}
    for unit in sorted(units, key=lambda unit: (-weights[id(unit)], unit[0].file.path)):
        weight, number = heap[0]
        tasks[number].append(unit)
        heapq.heapreplace(heap, (weight + weights[id(unit)], number))
    return [[work for unit in sorted(task, key=_place) for work in unit] for task in tasks if task]


def _weigh(work: SegmentWork) -> int:
    if work.known is None:
        return work.file.size_bytes + _FILE_BYTES
    new = max(0, work.file.size_bytes - work.known.size_bytes)
    return new + work.known.batch_count * _KNOWN_BATCH_BYTES + _FILE_BYTES


def _stretches(works: list[tuple[SegmentWork, KnownSegment]], limit: int) -> Iterator[list[SegmentWork]]:
    def place(pair: tuple[SegmentWork, KnownSegment]) -> tuple[str, int]:
        return pair[1].batch_file or "", pair[1].batch_row or 0

    for _, of_file in groupby(sorted(works, key=place), key=lambda pair: pair[1].batch_file):
        stretch, weight = [], 0
        for work, _ in of_file:
            stretch.append(work)
            weight += _weigh(work)
            if weight > limit:
                yield stretch
                stretch, weight = [], 0
        if stretch:
            yield stretch


def _place(unit: list[SegmentWork]) -> tuple:
    known, file = unit[0].known, unit[0].file
    names = ("topic", "partition", "broker_id", "log_dir", "base_offset")
    return (known is not None and known.batch_file or "", *(getattr(file, name) for name in names))
