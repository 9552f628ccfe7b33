"""Evidence that older segments of a topic may be in remote storage only: what is said of it, and what its copies show (J)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from replica_audit.model import Leadership, RemoteListing, RemoteSegment, ReplicaDir, SegmentSummary
from replica_audit.snapshot.remote_log_metadata import DELETE_FINISHED

#: Of a topic: it is tiered, or not; None where nothing decides it.
Tiering = bool | None


def decide_tiering(
    replicas: Sequence[tuple[ReplicaDir, Sequence[SegmentSummary]]],
    stopped: Sequence[bool],
    leadership: Leadership | None,
    told: Iterable[RemoteSegment],
    store: RemoteListing | None,
) -> Tiering:
    """By the topic's configs, else by segments of its id in remote storage, else by what its copies show (`_shows`). `stopped`: for each of
    `replicas`, whether its broker was stopped cleanly before it was copied."""
    if leadership is not None and leadership.said_tiered is not None:
        return leadership.said_tiered
    ids = {directory.topic_id for directory, _ in replicas}
    stored = {one.topic_id for one in told if one.state != DELETE_FINISHED}
    if store is not None:
        stored |= {one.topic_id for one in store.objects}
    if ids & stored:
        return True
    shown = {_shows(*one, was_stopped) for one, was_stopped in zip(replicas, stopped, strict=True)}
    if True in shown:
        return True
    return None if None in shown else False


def _shows(directory: ReplicaDir, segments: Sequence[SegmentSummary], was_stopped: bool) -> Tiering:
    """Evidence of one copy: its checkpoint of the log start, and where its epoch file begins, beside its first file.

    Kafka writes the start of a log that is not tiered only while it is inside its first segment, so never 0, and all starts
    again as it stops cleanly (`LogManager.checkpointLogStartOffsetsInDir`). In between, retention may have moved it past the
    segment since, and then has cut the epoch file there (`UnifiedLog.maybeIncrementLogStartOffset`): a copy made meanwhile, or
    after a crash, has the old entry of one, of the other, or of both.
    """
    base = min((one.base_offset for one in segments), default=0)
    first = min((start for _, start in directory.checkpoint_epochs or ()), default=None)
    start = directory.log_start_checkpoint
    if start is None:
        # A start is missing from a file that is here only where the log begins with its files.
        is_here = directory.log_start_file.state == "present"
        return False if is_here or first is None or first >= base else None
    if start >= base:
        return False
    # Files of a segment without its .log show that it was not copied, and not that it is in remote storage only.
    is_whole = all(one >= base for one in directory.index_bases)
    if was_stopped and is_whole:
        return True
    if first is None:
        may_begin_below = any(one.has_epochs for one in segments)
    else:
        may_begin_below = first < base
    if start == 0 and (first is None or may_begin_below):
        return True
    return None if may_begin_below else False
