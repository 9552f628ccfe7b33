"""State after metadata records, with all states that every partition went through (Kafka: `MetadataImage`, D.2)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Protocol, TypeVar

from replica_audit.errors import FormatError
from replica_audit.literals import Occasion
from replica_audit.model import MIN_ISR, TIMESTAMP_TYPE, UNCLEAN, Leadership, PartitionState
from replica_audit.snapshot.leadership_rows import leadership_of_history
from replica_audit.snapshot.message_fields import ZERO_UUID, MessageError
from replica_audit.snapshot.metadata.kraft_records import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    BrokerGone,
    BrokerState,
    ConfigSet,
    ElrCleared,
    FeatureSet,
    PartitionChanged,
    PartitionSet,
    TopicCreated,
    TopicRemoved,
    Transaction,
    Voters,
    parse_message,
)
from replica_audit.snapshot.metadata.log_copies import (
    MetadataCopy,
    MetadataEntry,
    Parse,
    SnapshotEnd,
    SnapshotTime,
    read_snapshot,
)
from replica_audit.snapshot.metadata.quorum import Quorum
from replica_audit.snapshot.metadata.sole_isr import ELR_FEATURE, BrokerEvent
from replica_audit.snapshot.storage import Snapshot

#: Broker configs that are topic defaults, with the topic config's name. Others may be secret and are not kept.
_DEFAULTS = {
    MIN_ISR: MIN_ISR,
    UNCLEAN: UNCLEAN,
    "log.cleanup.policy": "cleanup.policy",
    "log.message.timestamp.type": TIMESTAMP_TYPE,
}
_CLUSTER = ""
#: Directory ids of replicas that are not assigned to a log dir yet, or were placed before KRaft supported JBOD (`DirectoryId`).
_ANY_DIRECTORY = (ZERO_UUID, "AAAAAAAAAAAAAAAAAAAAAQ")
_LOST_DIRECTORY = "AAAAAAAAAAAAAAAAAAAAAg"


class MetadataImage:
    """Topics, partitions, configs and brokers after the entries applied so far, and each partition's history."""

    def __init__(self) -> None:
        self.features: dict[str, int] = {}
        self.created: dict[str, str] = {}
        """Name by topic id of every topic so far, including deleted ones."""
        self.is_whole = True
        """True while every record since the first was applied; False after a snapshot, which lacks what was deleted before."""
        self._names: dict[str, str] = {}
        self._ids: dict[str, list[str]] = defaultdict(list)
        """Topic ids by name: in the uncommitted part a topic may be created again beside its predecessor."""
        self._states: dict[str, dict[int, list[PartitionState]]] = {}
        self._deleted: dict[str, dict[int, list[PartitionState]]] = {}
        self._configs: dict[tuple[int, str], dict[str, str]] = defaultdict(dict)
        self._nodes_with_unclean: set[str] = set()
        """Nodes with their own value for unclean.leader.election.enable."""
        self._brokers: dict[int, tuple[bool, bool]] = {}
        self.online: dict[int, frozenset[str]] = {}
        """Ids of the log dirs that a broker has online; unknown if missing or empty."""
        self.brokers: dict[int, list[BrokerEvent]] = defaultdict(list)
        self.elr_levels: list[tuple[int, int]] = []
        self._batch = (-1, -1)
        self._fenced_since: dict[int, int] = {}
        self.fenced_at: dict[int, int] = {}
        """Fenced brokers that have not registered since → time in ms of the record that fenced them."""
        self.stopped_at: dict[int, int] = {}
        """The entries of `fenced_at` for brokers that had announced their stop."""
        self._crashed_at: dict[int, int] = {}
        """Offset at which a broker last registered again without having announced its stop."""
        self._held: list[MetadataEntry] | None = None
        self._uncommitted = False

    def apply_snapshot(self, entries: Iterable[MetadataEntry], end_offset: int) -> bool:
        """Take the state of a snapshot that ends at `end_offset`; False if it has no footer and must not be used."""
        self.is_whole = False
        time_ms, complete = 0, False
        for entry in entries:
            if isinstance(entry.message, SnapshotTime):
                time_ms = entry.message.time_ms
            elif isinstance(entry.message, SnapshotEnd):
                complete = True
            else:
                self._apply(entry._replace(offset=end_offset, time_ms=time_ms, batch_end=end_offset), "snapshot")
        return complete

    def apply_log(self, entries: Iterable[MetadataEntry], committed_end: int | None) -> None:
        """Apply log records in order; from `committed_end` on they are tentative (None: unknown).

        Records of a metadata transaction count only once it has ended.
        """
        for entry in entries:
            if committed_end is not None and entry.offset >= committed_end:
                # For a reader of committed records only, a transaction open here has not ended.
                self._uncommitted = True
            message = entry.message
            if isinstance(message, Transaction):
                held = self._held or []
                self._held = [] if message.kind == "begin" else None
                if message.kind == "end":
                    for one in held:
                        self._apply(one, None)
            elif self._held is not None and not isinstance(message, Voters):
                self._held.append(entry)
            else:
                self._apply(entry, None)

    def leaderships(self) -> list[Leadership]:
        """The last committed state of every partition of existing topics, with its history."""
        found = []
        for topic_id, partitions in self._states.items():
            for partition, states in partitions.items():
                committed = [state for state in states if not state.uncommitted]
                if committed:
                    found.append(self._leadership(topic_id, partition, committed[-1], tuple(states)))
        return sorted(found, key=attrgetter("topic_partition"))

    def deleted(self) -> list[Leadership]:
        """Last state of every partition of deleted topics, with its history, without a leader."""
        found = [
            leadership_of_history(self.created[topic_id], partition, topic_id, tuple(states), None, {})
            for topic_id, partitions in self._deleted.items()
            for partition, states in partitions.items()
        ]
        return sorted(found, key=attrgetter("topic_partition"))

    def _leadership(
        self, topic_id: str, partition: int, last: PartitionState, states: tuple[PartitionState, ...]
    ) -> Leadership:
        idle = [broker for broker in last.replicas if any(self._brokers.get(broker, (True, False)))]
        since = {broker: self._fenced_since[broker] for broker in sorted(idle) if broker in self._fenced_since}
        found = leadership_of_history(self._names[topic_id], partition, topic_id, states, tuple(sorted(idle)), since)
        return replace(found, offline=tuple(sorted(self._offline(last))))

    def _offline(self, state: PartitionState) -> Iterator[int]:
        """Brokers that have the partition in a log dir that is not online (`DirectoryId.isOnline`, KIP-858)."""
        for broker, directory in zip(state.replicas, state.directories):
            online = self.online.get(broker)
            if directory == _LOST_DIRECTORY or (online and directory not in online and directory not in _ANY_DIRECTORY):
                yield broker

    def _apply(self, entry: MetadataEntry, occasion: Occasion | None) -> None:
        message = entry.message
        if entry.batch_end != self._batch[1]:
            self._batch = (entry.offset, entry.batch_end)
        match message:
            case PartitionChanged():
                self._change(entry, message)
            case PartitionSet():
                self._set(entry, message, occasion or "created")
            case ConfigSet():
                self._configure(entry, message)
            case BrokerState(broker_id=broker_id):
                self._note_broker(entry, broker_id, message.fenced, message.registered)
                # A registration with a metadata version below 3.7-IV2 lists none; they are then unknown (KAFKA-16162).
                if message.log_dirs or message.registered:
                    self.online[broker_id] = frozenset(message.log_dirs or ())
                fenced, stopping = self._brokers.get(broker_id, (False, False))
                self._brokers[broker_id] = (
                    fenced if message.fenced is None else message.fenced,
                    stopping if message.in_controlled_shutdown is None else message.in_controlled_shutdown,
                )
            case BrokerGone(broker_id=broker_id):
                self._note_broker(entry, broker_id, True, False)
                self._brokers.pop(broker_id, None)
                self.online.pop(broker_id, None)
            case TopicCreated(topic_id=topic_id, name=name):
                self._forget_name(topic_id)
                self._names[topic_id] = self.created[topic_id] = name
                self._ids[name].append(topic_id)
                self._states.setdefault(topic_id, {})
            case TopicRemoved():
                self._remove(entry, message)
            case FeatureSet(name=name, level=level):
                self.features[name] = level
                if name == ELR_FEATURE and not self._uncommitted:
                    self.elr_levels.append((entry.batch_end, level))
            case ElrCleared():
                self._clear_elr(entry, message)

    def _note_broker(self, entry: MetadataEntry, broker_id: int, fenced: bool | None, registered: bool) -> None:
        if not self._uncommitted and (fenced is not None or registered):
            if registered or fenced is False:
                self.fenced_at.pop(broker_id, None)
                self.stopped_at.pop(broker_id, None)
            elif fenced:
                self.fenced_at.setdefault(broker_id, entry.time_ms)
                if self._brokers.get(broker_id, (False, False))[1]:
                    self.stopped_at.setdefault(broker_id, entry.time_ms)
            if registered and broker_id in self._brokers and not self._brokers[broker_id][1]:
                self._crashed_at[broker_id] = entry.offset
            self.brokers[broker_id].append(BrokerEvent(entry.batch_end, fenced, registered))
            if fenced:
                # The records of a batch count together: changes of partitions precede the record that fences. A broker that
                # registers again has been up meanwhile.
                known = self._batch[0] if registered else self._fenced_since.get(broker_id, self._batch[0])
                self._fenced_since[broker_id] = known
            elif fenced is False:
                self._fenced_since.pop(broker_id, None)

    def _remove(self, entry: MetadataEntry, message: TopicRemoved) -> None:
        # In the uncommitted part the topic still exists for brokers.
        if not self._uncommitted:
            name = self._forget_name(message.topic_id)
            self._deleted[message.topic_id] = self._states.pop(message.topic_id, {})
            for states in self._deleted[message.topic_id].values():
                gone = states[-1]._replace(
                    leader_id=None, isr=(), elr=(), last_known_elr=(), replicas=(), directories=()
                )
                self._restate(entry, states, "deleted", gone)
            if name is not None:
                self._configs.pop((TOPIC_RESOURCE, name), None)

    def _forget_name(self, topic_id: str) -> str | None:
        name = self._names.pop(topic_id, None)
        if name is not None:
            self._ids[name].remove(topic_id)
        return name

    def _set(self, entry: MetadataEntry, message: PartitionSet, occasion: Occasion) -> None:
        states = self._partitions(message.topic_id).setdefault(message.partition, [])
        leader = None if message.leader < 0 else message.leader
        states.append(
            PartitionState(
                time_ms=entry.time_ms,
                metadata_offset=entry.offset,
                occasion=occasion,
                leader_id=leader,
                leader_epoch=message.leader_epoch,
                partition_epoch=message.partition_epoch,
                isr=tuple(sorted(message.isr)),
                elr=tuple(sorted(message.elr)),
                last_known_elr=tuple(sorted(message.last_known_elr)),
                replicas=message.replicas,
                removing=message.removing,
                adding=message.adding,
                directories=message.directories,
                recovering=message.recovering,
                configs=self._effective(self._names[message.topic_id], leader),
                inherits_unclean=self._inherits_unclean(self._names[message.topic_id]),
                uncommitted=self._uncommitted,
                batch_end=entry.batch_end,
            )
        )

    def _change(self, entry: MetadataEntry, message: PartitionChanged) -> None:
        """`PartitionRegistration.merge`: a leader in the record begins a new epoch, even if it is the same."""
        states = self._partitions(message.topic_id).get(message.partition)
        if not states:
            raise MessageError(
                f"expected partition {message.partition} of topic {message.topic_id} to exist at offset {entry.offset}, "
                "found none"
            )
        last = states[-1]
        leader = last.leader_id
        if message.leader is not None:
            leader = message.leader if message.leader >= 0 else None
        states.append(
            last._replace(
                time_ms=entry.time_ms,
                metadata_offset=entry.offset,
                occasion="changed",
                leader_id=leader,
                leader_stopped=leader is None and self._was_stopped(last),
                crashed=self._crashed_since(last),
                begun_anew=self._begun_anew(last, message),
                leader_epoch=last.leader_epoch + (message.leader is not None),
                partition_epoch=last.partition_epoch + 1,
                isr=_given(_in_order(message.isr), last.isr),
                elr=_given(_in_order(message.elr), last.elr),
                last_known_elr=_given(_in_order(message.last_known_elr), last.last_known_elr),
                replicas=_given(message.replicas, last.replicas),
                removing=_given(message.removing, last.removing),
                adding=_given(message.adding, last.adding),
                directories=_given(message.directories, last.directories),
                recovering=_given(message.recovering, last.recovering),
                configs=self._effective(self._names[message.topic_id], leader),
                inherits_unclean=self._inherits_unclean(self._names[message.topic_id]),
                uncommitted=self._uncommitted,
                batch_end=entry.batch_end,
            )
        )

    def _was_stopped(self, last: PartitionState) -> bool:
        """True if the leader had announced its shutdown; the controller records that before it takes the leadership away."""
        if last.leader_id is None:
            return last.leader_stopped
        return self._brokers.get(last.leader_id, (False, False))[1]

    def _crashed_since(self, last: PartitionState) -> tuple[int, ...]:
        return tuple(
            broker
            for broker in last.replicas
            if self._crashed_at.get(broker, last.metadata_offset) > last.metadata_offset
        )

    def _begun_anew(self, last: PartitionState, message: PartitionChanged) -> tuple[int, ...]:
        """Replicas that `message` moves from a log dir that is not online to one that is."""
        before = dict(zip(last.replicas, last.directories))
        offline = {*self._offline(last)}
        now = zip(_given(message.replicas, last.replicas), message.directories or ())
        return tuple(
            broker
            for broker, directory in now
            if broker in offline and directory != before[broker] and directory in self.online.get(broker, ())
        )

    def _configure(self, entry: MetadataEntry, message: ConfigSet) -> None:
        is_topic = message.resource_type == TOPIC_RESOURCE
        if not is_topic and (message.resource_type != BROKER_RESOURCE or message.name not in _DEFAULTS):
            return
        of_resource = self._configs[message.resource_type, message.resource]
        if message.value is None:
            of_resource.pop(message.name, None)
        else:
            of_resource[message.name] = message.value
        if not is_topic and message.name == UNCLEAN and message.resource != _CLUSTER:
            if message.value is None:
                self._nodes_with_unclean.discard(message.resource)
            else:
                self._nodes_with_unclean.add(message.resource)
        for topic, states in self._histories(message.resource if is_topic else None):
            last = states[-1]
            configured = last._replace(
                configs=self._effective(topic, last.leader_id), inherits_unclean=self._inherits_unclean(topic)
            )
            self._restate(entry, states, "configured", configured)

    def _clear_elr(self, entry: MetadataEntry, message: ElrCleared) -> None:
        for _, states in self._histories(message.topic or None):
            self._restate(entry, states, "elr_cleared", states[-1]._replace(elr=(), last_known_elr=()))

    def _histories(self, topic: str | None) -> Iterator[tuple[str, list[PartitionState]]]:
        """Topic and states of each partition of a topic, or of all topics."""
        topic_ids = self._names if topic is None else self._ids.get(topic, ())
        for topic_id in topic_ids:
            for states in self._states[topic_id].values():
                yield self._names[topic_id], states

    def _restate(
        self, entry: MetadataEntry, states: list[PartitionState], occasion: Occasion, changed: PartitionState
    ) -> None:
        last = states[-1]
        if changed == last:
            return
        if last.time_ms == entry.time_ms and last.occasion in ("created", "snapshot") and occasion != "deleted":
            # Configs of a new topic come with it.
            states[-1] = changed
            return
        states.append(
            changed._replace(
                time_ms=entry.time_ms,
                metadata_offset=entry.offset,
                occasion=occasion,
                batch_end=entry.batch_end,
                uncommitted=self._uncommitted,
                crashed=self._crashed_since(last),
                begun_anew=(),
            )
        )

    def _partitions(self, topic_id: str) -> dict[int, list[PartitionState]]:
        if topic_id not in self._states:
            raise MessageError(f"expected topic {topic_id} to exist, found none")
        return self._states[topic_id]

    def _effective(self, topic: str, leader_id: int | None) -> dict[str, str]:
        """Topic config, else the leader's, else the cluster's; values from server.properties are not in the log. Whether unclean
        elections are allowed depends on the active controller, not the leader: unknown if any node has its own value (D.2)."""
        layers = [(BROKER_RESOURCE, _CLUSTER)] + ([(BROKER_RESOURCE, str(leader_id))] if leader_id is not None else [])
        found: dict[str, str] = {}
        for layer in layers:
            found.update({_DEFAULTS[name]: value for name, value in self._configs.get(layer, {}).items()})
        if self._nodes_with_unclean:
            found.pop(UNCLEAN, None)
        return {**found, **self._configs.get((TOPIC_RESOURCE, topic), {})}

    def _inherits_unclean(self, topic: str) -> bool:
        of_cluster = self._configs.get((BROKER_RESOURCE, _CLUSTER), {})
        own = self._configs.get((TOPIC_RESOURCE, topic), {})
        return UNCLEAN in of_cluster and UNCLEAN not in own and not self._nodes_with_unclean


