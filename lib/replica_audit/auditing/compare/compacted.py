"""Two replicas of a compacted log: what both hold must be equal, and each key must have the same latest value.

Each replica's cleaner works on its own, so batches, bytes and presence differ on healthy ones (A.4). Only records of
batches that are not the same bytes on both sides are read, and of the others those of keys that are still in doubt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from replica_audit.auditing.compare.alignment import Alignment, Difference, unmatched_batches
from replica_audit.auditing.compare.key_state import (
    Doubts,
    KeyRows,
    KeyState,
    KeyStore,
    compare_keys,
    latest_differs,
    shelves_of,
)
from replica_audit.auditing.compare.record_comparison import (
    RecordComparison,
    Window,
    offsets_only_in,
    unequal_offsets,
    unequal_ranges,
)
from replica_audit.auditing.replicas.offset_ranges import shared_start
from replica_audit.auditing.replicas.transaction_ends import Decisions
from replica_audit.batch_header import CONTROL, TRANSACTIONAL, Batch
from replica_audit.literals import DifferenceKind
from replica_audit.segments.batch_rows import Batches
from replica_audit.segments.record_batch import batches_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts


#: Bytes of common batches read at a time.
_READ_BYTES = 4 << 20


@dataclass(slots=True)
class CompactedReplica:
    """One replica of the pair: its batches, and the keyed records read of it."""

    facts: ReplicaFacts
    batches: NDArray[np.void]
    """Rows of `BATCH_DTYPE`: there may be many, and few are looked at one by one."""
    odd: list[Batch]
    """Batches that the other side does not have byte for byte."""
    store: KeyStore = field(default_factory=KeyStore)
    """The keyed records of `odd`."""
    only: int = 0
    """Records of `odd` whose offsets the other side does not hold."""

    def add_records(self, rows: NDArray[np.void], others: NDArray[np.void]) -> None:
        """Take records (`RECORD_DTYPE`), beside the other side's of the same window."""
        self.only += int(offsets_only_in(rows, others).sum())
        self.store.add(KeyRows.slim(rows))

    def markers(self) -> NDArray[np.void]:
        """Its batches that are markers."""
        bits = CONTROL | TRANSACTIONAL
        return self.batches[self.batches["attributes"] & bits == bits]

    def shared_data(self) -> NDArray[np.bool_]:
        """Mask of its batches that hold data and are the same bytes on the other side."""
        odd = np.isin(self.batches["base_offset"], [batch.base_offset for batch in self.odd])
        return ~odd & self._holds_data()

    def data_above(self, end: int) -> NDArray[np.void]:
        """Its batches of data that reach to `end` or beyond."""
        return self.batches[(self.batches["last_offset"] >= end) & self._holds_data()]

    def _holds_data(self) -> NDArray[np.bool_]:
        return self.batches["attributes"] & CONTROL == 0


