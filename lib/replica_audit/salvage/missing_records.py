"""Search for records of a copy that the reference lacks, record by record where batches differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from replica_audit.auditing.compare.record_comparison import RecordComparison, unequal_offsets
from replica_audit.auditing.compare.replays import lacked_below_start
from replica_audit.auditing.compare.resent import LogOfPair, twins_of
from replica_audit.batch_header import CONTROL
from replica_audit.model import Damage, SegmentFile
from replica_audit.salvage.compared_logs import (
    REMOTE_KIND,
    Copy,
    KnownRecords,
    ReferenceLog,
    Unread,
    read_batches,
)
from replica_audit.segments.batch_rows import Batches
from replica_audit.segments.records import RECORD_DTYPE, RecordError, UnexpandedError, decode_records
from replica_audit.snapshot.record_reader import NotCaptured, RecordReader, RecordRequest, request_of
from replica_audit.snapshot.storage import Snapshot

#: Reasons why the reference lacks a record.
REASONS = ("other_record", "other_epoch", "past_end", "hole", "unreadable_there")

#: Records left out for reasons other than the outcome of their transaction.
AHEAD = "ahead"
BELOW_LOG_START = "below_log_start"
IN_REMOTE_STORAGE = "in_remote_storage"
CLEANED = "cleaned"
CONTROL_RECORD = "control"

_WINDOW_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class SourceBatch:
    """A batch of a copy that holds missing records."""

    request: RecordRequest
    base_offset: int
    last_offset: int
    record_count: int
    """Number of records decoded from it."""


@dataclass(frozen=True, slots=True)
class UnexpandedBatch:
    """A batch that the reference lacks and that is too large to expand: its records are not compared."""

    request: RecordRequest
    broker_id: int | None
    base_offset: int
    last_offset: int
    leader_epoch: int
    record_count: int | None
    """None if its header does not say."""
    reason: str


@dataclass(slots=True)
class MissingRecords:
    """Records that one copy holds and the reference lacks. `rows`, `batch` and `reason` are parallel."""

    rows: NDArray[np.void]
    """`RECORD_DTYPE`, including control records."""
    batch: NDArray[np.int64]
    """Index into `batches`, parallel to `rows`."""
    reason: NDArray[np.int8]
    """Index into `REASONS`, parallel to `rows`."""
    batches: list[SourceBatch]
    markers: NDArray[np.void]
    """Control records of the copy in the chunks that were read, `RECORD_DTYPE`."""
    left_out: Counter[str] = field(default_factory=Counter)
    unread: list[Unread] = field(default_factory=list)
    unexpanded: list[UnexpandedBatch] = field(default_factory=list)
    forked_at_end: bool = False
    """True if the reference's last record differs from the copy's: without epochs only this shows that later records conflict."""


def find_lacking(
    snapshot: Snapshot, reader: RecordReader, reference: ReferenceLog, copy: Copy, ahead_too: bool
) -> MissingRecords:
    """The records that `copy` holds and the reference lacks.

    `ahead_too`: include records past the reference's end even if no epoch shows that they conflict.
    """
    chunks = reference.differing_chunks(copy)
    found = MissingRecords(*_nothing(), [], np.empty(0, RECORD_DTYPE))
    for number, chunk in copy.facts.chunks.items():
        if number not in chunks and chunk.last_offset < reference.facts.log_start_offset:
            found.left_out[BELOW_LOG_START] += chunk.record_count
    if not chunks:
        return found
    reference.load(chunks)
    rows, places, damage, found.unread = read_batches(snapshot, copy.facts, copy.files, chunks)
    search = _Search(reader, reference, copy, ahead_too, found)
    different = ~(reference.holds(rows) | reference.holds(_moved_back(rows, places, copy.files)))
    sound = rows["crc_valid"]
    search.tell_damage(rows[different & ~sound], places[different & ~sound])
    lacking = different & sound
    lacking[lacking] = ~search.sent_again(rows, lacking)
    parts: list[tuple[NDArray[np.void], NDArray[np.int64], NDArray[np.int8]]] = []
    for window in _windows(rows, np.flatnonzero(lacking)):
        parts += search.compare(rows[window], places[window])
    control = (rows["attributes"] & CONTROL != 0) & (rows["magic"] >= 2) & sound
    requests = [request_of(copy.files[places[at]].path, rows[at]) for at in np.flatnonzero(control)]
    found.markers = reader(requests).rows
    if parts:
        found.rows, found.batch, found.reason = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    if copy.kind != REMOTE_KIND:
        search.tell_stretches(damage)
    else:
        # The rest of its segments is the reference's own: in its files, or served from the store.
        found.left_out.pop(BELOW_LOG_START, None)
    return found


@dataclass(frozen=True, slots=True)
class _Search:
    """Comparison of one copy with the reference; results go to `found`."""

    reader: RecordReader
    reference: ReferenceLog
    copy: Copy
    ahead_too: bool
    found: MissingRecords

    def sent_again(self, rows: NDArray[np.void], chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Mask of the `chosen` batches that their producer sent again, so that the reference has them at other offsets.

        Only a batch whose epoch is not the reference's at that offset was sent to another leader.
        """
        batches = rows[chosen]
        own = [self.reference.lineage.epoch_for_offset(offset) for offset in batches["base_offset"].tolist()]
        own_epochs = [-1 if one is None else one for one in own]
        parted = (batches["leader_epoch"] >= 0) & (batches["leader_epoch"] != own_epochs)
        if not parted.any():
            return parted
        fork = int(batches["base_offset"][parted].min())
        twins = twins_of(
            Batches(batches[parted]),
            fork,
            LogOfPair(self.copy.facts, Batches.in_order(rows[rows["base_offset"] >= fork])),
            LogOfPair(self.reference.facts, Batches.in_order(self.reference.batches_from(fork))),
            RecordComparison(self.reader),
        )
        positions = {(batch.base_offset, batch.position) for batch in twins}
        places = zip(batches["base_offset"].tolist(), batches["position"].tolist(), strict=True)
        return np.array([place in positions for place in places], bool)

    def compare(
        self, batches: NDArray[np.void], places: NDArray[np.int64]
    ) -> Iterator[tuple[NDArray[np.void], NDArray[np.int64], NDArray[np.int8]]]:
        """Rows, batch indexes and reasons of the missing records in each of `batches`, which make up one window."""
        known = self.reference.records(int(batches["base_offset"].min()), int(batches["last_offset"].max()) + 1)
        requests = self._requests(batches, places)
        for request, entry in self.reader.entries(requests):
            batch = requests[request]
            try:
                if isinstance(entry, str):
                    raise RecordError(entry)
                rows = decode_records(entry, self.reader.hasher)
            except UnexpandedError as error:
                self._leave_unexpanded(request, batch, str(error))
                continue
            except RecordError as error:
                # A sound batch that differs may hold other records of the same epoch.
                if isinstance(entry, NotCaptured) or not self.reference.keeps(batch):
                    self._note_unread(request, batch, str(error))
                continue
            reason = self._judge(rows, known.between(batch["base_offset"], batch["last_offset"] + 1))
            lacking = reason >= 0
            if lacking.any():
                base = int(batch["base_offset"])
                last = int(batch["last_offset"])
                self.found.batches.append(SourceBatch(request, base, last, len(rows)))
                at = np.full(int(lacking.sum()), len(self.found.batches) - 1)
                yield rows[lacking], at, reason[lacking]

    def _requests(self, batches: NDArray[np.void], places: NDArray[np.int64]) -> dict[RecordRequest, np.void]:
        paths = (self.copy.files[place].path for place in places.tolist())
        return {request_of(path, batch): batch for path, batch in zip(paths, batches, strict=True)}

    def _leave_unexpanded(self, request: RecordRequest, batch: np.void, reason: str) -> None:
        """Note an unexpanded batch, if its header shows that the reference lacks all of it."""
        if self.reference.keeps(batch):
            return
        base, last, epoch = (int(batch[name]) for name in ("base_offset", "last_offset", "leader_epoch"))
        count = _record_count(batch)
        word = self._place(last, epoch, self.ahead_too)
        if word in REASONS:
            unexpanded = UnexpandedBatch(request, self.copy.broker_id, base, last, epoch, count, reason)
            self.found.unexpanded.append(unexpanded)
        else:
            self.found.left_out[word] += count or 0

    def _judge(self, rows: NDArray[np.void], known: KnownRecords) -> NDArray[np.int8]:
        """Index of the reason for each record of one batch; -1 where the reference has it, or its loss is not shown.

        Nothing shows a loss where the reference's records were not captured; those batches are noted.
        """
        facts = self.reference.facts
        # Consumers cannot read below either log start: only remains of deleted records are there, and what the reference never had.
        floor = max(facts.log_start_offset, self.copy.facts.log_start_offset)
        lacked = lacked_below_start(facts, self.copy.facts)
        lacked_from = floor if lacked is None else max(lacked.start_offset, self.copy.facts.log_start_offset)
        reasons = np.full(len(rows), -1, np.int8)
        differing = set(unequal_offsets(_without_epoch(rows), _without_epoch(known.rows)).tolist())
        self.found.forked_at_end |= facts.log_end_offset - 1 in differing
        present = np.isin(rows["offset"], known.rows["offset"])
        for index in np.flatnonzero(~present | np.isin(rows["offset"], list(differing))).tolist():
            offset = int(rows["offset"][index])
            epoch = int(rows["leader_epoch"][index])
            if offset < floor:
                word = "other_epoch" if offset >= lacked_from else BELOW_LOG_START
            elif any(start <= offset < end for start, end in known.not_captured):
                continue
            elif present[index]:
                word = "other_record"
            elif any(start <= offset < end for start, end in known.unread):
                word = "unreadable_there"
            else:
                word = self._place(offset, epoch, self.ahead_too or (epoch < 0 and self.found.forked_at_end))
            if word in REASONS:
                reasons[index] = REASONS.index(word)
            elif not rows["control"][index]:
                self.found.left_out[word] += 1
        return reasons

    def _place(self, offset: int, epoch: int, ahead_too: bool) -> str:
        """The reason why the reference has no record at `offset`, where the copy has one of `epoch` (-1: none)."""
        facts = self.reference.facts
        if offset >= facts.log_end_offset:
            later = self.reference.past_end.epoch_for_offset(offset)
            return "past_end" if ahead_too or (later is not None and 0 <= epoch < later) else AHEAD
        own = self.reference.lineage.epoch_for_offset(offset)
        if epoch >= 0 and own is not None and own != epoch:
            return "other_epoch"
        if offset < facts.local_start_offset:
            return "hole" if self.reference.in_hole(offset, offset + 1) else IN_REMOTE_STORAGE
        if self.reference.is_damaged(offset, offset + 1):
            return "unreadable_there"
        return CLEANED if facts.compacted or self.copy.facts.compacted else "hole"

    def tell_damage(self, batches: NDArray[np.void], places: NDArray[np.int64]) -> None:
        """Note batches of wrong checksum, whose records cannot be trusted, unless the reference keeps them."""
        for request, batch in self._requests(batches, places).items():
            if not self.reference.keeps(batch):
                self._note_unread(request, batch, "its checksum is wrong")

    def tell_stretches(self, damage: Sequence[tuple[SegmentFile, Damage]]) -> None:
        """Note corrupt bytes whose records the reference may lack.

        It has them if the log after them is the reference's again, since two logs with a record in common agree below it. A
        torn or zero-filled end was never written completely; a finished segment in a remote store was (`remote_copies`).
        """
        lacking = self.found.rows["offset"]
        end = self.reference.facts.log_end_offset
        for file, item in damage:
            if item.kind != "corrupt":
                continue
            start = file.base_offset if item.expected_offset is None else item.expected_offset
            if item.next_offset is None:
                shared = start < end and not (lacking < start).any()
            else:
                shared = item.next_offset < end and item.next_offset not in lacking
            if not shared:
                reason = f"{item.length} bytes there are not a batch"
                unread = Unread(file.path, reason, file.broker_id, item.position, start, item.next_offset)
                self.found.unread.append(unread)

    def _note_unread(self, request: RecordRequest, batch: np.void, reason: str) -> None:
        bounds = int(batch["base_offset"]), int(batch["last_offset"]) + 1
        counted = _record_count(batch)
        epoch = int(batch["leader_epoch"])
        place = request.path, reason, self.copy.broker_id, request.position
        self.found.unread.append(Unread(*place, *bounds, counted, epoch))


def _record_count(batch: np.void) -> int | None:
    """None if the header does not say."""
    return int(batch["record_count"]) if batch["record_count"] >= 0 else None


def _without_epoch(rows: NDArray[np.void]) -> NDArray[np.void]:
    """`rows` without epochs: records equal except for the epoch count as one, rewritten at the same offset."""
    rows = rows.copy()
    rows["leader_epoch"] = -1
    return rows


def _moved_back(rows: NDArray[np.void], places: NDArray[np.int64], files: Sequence[SegmentFile]) -> NDArray[np.void]:
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


def _windows(rows: NDArray[np.void], chosen: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """`chosen` indexes in order, in groups of batches of about `_WINDOW_BYTES`."""
    ends = np.cumsum(rows["size"][chosen])
    for number in range(int(ends[-1] // _WINDOW_BYTES) + 1 if len(chosen) else 0):
        group = chosen[ends // _WINDOW_BYTES == number]
        if len(group):
            yield group


def _nothing() -> tuple[NDArray[np.void], NDArray[np.int64], NDArray[np.int8]]:
    return np.empty(0, RECORD_DTYPE), np.empty(0, np.int64), np.empty(0, np.int8)
