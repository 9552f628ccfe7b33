"""The batches of a log as a sequence backed by an array; a row becomes a `Batch` only on access."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import NDArray

from replica_audit.batch_header import CONTROL, DELETE_HORIZON, Batch
from replica_audit.cached_property import cached_property
from replica_audit.segments.record_batch import BATCH_DTYPE

_NO_ROWS = np.empty(0, BATCH_DTYPE)

#: Batches converted at a time; few at first, because searches often end early.
_FIRST, _MOST = 16, 4096


@dataclass(frozen=True, slots=True)
class Tally:
    """Numbers of records and bytes of batches, and the span of their timestamps (None without any)."""

    record_count: int = 0
    size_bytes: int = 0
    first_timestamp_ms: int | None = None
    last_timestamp_ms: int | None = None

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.record_count + other.record_count,
            self.size_bytes + other.size_bytes,
            _least(self.first_timestamp_ms, other.first_timestamp_ms),
            _greatest(self.last_timestamp_ms, other.last_timestamp_ms),
        )


def _least(one: int | None, other: int | None) -> int | None:
    return min((value for value in (one, other) if value is not None), default=None)


def _greatest(one: int | None, other: int | None) -> int | None:
    return max((value for value in (one, other) if value is not None), default=None)


class Batches(Sequence[Batch]):
    """Batches of one log, usually by base offset; `rows` (`BATCH_DTYPE`) must not be changed."""

    def __init__(self, rows: NDArray[np.void] = _NO_ROWS) -> None:
        self.rows = rows

    @classmethod
    def of(cls, batches: Iterable[Batch]) -> Batches:
        """Sequence of `batches`, in their order."""
        return batches if isinstance(batches, Batches) else cls(np.array(list(batches), BATCH_DTYPE))

    @classmethod
    def in_order(cls, rows: NDArray[np.void]) -> Batches:
        """`rows` sorted by base offset (stable)."""
        bases = rows["base_offset"]
        return cls(rows if (bases[1:] >= bases[:-1]).all() else rows[bases.argsort(kind="stable")])

    @classmethod
    def joined(cls, parts: Sequence[Batches]) -> Batches:
        """All `parts`, one after another."""
        if len(parts) == 1:
            return parts[0]
        return cls(np.concatenate([part.rows for part in parts])) if parts else cls()

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, at: int) -> Batch: ...

    @overload
    def __getitem__(self, at: slice[int | None, int | None, int | None]) -> Batches: ...

    def __getitem__(self, at: int | slice[int | None, int | None, int | None]) -> Batch | Batches:
        return Batches(self.rows[at]) if isinstance(at, slice) else Batch._make(self.rows[at].item())

    def __iter__(self) -> Iterator[Batch]:
        start, size = 0, _FIRST
        while start < len(self.rows):
            yield from map(Batch._make, self.rows[start : start + size].tolist())
            start, size = start + size, _MOST

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Batches):
            return NotImplemented
        if self is other:
            return True
        # For few rows numpy takes thirty times as long to compare their fields.
        steps = (slice(start, start + _MOST) for start in range(0, len(self), _MOST))
        return len(self) == len(other) and all(self.rows[one].tobytes() == other.rows[one].tobytes() for one in steps)

    def __repr__(self) -> str:
        return f"Batches({list(self)!r})"

    def where(self, mask: NDArray[np.bool_]) -> Batches:
        return self if mask.all() else Batches(self.rows[mask])

    def first(self, mask: NDArray[np.bool_]) -> Batch | None:
        """The first batch at which `mask` is True; None if there is none."""
        return self[int(mask.argmax())] if mask.any() else None

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """Base offsets."""
        return np.ascontiguousarray(self.rows["base_offset"])

    @cached_property
    def ends(self) -> NDArray[np.int64]:
        """End offsets, exclusive."""
        return self.rows["last_offset"] + 1

    @cached_property
    def reach(self) -> NDArray[np.int64]:
        """Greatest end offset of each batch and all before it."""
        return np.maximum.accumulate(self.ends)

    @cached_property
    def epochs(self) -> NDArray[np.int64]:
        """Leader epochs; -1 for batches without one (`Batch.epoch`)."""
        return np.where(self.rows["magic"] >= 2, np.maximum(self.rows["leader_epoch"], -1), -1)

    @cached_property
    def control(self) -> NDArray[np.bool_]:
        """Mask of control batches."""
        return (self.rows["magic"] >= 2) & (self.rows["attributes"] & CONTROL != 0)

    @cached_property
    def has_markers(self) -> bool:
        """True if any control batch holds a transaction marker."""
        return bool(self.control.any())

    @cached_property
    def data(self) -> NDArray[np.bool_]:
        """Mask of readable batches with records that producers sent."""
        return self.rows["crc_valid"] & (self.rows["record_count"] != 0) & ~self.control

    @cached_property
    def unchecked(self) -> Batches:
        """Batches whose checksums were never computed."""
        return self.where(self.rows["crc_unchecked"])

    @cached_property
    def dense(self) -> NDArray[np.bool_]:
        """Mask of batches with a record at every offset."""
        return self.rows["record_count"] == self.ends - self.starts

    @cached_property
    def is_plain(self) -> NDArray[np.bool_]:
        """Mask of batches with a record at every offset and a leader epoch: their offsets identify their records."""
        return self.dense & (self.epochs >= 0) & (self.rows["record_count"] > 0)

    def timestamps(self) -> NDArray[np.int64]:
        """All times in the batch headers, in ms (`Batch.timestamps`)."""
        horizon = (self.rows["attributes"] & DELETE_HORIZON != 0) & (self.rows["magic"] >= 2)
        times = np.concatenate((self.rows["base_timestamp"][~horizon], self.rows["max_timestamp"]))
        return times[times >= 0]

    @cached_property
    def tally(self) -> Tally:
        """Sums over the batches."""
        if not len(self.rows):
            return Tally()
        records = int(np.maximum(self.rows["record_count"], 0).sum(dtype=np.int64))
        size = int(self.rows["size"].sum())
        times = self.timestamps()
        return Tally(records, size, int(times.min()), int(times.max())) if len(times) else Tally(records, size)

    def above(self, offset: int) -> Batches:
        found = self._above.get(offset)
        if found is None:
            rest = self[int(self.reach.searchsorted(offset, side="right")) :]
            found = self._above[offset] = rest.where(rest.ends > offset)
        return found

    @cached_property
    def _above(self) -> dict[int, Batches]:
        """Cached by offset: callers repeat the same few."""
        return {}

    def columns(self, *names: str) -> list[NDArray[np.int64]]:
        """Base offsets, followed by the named fields."""
        return [self.starts, *(self.rows[name] for name in names)]

    def records_between(self, start: int, end: int) -> int:
        """Number of records at offsets [start, end): exact for dense batches, at most the offsets inside for others;
        control records do not count."""
        if not len(self):
            return 0
        inside = np.maximum(np.minimum(self.ends, end) - np.maximum(self.starts, start), 0)
        held = np.minimum(np.maximum(self.rows["record_count"], 0), inside)
        return int(np.where(self.dense, inside, held)[~self.control].sum())

    def once(self) -> Batches:
        """Every distinct batch once, at its first occurrence."""
        if (self.starts[1:] > self.starts[:-1]).all():
            return self
        return Batches.of(dict.fromkeys(self))

    @overload
    def overlaps(self, starts: int, ends: int) -> tuple[int, int]: ...

    @overload
    def overlaps(
        self, starts: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]: ...

    def overlaps(
        self, starts: int | NDArray[np.int64], ends: int | NDArray[np.int64]
    ) -> tuple[int | NDArray[np.intp], int | NDArray[np.intp]]:
        """For each range [start, end) the indexes [low, high) of all batches that may overlap it."""
        return self.reach.searchsorted(starts, side="right"), self.starts.searchsorted(ends, side="left")

    def overlapping(self, start: int, end: int) -> list[Batch]:
        """Batches with an offset in [start, end)."""
        low, high = self.overlaps(start, end)
        return [batch for batch in self[low:high] if batch.end_offset > start]

    def stretches(
        self, chosen: NDArray[np.bool_], *columns: NDArray[np.int64] | NDArray[np.bool_]
    ) -> Iterator[tuple[int, int]]:
        """Indexes (first, last) of runs of `chosen` batches that follow each other without a gap and have equal values in `columns`."""
        goes_on = chosen[1:] & chosen[:-1] & (self.starts[1:] == self.ends[:-1])
        for column in columns:
            goes_on &= column[1:] == column[:-1]
        first = (chosen & ~np.concatenate(([False], goes_on))).nonzero()[0]
        last = (chosen & ~np.concatenate((goes_on, [False]))).nonzero()[0]
        return zip(first.tolist(), last.tolist(), strict=True)

    @cached_property
    def epochs_of_data(self) -> dict[int, bool]:
        """For each leader epoch (-1: none) of data batches, True if all of them are plain."""
        epochs = self.epochs[self.data]
        # The first row, and each that differs from the one before. `np.unique` would import numpy.ma, which takes longer.
        found = {*epochs[:1].tolist(), *epochs[1:][epochs[1:] != epochs[:-1]].tolist()}
        return {epoch: bool(self.is_plain[self.data & (self.epochs == epoch)].all()) for epoch in sorted(found)}

    def data_stretches(self, epochs: Set[int]) -> Iterator[tuple[int, int]]:
        """Indexes (first, last) of data batches, with consecutive ones of any of the `epochs` as one run."""
        if epochs >= self.epochs_of_data.keys():
            return self.stretches(self.data, self.epochs)
        alone = np.where(np.isin(self.epochs, list(epochs)), -1, np.arange(len(self)))
        return self.stretches(self.data, self.epochs, alone)


NO_BATCHES = Batches()


#: Fields that identify a batch, each an array: base offsets first.
Columns = Sequence["NDArray[np.int64]"]


def find_rows(columns: Columns, others: Columns) -> NDArray[np.int64]:
    """For each row of `columns` the index of the last row of `others` with the same values; -1 without one.

    The base offsets of `others` must not decrease.
    """
    (bases, *_), (known, *_) = columns, others
    if not len(bases) or not len(known):
        return np.full(len(bases), -1)
    at, candidates = np.arange(len(bases)), others
    if len(bases) != len(known) or (bases != known).any():
        at = np.maximum(known.searchsorted(bases, side="right") - 1, 0)
        candidates = [column[at] for column in others]
    same = np.ones(len(bases), bool)
    for one, other in zip(columns, candidates, strict=True):
        same &= one == other
    found = np.where(same, at, -1)
    # Among rows with the same base offset only one was compared.
    twice = known[1:][known[1:] == known[:-1]]
    if len(twice):
        rest, places = np.isin(bases, twice).nonzero()[0], np.isin(known, twice).nonzero()[0]
        index = dict(zip(_keys(others, places), places.tolist(), strict=True))
        found[rest] = [index.get(key, -1) for key in _keys(columns, rest)]
    return found


def _keys(columns: Columns, rows: NDArray[np.int64]) -> Iterator[tuple[object, ...]]:
    return zip(*(column[rows].tolist() for column in columns), strict=True)
