"""Replicas read by tasks, packed: for a large snapshot the driver holds bytes instead of objects.

Packs are in order of partition. Each has whole partitions, with the replicas of all brokers, so tasks that take packs do too.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from replica_audit.model import ReplicaDir, SegmentFile, TopicPartition
from replica_audit.snapshot.overtaken import EpochBounds, epoch_bounds

#: Replicas in a pack, or a few more; smaller packs take more bytes per replica.
PACK_REPLICAS = 256

#: The segments of a larger replica are kept outside its pack.
LARGE_BYTES = 256 << 20


class HeldReplica(NamedTuple):
    """A replica with its segments."""

    replica: ReplicaDir
    segments: tuple[SegmentFile, ...]

    @property
    def size_bytes(self) -> int:
        return _size(self.segments)


class PackedReplicas(NamedTuple):
    """The replicas of some partitions, in order of partition, broker and log dir."""

    replica_count: int
    segment_count: int
    """Number of segments, without those of large replicas, which `size_bytes` excludes too."""
    size_bytes: int
    content: bytes
    bounds: bytes
    """Packed `EpochBounds`, for readers that need the replicas of few partitions."""

    def unpack(self) -> list[HeldReplica]:
        """The replicas; large ones without their segments."""
        return pickle.loads(zlib.decompress(self.content))

    def has(self, is_wanted: Callable[[EpochBounds], bool]) -> bool:
        """True if the bounds of a partition are wanted."""
        return any(is_wanted(EpochBounds._make(one)) for one in pickle.loads(zlib.decompress(self.bounds)))


class PackedSegments(NamedTuple):
    """Segments of a large replica: together `LARGE_BYTES` or a little more; the last pack may have less."""

    segment_count: int
    size_bytes: int
    content: bytes

    def unpack(self) -> list[SegmentFile]:
        return pickle.loads(zlib.decompress(self.content))


def pack_replicas(held: Iterable[HeldReplica]) -> tuple[list[PackedReplicas], list[PackedSegments]]:
    """Packs of replicas, given in order of partition, and of the segments of large ones."""
    packs: list[PackedReplicas] = []
    large: list[PackedSegments] = []
    part: list[HeldReplica] = []
    for _, of_partition in groupby(held, key=lambda one: (one.replica.topic, one.replica.partition)):
        for one in of_partition:
            if one.size_bytes > LARGE_BYTES:
                large += _pack_segments(one.segments)
                one = one._replace(segments=())
            part.append(one)
        if len(part) >= PACK_REPLICAS:
            packs.append(_pack_part(part))
            part = []
    if part:
        packs.append(_pack_part(part))
    return packs, large


def _pack_part(part: Sequence[HeldReplica]) -> PackedReplicas:
    files = sum(len(one.segments) for one in part)
    bounds = _pack([tuple(one) for one in epoch_bounds(one.replica for one in part)])
    return PackedReplicas(len(part), files, sum(one.size_bytes for one in part), _pack(part), bounds)


def _pack_segments(files: Sequence[SegmentFile]) -> Iterator[PackedSegments]:
    part: list[SegmentFile] = []
    for number, file in enumerate(files, 1):
        part.append(file)
        if _size(part) > LARGE_BYTES or number == len(files):
            yield PackedSegments(len(part), _size(part), _pack(part))
            part = []


def _pack(items: Sequence[object]) -> bytes:
    return zlib.compress(pickle.dumps(items, pickle.HIGHEST_PROTOCOL))


def _size(files: Sequence[SegmentFile]) -> int:
    return sum(file.size_bytes for file in files)


@dataclass(frozen=True, slots=True)
class SpreadReplicas(Collection[ReplicaDir]):
    """All replicas read by tasks; iterated in order of partition, broker and log dir, a pack at a time."""

    packs: tuple[PackedReplicas, ...] = ()
    large: tuple[PackedSegments, ...] = ()
    lines: tuple[bytes, ...] = ()
    """Input of the snapshot's id for all replicas, without their segments (`auditing.snapshot_id.pack_lines`)."""

    def __len__(self) -> int:
        return sum(pack.replica_count for pack in self.packs)

    def __iter__(self) -> Iterator[ReplicaDir]:
        return _replicas(self.packs)

    def of_partitions(
        self, places: Collection[TopicPartition], is_wanted: Callable[[EpochBounds], bool]
    ) -> Iterator[ReplicaDir]:
        """Replicas of `places`, of partitions whose bounds are wanted, and of others in the same packs, in order."""
        return _replicas(pack for pack in self.packs if pack.has(lambda one: one.place in places or is_wanted(one)))

    def __contains__(self, replica: object) -> bool:
        return any(one == replica for one in self)

    @property
    def segment_count(self) -> int:
        return sum(pack.segment_count for pack in self.packs) + sum(pack.segment_count for pack in self.large)

    @property
    def segment_bytes(self) -> int:
        return sum(pack.size_bytes for pack in self.packs) + sum(pack.size_bytes for pack in self.large)


def _replicas(packs: Iterable[PackedReplicas]) -> Iterator[ReplicaDir]:
    return (one.replica for pack in packs for one in pack.unpack())
