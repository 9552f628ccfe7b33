"""What one copy of the metadata log loses as the choice: the difference to the state by other copies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from replica_audit.model import Place
from replica_audit.quorum.answer_model import Lost, NamedTopic
from replica_audit.quorum.contents import ClusterContents, PartitionNow
from replica_audit.snapshot.metadata.kraft_records import (
    ACL,
    BROKER_RESOURCE,
    PRODUCER_IDS,
    QUOTA,
    SCRAM,
    TOPIC_RESOURCE,
)

#: `ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE`.
_BLOCK = 1_000
_RESOURCES = {TOPIC_RESOURCE: "topic", BROKER_RESOURCE: "broker"}

#: Broker, topic id and partition of a replica.
Assigned = tuple[int, str, int]

_Item = TypeVar("_Item")
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


def lose(choice: ClusterContents, other: ClusterContents, common: ClusterContents, records: int) -> Lost:
    """What `other` holds and `choice` does not, where both began as `common`; `records` are those of the log that go."""
    topics = _changed(other.topics, choice.topics, common.topics)
    deleted = [one for one in choice.topics if one in common.topics and one not in other.topics]
    known = {key: now for key, now in other.partitions.items() if key[0] in choice.topics}
    gone = _changed(known, choice.partitions, common.partitions)
    both = [key for key in gone if key in choice.partitions]

    def changed(what: Callable[[PartitionNow], object]) -> tuple[Place, ...]:
        keys = (
            key
            for key in both
            if what(other.partitions[key]) != what(choice.partitions[key])
            and (key not in common.partitions or what(other.partitions[key]) != what(common.partitions[key]))
        )
        return _places(other, keys)

    kinds = {kind: _differing(*(one.of_kind(kind) for one in (other, choice, common))) for kind in (ACL, SCRAM, QUOTA)}
    return Lost(
        topics=_named(other, topics),
        deletions=_named(choice, deleted),
        partitions=_places(other, (key for key in gone if key not in choice.partitions)),
        leader_changes=changed(lambda one: (one.leader_id, one.leader_epoch)),
        isr_changes=changed(lambda one: one.isr),
        reassignments=changed(lambda one: one.replicas),
        configurations=tuple(_configurations(other, choice, common)),
        acls=kinds[ACL],
        scram_users=kinds[SCRAM],
        quotas=kinds[QUOTA],
        features=tuple(
            f"{name} {other.features[name]}" for name in _changed(other.features, choice.features, common.features)
        ),
        producer_id_blocks=_blocks(other, choice),
        records=records,
    )


def add_up(losses: Sequence[Lost]) -> Lost:
    """What is lost to several other histories."""
    if len(losses) == 1:
        return losses[0]

    return Lost(
        topics=_all(one.topics for one in losses),
        deletions=_all(one.deletions for one in losses),
        partitions=_all(one.partitions for one in losses),
        leader_changes=_all(one.leader_changes for one in losses),
        isr_changes=_all(one.isr_changes for one in losses),
        reassignments=_all(one.reassignments for one in losses),
        configurations=_all(one.configurations for one in losses),
        acls=max(one.acls for one in losses),
        scram_users=max(one.scram_users for one in losses),
        quotas=max(one.quotas for one in losses),
        features=_all(one.features for one in losses),
        producer_id_blocks=max(one.producer_id_blocks for one in losses),
        records=max(one.records for one in losses),
    )


def _all(several: Iterable[tuple[_Item, ...]]) -> tuple[_Item, ...]:
    return tuple(sorted({item for one in several for item in one}, key=repr))


def assigned_by(contents: ClusterContents) -> set[Assigned]:
    """The replicas that a state knows: a broker sets any other directory aside as -stray (`LogManager.isStrayKraftReplica`)."""
    return {
        (broker, topic_id, partition)
        for (topic_id, partition), now in contents.partitions.items()
        for broker in now.replicas
    }


def _changed(other: Mapping[_Key, _Value], choice: Mapping[_Key, _Value], common: Mapping[_Key, _Value]) -> list[_Key]:
    """Keys that `other` has set since `common`, and `choice` has not."""
    return [
        key
        for key, value in other.items()
        if (key not in choice or choice[key] != value) and (key not in common or common[key] != value)
    ]


def _differing(other: Mapping[str, str], choice: Mapping[str, str], common: Mapping[str, str]) -> int:
    """How many were set or removed."""
    removed = [key for key in choice if key in common and key not in other]
    return len(_changed(other, choice, common)) + len(removed)


def _configurations(other: ClusterContents, choice: ClusterContents, common: ClusterContents) -> Iterable[str]:
    known = choice.configurations
    changed = _changed(other.configurations, known, common.configurations)
    removed = [key for key in known if key in common.configurations and key not in other.configurations]
    for kind, resource, name in sorted({*changed, *removed}):
        yield f"{_RESOURCES.get(kind, 'resource')} {resource or '(default)'}: {name}"


def _blocks(other: ClusterContents, choice: ClusterContents) -> int:
    ahead, own = (int(next(iter(one.of_kind(PRODUCER_IDS).values()), "0")) for one in (other, choice))
    return max(0, -(-(ahead - own) // _BLOCK))


def _named(contents: ClusterContents, ids: Iterable[str]) -> tuple[NamedTopic, ...]:
    found = (NamedTopic(contents.topics[one], one, sum(key[0] == one for key in contents.partitions)) for one in ids)
    return tuple(sorted(found, key=lambda one: (one.topic, one.topic_id)))


def _places(contents: ClusterContents, keys: Iterable[tuple[str, int]]) -> tuple[Place, ...]:
    return tuple(sorted((contents.topics[topic_id], number) for topic_id, number in keys))
