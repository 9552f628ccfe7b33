"""The cluster as a snapshot shows it: every partition as registered with the controller, which brokers are up, and how others stopped."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple, TypeVar

from replica_audit.auditing.catalogue import codes_with
from replica_audit.auditing.finding import Code
from replica_audit.auditing.findings.txn import TXN_PENDING
from replica_audit.batch_header import or_absent
from replica_audit.cached_property import cached_property
from replica_audit.errors import UsageError
from replica_audit.literals import LEADERSHIP_SOURCES, UP_KINDS
from replica_audit.model import APPEND_TIME, MESSAGE_FORMAT, MIN_ISR, TIMESTAMP_TYPE, UNCLEAN, TopicPartition
from replica_audit.protocol.controller import NextLeader, Registration, next_leader
from replica_audit.protocol.versions import (
    Version,
    can_be_kraft,
    can_have_elr,
    heeds_old_formats,
    is_old_format,
    parse_kafka_version,
    runs_without_zookeeper,
)
from replica_audit.results import KnownState, Results, present, with_places
from replica_audit.schema import FindingRow, PartitionRow, PartitionStateRow
from replica_audit.snapshot.log_dir_names import METADATA_PARTITION
from replica_audit.text import name_brokers, name_ids, verb

#: Clause on why the controller's behaviour is unknown.
METADATA_IN_DOUBT = "copies of the metadata log are stale or contradict each other"
#: Clause after a command that points to `quorum`, whose plan with a log that is too old asks for this answer.
WITHIN_QUORUM = "; where its plan asked for this answer, go on with that plan"


_State = TypeVar("_State", KnownState, PartitionStateRow)


def states_of_source(states: Iterable[_State]) -> list[_State]:
    """States of one partition from its most trusted source, oldest first, without uncommitted ones."""
    known = [row for row in states if row.source in LEADERSHIP_SOURCES and not row.uncommitted]
    best = min((LEADERSHIP_SOURCES.index(row.source) for row in known), default=0)
    return sorted((row for row in known if row.source == LEADERSHIP_SOURCES[best]), key=lambda row: row.entry or 0)


def newest_states(results: Results) -> dict[TopicPartition, KnownState]:
    """The newest state of each partition, from any source."""
    neighbours = groupby(results.states(), itemgetter(0))
    found = ((place, states_of_source(state for _, state in states)) for place, states in neighbours)
    return {place: states[-1] for place, states in found if states}


def deleted_places(newest: Mapping[TopicPartition, KnownState]) -> frozenset[TopicPartition]:
    """Partitions whose topic was deleted by their newest state in the metadata log: their remains wait for removal."""
    return frozenset(place for place, state in newest.items() if state.occasion == "deleted")


def find_up(results: Results) -> dict[int, bool]:
    """True for each broker that was up when it was copied, False for one that was down; unknown ones are left out
    (docs/semantics.md H.2).

    In order of trust: what the manifest says of its copy; the newest metadata log, which knows who is fenced; the
    clean-shutdown flag. A listing does not count, since it may have been made before the brokers went down. Nor does a
    metadata log that has a broker up which nobody saw run, or whose own log ends below its checkpoints: all nodes may
    have gone down with nobody left to fence them. A broker that was seen to run and is fenced is unknown: it went down
    after its copy, came back after the metadata log ends, or is not registered with the controllers.
    """
    doubtful = _cut_short(results) | _perhaps_down(results)
    is_registered = _registered(results)
    up = {one: is_up for one, is_up in is_registered.items() if not is_up or one not in doubtful}
    at_rest = results.options.get("quiesced")
    for broker_id in {row.broker_id for row in results.replicas if row.clean_shutdown}:
        if up.get(broker_id) and not at_rest:
            # Flag and metadata log are of different moments, and which is later is unknown.
            del up[broker_id]
        else:
            up[broker_id] = False
    kinds: dict[int, set[str | None]] = defaultdict(set)
    for item in results.inputs.get("brokers", ()):
        kinds[item["broker_id"]].add(item["kind"])
    for broker_id, said in kinds.items():
        if None not in said and len({kind in UP_KINDS for kind in said}) == 1:
            if said <= UP_KINDS and is_registered.get(broker_id) is False:
                up.pop(broker_id, None)
            else:
                up[broker_id] = said <= UP_KINDS
        elif broker_id in up and (said - {None, *UP_KINDS} if up[broker_id] else None in said):
            # Up, but said to be down for a part: it may be down. Down, but nothing is said of a part: it may be up.
            del up[broker_id]
    return up


def _registered(results: Results) -> dict[int, bool]:
    """False for each broker that is fenced in the newest metadata log, True for the others."""
    up: dict[int, bool] = {}
    for _, state in results.states():
        if state.fenced is not None:
            up.update({broker_id: broker_id not in state.fenced for broker_id in state.replicas or ()})
    return up


def _perhaps_down(results: Results) -> set[int]:
    """Brokers that are not fenced, and that nothing shows to have run when they were copied."""
    return {broker_id for _, state in results.states() for broker_id in state.perhaps_down or ()}


def _found(results: Results, trait: str) -> list[FindingRow]:
    """Present findings whose codes have a trait."""
    codes = codes_with(trait)
    return [row for row in present(results.findings) if row.code in codes]


def placed(results: Results, code: Code, about: Container[TopicPartition]) -> list[tuple[TopicPartition, FindingRow]]:
    """Present findings of a code, each with its partition, on the partitions that the plan is `about`."""
    found = with_places(row for row in present(results.findings) if row.code == code.code)
    return [(place, row) for place, row in found if place in about]


def _cut_short(results: Results) -> set[int | None]:
    """Brokers with a log that ends below its own checkpoints."""
    return {row.broker_id for row in _found(results, "lost_tail")}


def find_clean(results: Results) -> dict[int, bool]:
    """True for each broker that left a clean-shutdown flag in all of its log dirs, False for one that did not
    (`LogManager.readBrokerEpochFromCleanShutdownFiles`)."""
    clean: dict[int, bool] = {}
    for row in results.replicas:
        if row.clean_shutdown is not None:
            clean[row.broker_id] = clean.get(row.broker_id, True) and row.clean_shutdown
    return clean


class Controllers(NamedTuple):
    """The controllers of the cluster, which form a quorum."""

    voters: frozenset[int] = frozenset()
    """All of them; empty if unknown."""
    holders: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    """Nodes that hold the metadata log, captured or not: brokers, then controllers that are not brokers too."""
    is_doubted: bool = False
    """True if copies of the metadata log are stale or contradict each other."""
    is_lost: bool = False
    """True if too few voters have a metadata log that they can vote with."""
    voteless: tuple[int, ...] = ()
    """Voters whose directory is here without a log that they can vote with."""
    not_up: tuple[int, ...] = ()
    """Voters that are not brokers too, and are not known to be up."""
    are_down: bool = False
    """True if one of `not_up` is known to be down."""


@dataclass(frozen=True)
class PresentState:
    """State of the cluster that a plan starts from."""

    partitions: Mapping[TopicPartition, Registration]
    """Partitions with a known assignment and ISR."""
    unclean_said: Mapping[TopicPartition, bool | None]
    """unclean.leader.election.enable of the topic; None if its source does not show it."""
    up: frozenset[int]
    clean: frozenset[int]
    """Brokers that are down and were stopped cleanly."""
    unknown: frozenset[int]
    """Brokers that may be up or down: a plan must hold either way."""
    has_elr: bool | None
    """True if eligible leader replicas are in force; None if unknown."""
    mode: str | None
    """kraft or zookeeper; None if unknown."""
    epoch_said: frozenset[TopicPartition]
    """Partitions whose source gives their leader epoch."""
    overtaken: frozenset[TopicPartition] = frozenset()
    """Partitions whose source of leadership is older than the logs: its leader and ISR are not in `partitions`."""
    unheard: frozenset[int] = frozenset()
    """Brokers with replicas here that are assigned no partition, and may be up or down."""
    contradicted: frozenset[int] = frozenset()
    """Brokers of `unknown` that are up by the metadata log, though one of their logs ends below its own checkpoints."""
    own_unclean: Mapping[str, bool | None] = field(default_factory=dict)
    """True for a topic with a value of its own for unclean.leader.election.enable; None if it may be the cluster's."""
    fenced: frozenset[int] = frozenset()
    """Brokers that the controller had fenced already: it elects none of them as others go down."""
    deleted: frozenset[TopicPartition] = frozenset()
    """Partitions of deleted topics."""
    disowned: frozenset[int] = frozenset()
    """Brokers with a log dir here that is another one's (META-DIR-OWNER)."""
    blank: Mapping[int, Sequence[str]] = field(default_factory=dict)
    """Empty log dirs in the snapshot, by broker: a new disk, perhaps in place of another one."""
    kept_out: Mapping[TopicPartition, frozenset[int]] = field(default_factory=dict)
    """Replicas that would lead if they could, of partitions that nobody leads by a source that names no log dirs: if their brokers are
    up, their log dirs are offline (H19), or the source is older than their start."""
    refused: Mapping[int, Mapping[str, tuple[str, str | None]]] = field(default_factory=dict)
    """Files that brokers cannot read, by broker: path, code of the finding, and the lines that belong in it; None if unknown."""
    pending: Mapping[TopicPartition, Sequence[str]] = field(default_factory=dict)
    """Transactions that their coordinator has yet to end, with its word on them, by partition."""
    controllers: Controllers = Controllers()
    kafka_version: Version | None = None
    """None if unknown."""
    append_time: frozenset[str] = frozenset()
    """Topics whose records get the broker's time."""
    old_format: frozenset[str] = frozenset()
    """Topics with a message format before 0.11, which has no transactions."""

    @cached_property
    def brokers(self) -> frozenset[int]:
        return frozenset(broker for one in self.partitions.values() for broker in one.replicas)

    @cached_property
    def kinds(self) -> Mapping[TopicPartition, int]:
        """Number of each partition's kind; a controller treats partitions of one kind alike, leader epochs aside."""
        numbers: dict[tuple[object, ...], int] = {}
        return {
            place: numbers.setdefault((self.unclean_said[place], *_without_epoch(one)), len(numbers))
            for place, one in self.partitions.items()
        }

    @cached_property
    def down(self) -> frozenset[int]:
        """Brokers known to be down."""
        return self.brokers - self.up - self.unknown

    @property
    def controllers_lead_alone(self) -> bool:
        """False if the controllers have no majority until a broker that is one of them is up."""
        voters = self.controllers.voters
        return not voters or 2 * len(voters - self.brokers) > len(voters)

    @property
    def starts_controllers(self) -> bool:
        """True if controllers have to be started first: one is known to be down, or no broker is known to be up."""
        return bool(self.controllers.not_up) and (self.controllers.are_down or not self.up)

    @property
    def is_any_up(self) -> bool | None:
        """True if a broker is known to be up; None if one may be."""
        if self.up:
            return True
        return None if self.unknown else False

    @cached_property
    def fenced_running(self) -> frozenset[int]:
        """Brokers that were seen to run, and that the controllers had fenced."""
        return self.fenced & self.unknown

    def disowned_of(self, place: TopicPartition, holders: Iterable[int]) -> frozenset[int]:
        """Brokers, assigned or `holders` of a captured log of the partition, with a log dir here that belongs to
        another node: their captured log, or its absence, is ignored."""
        registration = self.partitions.get(place)
        return frozenset() if registration is None else self.disowned.intersection((*registration.replicas, *holders))

    def liveness(self, broker_id: int) -> str:
        """up, down or unknown."""
        if broker_id in self.up:
            return "up"
        return "unknown" if broker_id in self.unknown | self.unheard else "down"

    def may_lead(self, place: TopicPartition, broker_id: int) -> bool:
        """True if the broker is the registered leader and not known to be down, or is elected in its place without a request."""
        is_registered = self.registered_leader(place) == broker_id and broker_id not in self.down
        return is_registered or broker_id == self.elected_by_itself(place)

    def registered_leader(self, place: TopicPartition) -> int | None:
        """The registered leader, up or not."""
        registration = self.partitions.get(place)
        return None if registration is None else registration.leader_id

    def next_leader(self, place: TopicPartition) -> NextLeader | None:
        """The leader that the controller would choose now if brokers of unknown state are up; None if it would choose nobody, or
        the assignment is unknown."""
        registration = self.partitions.get(place)
        if registration is None:
            return None
        return next_leader(registration, self.up | self.unknown, unclean=registration.unclean)

    def elected_by_itself(self, place: TopicPartition) -> int | None:
        """The broker that the controller elects in place of a registered leader known to be down; None if there is none, or if
        that depends on a broker that may be up or down."""
        found = self.next_leader(place) if self.registered_leader(place) in self.down else None
        return found.broker_id if found is not None and found.broker_id in self.up else None

    def leaderless(self) -> tuple[TopicPartition, ...]:
        """Partitions without a leader, or whose leader is known to be down."""
        return tuple(
            place
            for place, one in sorted(self.partitions.items())
            if one.leader_id is None or one.leader_id in self.down
        )


