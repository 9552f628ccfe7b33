"""Division of segments into scan tasks: about equal work for each, and each row of the warehouse's files for one task only."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple, TypeVar

from replica_audit.model import SegmentFile
from replica_audit.segments.known_segments import KnownSegment
from replica_audit.snapshot.packed_replicas import PackedReplicas, PackedSegments, SpreadReplicas

Item = TypeVar("Item")

#: Bytes per scan task, so that a cluster has work for every core and the driver few tasks to plan.
_TASK_BYTES = 256 << 20

#: Below this a second task costs more than it saves: a Python worker takes about a second to start.
_ONE_TASK_BYTES = 32 << 20

#: Cost of a file besides its bytes: opening it, its summary and its row.
_FILE_BYTES = 64 << 10

#: Cost of a replica's rows, as bytes to scan.
_REPLICA_BYTES = 8 << 10

#: Cost of a batch that is taken over, as bytes to scan.
_KNOWN_BATCH_BYTES = 128


class SegmentWork(NamedTuple):
    """A file to scan, and its known state."""

    file: SegmentFile
    known: KnownSegment | None = None


class ScanTask(NamedTuple):
    """Input of one scan task: files, or packs."""

    works: Sequence[SegmentWork] = ()
    replicas: Sequence[PackedReplicas] = ()
    """Packs whose rows the task writes, and whose segments it scans."""
    segments: Sequence[PackedSegments] = ()

    @property
    def segment_count(self) -> int:
        """Number of files that are scanned."""
        packed = sum(pack.segment_count for pack in self.replicas) + sum(pack.segment_count for pack in self.segments)
        return len(self.works) + packed

    @property
    def size_bytes(self) -> int:
        """Size of these files."""
        packed = sum(pack.size_bytes for pack in self.replicas) + sum(pack.size_bytes for pack in self.segments)
        return packed + sum(work.file.size_bytes for work in self.works)


def deal_packs(spread: SpreadReplicas, cores: int) -> list[ScanTask]:
    """Scan tasks for all discovered replicas: one for each large segment, then runs of partitions of about equal work."""
    total = sum(map(_weigh_pack, spread.packs))
    count = 1 if total <= _ONE_TASK_BYTES else in_rounds(total // _TASK_BYTES, cores)
    stretches = cut_stretches(spread.packs, _weigh_pack, total // count)
    return [*(ScanTask(segments=[one]) for one in spread.large), *(ScanTask(replicas=one) for one in stretches)]


def _weigh_pack(pack: PackedReplicas) -> int:
    return pack.size_bytes + _FILE_BYTES * pack.segment_count + _REPLICA_BYTES * pack.replica_count


def deal_work(works: Iterable[SegmentWork], cores: int) -> list[list[SegmentWork]]:
    """Segments divided into tasks of about equal work, most first.

    Known segments are divided in the order of their rows in the warehouse's files, so that no two tasks read the same; others
    in the order of partitions.
    """
    works = list(works)
    total = sum(map(_weigh, works))
    count = 1 if total <= _ONE_TASK_BYTES else min(len(works), in_rounds(total // _TASK_BYTES, cores))
    units = [[work] for work in works if work.known is None]
    units += _stretches([(work, work.known) for work in works if work.known is not None], total // (4 * count))
    units.sort(key=lambda unit: unit[0].file.path)
    tasks = deal_evenly(units, _weigh, count)
    return [[work for unit in sorted(task, key=_place) for work in unit] for task in tasks]


def in_rounds(count: int, cores: int) -> int:
    """`count` rounded up so that every core has equally many tasks; at least one for each."""
    return cores * max(1, -(-count // cores))


def deal_evenly(units: Sequence[list[Item]], weigh: Callable[[Item], int], count: int) -> list[list[list[Item]]]:
    """`units` divided into at most `count` tasks, heaviest first, each into the lightest task; on a tie the first."""
    weights = [sum(map(weigh, unit)) for unit in units]
    tasks: list[list[list[Item]]] = [[] for _ in range(count)]
    heap = [(0, number) for number in range(count)]
    for index in sorted(range(len(units)), key=lambda index: -weights[index]):
        weight, number = heap[0]
        tasks[number].append(units[index])
        heapq.heapreplace(heap, (weight + weights[index], number))
    return [task for task in tasks if task]


def cut_stretches(items: Iterable[Item], weigh: Callable[[Item], int], limit: int) -> Iterator[list[Item]]:
    """`items` in order, cut after each that makes a run heavier than `limit`."""
    stretch, weight = [], 0
    for item in items:
        stretch.append(item)
        weight += weigh(item)
        if weight > limit:
            yield stretch
            stretch, weight = [], 0
    if stretch:
        yield stretch


def _weigh(work: SegmentWork) -> int:
    if work.known is None:
        return work.file.size_bytes + _FILE_BYTES
    new = max(0, work.file.size_bytes - work.known.size_bytes)
    return new + work.known.batch_count * _KNOWN_BATCH_BYTES + _FILE_BYTES


def _stretches(works: list[tuple[SegmentWork, KnownSegment]], limit: int) -> Iterator[list[SegmentWork]]:
    def place(pair: tuple[SegmentWork, KnownSegment]) -> tuple[str, int]:
        return pair[1].batch_file or "", pair[1].batch_row or 0

    for _, of_file in groupby(sorted(works, key=place), key=lambda pair: pair[1].batch_file):
        yield from cut_stretches([work for work, _ in of_file], _weigh, limit)


def _place(unit: list[SegmentWork]) -> tuple:
    known, file = unit[0].known, unit[0].file
    names = ("topic", "partition", "broker_id", "log_dir", "base_offset")
    return (known is not None and known.batch_file or "", *(getattr(file, name) for name in names))
