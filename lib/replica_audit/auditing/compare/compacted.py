"""Comparison of two replicas of a compacted log: records that both hold must be equal, and so must each key's latest value.

Cleaners work independently, so batches, bytes and presence differ on healthy replicas (A.4). Records are read of batches
that differ in bytes, and of others only for keys still in doubt. Keys are compared by keyed hashes in bounded memory: a
shelf has all records of some keys, and shelves are compared one by one.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import numpy as np

from replica_audit.auditing.compare.alignment import Alignment, Difference, unmatched_batches
from replica_audit.auditing.compare.record_comparison import (
    RecordComparison,
    Window,
    offsets_only_in,
    unequal_offsets,
    unequal_ranges,
)
from replica_audit.auditing.replicas.offset_ranges import shared_start
from replica_audit.auditing.replicas.transaction_ends import Decisions
from replica_audit.batch_header import CONTROL, TRANSACTIONAL, Batch, or_none
from replica_audit.literals import DifferenceKind
from replica_audit.model import OffsetRange
from replica_audit.segments.batch_rows import Batches

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts


KEYED_DTYPE = np.dtype(
    [("offset", "i8"), ("key", "u8"), ("producer_id", "i8"), ("transactional", "?"), ("has_value", "?")]
)
#: Maximum number of offsets of doubtful keys named by a finding.
_SHOWN = 5


def keyed(records: NDArray[np.void]) -> NDArray[np.void]:
    """Data records with a key among `RECORD_DTYPE` rows, with the fields that a key's state needs (`KEYED_DTYPE`)."""
    chosen = records[records["has_key"] & ~records["control"]]
    rows = np.empty(len(chosen), KEYED_DTYPE)
    for name in KEYED_DTYPE.names or ():
        rows[name] = chosen[name]
    return rows


def _latest(rows: NDArray[np.void], decisions: Decisions) -> NDArray[np.void]:
    """Last visible row of each key, by key."""
    rows = rows[decisions.visible(rows)]
    rows = rows[np.lexsort((rows["offset"], rows["key"]))]
    return rows[np.append(rows["key"][1:] != rows["key"][:-1], True)] if len(rows) else rows


#: Offset (-1 for none) and liveness of the latest record of each key.
_Latest = tuple["NDArray[np.int64]", "NDArray[np.bool_]"]


class Doubts(NamedTuple):
    """Keys whose latest records in the differing batches differ."""

    keys: NDArray[np.uint64]
    """Hashes of the keys, sorted."""
    reference: _Latest
    follower: _Latest


def _spread(keys: NDArray[np.uint64], latest: NDArray[np.void]) -> _Latest:
    """The `latest` records of `keys`, which are sorted."""
    offsets = np.full(len(keys), -1, np.int64)
    alive = np.zeros(len(keys), bool)
    known = latest[np.isin(latest["key"], keys, assume_unique=True)]
    at = np.searchsorted(keys, known["key"])
    offsets[at] = known["offset"]
    alive[at] = known["has_value"]
    return offsets, alive


@dataclass(frozen=True, slots=True)
class KeyState:
    """Numbers of keys whose latest values differ, by kind of difference, and the offsets of their records."""

    alive_on_follower: int = 0
    """Keys deleted (or never written) on the reference that have a value on the follower."""
    alive_on_reference: int = 0
    other_value: int = 0
    """Keys whose values on the two sides come from different records."""
    start_offset: int | None = None
    end_offset: int | None = None
    """End of the range of these records on either side."""
    offsets: tuple[int, ...] = ()
    """The first few of these offsets."""
    lacked_by_follower: int = 0
    """Keys of these whose later record only the reference has; of the others only the follower has it."""
    undecided: int = 0
    """Further differing keys whose difference unread records or pending replication may explain."""
    kept: int = 0
    """Keys of `undecided` that are alive on the follower and have no record on the reference up to its end: a follower keeps them."""

    def __add__(self, other: KeyState) -> KeyState:
        """Add the state of a disjoint set of keys."""
        starts = [one.start_offset for one in (self, other) if one.start_offset is not None]
        ends = [one.end_offset for one in (self, other) if one.end_offset is not None]
        return KeyState(
            self.alive_on_follower + other.alive_on_follower,
            self.alive_on_reference + other.alive_on_reference,
            self.other_value + other.other_value,
            min(starts, default=None),
            max(ends, default=None),
            tuple(sorted({*self.offsets, *other.offsets})[:_SHOWN]),
            self.lacked_by_follower + other.lacked_by_follower,
            self.undecided + other.undecided,
            self.kept + other.kept,
        )

    @property
    def differing(self) -> int:
        return self.alive_on_follower + self.alive_on_reference + self.other_value


