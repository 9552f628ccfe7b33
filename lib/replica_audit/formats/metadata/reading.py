"""Leadership and its history out of all copies of the metadata log that a snapshot holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from replica_audit.formats.files.side_files import is_whole, parse_json, show_value
from replica_audit.formats.files.storage import Snapshot
from replica_audit.formats.format_error import FormatError
from replica_audit.formats.inventory import MetadataLog
from replica_audit.formats.metadata.copies import MetadataCopy, read_copy
from replica_audit.formats.metadata.fields import MessageError
from replica_audit.formats.metadata.image import MetadataImage
from replica_audit.formats.metadata.quorum import Fork, Quorum, newest_copy, weigh_copies
from replica_audit.formats.metadata.replay import replay
from replica_audit.formats.metadata.sole_isr import ClusterCourse, EpochFiles, mark_sole_isr
from replica_audit.formats.metadata.stale import CopyMoments, mark_lacking, settle, stale_rows
from replica_audit.model import Leadership, QuarantineRow

_QUORUM_HINT = "the voters are taken from the log alone; compare with quorum-state of the other controllers"
_ASIDE = "; what is known of leadership comes from the other copies"
_UNKNOWN_MOMENTS = CopyMoments()


@dataclass(frozen=True, slots=True)
class MetadataReading:
    """What the metadata log says, and what of it could not be used."""

    leaderships: tuple[Leadership, ...] = ()
    quarantine: tuple[QuarantineRow, ...] = ()
    doubtful: bool = False
    """Part of the newest copy could not be read: the leadership may be older than what a listing says."""


def read_metadata(
    snapshot: Snapshot,
    logs: Sequence[MetadataLog],
    epochs: EpochFiles | None = None,
    moments: CopyMoments = _UNKNOWN_MOMENTS,
) -> MetadataReading:
    """Every partition's leadership with its history, from the newest copy and what older copies add before it.

    `epochs` gives entries of the brokers' leader-epoch-checkpoint files, for what they show that a leader had applied;
    `moments` tells which copies cannot lack a record because they were made before it was written.

    Nothing is raised for what cannot be read: CAP-UNREADABLE in `quarantine` where it matters, INPUT-IGNORED where
    another copy makes up for it, META-FORK where copies contradict each other, META-STALE where controllers lack what was
    committed.
    """
    copies = [read_copy(snapshot, log) for log in logs]
    usable = [copy for copy in copies if copy.epoch >= 0 or copy.end_offset > 0]
    refused: dict[str, Exception] = {}
    ignored: list[QuarantineRow] = []
    reading = None
    while usable and reading is None:
        newest = newest_copy(usable)
        try:
            quorum = weigh_copies(usable, newest.voters(snapshot) or _configured_voters(snapshot, newest, ignored))
            settled, stale = quorum, None
            if quorum.committed_end is not None and quorum.committed_end < quorum.newest.end_offset:
                everything = replay(snapshot, usable, replace(quorum, committed_end=None))
                settled, stale = settle(quorum, usable, everything.leaderships(), epochs, moments)
            image = replay(snapshot, usable, settled)
            found = mark_sole_isr(image.leaderships(), _course(image, usable, settled), epochs)
            reading = settled, stale, tuple(mark_lacking(found, stale) if stale else found)
        except (FormatError, MessageError, OSError) as error:
            refused[newest.log.path] = error
            usable = [copy for copy in usable if copy is not newest]
    if reading is None:
        rows = [row for copy in copies for row in _unread(copy, refused.get(copy.log.path), lost=True)]
        return MetadataReading(quarantine=(*rows, *ignored), doubtful=bool(rows))
    quorum, stale, leaderships = reading
    rows, doubtful = list(stale_rows(stale, quorum.newest) if stale else ()), False
    for copy in copies:
        # What cannot be read of a copy matters when it may be newer than what was read, and committed.
        reason = refused.get(copy.log.path)
        newer = copy.reach > quorum.newest.newness and not quorum.whole
        doubtful |= newer
        rows += _unread(copy, reason, lost=newer)
    return MetadataReading(leaderships, (*rows, *ignored, *map(_fork_row, quorum.forks)), doubtful)


def _course(image: MetadataImage, copies: Sequence[MetadataCopy], quorum: Quorum) -> ClusterCourse:
    ends: dict[int, int] = {}
    for copy in copies:
        if copy.node_id is not None:
            ends[copy.node_id] = max(ends.get(copy.node_id, 0), quorum.agreed[copy.log.path])
    committed = quorum.newest.end_offset if quorum.committed_end is None else quorum.committed_end
    return ClusterCourse(image.brokers, image.elr_levels, ends, committed)


def _configured_voters(snapshot: Snapshot, copy: MetadataCopy, ignored: list[QuarantineRow]) -> tuple[int, ...] | None:
    """The voters that quorum-state names; None without such a file, or where it names none (KIP-853).

    Then nothing counts as tentative; a file that cannot be used is added to `ignored`.
    """
    path = f"{copy.log.path}/quorum-state"
    if not copy.log.has_quorum_state:
        return None
    try:
        state = parse_json(snapshot.read_bytes(path), path, _QUORUM_HINT)
        named = state.get("currentVoters") if isinstance(state, dict) else state
        if named is None:
            return None
        if not isinstance(named, list) or not all(
            isinstance(one, dict) and is_whole(one.get("voterId")) for one in named
        ):
            raise FormatError(path, None, "currentVoters with a voterId each", show_value(named), _QUORUM_HINT)
    except (OSError, FormatError) as error:
        ignored.append(QuarantineRow(copy.node_id, path, None, None, "INPUT-IGNORED", str(error)))
        return None
    return tuple(sorted(one["voterId"] for one in named)) or None


def _unread(copy: MetadataCopy, error: Exception | None, *, lost: bool) -> list[QuarantineRow]:
    problems = list(copy.problems)
    if error is not None:
        problems.append((copy.log.path, getattr(error, "position", None), str(error)))
    code, more = ("CAP-UNREADABLE", "") if lost else ("INPUT-IGNORED", _ASIDE)
    return [
        QuarantineRow(copy.node_id, path, position, None, code, reason + more) for path, position, reason in problems
    ]


def _fork_row(fork: Fork) -> QuarantineRow:
    reason = f"from offset {fork.offset} on it differs from {fork.other.log.path}: {fork.reason}"
    return QuarantineRow(fork.copy.node_id, fork.copy.log.path, None, None, "META-FORK", reason)
