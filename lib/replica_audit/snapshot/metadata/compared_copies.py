"""Comparison of all nodes' copies of the metadata log, for the audit and the command `quorum`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from replica_audit.errors import FormatError
from replica_audit.literals import MetadataStanding
from replica_audit.model import Leadership, ReplicaDir
from replica_audit.schema import MetadataLogRow, QuarantineRow
from replica_audit.snapshot.inventory import MetadataLog
from replica_audit.snapshot.message_fields import MessageError
from replica_audit.snapshot.metadata.copy_moments import mark_down_when_copied, mark_perhaps_down
from replica_audit.snapshot.metadata.histories import (
    QuorumHistory,
    find_histories,
    group_copies,
    tell_unknown_topics,
)
from replica_audit.snapshot.metadata.image import MetadataImage, replay
from replica_audit.snapshot.metadata.kraft_records import Voters
from replica_audit.snapshot.metadata.log_copies import MetadataCopy, QuorumState, read_copy, read_quorum_state
from replica_audit.snapshot.metadata.proven_end import Proven, ProvenBy, prove_ends
from replica_audit.snapshot.metadata.quorum import Fork, Quorum, newest_copy, parting, weigh_copies
from replica_audit.snapshot.metadata.sole_isr import ClusterCourse, mark_sole_isr
from replica_audit.snapshot.metadata.stale_copies import (
    AppliedEvidence,
    Stale,
    find_applied,
    find_given_out,
    find_held_with_leader,
    mark_lacking,
    settle,
)
from replica_audit.snapshot.storage import Snapshot


class MetadataComparison(NamedTuple):
    """Conclusions from all readable copies."""

    quorum: Quorum
    """Quorum in which metadata that brokers applied counts as committed."""
    leaderships: tuple[Leadership, ...]
    """By the newest copy of the only history left, or of all copies."""
    stale: Stale | None
    histories: tuple[QuorumHistory, ...]
    """Empty without a fork."""
    groups: tuple[tuple[MetadataCopy, ...], ...]
    """Copies that do not contradict each other, one group for each history, newest first."""
    proven: tuple[Proven, ...]
    """The proven end of each of `groups`."""
    unknown: tuple[str, ...]
    """Clauses on topics that brokers applied and this history, complete from its first record, lacks, if all was copied at rest."""
    set_aside: tuple[MetadataCopy, ...]
    """Copies of histories that cannot be the right one, if one history is left."""
    voters: tuple[int, ...]
    """By control records and quorum-state, else by the newest snapshot (KRAFT_VOTERS)."""
    online: Mapping[int, frozenset[str]]
    """`MetadataImage.online`."""

    def history_of(self, copy: MetadataCopy) -> int | None:
        """Index of a copy's history, from 0; None for a copy that is empty or unreadable."""
        path = copy.log.path
        return next((number for number, one in enumerate(self.groups) if any(path == of.log.path for of in one)), None)


class ComparedCopies(NamedTuple):
    """All captured copies of the metadata log, and the conclusions from them."""

    copies: tuple[MetadataCopy, ...]
    refused: Mapping[str, Exception]
    """Copies whose records cannot be applied, by path, with the error."""
    ignored: tuple[QuarantineRow, ...]
    """Rows of quorum-state files that cannot be used."""
    found: MetadataComparison | None
    """None if no copy can be read."""

    @property
    def usable(self) -> tuple[MetadataCopy, ...]:
        """Readable copies with records or a snapshot."""
        return tuple(copy for copy in self.copies if copy.holds_something and copy.log.path not in self.refused)


def compare_copies(snapshot: Snapshot, logs: Sequence[MetadataLog], evidence: AppliedEvidence) -> ComparedCopies:
    """Compare every node's copy; one whose records cannot be applied is left out, with the reason. Raises no error."""
    ignored: list[QuarantineRow] = []
    copies = [read_copy(snapshot, log, _quorum_state(snapshot, log, ignored)) for log in logs]
    usable = [copy for copy in copies if copy.holds_something]
    refused: dict[str, Exception] = {}
    found = None
    while usable and found is None:
        newest = newest_copy(usable)
        try:
            found = _read(snapshot, usable, newest.voters(snapshot), evidence)
        except (FormatError, MessageError, OSError) as error:
            refused[newest.log.path] = error
            usable = [copy for copy in usable if copy is not newest]
    return ComparedCopies(tuple(copies), refused, tuple(ignored), found)


