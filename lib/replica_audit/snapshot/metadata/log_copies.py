"""A node's copy of the metadata log: its entries, its contiguous offsets, its snapshots and its quorum-state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from replica_audit.batch_header import CONTROL
from replica_audit.errors import FormatError
from replica_audit.model import Damage
from replica_audit.parsing import is_whole, parse_json, show_value
from replica_audit.schema import ControllerEpoch
from replica_audit.segments.compression import CodecError
from replica_audit.segments.record_batch import BATCH_DTYPE
from replica_audit.segments.records import RecordError
from replica_audit.segments.scan import scan_segment
from replica_audit.snapshot.internal_topics import records_of
from replica_audit.snapshot.inventory import MetadataLog
from replica_audit.snapshot.log_dir_names import parse_file_name, parse_snapshot_name
from replica_audit.snapshot.message_fields import FieldReader, MessageError
from replica_audit.snapshot.metadata.kraft_records import (
    KRAFT_VOTERS,
    LEADER_CHANGE,
    SNAPSHOT_FOOTER,
    SNAPSHOT_HEADER,
    KeyedRecord,
    Message,
    Voters,
    parse_message,
    parse_snapshot_time,
    parse_voters,
)
from replica_audit.snapshot.storage import Snapshot

_HINT = "copy the metadata log again, or take another node's; without one the listing of topics is used"

#: A controller's batches are at most 8 MiB (`MAX_BATCH_SIZE_BYTES`).
_GREATEST_BATCH = 64 << 20


class SnapshotTime(NamedTuple):
    """Time of the last record in a snapshot, in ms."""

    time_ms: int


class SnapshotEnd(NamedTuple):
    """Footer of a snapshot, which is incomplete without it."""


class MetadataEntry(NamedTuple):
    """A message of the log with its offset, the batch's leader (controller) epoch, its time in ms, and the batch's end."""

    offset: int
    epoch: int
    time_ms: int
    message: Message | KeyedRecord | Voters | SnapshotTime | SnapshotEnd
    batch_end: int
    """End of its batch; brokers apply a batch as a whole."""


#: Decodes a record's value; None for kinds that are skipped.
Parse = Callable[[bytes], Message | KeyedRecord | None]


def scan_headers(
    stream: BinaryIO, size_bytes: int, base_offset: int
) -> tuple[NDArray[np.void], list[Damage], tuple[int, int]]:
    """Sound batches of a file (`BATCH_DTYPE`) in order, the damage between and after them, and the greatest (controller
    epoch, end offset) in headers of batches with a wrong checksum."""
    parts, damage, shown = [np.empty(0, BATCH_DTYPE)], [], (-1, 0)
    for item in scan_segment(stream, size_bytes, base_offset):
        if isinstance(item, Damage):
            damage.append(item)
            continue
        sound = item["crc_valid"] & (item["magic"] == 2)
        for bad in item[~sound]:
            reason = (
                f"expected a batch of magic 2 with a right checksum, found magic {bad['magic']} and crc {bad['crc']}"
            )
            place = int(bad["position"]), int(bad["size"])
            damage.append(Damage(*place, reason, "corrupt", int(bad["base_offset"]), int(bad["last_offset"]) + 1))
            shown = max(shown, (int(bad["leader_epoch"]), int(bad["last_offset"]) + 1))
        parts.append(item[sound])
    return np.concatenate(parts), damage, shown


def read_entries(
    stream: BinaryIO, path: str, headers: NDArray[np.void], parse: Parse = parse_message
) -> Iterator[MetadataEntry]:
    """Entries of the batches `headers` of one file, in order; kinds that `parse` skips are left out.

    Raises FormatError, naming the batch, for records that cannot be decoded.
    """
    for header in headers:
        position, size = int(header["position"]), int(header["size"])
        if size > _GREATEST_BATCH:
            raise FormatError(path, position, f"a batch of at most {_GREATEST_BATCH} bytes", f"{size} bytes", _HINT)
        stream.seek(position)
        data = stream.read(size)
        try:
            yield from _batch_entries(header, data, parse)
        except (MessageError, CodecError, RecordError) as error:
            raise FormatError(path, position, "a batch of metadata records", str(error), _HINT) from error


def read_snapshot(snapshot: Snapshot, path: str, parse: Parse = parse_message) -> list[MetadataEntry]:
    """The entries of a `.checkpoint` file; empty for a damaged one, which is then refused because it has no footer."""
    with snapshot.open_file(path) as stream:
        headers, damage, _ = scan_headers(stream, stream.seek(0, 2), 0)
        return [] if damage else list(read_entries(stream, path, headers, parse))


def is_complete(snapshot: Snapshot, path: str) -> bool:
    """True for a `.checkpoint` file that is sound and ends with its footer."""
    try:
        with snapshot.open_file(path) as stream:
            headers, damage, _ = scan_headers(stream, stream.seek(0, 2), 0)
            last = [] if damage else read_entries(stream, path, headers[-1:])
            return any(isinstance(entry.message, SnapshotEnd) for entry in last)
    except (FormatError, OSError):
        return False


def _batch_entries(header: np.void, data: bytes, parse: Parse) -> Iterator[MetadataEntry]:
    attributes = int(header["attributes"])
    base, epoch, time_ms = int(header["base_offset"]), int(header["leader_epoch"]), int(header["base_timestamp"])
    for timestamp_delta, offset_delta, key, value, _ in records_of(header, data):
        message = _parse_control(key, value) if attributes & CONTROL else parse(value or b"")
        if message is not None:
            place = base + offset_delta, epoch, time_ms + timestamp_delta
            yield MetadataEntry(*place, message, int(header["last_offset"]) + 1)


def _parse_control(key: bytes | None, value: bytes | None) -> Voters | SnapshotTime | SnapshotEnd | None:
    reader = FieldReader(key or b"")
    reader.int16()
    kind = reader.int16()
    if kind in (LEADER_CHANGE, KRAFT_VOTERS):
        return parse_voters(kind, value or b"")
    if kind == SNAPSHOT_HEADER:
        return SnapshotTime(parse_snapshot_time(value or b""))
    return SnapshotEnd() if kind == SNAPSHOT_FOOTER else None


_HINT_OF_STATE = (
    "the voters and their epoch are taken from the logs alone; compare with quorum-state of the other controllers"
)


class QuorumState(NamedTuple):
    """Content of a quorum-state file."""

    leader_epoch: int | None
    """Last controller epoch that the node has seen; if elected, it continues from there."""
    voters: Voters | None
    """None if it names none, as in version 1, and in version 0 of a voter formatted again (KIP-853)."""
    leader_id: int | None = None
    """Leader in that epoch, as far as the node knew."""
    voted_id: int | None = None
    """Candidate for which the node voted in that epoch."""


def read_quorum_state(snapshot: Snapshot, log: MetadataLog) -> QuorumState | None:
    """The file beside a metadata log, None without one. Raises OSError and FormatError."""
    if not log.has_quorum_state:
        return None
    path = f"{log.path}/quorum-state"
    state = parse_json(snapshot.read_bytes(path), path, _HINT_OF_STATE)
    if not isinstance(state, dict):
        raise FormatError(path, None, "a JSON object", show_value(state), _HINT_OF_STATE)
    named, epoch = state.get("currentVoters"), state.get("leaderEpoch")
    if named is not None and not _is_voters(named):
        raise FormatError(path, None, "currentVoters with a voterId each", show_value(named), _HINT_OF_STATE)
    if epoch is not None and not is_whole(epoch, least=-1):
        raise FormatError(path, None, "leaderEpoch as a whole number", show_value(epoch), _HINT_OF_STATE)
    ids = tuple(sorted(one["voterId"] for one in named or ()))
    return QuorumState(epoch, Voters(ids) if ids else None, _node(state, "leaderId"), _node(state, "votedId"))


def _node(state: Mapping[str, object], name: str) -> int | None:
    """A node that the file names; None for -1."""
    value = state.get(name)
    return value if isinstance(value, int) and is_whole(value) else None


def _is_voters(named: object) -> bool:
    return isinstance(named, list) and all(isinstance(one, dict) and is_whole(one.get("voterId")) for one in named)


#: Stands for the reach of a log whose end cannot be read.
UNKNOWN_REACH = (2**31, 2**63)

#: Damage at the end of the log that a running or killed controller leaves.
_HARMLESS_TAILS = ("partial", "zero_filled")


class StateSnapshot(NamedTuple):
    """A `.checkpoint` file: the state of everything below `end_offset`, which was committed."""

    end_offset: int
    epoch: int
    path: str


class QuorumElection(NamedTuple):
    """A LeaderChangeMessage: `leader_id` began to lead the quorum in controller epoch `epoch`."""

    offset: int
    epoch: int
    time_ms: int
    leader_id: int


class SegmentBatches(NamedTuple):
    """Sound batches (`BATCH_DTYPE`) of one segment, in order and without a gap."""

    path: str
    headers: NDArray[np.void]


@dataclass(frozen=True, slots=True, eq=False)
class MetadataCopy:
    """The last contiguous part of one node's log; empty if all records are in its snapshot. Compared by identity."""

    log: MetadataLog
    start_offset: int
    end_offset: int
    epoch: int
    """Controller epoch of its last record, else of its snapshot; -1 without either."""
    pieces: tuple[SegmentBatches, ...]
    snapshots: tuple[StateSnapshot, ...]
    """By end offset."""
    problems: tuple[tuple[str, int | None, str], ...] = field(default=())
    """(path, position, reason) of what could not be read; a torn or zero-filled end does not count."""
    reach: tuple[int, int] = (-1, 0)
    """`newness` of the last batch that the files show or that unread parts may contain."""
    state: QuorumState | None = None
    """None if there is no quorum-state, or it cannot be used."""

    @property
    def node_id(self) -> int | None:
        return self.log.node_id

    @property
    def holds_something(self) -> bool:
        """True if it has records or a snapshot."""
        return self.epoch >= 0 or self.end_offset > 0

    @property
    def newness(self) -> tuple[int, int]:
        """(epoch, end offset); greater is newer (`OffsetAndEpoch.compareTo`)."""
        return self.epoch, self.end_offset

    @property
    def last_time_ms(self) -> int:
        """Time of its last batch; -1 without one."""
        return int(self.pieces[-1].headers["base_timestamp"][-1]) if self.pieces else -1

    @property
    def keys(self) -> NDArray[np.void]:
        """Base offset, epoch and checksum of every batch, to compare copies of one log."""
        parts = [piece.headers[["base_offset", "leader_epoch", "crc"]] for piece in self.pieces]
        return np.concatenate(parts) if parts else np.empty(0, BATCH_DTYPE)[["base_offset", "leader_epoch", "crc"]]

    @property
    def epochs(self) -> Iterator[ControllerEpoch]:
        """Yield the log's ranges of equal controller epoch, in order."""
        if self.pieces:
            headers = np.concatenate([piece.headers[["leader_epoch", "base_offset"]] for piece in self.pieces])
            begins = headers[np.flatnonzero(np.diff(headers["leader_epoch"], prepend=-2))]
            ends = [*begins["base_offset"][1:], self.end_offset]
            for epoch, start, end in zip(begins["leader_epoch"], begins["base_offset"], ends, strict=True):
                yield ControllerEpoch(int(epoch), int(start), int(end))

    def until(self, offset: int) -> MetadataCopy:
        """The copy as it was when it ended at `offset`, a batch boundary."""
        cut = [
            SegmentBatches(piece.path, piece.headers[piece.headers["last_offset"] < offset]) for piece in self.pieces
        ]
        pieces = tuple(piece for piece in cut if len(piece.headers))
        snapshots = tuple(one for one in self.snapshots if one.end_offset <= offset)
        epoch = (
            int(pieces[-1].headers["leader_epoch"][-1]) if pieces else max((one.epoch for one in snapshots), default=-1)
        )
        return replace(self, end_offset=offset, epoch=epoch, pieces=pieces, snapshots=snapshots)

    def entries(
        self,
        snapshot: Snapshot,
        start_offset: int,
        end_offset: int | None = None,
        parse: Parse = parse_message,
    ) -> Iterator[MetadataEntry]:
        """Yield the log's entries from `start_offset` on, below `end_offset`. Raises FormatError and OSError."""
        for piece in self.pieces:
            wanted = piece.headers[piece.headers["last_offset"] >= start_offset]
            if end_offset is not None:
                wanted = wanted[wanted["base_offset"] < end_offset]
            if not len(wanted):
                continue
            with snapshot.open_file(piece.path) as stream:
                for entry in read_entries(stream, piece.path, wanted, parse):
                    if start_offset <= entry.offset and (end_offset is None or entry.offset < end_offset):
                        yield entry

    def voters(self, snapshot: Snapshot) -> Voters | None:
        """The voters in its last control record, else in its quorum-state, else in its snapshot; None without any.

        An election names voters by node id only; their directories are in a VotersRecord of the log, or of the snapshot before it.
        """
        named = [one for _, one in self._voters_named(snapshot)]
        if not named and self.state is not None and self.state.voters is not None:
            return self.state.voters
        if not named:
            return next(iter(self._voters_before(snapshot)), None)
        last = named[0]
        records = [one for one in named if one.leader_id is None] or self._voters_before(snapshot)
        return (records[0] if records else Voters(())).among(last.ids)

    def elections(self, snapshot: Snapshot) -> list[QuorumElection]:
        """Elections in the log, in order."""
        return [
            QuorumElection(entry.offset, entry.epoch, entry.time_ms, one.leader_id)
            for entry, one in self._voters_named(snapshot)
            if one.leader_id is not None
        ][::-1]

    def _voters_named(self, snapshot: Snapshot) -> Iterator[tuple[MetadataEntry, Voters]]:
        """The control records that name voters, last first."""
        for piece in reversed(self.pieces):
            control = piece.headers[(piece.headers["attributes"] & CONTROL) != 0]
            with snapshot.open_file(piece.path) as stream:
                for header in control[::-1]:
                    for entry in reversed(list(read_entries(stream, piece.path, np.array([header])))):
                        if isinstance(entry.message, Voters):
                            yield entry, entry.message

    def _voters_before(self, snapshot: Snapshot) -> list[Voters]:
        """VotersRecords of its last snapshot, last first, if its log does not reach back to offset 0."""
        if not self.start_offset or not self.snapshots:
            return []
        entries = read_snapshot(snapshot, self.snapshots[-1].path)
        return [entry.message for entry in entries if isinstance(entry.message, Voters)][::-1]