def check_named(results: Results, option: str, broker_ids: Iterable[int] | None) -> None:
    """Raises UsageError if `option` names brokers without a partition or a copy here: after a typo all others would count as down."""
    brokers = {row.broker_id for row in results.replicas}
    brokers |= {row.broker_id for row in results.captures if row.topic != METADATA_PARTITION.topic}
    brokers |= {broker for row in results.partition_states for broker in row.replicas or ()}
    # A broker without partitions may be here with its copy of the metadata log alone.
    others = {row.broker_id for row in results.captures} | {row.broker_id for row in results.metadata_logs}
    if unnamed := sorted({*(broker_ids or ())} - brokers - others):
        has = name_brokers(sorted(brokers))
        nothing = f"the snapshot has nothing of {name_brokers(unnamed, 'or')}, and no partition is assigned to"
        raise UsageError(f"{option}: {nothing} {verb(len(unnamed), 'it', 'them')}; it has {has}")


def present_state(
    results: Results, up: Iterable[int] | None = None, stopped_cleanly: Iterable[int] | None = None
) -> PresentState:
    """The state that `results` show; `up` and `stopped_cleanly`, if given, override fencing and flags."""
    newest = newest_states(results)
    leaders = results.partition_of
    version = parse_kafka_version(results.options.get("kafka_version"))
    mode = _mode({row.source for row in newest.values()}, version)
    has_elr = _has_elr(results, mode, version)
    doubted = _found(results, "quorum")
    overtaken = {place for place, _ in with_places(doubted)}
    # The ISR comes from a source that the audit does not believe, since the logs are newer.
    overtaken |= {
        place
        for place, state in newest.items()
        if state.isr is not None and place in leaders and leaders[place].isr is None
    }
    accused = [row.broker_id for row in doubted if row.topic is None]
    registrable = {
        place: state
        for place, state in newest.items()
        if state.isr is not None and state.replicas and (accused or place not in overtaken)
    }
    partitions = _registrations(results, registrable, has_elr=bool(has_elr))
    unclean = {place: state.configs.get(UNCLEAN) for place, state in registrable.items()}
    brokers = {broker for one in partitions.values() for broker in one.replicas}
    brokers |= {
        row.leader_id for place, row in leaders.items() if place not in partitions and row.leader_id is not None
    }
    others = {row.broker_id for row in results.replicas} - brokers
    # The flag is missing in the log dir that failed, and the controller takes the broker for killed (`readBrokerEpochFromCleanShutdownFiles`).
    failed = {broker for one in partitions.values() for broker in one.offline}
    found_up = find_up(results)
    if up is None:
        is_up = {broker for broker in brokers | others if found_up.get(broker)}
        silent = (brokers | others) - found_up.keys()
    else:
        is_up = set(up)
        silent = set()
    if stopped_cleanly is None:
        stopped_cleanly = (broker for broker, is_clean in find_clean(results).items() if is_clean and broker in brokers)
    registered = _registered(results)
    # The metadata log names directories that are offline.
    kept_out = {
        place: one.entitled
        for place, one in partitions.items()
        if one.leader_id is None and one.entitled and newest[place].source != "metadata_log"
    }
    return PresentState(
        partitions=partitions,
        unclean_said={place: None if value is None else value == "true" for place, value in unclean.items()},
        own_unclean={place.topic: _is_own_unclean(state) for place, state in registrable.items()},
        up=frozenset(is_up),
        clean=frozenset(stopped_cleanly) - is_up - failed,
        unknown=frozenset(brokers & silent),
        has_elr=has_elr,
        mode=mode,
        epoch_said=frozenset(place for place, state in newest.items() if state.leader_epoch is not None),
        overtaken=frozenset(overtaken),
        unheard=frozenset(others & silent),
        fenced=frozenset(one for one, is_up_there in registered.items() if not is_up_there),
        deleted=deleted_places(newest),
        contradicted=frozenset(one for one in brokers & silent & _cut_short(results) if registered.get(one)),
        disowned=frozenset(row.broker_id for row in _found(results, "other_owner") if row.broker_id is not None),
        blank=_blank(results),
        refused=_refused(results),
        pending=_pending(results),
        kept_out=kept_out,
        controllers=_controllers(results, brokers, accused, found_up, is_up),
        kafka_version=version,
        append_time=frozenset(
            place.topic for place, one in registrable.items() if one.configs.get(TIMESTAMP_TYPE) == APPEND_TIME
        ),
        old_format=frozenset(
            place.topic
            for place, one in registrable.items()
            if is_old_format(one.configs.get(MESSAGE_FORMAT, "")) and heeds_old_formats(version) is not False
        ),
    )