def _read(
    snapshot: Snapshot, copies: Sequence[MetadataCopy], voters: Voters | None, evidence: AppliedEvidence
) -> MetadataComparison:
    """Compare readable copies: if they contradict each other, by the only history that can be right, else by all."""
    quorum = weigh_copies(copies, voters)
    parted = any(quorum.agreed[copy.log.path] < copy.end_offset for copy in copies)
    groups = group_copies(copies) if parted else (copies,)
    found_histories = find_histories(snapshot, groups, voters, evidence) if parted else ()
    if parted and not quorum.forks:
        quorum = quorum._replace(forks=_committed_elsewhere(quorum, found_histories))
    histories = found_histories if quorum.forks else ()
    left = [one for one in histories if not one.refused]
    kept = left[0].copies if len(left) == 1 else tuple(copies)
    if len(left) == 1:
        voters = newest_copy(kept).voters(snapshot)
        quorum = weigh_copies(kept, voters)._replace(forks=quorum.forks)
    aside = tuple(copy for copy in copies if copy not in kept)
    settled, stale = settle(snapshot, quorum, kept, evidence)
    image = replay(snapshot, kept, settled)
    found = mark_sole_isr(image.leaderships(), _course(image, kept, settled), evidence.epochs)
    found = mark_down_when_copied(found, image.fenced_at, image.stopped_at, kept, evidence.moments)
    found = mark_perhaps_down(found, kept, evidence.moments)
    found = mark_lacking(found, stale) if stale else found
    left_over = _left_over(image, found, evidence.directories)
    may_prove = [ProvenBy(one.copies, (one.applied, one.held), one.forgotten is not None) for one in found_histories]
    if not may_prove:
        # Everything below a snapshot's end is committed without further proof.
        above = settled.snapshots[-1].end_offset if settled.snapshots else 0
        shown = [find_applied(found, evidence.epochs, above)]
        if evidence.moments.at_rest:
            shown.append(find_held_with_leader(snapshot, copies, copies, voters))
            above = max(above, settled.committed_end or 0)
            shown.append(find_given_out(snapshot, settled, copies, evidence, above))
        may_prove = [ProvenBy(tuple(copies), shown)]
    proven = prove_ends(may_prove, copies, settled.voters, stale)
    named = () if settled.voters is None else tuple(sorted(settled.voters.ids))
    unknown = tell_unknown_topics(image, evidence.directories) if evidence.moments.at_rest else ()
    return MetadataComparison(
        settled,
        (*found, *left_over),
        stale,
        histories,
        tuple(map(tuple, groups)),
        proven,
        unknown,
        aside,
        named,
        image.online,
    )


def _left_over(
    image: MetadataImage, present: Sequence[Leadership], directories: Iterable[ReplicaDir]
) -> Iterator[Leadership]:
    """Partitions of deleted topics that still have a directory on a broker, unless the name is used again."""
    deleted = {(one.topic, one.partition, one.topic_id): one for one in image.deleted()}
    if not deleted:
        return
    taken = {one.topic_partition for one in present}
    held = {key for one in directories if (key := (one.topic, one.partition, one.topic_id)) in deleted}
    for key, one in deleted.items():
        if key in held and key[:2] not in taken:
            yield one


def _committed_elsewhere(quorum: Quorum, histories: Sequence[QuorumHistory]) -> tuple[Fork, ...]:
    """The fork, if the newest copy lacks committed records: then the contradicting tail was committed."""
    refused = next(one.refused for one in histories if quorum.newest in one.copies)
    others = [one.copies[0] for one in histories if quorum.newest not in one.copies]
    if not refused or not others:
        return ()
    reason = "records which the newest copy lacks were committed"
    return (Fork(others[0], quorum.newest, quorum.agreed[others[0].log.path], reason),)


def _course(image: MetadataImage, copies: Sequence[MetadataCopy], quorum: Quorum) -> ClusterCourse:
    ends: dict[int, int] = {}
    for copy in copies:
        if copy.node_id is not None:
            ends[copy.node_id] = max(ends.get(copy.node_id, 0), quorum.agreed[copy.log.path])
    committed = quorum.newest.end_offset if quorum.committed_end is None else quorum.committed_end
    return ClusterCourse(image.brokers, image.elr_levels, ends, committed)


def copy_rows(compared: ComparedCopies) -> Iterator[MetadataLogRow]:
    """Rows of the table `metadata_logs`."""
    found = compared.found
    # Nothing is found without usable copies.
    partings = {copy.log.path: parting(found.quorum.newest, copy) for copy in compared.usable} if found else {}
    for copy in compared.copies:
        path, state = copy.log.path, copy.state
        parts_at = partings.get(path)
        standing: MetadataStanding = "unreadable" if copy.reach > (-1, 0) else "empty"
        refused: Sequence[str] = ()
        proven_end = None
        number = None if found is None else found.history_of(copy)
        if found is not None and number is not None:
            refused = found.histories[number].refused if found.histories else ()
            standing = _stand(found, copy, parts_at, is_refused=bool(refused))
            proven_end = min(found.proven[number].end_offset, copy.end_offset) or None
        voters = None if found is None else found.quorum.voters
        is_voter = None if voters is None else copy.node_id in voters.ids
        yield MetadataLogRow(
            broker_id=copy.node_id,
            path=path,
            directory_id=copy.log.directory_id,
            standing=standing,
            refused=refused,
            history=None if number is None else number + 1,
            parts_at=parts_at,
            proven_end=proven_end,
            start_offset=copy.start_offset,
            end_offset=copy.end_offset,
            epochs=tuple(copy.epochs),
            checkpoints=tuple(one.end_offset for one in copy.snapshots),
            is_voter=is_voter,
            may_vote=voters.admits(copy.node_id, copy.log.directory_id) if voters and is_voter else None,
            seen_epoch=None if state is None else state.leader_epoch,
            seen_leader_id=None if state is None else state.leader_id,
            voted_id=None if state is None else state.voted_id,
        )


def _stand(
    found: MetadataComparison, copy: MetadataCopy, parts_at: int | None, *, is_refused: bool
) -> MetadataStanding:
    if copy is found.quorum.newest:
        return "used"
    if is_refused:
        return "refused"
    if found.stale is not None and copy in found.stale.copies:
        return "stale"
    return "agrees" if parts_at is None else "apart"


def _quorum_state(snapshot: Snapshot, log: MetadataLog, ignored: list[QuarantineRow]) -> QuorumState | None:
    """The quorum-state beside a log; one that cannot be used is added to `ignored`."""
    try:
        return read_quorum_state(snapshot, log)
    except (OSError, FormatError) as error:
        path = f"{log.path}/quorum-state"
        ignored.append(QuarantineRow.of("INPUT-IGNORED", path, str(error), broker_id=log.node_id))
        return None
