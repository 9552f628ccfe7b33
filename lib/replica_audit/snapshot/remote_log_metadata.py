"""The log `__remote_log_metadata`: which segments of tiered topics are in remote storage (KIP-405).

Kafka: `RemoteLogMetadataSerde`, `RemoteLogSegmentMetadataRecord`, `RemoteLogSegmentMetadataUpdateRecord`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import NamedTuple, get_args

import numpy as np

from replica_audit.batch_header import CONTROL
from replica_audit.literals import RemoteState
from replica_audit.model import RemoteSegment
from replica_audit.parsing import INT64
from replica_audit.schema import QuarantineRow
from replica_audit.segments.records import RecordFields
from replica_audit.snapshot.internal_topics import (
    Each,
    Extent,
    InternalTopic,
    ReadCopy,
    TopicCopy,
    find_copies,
    read_batches,
)
from replica_audit.snapshot.message_fields import FieldReader, MessageError
from replica_audit.snapshot.storage import Snapshot

STATES: tuple[RemoteState, ...] = get_args(RemoteState)
COPY_STARTED, COPY_FINISHED, DELETE_STARTED, DELETE_FINISHED = range(len(STATES))
_FRAME_VERSION = 1
_SEGMENT, _UPDATE = 0, 1
#: (topic, partition, topic id, segment id)
_Id = tuple[str, int, str, str]


def read_remote_log(snapshot: Snapshot, copy: TopicCopy) -> ReadCopy[RemoteSegment]:
    """Segments in one copy, each in its latest state. Raises OSError and FormatError."""
    latest: dict[_Id, RemoteSegment] = {}

    def take(header: np.void, records: Iterable[RecordFields]) -> None:
        for *_, value, _ in records:
            if value is not None and not int(header["attributes"]) & CONTROL:
                _apply(FieldReader(value), latest)

    extent = read_batches(snapshot, copy, take)
    is_whole = _is_whole(copy, extent)
    until = max((one.updated_ms for one in latest.values()), default=0)
    segments = tuple(
        one._replace(is_whole=is_whole, told_in=copy.log_dir, told_until_ms=until) for one in latest.values()
    )
    return ReadCopy(copy, extent, segments)


REMOTE_SEGMENTS = InternalTopic("__remote_log_metadata", "which segments are in remote storage", read_remote_log)


class RemoteLogs(NamedTuple):
    """Contents of `__remote_log_metadata`."""

    segments: list[RemoteSegment]
    log_dirs: tuple[str, ...] | None
    """Log dirs of its copies, if together they have every segment since the topic was created; None if some may be missing."""


def read_remote_logs(
    snapshot: Snapshot, log_dirs: Iterable[str], in_sync: Sequence[Sequence[str]] | None, each: Each = map
) -> tuple[RemoteLogs, list[QuarantineRow]]:
    """Segments in the copies in `log_dirs`, with quarantine rows for unreadable parts. `in_sync`: for each partition the
    log dirs of brokers that lead it or are in sync, up to the first unknown partition; None if the topic is unknown. Any
    other copy, even the one that reaches furthest here, may be long out of date."""
    copies = sorted(find_copies(snapshot, log_dirs, REMOTE_SEGMENTS.name), key=lambda one: _is_current(one, in_sync))
    found, rows = REMOTE_SEGMENTS.read_copies(snapshot, copies, each)
    # If a partition has messages, only the copy that was read counts.
    filled = {one.partition for one in copies if one.size}
    empty = [one for one in copies if one.partition not in filled and one.first_offset == 0]
    read = [one.copy for one in found if _is_whole(one.copy, one.extent)]
    whole = {one.partition: one.log_dir for one in (*empty, *read) if _is_current(one, in_sync)}
    is_all = in_sync is not None and whole.keys() == set(range(len(in_sync)))
    told_in = tuple(sorted(set(whole.values()))) if is_all else None
    segments = [
        said if _is_current(one.copy, in_sync) else said._replace(is_whole=False) for one in found for said in one.said
    ]
    return RemoteLogs(sorted(segments), told_in), rows


def _is_current(copy: TopicCopy, in_sync: Sequence[Sequence[str]] | None) -> bool:
    """False if the copy is known to belong to a broker that neither leads its partition nor is in sync."""
    return in_sync is None or (copy.partition < len(in_sync) and copy.log_dir in in_sync[copy.partition])


def _is_whole(copy: TopicCopy, extent: Extent) -> bool:
    return copy.first_offset == 0 and not extent.unread


def _apply(fields: FieldReader, latest: dict[_Id, RemoteSegment]) -> None:
    """Apply one message. Those on whole partitions, or from later versions of Kafka, do not concern segments."""
    frame, kind, version = fields.uvarint(), fields.uvarint(), fields.uvarint()
    if frame != _FRAME_VERSION or version != 0:
        raise MessageError(
            f"expected frame version {_FRAME_VERSION} and message version 0, found {frame} and {version}"
        )
    if kind == _SEGMENT:
        key = _segment_id(fields)
        latest[key] = _segment(key, fields)
    elif kind == _UPDATE:
        key = _segment_id(fields)
        updated_by, updated_ms = fields.int32(), fields.int64()
        fields.skip_compact()
        state = _state(fields)
        if key in latest:
            latest[key] = _updated(latest[key], state, updated_ms, updated_by)


def _updated(segment: RemoteSegment, state: int, updated_ms: int, updated_by: int) -> RemoteSegment:
    """`segment` in its next state. A failed deletion begins again with a message like the first."""
    segment = segment._replace(state=state, updated_ms=updated_ms, updated_by=updated_by)
    if state == COPY_FINISHED:
        return segment._replace(copied_ms=updated_ms)
    if state != DELETE_STARTED:
        return segment
    first = updated_ms if segment.deleting_ms is None else segment.deleting_ms
    return segment._replace(deleting_ms=first, deletions=segment.deletions + 1)


def _segment_id(fields: FieldReader) -> _Id:
    topic, topic_id, partition = fields.string(), fields.uuid(), fields.int32()
    fields.tags()
    segment_id = fields.uuid()
    fields.tags()
    return topic, partition, topic_id, segment_id


def _segment(key: _Id, fields: FieldReader) -> RemoteSegment:
    topic, partition, topic_id, segment_id = key
    start, end, broker_id = fields.int64(), fields.int64(), fields.int32()
    max_timestamp_ms, started_ms = fields.int64(), fields.int64()
    epochs = []
    for _ in range(fields.array_length()):
        epochs.append((fields.int32(), fields.int64()))
        fields.tags()
    size = fields.int32()
    if not 0 <= start <= end < INT64 or not epochs or any(not 0 <= begin < INT64 for _, begin in epochs):
        raise MessageError(
            f"expected offsets from 0 to {INT64 - 1}, the last not below the first, and an epoch, found {start} to {end} with epochs "
            f"{epochs[:3]}"
        )
    fields.skip_compact()
    segment = RemoteSegment(
        topic=topic,
        partition=partition,
        topic_id=topic_id,
        start_offset=start,
        end_offset=end + 1,
        segment_id=segment_id,
        epochs=tuple(sorted(epochs, key=itemgetter(1, 0))),
        state=COPY_STARTED,
        broker_id=broker_id,
        size_bytes=size,
        max_timestamp_ms=max_timestamp_ms,
        started_ms=started_ms,
        updated_ms=started_ms,
        updated_by=broker_id,
        copied_ms=None,
        deleting_ms=None,
        deletions=0,
        is_whole=False,
        told_in="",
        told_until_ms=started_ms,
    )
    return _updated(segment, _state(fields), started_ms, broker_id)


def _state(fields: FieldReader) -> int:
    state = fields.int8()
    if not 0 <= state < len(STATES):
        raise MessageError(f"expected a state of 0 to {len(STATES) - 1}, found {state}")
    return state
