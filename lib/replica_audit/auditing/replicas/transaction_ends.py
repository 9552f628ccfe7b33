"""Ends of transactions by the markers in a log (A.2, control batches)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from replica_audit.segments.records import ABORT, COMMIT


class Decisions(NamedTuple):
    """Markers by producer id: their offsets in ascending order, and True for each that commits."""

    markers: Mapping[int, tuple[NDArray[np.int64], NDArray[np.bool_]]]

    @classmethod
    def of(cls, parts: Iterable[NDArray[np.void]]) -> Decisions:
        """Make decisions from `RECORD_DTYPE` rows of control batches, of one replica or of several that agree."""
        rows = [part[part["control"] & np.isin(part["marker"], (ABORT, COMMIT))] for part in parts]
        markers = {}
        if rows:
            everything = np.concatenate(rows)
            for producer in np.unique(everything["producer_id"]).tolist():
                of_producer = everything[everything["producer_id"] == producer]
                offsets, first = np.unique(of_producer["offset"], return_index=True)
                markers[producer] = (offsets, of_producer["marker"][first] == COMMIT)
        return cls(markers)

    def visible(self, rows: NDArray[np.void]) -> NDArray[np.bool_]:
        """Mask of the rows that a read_committed consumer would receive: no aborted or undecided ones.

        A transaction ends with the first marker of its producer after it. The cleaner keeps that marker as long as any record
        of the transaction (`CleanedTransactionMetadata`).
        """
        visible = ~rows["transactional"]
        for chosen, _, commits in self._ends(rows):
            visible[chosen] = commits
        return visible

    def end_past(self, rows: NDArray[np.void], end_offset: int) -> NDArray[np.bool_]:
        """Mask of the rows of transactions that end at or past `end_offset`."""
        past = np.zeros(len(rows), bool)
        for chosen, offsets, _ in self._ends(rows):
            past[chosen] = offsets >= end_offset
        return past

    def _ends(self, rows: NDArray[np.void]) -> Iterator[tuple[NDArray[np.intp], NDArray[np.int64], NDArray[np.bool_]]]:
        """For each producer, indexes of its decided rows, offsets of their markers, and True where these commit."""
        for producer in np.unique(rows["producer_id"][rows["transactional"]]).tolist():
            known = self.markers.get(producer)
            if known is None:
                continue
            offsets, commits = known
            chosen = np.flatnonzero(rows["transactional"] & (rows["producer_id"] == producer))
            at = np.searchsorted(offsets, rows["offset"][chosen])
            decided = at < len(offsets)
            yield chosen[decided], offsets[at[decided]], commits[at[decided]]
