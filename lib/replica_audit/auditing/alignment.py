"""Two replicas laid side by side, offset by offset, from the batches of the chunks whose digests differ.

The unit is the follower's batch: it agrees when the reference has the very same one, conflicts when the reference has
other records there (or wrote past it in a later epoch), and is otherwise ahead, missing on the reference, or cannot be
compared. Compacted logs are compared by epoch and batch range only, and absence means nothing there (F.0).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from replica_audit.auditing.facts import ReplicaFacts
from replica_audit.model import OffsetRange

_TIMESTAMP_IS_DELETE_HORIZON = 0x40


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch as the comparison sees it; `record_count` and timestamps as in the header, -1 for none."""

    position: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    magic: int
    crc: int
    size: int
    crc_valid: bool
    record_count: int
    attributes: int
    base_timestamp: int
    max_timestamp: int

    @property
    def end_offset(self) -> int:
        return self.last_offset + 1

    @property
    def epoch(self) -> int | None:
        return self.leader_epoch if self.magic >= 2 and self.leader_epoch >= 0 else None

    @property
    def timestamps(self) -> tuple[int, ...]:
        """The header's timestamps that are ones."""
        horizon = self.attributes & _TIMESTAMP_IS_DELETE_HORIZON and self.magic >= 2
        return tuple(value for value in ((() if horizon else (self.base_timestamp,)) + (self.max_timestamp,)) if value >= 0)


@dataclass(frozen=True, slots=True)
class Difference:
    """A stretch where the two differ, before runs are made of it. `kind`: epoch, content, hole_here, hole_there, format."""

    kind: str
    start_offset: int
    end_offset: int
    leader_epoch: int | None
    replica_epoch: int | None
    batches: tuple[Batch, ...]
    """The follower's; empty where it has none."""


@dataclass(frozen=True, slots=True)
class CorruptPair:
    """A batch that both hold, readable on one side only (`bad_broker_id`'s is the damaged one), or CRC-blind."""

    kind: str
    """crc: the checksum of one side fails; blind: a header field outside the checksum was changed on one side."""
    start_offset: int
    end_offset: int
    bad_broker_id: int
    good_broker_id: int
    position: int
    detail: str


@dataclass(frozen=True, slots=True)
class Alignment:
    """The outcome for one follower."""

    differences: tuple[Difference, ...] = ()
    corrupt: tuple[CorruptPair, ...] = ()
    ahead: tuple[Batch, ...] = ()
    """Batches at or past the reference's end that its leadership does not contradict."""
    own: tuple[Batch, ...] = ()
    """The follower's batches of the chunks that were looked at, for counting what a truncation drops."""
    reference: tuple[Batch, ...] = ()


def batches_of(rows: np.ndarray | None) -> tuple[Batch, ...]:
    """Batches of a `BATCH_DTYPE` array, by base offset."""
    if rows is None or not len(rows):
        return ()
    names = Batch.__slots__
    rows = rows[np.argsort(rows["base_offset"], kind="stable")]
    return tuple(Batch(*values) for values in zip(*(rows[name].tolist() for name in names)))


