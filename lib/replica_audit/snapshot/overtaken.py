"""Detection of files on leadership, such as listings, that are older than the logs beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple, Protocol

from replica_audit.model import Leadership, ReplicaDir, TopicPartition


class EpochBounds(NamedTuple):
    """Epochs in the checkpoints of a partition's copies that show whether a file is older; -1 for none."""

    place: TopicPartition
    written: int
    """The latest epoch that has records in any copy."""
    known: int
    """The earliest of the copies' latest epochs."""


class HeldCopies(Protocol):
    """Gives the replicas of a snapshot by partition."""

    def of_partitions(self, is_wanted: Callable[[EpochBounds], bool]) -> Iterable[ReplicaDir]:
        """Replicas of all partitions whose bounds are wanted, and perhaps of others, in order of partition."""


def epoch_bounds(copies: Iterable[ReplicaDir]) -> Iterable[EpochBounds]:
    """Bounds of each partition; the replicas are given in order of partition."""
    for place, of_partition in groupby(copies, key=lambda one: one.topic_partition):
        held = list(of_partition)
        written = max((epoch for one in held for epoch, _ in _written(one, -1)), default=-1)
        yield EpochBounds(place, written, min(map(_latest, held)))


def marked_if_overtaken(told: Iterable[Leadership], replicas: HeldCopies) -> list[Leadership]:
    """Leaderships from one file, all marked `overtaken` if the file is older than the logs of one of its partitions."""
    of_places = {one.topic_partition: one for one in told}

    def may_be_older(bounds: EpochBounds) -> bool:
        one = of_places.get(bounds.place)
        return one is not None and bounds.written > _told(one, bounds.known)

    is_older = any(
        place in of_places and _is_older(of_places[place], list(copies))
        for place, copies in groupby(replicas.of_partitions(may_be_older), key=lambda one: one.topic_partition)
    )
    return [replace(one, overtaken=True) if is_older else one for one in of_places.values()]


def _is_older(told: Leadership, copies: Sequence[ReplicaDir]) -> bool:
    """True if two brokers, one of them leading or in sync by the file, have records of a later epoch.

    That is an epoch above the one in the file or, if it has none, above all that its leader knows. One changed epoch file
    proves nothing: both brokers must have the same entry.
    """
    named = next((one for one in copies if one.broker_id == told.leader_id), None)
    if named is None:
        return False
    known = _told(told, _latest(named))
    later = {one.broker_id: set(_written(one, known)) for one in copies if one.topic_id == named.topic_id}
    members = {*(told.isr or ()), *told.elr, named.broker_id}
    return bool(_twice(later) & set().union(*(entries for broker, entries in later.items() if broker in members)))


def _told(one: Leadership, known: int) -> int:
    """Epoch that a file gives; without any, the one that its leader knows."""
    return known if one.leader_epoch is None else one.leader_epoch


def _twice(entries: Mapping[int, set[tuple[int, int]]]) -> set[tuple[int, int]]:
    counts = Counter(entry for of_broker in entries.values() for entry in of_broker)
    return {entry for entry, count in counts.items() if count > 1}


def _latest(copy: ReplicaDir) -> int:
    return max((epoch for epoch, _ in copy.checkpoint_epochs or ()), default=-1)


def _written(copy: ReplicaDir, known: int) -> Iterable[tuple[int, int]]:
    """Entries of epochs later than `known` that, by a checkpoint, have records."""
    marks = (copy.high_watermark_checkpoint, copy.recovery_point_checkpoint)
    reached = max((mark for mark in marks if mark is not None), default=-1)
    return ((epoch, start) for epoch, start in copy.checkpoint_epochs or () if epoch > known and start < reached)
