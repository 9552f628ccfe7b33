"""Records of the metadata log that tell who leads, as values (metadata/*.json)."""

from __future__ import annotations

from dataclasses import dataclass

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