def _newer(one: _Latest, other: _Latest) -> _Latest:
    chosen = other[0] > one[0]
    return np.where(chosen, other[0], one[0]), np.where(chosen, other[1], one[1])


#: Number of leading bits of a hash that select its shelf, so that shelves in order have their keys in order.
_SHELF_BITS = 6
SHELVES = 1 << _SHELF_BITS
#: Number of bytes of rows that a store holds in memory before it writes them to its file.
HELD_BYTES = 16 << 20


class KeyStore:
    """Keyed records of one or both sides, in any order; in memory up to `HELD_BYTES`, beyond that in a file."""

    def __init__(self) -> None:
        self._held: list[NDArray[np.void]] = []
        self._held_bytes = 0
        self._file: BinaryIO | None = None
        self._places: list[list[tuple[int, int]]] = [[] for _ in range(SHELVES)]
        self.producers: set[int] = set()
        """Producers of transactional records."""

    @property
    def is_in_file(self) -> bool:
        return self._file is not None

    def add(self, rows: NDArray[np.void]) -> None:
        """Add rows of `KEYED_DTYPE`."""
        self.producers |= set(np.unique(rows["producer_id"][rows["transactional"]]).tolist())
        self._held.append(rows)
        self._held_bytes += rows.nbytes
        if self._held_bytes > HELD_BYTES:
            self._write()

    def shelf(self, number: int | None) -> NDArray[np.void]:
        """Return the records of one shelf, or for None all records of a store in memory."""
        held = np.concatenate([np.empty(0, KEYED_DTYPE), *self._held])
        if number is None:
            return held
        parts = [held[shelf_of(held["key"]) == number]]
        if self._file is not None:
            for place, size in self._places[number]:
                self._file.seek(place)
                parts.append(np.frombuffer(self._file.read(size), held.dtype))
        return np.concatenate(parts)

    def _write(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="replica-audit-keys-")  # noqa: SIM115 - as long as the store
        rows = np.concatenate(self._held)
        shelves = shelf_of(rows["key"])
        rows = rows[np.argsort(shelves, kind="stable")]
        ends = np.cumsum(np.bincount(shelves, minlength=SHELVES)) * rows.itemsize
        start = self._file.seek(0, 2)
        begin = 0
        self._file.write(rows.tobytes())
        for number, end in enumerate(ends.tolist()):
            if end > begin:
                self._places[number].append((start + begin, end - begin))
            begin = end
        self._held = []
        self._held_bytes = 0


