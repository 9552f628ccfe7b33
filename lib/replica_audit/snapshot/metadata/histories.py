"""Contradicting copies of the metadata log, sorted into histories, and what each lacks (META-FORK).

A history is refused if it lacks committed metadata: what a broker has applied (R2), or what another one's snapshot contains (R3);
and if it is spliced from two. The number of voters that hold it proves nothing: voters seeded from one disk agree (R5).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import chain
from typing import NamedTuple

import numpy as np

from replica_audit.errors import FormatError
from replica_audit.model import ReplicaDir
from replica_audit.snapshot.message_fields import MessageError
from replica_audit.snapshot.metadata.image import MetadataImage, replay
from replica_audit.snapshot.metadata.kraft_records import Voters
from replica_audit.snapshot.metadata.log_copies import MetadataCopy
from replica_audit.snapshot.metadata.producer_blocks import next_id
from replica_audit.snapshot.metadata.quorum import (
    CLOCKS_DIFFER_MS,
    epoch_at,
    find_seeded,
    find_splice,
    held_by_most,
    name_nodes,
    newest_copy,
    parting,
    votes,
    weigh_copies,
)
from replica_audit.snapshot.metadata.stale_copies import (
    Applied,
    AppliedEvidence,
    find_applied,
    find_given_out,
    find_held_with_leader,
    first_change,
    latest_applied,
)
from replica_audit.snapshot.producer_snapshots import SeenProducer, tell_producer
from replica_audit.snapshot.storage import Snapshot
from replica_audit.text import render_time


def find_forgotten(snapshot: Snapshot, log: MetadataCopy, other: MetadataCopy) -> str | None:
    """Clause on an election of `log` in an epoch that `other`'s voters had reached before; None without one.

    A voter keeps the epoch in which it voted, so no majority elects in an epoch that an earlier majority has reached: these
    voters had lost their quorum-state. It does not show what was committed.
    """
    parted = parting(log, other)
    if parted is None:
        return None
    mine, theirs = ([one for one in copy.elections(snapshot) if one.offset >= parted] for copy in (log, other))
    for one in mine:
        earlier = [was for was in theirs if was.epoch >= one.epoch and was.time_ms + CLOCKS_DIFFER_MS < one.time_ms]
        if earlier and one not in theirs:
            was = earlier[0]
            return (
                f"node {one.leader_id} was elected in controller epoch {one.epoch} at {render_time(one.time_ms)}, though node "
                f"{was.leader_id} had already been elected in epoch {was.epoch} at {render_time(was.time_ms)}"
            )
    return None


def find_conditions(snapshot: Snapshot, log: MetadataCopy, copies: Sequence[MetadataCopy]) -> Iterator[str]:
    """Sentences on what must be repaired before voters start with `log`; `copies` are all that were captured."""
    # The next epoch must be above every one that any node has seen (`QuorumState.initialize`): brokers that have seen a
    # later one never register, and two histories would share an epoch if the numbers meet.
    seen = max(map(seen_epoch, copies))
    if log.epoch < seen:
        nodes = name_nodes(copy.node_id for copy in copies if seen_epoch(copy) == seen)
        yield (
            f"Before voters start with the log of node {log.node_id}, which ends in controller epoch {log.epoch}, set leaderEpoch in their "
            f"quorum-state to {seen} or more: {nodes} reached that epoch, and the next one has to be above it."
        )
    yield from find_barred(snapshot, log, copies)


def seen_epoch(copy: MetadataCopy) -> int:
    """Greatest controller epoch that a node knows, from its log or its quorum-state."""
    voted = -1 if copy.state is None or copy.state.leader_epoch is None else copy.state.leader_epoch
    return max(copy.epoch, voted)


def find_barred(snapshot: Snapshot, log: MetadataCopy, copies: Sequence[MetadataCopy]) -> Iterator[str]:
    """A sentence on voters that were formatted again: the log knows them by their former directory, so they do not vote."""
    voters = log.voters(snapshot)
    if voters is None:
        return
    expected = dict(voters.directories)
    found = {
        copy.node_id: copy.log.directory_id for copy in copies if not voters.admits(copy.node_id, copy.log.directory_id)
    }
    barred = [node for node in voters.ids if node in found]
    if not barred:
        return
    listed = ", ".join(f"{node} votes from {expected[node]}, and has {found[node]}" for node in barred)
    if len(voters.ids) - len(barred) > len(voters.ids) // 2:
        remedy = (
            "remove such a voter and add it again (kafka-metadata-quorum.sh remove-controller, then add-controller)"
        )
    else:
        # A blank voter started before it may elect itself, or another blank one.
        remedy = (
            "no majority can elect a leader as it is. Such a voter's meta.properties has to get the directory.id that it votes from, and the "
            "right log has to be there, or to be up with another voter, before it is started"
        )
    yield f"By the log of node {log.node_id} {name_nodes(barred)} cannot vote (directory.id: {listed}): {remedy}."


#: Items named in a list of what a history lacks.
_NAMED = 3


class QuorumHistory(NamedTuple):
    """Copies that do not contradict each other."""

    copies: tuple[MetadataCopy, ...]
    refused: tuple[str, ...]
    """Reason why it cannot be the right one; empty if nothing here shows that."""
    is_spliced: bool
    """True if its records come from two histories, one after the other."""
    forgotten: str | None
    """Clause on an election that its voters held in an epoch that another history had reached before (R4)."""
    conditions: tuple[str, ...]
    """Sentences on what must be repaired before voters start with it."""
    applied: Applied | None
    """The latest of its states that a broker's files show."""
    held: Applied | None
    """Metadata that a majority held while its leader led (`find_held_with_leader`); None if a majority now has other records."""

    @property
    def nodes(self) -> str:
        """The nodes that hold these copies."""
        return name_nodes(copy.node_id for copy in self.copies)


