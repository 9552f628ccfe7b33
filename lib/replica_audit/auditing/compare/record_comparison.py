"""Records of two replicas, read from the segments only where batches differ, and compared (F.4, record identity).

Records are requested by batch; only offsets, flags and keyed hashes are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from replica_audit.literals import RecordProblemKind
from replica_audit.model import OffsetRange
from replica_audit.segments.records import RECORD_DTYPE
from replica_audit.snapshot.record_reader import NotCaptured, RecordRequest, RecordRows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
    from replica_audit.batch_header import Batch


class RecordSource(Protocol):
    """Reads the records of batches, e.g. `snapshot.record_reader.RecordReader`; with `keys` (hashes), only records with these keys."""

    def __call__(self, requests: Iterable[RecordRequest], keys: NDArray[np.uint64] | None = None, /) -> RecordRows: ...


#: Approximate number of bytes of both replicas' batches decoded together, at most.
_WINDOW_BYTES = 4 << 20


class Window(NamedTuple):
    """A range of offsets that no other batch overlaps: the follower's batches, and the records of both sides by offset."""

    own_batches: tuple[Batch, ...]
    own: NDArray[np.void]
    """Records of the follower (`RECORD_DTYPE`)."""
    theirs: NDArray[np.void]
    """Records of the reference."""
    unread: tuple[OffsetRange, ...]
    """Batches of either side whose records could not be read."""

    def cannot_read(self, start_offset: int, end_offset: int) -> bool:
        return any(part.overlaps(start_offset, end_offset) for part in self.unread)


def record_requests(facts: ReplicaFacts, batches: Iterable[Batch]) -> dict[RecordRequest, Batch]:
    """Requests for those of `batches` with valid checksums."""
    requests = {}
    for batch in batches:
        if batch.crc_valid:
            path, *others = facts.paths_of(batch)
            first = batch.base_offset if batch.magic >= 2 else batch.last_offset
            requests[RecordRequest(path, batch.position, batch.size, first, batch.crc, tuple(others))] = batch
    return requests


class RecordProblem(NamedTuple):
    """A batch whose records were needed but unavailable."""

    broker_id: int
    path: str
    position: int
    start_offset: int
    end_offset: int
    size: int
    reason: str
    kind: RecordProblemKind


class RecordComparison:
    """Reader of the records of one pair of replicas; it collects what could not be read."""

    def __init__(self, read: RecordSource) -> None:
        self._read = read
        self.problems: list[RecordProblem] = []

    def rows(
        self, facts: ReplicaFacts, batches: Iterable[Batch], keys: NDArray[np.uint64] | None = None
    ) -> tuple[NDArray[np.void], list[OffsetRange]]:
        """Records of `batches`, or of these keys only, and the offsets of unavailable batches."""
        requests = record_requests(facts, batches)
        if not requests:
            return np.empty(0, RECORD_DTYPE), []
        outcome = self._read(requests, keys)
        found: list[tuple[RecordRequest, str, RecordProblemKind]] = [
            *((*one, "lost") for one in outcome.unread),
            *((*one, "not_captured") for one in outcome.not_captured),
            *((*one, "undecodable") for one in outcome.undecodable),
        ]
        problems = [
            RecordProblem(
                facts.broker_id,
                reason.path if isinstance(reason, NotCaptured) else request.path,
                request.position,
                requests[request].base_offset,
                requests[request].end_offset,
                request.size,
                reason,
                kind,
            )
            for request, reason, kind in found
        ]
        self.problems += problems
        return outcome.rows, [OffsetRange(problem.start_offset, problem.end_offset) for problem in problems]

    def outcome(self, facts: ReplicaFacts, marker: Batch) -> int | None:
        """`COMMIT` or `ABORT` by a marker's record; None if it cannot be read."""
        found, _ = self.rows(facts, [marker])
        return int(found["marker"][0]) if len(found) else None

    def windows(
        self, reference: ReplicaFacts, follower: ReplicaFacts, own: Sequence[Batch], theirs: Sequence[Batch]
    ) -> Iterator[Window]:
        """Yield the records of the follower's batches `own` and the reference's `theirs`, window by window."""
        for own_part, their_part in _windows(own, theirs):
            both = (*own_part, *their_part)
            unread = [OffsetRange(batch.base_offset, batch.end_offset) for batch in both if not batch.crc_valid]
            mine, unread_mine = self.rows(follower, own_part)
            their, unread_theirs = self.rows(reference, their_part)
            yield Window(own_part, mine, their, (*unread, *unread_mine, *unread_theirs))


def _windows(own: Sequence[Batch], theirs: Sequence[Batch]) -> Iterator[tuple[tuple[Batch, ...], tuple[Batch, ...]]]:
    """Cut both sides at offsets that no batch of either spans, once enough bytes have accumulated."""
    sides: tuple[list[Batch], list[Batch]] = ([], [])
    size = 0
    end = -1
    for batch, side in sorted(
        [(batch, 0) for batch in own] + [(batch, 1) for batch in theirs], key=lambda pair: pair[0].base_offset
    ):
        if size >= _WINDOW_BYTES and batch.base_offset >= end:
            yield tuple(sides[0]), tuple(sides[1])
            sides = ([], [])
            size = 0
        sides[side].append(batch)
        size += batch.size
        end = max(end, batch.end_offset)
    yield tuple(sides[0]), tuple(sides[1])


def unequal_offsets(one: NDArray[np.void], other: NDArray[np.void]) -> NDArray[np.int64]:
    """Offsets at which both have records and these differ (F.4, record identity).

    A leader epoch counts if both have one. Fields that a format lacks are not compared: the timestamp in magic 0, headers and
    producer in magic 0 and 1.
    """
    _, mine, their = np.intersect1d(one["offset"], other["offset"], return_indices=True)
    one = one[mine]
    other = other[their]
    new = (one["magic"] >= 2) & (other["magic"] >= 2)
    timed = new | ((one["timestamp"] >= 0) & (other["timestamp"] >= 0))
    in_epochs = (one["leader_epoch"] >= 0) & (other["leader_epoch"] >= 0)
    differ = one["content"] != other["content"]
    differ |= timed & (one["timestamp"] != other["timestamp"])
    differ |= in_epochs & (one["leader_epoch"] != other["leader_epoch"])
    for name in ("headers", "producer_id", "producer_epoch", "sequence", "transactional", "control", "marker"):
        differ |= new & (one[name] != other[name])
    return one["offset"][differ]


def offsets_only_in(one: NDArray[np.void], other: NDArray[np.void]) -> NDArray[np.bool_]:
    """Mask of the rows of `one` whose offsets `other` lacks."""
    return ~np.isin(one["offset"], other["offset"])


def unequal_ranges(
    own: NDArray[np.void], theirs: NDArray[np.void], unequal: NDArray[np.int64], batch: Batch
) -> list[OffsetRange]:
    """Ranges of a batch's differing records, separated by equal ones.

    `own` are records of the log with the batch, `theirs` of the other, `unequal` the offsets at which they differ. The last
    range extends to the end of the batch unless an equal record follows.
    """
    offsets = own["offset"][(own["offset"] >= batch.base_offset) & (own["offset"] <= batch.last_offset)]
    differs = np.isin(offsets, unequal)
    equal = np.flatnonzero(np.isin(offsets, theirs["offset"]) & ~differs)
    found = []
    for part in np.split(np.arange(len(offsets)), equal):
        odd = part[differs[part]]
        if len(odd):
            end = batch.end_offset if part[-1] == len(offsets) - 1 else int(offsets[odd[-1]]) + 1
            found.append(OffsetRange(int(offsets[odd[0]]), end))
    return found