def align(
    reference: ReplicaFacts,
    follower: ReplicaFacts,
    leader_epoch: int | None,
    reference_batches: Iterable[Batch],
    follower_batches: Iterable[Batch],
) -> Alignment:
    """Lay `follower` beside `reference`, given their batches of every chunk whose digests differ.

    `leader_epoch` is the current one: a record past the reference's end that is older than it conflicts (F.0).
    """
    theirs, own = tuple(reference_batches), tuple(follower_batches)
    floor = max(reference.local_start_offset, follower.local_start_offset)
    compacted = reference.compacted or follower.compacted
    differences: list[Difference] = []
    corrupt: list[CorruptPair] = []
    ahead: list[Batch] = []
    unmatched, foreign = _unmatched(own, theirs, floor, compacted)
    blind, unmatched, foreign = _crc_blind(reference, follower, unmatched, foreign)
    corrupt.extend(blind)
    starts = [batch.base_offset for batch in theirs]
    longest = max((batch.end_offset - batch.base_offset for batch in theirs), default=0)
    for batch in unmatched:
        # Batches of the reference that overlap: those that begin no more than the longest batch before this one.
        first = bisect_left(starts, batch.base_offset - longest)
        others = [other for other in theirs[first : bisect_left(starts, batch.end_offset)] if other.end_offset > batch.base_offset]
        pair = next((other for other in others if other.crc_valid != batch.crc_valid and _same_place(batch, other)), None)
        if pair is not None:
            corrupt.append(_crc_pair(reference, follower, batch, pair))
            continue
        if not batch.crc_valid:
            continue
        readable = [other for other in others if other.crc_valid]
        start = max(batch.base_offset, floor)
        if readable:
            kind = _conflict_kind(batch, readable, compacted)
            if kind:
                leader = readable[0]
                differences.append(Difference(kind, start, batch.end_offset, leader.epoch, batch.epoch, (batch,)))
        elif others or reference.cannot_read(batch.base_offset, batch.end_offset):
            continue
        elif start >= reference.log_end_offset:
            if batch.epoch is not None and leader_epoch is not None and batch.epoch < leader_epoch:
                differences.append(Difference("epoch", start, batch.end_offset, None, batch.epoch, (batch,)))
            else:
                ahead.append(batch)
        elif not compacted:
            differences.append(Difference("hole_there", start, batch.end_offset, None, batch.epoch, (batch,)))
    if not compacted:
        differences.extend(_holes(follower, foreign, own, floor))
    differences.sort(key=lambda item: (item.start_offset, item.end_offset))
    return Alignment(tuple(differences), tuple(corrupt), tuple(ahead), own, theirs)


def _unmatched(
    own: tuple[Batch, ...], theirs: tuple[Batch, ...], floor: int, compacted: bool
) -> tuple[list[Batch], list[Batch]]:
    """Batches above `floor` that the other side does not have: the follower's, the reference's."""

    def identity(batch: Batch) -> tuple:
        if compacted:
            return batch.base_offset, batch.last_offset, batch.epoch
        return batch.base_offset, batch.last_offset, batch.leader_epoch, batch.crc, batch.size, batch.crc_valid

    mine, their = {identity(batch) for batch in own}, {identity(batch) for batch in theirs}
    return (
        [batch for batch in own if batch.end_offset > floor and identity(batch) not in their],
        [batch for batch in theirs if batch.end_offset > floor and identity(batch) not in mine],
    )


def _same_place(one: Batch, other: Batch) -> bool:
    return one.base_offset == other.base_offset and one.leader_epoch == other.leader_epoch


def _crc_pair(reference: ReplicaFacts, follower: ReplicaFacts, batch: Batch, other: Batch) -> CorruptPair:
    bad, good, damaged = (reference, follower, other) if batch.crc_valid else (follower, reference, batch)
    return CorruptPair(
        "crc",
        damaged.base_offset,
        max(batch.end_offset, other.end_offset) if damaged.last_offset < damaged.base_offset else damaged.end_offset,
        bad.broker_id,
        good.broker_id,
        damaged.position,
        f"checksum of the batch at offset {damaged.base_offset} fails here and is right on broker {good.broker_id}",
    )


def _conflict_kind(batch: Batch, others: list[Batch], compacted: bool) -> str | None:
    """epoch, content or format; None where a comparison by batch headers sees no contradiction."""
    if any(other.epoch != batch.epoch for other in others if other.epoch is not None and batch.epoch is not None):
        return "epoch"
    if any(
        (other.epoch is None) != (batch.epoch is None) or (batch.epoch is None and other.magic != batch.magic)
        for other in others
    ):
        # Records were converted between formats, or the cleaner rewrote them: only decoding can tell.
        return None if compacted else "format"
    if compacted:
        legacy = batch.magic < 2 or batch.epoch is None or any(other.epoch is None for other in others)
        return None if legacy else "content"
    return "content"