_Value = TypeVar("_Value")


def _given(value: _Value | None, before: _Value) -> _Value:
    """`value`, or `before` if the record leaves the field unchanged."""
    return before if value is None else value


def _in_order(ids: tuple[int, ...] | None) -> tuple[int, ...] | None:
    return None if ids is None else tuple(sorted(ids))


class RecordState(Protocol):
    """State to which metadata records are applied, such as `MetadataImage`."""

    def apply_snapshot(self, entries: Iterable[MetadataEntry], end_offset: int) -> bool:
        """Take the state of a snapshot; False if it is incomplete and must not be used."""
        ...

    def apply_log(self, entries: Iterable[MetadataEntry], committed_end: int | None) -> None:
        """Apply log records in order; from `committed_end` on they are tentative."""
        ...


_State = TypeVar("_State", bound=RecordState)


def replay(snapshot: Snapshot, copies: Sequence[MetadataCopy], quorum: Quorum) -> MetadataImage:
    """The state after the newest copy's records, preceded by those of an older copy that reaches back further.

    Records from `committed_end` on are tentative. Raises FormatError, MessageError and OSError.
    """
    return replay_into(MetadataImage, snapshot, copies, quorum)


def replay_into(
    begin_with: Callable[[], _State],
    snapshot: Snapshot,
    copies: Sequence[MetadataCopy],
    quorum: Quorum,
    parse: Parse = parse_message,
) -> _State:
    """`replay` into a state of another kind, from records that `parse` decodes."""
    newest = quorum.newest
    older = _older_copy(copies, quorum)
    start = newest.start_offset if older is None else older.start_offset
    state, begin = _first_state(begin_with, snapshot, quorum, start, parse)
    state.apply_log(_entries(snapshot, newest, older, begin, parse), quorum.committed_end)
    return state


