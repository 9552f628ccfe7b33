"""Segments of one partition in `__remote_log_metadata`, and what they show beyond its replicas (F.7, J)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from replica_audit.auditing.compare.comparison import Comparison
from replica_audit.auditing.compare.remote_objects import StoreDeviations
from replica_audit.auditing.compare.remote_states import OtherHistory, RemoteFacts, find_early_deletion, find_unfinished
from replica_audit.auditing.compare.remote_storage import (
    RemoteHoles,
    RemoteOrphan,
    find_contradictory,
    find_holes,
    find_orphans,
    find_passed,
    find_stable,
    known_start,
    without_orphans,
)
from replica_audit.auditing.compare.replays import whole_lineage
from replica_audit.auditing.leadership.capture_times import CaptureTimes, CopiedState
from replica_audit.auditing.replicas.reference import Reference
from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
from replica_audit.model import Leadership, OffsetRange, RemoteSegment
from replica_audit.protocol.lineage import Lineage
from replica_audit.snapshot.remote_log_metadata import COPY_FINISHED, COPY_STARTED, DELETE_STARTED


def remote_facts(
    told: Iterable[RemoteSegment],
    whole_logs: Sequence[str] | None,
    reference: Reference,
    comparisons: Sequence[Comparison],
    leadership: Leadership | None,
    times: CaptureTimes,
    store: StoreDeviations,
    *,
    one_moment: bool,
    state: CopiedState,
) -> RemoteFacts:
    """Facts on the segments with the reference's topic id among those `told`; `store` has the deviations of their objects.

    `whole_logs` are the log dirs whose copies list every segment, None if some may be missing. `state`: down if the
    reference has all that its leader copied, undecided if unknown.
    """
    facts = reference.facts
    segments = tuple(one for one in told if one.topic_id == facts.directory.topic_id)
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
    # If copying is disabled, local files are deleted all the same (KIP-950).
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
    history = leadership.committed if leadership is not None and reference.leader_id == facts.broker_id else ()
    return replace(
        known,
        other=OtherHistory(orphans, gone, begun, without_orphans(deleted, (*orphans, *gone, *begun))),
        holes=(holes if is_told(facts) else RemoteHoles(holes.gaps))._replace(removed=store.removed),
        gaps={
            item.follower.broker_id: gap
            for item in comparisons
            if is_told(item.follower) and (gap := _gap(item, facts, lineage, segments, max(start, passed)))
        },
        undecided=without_orphans(if_down, (*orphans, *gone)),
        stable=find_stable(lineage, known.sound),
        unfinished=find_unfinished(segments, times.heard_until),
        early=find_early_deletion(facts, lineage, segments, history) if is_told(facts) else None,
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
