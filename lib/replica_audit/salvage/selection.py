"""Selects each record once, however many copies hold it: outcome of its transaction, the copy that it is taken from, order of writing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from replica_audit.salvage.missing_records import CONTROL_RECORD, MissingRecords, SourceBatch, UnexpandedBatch
from replica_audit.segments.records import ABORT, COMMIT, RECORD_DTYPE

#: In the order of their numbers below.
OUTCOMES = ("none", "committed", "aborted", "open")
NONE, COMMITTED, ABORTED, OPEN = range(len(OUTCOMES))


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Parallel to the rows that were asked about."""

    outcome: np.ndarray
    """Index into `OUTCOMES`; none: the record is of no transaction."""
    marker: np.ndarray
    """Offset of the marker that decided, -1 where there is none."""
    by_reference: np.ndarray
    """The marker stands on the reference, not on the copy that holds the record."""


def decide(rows: np.ndarray, own: np.ndarray, theirs: np.ndarray) -> Outcomes:
    """Outcomes of the transactions of `rows` (`RECORD_DTYPE`).

    By the first marker of the producer after the record in the log that holds it (`own`: control records of that copy).
    Without one by the first of `theirs`, those of the reference from where the two logs part to the producer's next data:
    the coordinator writes its decision to whoever leads by then. A marker has the epoch of the data, or a later one where
    the coordinator fenced the producer or bumps the epoch with every transaction (KIP-890).
    """
    count = len(rows)
    outcome = np.full(count, NONE, np.int8)
    marker = np.full(count, -1, np.int64)
    by_reference = np.zeros(count, bool)
    outcome[rows["transactional"]] = OPEN
    writers = rows[["producer_id", "producer_epoch"]]
    for writer in np.unique(writers[rows["transactional"]]):
        chosen = np.flatnonzero(rows["transactional"] & (writers == writer))
        for markers, is_reference in ((_of(own, *writer), False), (_of(theirs, *writer), True)):
            left = chosen[outcome[chosen] == OPEN]
            if not len(markers) or not len(left):
                continue
            # On the reference offsets after the fork are others than the copy's: its first marker counts.
            at = np.zeros(len(left), int) if is_reference else np.searchsorted(markers["offset"], rows["offset"][left])
            # A marker has the epoch of the data, or the next one where its coordinator raised it; others are of another
            # transaction of the producer.
            ends = markers[np.minimum(at, len(markers) - 1)]
            later = ends["producer_epoch"].astype(int) - rows["producer_epoch"][left]
            known = (at < len(markers)) & (later >= 0) & (later <= 1)
            ends = ends[known]
            outcome[left[known]] = np.where(ends["marker"] == COMMIT, COMMITTED, ABORTED)
            marker[left[known]] = ends["offset"]
            by_reference[left[known]] = is_reference
    return Outcomes(outcome, marker, by_reference)


def undecided_producers(rows: np.ndarray, own: np.ndarray) -> Sequence[int]:
    """Producers of transactions in `rows` that no marker of the copy itself ends."""
    found = decide(rows, own, own[:0])
    return np.unique(rows["producer_id"][found.outcome == OPEN]).tolist()


def _of(markers: np.ndarray, producer: int, epoch: int) -> np.ndarray:
    mine = (markers["producer_id"] == producer) & (markers["producer_epoch"] >= epoch)
    chosen = markers[mine & np.isin(markers["marker"], (ABORT, COMMIT))]
    return chosen[np.argsort(chosen["offset"], kind="stable")]


#: Left out because of the outcome of their transactions.
LEFT_OPEN = "open_transaction"
LEFT_ABORTED = "aborted_transaction"
REPEATED = "repeated"

_ROW = np.dtype(
    [
        ("record", RECORD_DTYPE),
        ("copy", "i4"),
        ("batch", "i8"),
        ("reason", "i1"),
        ("outcome", "i1"),
        ("marker", "i8"),
        ("by_reference", "?"),
        ("variant", "i4"),
    ]
)


