"""A plan: the leader to elect for each partition, and the steps that carry this out, in order (docs/reference.md, elect).

plan.json follows from these classes: a field is added here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated

from replica_audit.elect.cost_words import ask_for_copies, rank_loss, say_loss, say_uncaptured
from replica_audit.errors import UsageError
from replica_audit.literals import UNSEEN
from replica_audit.model import TopicPartition
from replica_audit.schema import RemoteShareRow
from replica_audit.snapshot.log_dir_names import directory_of_deleted
from replica_audit.text import capitalise, name_brokers
from replica_audit.typed_json import Names, Written, parse_written, read_written, to_object

SCHEMA_VERSION = 1
_WRITTEN = Written("elect", SCHEMA_VERSION, ("rests_on", "steps"))


#: Prefix of Kafka's own topics: their owners rebuild them, and their records mean nothing elsewhere.
_INTERNAL_PREFIX = "__"


def is_salvaged(topic: str, patterns: Iterable[str]) -> bool:
    """True if salvage takes records of a topic; of Kafka's own only where a pattern of --topic names them."""
    return not topic.startswith(_INTERNAL_PREFIX) or any(one.startswith(_INTERNAL_PREFIX) for one in patterns)


@dataclass(frozen=True, slots=True)
class SalvageSource:
    """Records that the choice loses and a copy still has: [start, end) of one broker's log."""

    broker_id: int
    log_dir: str | None
    start_offset: int
    end_offset: int
    records: int
    directory: str | None = None
    """The copy's directory in the snapshot if Kafka does not serve from it: -future, -stray, another disk, or the `.deleted`
    files in one (`names.deleted_in`)."""

    @property
    def name(self) -> str | None:
        """t-0.<id>-future, or t-0/*.deleted; None for a replica."""
        if self.directory is None:
            return None
        below = 2 if directory_of_deleted(self.directory) else 1
        return "/".join(self.directory.split("/")[-below:])


@dataclass(frozen=True, slots=True)
class Candidate:
    """The cost of one replica as leader, as in the table `elections`."""

    candidate_id: int
    standing: str
    clean: bool | None
    log_end_offset: int
    lost_records: int
    lost_committed: int
    lost_possible: int
    lost_at_most: bool
    cut_transactions: int
    hidden_records: int
    """Records that it lacks and another replica keeps, where no truncation detects them."""
    groups_hit: int | None
    """Number of groups that have read records it loses; None if no group's offsets are known."""
    damage: tuple[str, ...]
    """Codes of damage in its files."""
    remote_records: int = 0
    """Records it loses that remote storage still has."""
    remote_unread: int = 0
    """Records of `remote_records` that salvage cannot extract from the given store; 0 without a store."""
    remote_encrypted: int = 0
    """Records of `remote_unread` that only the brokers' plugin can read."""
    remote_deleted: int = 0
    """Records of `remote_records` that Kafka deletes once it leads, regardless of retention."""
    remote_basis: tuple[RemoteShareRow, ...] = ()
    """Evidence that remote storage has `remote_records`, weakest first."""
    is_only_likely: bool = False
    """True if it is likely, not proven, that all of `lost_committed` were committed."""

    @property
    def loss(self) -> tuple[int, int, int, int]:
        """Sort key of candidates (`rank_loss`)."""
        return rank_loss(self)

    @property
    def remote_unseen(self) -> int:
        """Number of `remote_records` without an object that was seen."""
        return sum(one.records for one in self.remote_basis if one.basis in UNSEEN)


