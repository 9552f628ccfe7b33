"""The group coordinator's log `__consumer_offsets`: which offsets consumer groups committed last.

Of its records the bookkeeping is taken: group, topic, partition, offset, leader epoch, time, topic id. What a client
wrote beside its offset (`metadata`) is not. Kafka: `CoordinatorRecordSerde`, `OffsetCommitKey`, `OffsetCommitValue`;
before 4.0 `GroupMetadataManager`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from replica_audit.batch_header import CODEC_MASK, CONTROL, TRANSACTIONAL
from replica_audit.formats.files.storage import Snapshot
from replica_audit.formats.files.trees import Entry
from replica_audit.formats.leadership.internal_copies import furthest, try_copy
from replica_audit.formats.log_dirs.names import parse_directory_name, parse_file_name
from replica_audit.formats.metadata.fields import FieldReader, MessageError
from replica_audit.formats.segments.batches import HEADER_BYTES
from replica_audit.formats.segments.codecs import CodecError, decompress
from replica_audit.formats.segments.record_fields import RecordError, read_records
from replica_audit.formats.segments.records import ABORT, COMMIT
from replica_audit.formats.segments.scan import scan_segment
from replica_audit.model import Damage, GroupOffset, QuarantineRow

TOPIC = "__consumer_offsets"

#: Versions of a key that is an offset; those above are of groups, members and assignments.
_KEY_VERSIONS = (0, 1)
_GREATEST_VALUE_VERSION = 4
#: The first version with a leader epoch, the one with an expiry, and the first flexible one (KIP-320, KIP-211, KIP-915).
_WITH_EPOCH, _WITH_EXPIRY, _FLEXIBLE = 3, 1, 4
_TOPIC_ID = 0
_NO_TOPIC_ID = "A" * 22

_GREATEST_BATCH = 64 << 20

#: (group, topic, partition)
_Key = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class OffsetsCopy:
    """One broker's copy of one partition of the topic: its segments, in order."""

    partition: int
    path: str
    segments: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class CommittedOffsets:
    """What one copy says, and how far it goes."""

    partition: int
    path: str
    leader_epoch: int
    """Of its last batch; -1 without any."""
    end_offset: int
    offsets: tuple[GroupOffset, ...]
    """By group, topic and partition."""
    unread: tuple[tuple[str, int, str], ...] = ()
    """(path, position, reason) of what could not be taken apart: a later commit may stand there."""


def find_offsets_copies(snapshot: Snapshot, log_dirs: Iterable[str], topic: str = TOPIC) -> list[OffsetsCopy]:
    """All current copies of the partitions of `topic` in `log_dirs`; a log dir that is gone has none."""
    found: list[OffsetsCopy] = []
    for log_dir in sorted(set(log_dirs)):
        for folder in snapshot.list_directory(log_dir):
            name = parse_directory_name(folder.path.rsplit("/", 1)[-1]) if folder.is_dir else None
            at = name.topic_partition if name is not None and name.kind == "current" else None
            if at is not None and at.topic == topic:
                files = [one for one in snapshot.list_directory(folder.path) if not one.is_dir]
                logs = sorted((one for one in files if one.path.endswith(".log")), key=lambda one: one.path)
                found.append(OffsetsCopy(at.partition, folder.path, tuple(logs)))
    return found


def read_committed_offsets(snapshot: Snapshot, copy: OffsetsCopy) -> CommittedOffsets:
    """The offsets that one copy leaves: the last commit of each key, without those deleted since. Raises OSError and FormatError.

    Offsets committed within a transaction count from its marker on. Batches and records that cannot be taken apart are
    passed over, and told.
    """
    latest: dict[_Key, GroupOffset] = {}
    pending: dict[int, list[tuple[_Key, GroupOffset | None]]] = {}
    unread: list[tuple[str, int, str]] = []
    last_epoch, end = -1, 0
    for segment in copy.segments:
        base_offset = parse_file_name(segment.path.rsplit("/", 1)[-1]).base_offset or 0
        with snapshot.open_file(segment.path) as stream:
            for item in scan_segment(stream, segment.size, base_offset):
                if isinstance(item, Damage):
                    unread.append((segment.path, item.position, item.reason))
                    continue
                for header in item:
                    last_epoch, end = max(last_epoch, int(header["leader_epoch"])), int(header["last_offset"]) + 1
                    stream.seek(int(header["position"]))
                    try:
                        commits = list(_records(header, stream.read(int(header["size"]))))
                    except (CodecError, MessageError, RecordError) as error:
                        unread.append((segment.path, int(header["position"]), str(error)))
                        continue
                    _apply(header, commits, latest, pending)
    offsets = tuple(latest[key] for key in sorted(latest))
    return CommittedOffsets(copy.partition, copy.path, last_epoch, end, offsets, tuple(unread))


