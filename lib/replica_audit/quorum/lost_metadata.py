"""Metadata lost by choosing a copy of the metadata log: the difference from the state by other copies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from replica_audit.model import TopicPartition
from replica_audit.quorum.answer_model import Lost, NamedTopic
from replica_audit.quorum.contents import ClusterContents, PartitionNow
from replica_audit.snapshot.metadata.kraft_records import (
    ACL,
    BROKER_RESOURCE,
    PRODUCER_IDS,
    QUOTA,
    SCRAM,
    TOKEN,
    TOPIC_RESOURCE,
)

#: `ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE`.
_BLOCK = 1_000
_RESOURCES = {TOPIC_RESOURCE: "topic", BROKER_RESOURCE: "broker"}

#: Broker, topic id and partition of a replica.
Assigned = tuple[int, str, int]

_Item = TypeVar("_Item", str, int, TopicPartition, NamedTopic)
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Forgone:
    """State that `other` has and `choice` does not, where both grew from `common`."""

    choice: ClusterContents
    other: ClusterContents
    common: ClusterContents

    @property
    def topics(self) -> Iterator[NamedTopic]:
        """Topics created in `other`."""
        return _named(self.other, _changed(self.other.topics, self.choice.topics, self.common.topics))

    @property
    def deletions(self) -> Iterator[NamedTopic]:
        """Topics deleted in `other`."""
        return _named(self.choice, _removed(self.other.topics, self.choice.topics, self.common.topics))

    @property
    def _partitions(self) -> list[tuple[str, int]]:
        """Partitions new or changed in `other`, of topics that the choice knows."""
        known = {key: now for key, now in self.other.partitions.items() if key[0] in self.choice.topics}
        return _changed(known, self.choice.partitions, self.common.partitions)

    @property
    def partitions(self) -> Iterator[TopicPartition]:
        """Partitions added to topics that the choice knows."""
        return (self._place(key) for key in self._partitions if key not in self.choice.partitions)

    def changes(self, what: Callable[[PartitionNow], object]) -> Iterator[TopicPartition]:
        """Partitions whose `what` was changed in `other` and differs in the choice."""
        for key in self._partitions:
            now, was, before = (of.partitions.get(key) for of in (self.other, self.choice, self.common))
            assert now is not None
            if was is not None and what(now) != what(was) and (before is None or what(now) != what(before)):
                yield self._place(key)

    @property
    def configurations(self) -> Iterator[str]:
        """Configurations set or removed in `other`."""
        for kind, resource, name in _differing(*(one.configurations for one in self._states)):
            yield f"{_RESOURCES.get(kind, 'resource')} {resource or '(default)'}: {name}"

    @property
    def features(self) -> Iterator[str]:
        """Features set in `other`, with their levels there."""
        for name in _changed(*(one.features for one in self._states)):
            yield f"{name} {self.other.features[name]}"

    @property
    def voters(self) -> Iterable[int]:
        """Voters added, removed, or voting from another directory; none if a log does not name its voters."""
        named = all(one.voters for one in (self.other, self.choice))
        return _differing(*(one.voters for one in self._states)) if named else ()

    @property
    def producer_id_blocks(self) -> int:
        """Number of producer id blocks that would be given out again."""
        ahead, own = (int(next(iter(one.of_kind(PRODUCER_IDS).values()), "0")) for one in (self.other, self.choice))
        return max(0, -(-(ahead - own) // _BLOCK))

    def of_kind(self, kind: str) -> Iterable[str]:
        """Keys of one kind that `other` set or removed (`KeyedRecord`)."""
        return _differing(*(one.of_kind(kind) for one in self._states))

    @property
    def _states(self) -> tuple[ClusterContents, ClusterContents, ClusterContents]:
        return self.other, self.choice, self.common

    def _place(self, key: tuple[str, int]) -> TopicPartition:
        return TopicPartition(self.other.topics[key[0]], key[1])


def lose(differences: Sequence[Forgone], records: int) -> Lost:
    """Sum up what a choice loses to all other histories, each item once; `records` is the number of log records lost."""
    return Lost(
        topics=_all(one.topics for one in differences),
        deletions=_all(one.deletions for one in differences),
        partitions=_all(one.partitions for one in differences),
        leader_changes=_all(one.changes(lambda now: (now.leader_id, now.leader_epoch)) for one in differences),
        isr_changes=_all(one.changes(lambda now: now.isr) for one in differences),
        reassignments=_all(one.changes(lambda now: now.replicas) for one in differences),
        configurations=_all(one.configurations for one in differences),
        acls=len(_all(one.of_kind(ACL) for one in differences)),
        scram_users=len(_all(one.of_kind(SCRAM) for one in differences)),
        quotas=len(_all(one.of_kind(QUOTA) for one in differences)),
        delegations=len(_all(one.of_kind(TOKEN) for one in differences)),
        voters=_all(one.voters for one in differences),
        features=_all(one.features for one in differences),
        producer_id_blocks=max((one.producer_id_blocks for one in differences), default=0),
        records=records,
    )


def _all(several: Iterable[Iterable[_Item]]) -> tuple[_Item, ...]:
    return tuple(sorted({item for one in several for item in one}))


def assigned_by(contents: ClusterContents) -> set[Assigned]:
    """Replicas that a state assigns: a broker renames any other directory to -stray (`LogManager.isStrayKraftReplica`)."""
    return {
        (broker, topic_id, partition)
        for (topic_id, partition), now in contents.partitions.items()
        for broker in now.replicas
    }


def _changed(other: Mapping[_Key, _Value], choice: Mapping[_Key, _Value], common: Mapping[_Key, _Value]) -> list[_Key]:
    """Keys set in `other` since `common`, and not in `choice`."""
    return [
        key
        for key, value in other.items()
        if (key not in choice or choice[key] != value) and (key not in common or common[key] != value)
    ]


def _removed(other: Mapping[_Key, _Value], choice: Mapping[_Key, _Value], common: Mapping[_Key, _Value]) -> list[_Key]:
    """Keys removed in `other` since `common`, and not in `choice`."""
    return [key for key in choice if key in common and key not in other]


def _differing(
    other: Mapping[_Key, _Value], choice: Mapping[_Key, _Value], common: Mapping[_Key, _Value]
) -> list[_Key]:
    """Keys set or removed in `other` since `common`, and not in `choice`."""
    return [*_changed(other, choice, common), *_removed(other, choice, common)]


def _named(contents: ClusterContents, ids: Iterable[str]) -> Iterator[NamedTopic]:
    return (NamedTopic(contents.topics[one], one, sum(key[0] == one for key in contents.partitions)) for one in ids)