def _entries(
    snapshot: Snapshot, newest: MetadataCopy, older: MetadataCopy | None, begin: int, parse: Parse
) -> Iterator[MetadataEntry]:
    if older is not None:
        yield from older.entries(snapshot, begin, newest.start_offset, parse)
    yield from newest.entries(snapshot, max(begin, newest.start_offset), parse=parse)


def _older_copy(copies: Sequence[MetadataCopy], quorum: Quorum) -> MetadataCopy | None:
    """The copy of the same log that reaches back furthest, and up to the start of the newest one."""
    newest = quorum.newest
    fitting = [
        copy
        for copy in copies
        if copy.start_offset < newest.start_offset <= quorum.agreed[copy.log.path] and copy.pieces and not copy.problems
    ]
    return min(fitting, key=lambda copy: (copy.start_offset, copy.log.path), default=None)


def _first_state(
    begin_with: Callable[[], _State], snapshot: Snapshot, quorum: Quorum, start: int, parse: Parse
) -> tuple[_State, int]:
    """State to which the log's records are applied, and the offset of the first of them."""
    if start == 0:
        return begin_with(), 0
    end = quorum.newest.end_offset
    for one in quorum.snapshots:
        if start <= one.end_offset <= end:
            state = begin_with()
            if state.apply_snapshot(read_snapshot(snapshot, one.path, parse), one.end_offset):
                return state, one.end_offset
    raise FormatError(
        quorum.newest.log.path,
        None,
        f"a complete .checkpoint file that ends between offset {start}, where the log begins, and {end}",
        "none",
        "copy the .checkpoint files of __cluster_metadata-0 as well",
    )