@dataclass(slots=True)
class CompactedPair:
    """Reference and follower, compared over [floor, end)."""

    reference: CompactedReplica
    follower: CompactedReplica
    floor: int
    end: int
    is_conflict: bool
    """The epochs of the two logs conflict at `end`."""
    reading: RecordComparison
    unread: list[tuple[int, int]] = field(default_factory=list)
    """(first, end) offsets of what was wanted and could not be read."""

    @property
    def _sides(self) -> tuple[CompactedReplica, CompactedReplica]:
        return self.reference, self.follower

    @property
    def _stores(self) -> tuple[KeyStore, KeyStore]:
        return self.reference.store, self.follower.store

    def read_odd(self) -> list[Difference]:
        """Read the batches that are unlike, window by window: the differences in what both hold."""
        reference, follower = self._sides
        found: list[Difference] = []
        for window in self.reading.windows(reference.facts, follower.facts, follower.odd, reference.odd):
            found += _differences(window, self.floor, self.end)
            self.unread += window.unread
            reference.add_records(self._inside(window.theirs), window.own)
            follower.add_records(self._inside(window.own), window.theirs)
        return found

    def compare_keys(self) -> KeyState:
        """The keys whose latest records differ, after reading what the two have in common of those in doubt."""
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
        self.unread += [(problem.start_offset, problem.end_offset) for problem in self.reading.problems]
        reference_limits, follower_limits = (
            _limits(side.facts, self.floor, self.end, self.unread) for side in self._sides
        )
        state = KeyState()
        for shelf in shelves_of((*self._stores, common, later)):
            state += compare_keys(
                self._doubts_on(shelf, first_decisions),
                common.shelf(shelf),
                later.shelf(shelf),
                decisions,
                self.floor,
                self.end,
                reference_limits=reference_limits,
                follower_limits=follower_limits,
            )
        return state

    def _inside(self, rows: NDArray[np.void]) -> NDArray[np.void]:
        return rows[(rows["offset"] >= self.floor) & (rows["offset"] < self.end)]

    def _doubts_on(self, shelf: int | None, decisions: Decisions) -> Doubts:
        reference, follower = (store.shelf(shelf) for store in self._stores)
        return latest_differs(reference, follower, decisions)

    def _keys_in_doubt(self, decisions: Decisions) -> tuple[NDArray[np.uint64], int]:
        """Hashes of the keys whose latest record differs in the unlike batches, and from which offset on others matter.

        Of what is found shelf by shelf only the keys are kept: the rest would be as much as the records.
        """
        found = []
        needed_from = []
        for shelf in shelves_of(self._stores):
            doubts = self._doubts_on(shelf, decisions)
            found.append(doubts.keys)
            needed_from += [doubts.needed_from] if len(doubts.keys) else []
        return np.concatenate(found), max(self.floor, min(needed_from, default=self.floor))

    def _read_common(self, store: KeyStore, keys: NDArray[np.uint64], needed_from: int) -> None:
        """Put the records of `keys` in batches that both have, from `needed_from` to the end, into `store`."""
        batches = self.reference.batches
        wanted = (batches["last_offset"] + 1 > needed_from) & (batches["base_offset"] < self.end)
        _read_keyed(store, self.reference.facts, batches[wanted & self.reference.shared_data()], keys, self.reading)

    def _read_later(self, store: KeyStore, keys: NDArray[np.uint64]) -> None:
        """Put the records of `keys` that the longer side has above the end into `store`; none if logs conflict there."""
        if not self.is_conflict:
            reference, follower = self._sides
            longer = reference if reference.facts.log_end_offset > follower.facts.log_end_offset else follower
            _read_keyed(store, longer.facts, longer.data_above(self.end), keys, self.reading)

    def _read_markers(self, producers: set[int]) -> list[NDArray[np.void]]:
        """The markers of `producers` on either side: the reference's, and the follower's own others below a conflict."""
        if not producers:
            return []
        theirs, own = (side.markers() for side in self._sides)
        others = ~(np.isin(own["base_offset"], theirs["base_offset"]) & np.isin(own["crc"], theirs["crc"]))
        if self.is_conflict:
            others &= own["last_offset"] < self.end
        wanted = list(producers)
        return [
            self.reading.rows(side.facts, batches_of(batches[np.isin(batches["producer_id"], wanted)]))[0]
            for side, batches in zip(self._sides, (theirs, own[others]), strict=True)
        ]


def _differences(window: Window, floor: int, end: int) -> list[Difference]:
    """Offsets that both hold with different records, by the follower's batches."""
    unequal = unequal_offsets(window.own, window.theirs)
    unequal = unequal[(unequal >= floor) & (unequal < end)]
    found = []
    for batch in window.own_batches:
        for first, last in unequal_ranges(window.own, window.theirs, unequal, batch):
            epoch = int(window.theirs["leader_epoch"][np.searchsorted(window.theirs["offset"], first)])
            leader_epoch = None if epoch < 0 else epoch
            kind: DifferenceKind = "content" if leader_epoch == batch.epoch else "epoch"
            one = Batches.of((batch,))
            found.append(Difference(kind, first, last, leader_epoch, batch.epoch, one, compared=True))
    return found


