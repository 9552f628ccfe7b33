"""Records of the metadata log that do not bear on leadership, as far as a loss of them is counted: which thing, never its
content (metadata/*.json).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from replica_audit.snapshot.message_fields import FieldReader
from replica_audit.snapshot.metadata.kraft_records import Message, parse_message

ACL, SCRAM, QUOTA, PRODUCER_IDS = "acl", "scram", "quota", "producer_ids"


@dataclass(frozen=True, slots=True)
class KeyedRecord:
    """Something that a record sets, or with `content` None removes."""

    kind: str
    """acl, scram, quota or producer_ids."""
    key: str
    """Tells it from others of its kind; a digest, since names of users are nobody's business."""
    content: str | None
    """Changes with what is set: a digest; of producer_ids the first id that is free."""


def parse_any(value: bytes) -> Message | KeyedRecord | None:
    """Like `parse_message`, and with what is counted besides; raises MessageError."""
    message = parse_message(value)
    if message is not None:
        return message
    reader = FieldReader(value)
    reader.uvarint()
    kind, _ = reader.uvarint(), reader.uvarint()
    parse = _KINDS.get(kind)
    return None if parse is None else parse(reader, _digest(value))


def _digest(value: bytes) -> str:
    return hashlib.sha256(value).hexdigest()[:16]


def _of(*parts: object) -> str:
    return _digest(repr(parts).encode())


def _scram(reader: FieldReader, content: str) -> KeyedRecord:
    """UserScramCredentialRecord: name and mechanism."""
    return KeyedRecord(SCRAM, _of(reader.string(), reader.int8()), content)


def _no_scram(reader: FieldReader, _: str) -> KeyedRecord:
    """RemoveUserScramCredentialRecord."""
    return KeyedRecord(SCRAM, _of(reader.string(), reader.int8()), None)


def _quota(reader: FieldReader, content: str) -> KeyedRecord:
    """ClientQuotaRecord: the entity and the quota's name, its value, and whether it goes."""
    entity = []
    for _ in range(reader.array_length()):
        entity.append((reader.string(), reader.nullable_string()))
        reader.tags()
    key = _of(sorted(entity, key=repr), reader.string())
    reader.take(8)
    return KeyedRecord(QUOTA, key, None if reader.boolean() else content)


def _producer_ids(reader: FieldReader, _: str) -> KeyedRecord:
    """ProducerIdsRecord: broker, its epoch, and the first id that no block has."""
    reader.int32(), reader.int64()
    return KeyedRecord(PRODUCER_IDS, "", str(reader.int64()))


def _acl(reader: FieldReader, content: str) -> KeyedRecord:
    """AccessControlEntryRecord."""
    return KeyedRecord(ACL, reader.uuid(), content)


def _no_acl(reader: FieldReader, _: str) -> KeyedRecord:
    """RemoveAccessControlEntryRecord."""
    return KeyedRecord(ACL, reader.uuid(), None)


_KINDS: dict[int, Callable[[FieldReader, str], KeyedRecord]] = {
    11: _scram,
    14: _quota,
    15: _producer_ids,
    18: _acl,
    19: _no_acl,
    22: _no_scram,
}
