"""Outcomes of the transactions that lacking records belong to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from replica_audit.segments.records import ABORT, COMMIT

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
