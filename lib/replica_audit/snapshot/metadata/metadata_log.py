"""Leadership and its history from all copies of the metadata log in a snapshot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from replica_audit.errors import FormatError
from replica_audit.model import Leadership, ReplicaDir
from replica_audit.schema import QuarantineRow
from replica_audit.snapshot.inventory import MetadataLog
from replica_audit.snapshot.message_fields import MessageError
from replica_audit.snapshot.metadata.broker_history import ClusterCourse
from replica_audit.snapshot.metadata.histories import QuorumHistory, find_conditions, find_histories, say_histories
from replica_audit.snapshot.metadata.image import MetadataImage, replay
from replica_audit.snapshot.metadata.kraft_records import Voters
from replica_audit.snapshot.metadata.log_copies import MetadataCopy, read_copy
from replica_audit.snapshot.metadata.quorum import Fork, Quorum, newest_copy, weigh_copies
from replica_audit.snapshot.metadata.sole_isr import EpochFiles, mark_sole_isr
from replica_audit.snapshot.metadata.stale_copies import (
    CopyMoments,
    Stale,
    doubted_from,
    mark_lacking,
    settle,
    stale_rows,
)
from replica_audit.snapshot.metadata.voters import QuorumState, read_quorum_state
from replica_audit.snapshot.storage import Snapshot

_ASIDE = "; what is known of leadership comes from the other copies"


@dataclass(frozen=True, slots=True)
class MetadataReading:
    """Leadership by the metadata log, and the parts of the log that could not be used."""

    leaderships: tuple[Leadership, ...] = ()
    quarantine: tuple[QuarantineRow, ...] = ()
    doubtful: bool = False
    """Part of the newest copy could not be read: the leadership may be older than what a listing says."""
    voters: tuple[int, ...] = ()
    """Of the quorum; () where nothing names them."""
    unread: tuple[str, ...] = ()
    """Paths of files, or of whole logs, that could not be read."""


@dataclass(frozen=True, slots=True)
class AppliedEvidence:
    """Evidence of the metadata that brokers had applied, and of when copies were made."""

    epochs: EpochFiles | None = None
    """Entries of the brokers' leader-epoch-checkpoint files."""
    directories: Sequence[ReplicaDir] = ()
    """The brokers' partitions."""
    moments: CopyMoments = CopyMoments()


_NO_EVIDENCE = AppliedEvidence()


def read_metadata(
    snapshot: Snapshot, logs: Sequence[MetadataLog], evidence: AppliedEvidence = _NO_EVIDENCE
) -> MetadataReading:
    """Every partition's leadership with its history, from the newest copy and what older copies add before it.

    Nothing is raised for what cannot be read: CAP-UNREADABLE in `quarantine` where it matters, INPUT-IGNORED where
    another copy makes up for it, META-FORK where copies contradict each other, META-STALE where controllers lack what was
    committed.
    """
    ignored: list[QuarantineRow] = []
    copies = [read_copy(snapshot, log, _quorum_state(snapshot, log, ignored)) for log in logs]
    usable = [copy for copy in copies if copy.epoch >= 0 or copy.end_offset > 0]
    refused: dict[str, Exception] = {}
    reading = None
    while usable and reading is None:
        newest = newest_copy(usable)
        try:
            reading = _read(snapshot, usable, newest.voters(snapshot), evidence)
        except (FormatError, MessageError, OSError) as error:
            refused[newest.log.path] = error
            usable = [copy for copy in usable if copy is not newest]
    unread = (*refused, *(path for copy in copies for path, _, _ in copy.problems))
    if reading is None:
        rows = [row for copy in copies for row in _unread(copy, refused.get(copy.log.path), lost=True)]
        return MetadataReading(quarantine=(*rows, *ignored), doubtful=bool(rows), unread=unread)
    quorum, stale = reading.quorum, reading.stale
    rows, doubtful = [], False
    if stale is not None:
        rows += stale_rows(stale, quorum.newest, list(find_conditions(snapshot, quorum.newest, copies)))
    for copy in copies:
        # What cannot be read of a copy matters when it may be newer than what was read, and committed.
        reason = refused.get(copy.log.path)
        newer = (
            copy.reach > quorum.newest.newness
            and not quorum.whole
            and all(copy is not one for one in reading.set_aside)
        )
        doubtful |= newer
        rows += _unread(copy, reason, lost=newer)
    told = {reading.history_of(fork.copy): fork for fork in reversed(quorum.forks)}
    forks = (_fork_row(told[number], reading.histories) for number in sorted(told))
    return MetadataReading(reading.leaderships, (*rows, *ignored, *forks), doubtful, reading.voters, unread)