def _registrations(
    results: Results, states: Mapping[TopicPartition, KnownState], *, has_elr: bool
) -> dict[TopicPartition, Registration]:
    """Partitions as registered with the controller; equal registrations are one object."""
    known: dict[Registration, Registration] = {}
    # Its row is the last one, which may be uncommitted.
    offline = {place: tuple(state.offline) for place, state in results.states() if state.offline}
    found = {}
    for place, state in states.items():
        leader = results.partition_of.get(place)
        registration = _registration(state, leader, has_elr=has_elr, offline=offline.get(place, ()))
        found[place] = known.setdefault(registration, registration)
    return found


def _is_own_unclean(state: KnownState) -> bool | None:
    """`own_unclean` of a partition's topic: a listing shows what the topic inherits, too, unless it is Kafka's default."""
    is_said = UNCLEAN in state.configs
    if state.source == "metadata_log":
        return is_said and not state.inherits_unclean
    if state.source == "zookeeper" and state.inherits_unclean is not None:
        return not state.inherits_unclean
    return None if is_said or state.source != "topics_describe" else False


def _pending(results: Results) -> dict[TopicPartition, list[str]]:
    found: dict[TopicPartition, list[str]] = defaultdict(list)
    for place, row in with_places(row for row in present(results.findings) if row.code == TXN_PENDING.code):
        found[place] += [str(item.value) for item in row.evidence if item.kind == "transaction"]
    return found