def find_histories(
    snapshot: Snapshot, groups: Sequence[Sequence[MetadataCopy]], voters: Voters | None, evidence: AppliedEvidence
) -> tuple[QuorumHistory, ...]:
    """The histories of `groups` (from `group_copies`), and why some cannot be right. A -stray directory counts only if a
    history here knows its partition."""
    copies = [copy for group in groups for copy in group]
    images = [_image(snapshot, group, voters) for group in groups]
    several = groups if len(groups) > 1 else ()
    next_ids = [next_id(snapshot, group, voters) for group in several] or [None]
    ends = [one for one in next_ids if one is not None]
    seen = evidence.producer() if len(set(ends)) > 1 else None
    # Two histories may have given out the same block independently: then its ids prove neither.
    is_of_one = seen is not None and None not in next_ids and sum(one > seen.producer_id for one in ends) == 1
    known = {
        (one.topic_id, one.partition) for image in images if not isinstance(image, str) for one in image.leaderships()
    }
    topics = {topic_id for topic_id, _ in known}
    known_stray = [one for one in evidence.stray if (one.topic_id, one.partition) in known]
    found = []
    for number, (group, image) in enumerate(zip(groups, images, strict=True)):
        spliced = list(_splices(snapshot, group, groups, copies))
        refused, applied = list(spliced), None
        if isinstance(image, str):
            refused.append(image)
        else:
            refused += _not_applied(image, chain(evidence.directories, known_stray), topics)
            shown = [find_applied(image.leaderships(), evidence.epochs)]
            if is_of_one:
                shown.append(find_given_out(snapshot, weigh_copies(group, voters), group, evidence))
            applied = latest_applied(shown)
            refused += _not_given_out(next_ids[number], max(ends, default=0), seen)
        refused += _below_snapshots(group, groups)
        forgotten = _forgotten(snapshot, group, groups)
        held = find_held_with_leader(snapshot, group, copies, voters) if forgotten is None else None
        conditions = tuple(find_conditions(snapshot, newest_copy(group), copies))
        history = QuorumHistory(tuple(group), tuple(refused), bool(spliced), forgotten, conditions, applied, held)
        found.append(history)
    left = [one for one in found if not one.refused]
    counted = [one._replace(held=None) if _is_overruled(snapshot, one, left, voters) else one for one in found]
    left = [one for one in counted if not one.refused]
    return tuple(one if one.refused else one._replace(refused=tuple(_below_held(one, left))) for one in counted)


