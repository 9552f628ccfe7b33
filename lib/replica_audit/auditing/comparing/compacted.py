"""Two replicas of a compacted log: what both hold must be equal, and each key must have the same latest value.

Each replica's cleaner works on its own, so batches, bytes and presence differ on healthy ones (A.4). Only records of
batches that are not the same bytes on both sides are read, and of the others those of keys that are still in doubt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from replica_audit.auditing.comparing.alignment import Alignment, Difference, unmatched_batches
from replica_audit.auditing.comparing.contents import Reading, Window, offsets_only_in, unequal_offsets
from replica_audit.auditing.comparing.key_state import Doubts, KeyRows, KeyState, compare_keys, latest_differs
from replica_audit.auditing.comparing.key_store import KeyStore, shelves_of
from replica_audit.auditing.replicas.shared_range import shared_start
from replica_audit.auditing.replicas.transaction_ends import Decisions
from replica_audit.batch_header import CONTROL, TRANSACTIONAL, Batch
from replica_audit.formats.segments.batches import batches_of

if TYPE_CHECKING:
    from replica_audit.auditing.replicas.facts import ReplicaFacts

#: Of batches that both have so many bytes are read at a time.
_READ_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Compaction:
    """What the records of a compacted pair showed."""

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
    own: np.ndarray,
    theirs: np.ndarray,
    reading: Reading,
) -> tuple[Alignment, Compaction | None]:
    """`alignment` with the differences that records show, and what they say of keys; None where no batch differs.

    `own` and `theirs` are the follower's and the reference's batches (`BATCH_DTYPE`): of the reference all from the
    greater log start on, of the follower those in chunks whose digests differ, and all above the reference's end. They
    stay arrays: they may be many, and few of them are looked at.
    """
    floor = shared_start(reference, follower)
    conflicts = [item.start_offset for item in alignment.differences if item.kind == "epoch"]
    end = min([reference.log_end_offset, follower.log_end_offset, *conflicts])
    unmatched = unmatched_batches(alignment.own, alignment.reference, floor, compacted=False)
    own_odd, their_odd = ([batch for batch in side if batch.base_offset < end] for side in unmatched)
    if not own_odd and not their_odd:
        return alignment, None
    found: list[Difference] = []
    unread: list[tuple[int, int]] = []
    stores = their_store, own_store = KeyStore(), KeyStore()
    only = [0, 0]
    for window in reading.windows(reference, follower, own_odd, their_odd):
        found += _differences(window, floor, end)
        unread += window.unread
        for side, (one, other) in enumerate(((window.theirs, window.own), (window.own, window.theirs))):
            inside = one[(one["offset"] >= floor) & (one["offset"] < end)]
            only[side] += int(offsets_only_in(inside, other).sum())
            stores[side].add(KeyRows.slim(inside))
    producers = their_store.producers | own_store.producers
    sides = _marker_batches(reference, follower, theirs, own, end if conflicts else None)
    markers = _markers(sides, producers, reading)
    first_decisions = decisions = Decisions.of(markers)

    def doubts_on(shelf: int | None) -> Doubts:
        return latest_differs(their_store.shelf(shelf), own_store.shelf(shelf), first_decisions)

    # Of what is found shelf by shelf only the keys are kept: the rest would be as much as the records.
    doubtful_keys, needed_from = [], []
    for shelf in shelves_of(stores):
        doubted = doubts_on(shelf)
        doubtful_keys.append(doubted.keys)
        needed_from += [doubted.needed_from] if len(doubted.keys) else []
    keys = np.concatenate(doubtful_keys)
    common, later = KeyStore(), KeyStore()
    if len(keys):
        data, ends = theirs["attributes"] & CONTROL == 0, theirs["last_offset"] + 1
        odd = np.isin(theirs["base_offset"], [batch.base_offset for batch in their_odd])
        same = theirs[data & ~odd & (ends > max(floor, min(needed_from))) & (theirs["base_offset"] < end)]
        _read_keyed(common, reference, same, keys, reading)
        decisions = Decisions.of([*markers, *_markers(sides, common.producers - producers, reading)])
        if not conflicts:
            longer, above = (
                (reference, theirs) if reference.log_end_offset > follower.log_end_offset else (follower, own)
            )
            above = above[(above["last_offset"] >= end) & (above["attributes"] & CONTROL == 0)]
            _read_keyed(later, longer, above, keys, reading)
    unread += [(problem.start_offset, problem.end_offset) for problem in reading.problems]
    state = KeyState()
    for shelf in shelves_of((*stores, common, later)):
        state += compare_keys(
            doubts_on(shelf), common.shelf(shelf), later.shelf(shelf), decisions, floor, end,
            reference_limits=_limits(reference, floor, end, unread),
            follower_limits=_limits(follower, floor, end, unread),
        )  # fmt: skip
    outcome = Compaction(end, only[0], only[1], not unread and not reading.problems, state)
    return _with_records(alignment, own_odd, found, unread), outcome


def _differences(window: Window, floor: int, end: int) -> list[Difference]:
    """Offsets that both hold with different records: from the first in each of the follower's batches to its end."""
    unequal = unequal_offsets(window.own, window.theirs)
    unequal = unequal[(unequal >= floor) & (unequal < end)]
    found = []
    for batch in window.own_batches:
        at = int(np.searchsorted(unequal, batch.base_offset))
        if at == len(unequal) or unequal[at] > batch.last_offset:
            continue
        offset = int(unequal[at])
        epoch = int(window.theirs["leader_epoch"][np.searchsorted(window.theirs["offset"], offset)])
        leader_epoch = None if epoch < 0 else epoch
        kind = "content" if leader_epoch == batch.epoch else "epoch"
        found.append(Difference(kind, offset, batch.end_offset, leader_epoch, batch.epoch, (batch,), compared=True))
    return found


def _read_keyed(store: KeyStore, facts: ReplicaFacts, batches: np.ndarray, keys: np.ndarray, reading: Reading) -> None:
    """Put the records of `keys` in `batches` into `store`, reading some of these at a time."""
    parts = np.cumsum(batches["size"].astype(np.int64)) // _READ_BYTES
    starts = np.flatnonzero(np.diff(parts, prepend=-1))
    for start, stop in zip(starts, [*starts[1:], len(batches)]):
        store.add(KeyRows.slim(reading.rows(facts, batches_of(batches[start:stop]), keys)[0]))


def _marker_batches(
    reference: ReplicaFacts, follower: ReplicaFacts, theirs: np.ndarray, own: np.ndarray, conflict: int | None
) -> list[tuple[ReplicaFacts, np.ndarray]]:
    """Markers of either side: the reference's, and the follower's own others below `conflict`."""
    bits = CONTROL | TRANSACTIONAL
    theirs, own = (side[side["attributes"] & bits == bits] for side in (theirs, own))
    others = ~(np.isin(own["base_offset"], theirs["base_offset"]) & np.isin(own["crc"], theirs["crc"]))
    if conflict is not None:
        others &= own["last_offset"] < conflict
    return [(reference, theirs), (follower, own[others])]


def _markers(
    sides: Sequence[tuple[ReplicaFacts, np.ndarray]], producers: set[int], reading: Reading
) -> list[np.ndarray]:
    """The markers of `producers`, decoded."""
    if not producers:
        return []
    wanted = list(producers)
    return [
        reading.rows(facts, batches_of(batches[np.isin(batches["producer_id"], wanted)]))[0] for facts, batches in sides
    ]


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
