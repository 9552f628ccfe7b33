"""The answer of `quorum`: the copies side by side, the choice, what it loses, and the plan (docs/reference.md, quorum).

The JSON is written and read by the types of these classes: a field is added here and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from replica_audit.elect.plan_model import Step
from replica_audit.typed_json import Names, PlaceObject, Written, parse_written, read_written, to_object

SCHEMA_VERSION = 1
_WRITTEN = Written("quorum", SCHEMA_VERSION, ("copies", "rests_on"))

#: agree: nothing has to be decided; rejoin: nor here, but voters were formatted anew and cannot vote; choose: one copy is the
#: best; keep_both: two histories hold what the other lacks and brokers applied; none: no copy here can be the right one.
Verdict = Literal["agree", "rejoin", "choose", "keep_both", "none"]
#: combined: broker and voter in one process.
Role = Literal["controller", "broker", "combined"]

#: (voter, the id of the directory that it votes from)
VoterDirectory = Annotated[tuple[int, str], Names(("node_id", "directory_id"))]


@dataclass(frozen=True, slots=True, order=True)
class NamedTopic:
    """A topic, and how many partitions it has."""

    topic: str
    topic_id: str
    partitions: int


@dataclass(frozen=True, slots=True)
class StrayDirectory:
    """A partition's directory that a broker sets aside as -stray, since the metadata knows no such replica."""

    broker_id: int
    topic: str
    partition: int
    records: int


@dataclass(frozen=True, slots=True)
class Lost:
    """What other copies hold and a choice does not. Values of configurations, users and ACLs are not told."""

    topics: tuple[NamedTopic, ...] = ()
    deletions: tuple[NamedTopic, ...] = ()
    """Topics that were deleted, and exist again."""
    partitions: tuple[PlaceObject, ...] = ()
    """Added to topics that are known."""
    leader_changes: tuple[PlaceObject, ...] = ()
    isr_changes: tuple[PlaceObject, ...] = ()
    reassignments: tuple[PlaceObject, ...] = ()
    configurations: tuple[str, ...] = ()
    """`topic orders: retention.ms`."""
    acls: int = 0
    scram_users: int = 0
    """Credentials: a user has one for each mechanism."""
    quotas: int = 0
    delegations: int = 0
    """Delegation tokens."""
    voters: tuple[int, ...] = ()
    """That were added or removed, or vote from another directory (KIP-853)."""
    features: tuple[str, ...] = ()
    """`metadata.version 29`."""
    producer_id_blocks: int = 0
    """Blocks of 1,000 ids that are given out a second time."""
    records: int = 0
    """Of the metadata log, of all kinds, the controllers' own too."""
    stray: tuple[StrayDirectory, ...] = ()

    @property
    def is_nothing(self) -> bool:
        """True if only records are lost that changed nothing that is named here."""
        return all(
            not getattr(self, name)
            for name in (
                "topics", "deletions", "partitions", "leader_changes", "isr_changes", "reassignments", "configurations",
                "acls", "scram_users", "quotas", "delegations", "voters", "features", "producer_id_blocks", "stray",
            )
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class QuorumStateFile:
    """What a node's quorum-state says: the epoch, who led, and whom it voted for."""

    leader_epoch: int | None
    leader_id: int | None
    voted_id: int | None


@dataclass(frozen=True, slots=True)
class CopyAnswer:
    """One node's copy of the metadata log."""

    node_id: int | None
    role: Role
    path: str
    directory_id: str | None
    start_offset: int
    end_offset: int
    last_epoch: int
    """Of its last record; -1 of a log without one."""
    history: int | None
    """Number of the history that it is of, from 1 on; copies of one do not contradict each other. None of one without records."""
    parts_at: int | None
    """First offset at which its records differ from those of the choice, or else of the newest copy; None where none does."""
    proven_end: int
    """Offset below which its records are known to be committed."""
    proof: str | None
    voters: tuple[int, ...]
    """By its records, else by quorum-state."""
    voter_directories: tuple[VoterDirectory, ...]
    """Of a dynamic quorum (KIP-853)."""
    quorum_state: QuorumStateFile | None
    may_vote: bool | None
    """False of a voter from another directory than the log names; None of a node that is not a voter."""
    seeded: str | None
    """What shows that its log was put there; None where nothing does."""
    refused: tuple[str, ...]
    """Why it cannot be the right one."""
    lost: Lost | None
    """What it loses as the choice; None where its records, or those of another history, cannot be applied."""
    breaks: tuple[str, ...]
    """What fails if voters start with it."""
    problems: tuple[str, ...]
    """What could not be read of it."""


@dataclass(frozen=True, slots=True)
class BestCopy:
    """The best copy, or the one that was asked for."""

    node_id: int | None
    role: Role
    path: str
    end_offset: int
    last_epoch: int
    reason: str
    asked: bool = False
    """It was given, not chosen."""


@dataclass(frozen=True, slots=True)
class Unusable:
    """Part of the snapshot that could not be used: quarantined."""

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
    """Of base offset, epoch and checksum of every batch."""
    leader_epoch: int | None
    """In quorum-state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumAnswer:
    """Everything that `quorum` says of a snapshot."""

    cluster_id: str | None
    tool_version: str
    kafka_version: str | None
    verdict: Verdict
    reason: str
    choice: BestCopy | None
    copies: tuple[CopyAnswer, ...]
    lost: Lost | None
    """By the choice; None without one."""
    voters: tuple[int, ...]
    without_log: tuple[int, ...]
    """Voters of which the snapshot has no record of the metadata log."""
    is_dynamic: bool
    """Voters are known by their directories (KIP-853)."""
    steps: tuple[Step, ...] = ()
    no_plan: str | None = None
    """Why there are no steps beyond copies, where something has to be done."""
    rests_on: tuple[CopyPremise, ...] = ()
    quarantine: tuple[Unusable, ...] = ()


def answer_object(answer: QuorumAnswer) -> dict[str, object]:
    """The content of the JSON."""
    return {"schema_version": SCHEMA_VERSION, **to_object(answer)}


def read_answer(path: str) -> QuorumAnswer:
    """The answer in the file at `path`, which --check named; raises UsageError."""
    return read_written(path, "--check", lambda content: parse_written(QuorumAnswer, content, _WRITTEN), _WRITTEN)
