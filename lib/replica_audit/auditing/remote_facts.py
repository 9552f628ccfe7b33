"""Remote storage of one partition, by `__remote_log_metadata` and the store, beside the log of the reference (F.7, J).

Kafka: `RemoteLogManager`, whose leader copies and deletes, one segment at a time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from replica_audit.auditing.compare.comparison import Comparison
from replica_audit.auditing.compare.remote_contents import check_contents
from replica_audit.auditing.compare.remote_objects import (
    StoreDeviations,
    StoreMoments,
    find_deviations,
    find_leaked,
    seen_in_store,
)
from replica_audit.auditing.compare.remote_storage import (
    RemoteHoles,
    RemoteOrphan,
    find_contradictory,
    find_holes,
    find_orphans,
    find_passed,
    find_stable,
    known_start,
    place_segment,
    without_orphans,
)
from replica_audit.auditing.compare.replays import whole_lineage
from replica_audit.auditing.evidence import PartitionEvidence
from replica_audit.auditing.leadership.capture_times import CaptureTimes, CopiedState
from replica_audit.auditing.replicas.reference import Reference
from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
from replica_audit.model import Leadership, OffsetRange, PartitionState, RemoteListing, RemoteSegment
from replica_audit.protocol.lineage import Lineage
from replica_audit.protocol.versions import counts_finished_only
from replica_audit.snapshot.remote_log_metadata import COPY_FINISHED, COPY_STARTED, DELETE_STARTED

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

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
    """Find segments that the present leader deleted for size although what is left is smaller than `retention.bytes`: just after
    its election, or because failed copies were counted.

    They are reported only if nothing else explains the deletion. The metadata log shows the leader, and that the topic's
    `retention.bytes` and `retention.ms` are unchanged. The log starts where the last of the segments ends, as it does after
    retention, and rarely after DeleteRecords. None of them had expired, and the log has only grown since. `facts` and `lineage` are
    the leader's.
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


def look_into_store(evidence: PartitionEvidence, reference: Reference, local: NDArray[np.void]) -> StoreDeviations:
    """Find deviations of the segments with the reference's topic id, and leaked objects of all topics of that name; empty if
    the store was not checked. `local` are the batches of the reference's log that the plan asked for."""
    listing = evidence.side.store
    if listing is None:
        return StoreDeviations()
    by_topic: dict[str, list[RemoteSegment]] = defaultdict(list)
    for one in evidence.side.remote_segments:
        by_topic[one.topic_id].append(one)
    moments = {topic_id: _moments(evidence, of_id, listing) for topic_id, of_id in by_topic.items()}
    leaked = find_leaked(moments.values())
    topic_id = reference.facts.directory.topic_id or ""
    own = moments.get(topic_id)
    if own is None:
        return StoreDeviations(leaked=leaked)
    facts = reference.facts
    lineage = whole_lineage(reference)
    read = [one for one in evidence.side.contents if one.segment.topic_id == topic_id]
    contents = check_contents(facts, lineage, read, local)
    # Offsets do not identify the content of a contradictory segment.
    unclear = {one.segment_id for one in find_contradictory(lineage, own.segments)}
    sound = [one for one in own.segments if one.segment_id not in unclear]
    found = find_deviations(facts, lineage, sound, own)
    read_whole = {one.segment.segment_id for one in read if one.summary is not None}
    seen = seen_in_store(own.segments, listing, contents, read_whole)
    return replace(found, leaked=leaked, contents=contents, forms=own.forms(), seen=seen)


def _moments(evidence: PartitionEvidence, segments: Sequence[RemoteSegment], listing: RemoteListing) -> StoreMoments:
    begun = [evidence.options.times.heard_until(one.told_in) for one in segments]
    known = [one for one in begun if one is not None]
    captured_ms = min(known) if len(known) == len(begun) else None
    return StoreMoments(segments, listing, captured_ms, evidence.was_at_rest and _was_listed_with(evidence, listing))


def _was_listed_with(evidence: PartitionEvidence, listing: RemoteListing) -> bool:
    """True if the store was listed no later than the copies were made: a cluster at rest may have run since.

    A listing beside the copies without a time counts as part of them; a store itself, or a copy of it, does not.
    """
    if listing.latest_ms is None:
        return evidence.options.remote is None
    finished = (one.finished_ms for one in evidence.options.times.copies if one.finished_ms is not None)
    return listing.latest_ms <= max(finished, default=-1)