def try_committed_offsets(snapshot: Snapshot, copy: OffsetsCopy) -> tuple[CommittedOffsets | None, list[QuarantineRow]]:
    """The same, None for a copy that cannot be read, with rows of quarantine for all that could not."""
    return try_copy(copy.path, lambda: read_committed_offsets(snapshot, copy), "what consumer groups committed")


def newest_offsets(copies: Iterable[CommittedOffsets]) -> list[GroupOffset]:
    """The offsets by the copy of each partition that goes on longest."""
    return sorted(offset for one in furthest(copies) for offset in one.offsets)


def _apply(
    header: np.void,
    commits: Sequence[tuple[_Key, GroupOffset | None] | int],
    latest: dict[_Key, GroupOffset],
    pending: dict[int, list[tuple[_Key, GroupOffset | None]]],
) -> None:
    """Take the commits of one batch over: at once, or with the marker of the transaction that they are part of."""
    producer = int(header["producer_id"])
    if int(header["attributes"]) & CONTROL:
        if {COMMIT, ABORT} & set(commits):
            done = pending.pop(producer, [])
            _take(done if COMMIT in commits else [], latest)
        return
    offsets = [commit for commit in commits if not isinstance(commit, int)]
    if int(header["attributes"]) & TRANSACTIONAL:
        pending.setdefault(producer, []).extend(offsets)
    else:
        _take(offsets, latest)


def _take(commits: Iterable[tuple[_Key, GroupOffset | None]], latest: dict[_Key, GroupOffset]) -> None:
    for key, offset in commits:
        if offset is None:
            latest.pop(key, None)
        else:
            latest[key] = offset


def _records(header: np.void, data: bytes) -> Iterator[tuple[_Key, GroupOffset | None] | int]:
    """Commits of one batch, None for a deleted one; of a control batch the types of its records."""
    if not header["crc_valid"]:
        raise MessageError("the batch's checksum is wrong")
    if header["magic"] != 2:
        raise MessageError(f"expected a batch of magic 2, found {header['magic']}")
    control = bool(int(header["attributes"]) & CONTROL)
    inside = decompress(int(header["attributes"]) & CODEC_MASK, data[HEADER_BYTES:], _GREATEST_BATCH)
    for _, _, key, value, _ in read_records(inside, int(header["record_count"])):
        fields = FieldReader(key or b"")
        version = fields.int16()
        if control:
            yield fields.int16()
        elif version in _KEY_VERSIONS:
            place = _text(fields), _text(fields), fields.int32()
            yield place, None if value is None else _commit(place, FieldReader(value))


def _commit(place: _Key, value: FieldReader) -> GroupOffset:
    version = value.int16()
    if not 0 <= version <= _GREATEST_VALUE_VERSION:
        raise MessageError(f"expected a committed offset of version 0 to {_GREATEST_VALUE_VERSION}, found {version}")
    offset = value.int64()
    epoch = value.int32() if version >= _WITH_EPOCH else -1
    if version >= _FLEXIBLE:
        value.take(max(0, value.uvarint() - 1))
    else:
        value.take(value.int16())
    committed_ms = value.int64()
    if version == _WITH_EXPIRY:
        value.int64()
    topic_id = _topic_id(value.tags()) if version >= _FLEXIBLE else None
    return GroupOffset(*place, offset, epoch if epoch >= 0 else None, committed_ms, topic_id)


def _topic_id(tags: Mapping[int, FieldReader]) -> str | None:
    found = tags[_TOPIC_ID].uuid() if _TOPIC_ID in tags else _NO_TOPIC_ID
    return None if found == _NO_TOPIC_ID else found


def _text(reader: FieldReader) -> str:
    return reader.take(reader.int16()).decode("utf-8", "replace")