def _blank(results: Results) -> dict[int, list[str]]:
    """Empty log dirs, by broker."""
    found: dict[int, list[str]] = defaultdict(list)
    for one in results.inputs.get("blank", ()):
        found[one["broker_id"]].append(one["log_dir"])
    return dict(found)


def _refused(results: Results) -> dict[int, dict[str, tuple[str, str | None]]]:
    found: dict[int, dict[str, tuple[str, str | None]]] = defaultdict(dict)
    for row in present(results.findings):
        for item in row.evidence:
            if item.text == "malformed" and row.broker_id is not None and item.path is not None:
                found[row.broker_id][item.path] = row.code, item.value
    return found


def _registration(
    state: KnownState, answer: PartitionRow | None, *, has_elr: bool, offline: tuple[int, ...]
) -> Registration:
    """A partition as its newest state has it; the leader epoch is that of the audit's answer if the state has none."""
    epoch = state.leader_epoch
    if epoch is None and answer is not None:
        epoch = answer.leader_epoch
    configs = state.configs
    least = configs.get(MIN_ISR, "")
    return Registration(
        replicas=tuple(state.replicas or ()),
        leader_id=state.leader_id,
        leader_epoch=or_absent(epoch),
        isr=_members(tuple(state.isr or ())),
        elr=_members(tuple(state.elr or ())),
        last_known=tuple(state.last_known_elr or ()),
        min_isr=int(least) if least.isdigit() else 1,
        unclean=configs.get(UNCLEAN) == "true",
        has_elr=has_elr,
        adding=_members(tuple(state.adding or ())),
        removing=_members(tuple(state.removing or ())),
        offline=_members(offline),
    )