def _read_keyed(
    store: KeyStore, facts: ReplicaFacts, batches: NDArray[np.void], keys: NDArray[np.uint64], reading: RecordComparison
) -> None:
    """Put the records of `keys` in `batches` into `store`, reading some of these at a time."""
    parts = np.cumsum(batches["size"].astype(np.int64)) // _READ_BYTES
    starts = np.flatnonzero(np.diff(parts, prepend=-1))
    for start, stop in zip(starts, [*starts[1:], len(batches)]):
        store.add(KeyRows.slim(reading.rows(facts, batches_of(batches[start:stop]), keys)[0]))


def _limits(facts: ReplicaFacts, floor: int, end: int, unread: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """(offset below which something of this replica could not be read, offset below which its cleaner may have been).

    Above the first all is known of it; a record that is gone from it was at an offset below the second.
    """
    unread = [(low, min(high, end)) if low < end else (floor, end) for low, high in unread]
    blind = [
        min(stretch.end_offset, end)
        for stretch in facts.unreadable
        if stretch.start_offset < end and stretch.end_offset > floor
    ]
    blind += [min(high, end) for low, high in unread if low < end and high > floor]
    if facts.directory.index_bases or facts.directory.segment_count > len(facts.segments):
        blind.append(end)
    checkpoint = facts.directory.cleaner_checkpoint
    cleaned = facts.log_end_offset
    if facts.directory.clean_shutdown and checkpoint is not None:
        cleaned = min(cleaned, checkpoint)
    return max(blind, default=floor), cleaned


@dataclass(frozen=True, slots=True)
class Compaction:
    """Outcome of comparing the records of a compacted pair."""

    end_offset: int
    """Compared up to here: the shorter log's end, or the first conflict of epochs."""
    only_reference: int
    only_follower: int
    """Records below the end that only one side has, aborted ones and markers included."""
    complete: bool
    """All records that were wanted could be read."""
    keys: KeyState


def compare_compacted(
    reference: ReplicaFacts,
    follower: ReplicaFacts,
    alignment: Alignment,
    own: NDArray[np.void],
    theirs: NDArray[np.void],
    reading: RecordComparison,
) -> tuple[Alignment, Compaction | None]:
    """`alignment` with the differences that records show, and what they say of keys; None if no batch differs.

    `own` and `theirs` are the follower's and the reference's batches (`BATCH_DTYPE`): of the reference all from the
    greater log start on, of the follower those in chunks whose digests differ, and all above the reference's end.
    """
    floor = shared_start(reference, follower)
    conflicts = [item.start_offset for item in alignment.differences if item.kind == "epoch"]
    end = min([reference.log_end_offset, follower.log_end_offset, *conflicts])
    unmatched = unmatched_batches(alignment.own, alignment.reference, floor, compacted=False)
    own_odd, their_odd = ([batch for batch in side if batch.base_offset < end] for side in unmatched)
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
    alignment: Alignment, own_odd: Sequence[Batch], found: Sequence[Difference], unread: Sequence[tuple[int, int]]
) -> Alignment:
    """`alignment` with header-level guesses on the batches that were read replaced by what their records show."""
    read_batches = {
        batch
        for batch in own_odd
        if not any(low < batch.end_offset and batch.base_offset < high for low, high in unread)
    }
    told = {batch for item in found for batch in item.batches}
    differences = list(found)
    for item in alignment.differences:
        decided = item.kind == "content" and item.batches[0] in read_batches
        if decided and item.batches[0] not in told:
            differences.append(replace(item, kind="batching", compared=True))
        elif not decided:
            differences.append(item)
    differences.sort(key=lambda item: (item.start_offset, item.end_offset))
    return replace(alignment, differences=tuple(differences))
