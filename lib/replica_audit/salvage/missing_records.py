"""Finds the records of a copy that the reference lacks, record by record where batches differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from replica_audit.auditing.compare.record_comparison import RecordComparison, unequal_offsets
from replica_audit.auditing.compare.resent import LogOfPair, twins_of
from replica_audit.batch_header import CONTROL
from replica_audit.model import Damage
from replica_audit.salvage.partition_logs import Copy, Unread
from replica_audit.salvage.reference_log import ReferenceLog, read_batches, request_of
from replica_audit.segments.batch_rows import Batches
from replica_audit.segments.records import RECORD_DTYPE, RecordError, UnexpandedError, decode_records
from replica_audit.snapshot.record_reader import NotCaptured, RecordReader, RecordRequest
from replica_audit.snapshot.segment_file import SegmentFile
from replica_audit.snapshot.storage import Snapshot

#: Reasons why the reference lacks a record.
REASONS = ("other_record", "other_epoch", "past_end", "hole", "unreadable_there")

#: Records that are left where they are, and not for what a transaction came to.
AHEAD = "ahead"
BELOW_LOG_START = "below_log_start"
CLEANED = "cleaned"
CONTROL_RECORD = "control"

_WINDOW_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class SourceBatch:
    """A batch of a copy that holds lacking records."""

    request: RecordRequest
    base_offset: int
    last_offset: int
    record_count: int
    """Records that were decoded from it."""


@dataclass(frozen=True, slots=True)
class UnexpandedBatch:
    """A batch that the reference lacks and that is too large to be expanded: its records are not looked at."""

    request: RecordRequest
    broker_id: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    record_count: int | None
    """None where its header does not say."""
    reason: str


@dataclass(slots=True)
class MissingRecords:
    """Records that one copy holds and the reference lacks. `rows`, `batch` and `reason` are parallel."""

    rows: np.ndarray
    """`RECORD_DTYPE`, control records among them."""
    batch: np.ndarray
    """Index into `batches`."""
    reason: np.ndarray
    """Index into `REASONS`."""
    batches: list[SourceBatch]
    markers: np.ndarray
    """Control records of the copy in the chunks that were looked at, `RECORD_DTYPE`."""
    left_out: Counter[str] = field(default_factory=Counter)
    unread: list[Unread] = field(default_factory=list)
    unexpanded: list[UnexpandedBatch] = field(default_factory=list)
    forked_at_end: bool = False
    """The reference's last record is another one in the copy: without epochs only this tells that what follows conflicts."""


def find_lacking(
    snapshot: Snapshot, reader: RecordReader, reference: ReferenceLog, copy: Copy, ahead_too: bool
) -> MissingRecords:
    """Find the records that `copy` holds and the reference lacks.

    `ahead_too`: include records past the reference's end even if no epoch shows that they conflict.
    """
    chunks = reference.differing_chunks(copy.facts)
    found = MissingRecords(*_nothing(), [], np.empty(0, RECORD_DTYPE))
    for number, chunk in copy.facts.chunks.items():
        if number not in chunks and chunk.last_offset < reference.facts.log_start_offset:
            found.left_out[BELOW_LOG_START] += chunk.record_count
    if not chunks:
        return found
    reference.load(chunks)
    rows, places, damage, found.unread = read_batches(snapshot, copy.facts, copy.files, chunks)
    different = ~(reference.holds(rows) | reference.holds(_moved_back(rows, places, copy.files)))
    sound = rows["crc_valid"]
    _tell_damage(found, reference, copy, rows[different & ~sound], places[different & ~sound])
    lacking = different & sound
    lacking[lacking] = ~_sent_again(reader, reference, copy, rows, lacking)
    parts: list[tuple[np.ndarray, ...]] = []
    for window in _windows(rows, np.flatnonzero(lacking)):
        parts += _compare(found, reader, reference, copy, rows[window], places[window], ahead_too)
    control = (rows["attributes"] & CONTROL != 0) & (rows["magic"] >= 2) & sound
    requests = [request_of(copy.files[places[at]].path, rows[at]) for at in np.flatnonzero(control)]
    found.markers = reader(requests).rows
    if parts:
        found.rows, found.batch, found.reason = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    _tell_stretches(found, reference, damage)
    return found