def _crc_blind(
    reference: ReplicaFacts, follower: ReplicaFacts, unmatched: list[Batch], foreign: list[Batch]
) -> tuple[list[CorruptPair], list[Batch], list[Batch]]:
    """Pairs of the same bytes under the checksum whose offset or epoch differs because one header was changed.

    Equal bytes alone prove nothing: a producer that retries after a fail-over writes them again under a new epoch. So
    the odd header must also contradict its neighbours in its own log.
    """
    pairs: list[CorruptPair] = []
    by_bytes = {(batch.crc, batch.size): batch for batch in foreign if batch.crc_valid}
    own_odd, their_odd = _odd_positions(follower, unmatched), _odd_positions(reference, foreign)
    kept_own: list[Batch] = []
    for batch in unmatched:
        twin = by_bytes.get((batch.crc, batch.size)) if batch.crc_valid else None
        if twin is None or (batch not in own_odd and twin not in their_odd):
            kept_own.append(batch)
            continue
        bad, good, odd, right = (
            (follower, reference, batch, twin) if batch in own_odd else (reference, follower, twin, batch)
        )
        detail = (
            f"base offset {odd.base_offset} and leader epoch {odd.leader_epoch} here, {right.base_offset} and "
            f"{right.leader_epoch} on broker {good.broker_id}, for the same bytes under the checksum"
        )
        pairs.append(
            CorruptPair("blind", right.base_offset, right.end_offset, bad.broker_id, good.broker_id, odd.position, detail)
        )
        foreign = [other for other in foreign if other is not twin]
    return pairs, kept_own, foreign


def _odd_positions(facts: ReplicaFacts, batches: list[Batch]) -> set[Batch]:
    """Of `batches`, those whose offset or epoch contradicts the batch before or after in the same log."""
    kinds = {"epoch_regression", "regression", "duplicate", "gap"}
    odd_bases = {item.base_offset for _, item in facts.irregularities if item.kind in kinds}
    befores = {
        item.previous for _, item in facts.irregularities if item.kind in kinds - {"epoch_regression"}
    }
    after_rise = {item.base_offset for _, item in facts.irregularities if item.kind == "epoch_regression"}
    return {
        batch
        for batch in batches
        if batch.base_offset in odd_bases or batch.last_offset in befores or batch.end_offset in after_rise
    }


def _holes(
    follower: ReplicaFacts, foreign: list[Batch], own: tuple[Batch, ...], floor: int
) -> Iterator[Difference]:
    """Batches of the reference, strictly inside the follower's range, where the follower has nothing at all."""
    starts = [batch.base_offset for batch in own]
    longest = max((batch.end_offset - batch.base_offset for batch in own), default=0)
    for batch in foreign:
        if not batch.crc_valid or batch.end_offset > follower.log_end_offset:
            continue
        first = bisect_left(starts, batch.base_offset - longest)
        last = bisect_left(starts, batch.end_offset)
        if any(mine.end_offset > batch.base_offset for mine in own[first:last]):
            continue
        if follower.cannot_read(batch.base_offset, batch.end_offset):
            continue
        yield Difference("hole_here", max(batch.base_offset, floor), batch.end_offset, batch.epoch, None, ())


def conflicting_ranges(differences: Iterable[Difference]) -> tuple[OffsetRange, ...]:
    """Contiguous stretches of conflicting records (not holes), touching ones joined: what a checkpoint proves by (F.0)."""
    stretches: list[OffsetRange] = []
    for item in differences:
        if item.kind not in ("epoch", "content"):
            continue
        if stretches and item.start_offset <= stretches[-1].end_offset:
            last = stretches.pop()
            stretches.append(OffsetRange(last.start_offset, max(last.end_offset, item.end_offset)))
        else:
            stretches.append(OffsetRange(item.start_offset, item.end_offset))
    return tuple(stretches)
