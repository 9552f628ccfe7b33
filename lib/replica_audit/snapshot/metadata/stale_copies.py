"""Controllers' copies of the metadata log that lack committed records (META-STALE): a restored backup, a lost disk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import replace
from typing import NamedTuple

from replica_audit.errors import FormatError
from replica_audit.model import Leadership, PartitionState, ReplicaDir
from replica_audit.schema import QuarantineRow
from replica_audit.snapshot.message_fields import MessageError
from replica_audit.snapshot.metadata.copy_moments import CopyMoments
from replica_audit.snapshot.metadata.image import replay
from replica_audit.snapshot.metadata.kraft_records import (
    PRODUCER_IDS,
    BrokerGone,
    BrokerState,
    KeyedRecord,
    Transaction,
    Voters,
    parse_any,
)
from replica_audit.snapshot.metadata.log_copies import MetadataCopy
from replica_audit.snapshot.metadata.producer_blocks import read_blocks
from replica_audit.snapshot.metadata.quorum import (
    Quorum,
    epoch_at,
    find_seeded,
    held_by_most,
    name_nodes,
    newest_copy,
    parting,
    votes,
)
from replica_audit.snapshot.metadata.sole_isr import EpochFiles, applied_at
from replica_audit.snapshot.producer_snapshots import SeenProducer, tell_producer
from replica_audit.snapshot.storage import Snapshot
from replica_audit.text import verb

_FROM_BACKUP = (
    "It is from before that: restored from a backup, say, or it lost its end with its power. A quorum of such copies forgets what came after "
    "it"
)
_COPIED_EARLIER = (
    "It was copied, or an image of its disk was made, before that was written, or the controller was restored from a backup: when that was "
    "would tell"
)


class AppliedEvidence(NamedTuple):
    """Evidence of the metadata that brokers had applied, and of the times of the copies."""

    epochs: EpochFiles | None = None
    """Entries of the brokers' leader-epoch-checkpoint files."""
    directories: Iterable[ReplicaDir] = ()
    """The brokers' partition directories; iterated several times."""
    stray: Sequence[ReplicaDir] = ()
    """Directories that brokers have renamed to -stray."""
    moments: CopyMoments = CopyMoments()
    producer: Callable[[], SeenProducer | None] = lambda: None
    """Reads the greatest producer id in the brokers' files."""


class Applied(NamedTuple):
    """Evidence that metadata was committed: an action of a broker that only a commit allows, or its holders."""

    end_offset: int
    """Committed end of the metadata log."""
    first_ms: int
    """Time of the first record that some voters lack, by the controller's clock."""
    proof: str


class Stale(NamedTuple):
    """Copies of voters that lack committed metadata, so many that no majority can have it, or that they can elect by their own logs."""

    copies: tuple[MetadataCopy, ...]
    """Copies that no skew explains."""
    skewed: tuple[MetadataCopy, ...]
    """Copies that may have been made before it was written."""
    applied: Applied
    holders: tuple[int, ...]
    """Nodes whose copies have it."""
    elect_apart: bool = False
    """True if they are a majority only of the voters in their own logs, from before voters were added or removed."""


def _doubted_from(quorum: Quorum, copies: Sequence[MetadataCopy]) -> int | None:
    """Offset from which too few voters hold the newest copy's records; None if enough do, or logs are forked."""
    voted, of_voters = quorum.committed_end, _of_voters(quorum, copies)
    if voted is None and len(votes(of_voters, quorum.voters)) < len(of_voters):
        # Voters formatted again do not vote, but start with what they hold now.
        voted = min(quorum.agreed[copy.log.path] for copy in of_voters)
    return None if voted is None or voted >= quorum.newest.end_offset or quorum.forks else voted


def _of_voters(quorum: Quorum, copies: Sequence[MetadataCopy]) -> list[MetadataCopy]:
    return [copy for copy in copies if quorum.voters is not None and copy.node_id in quorum.voters.ids]


def settle(
    snapshot: Snapshot, quorum: Quorum, copies: Sequence[MetadataCopy], evidence: AppliedEvidence
) -> tuple[Quorum, Stale | None]:
    """The quorum, with metadata that brokers applied counted as committed, and the voters that lack it.

    A single voter behind a majority is not stale unless it was the only one. Nor are copies of a running cluster that were
    made before a record was written.
    """
    applied, moments = _find_doubted(snapshot, quorum, copies, evidence), evidence.moments
    settled = quorum
    if applied is not None and quorum.committed_end is not None:
        settled = quorum._replace(committed_end=applied.end_offset)
    stale = None if applied is None else _outvoting(snapshot, quorum, copies, applied, moments)
    return settled, stale or _electing_apart(snapshot, settled, copies, applied, moments)


