"""Listings and files of states that are older than the logs, as the epoch files of one of their partitions show (F.0)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from replica_audit.model import Leadership, ReplicaDir, TopicPartition


def marked_if_overtaken(told: Iterable[Leadership], replicas: Iterable[ReplicaDir]) -> list[Leadership]:
    """What one file tells, all of it marked as `overtaken` where it is older than the logs of one of its partitions."""
    told = list(told)
    copies: dict[TopicPartition, list[ReplicaDir]] = {}
    for one in replicas:
        copies.setdefault(one.topic_partition, []).append(one)
    is_older = any(_is_older(one, copies.get(TopicPartition(one.topic, one.partition), ())) for one in told)
    return [replace(one, overtaken=True) for one in told] if is_older else told


def _is_older(told: Leadership, copies: Sequence[ReplicaDir]) -> bool:
    """Whether two brokers, one of them leading or in sync by the file, have records of an epoch that came later.

    That is an epoch above the one that the file names, or, where it names none, above all that its leader knows. One changed
    epoch file proves nothing: both brokers have the same entry.
    """
    named = next((one for one in copies if one.broker_id == told.leader_id), None)
    if named is None:
        return False
    known = _latest(named) if told.leader_epoch is None else told.leader_epoch
    later = {one.broker_id: set(_written(one, known)) for one in copies if one.topic_id == named.topic_id}
    members = {*(told.isr or ()), *told.elr, named.broker_id}
    return bool(_twice(later) & set().union(*(entries for broker, entries in later.items() if broker in members)))


def _twice(entries: Mapping[int, set[tuple[int, int]]]) -> set[tuple[int, int]]:
    counts = Counter(entry for of_broker in entries.values() for entry in of_broker)
    return {entry for entry, count in counts.items() if count > 1}


def _latest(copy: ReplicaDir) -> int:
    return max((epoch for epoch, _ in copy.checkpoint_epochs or ()), default=-1)


def _written(copy: ReplicaDir, known: int) -> Iterable[tuple[int, int]]:
    """Entries of later epochs than `known` of which a checkpoint shows that they have records."""
    marks = (copy.high_watermark_checkpoint, copy.recovery_point_checkpoint)
    reached = max((mark for mark in marks if mark is not None), default=-1)
    return ((epoch, start) for epoch, start in copy.checkpoint_epochs or () if epoch > known and start < reached)