def _sent_again(
    reader: RecordReader, reference: ReferenceLog, copy: Copy, rows: np.ndarray, chosen: np.ndarray
) -> np.ndarray:
    """Mask of the `chosen` batches of a copy that their producer sent again to the reference, where it has them elsewhere.

    Only a batch of an epoch that is not the reference's there was sent to another leader.
    """
    batches = rows[chosen]
    own = [reference.lineage.epoch_for_offset(offset) for offset in batches["base_offset"].tolist()]
    parted = (batches["leader_epoch"] >= 0) & (batches["leader_epoch"] != [-1 if one is None else one for one in own])
    if not parted.any():
        return parted
    fork = int(batches["base_offset"][parted].min())
    twins = twins_of(
        Batches(batches[parted]),
        fork,
        LogOfPair(copy.facts, Batches.in_order(rows[rows["base_offset"] >= fork])),
        LogOfPair(reference.facts, Batches.in_order(reference.batches_from(fork))),
        RecordComparison(reader),
    )
    positions = {(batch.base_offset, batch.position) for batch in twins}
    places = zip(batches["base_offset"].tolist(), batches["position"].tolist(), strict=True)
    return np.array([place in positions for place in places], bool)


def _compare(
    found: MissingRecords,
    reader: RecordReader,
    reference: ReferenceLog,
    copy: Copy,
    batches: np.ndarray,
    places: np.ndarray,
    ahead_too: bool,
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Rows, batch indexes and reasons of the lacking records of each of `batches`, one window."""
    theirs, blind, uncaptured = reference.records(
        int(batches["base_offset"].min()), int(batches["last_offset"].max()) + 1
    )
    requests = {
        request_of(copy.files[place].path, batch): batch for batch, place in zip(batches, places.tolist(), strict=True)
    }
    for request, entry in reader.entries(requests):
        batch = requests[request]
        try:
            if isinstance(entry, str):
                raise RecordError(entry)
            rows = decode_records(entry, reader.hasher)
        except UnexpandedError as error:
            _leave_unexpanded(found, reference, copy, request, batch, ahead_too, str(error))
            continue
        except RecordError as error:
            # A sound batch that differs may hold other records of the same epoch.
            if isinstance(entry, NotCaptured) or not reference.keeps(batch):
                found.unread.append(_unread_batch(copy, request, batch, str(error)))
            continue
        beside = slice(*np.searchsorted(theirs["offset"], (batch["base_offset"], batch["last_offset"] + 1)))
        reason = _judge(rows, theirs[beside], blind, uncaptured, reference, copy, ahead_too, found)
        lacking = reason >= 0
        if lacking.any():
            found.batches.append(SourceBatch(request, int(batch["base_offset"]), int(batch["last_offset"]), len(rows)))
            at = np.full(int(lacking.sum()), len(found.batches) - 1)
            yield rows[lacking], at, reason[lacking]


def _leave_unexpanded(
    found: MissingRecords,
    reference: ReferenceLog,
    copy: Copy,
    request: RecordRequest,
    batch: np.void,
    ahead_too: bool,
    reason: str,
) -> None:
    """Take down a batch that is not expanded, where the reference lacks it whole as far as its header tells."""
    if reference.keeps(batch):
        return
    base, last, epoch = (int(batch[name]) for name in ("base_offset", "last_offset", "leader_epoch"))
    count = int(batch["record_count"]) if batch["record_count"] >= 0 else None
    word = _place(last, epoch, reference, copy, ahead_too)
    if word in REASONS:
        found.unexpanded.append(UnexpandedBatch(request, copy.broker_id, base, last, epoch, count, reason))
    else:
        found.left_out[word] += count or 0


def _judge(
    rows: np.ndarray,
    theirs: np.ndarray,
    blind: Sequence[tuple[int, int]],
    uncaptured: Sequence[tuple[int, int]],
    reference: ReferenceLog,
    copy: Copy,
    ahead_too: bool,
    found: MissingRecords,
) -> np.ndarray:
    """For each record of one batch the index of its reason, -1 where the reference has it or nothing says that it lost it.

    Where what the reference has is `uncaptured`, nothing does; the batches are noted there.
    """
    facts = reference.facts
    # What is left of deleted records in a segment, nobody can read of a broker, whoever's log it is.
    floor = max(facts.log_start_offset, copy.facts.log_start_offset)
    reasons = np.full(len(rows), -1, np.int8)
    differing = set(unequal_offsets(_without_epoch(rows), _without_epoch(theirs)).tolist())
    found.forked_at_end |= facts.log_end_offset - 1 in differing
    present = np.isin(rows["offset"], theirs["offset"])
    for index in np.flatnonzero(~present | np.isin(rows["offset"], list(differing))).tolist():
        offset = int(rows["offset"][index])
        epoch = int(rows["leader_epoch"][index])
        is_control = bool(rows["control"][index])
        if offset < floor:
            word = BELOW_LOG_START
        elif any(start <= offset < end for start, end in uncaptured):
            continue
        elif present[index]:
            word = "other_record"
        elif any(start <= offset < end for start, end in blind):
            word = "unreadable_there"
        else:
            forked = epoch < 0 and found.forked_at_end
            word = _place(offset, epoch, reference, copy, ahead_too or forked)
        if word in REASONS:
            reasons[index] = REASONS.index(word)
        elif not is_control:
            found.left_out[word] += 1
    return reasons


def _place(offset: int, epoch: int, reference: ReferenceLog, copy: Copy, ahead_too: bool) -> str:
    """The reason why the reference has no record at `offset`, where a copy has one of `epoch` (-1: none)."""
    facts = reference.facts
    if offset >= facts.log_end_offset:
        return "past_end" if ahead_too or 0 <= epoch < reference.leader_epoch else AHEAD
    own = reference.lineage.epoch_for_offset(offset)
    if epoch >= 0 and own is not None and own != epoch:
        return "other_epoch"
    if offset < facts.local_start_offset:
        return BELOW_LOG_START  # in the remote tier, or deleted
    if reference.is_damaged(offset, offset + 1):
        return "unreadable_there"
    return CLEANED if facts.compacted or copy.facts.compacted else "hole"


def _without_epoch(rows: np.ndarray) -> np.ndarray:
    """Equal records of two epochs are one: what was written again at the same offset is not lacking."""
    rows = rows.copy()
    rows["leader_epoch"] = -1
    return rows


def _tell_damage(
    found: MissingRecords, reference: ReferenceLog, copy: Copy, batches: np.ndarray, places: np.ndarray
) -> None:
    """Batches whose checksum is wrong hold records that nobody can vouch for; those of the reference's lineage are there."""
    for batch, place in zip(batches, places.tolist(), strict=True):
        if not reference.keeps(batch):
            request = request_of(copy.files[place].path, batch)
            found.unread.append(_unread_batch(copy, request, batch, "its checksum is wrong"))


def _tell_stretches(
    found: MissingRecords, reference: ReferenceLog, damage: Sequence[tuple[SegmentFile, Damage]]
) -> None:
    """Bytes that are not a batch, where what stood there need not be on the reference.

    It is, where the log after them is the reference's again: two logs that have the same record have the same before it.
    A torn or zero-filled end was never written whole.
    """
    for file, item in damage:
        if item.kind != "corrupt":
            continue
        start = file.base_offset if item.expected_offset is None else item.expected_offset
        if item.next_offset is None:
            shared = start < reference.facts.log_end_offset and not (found.rows["offset"] < start).any()
        else:
            shared = item.next_offset < reference.facts.log_end_offset and item.next_offset not in found.rows["offset"]
        if not shared:
            reason = f"{item.length} bytes there are not a batch"
            found.unread.append(Unread(file.path, reason, file.broker_id, item.position, start, item.next_offset))


def _unread_batch(copy: Copy, request: RecordRequest, batch: np.void, reason: str) -> Unread:
    bounds = int(batch["base_offset"]), int(batch["last_offset"]) + 1
    records = int(batch["record_count"])
    epoch = int(batch["leader_epoch"])
    counted = records if records >= 0 else None
    return Unread(request.path, reason, copy.broker_id, request.position, *bounds, counted, epoch)


def _moved_back(rows: np.ndarray, places: np.ndarray, files: Sequence[SegmentFile]) -> np.ndarray:
    """`rows` with base offsets recomputed from the end of the preceding batch in the file, since no CRC covers them."""
    moved = rows.copy()
    if not len(rows):
        return moved
    starts = np.array([file.base_offset for file in files], np.int64)[places]
    follows = np.append(False, places[1:] == places[:-1])
    starts[follows] = rows["last_offset"][:-1][follows[1:]] + 1
    moved["base_offset"] = starts
    moved["last_offset"] = starts + rows["last_offset"] - rows["base_offset"]
    return moved


def _windows(rows: np.ndarray, chosen: np.ndarray) -> Iterator[np.ndarray]:
    """`chosen` indexes in their order, cut into groups of some bytes."""
    ends = np.cumsum(rows["size"][chosen])
    for number in range(int(ends[-1] // _WINDOW_BYTES) + 1 if len(chosen) else 0):
        group = chosen[ends // _WINDOW_BYTES == number]
        if len(group):
            yield group


def _nothing() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.empty(0, RECORD_DTYPE), np.empty(0, np.int64), np.empty(0, np.int8)