@lru_cache(maxsize=1 << 12)
def _members(brokers: tuple[int, ...]) -> frozenset[int]:
    """The brokers as a set. Equal sets are one object: most partitions share theirs."""
    return frozenset(brokers)


def _without_epoch(one: Registration) -> tuple[object, ...]:
    return tuple(getattr(one, name) for name in Registration._fields if name != "leader_epoch")


def _controllers(
    results: Results,
    registered: Set[int],
    accused: Sequence[int | None],
    found_up: Mapping[int, bool],
    is_up: Set[int],
) -> Controllers:
    """`registered`: brokers with partitions. `accused`: nodes whose metadata log is in doubt (None: unknown which
    one); a node that is neither a voter nor a broker counts as a controller."""
    voters = frozenset(row.broker_id for row in results.captures if row.topic == METADATA_PARTITION.topic)
    brokers = registered | {row.broker_id for row in results.captures if row.topic != METADATA_PARTITION.topic}
    controllers = sorted((voters | {node for node in accused if node is not None}) - brokers)
    not_up = [node for node in controllers if node in voters and not found_up.get(node) and node not in is_up]
    return Controllers(
        voters=voters,
        holders=(tuple(sorted(brokers)), tuple(controllers)),
        is_doubted=bool(accused),
        is_lost=bool(find_lost_quorum(results)),
        voteless=_voteless(results),
        not_up=tuple(not_up),
        are_down=any(found_up.get(node) is False for node in not_up),
    )


