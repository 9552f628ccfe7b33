"""Records of the metadata log that tell who leads: their bytes taken apart (`MetadataRecordSerde`, metadata/*.json)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from replica_audit.snapshot.message_fields import FieldReader, MessageError

TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
#: Control record types (A.2) that a metadata log or snapshot has.
LEADER_CHANGE, SNAPSHOT_HEADER, SNAPSHOT_FOOTER, KRAFT_VOTERS = 2, 3, 4, 6


@dataclass(frozen=True, slots=True)
class BrokerState:
    """RegisterBrokerRecord, BrokerRegistrationChangeRecord, Fence and Unfence: None leaves a field as it was."""

    broker_id: int
    fenced: bool | None
    in_controlled_shutdown: bool | None
    log_dirs: tuple[str, ...] | None = None
    registered: bool = False
    """A process of the broker came up and registered."""


@dataclass(frozen=True, slots=True)
class BrokerGone:
    """UnregisterBrokerRecord."""

    broker_id: int


@dataclass(frozen=True, slots=True)
class TopicCreated:
    """TopicRecord."""

    name: str
    topic_id: str


@dataclass(frozen=True, slots=True)
class TopicRemoved:
    """RemoveTopicRecord."""

    topic_id: str


@dataclass(frozen=True, slots=True)
class PartitionSet:
    """PartitionRecord: the whole state; `leader` is -1 where there is no leader."""

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


@dataclass(frozen=True, slots=True)
class PartitionChanged:
    """PartitionChangeRecord: None leaves a field as it was; a `leader`, even the same one, begins a new epoch."""

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


@dataclass(frozen=True, slots=True)
class ConfigSet:
    """ConfigRecord; `value` None removes the entry. Values of brokers may be secret and are dropped by the reader."""

    resource_type: int
    resource: str
    name: str
    value: str | None


@dataclass(frozen=True, slots=True)
class FeatureSet:
    """FeatureLevelRecord."""

    name: str
    level: int


@dataclass(frozen=True, slots=True)
class ElrCleared:
    """ClearElrRecord; the topic '' is all of them."""

    topic: str


@dataclass(frozen=True, slots=True)
class Transaction:
    """BeginTransactionRecord, EndTransactionRecord or AbortTransactionRecord of a metadata transaction (KIP-868)."""

    kind: str
    """begin, end or abort."""


@dataclass(frozen=True, slots=True)
class Voters:
    """The quorum's voters, of a LeaderChangeMessage or a VotersRecord."""

    ids: tuple[int, ...]
    leader_id: int | None = None
    """Who was elected; None in a VotersRecord."""
    directories: tuple[tuple[int, str], ...] = ()
    """(voter, directory id) of those that vote from one directory only (KIP-853)."""

    def admits(self, node_id: int | None, directory_id: str | None) -> bool:
        """Whether a node votes from a directory, as far as is known: one that was formatted anew is another voter's."""
        expected = dict(self.directories).get(node_id) if node_id is not None else None
        return node_id in self.ids and (expected is None or directory_id is None or directory_id == expected)


Message = (
    BrokerState | BrokerGone | TopicCreated | TopicRemoved | PartitionSet | PartitionChanged
    | ConfigSet | FeatureSet | ElrCleared | Transaction
)  # fmt: skip
FRAME_VERSION = 1
#: `Uuid.ZERO_UUID`: the voter is known by its id alone (kraft.version 0).
_NO_DIRECTORY = "A" * 22


def parse_message(value: bytes) -> Message | None:
    """The message of a record's value; None for kinds that do not bear on leadership (ACLs, quotas, later ones).

    A version later than the newest known one is read like that one: what it adds is tagged, or makes the reading fail.
    Raises MessageError for bytes that break the framing or the message.
    """
    reader = FieldReader(value)
    frame = reader.uvarint()
    if frame != FRAME_VERSION:
        raise MessageError(
            f"expected frame version {FRAME_VERSION}, found {frame} (0 is the preview of 2.8, never supported)"
        )
    key, version = reader.uvarint(), reader.uvarint()
    known = _PARSERS.get(key)
    if known is None:
        return None
    parse, newest, name = known
    try:
        message = parse(reader, min(version, newest))
        reader.finish()
    except MessageError as error:
        known_to = f", of which versions 0 to {newest} are known" if version > newest else ""
        raise MessageError(f"{name} of version {version}{known_to}: {error}") from None
    return message


def _register_broker(reader: FieldReader, version: int) -> BrokerState:
    broker_id = reader.int32()
    if version >= 2:
        reader.boolean()
    reader.uuid()
    reader.int64()
    for _ in range(reader.array_length()):
        reader.string(), reader.string(), reader.uint16(), reader.int16(), reader.tags()
    for _ in range(reader.array_length()):
        reader.string(), reader.int16(), reader.int16(), reader.tags()
    reader.nullable_string()
    fenced = reader.boolean()
    stopping = reader.boolean() if version >= 1 else False
    tags = reader.tags()
    log_dirs = tags[0].uuids() if 0 in tags and version >= 3 else ()
    return BrokerState(broker_id, fenced, stopping, log_dirs, registered=True)


def _unregister_broker(reader: FieldReader, version: int) -> BrokerGone:
    broker_id = reader.int32()
    reader.int64(), reader.tags()
    return BrokerGone(broker_id)


def _topic(reader: FieldReader, version: int) -> TopicCreated:
    message = TopicCreated(reader.string(), reader.uuid())
    reader.tags()
    return message