def remote_facts(
    evidence: PartitionEvidence,
    reference: Reference,
    comparisons: Sequence[Comparison],
    leadership: Leadership | None,
    store: StoreDeviations,
    *,
    one_moment: bool,
    state: CopiedState,
) -> RemoteFacts:
    """Facts on the segments with the reference's topic id; `store` has the deviations of their objects.

    `state`: down if the reference has all that its leader copied, undecided if unknown.
    """
    facts, times = reference.facts, evidence.options.times
    segments = tuple(one for one in evidence.side.remote_segments if one.topic_id == facts.directory.topic_id)
    # Log dirs whose copies list every segment, None if some may be missing.
    whole_logs = evidence.side.remote_logs if evidence.is_tiered else None
    if not segments and whole_logs is None:
        return RemoteFacts()
    lineage = whole_lineage(reference)
    # A leader that was stopped cleanly wrote its log start as it stopped.
    is_start_written = reference.leader_id == facts.broker_id and facts.was_stopped_before_copy
    start = known_start(facts, lineage, [] if is_start_written else [item.follower for item in comparisons])
    contradictory = find_contradictory(lineage, segments)
    began_before = partial(_began_before, facts=facts, times=times, one_moment=one_moment)
    passed = find_passed(lineage, segments, began_before)
    holes = find_holes(facts, lineage, segments, max(start, passed))
    # Even if copying is disabled, local files are deleted (KIP-950).
    is_copying = leadership is not None and leadership.is_copying

    def is_told(one: ReplicaFacts) -> bool:
        """True if every segment is known that was copied before the local files of `one` were deleted."""
        logs = {segment.told_in for segment in segments} or set(whole_logs or ())
        return is_copying and all(
            times.heard_after(log, one) or (one_moment and not times.may_be_stale(log, one)) for log in logs
        )

    known = RemoteFacts(segments, lineage, start, contradictory)

    def left(some: Iterable[RemoteSegment]) -> tuple[RemoteOrphan, ...]:
        return find_orphans(facts, lineage, some, start, is_whole=state == "down")

    finished = [one for one in known.sound if one.state == COPY_FINISHED]
    orphans = left(one for one in finished if one.segment_id not in store.gone)
    gone = left(one for one in finished if one.segment_id in store.gone)
    begun = without_orphans(left(one for one in known.sound if one.state == COPY_STARTED), (*orphans, *gone))
    deleted = left(one for one in known.sound if one.state >= DELETE_STARTED and began_before(one))
    if_down = find_orphans(facts, lineage, finished, start, is_whole=True) if state == "undecided" else ()
    if not is_told(facts):
        holes = RemoteHoles(holes.gaps)
    history = leadership.committed if leadership is not None and reference.leader_id == facts.broker_id else ()
    return replace(
        known,
        other=OtherHistory(orphans, gone, begun, without_orphans(deleted, (*orphans, *gone, *begun))),
        holes=holes._replace(removed=store.removed),
        gaps={
            item.follower.broker_id: gap
            for item in comparisons
            if is_told(item.follower) and (gap := _gap(item, facts, lineage, segments, max(start, passed)))
        },
        undecided=without_orphans(if_down, (*orphans, *gone)),
        stable=find_stable(lineage, known.sound),
        unfinished=find_unfinished(segments, times.heard_until),
        early=find_early_deletion(facts, lineage, segments, history, evidence.options.kafka_version)
        if is_told(facts)
        else None,
    )


def _began_before(segment: RemoteSegment, facts: ReplicaFacts, times: CaptureTimes, one_moment: bool) -> bool:
    """True if a copy's log start was still below the segment when the segment's deletion started, unless `known_start` tells otherwise.

    Kafka advances the log start, and truncates the epoch file there, before it deletes what is below (`cleanupExpiredRemoteLogSegments`).
    """
    is_start_known = facts.file_increases and bool(facts.file_entries)
    deleting_ms = segment.updated_ms if segment.deleting_ms is None else segment.deleting_ms
    return is_start_known and (one_moment or times.began_later(facts, deleting_ms))


def _gap(
    item: Comparison, reference: ReplicaFacts, lineage: Lineage, segments: Sequence[RemoteSegment], start: int
) -> OffsetRange | None:
    """Offsets that a follower of the same history could not serve: below its local start, above what was copied (T8); None
    without any."""
    facts = item.follower
    if facts.empty or any(run.conflicting for run in item.runs):
        return None
    hole = find_holes(facts, lineage, segments, max(start, known_start(facts, lineage, []))).uncopied
    low = facts.local_start_offset if hole is None else max(hole.start_offset, reference.local_start_offset)
    return OffsetRange(low, facts.local_start_offset) if low < facts.local_start_offset else None
