"""Segments in remote storage that stay on their way, and those that retention deleted though it had to keep them (T4, T6, J).

Kafka: `RemoteLogManager`, whose leader copies and deletes, one segment at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from replica_audit.auditing.compare.remote_storage import RemoteHoles, RemoteOrphan, place_segment
from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
from replica_audit.model import OffsetRange, PartitionState, RemoteSegment
from replica_audit.protocol.lineage import Lineage
from replica_audit.snapshot.remote_log_metadata import COPY_FINISHED, COPY_STARTED, DELETE_STARTED

#: A copy or a deletion that is not finished after this time will not be.
STUCK_MS = 3_600_000
#: Attempts, `remote.log.manager.task.interval.ms` (30 s) apart, after which another one does not show that it goes on.
_TRIES = 10
#: After an election, how long size retention may not know yet what was copied: until the tasks of the new leader have run.
_JUST_ELECTED_MS = 600_000


class Unfinished(NamedTuple):
    """Segments whose copy, and whose deletion, was begun and is not finished by a time at which it has to be."""

    copies: tuple[RemoteSegment, ...]
    deletions: tuple[RemoteSegment, ...]


def find_unfinished(segments: Iterable[RemoteSegment], heard_until: Callable[[str], int | None]) -> Unfinished:
    """Segments, of those given, that stay on their way.

    The log that tells of them would tell more up to its latest message, or up to `heard_until` of its log dir.
    """
    copies = []
    deletions = []
    for one in segments:
        until = max(one.told_until_ms, heard_until(one.told_in) or 0)
        if one.state == COPY_STARTED and until - one.started_ms > STUCK_MS:
            copies.append(one)
        is_retried = one.deletions < _TRIES and until - one.updated_ms <= STUCK_MS
        if one.state == DELETE_STARTED and until - (one.deleting_ms or until) > STUCK_MS and not is_retried:
            deletions.append(one)
    return Unfinished(tuple(copies), tuple(deletions))


@dataclass(frozen=True, slots=True)
class EarlyDeletion:
    """Segments that size retention deleted after an election though the log is smaller than `retention_bytes` (KAFKA-20732)."""

    segments: tuple[RemoteSegment, ...]
    start_offset: int
    end_offset: int
    """The log start now."""
    left_bytes: int
    """Of the log now: segments of its history in remote storage, and the files that are not there yet."""
    retention_bytes: int
    elected: PartitionState
    """The election that it came after."""


def find_early_deletion(
    facts: ReplicaFacts, lineage: Lineage, segments: Sequence[RemoteSegment], history: Sequence[PartitionState]
) -> EarlyDeletion | None:
    """The segments that the present leader deleted for its size just after its election, though less is left than it had to keep.

    Said only where nothing else explains it: the metadata log shows the leader, and that `retention.bytes` and
    `retention.ms` of the topic are as they were; the log begins where the last of the segments ends, as it does after
    retention, and rarely after DeleteRecords; none of them was too old; and the log only grew since. `facts` and `lineage`
    are the leader's.
    """
    now = history[-1] if history else None
    if now is None or now.leader_id != facts.broker_id or not all(one.is_whole for one in segments):
        return None
    limits = [(name, _retention(now.configs, name)) for name in ("retention.bytes", "retention.ms")]
    size, age = (limit for _, limit in limits)
    elected = next(one for one in history if one.leader_epoch == now.leader_epoch)
    since = [one for one in history if one.leader_epoch >= now.leader_epoch]
    if size is None or size < 0 or age is None or elected.occasion == "snapshot" or facts.missing or facts.unreadable:
        return None
    if any(_retention(one.configs, name) != limit for one in since for name, limit in limits):
        return None
    start = facts.log_start_offset
    begun = elected.time_ms
    gone = [
        one
        for one in segments
        if one.deleting_ms is not None and one.copied_ms is not None and one.deleting_ms >= begun
    ]
    if not gone or max(one.end_offset for one in gone) != start:
        return None
    if any(
        one.updated_by != facts.broker_id
        or (one.deleting_ms or 0) > begun + _JUST_ELECTED_MS
        or (age >= 0 and one.max_timestamp_ms <= (one.deleting_ms or 0) - age)
        for one in gone
    ):
        return None
    kept = [one for one in segments if one.state == COPY_FINISHED and one.end_offset > start]
    if any(place_segment(facts, lineage, one, start)[0] != "own" for one in kept):
        return None
    reached = max((one.end_offset for one in kept), default=start)
    if reached < facts.local_start_offset:  # what lies between was copied too, and is not known
        return None
    left = sum(one.size_bytes for one in kept)
    left += sum(one.size_bytes for one in facts.segments if one.base_offset >= reached)
    if left >= size:
        return None
    return EarlyDeletion(tuple(gone), min(one.start_offset for one in gone), start, left, size, elected)


def _retention(configs: Mapping[str, str], name: str) -> int | None:
    """A limit of the topic; None where the topic has none of its own, so that it is the brokers'."""
    text = configs.get(name, "")
    return int(text) if text.lstrip("-").isdigit() else None


class OtherHistory(NamedTuple):
    """Stretches of segments that are of another history than the reference's log."""

    orphans: tuple[RemoteOrphan, ...] = ()
    """They are in the store as far as is known."""
    gone_orphans: tuple[RemoteOrphan, ...] = ()
    """Of copied segments that the remote store does not have any more."""
    begun: tuple[RemoteOrphan, ...] = ()
    """Of segments whose copy was begun and not finished, as far as no finished one has the offsets."""
    deleted: tuple[RemoteOrphan, ...] = ()
    """Of segments that Kafka deletes or has deleted, though the log did not begin past them."""

    @property
    def vanished(self) -> tuple[RemoteOrphan, ...]:
        """Stretches of which the store has no whole segment."""
        return (*self.begun, *self.deleted)


@dataclass(frozen=True, slots=True)
class RemoteFacts:
    """Segments that `__remote_log_metadata` has of a partition, beside the reference's log."""

    segments: tuple[RemoteSegment, ...] = ()
    """Of the reference's topic id."""
    lineage: Lineage = Lineage()
    """Epochs of the reference's log, the part in remote storage too."""
    start_offset: int = 0
    """First offset of that log that is not known to be deleted (`remote_storage.known_start`)."""
    contradictory: tuple[RemoteSegment, ...] = ()
    """Segments whose epochs cannot be true."""
    other: OtherHistory = OtherHistory()
    undecided: tuple[RemoteOrphan, ...] = ()
    """What the log lost if its broker was down when it was copied, which nothing decides."""
    holes: RemoteHoles = RemoteHoles()
    """Offsets between the log's start and its local start that no segment has."""
    gaps: Mapping[int, OffsetRange] = field(default_factory=dict)
    """By broker, offsets below a follower's local start that no segment has, and the reference has in its files."""
    stable: tuple[int, RemoteSegment] | None = None
    """The offset below which a segment shows the log to have been stable (`remote_storage.find_stable`)."""
    unfinished: Unfinished = Unfinished((), ())
    early: EarlyDeletion | None = None

    @property
    def sound(self) -> tuple[RemoteSegment, ...]:
        """Segments that something can be concluded from."""
        unclear = {one.segment_id for one in self.contradictory}
        return tuple(one for one in self.segments if one.segment_id not in unclear)
