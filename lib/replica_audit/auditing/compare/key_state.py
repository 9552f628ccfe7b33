"""Latest values of keys on two replicas of a compacted log (A.4), from keyed hashes of the keys, in bounded memory.

A shelf has all records of some keys, so that keys are compared one shelf after another.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replica_audit.auditing.replicas.transaction_ends import Decisions


_SLIM_FIELDS = {"offset": "i8", "key": "u8", "producer_id": "i8", "transactional": "?", "has_value": "?"}
_SLIM_DTYPE = np.dtype(list(_SLIM_FIELDS.items()))
#: Offsets of keys in question that a finding names.
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class KeyRows:
    """Data records with keys, in no order: what the state of a key needs of them."""

    rows: NDArray[np.void]

    @classmethod
    def slim(cls, records: NDArray[np.void]) -> KeyRows:
        """Rows of keyed data records from `RECORD_DTYPE` rows; control records and records without a key play no part."""
        chosen = records[records["has_key"] & ~records["control"]]
        rows = np.empty(len(chosen), _SLIM_DTYPE)
        for name in _SLIM_FIELDS:
            rows[name] = chosen[name]
        return cls(rows)

    @classmethod
    def concatenate(cls, parts: Iterable[KeyRows]) -> KeyRows:
        return cls(np.concatenate([np.empty(0, _SLIM_DTYPE), *(part.rows for part in parts)]))

    def producers(self) -> set[int]:
        """Producer ids of transactional records."""
        return set(np.unique(self.rows["producer_id"][self.rows["transactional"]]).tolist())

    def latest(self, decisions: Decisions) -> NDArray[np.void]:
        """The last visible row of each key, by key."""
        rows = self.rows[decisions.visible(self.rows)]
        rows = rows[np.lexsort((rows["offset"], rows["key"]))]
        if not len(rows):
            return rows
        return rows[np.append(rows["key"][1:] != rows["key"][:-1], True)]


@dataclass(frozen=True, slots=True)
class Doubts:
    """Keys whose latest record differs as far as the unlike batches go: offsets per side, -1 for none."""

    keys: NDArray[np.uint64]
    """Hashes, sorted."""
    reference: NDArray[np.int64]
    reference_alive: NDArray[np.bool_]
    follower: NDArray[np.int64]
    follower_alive: NDArray[np.bool_]

    @property
    def needed_from(self) -> int:
        """Batches that both have and that end at or below this offset cannot hold the latest record of any such key."""
        return int(min(self.reference.min(), self.follower.min())) if len(self.keys) else 0


def latest_differs(reference: KeyRows, follower: KeyRows, decisions: Decisions) -> Doubts:
    """The keys in doubt, given the visible records of the batches that are unlike."""
    theirs = reference.latest(decisions)
    own = follower.latest(decisions)
    keys = np.union1d(theirs["key"], own["key"])
    columns = [values for rows in (theirs, own) for values in _spread(keys, rows)]
    differ = columns[0] != columns[2]
    return Doubts(keys[differ], *(values[differ] for values in columns))


def _spread(keys: NDArray[np.uint64], latest: NDArray[np.void]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Offset (-1: none) and liveness of the latest record of each of `keys`, sorted."""
    offsets = np.full(len(keys), -1, np.int64)
    alive = np.zeros(len(keys), bool)
    known = latest[np.isin(latest["key"], keys, assume_unique=True)]
    at = np.searchsorted(keys, known["key"])
    offsets[at] = known["offset"]
    alive[at] = known["has_value"]
    return offsets, alive


@dataclass(frozen=True, slots=True)
class KeyState:
    """Keys whose latest values differ, counted by what they are, and where their records lie."""

    alive_on_follower: int = 0
    """Deleted on the reference (or never there), with a value on the follower."""
    alive_on_reference: int = 0
    other_value: int = 0
    """With a value on both, of other records."""
    start_offset: int | None = None
    end_offset: int | None = None
    """Bounds of the records in question on either side."""
    offsets: tuple[int, ...] = ()
    """The first few of them."""
    undecided: int = 0
    """Keys that differ, too, where what was not read or is still to be replicated may be why."""

    def __add__(self, other: KeyState) -> KeyState:
        """Sum over disjoint sets of keys."""
        starts = [one.start_offset for one in (self, other) if one.start_offset is not None]
        ends = [one.end_offset for one in (self, other) if one.end_offset is not None]
        return KeyState(
            self.alive_on_follower + other.alive_on_follower,
            self.alive_on_reference + other.alive_on_reference,
            self.other_value + other.other_value,
            min(starts, default=None),
            max(ends, default=None),
            tuple(sorted({*self.offsets, *other.offsets})[:_SHOWN]),
            self.undecided + other.undecided,
        )

    @property
    def differing(self) -> int:
        return self.alive_on_follower + self.alive_on_reference + self.other_value


