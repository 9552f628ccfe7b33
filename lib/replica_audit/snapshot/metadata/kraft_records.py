"""Records of the metadata log that concern leadership, decoded by tables of their schemas (`MetadataRecordSerde`, metadata/*.json)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from replica_audit.snapshot.message_fields import ZERO_UUID, Field, FieldReader, MessageError, array_of, read_structure

TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
#: Control record types (A.2) in a metadata log or snapshot.
LEADER_CHANGE, SNAPSHOT_HEADER, SNAPSHOT_FOOTER, KRAFT_VOTERS = 2, 3, 4, 6


class BrokerState(NamedTuple):
    """RegisterBrokerRecord, BrokerRegistrationChangeRecord, Fence and Unfence; None leaves a field unchanged."""

    broker_id: int
    fenced: bool | None
    in_controlled_shutdown: bool | None
    log_dirs: tuple[str, ...] | None = None
    registered: bool = False
    """True if a process of the broker started and registered."""


class BrokerGone(NamedTuple):
    """UnregisterBrokerRecord."""

    broker_id: int


class TopicCreated(NamedTuple):
    """TopicRecord."""

    name: str
    topic_id: str


class TopicRemoved(NamedTuple):
    """RemoveTopicRecord."""

    topic_id: str


class PartitionSet(NamedTuple):
    """PartitionRecord: the whole state; `leader` is -1 without a leader."""

    topic_id: str
    partition: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    removing: tuple[int, ...]
    adding: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    directories: tuple[str, ...] = ()
    recovering: bool = False
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()


class PartitionChanged(NamedTuple):
    """PartitionChangeRecord; None leaves a field unchanged; a `leader`, even the same one, begins a new epoch."""

    topic_id: str
    partition: int
    isr: tuple[int, ...] | None = None
    leader: int | None = None
    replicas: tuple[int, ...] | None = None
    removing: tuple[int, ...] | None = None
    adding: tuple[int, ...] | None = None
    recovering: bool | None = None
    elr: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None
    directories: tuple[str, ...] | None = None


class ConfigSet(NamedTuple):
    """ConfigRecord; `value` None removes the entry. Values of brokers may be secret and are dropped by the reader."""

    resource_type: int
    resource: str
    name: str
    value: str | None


class FeatureSet(NamedTuple):
    """FeatureLevelRecord."""

    name: str
    level: int


class ElrCleared(NamedTuple):
    """ClearElrRecord; the topic '' means all topics."""

    topic: str


class Transaction(NamedTuple):
    """BeginTransactionRecord, EndTransactionRecord or AbortTransactionRecord of a metadata transaction (KIP-868)."""

    kind: str
    """begin, end or abort."""


class Voters(NamedTuple):
    """The quorum's voters in a LeaderChangeMessage or a VotersRecord."""

    ids: tuple[int, ...]
    leader_id: int | None = None
    """The elected leader; None in a VotersRecord."""
    directories: tuple[tuple[int, str], ...] = ()
    """(voter, directory id) of voters that vote from one directory only (KIP-853)."""
    addresses: tuple[tuple[int, str], ...] = ()
    """(voter, host:port) in a VotersRecord, from its first listener: there the others look for the voter."""

    def among(self, ids: tuple[int, ...]) -> Voters:
        """The voters `ids`, with what is known of each."""
        known = (tuple(one for one in some if one[0] in ids) for some in (self.directories, self.addresses))
        return Voters(ids, None, *known)

    def admits(self, node_id: int | None, directory_id: str | None) -> bool:
        """True if a node votes from a directory, as far as known: after formatting, a directory counts as another voter (KIP-853)."""
        expected = dict(self.directories).get(node_id) if node_id is not None else None
        return node_id in self.ids and (expected is None or directory_id is None or directory_id == expected)


Message = (
    BrokerState | BrokerGone | TopicCreated | TopicRemoved | PartitionSet | PartitionChanged
    | ConfigSet | FeatureSet | ElrCleared | Transaction
)  # fmt: skip
FRAME_VERSION = 1