def _find_doubted(
    snapshot: Snapshot, quorum: Quorum, copies: Sequence[MetadataCopy], evidence: AppliedEvidence
) -> Applied | None:
    """Metadata committed beyond the part that enough voters hold."""
    voted = _doubted_from(quorum, copies)
    if voted is None or quorum.voters is None:
        return None
    everything = replay(snapshot, copies, quorum._replace(committed_end=None))
    shown = (
        find_applied(everything.leaderships(), evidence.epochs, voted),
        find_given_out(snapshot, quorum, copies, evidence, voted),
    )
    moments = evidence.moments
    found = latest_applied(shown) or _held_by_no_voter(snapshot, quorum, copies, voted, moments)
    # While controllers run, a copy made first has less than those made after it.
    held = find_held_with_leader(snapshot, copies, copies, quorum.voters) if moments.at_rest else None
    return latest_applied((found, held))


def latest_applied(found: Iterable[Applied | None]) -> Applied | None:
    """Evidence that reaches furthest; None if there is none."""
    return max((one for one in found if one is not None), key=lambda one: one.end_offset, default=None)


def _outvoting(
    snapshot: Snapshot, quorum: Quorum, copies: Sequence[MetadataCopy], applied: Applied, moments: CopyMoments
) -> Stale | None:
    """Voters by the newest log that lack `applied`, if there is no majority without them."""
    voters = () if quorum.voters is None else quorum.voters.ids
    holding = {copy.node_id for copy in copies if quorum.agreed[copy.log.path] >= applied.end_offset}
    lacking = [copy for copy in _of_voters(quorum, copies) if copy.node_id not in holding]
    if len(voters) - len({copy.node_id for copy in lacking}) > len(voters) // 2:
        return None
    return _stale(snapshot, quorum, copies, lacking, applied, holding, moments)


def _stale(
    snapshot: Snapshot,
    quorum: Quorum,
    copies: Sequence[MetadataCopy],
    lacking: Sequence[MetadataCopy],
    applied: Applied,
    holding: Set[int | None],
    moments: CopyMoments,
) -> Stale:
    behind = [copy for copy in lacking if quorum.agreed[copy.log.path] == copy.end_offset]
    # The leader dates records and its own copy by one clock.
    leaders = {one.leader_id for one in quorum.newest.elections(snapshot) if one.epoch == quorum.newest.epoch}
    followers = (one for one in copies if one.epoch == quorum.newest.epoch and one.node_id not in leaders)
    behind_ms = moments.behind_ms(followers)
    later = {copy.log.path for copy in behind if moments.is_after(copy.log, applied.first_ms, behind_ms)}
    stale = tuple(copy for copy in behind if copy.log.path in later)
    skewed = tuple(copy for copy in behind if copy.log.path not in later)
    holders = tuple(sorted(node for node in holding if node is not None))
    return Stale(stale, skewed, applied, holders)


def _electing_apart(
    snapshot: Snapshot,
    quorum: Quorum,
    copies: Sequence[MetadataCopy],
    applied: Applied | None,
    moments: CopyMoments,
) -> Stale | None:
    """Nodes that lack committed records and by their own logs are a majority of the voters (KIP-853): disks from before voters
    were added or removed, or a backup of what was the only voter. They elect one of themselves; a node that has more grants no vote.

    Voters without directories come from each node's configuration, not from a log.
    """
    end, voters = quorum.committed_end, quorum.voters
    if end is None or voters is None or not voters.directories or quorum.forks:
        return None
    behind = [copy for copy in copies if copy.end_offset == quorum.agreed[copy.log.path] < end]
    for candidate in sorted(behind, key=lambda copy: copy.newness, reverse=True):
        own = candidate.voters(snapshot)
        if own is None or (own.ids, own.directories) == (voters.ids, voters.directories):
            continue
        granting = [copy for copy in votes(behind, own) if copy.newness <= candidate.newness]
        if own.admits(*_voter(candidate)) and len(granting) > len(own.ids) // 2:
            holding = {copy.node_id for copy in copies if quorum.agreed[copy.log.path] >= end}
            proof = (
                applied.proof if applied is not None and applied.end_offset == end else _proof(quorum, voters, holding)
            )
            lacked = Applied(end, _first_from(quorum.newest, candidate.end_offset), proof)
            return _stale(snapshot, quorum, copies, granting, lacked, holding, moments)._replace(elect_apart=True)
    return None


def _first_from(log: MetadataCopy, offset: int) -> int:
    """Time of the first batch from `offset` on; of the last one if there is none, as a `.checkpoint` has the rest."""
    later = [piece.headers["base_timestamp"][piece.headers["base_offset"] >= offset] for piece in log.pieces]
    return min((int(times[0]) for times in later if len(times)), default=log.last_time_ms)