def _voteless(results: Results) -> tuple[int, ...]:
    """Voters without a captured log that they can vote with: blank, unreadable, or formatted anew (KIP-853) in every directory."""
    of_voters: dict[int, list[bool]] = defaultdict(list)
    for row in results.metadata_logs:
        if row.is_voter and row.broker_id is not None:
            has_log = row.standing not in ("empty", "unreadable")
            of_voters[row.broker_id].append(has_log and row.may_vote is not False)
    brokers = {row.broker_id for row in results.replicas}
    for capture in results.captures:
        is_blank = capture.topic == METADATA_PARTITION.topic and capture.state == "absent"
        # The metadata log of a broker may be on another disk (metadata.log.dir).
        if is_blank and capture.broker_id not in brokers:
            of_voters[capture.broker_id].append(False)
    return tuple(sorted(node for node, able in of_voters.items() if not any(able)))


def _mode(sources: Set[str], kafka_version: Version | None) -> str | None:
    if "metadata_log" in sources or runs_without_zookeeper(kafka_version) is True:
        return "kraft"
    if "zookeeper" in sources or can_be_kraft(kafka_version) is False:
        return "zookeeper"
    return None


def _has_elr(results: Results, mode: str | None, kafka_version: Version | None) -> bool | None:
    if any(state.elr or state.last_known_elr for _, state in results.states()):
        return True
    if mode == "zookeeper" or can_have_elr(kafka_version) is False:
        return False
    return None


def find_lost_quorum(results: Results) -> tuple[int, ...]:
    """Voters without a log that they can vote with, if the others do not make a majority; else empty."""
    voters = {row.broker_id for row in results.captures if row.topic == METADATA_PARTITION.topic}
    voteless = _voteless(results)
    return voteless if 2 * (len(voters) - len(voteless)) <= len(voters) else ()


def tell_voteless(voteless: Sequence[int]) -> str:
    """Clause on voters without a log, without whom there is no majority."""
    has, them = ("has", "it") if len(voteless) == 1 else ("have", "them")
    return f"{name_ids('controller', voteless)} {has} no metadata log to vote with, and without {them} there is no majority"
