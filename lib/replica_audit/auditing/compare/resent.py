"""Batches that their producer, or the coordinator, resent to the next leader, so that none of their records is lost.

A batch's checksum covers neither its offset nor its leader epoch, but its producer, sequence, times and records; with
LogAppendTime the times are each leader's own. Clients before 2.5 restart at sequence 0 in one producer epoch, so that the
number alone proves nothing (KAFKA-5494).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from replica_audit.auditing.compare.alignment import Alignment, Difference
from replica_audit.auditing.compare.record_comparison import RecordComparison
from replica_audit.batch_header import LOG_APPEND_TIME, TRANSACTIONAL, Batch
from replica_audit.segments.batch_rows import Batches

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts


class LogOfPair(NamedTuple):
    """One log of a pair, with its loaded batches by offset."""

    facts: ReplicaFacts
    batches: Batches


def with_resent(
    reference: ReplicaFacts, follower: ReplicaFacts, alignment: Alignment, reading: RecordComparison | None
) -> Alignment:
    """Mark in `alignment` the follower's conflicting batches that the reference also has past the fork, as resent by their producer."""
    conflicts = [item for item in alignment.differences if item.kind == "epoch" and item.batches]
    if not conflicts:
        return alignment
    fork = min(item.start_offset for item in conflicts)
    # A batch that the reference has at the same offset is not the twin of another.
    chosen = Batches.joined([item.batches for item in conflicts if not item.written_again])
    twins = twins_of(
        chosen, fork, LogOfPair(follower, alignment.own), LogOfPair(reference, alignment.reference), reading
    )
    return alignment._replace(differences=tuple(_with_twins(alignment.differences, twins))) if twins else alignment


def twins_of(
    chosen: Batches, fork: int, own: LogOfPair, reference: LogOfPair, reading: RecordComparison | None
) -> dict[Batch, Batch]:
    """Batches among `chosen` that were resent to the reference, each with its copy there, at or above `fork`.

    A batch of the reference is the twin of at most one batch. A transactional batch also needs the same outcome on both sides,
    which only the markers' records show; without `reading`, batches are compared by checksum only.
    """
    senders = chosen.where(_are_sent(chosen))
    found = _twins_of_data(senders, fork, own, reference, reading) if len(senders) else {}
    if reading is not None and chosen.control.any():
        found |= _twins_of_markers(chosen, found, fork, own, reference, reading)
    return found


def _twins_of_data(
    senders: Batches, fork: int, own: LogOfPair, reference: LogOfPair, reading: RecordComparison | None
) -> dict[Batch, Batch]:
    others = reference.batches.where((reference.batches.starts >= fork) & _are_sent(reference.batches))
    candidates: dict[tuple, list[Batch]] = defaultdict(list)
    for batch in others.where(_may_be_among(others, senders)):
        candidates[_identity(batch)].append(batch)
    senders = senders.where(_may_be_among(senders, others))
    found = {}
    for batch in senders:
        same = candidates.get(_identity(batch), [])
        twin = next((one for one in same if _is_twin(batch, own, one, reference, reading)), None)
        if twin is not None:
            found[batch] = twin
            same.remove(twin)
    return found


def _twins_of_markers(
    chosen: Batches,
    twins: Mapping[Batch, Batch],
    fork: int,
    own: LogOfPair,
    reference: LogOfPair,
    reading: RecordComparison,
) -> dict[Batch, Batch]:
    """Markers that the coordinator resent: from `fork` on, the reference has the same sequence of that producer's batches as `chosen`.

    A coordinator without an answer from the old leader asks the new one. Any data in between must be that of `twins`.
    """
    producers = np.unique(chosen.rows["producer_id"][chosen.control])
    sides = [
        _by_producer(side.where(np.isin(side.rows["producer_id"], producers) & side.rows["crc_valid"]))
        for side in (chosen, reference.batches.where(reference.batches.starts >= fork))
    ]
    found = {}
    for producer, batches in sides[0].items():
        for one, other in zip(batches, sides[1].get(producer, ())):
            if (
                one.is_control
                and other.is_control
                and reading.outcome(own.facts, one) == reading.outcome(reference.facts, other)
            ):
                found[one] = other
            elif twins.get(one) != other:
                break
    return found


def _by_producer(batches: Batches) -> dict[int, list[Batch]]:
    """Transactional batches by producer id."""
    found: dict[int, list[Batch]] = defaultdict(list)
    for batch in batches:
        if batch.attributes & TRANSACTIONAL:
            found[batch.producer_id].append(batch)
    return found


def _with_twins(differences: Sequence[Difference], twins: Mapping[Batch, Batch]) -> Iterator[Difference]:
    positions = np.array([batch.position for batch in twins], np.int64)
    for item in differences:
        if item.kind != "epoch" or not np.isin(item.batches.rows["position"], positions).any():
            yield item
            continue
        for part in item.split(range(1, len(item.batches))):
            twin = twins.get(part.batches[0])
            yield part if twin is None else part._replace(written_again=True, twin=twin)


def _are_sent(batches: Batches) -> NDArray[np.bool_]:
    """Mask of the readable batches sent by idempotent producers."""
    rows = batches.rows
    return (rows["magic"] >= 2) & (rows["producer_id"] >= 0) & ~batches.control & rows["crc_valid"]


def _may_be_among(batches: Batches, others: Batches) -> NDArray[np.bool_]:
    """Mask of the `batches` whose producer id and sequence number both occur in `others`, not necessarily in one batch."""
    return np.logical_and(
        *(np.isin(batches.rows[name], others.rows[name]) for name in ("producer_id", "base_sequence"))
    )


def _identity(batch: Batch) -> tuple:
    return (
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.record_count,
        batch.last_offset - batch.base_offset,
        batch.attributes & TRANSACTIONAL,
    )


def _is_twin(
    batch: Batch, own: LogOfPair, other: Batch, reference: LogOfPair, reading: RecordComparison | None
) -> bool:
    """True if two batches of one identity have the same records, and their transactions the same outcome."""
    if (batch.crc, batch.size) != (other.crc, other.size) and (
        reading is None or not _are_equal(_records(batch, own, reading), _records(other, reference, reading))
    ):
        return False
    if not batch.attributes & TRANSACTIONAL:
        return True
    outcome = None if reading is None else _outcome(batch, own, reading)
    return reading is not None and outcome is not None and outcome == _outcome(other, reference, reading)


def _records(batch: Batch, side: LogOfPair, reading: RecordComparison) -> NDArray[np.void]:
    """Records of a batch (empty if unreadable), without the time if it is the broker's."""
    rows = reading.rows(side.facts, [batch])[0].copy()
    rows["offset"] -= batch.base_offset
    if batch.attributes & LOG_APPEND_TIME:
        rows["timestamp"] = -1
    return rows


def _are_equal(rows: NDArray[np.void], others: NDArray[np.void]) -> bool:
    names = ("offset", "timestamp", "content", "headers")
    return 0 < len(rows) == len(others) and all(np.array_equal(rows[name], others[name]) for name in names)


def _outcome(batch: Batch, side: LogOfPair, reading: RecordComparison) -> int | None:
    """Marker type that ended a batch's transaction; None if it is open."""
    own = side.batches
    rows = own.rows
    ends = own.control & (rows["producer_id"] == batch.producer_id) & (rows["producer_epoch"] >= batch.producer_epoch)
    marker = own.first(ends & (own.starts > batch.base_offset))
    return None if marker is None else reading.outcome(side.facts, marker)
