"""The log `__remote_log_metadata`: which segments of tiered topics are in remote storage (KIP-405).

Kafka: `RemoteLogMetadataSerde`, `RemoteLogSegmentMetadataRecord`, `RemoteLogSegmentMetadataUpdateRecord`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from replica_audit.batch_header import CODEC_MASK, CONTROL
from replica_audit.formats.files.storage import Snapshot
from replica_audit.formats.leadership.consumer_offsets import OffsetsCopy, find_offsets_copies
from replica_audit.formats.leadership.internal_copies import furthest, try_copy
from replica_audit.formats.leadership.remote_states import STATES
from replica_audit.formats.log_dirs.names import parse_file_name
from replica_audit.formats.metadata.fields import FieldReader, MessageError
from replica_audit.formats.segments.batches import HEADER_BYTES
from replica_audit.formats.segments.codecs import CodecError, decompress
from replica_audit.formats.segments.record_fields import RecordError, read_records
from replica_audit.formats.segments.scan import scan_segment
from replica_audit.model import Damage, QuarantineRow, RemoteSegment

TOPIC = "__remote_log_metadata"

_FRAME_VERSION = 1
_SEGMENT, _UPDATE = 0, 1
_GREATEST_BATCH = 64 << 20

#: (topic, partition, topic id, segment id)
_Id = tuple[str, int, str, str]


@dataclass(frozen=True, slots=True)
class RemoteLog:
    """What one copy of one partition of the topic says, and how far it goes."""

    partition: int
    path: str
    leader_epoch: int
    end_offset: int
    segments: tuple[RemoteSegment, ...]
    unread: tuple[tuple[str, int | None, str], ...] = ()
    """(path, position, reason) of what could not be taken apart."""


def find_remote_logs(snapshot: Snapshot, log_dirs: Iterable[str]) -> list[OffsetsCopy]:
    """All current copies of the topic's partitions in `log_dirs`."""
    return find_offsets_copies(snapshot, log_dirs, TOPIC)


def try_remote_log(snapshot: Snapshot, copy: OffsetsCopy) -> tuple[RemoteLog | None, list[QuarantineRow]]:
    """What one copy says, None where it cannot be read, with rows of quarantine for all that could not."""
    return try_copy(copy.path, lambda: _read(snapshot, copy), "which segments are in remote storage")


def newest_segments(copies: Iterable[RemoteLog]) -> list[RemoteSegment]:
    """The segments by the copy of each partition that goes on longest."""
    return sorted(segment for one in furthest(copies) for segment in one.segments)


def _read(snapshot: Snapshot, copy: OffsetsCopy) -> RemoteLog:
    latest: dict[_Id, RemoteSegment] = {}
    unread: list[tuple[str, int | None, str]] = []
    last_epoch, end, first = -1, 0, None
    for segment in copy.segments:
        base_offset = parse_file_name(segment.path.rsplit("/", 1)[-1]).base_offset or 0
        first = base_offset if first is None else first
        with snapshot.open_file(segment.path) as stream:
            for item in scan_segment(stream, segment.size, base_offset):
                if isinstance(item, Damage):
                    unread.append((segment.path, item.position, item.reason))
                    continue
                for header in item:
                    last_epoch, end = max(last_epoch, int(header["leader_epoch"])), int(header["last_offset"]) + 1
                    stream.seek(int(header["position"]))
                    try:
                        for value in _values(header, stream.read(int(header["size"]))):
                            _apply(FieldReader(value), latest)
                    except (CodecError, MessageError, RecordError) as error:
                        unread.append((segment.path, int(header["position"]), str(error)))
    is_whole = first == 0 and not unread
    segments = tuple(replace(one, is_whole=is_whole) for one in latest.values())
    return RemoteLog(copy.partition, copy.path, last_epoch, end, segments, tuple(unread))


def _values(header: np.void, data: bytes) -> Iterator[bytes]:
    if not header["crc_valid"]:
        raise MessageError("the batch's checksum is wrong")
    if header["magic"] != 2:
        raise MessageError(f"expected a batch of magic 2, found {header['magic']}")
    if int(header["attributes"]) & CONTROL:
        return
    inside = decompress(int(header["attributes"]) & CODEC_MASK, data[HEADER_BYTES:], _GREATEST_BATCH)
    yield from (value for *_, value, _ in read_records(inside, int(header["record_count"])) if value is not None)


def _apply(fields: FieldReader, latest: dict[_Id, RemoteSegment]) -> None:
    """Take one message over; those on whole partitions, and of later versions of Kafka, say nothing of a segment."""
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
        fields.int32()
        updated_ms = fields.int64()
        fields.take(max(0, fields.uvarint() - 1))
        state = _state(fields)
        if key in latest:
            latest[key] = replace(latest[key], state=state, updated_ms=updated_ms)


def _segment_id(fields: FieldReader) -> _Id:
    topic, topic_id, partition = fields.string(), fields.uuid(), fields.int32()
    fields.tags()
    segment_id = fields.uuid()
    fields.tags()
    return topic, partition, topic_id, segment_id


def _segment(key: _Id, fields: FieldReader) -> RemoteSegment:
    topic, partition, topic_id, segment_id = key
    start, end, broker_id = fields.int64(), fields.int64(), fields.int32()
    fields.int64()
    updated_ms = fields.int64()
    epochs = []
    for _ in range(fields.array_length()):
        epochs.append((fields.int32(), fields.int64()))
        fields.tags()
    size = fields.int32()
    fields.take(max(0, fields.uvarint() - 1))
    return RemoteSegment(
        topic=topic,
        partition=partition,
        topic_id=topic_id,
        start_offset=start,
        end_offset=end + 1,
        segment_id=segment_id,
        epochs=tuple(sorted(epochs, key=lambda entry: entry[1])),
        state=_state(fields),
        broker_id=broker_id,
        size_bytes=size,
        updated_ms=updated_ms,
        is_whole=False,
    )


def _state(fields: FieldReader) -> int:
    state = fields.int8()
    if not 0 <= state < len(STATES):
        raise MessageError(f"expected a state of 0 to {len(STATES) - 1}, found {state}")
    return state