def read_copy(snapshot: Snapshot, log: MetadataLog, state: QuorumState | None = None) -> MetadataCopy:
    """Scan the headers of one copy. Raises no error: unreadable parts are in `problems`."""
    problems: list[tuple[str, int | None, str]] = []
    runs: list[list[SegmentBatches]] = []
    expected, reach = None, (-1, 0)
    for path in log.segment_paths:
        base = parse_file_name(path.rpartition("/")[2]).base_offset or 0
        try:
            with snapshot.open_file(path) as stream:
                size = stream.seek(0, 2)
                headers, damage, shown = scan_headers(stream, size, base)
        except (OSError, FormatError) as error:
            problems.append((path, getattr(error, "position", None), str(error)))
            expected, reach = None, UNKNOWN_REACH
            continue
        for stretch in _stretches(headers):
            first = int(stretch["base_offset"][0])
            if expected is None or first != expected:
                runs.append([])
            runs[-1].append(SegmentBatches(path, stretch))
            expected = int(stretch["last_offset"][-1]) + 1
            reach = max(reach, (int(stretch["leader_epoch"][-1]), expected))
        reach = max(reach, shown)
        last = path == log.segment_paths[-1]
        for one in damage:
            if not (last and one.kind in _HARMLESS_TAILS):
                problems.append((path, one.position, one.reason))
                if last and one.next_offset is None:
                    reach = UNKNOWN_REACH
    snapshots = tuple(sorted(_snapshots(log), key=lambda one: (one.end_offset, one.epoch)))
    run = _usable(runs, snapshots)
    end = int(run[-1].headers["last_offset"][-1]) + 1 if run else 0
    epoch = int(run[-1].headers["leader_epoch"][-1]) if run else -1
    if snapshots and (snapshots[-1].epoch, snapshots[-1].end_offset) > (epoch, end):
        run, end, epoch = (), snapshots[-1].end_offset, snapshots[-1].epoch
    start = int(run[0].headers["base_offset"][0]) if run else end
    if runs and not problems and runs[-1] is not run and _newness(runs[-1][-1]) > (epoch, end):
        problems.append(_hole(log, end, run[-1].path if run else None, runs[-1][0]))
    return MetadataCopy(log, start, end, epoch, tuple(run), snapshots, tuple(problems), max(reach, (epoch, end)), state)


