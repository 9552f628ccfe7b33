"""Batches read from a partition's copies. Equal copies share one object, so that values derived from it are computed once."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from replica_audit.auditing.compare.epoch_corruption import restore_epochs
from replica_audit.segments.batch_rows import NO_BATCHES, Batches, Tally
from replica_audit.segments.digests import rows_of_chunks

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from replica_audit.auditing.replicas.log_contents import CorruptEpoch
    from replica_audit.auditing.replicas.replica_facts import CopyKey, ReplicaFacts


def batches_in(rows: NDArray[np.void], chunks: Collection[int]) -> Batches:
    """Batches among `rows` (`BATCH_DTYPE`) whose base offsets are in `chunks`, in order of base offset."""
    return Batches.in_order(rows_of_chunks(rows, chunks))


class LoadedBatches(dict["CopyKey", "NDArray[np.void]"]):
    """Rows (`BATCH_DTYPE`) by copy, as found. Equal copies share one array; a copy that is not a key has no rows."""

    def __init__(self, rows: Mapping[CopyKey, NDArray[np.void]]) -> None:
        super().__init__()
        for key, found in rows.items():
            own = Batches(found)
            self[key] = next((known for known in self.values() if Batches(known) == own), found)
        self._known: dict[tuple[int, tuple[CorruptEpoch, ...], frozenset[int]], Batches] = {}

    @classmethod
    def of(cls, rows: Mapping[CopyKey, NDArray[np.void]]) -> LoadedBatches:
        """`rows` as `LoadedBatches`, unless they are already."""
        return rows if isinstance(rows, LoadedBatches) else cls(rows)

    def __missing__(self, key: CopyKey) -> NDArray[np.void]:
        return NO_BATCHES.rows

    def rows_of(self, facts: ReplicaFacts) -> NDArray[np.void]:
        """The rows of a copy, with corrupt epochs restored."""
        return restore_epochs(self[facts.key], facts.rot)

    def batches_of(self, facts: ReplicaFacts, chunks: Collection[int]) -> Batches:
        """The batches of a copy in those of `chunks` that were read, by base offset."""
        key = id(self[facts.key]), facts.rot, frozenset(chunks)
        found = self._known.get(key)
        if found is None:
            found = batches_in(self.rows_of(facts), chunks)
            found = next((known for known in self._known.values() if known == found), found)
            self._known[key] = found
        return found


def tally_from(facts: ReplicaFacts, offset: int, batches: Batches, loaded: Collection[int]) -> Tally:
    """Records and bytes that truncation to `offset` drops: every batch whose last offset is at or above it.

    `batches` are those of the chunks in `loaded`; every other chunk is on one side of `offset`, and its digest has the counts.
    """
    total = batches.above(offset).tally
    for number, chunk in facts.chunks.items():
        if number not in loaded and chunk.last_offset >= offset:
            total += Tally(chunk.record_count, chunk.size_bytes, chunk.first_timestamp_ms, chunk.last_timestamp_ms)
    return total