@dataclass(frozen=True, slots=True)
class SelectedRecords:
    """Records to be salvaged of one partition, in the order of their leader epochs and offsets, the order they were written in.

    `variant` counts different records of one epoch and offset, which a sound cluster has not; they follow each other
    as if each variant were an epoch of its own.
    """

    rows: np.ndarray
    """`record` (`RECORD_DTYPE`), `copy` and `batch` (indexes), `reason`, `outcome`, `marker`, `by_reference`, `variant`."""
    also_in: tuple[tuple[int, ...], ...]
    """For each the other copies that hold it."""
    batches: tuple[SourceBatch, ...]
    unexpanded: tuple[UnexpandedBatch, ...] = ()
    """Batches that are lacking and not expanded, each once, in the same order."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Records by why they were left where they are, each counted once for every copy."""


def select(lacking: Sequence[MissingRecords], outcomes: Sequence[Outcomes], include_aborted: bool) -> SelectedRecords:
    """The records of all copies, given in the order in which they are to be taken from, with those of `outcomes`."""
    parts = [np.empty(0, _ROW)]
    batches: list[SourceBatch] = []
    left_out: Counter[str] = Counter()
    for number, (found, ends) in enumerate(zip(lacking, outcomes, strict=True)):
        left_out += found.left_out
        part = np.zeros(len(found.rows), _ROW)
        part["record"] = found.rows
        part["copy"] = number
        part["batch"] = found.batch + len(batches)
        part["reason"] = found.reason
        part["outcome"] = ends.outcome
        part["marker"] = ends.marker
        part["by_reference"] = ends.by_reference
        batches += found.batches
        control = part["record"]["control"]
        left_out[CONTROL_RECORD] += int(control.sum())
        part = part[~control]
        if not include_aborted:
            for outcome, word in ((ABORTED, LEFT_ABORTED), (OPEN, LEFT_OPEN)):
                left_out[word] += int((part["outcome"] == outcome).sum())
            part = part[~np.isin(part["outcome"], (ABORTED, OPEN))]
        parts.append(part)
    rows, also_in, repeated = _each_once(np.concatenate(parts))
    left_out[REPEATED] += repeated
    return SelectedRecords(rows, also_in, tuple(batches), _unexpanded_once(lacking), +left_out)


def _unexpanded_once(lacking: Sequence[MissingRecords]) -> tuple[UnexpandedBatch, ...]:
    """The first of each batch's appearances."""
    seen: dict[tuple[int, int, int], UnexpandedBatch] = {}
    for found in lacking:
        for one in found.unexpanded:
            seen.setdefault((one.leader_epoch, one.base_offset, one.request.crc), one)
    return tuple(seen[key] for key in sorted(seen))


def _each_once(rows: np.ndarray) -> tuple[np.ndarray, tuple[tuple[int, ...], ...], int]:
    """The first of each record's appearances, ordered; for each the other copies; and how often one copy repeats a record."""
    seen: dict[tuple, int] = {}
    chosen: list[int] = []
    others: list[list[int]] = []
    repeated = 0
    record = rows["record"]
    names = ("offset", "leader_epoch", "timestamp", "key", "content", "headers", "producer_id", "sequence")
    identities = zip(*(record[name].tolist() for name in names), strict=True)
    for index, (identity, copy) in enumerate(zip(identities, rows["copy"].tolist(), strict=True)):
        known = seen.setdefault(identity, len(chosen))
        if known == len(chosen):
            chosen.append(index)
            others.append([])
        elif copy == rows["copy"][chosen[known]] or copy in others[known]:
            repeated += 1
        else:
            others[known].append(copy)
    kept = rows[np.array(chosen, np.int64)]
    kept["variant"] = _variants(kept)
    order = np.lexsort((kept["record"]["offset"], kept["variant"], kept["record"]["leader_epoch"]))
    return kept[order], tuple(tuple(others[index]) for index in order.tolist()), repeated


def _variants(rows: np.ndarray) -> list[int]:
    """For each row how many before it have the same epoch and offset."""
    counted: Counter[tuple[int, int]] = Counter()
    found = []
    for place in zip(rows["record"]["leader_epoch"].tolist(), rows["record"]["offset"].tolist(), strict=True):
        found.append(counted[place])
        counted[place] += 1
    return found
