"""The group coordinator's log `__consumer_offsets`: the offsets that consumer groups committed last.

Only bookkeeping is read: group, topic, partition, offset, leader epoch, time, topic id; not the text that a client stores with its
offset (`metadata`). Kafka: `CoordinatorRecordSerde`, `OffsetCommitKey`, `OffsetCommitValue`; before 4.0 `GroupMetadataManager`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from replica_audit.batch_header import CONTROL, TRANSACTIONAL
from replica_audit.model import GROUP_OFFSETS_TOPIC, GroupOffset
from replica_audit.segments.records import ABORT, COMMIT, RecordFields
from replica_audit.snapshot.internal_topics import InternalTopic, ReadCopy, TopicCopy, read_batches
from replica_audit.snapshot.message_fields import ZERO_UUID, FieldReader, MessageError
from replica_audit.snapshot.storage import Snapshot

#: Key versions of offsets; higher ones are for groups, members and assignments.
_KEY_VERSIONS = (0, 1)
_GREATEST_VALUE_VERSION = 4
#: First version with a leader epoch, the only one with an expiry, and the first flexible one (KIP-320, KIP-211, KIP-915).
_WITH_EPOCH, _WITH_EXPIRY, _FLEXIBLE = 3, 1, 4
_TOPIC_ID = 0

#: (group, topic, partition)
_Key = tuple[str, str, int]


def read_committed_offsets(snapshot: Snapshot, copy: TopicCopy) -> ReadCopy[GroupOffset]:
    """Committed offsets in one copy: the last commit of each key, unless deleted since. Raises OSError and FormatError.

    Offsets committed in a transaction count once its marker follows.
    """
    latest: dict[_Key, GroupOffset] = {}
    pending: dict[int, list[tuple[_Key, GroupOffset | None]]] = {}

    def take(header: np.void, records: Iterable[RecordFields]) -> None:
        producer, attributes = int(header["producer_id"]), int(header["attributes"])
        if attributes & CONTROL:
            markers = {_control_type(key or b"") for _, _, key, _, _ in records}
            if COMMIT in markers:
                _apply(pending.pop(producer, []), latest)
            elif ABORT in markers:
                pending.pop(producer, None)
            return
        commits = list(_commits(records))
        if attributes & TRANSACTIONAL:
            pending.setdefault(producer, []).extend(commits)
        else:
            _apply(commits, latest)

    extent = read_batches(snapshot, copy, take)
    return ReadCopy(copy, extent, tuple(latest[key] for key in sorted(latest)))


GROUP_OFFSETS = InternalTopic(GROUP_OFFSETS_TOPIC, "what consumer groups committed", read_committed_offsets)


def _apply(commits: Iterable[tuple[_Key, GroupOffset | None]], latest: dict[_Key, GroupOffset]) -> None:
    for key, offset in commits:
        if offset is None:
            latest.pop(key, None)
        else:
            latest[key] = offset


def _control_type(key: bytes) -> int:
    """Type of a control record, which follows the version."""
    fields = FieldReader(key)
    fields.int16()
    return fields.int16()


def _commits(records: Iterable[RecordFields]) -> Iterator[tuple[_Key, GroupOffset | None]]:
    """Commits of one batch; None for a deletion."""
    for _, _, key, value, _ in records:
        fields = FieldReader(key or b"")
        if fields.int16() in _KEY_VERSIONS:
            place = fields.old_string(), fields.old_string(), fields.int32()
            yield place, None if value is None else _commit(place, FieldReader(value))


def _commit(place: _Key, value: FieldReader) -> GroupOffset:
    version = value.int16()
    if not 0 <= version <= _GREATEST_VALUE_VERSION:
        raise MessageError(f"expected a committed offset of version 0 to {_GREATEST_VALUE_VERSION}, found {version}")
    offset = value.int64()
    epoch = value.int32() if version >= _WITH_EPOCH else -1
    if version >= _FLEXIBLE:
        value.skip_compact()
    else:
        value.take(value.int16())
    committed_ms = value.int64()
    if version == _WITH_EXPIRY:
        value.int64()
    topic_id = _topic_id(value.tags()) if version >= _FLEXIBLE else None
    return GroupOffset(*place, offset, epoch if epoch >= 0 else None, committed_ms, topic_id)


def _topic_id(tags: Mapping[int, FieldReader]) -> str | None:
    found = tags[_TOPIC_ID].uuid() if _TOPIC_ID in tags else ZERO_UUID
    return None if found == ZERO_UUID else found