def _is_overruled(
    snapshot: Snapshot, history: QuorumHistory, others: Sequence[QuorumHistory], voters: Voters | None
) -> bool:
    """True if a majority of the voters now has records of another history in place of a history's end. A later leader had
    these committed, as it may if an earlier leader lost unapplied records in a power loss. Idle records do not count."""
    if voters is None:
        return False
    for other in others:
        newest = newest_copy(other.copies)
        parted = parting(newest_copy(history.copies), newest)
        if parted is None or other.forgotten is not None:
            continue
        voting = [one for one in votes(other.copies, voters) if find_seeded(one, other.copies, voters) is None]
        end = held_by_most(newest, voting, len(voters.ids) // 2 + 1) or 0
        if end > parted and first_change(snapshot, newest, parted, end) is not None:
            return True
    return False


def _forgotten(
    snapshot: Snapshot, group: Sequence[MetadataCopy], groups: Sequence[Sequence[MetadataCopy]]
) -> str | None:
    others = (newest_copy(other) for other in groups if other is not group)
    found = (find_forgotten(snapshot, newest_copy(group), other) for other in others)
    return next((one for one in found if one is not None), None)


def say_histories(histories: Sequence[QuorumHistory]) -> str:
    """Sentences on which histories are refused, which are left, and what must be repaired before those are used."""
    told = [
        f"The log of {one.nodes} cannot be the right one: {'; '.join(one.refused)}." for one in histories if one.refused
    ]
    told += (
        f"In the log of {one.nodes}, {one.forgotten}: its voters had lost their quorum-state."
        for one in histories
        if one.forgotten is not None
    )
    left = [one for one in histories if not one.refused]
    if not left:
        told.append("So no copy here is right as it is.")
    elif len(left) == 1:
        told.append(f"Only the log of {left[0].nodes} lacks nothing that is known here.")
    else:
        nodes = ", or that of ".join(one.nodes for one in left)
        told.append(f"The log of {nodes} may be the right one; {prefer_history(left)[1]}.")
    told += (condition for one in left for condition in one.conditions)
    return " ".join(told)


def prefer_history(left: Sequence[QuorumHistory]) -> tuple[QuorumHistory | None, str]:
    """The preferred one of several possible histories (None if undecidable), and a clause with the reason: the only one
    whose voters had not forgotten an epoch or, if none had, the greatest (epoch, end)."""
    others = [one for one in left if one.forgotten is None]
    if len(others) < len(left):
        reason = "an epoch that follows a lost quorum-state proves nothing"
        if len(others) == 1:
            return others[0], f"that of {others[0].nodes} comes first, since {reason}"
        return None, reason
    starts: dict[int, set[int]] = {}
    for history in left:
        newest = newest_copy(history.copies)
        for epoch, start, _ in newest.epochs:
            # An epoch may have begun before the first record of a copy.
            if start > newest.start_offset:
                starts.setdefault(epoch, set()).add(start)
    twice = [epoch for epoch, offsets in starts.items() if len(offsets) > 1]
    if twice:
        return None, f"controller epoch {twice[0]} begins at two offsets, so that a later epoch or end proves nothing"
    newest = newest_copy([copy for history in left for copy in history.copies])
    best = next(one for one in left if newest in one.copies)
    return best, f"the last epoch and end are the greatest on node {newest.node_id}"


def group_copies(copies: Iterable[MetadataCopy]) -> Sequence[Sequence[MetadataCopy]]:
    """Groups of copies that do not contradict each other, newest first."""
    groups: list[list[MetadataCopy]] = []
    for copy in sorted(copies, key=lambda one: (-one.epoch, -one.end_offset, one.log.path)):
        fitting = (group for group in groups if all(parting(copy, other) is None for other in group))
        group = next(fitting, None)
        if group is None:
            groups.append([copy])
        else:
            group.append(copy)
    return groups


def _image(snapshot: Snapshot, group: Sequence[MetadataCopy], voters: Voters | None) -> MetadataImage | str:
    """The state after all of a history's records; the reason as text if it cannot be built."""
    quorum = weigh_copies(group, voters)
    try:
        return replay(snapshot, group, quorum._replace(committed_end=None))
    except (FormatError, MessageError, OSError) as error:
        return f"its records cannot be applied one after the other ({error})"


def _not_applied(image: MetadataImage, directories: Iterable[ReplicaDir], exist: set[str | None]) -> Iterator[str]:
    """Clauses on metadata that brokers have applied and a history lacks (R2).

    A topic counts if it is among those that `exist` by some history, or if a log complete from its first record does not know it:
    otherwise it may have been deleted before the snapshot with which a log begins. Partitions of an existing topic are never deleted.
    """
    known = {(one.topic_id, one.partition): one.leader_epoch or 0 for one in image.leaderships()}
    existing = {topic_id for topic_id, _ in known}
    topics: dict[str, set[int]] = {}
    partitions: dict[str, set[int]] = {}
    epochs: dict[str, set[int]] = {}
    for one in directories:
        name, entries = str(one.topic_partition), one.checkpoint_epochs or ()
        if one.topic_id is None:
            continue
        if one.topic_id not in image.created:
            if one.topic_id in exist or image.is_whole:
                topics.setdefault(_name_topic(one), set()).add(one.broker_id)
        elif (one.topic_id, one.partition) not in known:
            if one.topic_id in existing:
                partitions.setdefault(f"partition {name}", set()).add(one.broker_id)
        elif entries and list(entries) == sorted(entries):
            latest = entries[-1][0]
            if latest > known[one.topic_id, one.partition]:
                epochs.setdefault(f"leader epoch {latest} of {name}", set()).add(one.broker_id)
    yield from _tell_lacking([*topics.items(), *partitions.items(), *epochs.items()])


def tell_unknown_topics(image: MetadataImage, directories: Iterable[ReplicaDir]) -> tuple[str, ...]:
    """Clauses on topics of brokers' directories that a log complete from its first record does not know (R2)."""
    topics: dict[str, set[int]] = {}
    for one in directories if image.is_whole else ():
        if one.topic_id is not None and one.topic_id not in image.created:
            topics.setdefault(_name_topic(one), set()).add(one.broker_id)
    return tuple(_tell_lacking(list(topics.items())))


def _name_topic(one: ReplicaDir) -> str:
    return f"topic {one.topic} (id {one.topic_id})"


def _tell_lacking(lacking: Sequence[tuple[str, Set[int]]]) -> Iterator[str]:
    for what, holders in lacking[:_NAMED]:
        yield f"it does not know {what}, which {name_nodes(holders)} applied"
    if len(lacking) > _NAMED:
        yield f"and {len(lacking) - _NAMED} more of that kind"


def _not_given_out(end: int | None, greatest: int, seen: SeenProducer | None) -> Iterator[str]:
    """A clause on a block of producer ids that another history has, if a broker got an id from it."""
    if seen is not None and end is not None and end <= seen.producer_id < greatest:
        yield f"it has not given out the ids below {greatest}, though {tell_producer(seen)}"


def _below_snapshots(group: Sequence[MetadataCopy], groups: Sequence[Sequence[MetadataCopy]]) -> Iterator[str]:
    """Clauses on snapshots of another history, which contain only committed records (R3)."""
    newest = newest_copy(group)
    for other in (one for one in groups if one is not group):
        for copy in other:
            parted = parting(newest, copy)
            beyond = [one for one in copy.snapshots if parted is not None and one.end_offset > parted]
            if beyond:
                yield f"it parts at offset {parted} from what {beyond[-1].path} was taken of, which was committed"
                break


def _below_held(history: QuorumHistory, others: Sequence[QuorumHistory]) -> Iterator[str]:
    """Clauses on records of another history that a majority held while its leader led (R3)."""
    for other in others:
        parted = parting(newest_copy(history.copies), newest_copy(other.copies))
        if other.held is not None and parted is not None and other.held.end_offset > parted:
            yield f"it parts at offset {parted} from what was committed: {other.held.proof}"


def _splices(
    snapshot: Snapshot,
    group: Sequence[MetadataCopy],
    groups: Sequence[Sequence[MetadataCopy]],
    copies: Sequence[MetadataCopy],
) -> Iterator[str]:
    """Clauses if a history consists of two, the second of which its nodes got from elsewhere."""
    newest = newest_copy(group)
    for other in groups:
        found = None if other is group else find_splice(newest, newest_copy(other))
        if found is None:
            continue
        against, (start, end) = newest_copy(other), found
        spliced = _spliced_of(snapshot, newest, against, end, copies)
        if spliced is None:
            yield (
                f"in offsets {start} to {end - 1} it differs from {against.log.path}, and not after them: one of the two is spliced "
                "from two histories"
            )
        elif spliced is newest:
            yield (
                f"it is spliced from two histories: offsets {start} to {end - 1} are of another history than what follows, "
                f"which {against.log.path} has too"
            )


def _spliced_of(
    snapshot: Snapshot, one: MetadataCopy, other: MetadataCopy, end: int, copies: Sequence[MetadataCopy]
) -> MetadataCopy | None:
    """The log, of two that share the records from `end` on, that got these from elsewhere; None if undecidable.

    Time goes back in the log whose beginning was written later. Otherwise, the common part was written by a node whose own
    log has the preceding records.
    """
    back = [copy for copy in (one, other) if _goes_back(copy, end)]
    if len(back) == 1:
        return back[0]
    writer = _writer(snapshot, one, other, end)
    for own in copies:
        if writer is not None and own.node_id == writer:
            parted = parting(own, one)
            return other if parted is None or parted >= end else one
    return None


def _goes_back(copy: MetadataCopy, offset: int) -> bool:
    """True if the record at `offset` was written before its predecessor, by more than clocks differ."""
    headers = np.concatenate([piece.headers for piece in copy.pieces])
    at = int(np.searchsorted(headers["base_offset"], offset))
    times = headers["base_timestamp"]
    return 0 < at < len(headers) and int(times[at - 1]) > int(times[at]) + CLOCKS_DIFFER_MS


def _writer(snapshot: Snapshot, one: MetadataCopy, other: MetadataCopy, offset: int) -> int | None:
    """The node that wrote the record at `offset`, or the next one that the two logs have in common."""
    epoch = epoch_at(one, offset)
    elections = [copy.elections(snapshot) for copy in (one, other)]
    leaders = {
        next((was.leader_id for was in reversed(known) if was.offset <= offset and was.epoch == epoch), None)
        for known in elections
    }
    if len(leaders) == 1 and None not in leaders:
        return leaders.pop()
    return next((was.leader_id for was in elections[0] if was.offset >= offset), None)