@dataclass(frozen=True, slots=True)
class _Reading:
    quorum: Quorum
    leaderships: tuple[Leadership, ...]
    stale: Stale | None
    histories: tuple[QuorumHistory, ...]
    set_aside: tuple[MetadataCopy, ...]
    """Copies of histories that cannot be the right one, where one is left."""
    voters: tuple[int, ...]
    """By control records and quorum-state, else by the newest snapshot (KRAFT_VOTERS)."""

    def history_of(self, copy: MetadataCopy) -> int:
        """The number of the history that a copy is of."""
        return next(number for number, one in enumerate(self.histories) if any(copy is of for of in one.copies))


def _read(
    snapshot: Snapshot, copies: Sequence[MetadataCopy], voters: Voters | None, evidence: AppliedEvidence
) -> _Reading:
    """Reading of the copies: by the only history that can be right where they contradict each other, else by all."""
    quorum = weigh_copies(copies, voters)
    parted = any(quorum.agreed[copy.log.path] < copy.end_offset for copy in copies)
    histories = find_histories(snapshot, copies, voters, evidence.directories) if parted else ()
    if histories and not quorum.forks:
        quorum = replace(quorum, forks=_applied_elsewhere(quorum, histories))
    if not quorum.forks:
        histories = ()
    left = [one for one in histories if not one.refused]
    kept = left[0].copies if len(left) == 1 else tuple(copies)
    if len(left) == 1:
        quorum = replace(weigh_copies(kept, voters), forks=quorum.forks)
    aside = tuple(copy for copy in copies if all(copy is not one for one in kept))
    settled, stale = quorum, None
    if doubted_from(quorum, kept) is not None:
        everything = replay(snapshot, kept, replace(quorum, committed_end=None))
        settled, stale = settle(quorum, kept, everything.leaderships(), evidence.epochs, evidence.moments)
    image = replay(snapshot, kept, settled)
    found = mark_sole_isr(image.leaderships(), _course(image, kept, settled), evidence.epochs)
    found = mark_lacking(found, stale) if stale else found
    left_over = _left_over(image, found, evidence.directories)
    named = () if settled.voters is None else tuple(sorted(settled.voters.ids))
    return _Reading(settled, (*found, *left_over), stale, histories, aside, named)


def _left_over(
    image: MetadataImage, present: Sequence[Leadership], directories: Sequence[ReplicaDir]
) -> Iterator[Leadership]:
    """Partitions of deleted topics of which a broker still has a directory, unless the name is taken again."""
    taken = {(one.topic, one.partition) for one in present}
    held = {(one.topic, one.partition, one.topic_id) for one in directories}
    for one in image.deleted():
        if (one.topic, one.partition, one.topic_id) in held and (one.topic, one.partition) not in taken:
            yield one


def _applied_elsewhere(quorum: Quorum, histories: Sequence[QuorumHistory]) -> tuple[Fork, ...]:
    """A fork where brokers applied what the newest copy lacks: then the tail that it parts from was committed."""
    refused = next(one.refused for one in histories if any(copy is quorum.newest for copy in one.copies))
    others = [one.copies[0] for one in histories if all(copy is not quorum.newest for copy in one.copies)]
    if not refused:
        return ()
    reason = "what brokers have applied shows that records which the newest copy lacks were committed"
    return (Fork(others[0], quorum.newest, quorum.agreed[others[0].log.path], reason),)


def _course(image: MetadataImage, copies: Sequence[MetadataCopy], quorum: Quorum) -> ClusterCourse:
    ends: dict[int, int] = {}
    for copy in copies:
        if copy.node_id is not None:
            ends[copy.node_id] = max(ends.get(copy.node_id, 0), quorum.agreed[copy.log.path])
    committed = quorum.newest.end_offset if quorum.committed_end is None else quorum.committed_end
    return ClusterCourse(image.brokers, image.elr_levels, ends, committed)


def _quorum_state(snapshot: Snapshot, log: MetadataLog, ignored: list[QuarantineRow]) -> QuorumState | None:
    """The quorum-state beside a log; one that cannot be used is added to `ignored`."""
    try:
        return read_quorum_state(snapshot, log)
    except (OSError, FormatError) as error:
        path = f"{log.path}/quorum-state"
        ignored.append(QuarantineRow(log.node_id, None, None, path, None, None, "INPUT-IGNORED", str(error)))
        return None


def _unread(copy: MetadataCopy, error: Exception | None, *, lost: bool) -> list[QuarantineRow]:
    problems = list(copy.problems)
    if error is not None:
        problems.append((copy.log.path, getattr(error, "position", None), str(error)))
    code, more = ("CAP-UNREADABLE", "") if lost else ("INPUT-IGNORED", _ASIDE)
    return [
        QuarantineRow(copy.node_id, None, None, path, position, None, code, reason + more)
        for path, position, reason in problems
    ]


def _fork_row(fork: Fork, histories: Sequence[QuorumHistory]) -> QuarantineRow:
    reason = (
        f"from offset {fork.offset} on it differs from {fork.other.log.path}: {fork.reason}. {say_histories(histories)}"
    )
    return QuarantineRow(fork.copy.node_id, None, None, fork.copy.log.path, None, None, "META-FORK", reason)