def _hole(log: MetadataLog, end: int, last_path: str | None, beyond: SegmentBatches) -> tuple[str, int | None, str]:
    """Problem of a copy with a hole after its records up to `end`, if no snapshot reaches the records `beyond` it."""
    header = beyond.headers[0]
    if beyond.path == last_path:
        return (
            beyond.path,
            int(header["position"]),
            f"expected offset {end}, found {header['base_offset']}: copy it again",
        )
    name = beyond.path.rpartition("/")[2]
    reason = f"it is missing, and {name} begins at offset {header['base_offset']}: copy it, or the .checkpoint of what came before"
    return f"{log.path}/{end:020d}.log", None, reason


def _newness(piece: SegmentBatches) -> tuple[int, int]:
    """(epoch, end offset) of its last batch, as for a copy."""
    return int(piece.headers["leader_epoch"][-1]), int(piece.headers["last_offset"][-1]) + 1


def _stretches(headers: NDArray[np.void]) -> list[NDArray[np.void]]:
    """Batches split where offsets are not consecutive: metadata logs have no gaps."""
    if not len(headers):
        return []
    breaks = np.flatnonzero(headers["base_offset"][1:] != headers["last_offset"][:-1] + 1) + 1
    return np.split(headers, breaks)


def _snapshots(log: MetadataLog) -> Iterator[StateSnapshot]:
    for path in log.snapshot_paths:
        name = parse_snapshot_name(path.rpartition("/")[2])
        if name is not None:
            yield StateSnapshot(*name, path)


def _usable(runs: list[list[SegmentBatches]], snapshots: tuple[StateSnapshot, ...]) -> list[SegmentBatches] | tuple[()]:
    """The last run that begins at 0 or that a snapshot reaches."""
    for run in reversed(runs):
        start, end = int(run[0].headers["base_offset"][0]), int(run[-1].headers["last_offset"][-1]) + 1
        if start == 0 or any(start <= one.end_offset <= end for one in snapshots):
            return run
    return ()
