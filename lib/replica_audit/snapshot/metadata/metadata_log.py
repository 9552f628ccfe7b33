"""Leadership and its history from all copies of the metadata log in a snapshot."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import itemgetter
from types import MappingProxyType
from typing import NamedTuple

from replica_audit.literals import CaptureState
from replica_audit.model import Leadership
from replica_audit.schema import MetadataLogRow, QuarantineRow, VoterCopy
from replica_audit.snapshot.inventory import LogDir, MetadataLog
from replica_audit.snapshot.metadata.compared_copies import compare_copies, copy_rows
from replica_audit.snapshot.metadata.histories import QuorumHistory, find_conditions, say_histories
from replica_audit.snapshot.metadata.log_copies import MetadataCopy
from replica_audit.snapshot.metadata.quorum import Fork
from replica_audit.snapshot.metadata.stale_copies import AppliedEvidence, outdated_row, stale_rows
from replica_audit.snapshot.storage import Snapshot

_NO_EVIDENCE = AppliedEvidence()
_ASIDE = "; what is known of leadership comes from the other copies"


class MetadataReading(NamedTuple):
    """Leadership by the metadata log, and the parts of the log that could not be used."""

    leaderships: tuple[Leadership, ...] = ()
    quarantine: tuple[QuarantineRow, ...] = ()
    doubtful: bool = False
    """True if part of the newest copy could not be read: a listing may then be newer."""
    voters: tuple[int, ...] = ()
    """Voters of the quorum; empty if unknown."""
    copies: tuple[MetadataLogRow, ...] = ()
    """Comparison of all copies."""
    unread: tuple[str, ...] = ()
    """Paths of files, or of whole logs, that could not be read."""
    ends: tuple[tuple[int, str, int], ...] = ()
    """(node id, log dir, time in ms of the last batch) of the copies."""
    online: Mapping[int, frozenset[str]] = MappingProxyType({})
    """`MetadataImage.online`."""


def read_metadata(
    snapshot: Snapshot, logs: Sequence[MetadataLog], evidence: AppliedEvidence = _NO_EVIDENCE
) -> MetadataReading:
    """Every partition's leadership with its history, from the newest copy and earlier records of older copies.

    Raises no error; problems are in `quarantine`: CAP-UNREADABLE where it matters, INPUT-IGNORED where another copy has the
    same, META-FORK where copies contradict each other, META-STALE where controllers lack committed records.
    """
    compared = compare_copies(snapshot, logs, evidence)
    copies, refused = compared.copies, compared.refused
    ignored, reading = compared.ignored, compared.found
    unread = (*refused, *(path for copy in copies for path, _, _ in copy.problems))
    told = tuple(copy_rows(compared))
    ends = tuple(
        (copy.node_id, copy.log.log_dir, copy.last_time_ms)
        for copy in compared.usable
        if copy.node_id is not None and copy.pieces
    )
    if reading is None:
        rows = [row for copy in copies for row in _unread(copy, refused.get(copy.log.path), lost=True)]
        quarantine = (*rows, *ignored)
        return MetadataReading((), quarantine, bool(rows), copies=told, unread=unread, ends=ends)
    quorum, stale = reading.quorum, reading.stale
    rows, doubtful = [], False
    if stale is not None:
        rows += stale_rows(stale, quorum.newest, list(find_conditions(snapshot, quorum.newest, copies)))
    for copy in copies:
        # The unread part of a copy matters if it may be committed and newer than everything that was read.
        reason = refused.get(copy.log.path)
        newer = copy.reach > quorum.newest.newness and not quorum.whole and copy not in reading.set_aside
        doubtful |= newer
        rows += _unread(copy, reason, lost=newer)
    if reading.unknown and not (reading.histories or doubtful):
        rows.append(outdated_row(quorum.newest, reading.unknown))
    of_history = {
        number: fork for fork in reversed(quorum.forks) if (number := reading.history_of(fork.copy)) is not None
    }
    forks = (_fork_row(fork, reading.histories) for _, fork in sorted(of_history.items(), key=itemgetter(0)))
    quarantine = (*rows, *ignored, *forks)
    return MetadataReading(
        reading.leaderships, quarantine, doubtful, reading.voters, told, unread, ends, reading.online
    )


def _unread(copy: MetadataCopy, error: Exception | None, *, lost: bool) -> list[QuarantineRow]:
    problems = list(copy.problems)
    if error is not None:
        problems.append((copy.log.path, getattr(error, "position", None), str(error)))
    code, more = ("CAP-UNREADABLE", "") if lost else ("INPUT-IGNORED", _ASIDE)
    return [
        QuarantineRow.of(code, path, reason + more, broker_id=copy.node_id, position=position)
        for path, position, reason in problems
    ]


def _fork_row(fork: Fork, histories: Sequence[QuorumHistory]) -> QuarantineRow:
    reason = (
        f"from offset {fork.offset} on it differs from {fork.other.log.path}: {fork.reason}. {say_histories(histories)}"
    )
    return QuarantineRow.of("META-FORK", fork.copy.log.path, reason, broker_id=fork.copy.node_id)


def find_voters(
    voters: Iterable[int], logs: Sequence[MetadataLog], unread: Collection[str], log_dirs: Sequence[LogDir]
) -> tuple[VoterCopy, ...]:
    """Each of `voters` with its copy among `logs`; `unread` are paths, of files or of whole logs, that could not be read."""
    found = []
    for node_id in voters:
        own = [log for log in logs if log.node_id == node_id]
        if not own:
            state: CaptureState = "absent" if any(one.broker_id == node_id for one in log_dirs) else "named"
            found.append(VoterCopy(node_id, None, state, ("directory",)))
        for log in own:
            lost = sorted(path for path in unread if path == log.path or path.startswith(f"{log.path}/"))
            missing = tuple(path.rpartition("/")[2] for path in lost)
            found.append(VoterCopy(node_id, log.log_dir, "partial" if missing else "whole", missing))
    return tuple(found)