def shelf_of(keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Number of each hash's shelf."""
    return (keys >> np.uint64(64 - _SHELF_BITS)).astype(np.int64)


def shelves_of(stores: Sequence[KeyStore]) -> Sequence[int | None]:
    """Arguments of `KeyStore.shelf` that together give all records of `stores`; a key is on the same shelf in each."""
    return range(SHELVES) if any(store.is_in_file for store in stores) else (None,)


#: Number of bytes of common batches read at a time.
_READ_BYTES = 4 << 20


@dataclass(slots=True)
class CompactedReplica:
    """One replica of the pair: its batches, and the keyed records read from it."""

    facts: ReplicaFacts
    batches: NDArray[np.void]
    """Rows of `BATCH_DTYPE`, since there may be many and few are needed as objects."""
    odd: list[Batch]
    """Batches that the other side lacks byte for byte."""
    store: KeyStore = field(default_factory=KeyStore)
    """Keyed records of `odd`."""
    only: int = 0
    """Number of records of `odd` at offsets that the other side lacks."""

    def add_records(self, rows: NDArray[np.void], others: NDArray[np.void]) -> None:
        """Add records (`RECORD_DTYPE`); `others` are the other side's records of the same window."""
        self.only += int(offsets_only_in(rows, others).sum())
        self.store.add(keyed(rows))

    def markers(self) -> NDArray[np.void]:
        """Batches that are transaction markers."""
        bits = CONTROL | TRANSACTIONAL
        return self.batches[self.batches["attributes"] & bits == bits]

    def data_from(self, offset: int) -> NDArray[np.void]:
        """Data batches that end above `offset`."""
        return self.batches[(self.batches["last_offset"] >= offset) & (self.batches["attributes"] & CONTROL == 0)]


@dataclass(slots=True)
class CompactedPair:
    """Reference and follower, compared over [floor, end)."""

    reference: CompactedReplica
    follower: CompactedReplica
    floor: int
    end: int
    is_conflict: bool
    """True if the epochs of the two logs conflict at `end`."""
    reading: RecordComparison
    unread: list[OffsetRange] = field(default_factory=list)
    """Offsets that were needed but unreadable."""

    @property
    def _sides(self) -> tuple[CompactedReplica, CompactedReplica]:
        return self.reference, self.follower

    @property
    def _stores(self) -> tuple[KeyStore, KeyStore]:
        return self.reference.store, self.follower.store

    def read_odd(self) -> list[Difference]:
        """Read the batches that differ, window by window, and return the differences at offsets that both hold."""
        reference, follower = self._sides
        found: list[Difference] = []
        for window in self.reading.windows(reference.facts, follower.facts, follower.odd, reference.odd):
            found += _differences(window, self.floor, self.end)
            self.unread += window.unread
            reference.add_records(self._inside(window.theirs), window.own)
            follower.add_records(self._inside(window.own), window.theirs)
        return found

    def compare_keys(self) -> KeyState:
        """Compare the latest record of each key, reading batches that both have only for keys still in doubt."""
        producers = self.reference.store.producers | self.follower.store.producers
        markers = self._read_markers(producers)
        first_decisions = Decisions.of(markers)
        keys, needed_from = self._keys_in_doubt(first_decisions)
        common = KeyStore()
        later = KeyStore()
        if len(keys):
            self._read_common(common, keys, needed_from)
            self._read_later(later, keys)
            markers = [*markers, *self._read_markers(common.producers - producers)]
        decisions = Decisions.of(markers)
        self.unread += [OffsetRange(problem.start_offset, problem.end_offset) for problem in self.reading.problems]
        limits = [_limits(side.facts, self.floor, self.end, self.unread) for side in self._sides]
        state = KeyState()
        for shelf in shelves_of((*self._stores, common, later)):
            doubts = self._doubts_on(shelf, first_decisions)
            shared = _spread(doubts.keys, _latest(self._inside(common.shelf(shelf)), decisions))
            goes_on = np.isin(doubts.keys, later.shelf(shelf)["key"])
            excused = goes_on | np.isin(doubts.keys, self._undecided_on(shelf, decisions))
            state += self._state_of(doubts, shared, limits, goes_on, excused)
        return state

    def _state_of(
        self,
        doubts: Doubts,
        shared: _Latest,
        limits: Sequence[tuple[int, int]],
        goes_on: NDArray[np.bool_],
        excused: NDArray[np.bool_],
    ) -> KeyState:
        """Compare the keys in doubt over [floor, end), given their latest records in batches that both have, and the `_limits` of both.

        `goes_on`: the longer side has a later record, which makes a key incomparable; `excused`: that, or a transaction does. If one
        side has no record of a key, a tombstone below its cleaner's end deleted the key; the other side's cleaner may lag. A follower loses
        what is past a conflict, and with it the later records for which its cleaner had removed others.
        """
        theirs, their_alive = _newer(doubts.reference, shared)
        own, own_alive = _newer(doubts.follower, shared)
        differ = (theirs != own) & (their_alive | own_alive)
        cleaned = np.zeros_like(excused)
        is_cut = (False, self.is_conflict)
        for gone, (blind_end, cleaned_end), loses_later in zip((theirs, own), limits, is_cut, strict=True):
            if blind_end > self.floor:
                excused |= gone < blind_end
            if cleaned_end > self.end and not loses_later:
                cleaned |= gone < 0
        kept = differ & cleaned & ~excused & own_alive & (theirs < 0)
        excused |= cleaned
        sure = differ & ~excused
        spots = np.sort(np.concatenate([side[sure & (side >= 0)] for side in (theirs, own)]))
        return KeyState(
            alive_on_follower=int((sure & own_alive & ~their_alive).sum()),
            alive_on_reference=int((sure & their_alive & ~own_alive).sum()),
            other_value=int((sure & their_alive & own_alive).sum()),
            start_offset=int(spots[0]) if len(spots) else None,
            end_offset=int(spots[-1]) + 1 if len(spots) else None,
            offsets=tuple(np.unique(spots)[:_SHOWN].tolist()),
            lacked_by_follower=int((sure & (own < theirs)).sum()),
            undecided=int((differ & excused & ~goes_on).sum()),
            kept=int(kept.sum()),
        )

    def _undecided_on(self, shelf: int | None, decisions: Decisions) -> NDArray[np.uint64]:
        """Hashes of keys with a record that only one side has, in a transaction that ends past that growing log. The other
        cleaner may have removed the whole transaction with its marker: the next marker there may end a later one."""
        reference, follower = (store.shelf(shelf) for store in self._stores)
        found = []
        for side, own, others in ((self.reference, reference, follower), (self.follower, follower, reference)):
            if not side.facts.is_at_rest:
                alone = own[~np.isin(own["offset"], others["offset"])]
                found.append(alone["key"][decisions.end_past(alone, side.facts.log_end_offset)])
        return np.concatenate([np.empty(0, np.uint64), *found])

    def _inside(self, rows: NDArray[np.void]) -> NDArray[np.void]:
        return rows[(rows["offset"] >= self.floor) & (rows["offset"] < self.end)]

    def _doubts_on(self, shelf: int | None, decisions: Decisions) -> Doubts:
        """Keys in doubt by the visible records of the differing batches."""
        latest = [_latest(store.shelf(shelf), decisions) for store in self._stores]
        keys = np.union1d(*(rows["key"] for rows in latest))
        (theirs, their_alive), (own, own_alive) = (_spread(keys, rows) for rows in latest)
        differ = theirs != own
        return Doubts(keys[differ], (theirs[differ], their_alive[differ]), (own[differ], own_alive[differ]))

    def _keys_in_doubt(self, decisions: Decisions) -> tuple[NDArray[np.uint64], int]:
        """Hashes of the keys whose latest records in the differing batches differ, and the offset from which other batches matter.

        Only the keys of each shelf are kept: anything more would be as large as the records.
        """
        found = []
        needed_from = []
        for shelf in shelves_of(self._stores):
            doubts = self._doubts_on(shelf, decisions)
            found.append(doubts.keys)
            if len(doubts.keys):
                # A batch on both sides that ends below does not hold the latest record of any such key.
                needed_from.append(int(min(doubts.reference[0].min(), doubts.follower[0].min())))
        return np.concatenate(found), max(self.floor, min(needed_from, default=self.floor))

    def _read_common(self, store: KeyStore, keys: NDArray[np.uint64], needed_from: int) -> None:
        """Add the records of `keys` in batches that both have, from `needed_from` to the end, to `store`."""
        batches = self.reference.data_from(needed_from)
        odd = np.isin(batches["base_offset"], [batch.base_offset for batch in self.reference.odd])
        shared = batches[~odd & (batches["base_offset"] < self.end)]
        _read_keyed(store, self.reference.facts, shared, keys, self.reading)

    def _read_later(self, store: KeyStore, keys: NDArray[np.uint64]) -> None:
        """Add the records of `keys` that the longer side has above the end to `store`; if the logs conflict there, the
        reference's, as the follower is cut to it."""
        reference, follower = self._sides
        is_longer = reference.facts.log_end_offset > follower.facts.log_end_offset
        longer = reference if self.is_conflict or is_longer else follower
        _read_keyed(store, longer.facts, longer.data_from(self.end), keys, self.reading)

    def _read_markers(self, producers: set[int]) -> list[NDArray[np.void]]:
        """Markers of `producers`: the reference's, and those that only the follower has below a conflict."""
        if not producers:
            return []
        theirs, own = (side.markers() for side in self._sides)
        others = ~(np.isin(own["base_offset"], theirs["base_offset"]) & np.isin(own["crc"], theirs["crc"]))
        if self.is_conflict:
            others &= own["last_offset"] < self.end
        wanted = list(producers)
        return [
            self.reading.rows(side.facts, Batches.in_order(batches[np.isin(batches["producer_id"], wanted)]))[0]
            for side, batches in zip(self._sides, (theirs, own[others]), strict=True)
        ]


def _differences(window: Window, floor: int, end: int) -> list[Difference]:
    """Differences at offsets that both hold with different records, by the follower's batches."""
    unequal = unequal_offsets(window.own, window.theirs)
    unequal = unequal[(unequal >= floor) & (unequal < end)]
    found = []
    for batch in window.own_batches:
        for first, last in unequal_ranges(window.own, window.theirs, unequal, batch):
            leader_epoch = or_none(int(window.theirs["leader_epoch"][np.searchsorted(window.theirs["offset"], first)]))
            kind: DifferenceKind = "content" if leader_epoch == batch.epoch else "epoch"
            one = Batches.of((batch,))
            found.append(Difference(kind, first, last, leader_epoch, batch.epoch, one, compared=True))
    return found


def _read_keyed(
    store: KeyStore, facts: ReplicaFacts, batches: NDArray[np.void], keys: NDArray[np.uint64], reading: RecordComparison
) -> None:
    """Add the records of `keys` in `batches` to `store`, reading some of these at a time."""
    parts = np.cumsum(batches["size"].astype(np.int64)) // _READ_BYTES
    starts = np.flatnonzero(np.diff(parts, prepend=-1))
    for start, stop in zip(starts, [*starts[1:], len(batches)]):
        store.add(keyed(reading.rows(facts, Batches.in_order(batches[start:stop]), keys)[0]))


def _limits(facts: ReplicaFacts, floor: int, end: int, unread: Sequence[OffsetRange]) -> tuple[int, int]:
    """(blind end, cleaner's end) of a replica: below the first, something may be unreadable; below the second, its cleaner may
    have removed records."""
    # What could not be read above the end may hold a later record of any key.
    needed = [part if part.start_offset < end else OffsetRange(floor, end) for part in unread]
    blind = [min(part.end_offset, end) for part in (*facts.unreadable, *needed) if part.overlaps(floor, end)]
    if facts.directory.index_bases or facts.directory.segment_count > len(facts.segments):
        blind.append(end)
    checkpoint = facts.directory.cleaner_checkpoint
    cleaned = facts.log_end_offset
    if facts.was_stopped_before_copy and checkpoint is not None:
        cleaned = min(cleaned, checkpoint)
    return max(blind, default=floor), cleaned


class Compaction(NamedTuple):
    """Outcome of comparing the records of a compacted pair."""

    end_offset: int
    """End of the comparison: the shorter log's end, or the first conflict of epochs."""
    only_reference: int
    only_follower: int
    """Number of records below the end on this side only, including aborted ones and markers."""
    complete: bool
    """True if all needed records could be read."""
    keys: KeyState


def compare_compacted(
    reference: ReplicaFacts,
    follower: ReplicaFacts,
    alignment: Alignment,
    own: NDArray[np.void],
    theirs: NDArray[np.void],
    reading: RecordComparison,
) -> tuple[Alignment, Compaction | None]:
    """Complete `alignment` with the differences that records show, and compare the keys; None instead of a comparison if no
    batch differs.

    `own` and `theirs` are the follower's and the reference's batches (`BATCH_DTYPE`): of the reference all from the greater log
    start on, of the follower those in chunks whose digests differ and all above the reference's end.
    """
    floor = shared_start(reference, follower)
    conflicts = [item.start_offset for item in alignment.differences if item.kind == "epoch"]
    end = min([reference.log_end_offset, follower.log_end_offset, *conflicts])
    unmatched, foreign = unmatched_batches(alignment.own, alignment.reference, floor, compacted=False)
    own_odd = [batch for batch in unmatched if batch.base_offset < end]
    their_odd = [batch for batch in foreign if batch.base_offset < end]
    if not own_odd and not their_odd:
        return alignment, None
    pair = CompactedPair(
        CompactedReplica(reference, theirs, their_odd),
        CompactedReplica(follower, own, own_odd),
        floor,
        end,
        bool(conflicts),
        reading,
    )
    differences = pair.read_odd()
    state = pair.compare_keys()
    outcome = Compaction(end, pair.reference.only, pair.follower.only, not pair.unread, state)
    return _with_records(alignment, own_odd, differences, pair.unread), outcome


def _with_records(
    alignment: Alignment, own_odd: Sequence[Batch], found: Sequence[Difference], unread: Sequence[OffsetRange]
) -> Alignment:
    """Replace header-based differences of `alignment` on the batches that were read by those of their records."""
    read_batches = {
        batch for batch in own_odd if not any(part.overlaps(batch.base_offset, batch.end_offset) for part in unread)
    }
    told = {batch for item in found for batch in item.batches}
    differences = list(found)
    for item in alignment.differences:
        decided = item.kind == "content" and item.batches[0] in read_batches
        if decided and item.batches[0] not in told:
            differences.append(item._replace(kind="batching", compared=True))
        elif not decided:
            differences.append(item)
    return alignment.with_differences(differences)