def _proof(quorum: Quorum, voters: Voters, holding: Set[int | None]) -> str:
    """Clause on the evidence that the log is committed up to its present end."""
    taken = [one for one in quorum.snapshots if one.end_offset == quorum.committed_end]
    if taken:
        return f"{taken[-1].path} was taken of it, and snapshots are of committed records only"
    return tell_majority(holding & frozenset(voters.ids), voters)


def tell_majority(nodes: Iterable[int | None], voters: Voters | None) -> str:
    """Clause on voters that hold what was committed."""
    is_only = voters is not None and len(voters.ids) == 1
    return f"{name_nodes(nodes)}, {'the only voter, holds' if is_only else 'a majority of the voters, hold'} it"


def _voter(copy: MetadataCopy) -> tuple[int | None, str | None]:
    return copy.node_id, copy.log.directory_id


def find_applied(leaderships: Iterable[Leadership], epochs: EpochFiles | None, above: int = 0) -> Applied | None:
    """Latest state above an offset that a broker's files show."""
    if epochs is None:
        return None
    return _applied((state for one in leaderships for state in _later_states(one, above)), epochs)


def find_given_out(
    snapshot: Snapshot, quorum: Quorum, copies: Sequence[MetadataCopy], evidence: AppliedEvidence, above: int = 0
) -> Applied | None:
    """Record above an offset of the block with a broker's greatest producer id: brokers get ids only from controllers."""
    if not _has_blocks(snapshot, quorum.newest, above):
        return None
    blocks = read_blocks(snapshot, copies, quorum)
    if not blocks or (seen := evidence.producer()) is None:
        return None
    block = next((one for one in blocks if one.next_id > seen.producer_id), None)
    if block is None or block.end_offset <= above:
        return None
    return Applied(block.end_offset, block.time_ms, f"{tell_producer(seen)}, of the block of record {block.offset}")


def _has_blocks(snapshot: Snapshot, newest: MetadataCopy, above: int) -> bool:
    try:
        entries = list(newest.entries(snapshot, above, parse=parse_any))
    except (FormatError, MessageError):
        return False
    return any(isinstance(one.message, KeyedRecord) and one.message.kind == PRODUCER_IDS for one in entries)


def mark_lacking(leaderships: Sequence[Leadership], stale: Stale) -> list[Leadership]:
    """`leaderships` with `lacked_by` on the states that stale copies do not have."""

    def marked(state: PartitionState) -> PartitionState:
        nodes = {copy.node_id for copy in stale.copies if copy.end_offset <= state.metadata_offset}
        known = tuple(sorted(node for node in nodes if node is not None))
        return state if state.uncommitted or not known else state._replace(lacked_by=known)

    return [replace(one, history=tuple(map(marked, one.history))) for one in leaderships]


def stale_rows(stale: Stale, newest: MetadataCopy, conditions: Sequence[str]) -> Iterator[QuarantineRow]:
    """A row for each copy that is behind; `conditions` are sentences on repairs needed before the newest one is used."""
    have = f"{name_nodes(stale.holders)} {verb(len(stale.holders), 'has', 'have')}"
    verdicts = (
        (stale.copies, "META-STALE", _FROM_BACKUP),
        (stale.skewed, "CAP-SKEW", _COPIED_EARLIER),
    )
    for copies, code, conclusion in verdicts:
        for copy in copies:
            reason = (
                f"it ends at offset {copy.end_offset}, and the metadata log was committed at least to {stale.applied.end_offset}: "
                f"{stale.applied.proof}; {have} it, to {newest.end_offset}. {conclusion}. {' '.join(conditions)}"
            )
            yield QuarantineRow.of(code, copy.log.path, reason.rstrip(". "), broker_id=copy.node_id)


def outdated_row(newest: MetadataCopy, unknown: Sequence[str]) -> QuarantineRow:
    """A row for the newest copy if brokers applied more than any copy holds; `unknown`: clauses on that."""
    reason = (
        f"{'; '.join(unknown)}, though it is here from its first record on: it is older than what brokers have, and so is every other copy "
        "here. A broker that starts with it sets such directories aside as -stray, and before Kafka 3.7 deletes them. Look for a copy that "
        "knows more; replica-audit quorum SNAPSHOT says what each of these loses"
    )
    return QuarantineRow.of("META-STALE", newest.log.path, reason, broker_id=newest.node_id)


class _LaterState(NamedTuple):
    """A state above the part that the voters have in common."""

    partition: Leadership
    state: PartitionState
    begins_epoch: bool
    """True if the partition's leader epoch began with it, so that no earlier record has it."""


def _later_states(one: Leadership, above: int) -> Iterator[_LaterState]:
    greatest = -1
    for state in one.history:
        if applied_at(state) > above and state.occasion != "snapshot":
            yield _LaterState(one, state, state.leader_epoch > greatest)
        greatest = max(greatest, state.leader_epoch)