def _partition(reader: FieldReader, version: int) -> PartitionSet:
    partition, topic_id = reader.int32(), reader.uuid()
    replicas, isr, removing, adding = reader.ids(), reader.ids(), reader.ids(), reader.ids()
    leader, leader_epoch, partition_epoch = reader.int32(), reader.int32(), reader.int32()
    directories = reader.uuids() if version >= 1 else ()
    tags = reader.tags()
    return PartitionSet(
        topic_id,
        partition,
        replicas,
        isr,
        removing,
        adding,
        leader,
        leader_epoch,
        partition_epoch,
        directories,
        recovering=0 in tags and tags[0].int8() == 1,
        elr=tags[1].ids() if 1 in tags else (),
        last_known_elr=tags[2].ids() if 2 in tags else (),
    )


def _partition_change(reader: FieldReader, version: int) -> PartitionChanged:
    partition, topic_id = reader.int32(), reader.uuid()
    tags = reader.tags()
    leader = tags[1].int32() if 1 in tags else -2
    recovering = tags[5].int8() if 5 in tags else -1

    def ids(tag: int) -> tuple[int, ...] | None:
        return tags[tag].ids() if tag in tags else None

    return PartitionChanged(
        topic_id,
        partition,
        isr=ids(0),
        leader=None if leader == -2 else leader,
        replicas=ids(2),
        removing=ids(3),
        adding=ids(4),
        recovering=None if recovering == -1 else recovering == 1,
        elr=ids(6),
        last_known_elr=ids(7),
        directories=tags[8].uuids() if 8 in tags else None,
    )


def _config(reader: FieldReader, version: int) -> ConfigSet:
    kind, resource, name, value = reader.int8(), reader.string(), reader.string(), reader.nullable_string()
    reader.tags()
    return ConfigSet(kind, resource, name, value)


def _fence(fenced: bool) -> Callable[[FieldReader, int], BrokerState]:
    def parse(reader: FieldReader, version: int) -> BrokerState:
        broker_id = reader.int32()
        reader.int64(), reader.tags()
        return BrokerState(broker_id, fenced, None)

    return parse


def _registration_change(reader: FieldReader, version: int) -> BrokerState:
    broker_id = reader.int32()
    reader.int64()
    tags = reader.tags()
    fenced = tags[0].int8() if 0 in tags else 0
    stopping = tags[1].int8() if 1 in tags else 0
    log_dirs = tags[2].uuids() if 2 in tags else None
    return BrokerState(broker_id, {1: True, -1: False}.get(fenced), {1: True, -1: False}.get(stopping), log_dirs)


def _remove_topic(reader: FieldReader, version: int) -> TopicRemoved:
    message = TopicRemoved(reader.uuid())
    reader.tags()
    return message


def _feature(reader: FieldReader, version: int) -> FeatureSet:
    message = FeatureSet(reader.string(), reader.int16())
    reader.tags()
    return message


def _clear_elr(reader: FieldReader, version: int) -> ElrCleared:
    message = ElrCleared(reader.string())
    reader.tags()
    return message


def _transaction(kind: str) -> Callable[[FieldReader, int], Transaction]:
    def parse(reader: FieldReader, version: int) -> Transaction:
        # Begin has a tagged name, abort a tagged reason; what they say is of no use here.
        reader.tags()
        return Transaction(kind)

    return parse


#: api key → parser, newest known version, name.
_PARSERS: dict[int, tuple[Callable[[FieldReader, int], Message], int, str]] = {
    0: (_register_broker, 4, "RegisterBrokerRecord"),
    1: (_unregister_broker, 0, "UnregisterBrokerRecord"),
    2: (_topic, 0, "TopicRecord"),
    3: (_partition, 2, "PartitionRecord"),
    4: (_config, 0, "ConfigRecord"),
    5: (_partition_change, 2, "PartitionChangeRecord"),
    7: (_fence(True), 0, "FenceBrokerRecord"),
    8: (_fence(False), 0, "UnfenceBrokerRecord"),
    9: (_remove_topic, 0, "RemoveTopicRecord"),
    12: (_feature, 0, "FeatureLevelRecord"),
    17: (_registration_change, 3, "BrokerRegistrationChangeRecord"),
    23: (_transaction("begin"), 0, "BeginTransactionRecord"),
    24: (_transaction("end"), 0, "EndTransactionRecord"),
    25: (_transaction("abort"), 0, "AbortTransactionRecord"),
    28: (_clear_elr, 0, "ClearElrRecord"),
}


def parse_voters(kind: int, value: bytes) -> Voters:
    """The voters of a control record of type LEADER_CHANGE or KRAFT_VOTERS; raises MessageError."""
    reader = FieldReader(value)
    version = reader.int16()
    leader_id = reader.int32() if kind == LEADER_CHANGE else None
    voters, directories = [], []
    for _ in range(reader.array_length()):
        voters.append(reader.int32())
        directory = reader.uuid() if kind == KRAFT_VOTERS or version >= 1 else _NO_DIRECTORY
        if directory != _NO_DIRECTORY:
            directories.append((voters[-1], directory))
        if kind == KRAFT_VOTERS:
            for _ in range(reader.array_length()):
                reader.string(), reader.string(), reader.uint16(), reader.tags()
            reader.int16(), reader.int16(), reader.tags()
        reader.tags()
    return Voters(tuple(sorted(voters)), leader_id, tuple(sorted(directories)))


def parse_snapshot_time(value: bytes) -> int:
    """LastContainedLogTimestamp of a SnapshotHeaderRecord, ms; raises MessageError."""
    reader = FieldReader(value)
    reader.int16()
    return reader.int64()