@dataclass(frozen=True, slots=True)
class Decision:
    """The choice of leader for one partition, and the reason."""

    topic: str
    partition: int
    candidate_id: int
    reason: str
    asked: bool
    """True if the candidate was given, not chosen."""
    present_leader_id: int | None
    kafka_choice_id: int | None
    """The broker that the controller would elect in the present state, if any."""
    kafka_choice_right: str | None
    """stays, isr, elr, last_known or unclean."""
    procedure: str
    """none; confirm (it may lead already); start, elect, reorder; unplanned (no step brings it about, see `conflicts`)."""
    candidates: tuple[Candidate, ...]
    salvage: tuple[SalvageSource, ...]
    """Logs from which the lost records can be salvaged."""
    depends_on: tuple[int, ...]
    """Brokers that were not captured and may hold records that change the costs."""
    offline: tuple[int, ...] = ()
    """Brokers that are not elected, since their log dir with the partition is offline (KIP-858)."""
    keeps_deleted: tuple[int, ...] = ()
    """Followers that keep keys which the chosen leader has deleted, with their tombstones."""

    @property
    def chosen(self) -> Candidate:
        return next(one for one in self.candidates if one.candidate_id == self.candidate_id)

    @property
    def loses_acknowledged(self) -> bool:
        """True if the choice loses records that are or may be committed."""
        return self.chosen.loss[0] > 0

    @property
    def equals(self) -> tuple[int, ...]:
        """Other candidates with the same loss and the same hidden records."""
        best = self.chosen
        return tuple(
            one.candidate_id
            for one in self.candidates
            if one is not best and one.standing != "unassigned" and _rank(one) == _rank(best)
        )

    @property
    def is_deleting(self) -> bool:
        """True if its leader leads already, and Kafka is deleting what remote storage has of what it loses."""
        return self.chosen.remote_deleted > 0 and self.candidate_id == self.present_leader_id

    @property
    def open_question(self) -> str:
        """Clause on the information needed before a decision."""
        replicas = len(self.depends_on)
        who = f"the replica{'' if replicas == 1 else 's'} on {name_brokers(self.depends_on)}"
        return f"{who} {say_uncaptured(replicas)}: {ask_for_copies(replicas, None)}"

    def by(self, procedure: str) -> Decision:
        """The decision with this procedure."""
        return self if self.procedure == procedure else replace(self, procedure=procedure)

    def instead(
        self, candidate_id: int, salvage: tuple[SalvageSource, ...], keeps_deleted: tuple[int, ...], why: str
    ) -> Decision:
        """The decision with another candidate, what follows from its costs, and the reason."""
        own = next(one for one in self.candidates if one.candidate_id == candidate_id)
        loses = say_loss(own)
        before = say_loss(self.chosen)
        other = f"{'neither' if loses == 'nothing' else 'so'} would broker {self.candidate_id}"
        if own.hidden_records and loses == before:
            other = f"the same is true of broker {self.candidate_id}"
        if loses != before:
            other = f"broker {self.candidate_id} would lose {before}"
        reason = f"broker {candidate_id} loses {loses}; {other}. {capitalise(why)}"
        return replace(self, candidate_id=candidate_id, salvage=salvage, reason=reason, keeps_deleted=keeps_deleted)


@dataclass(frozen=True, slots=True)
class Prediction:
    """State of a replica's log after a step; for `quorum`, of a node's metadata log before it starts. Restarts add epochs, so
    `leader_epoch` is a lower bound."""

    topic: str
    partition: int
    broker_id: int
    leader_id: int | None
    """Leader in this prediction; None without one."""
    leader_epoch: int | None
    truncate_to: int | None
    """Offset at which its log is cut as it begins to follow; None if it is not cut, or leads."""
    dropped_records: int
    """Records in the batches above the cut."""
    log_end_offset: int
    """Predicted log end after following, if nothing is written meanwhile."""


