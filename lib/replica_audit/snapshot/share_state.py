"""The share coordinator's log `__share_group_state`: the positions of share groups (KIP-932).

Kafka: `ShareSnapshotKey`, `ShareSnapshotValue`, `ShareUpdateKey`, `ShareUpdateValue`, `ShareCoordinatorShard`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from replica_audit.batch_header import CONTROL
from replica_audit.model import GroupOffset
from replica_audit.segments.records import RecordFields
from replica_audit.snapshot.internal_topics import InternalTopic, ReadCopy, TopicCopy, read_batches
from replica_audit.snapshot.message_fields import FieldReader, MessageError
from replica_audit.snapshot.storage import Snapshot

#: Key versions: the whole state of a group for a partition, and changes since; both values have version 0.
_SNAPSHOT, _UPDATE = 0, 1
_VALUE_VERSION = 0
#: States of records with which a group is done (`RecordState`): acknowledged, and given up.
_DONE = (2, 4)

#: (group, topic id, partition)
_Key = tuple[str, str, int]


class ShareOffset(NamedTuple):
    """Position of a share group in a partition of a topic, which the log identifies by id."""

    group: str
    topic_id: str
    partition: int
    reached_offset: int
    """The group's start offset, or the end of the last records above it that it acknowledged or gave up."""
    leader_epoch: int | None
    """Epoch of the leader that served these records to the group; none of them is of a later one. None if unknown."""
    written_ms: int


def read_share_offsets(snapshot: Snapshot, copy: TopicCopy) -> ReadCopy[ShareOffset]:
    """Positions of all groups by one copy. Raises OSError and FormatError."""
    latest: dict[_Key, ShareOffset] = {}

    def take(header: np.void, records: Iterable[RecordFields]) -> None:
        if int(header["attributes"]) & CONTROL:
            return
        first_ms = int(header["base_timestamp"])
        for delta, _, key, value, _ in records:
            _apply(FieldReader(key or b""), value, first_ms + delta, latest)

    extent = read_batches(snapshot, copy, take)
    # A group that was never given a record has no offset.
    said = (latest[key] for key in sorted(latest))
    return ReadCopy(copy, extent, tuple(one for one in said if one.reached_offset >= 0))


SHARE_OFFSETS = InternalTopic("__share_group_state", "how far share groups have come", read_share_offsets)


def name_topics(offsets: Iterable[ShareOffset], topics: Mapping[str, str]) -> Iterator[GroupOffset]:
    """The offsets with the names of their topics by id, without other ids: those of earlier topics, or not captured."""
    for one in offsets:
        if one.topic_id in topics:
            yield GroupOffset(
                one.group,
                topics[one.topic_id],
                one.partition,
                one.reached_offset,
                one.leader_epoch,
                one.written_ms,
                one.topic_id,
                "share",
            )


def _apply(key: FieldReader, value: bytes | None, written_ms: int, latest: dict[_Key, ShareOffset]) -> None:
    kind = key.int16()
    if kind not in (_SNAPSHOT, _UPDATE):
        return
    group, topic_id, partition = key.old_string(), key.uuid(), key.int32()
    if value is None:
        latest.pop((group, topic_id, partition), None)
        return
    fields = FieldReader(value)
    if (version := fields.int16()) != _VALUE_VERSION:
        raise MessageError(f"expected the state of a share group of version {_VALUE_VERSION}, found {version}")
    fields.int32()  # snapshot epoch
    if kind == _SNAPSHOT:
        fields.int32()  # state epoch
    epoch, start = fields.int32(), fields.int64()
    if kind == _SNAPSHOT:
        fields.int64()  # creation
        fields.int64()  # last write
    reached = max([start, *_ends(fields)])
    known = latest.get((group, topic_id, partition))
    if kind == _UPDATE and known is not None:
        reached = max(reached, known.reached_offset)
    # Setting a group's offset writes a state of epoch 0, whoever leads.
    is_known = epoch > 0 or (epoch == 0 and kind == _UPDATE)
    latest[group, topic_id, partition] = ShareOffset(
        group, topic_id, partition, reached, epoch if is_known else None, written_ms
    )


def _ends(fields: FieldReader) -> Iterator[int]:
    """Ends of the batches with which the group is done."""
    for _ in range(fields.array_length()):
        fields.int64()  # first offset
        last, state = fields.int64(), fields.int8()
        fields.int16()  # deliveries
        fields.tags()
        if state in _DONE:
            yield last + 1