class _Record(NamedTuple):
    """A kind of record: its schema, and the message made of its named fields."""

    name: str
    message: Callable[..., Message]
    fields: tuple[Field, ...] = ()

    @property
    def newest_version(self) -> int:
        """The last version that added a known field."""
        return max((field.since for field in self.fields), default=0)


def parse_message(value: bytes) -> Message | None:
    """The message in a record's value; None for kinds that do not concern leadership (ACLs, quotas, later ones).

    A version later than the newest known one is read like the latter: its additions are tagged, or make reading fail.
    Raises MessageError for bytes that violate the framing or the message's schema.
    """
    reader = FieldReader(value)
    frame = reader.uvarint()
    if frame != FRAME_VERSION:
        raise MessageError(
            f"expected frame version {FRAME_VERSION}, found {frame} (0 is the preview of 2.8, never supported)"
        )
    key, version = reader.uvarint(), reader.uvarint()
    record = _RECORDS.get(key)
    if record is None:
        return None
    try:
        found = read_structure(reader, record.fields, version)
        reader.finish()
    except MessageError as error:
        newest = record.newest_version
        known_to = f", of which versions 0 to {newest} are known" if version > newest else ""
        raise MessageError(f"{record.name} of version {version}{known_to}: {error}") from None
    return record.message(**found)


def _is_recovering(reader: FieldReader) -> bool:
    """`LeaderRecoveryState`."""
    return reader.int8() == 1


def _new_recovery(reader: FieldReader) -> bool | None:
    """`LeaderRecoveryState`; None for -1, `NO_CHANGE`."""
    return None if (state := reader.int8()) == -1 else state == 1


def _new_leader(reader: FieldReader) -> int | None:
    """The new leader; None for -2, `NO_LEADER_CHANGE`."""
    return None if (leader := reader.int32()) == -2 else leader


def _switch(reader: FieldReader) -> bool | None:
    """`BrokerRegistrationFencingChange` or the in-controlled-shutdown change; None for 0, unchanged."""
    return {1: True, -1: False}.get(reader.int8())