def compare_keys(
    doubts: Doubts,
    common: KeyRows,
    later: KeyRows,
    decisions: Decisions,
    floor: int,
    end: int,
    *,
    reference_limits: tuple[int, int],
    follower_limits: tuple[int, int],
) -> KeyState:
    """The state of the keys in doubt over [floor, end).

    `common`: their records in batches that both have; `later`: those above `end` on the longer side, after which a key
    cannot be compared. The limits of a side are its blind end and its cleaner's end: a key of which one side has no
    record at all was deleted by a tombstone below that side's cleaner's end, which the other need not have reached.
    """
    keys = doubts.keys
    inside = KeyRows(common.rows[(common.rows["offset"] >= floor) & (common.rows["offset"] < end)])
    offsets, alive = _spread(keys, inside.latest(decisions))
    theirs, their_alive = _newer((doubts.reference, doubts.reference_alive), (offsets, alive))
    own, own_alive = _newer((doubts.follower, doubts.follower_alive), (offsets, alive))
    differ = (theirs != own) & (their_alive | own_alive)
    excused = np.isin(keys, later.rows["key"])
    for gone, (blind_end, cleaned_end) in ((theirs, reference_limits), (own, follower_limits)):
        if blind_end > floor:
            excused |= gone < blind_end
        if cleaned_end > end:
            excused |= gone < 0
    sure = differ & ~excused
    spots = np.sort(np.concatenate([side[sure & (side >= 0)] for side in (theirs, own)]))
    return KeyState(
        alive_on_follower=int((sure & own_alive & ~their_alive).sum()),
        alive_on_reference=int((sure & their_alive & ~own_alive).sum()),
        other_value=int((sure & their_alive & own_alive).sum()),
        start_offset=int(spots[0]) if len(spots) else None,
        end_offset=int(spots[-1]) + 1 if len(spots) else None,
        offsets=tuple(np.unique(spots)[:_SHOWN].tolist()),
        undecided=int((differ & excused & ~np.isin(keys, later.rows["key"])).sum()),
    )


#: Offset (-1: none) and liveness of the latest record of each key.
_Latest = tuple["NDArray[np.int64]", "NDArray[np.bool_]"]


def _newer(one: _Latest, other: _Latest) -> _Latest:
    chosen = other[0] > one[0]
    return np.where(chosen, other[0], one[0]), np.where(chosen, other[1], one[1])


#: The first bits of a hash say which shelf it belongs to; keys of shelves in their order are in order.
_SHELF_BITS = 6
SHELVES = 1 << _SHELF_BITS
#: Rows that a store holds before it writes them to its file.
HELD_BYTES = 16 << 20


class KeyStore:
    """Keyed records of one side, or of both, in any order; in memory, beyond `HELD_BYTES` in a file."""

    def __init__(self) -> None:
        self._held: list[NDArray[np.void]] = []
        self._held_bytes = 0
        self._file: BinaryIO | None = None
        self._places: list[list[tuple[int, int]]] = [[] for _ in range(SHELVES)]
        self.producers: set[int] = set()
        """Those whose transactions records are of."""

    @property
    def is_in_file(self) -> bool:
        """True if the store has outgrown memory."""
        return self._file is not None

    def add(self, rows: KeyRows) -> None:
        self.producers |= rows.producers()
        self._held.append(rows.rows)
        self._held_bytes += rows.rows.nbytes
        if self._held_bytes > HELD_BYTES:
            self._write()

    def shelf(self, number: int | None) -> KeyRows:
        """The records of one shelf; all for None, of a store that is in memory."""
        held = KeyRows.concatenate(map(KeyRows, self._held)).rows
        if number is None:
            return KeyRows(held)
        parts = [held[shelf_of(held["key"]) == number]]
        if self._file is not None:
            for place, size in self._places[number]:
                self._file.seek(place)
                parts.append(np.frombuffer(self._file.read(size), held.dtype))
        return KeyRows(np.concatenate(parts))

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
    """The number of each hash's shelf."""
    return (keys >> np.uint64(64 - _SHELF_BITS)).astype(np.int64)


def shelves_of(stores: Sequence[KeyStore]) -> Sequence[int | None]:
    """Arguments for `KeyStore.shelf` that together give all records of `stores`; a key is on the same shelf of each."""
    return range(SHELVES) if any(store.is_in_file for store in stores) else (None,)
