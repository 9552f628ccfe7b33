"""The cluster's state after the records of a metadata log, as far as a choice may lose it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from replica_audit.errors import FormatError
from replica_audit.snapshot.message_fields import MessageError
from replica_audit.snapshot.metadata.image import MetadataImage, replay, replay_into
from replica_audit.snapshot.metadata.kraft_records import (
    BrokerGone,
    BrokerState,
    ConfigSet,
    KeyedRecord,
    Transaction,
    Voters,
    parse_any,
)
from replica_audit.snapshot.metadata.log_copies import MetadataCopy, MetadataEntry, SnapshotEnd
from replica_audit.snapshot.metadata.quorum import weigh_copies
from replica_audit.snapshot.storage import Snapshot


class PartitionNow(NamedTuple):
    """The part of a partition's state that elections depend on."""

    leader_id: int | None
    leader_epoch: int | None
    isr: tuple[int, ...]
    replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ClusterContents:
    """The state after all records of a copy."""

    topics: Mapping[str, str]
    """Name by topic id, of existing topics."""
    created: frozenset[str]
    """Ids of all topics ever created, as far back as the log goes."""
    partitions: Mapping[tuple[str, int], PartitionNow]
    """By topic id and partition number."""
    features: Mapping[str, int]
    configurations: Mapping[tuple[int, str, str], str]
    """Value by resource type, resource and name."""
    others: Mapping[tuple[str, str], str]
    """Content by kind and key (`KeyedRecord`)."""
    voters: Mapping[int, str | None]
    """Directory id that each voter votes from; None for a voter known by its node id only."""
    log_dirs: Mapping[int, tuple[str, ...]] = field(default_factory=dict, compare=False)
    """By registered broker, the ids of the log directories in its last registration (KIP-858); none before metadata.version 3.7-IV2."""

    def of_kind(self, kind: str) -> dict[str, str]:
        """Content by key, of one kind."""
        return {key: content for (of, key), content in self.others.items() if of == kind}


NOTHING = ClusterContents({}, frozenset(), {}, {}, {}, {}, {})


def read_contents(snapshot: Snapshot, copy: MetadataCopy, of_history: Sequence[MetadataCopy]) -> ClusterContents | str:
    """The state after a copy's records, read with older copies of its history if needed; the reason as text if it cannot be built."""
    older = [one for one in of_history if one.newness <= copy.newness and one.log.path != copy.log.path]
    copies = [copy, *older]
    quorum = weigh_copies(copies, None)._replace(newest=copy)
    try:
        image = replay(snapshot, copies, quorum)
        counted = replay_into(_Counted, snapshot, copies, quorum, parse_any)
        named = copy.voters(snapshot)
    except (FormatError, MessageError, OSError) as error:
        return str(error)
    return _contents(image, counted, named or Voters(()))


def _contents(image: MetadataImage, counted: _Counted, named: Voters) -> ClusterContents:
    topics: dict[str, str] = {}
    partitions: dict[tuple[str, int], PartitionNow] = {}
    for one in image.leaderships():
        if one.topic_id is not None:
            topics[one.topic_id] = one.topic
            state = PartitionNow(one.leader_id, one.leader_epoch, one.isr or (), one.replicas or ())
            partitions[one.topic_id, one.partition] = state
    voters = {**dict.fromkeys(named.ids), **dict(named.directories)}
    return ClusterContents(
        topics,
        frozenset(image.created),
        partitions,
        dict(image.features),
        counted.configurations,
        counted.others,
        voters,
        counted.log_dirs,
    )


class _Counted:
    """Image consumer that collects configurations, log directories and counted records."""

    def __init__(self) -> None:
        self.configurations: dict[tuple[int, str, str], str] = {}
        self.others: dict[tuple[str, str], str] = {}
        self.log_dirs: dict[int, tuple[str, ...]] = {}

    def apply_snapshot(self, entries: Iterable[MetadataEntry], end_offset: int) -> bool:
        del end_offset
        complete = False
        for entry in entries:
            complete = complete or isinstance(entry.message, SnapshotEnd)
            self._apply(entry)
        return complete

    def apply_log(self, entries: Iterable[MetadataEntry], committed_end: int | None) -> None:
        del committed_end
        for entry in _ended(entries):
            self._apply(entry)

    def _apply(self, entry: MetadataEntry) -> None:
        match entry.message:
            case ConfigSet(resource_type=kind, resource=resource, name=name, value=value):
                _put(self.configurations, (kind, resource, name), value)
            case KeyedRecord(kind=of, key=key, content=content):
                _put(self.others, (of, key), content)
            case BrokerState(broker_id=broker_id, log_dirs=tuple() as log_dirs):
                self.log_dirs[broker_id] = log_dirs
            case BrokerGone(broker_id=broker_id):
                self.log_dirs.pop(broker_id, None)


def _put(into: dict, key: tuple, value: str | None) -> None:
    if value is None:
        into.pop(key, None)
    else:
        into[key] = value


def _ended(entries: Iterable[MetadataEntry]) -> Iterator[MetadataEntry]:
    """Entries that took effect: those outside metadata transactions, and those of transactions that ended."""
    held: list[MetadataEntry] | None = None
    for entry in entries:
        if isinstance(entry.message, Transaction):
            if entry.message.kind == "end":
                yield from held or ()
            held = [] if entry.message.kind == "begin" else None
        elif held is not None:
            held.append(entry)
        else:
            yield entry