_END_POINTS = array_of(
    Field(None, FieldReader.string),
    Field(None, FieldReader.string),
    Field(None, FieldReader.uint16),
    Field(None, FieldReader.int16),
)
_FEATURES = array_of(Field(None, FieldReader.string), Field(None, FieldReader.int16), Field(None, FieldReader.int16))
_BROKER, _EPOCH = Field("broker_id", FieldReader.int32), Field(None, FieldReader.int64)
#: By api key. For a new version of a record, add one line: the new field with `since`.
_RECORDS = {
    0: _Record(
        "RegisterBrokerRecord",
        partial(BrokerState, in_controlled_shutdown=False, log_dirs=(), registered=True),
        (
            _BROKER,
            Field(None, FieldReader.boolean, since=2),
            Field(None, FieldReader.uuid),
            _EPOCH,
            Field(None, _END_POINTS),
            Field(None, _FEATURES),
            Field(None, FieldReader.nullable_string),
            Field("fenced", FieldReader.boolean),
            Field("in_controlled_shutdown", FieldReader.boolean, since=1),
            Field("log_dirs", FieldReader.uuids, since=3, tag=0),
            Field(None, FieldReader.uuids, since=4, tag=1),
        ),
    ),
    1: _Record("UnregisterBrokerRecord", BrokerGone, (_BROKER, _EPOCH)),
    2: _Record("TopicRecord", TopicCreated, (Field("name", FieldReader.string), Field("topic_id", FieldReader.uuid))),
    3: _Record(
        "PartitionRecord",
        PartitionSet,
        (
            Field("partition", FieldReader.int32),
            Field("topic_id", FieldReader.uuid),
            Field("replicas", FieldReader.ids),
            Field("isr", FieldReader.ids),
            Field("removing", FieldReader.ids),
            Field("adding", FieldReader.ids),
            Field("leader", FieldReader.int32),
            Field("leader_epoch", FieldReader.int32),
            Field("partition_epoch", FieldReader.int32),
            Field("directories", FieldReader.uuids, since=1),
            Field("recovering", _is_recovering, tag=0),
            Field("elr", FieldReader.ids, since=2, tag=1),
            Field("last_known_elr", FieldReader.ids, since=2, tag=2),
        ),
    ),
    4: _Record(
        "ConfigRecord",
        ConfigSet,
        (
            Field("resource_type", FieldReader.int8),
            Field("resource", FieldReader.string),
            Field("name", FieldReader.string),
            Field("value", FieldReader.nullable_string),
        ),
    ),
    5: _Record(
        "PartitionChangeRecord",
        PartitionChanged,
        (
            Field("partition", FieldReader.int32),
            Field("topic_id", FieldReader.uuid),
            Field("isr", FieldReader.ids, tag=0),
            Field("leader", _new_leader, tag=1),
            Field("replicas", FieldReader.ids, tag=2),
            Field("removing", FieldReader.ids, tag=3),
            Field("adding", FieldReader.ids, tag=4),
            Field("recovering", _new_recovery, tag=5),
            Field("elr", FieldReader.ids, since=2, tag=6),
            Field("last_known_elr", FieldReader.ids, since=2, tag=7),
            Field("directories", FieldReader.uuids, since=1, tag=8),
        ),
    ),
    7: _Record("FenceBrokerRecord", partial(BrokerState, fenced=True, in_controlled_shutdown=None), (_BROKER, _EPOCH)),
    8: _Record(
        "UnfenceBrokerRecord", partial(BrokerState, fenced=False, in_controlled_shutdown=None), (_BROKER, _EPOCH)
    ),
    9: _Record("RemoveTopicRecord", TopicRemoved, (Field("topic_id", FieldReader.uuid),)),
    12: _Record(
        "FeatureLevelRecord", FeatureSet, (Field("name", FieldReader.string), Field("level", FieldReader.int16))
    ),
    17: _Record(
        "BrokerRegistrationChangeRecord",
        partial(BrokerState, fenced=None, in_controlled_shutdown=None),
        (
            _BROKER,
            _EPOCH,
            Field("fenced", _switch, tag=0),
            Field("in_controlled_shutdown", _switch, since=1, tag=1),
            Field("log_dirs", FieldReader.uuids, since=2, tag=2),
            Field(None, FieldReader.uuids, since=3, tag=3),
        ),
    ),
    # Begin has a tagged name, abort a tagged reason; both are ignored.
    23: _Record("BeginTransactionRecord", partial(Transaction, "begin")),
    24: _Record("EndTransactionRecord", partial(Transaction, "end")),
    25: _Record("AbortTransactionRecord", partial(Transaction, "abort")),
    28: _Record("ClearElrRecord", ElrCleared, (Field("topic", FieldReader.string),)),
}


def parse_voters(kind: int, value: bytes) -> Voters:
    """The voters in a control record of type LEADER_CHANGE or KRAFT_VOTERS. Raises MessageError."""
    reader = FieldReader(value)
    version = reader.int16()
    leader_id = reader.int32() if kind == LEADER_CHANGE else None
    voters, directories, addresses = [], [], []
    for _ in range(reader.array_length()):
        voters.append(reader.int32())
        directory = reader.uuid() if kind == KRAFT_VOTERS or version >= 1 else ZERO_UUID
        # With kraft.version 0 a voter is known by its node id only.
        if directory != ZERO_UUID:
            directories.append((voters[-1], directory))
        if kind == KRAFT_VOTERS:
            for number in range(reader.array_length()):
                _, host, port = reader.string(), reader.string(), reader.uint16()
                reader.tags()
                if not number:
                    addresses.append((voters[-1], f"{host}:{port}"))
            reader.int16(), reader.int16(), reader.tags()
        reader.tags()
    return Voters(tuple(sorted(voters)), leader_id, tuple(sorted(directories)), tuple(sorted(addresses)))