def _applied(states: Iterable[_LaterState], epochs: EpochFiles) -> Applied | None:
    """Latest of these states that a broker's files show: by a directory of its topic id, or an entry of its epoch."""
    shown = []
    for one, state, begins_epoch in states:
        topic_id, name = one.topic_id, str(one.topic_partition)
        for broker in state.replicas:
            entries = None if topic_id is None else epochs(broker, one.topic, one.partition, topic_id)
            if entries is None:
                continue
            if state.occasion == "created":
                what = f"a directory of {name}, topic id {topic_id}"
            elif begins_epoch and state.leader_epoch in {epoch for epoch, _ in entries}:
                what = f"leader epoch {state.leader_epoch} of {name}"
            else:
                continue
            shown.append(
                (applied_at(state), state.time_ms, f"broker {broker} has {what}, of record {state.metadata_offset}")
            )
            break
    if not shown:
        return None
    end, _, proof = max(shown)
    return Applied(end, min(time for _, time, _ in shown), proof)


def _held_by_no_voter(
    snapshot: Snapshot, quorum: Quorum, copies: Sequence[MetadataCopy], voted: int, moments: CopyMoments
) -> Applied | None:
    """Metadata that brokers have and no voter, if all voters were captured: it was committed, since brokers fetch only from a leader."""
    voters = set(quorum.voters.ids if quorum.voters is not None else ())
    of_voters = {copy.node_id: quorum.agreed[copy.log.path] for copy in copies if copy.node_id in voters}
    end = quorum.newest.end_offset
    if not moments.at_rest or set(of_voters) != voters or max(of_voters.values()) >= end:
        return None
    first_ms = first_change(snapshot, quorum.newest, voted)
    proof = "brokers have it, and can have it from a controller only, but all of these are shorter"
    return None if first_ms is None else Applied(end, first_ms, proof)


def find_held_with_leader(
    snapshot: Snapshot, history: Sequence[MetadataCopy], copies: Sequence[MetadataCopy], voters: Voters | None
) -> Applied | None:
    """Metadata that a majority of the voters held under a leader that lacks it now or was not captured; `copies` are all captured ones.

    A voter gets the records of an epoch from its leader, who had them first and never truncates while it leads (Raft). It lost them
    since: it lets others fetch before it flushes (`KafkaRaftClient.flushLeaderLog`). Idle records do not count.
    """
    if voters is None or len(voters.ids) < 2:
        return None
    newest = newest_copy(history)
    if any(epoch_at(newest, at) == epoch_at(one, at) for one in copies if (at := parting(newest, one)) is not None):
        # Two leaders in one epoch.
        return None
    voting = [copy for copy in votes(history, voters) if find_seeded(copy, copies, voters) is None]
    others = len(voters.ids) // 2
    ends = [one.end_offset for copy in history for one in copy.snapshots]
    voted = max(*ends, held_by_most(newest, voting, others + 1) or 0, 0)
    leaders = {one.epoch: one.leader_id for one in newest.elections(snapshot)}
    for epoch, start, end in reversed(list(newest.epochs)):
        leader = leaders.get(epoch)
        # If several others are needed, one of them may have the records only from a later leader.
        holding = [
            copy for copy in voting if copy.node_id != leader and (others == 1 or _knows_no_leader_after(copy, epoch))
        ]
        held = min(held_by_most(newest, holding, others) or 0, end)
        if leader in voters.ids and held > max(start, voted):
            first_ms = first_change(snapshot, newest, voted, held)
            nodes = {copy.node_id for copy in holding if copy.end_offset >= held}
            proof = (
                f"{name_nodes(nodes)} {verb(len(nodes), 'holds', 'hold')} it, and so did node {leader} as the leader of epoch {epoch}, whatever "
                "it has now: together a majority of the voters"
            )
            return None if first_ms is None else Applied(held, first_ms, proof)
    return None


def _knows_no_leader_after(copy: MetadataCopy, epoch: int) -> bool:
    state = copy.state
    return copy.epoch <= epoch and (state is None or state.leader_id is None or (state.leader_epoch or 0) <= epoch)


def first_change(snapshot: Snapshot, newest: MetadataCopy, offset: int, end: int | None = None) -> int | None:
    """Time of the first record from `offset` on, below `end`, that is not only about the quorum's leader and the brokers' liveness."""
    try:
        for entry in newest.entries(snapshot, offset, end, parse=parse_any):
            if not isinstance(entry.message, (Voters, Transaction, BrokerState, BrokerGone)):
                return entry.time_ms
    except FormatError:
        # A record of an unknown kind may change anything.
        return newest.last_time_ms
    return None
