"""The answer of `quorum`: all copies, the choice, what it loses, and the plan (docs/reference.md, quorum).

The JSON follows from these classes: a field is added here and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal

from replica_audit.elect.plan_model import Step
from replica_audit.model import TopicPartition
from replica_audit.typed_json import Names, Written, parse_written, read_written, to_object

SCHEMA_VERSION = 1
_WRITTEN = Written("quorum", SCHEMA_VERSION, ("copies", "rests_on"))

#: agree: nothing to decide. rejoin: likewise, but voters have other directories than the log names and cannot vote. choose: one copy is
#: the best. keep_both: each of two histories has what the other lacks and brokers applied. none: no copy here can be right.
QuorumVerdict = Literal["agree", "rejoin", "choose", "keep_both", "none"]
#: combined: broker and voter in one process.
NodeRole = Literal["controller", "broker", "combined"]

#: (voter's node id, id of the directory it votes from)
VoterDirectory = Annotated[tuple[int, str], Names(("node_id", "directory_id"))]


@dataclass(frozen=True, slots=True, order=True)
class NamedTopic:
    """A topic and its number of partitions."""

    topic: str
    topic_id: str
    partitions: int


@dataclass(frozen=True, slots=True)
class StrayDirectory:
    """A partition directory that a broker renames to -stray, since the metadata does not assign the replica to it."""

    broker_id: int
    topic: str
    partition: int
    records: int


@dataclass(frozen=True, slots=True)
class Lost:
    """Metadata that other copies hold and a choice does not. Values of configurations, users and ACLs are left out."""

    topics: tuple[NamedTopic, ...] = ()
    deletions: tuple[NamedTopic, ...] = ()
    """Topics that were deleted and would exist again."""
    partitions: tuple[TopicPartition, ...] = ()
    """Partitions added to topics that the choice knows."""
    leader_changes: tuple[TopicPartition, ...] = ()
    isr_changes: tuple[TopicPartition, ...] = ()
    reassignments: tuple[TopicPartition, ...] = ()
    configurations: tuple[str, ...] = ()
    """Configuration entries, e.g. `topic orders: retention.ms`."""
    acls: int = 0
    scram_users: int = 0
    """SCRAM credentials: one for each user and mechanism."""
    quotas: int = 0
    delegations: int = 0
    """Delegation tokens."""
    voters: tuple[int, ...] = ()
    """Voters that were added, removed, or vote from another directory (KIP-853)."""
    features: tuple[str, ...] = ()
    """Feature levels, e.g. `metadata.version 29`."""
    producer_id_blocks: int = 0
    """Blocks of 1,000 producer ids that would be given out a second time."""
    records: int = 0
    """Records of the metadata log of every kind, including the controllers' own."""
    stray: tuple[StrayDirectory, ...] = ()

    @property
    def is_nothing(self) -> bool:
        """True if only records are lost that change nothing that has a field here."""
        return replace(self, records=0) == Lost()


@dataclass(frozen=True, slots=True)
class QuorumStateFile:
    """A node's quorum-state: its epoch, the leader, and the candidate it voted for."""

    leader_epoch: int | None
    leader_id: int | None
    voted_id: int | None


@dataclass(frozen=True, slots=True)
class CopyAnswer:
    """One node's copy of the metadata log."""

    node_id: int | None
    role: NodeRole
    path: str
    directory_id: str | None
    start_offset: int
    end_offset: int
    last_epoch: int
    """Epoch of its last record; -1 for a log without records."""
    history: int | None
    """Number of its history, from 1; copies of one history do not contradict each other. None for a copy without records."""
    parts_at: int | None
    """First offset at which its records differ from those of the choice or, without a choice, of the newest copy; None if they agree."""
    proven_end: int
    """Offset below which its records are known to be committed."""
    proof: str | None
    voters: tuple[int, ...]
    """By its records, else by quorum-state."""
    voter_directories: tuple[VoterDirectory, ...]
    """Voters' directories in a dynamic quorum (KIP-853)."""
    quorum_state: QuorumStateFile | None
    may_vote: bool | None
    """False for a voter whose directory is not the one in the log; None for a node that is not a voter."""
    seeded: str | None
    """Evidence that its log was put there by hand; None if there is none."""
    refused: tuple[str, ...]
    """Reasons why it cannot be the right copy."""
    lost: Lost | None
    """Metadata lost by choosing this copy; None if its records, or those of another history, cannot be applied."""
    breaks: tuple[str, ...]
    """Failures if voters start with this copy."""
    problems: tuple[str, ...]
    """Parts of it that could not be read."""


@dataclass(frozen=True, slots=True)
class BestCopy:
    """The best copy, or the requested one."""

    node_id: int | None
    role: NodeRole
    path: str
    end_offset: int
    last_epoch: int
    reason: str
    asked: bool = False
    """True if the operator chose it."""


@dataclass(frozen=True, slots=True)
class Unusable:
    """A quarantined part of the snapshot."""

    path: str
    position: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class CopyPremise:
    """A premise of the plan: `--check` compares it with a later snapshot."""

    node_id: int | None
    path: str
    directory_id: str | None
    end_offset: int
    last_epoch: int
    digest: str
    """Digest over base offset, epoch and checksum of every batch."""
    leader_epoch: int | None
    """The epoch in quorum-state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumAnswer:
    """Everything that `quorum` concludes from a snapshot."""

    cluster_id: str | None
    tool_version: str
    kafka_version: str | None
    verdict: QuorumVerdict
    reason: str
    choice: BestCopy | None
    copies: tuple[CopyAnswer, ...]
    lost: Lost | None
    """Metadata lost by the choice; None without a choice."""
    voters: tuple[int, ...]
    without_log: tuple[int, ...]
    """Voters whose metadata log is not in the snapshot, or holds no record."""
    is_dynamic: bool
    """True if voters are identified by their directories (KIP-853)."""
    is_tentative: bool = False
    """True if nothing has to be decided, although some copies have records that others lack and nothing shows to be committed."""
    steps: tuple[Step, ...] = ()
    no_plan: str | None = None
    """Reason why the plan stops after the copies although something has to be done."""
    rests_on: tuple[CopyPremise, ...] = ()
    quarantine: tuple[Unusable, ...] = ()

    @property
    def is_whole(self) -> bool:
        """True if a majority of the voters has its own log here with all that is known to be committed: no log has more of that."""
        own = (one for one in self.copies if one.may_vote and one.end_offset and not one.refused and not one.problems)
        able = {one.node_id for one in own if one.seeded is None}
        return len(able) > len(self.voters) // 2


def answer_object(answer: QuorumAnswer) -> dict[str, object]:
    """The JSON object of an answer."""
    return {"schema_version": SCHEMA_VERSION, **to_object(answer)}


def read_answer(path: str) -> QuorumAnswer:
    """Read the answer at `path`, as --check names it. Raises UsageError."""
    return read_written(path, "--check", lambda content: parse_written(QuorumAnswer, content, _WRITTEN), _WRITTEN)