def parse_snapshot_time(value: bytes) -> int:
    """LastContainedLogTimestamp of a SnapshotHeaderRecord, ms. Raises MessageError."""
    reader = FieldReader(value)
    reader.int16()
    return reader.int64()


ACL, SCRAM, QUOTA, PRODUCER_IDS, TOKEN = "acl", "scram", "quota", "producer_ids", "delegation_token"
#: `ZkMigrationState`; 1 since 3.5 while controllers write to ZooKeeper too (MIGRATION), 0 in a cluster that began with KRaft.
ZK_MIGRATION, DUAL_WRITE, NEVER_MIGRATED = "zk_migration", "1", "0"


class KeyedRecord(NamedTuple):
    """An item that a record sets, or removes if `content` is None."""

    kind: str
    """acl, scram, quota, producer_ids, delegation_token or zk_migration."""
    key: str
    """Identifies it among its kind; a digest, since user names are private."""
    content: str | None
    """A digest that changes with the content; for producer_ids the first free id, for zk_migration the state."""


def parse_any(value: bytes) -> Message | KeyedRecord | None:
    """`parse_message`, but also for records that are only counted. Raises MessageError."""
    message = parse_message(value)
    if message is not None:
        return message
    reader = FieldReader(value)
    reader.uvarint()
    kind, _ = reader.uvarint(), reader.uvarint()
    parse = _KEYED.get(kind)
    return None if parse is None else parse(reader, _digest(value))


def _digest(value: bytes) -> str:
    return hashlib.sha256(value).hexdigest()[:16]


def _of(*parts: object) -> str:
    return _digest(repr(parts).encode())


def _user(reader: FieldReader) -> str:
    """Key of a SCRAM credential: name and mechanism."""
    return _of(reader.string(), reader.int8())


def _quota(reader: FieldReader, content: str) -> KeyedRecord:
    """ClientQuotaRecord: entity and name of the quota, its value, and removal."""
    entity = []
    for _ in range(reader.array_length()):
        entity.append((reader.string(), reader.nullable_string()))
        reader.tags()
    key = _of(sorted(entity, key=repr), reader.string())
    reader.take(8)
    return KeyedRecord(QUOTA, key, None if reader.boolean() else content)


def _token(reader: FieldReader, content: str) -> KeyedRecord:
    """DelegationTokenRecord: owner, requester, renewers, three times, and its id."""
    reader.string(), reader.string()
    for _ in range(reader.array_length()):
        reader.string()
    reader.take(24)
    return KeyedRecord(TOKEN, _of(reader.string()), content)


def _producer_ids(reader: FieldReader, _: str) -> KeyedRecord:
    """ProducerIdsRecord: broker, its epoch, and the first id outside any block."""
    reader.int32(), reader.int64()
    return KeyedRecord(PRODUCER_IDS, "", str(reader.int64()))


_KEYED: dict[int, Callable[[FieldReader, str], KeyedRecord]] = {
    10: _token,
    11: lambda reader, content: KeyedRecord(SCRAM, _user(reader), content),  # UserScramCredentialRecord
    14: _quota,
    15: _producer_ids,
    18: lambda reader, content: KeyedRecord(ACL, reader.uuid(), content),  # AccessControlEntryRecord
    19: lambda reader, _: KeyedRecord(ACL, reader.uuid(), None),  # RemoveAccessControlEntryRecord
    21: lambda reader, _: KeyedRecord(ZK_MIGRATION, "", str(reader.int8())),  # ZkMigrationStateRecord
    22: lambda reader, _: KeyedRecord(SCRAM, _user(reader), None),  # RemoveUserScramCredentialRecord
    26: lambda reader, _: KeyedRecord(TOKEN, _of(reader.string()), None),  # RemoveDelegationTokenRecord
}