#: (topic, partition, leader id)
LedBy = Annotated[tuple[str, int, int | None], Names(("topic", "partition", "leader_id"))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step. `commands` are for a POSIX shell on a host with Kafka's tools; those of stop, start and copy on the broker's own."""

    number: int = 0
    """Counted from 1; 0 until the plan is complete."""
    action: str
    """check_disks, keep_remote, check_remote, capture, copy, keep_up, salvage, forbid_unclean, stop, recopy, put_aside, start, elect, reorder,
    check, restore_config, verify, reset_offsets, restore, end_transaction or mend; of `quorum` also pack, seed, empty, mend_epoch, put_back,
    replace_voter and forget_producers."""
    text: str
    brokers: tuple[int, ...] = ()
    controllers: tuple[int, ...] = ()
    """Controllers that are not brokers too."""
    partitions: tuple[TopicPartition, ...] = ()
    commands: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    """Content of the files that the commands read, by name."""
    before: tuple[str, ...] = ()
    """Conditions that must hold before it."""
    after: tuple[Prediction, ...] = ()
    leaders: tuple[LedBy, ...] = ()
    """(topic, partition, leader) of the plan's partitions after it."""
    irreversible: str | None = None
    """Clause on what can no longer be undone after the step."""
    snapshot: tuple[str, ...] = ()
    """Directories of the snapshot with the records that it copies, or moves with a `-future` copy."""


@dataclass(frozen=True, slots=True)
class KeepStopped:
    """A broker that must stay down until a step."""

    broker_id: int
    until_step: int
    is_down: bool
    """True if it is down already; otherwise the plan stops it."""
    reason: str


@dataclass(frozen=True, slots=True)
class Conflict:
    """A partition whose choice no step brings about, and the reason."""

    topic: str
    partition: int
    reason: str


@dataclass(frozen=True, slots=True)
class Alternative:
    """The alternative through the Admin API (H10): the same replicas in another order, then an unclean election."""

    topic: str
    partition: int
    replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PlannedReplica:
    """A replica as the plan found it."""

    broker_id: int
    log_start_offset: int | None
    log_end_offset: int | None
    epochs: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class PlannedPartition:
    """A premise of the plan: `elect --check` compares it with a later snapshot."""

    topic: str
    partition: int
    topic_id: str | None
    leader_id: int | None
    leader_epoch: int | None
    isr: tuple[int, ...] | None
    elr: tuple[int, ...]
    replicas: tuple[PlannedReplica, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The plan for a whole cluster."""

    cluster_id: str | None = None
    tool_version: str = ""
    kafka_version: str | None = None
    mode: str | None = None
    """kraft or zookeeper; None if unknown."""
    protocol: str = "fetch"
    up: tuple[int, ...] = ()
    down: tuple[int, ...] = ()
    stopped_cleanly: tuple[int, ...] = ()
    unknown: tuple[int, ...] = ()
    """Brokers that may be up or down: the plan holds either way."""
    fenced: tuple[int, ...] = ()
    """Members of `unknown` that were seen to run, and that the controllers had fenced."""
    decisions: tuple[Decision, ...] = ()
    steps: tuple[Step, ...] = ()
    keep_down: tuple[KeepStopped, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    alternatives: tuple[Alternative, ...] = ()
    rests_on: tuple[PlannedPartition, ...] = ()
    leaderless: tuple[tuple[str, int], ...] = ()
    """Partitions without a leader now, as pairs in JSON too: none is registered, or it is down."""

    @property
    def is_at_rest(self) -> bool:
        """True if every partition is led by its best choice, and loses nothing that may have been acknowledged."""
        return self.is_quiet and not self.leaderless

    @property
    def is_quiet(self) -> bool:
        """True if no decision asks for anything, and no step keeps or moves anything."""
        moves = any(
            one.procedure != "none" or one.loses_acknowledged or one.chosen.cut_transactions for one in self.decisions
        )
        return not moves and not self.conflicts and all(step.action in AFTERWARDS for step in self.steps)


#: Actions once every partition has a leader: they neither keep nor move anything.
AFTERWARDS = ("end_transaction", "mend")


def _rank(one: Candidate) -> tuple:
    return *one.loss, one.lost_at_most, one.hidden_records, bool(one.damage)


def plan_object(plan: Plan) -> dict[str, object]:
    """The content of plan.json."""
    return {"schema_version": SCHEMA_VERSION, **to_object(plan)}


def parse_plan(content: object) -> Plan:
    """The plan in a plan.json that was parsed as JSON. Raises UsageError for anything else, and for another version."""
    plan = parse_written(Plan, content, _WRITTEN)
    for one in plan.decisions:
        if all(candidate.candidate_id != one.candidate_id for candidate in one.candidates):
            raise UsageError(
                f"the plan does not say what broker {one.candidate_id} costs, which it chooses: make it again"
            )
    return plan


def read_plan(path: str, option: str) -> Plan:
    """Read the plan at `path`, named by `option`. Raises UsageError."""
    return read_written(path, option, parse_plan, _WRITTEN)
