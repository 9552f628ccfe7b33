"""Segments in remote storage whose copy or deletion is stuck, and those that retention deleted too early (T4, T6, J).

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
from replica_audit.protocol.versions import counts_finished_only
from replica_audit.snapshot.remote_log_metadata import COPY_FINISHED, COPY_STARTED, DELETE_STARTED

#: Time after which an unfinished copy or deletion counts as stuck.
STUCK_MS = 3_600_000
#: Attempts, `remote.log.manager.task.interval.ms` (30 s) apart, after which another one no longer counts as progress.
_TRIES = 10
#: Time after an election in which size retention may not yet know what was copied, until the new leader's tasks have run.
_JUST_ELECTED_MS = 600_000


class Unfinished(NamedTuple):
    """Segments whose copy, or whose deletion, was started and is overdue."""

    copies: tuple[RemoteSegment, ...]
    deletions: tuple[RemoteSegment, ...]


def find_unfinished(segments: Iterable[RemoteSegment], heard_until: Callable[[str], int | None]) -> Unfinished:
    """Find stuck segments.

    The log that names them has all events up to its latest message, and up to `heard_until` of its log dir.
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


class EarlyDeletion(NamedTuple):
    """Segments that size retention deleted although the log is smaller than `retention_bytes`."""

    segments: tuple[RemoteSegment, ...]
    start_offset: int
    end_offset: int
    """Present log start."""
    left_bytes: int
    """Present size of the log: segments of its history in remote storage, and files not yet copied."""
    retention_bytes: int
    elected: PartitionState
    """The preceding election."""
    failed: tuple[RemoteSegment, ...]
    """Failed copies that retention counted as well (KAFKA-17062); empty if it ran just after the election, before it knew
    what was copied (KAFKA-20732)."""


def find_early_deletion(
    facts: ReplicaFacts,
    lineage: Lineage,
    segments: Sequence[RemoteSegment],
    history: Sequence[PartitionState],
    kafka_version: tuple[int, ...] | None,
) -> EarlyDeletion | None:
    """Find segments that the present leader deleted for size although less is left than it had to keep: just after its election,
    or while failed copies counted for the rest.

    Reported only without another explanation: the metadata log shows the leader, and that `retention.bytes` and `retention.ms` of
    the topic are unchanged; the log starts where the last of the segments ends, as after retention, and rarely after
    DeleteRecords; none of them was expired; and the log has only grown since. `facts` and `lineage` are the leader's.
    """
    now = history[-1] if history else None
    if now is None or now.leader_id != facts.broker_id or not all(one.is_whole for one in segments):
        return None
    term = [one for one in history if one.leader_epoch == now.leader_epoch]
    limits = {(_retention(one.configs, "retention.bytes"), _retention(one.configs, "retention.ms")) for one in term}
    size, age = limits.pop()
    if limits or size is None or size < 0 or age is None or facts.missing or facts.unreadable:
        return None
    elected = term[0]
    start, begun = facts.log_start_offset, elected.time_ms
    gone = [
        (one, one.deleting_ms)
        for one in segments
        if one.deleting_ms is not None and one.copied_ms is not None and one.deleting_ms >= begun
    ]
    if max((one.end_offset for one, _ in gone), default=-1) != start:
        return None
    if any(
        one.updated_by != facts.broker_id or (age >= 0 and one.max_timestamp_ms <= deleting_ms - age)
        for one, deleting_ms in gone
    ):
        return None
    until = max(deleting_ms for _, deleting_ms in gone)
    is_just_elected = elected.occasion != "snapshot" and until <= begun + _JUST_ELECTED_MS
    kept = [one for one in segments if one.state == COPY_FINISHED and one.end_offset > start]
    if any(place_segment(facts, lineage, one, start)[0] != "own" for one in kept):
        return None
    reached = max((one.end_offset for one in kept), default=start)
    if reached < facts.local_start_offset:  # the part between was copied too, and is unknown
        return None
    left = sum(one.size_bytes for one in kept)
    left += sum(one.size_bytes for one in facts.segments if one.base_offset >= reached)
    failed = () if is_just_elected or counts_finished_only(kafka_version) else _failed_before(segments, until)
    if left >= size or not (is_just_elected or left + sum(one.size_bytes for one in failed) >= size):
        return None
    deleted = tuple(one for one, _ in gone)
    first = min(one.start_offset for one in deleted)
    return EarlyDeletion(deleted, first, start, left, size, elected, failed)


def _failed_before(segments: Iterable[RemoteSegment], time_ms: int) -> tuple[RemoteSegment, ...]:
    """Copies begun before `time_ms` that were never finished, nor removed by then."""
    return tuple(
        one
        for one in segments
        if one.copied_ms is None and one.started_ms < time_ms and time_ms <= (one.deleting_ms or time_ms)
    )


def _retention(configs: Mapping[str, str], name: str) -> int | None:
    """A limit of the topic; None if the brokers' default applies."""
    text = configs.get(name, "")
    return int(text) if text.lstrip("-").isdigit() else None


class OtherHistory(NamedTuple):
    """Ranges of segments with another history than the reference's log."""

    orphans: tuple[RemoteOrphan, ...] = ()
    """Ranges in the store, as far as known."""
    gone_orphans: tuple[RemoteOrphan, ...] = ()
    """Ranges of copied segments that the store no longer has."""
    begun: tuple[RemoteOrphan, ...] = ()
    """Ranges of segments whose copy was started and not finished, without offsets in a finished one."""
    deleted: tuple[RemoteOrphan, ...] = ()
    """Ranges of segments that Kafka deletes or deleted, although the log did not start past them."""

    @property
    def vanished(self) -> tuple[RemoteOrphan, ...]:
        """Ranges without a complete segment in the store."""
        return (*self.begun, *self.deleted)


@dataclass(frozen=True, slots=True)
class RemoteFacts:
    """Segments of a partition in `__remote_log_metadata`, compared with the reference's log."""

    segments: tuple[RemoteSegment, ...] = ()
    """Segments with the reference's topic id."""
    lineage: Lineage = Lineage()
    """Epochs of the reference's log, including its part in remote storage."""
    start_offset: int = 0
    """First offset of that log that is not known to be deleted (`remote_storage.known_start`)."""
    contradictory: tuple[RemoteSegment, ...] = ()
    """Segments whose epochs are impossible."""
    other: OtherHistory = OtherHistory()
    undecided: tuple[RemoteOrphan, ...] = ()
    """Ranges that the log lost if its broker was down while it was copied, which is undecided."""
    holes: RemoteHoles = RemoteHoles()
    """Offsets between the log's start and its local start that no segment has."""
    gaps: Mapping[int, OffsetRange] = field(default_factory=dict)
    """Offsets below a follower's local start that no segment has and the reference has in its files, by broker."""
    stable: tuple[int, RemoteSegment] | None = None
    """Offset below which the log was stable, and the segment that proves it (`remote_storage.find_stable`)."""
    unfinished: Unfinished = Unfinished((), ())
    early: EarlyDeletion | None = None

    def holes_below(self, facts: ReplicaFacts) -> tuple[OffsetRange, ...]:
        """Offsets that neither the files of this replica, as a leader, nor remote storage have."""
        gap = self.gaps.get(facts.broker_id)
        return self.holes.ranges if gap is None else (*self.holes.ranges, gap)

    @property
    def sound(self) -> tuple[RemoteSegment, ...]:
        """Segments without contradictions."""
        if not self.contradictory:
            return self.segments
        unclear = {one.segment_id for one in self.contradictory}
        return tuple(one for one in self.segments if one.segment_id not in unclear)
