"""Batches that two replicas both hold and that were damaged on one side: by the checksum, or in a field outside of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from replica_audit.closed_sets import PairDamage

if TYPE_CHECKING:
    from replica_audit.auditing.replicas.facts import ReplicaFacts
    from replica_audit.batch_header import Batch
    from replica_audit.formats.segments.batch_rows import Batches

_GREATEST_MAGIC = 2


@dataclass(frozen=True, slots=True)
class CorruptPair:
    """A batch that both hold, readable on one side only (`bad_broker_id`'s is the damaged one), or CRC-blind."""

    kind: PairDamage
    """crc: the checksum of one side fails; blind: a header field outside the checksum was changed on one side."""
    start_offset: int
    end_offset: int
    bad_broker_id: int
    good_broker_id: int
    position: int
    detail: str
    odd: Batch | None = None
    """The batch with the changed offset or epoch, where that is the damage."""
    right: Batch | None = None
    """The other one of these two."""


def damaged_pair(
    reference: ReplicaFacts, follower: ReplicaFacts, batch: Batch, others: Iterable[Batch]
) -> CorruptPair | None:
    """`batch` of the follower with the one of the reference's `others` that is the same except for one bad checksum."""
    for other in others:
        same_place = (other.base_offset, other.leader_epoch) == (batch.base_offset, batch.leader_epoch)
        if same_place and other.crc_valid != batch.crc_valid:
            return _crc_pair(reference, follower, batch, other)
    return None


def changed_magic(
    reference: ReplicaFacts, follower: ReplicaFacts, own: Batches, theirs: Batches
) -> Iterator[CorruptPair]:
    """Equal batches of which one has a magic byte that no version of Kafka wrote: it is outside the checksum."""
    if not any((side.rows["magic"] > _GREATEST_MAGIC).any() for side in (own, theirs)):
        return
    known = {(batch.base_offset, batch.crc, batch.size): batch for batch in theirs if batch.crc_valid}
    for batch in own:
        twin = known.get((batch.base_offset, batch.crc, batch.size)) if batch.crc_valid else None
        if twin is None or (twin.magic > _GREATEST_MAGIC) == (batch.magic > _GREATEST_MAGIC):
            continue
        bad, good, odd, right = (
            (follower, reference, batch, twin) if batch.magic > _GREATEST_MAGIC else (reference, follower, twin, batch)
        )
        detail = f"magic byte {odd.magic} here and {right.magic} on broker {good.broker_id}, for the same bytes under the checksum"
        yield CorruptPair(
            "blind", right.base_offset, right.end_offset, bad.broker_id, good.broker_id, odd.position, detail
        )


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


def changed_headers(
    reference: ReplicaFacts, follower: ReplicaFacts, unmatched: Batches, foreign: Batches
) -> tuple[list[CorruptPair], Batches, Batches]:
    """Pairs of the same bytes under the checksum whose offset or epoch differs because one header was changed.

    Equal bytes alone prove nothing: a producer that retries after a fail-over writes them again under a new epoch. So
    the odd header must also contradict its neighbours in its own log.
    """
    own_odd, their_odd = _are_odd(follower, unmatched), _are_odd(reference, foreign)
    pairs: list[CorruptPair] = []
    if not own_odd.any() and not their_odd.any():
        return pairs, unmatched, foreign
    kept_own, kept_theirs = np.ones(len(unmatched), bool), np.ones(len(foreign), bool)
    by_bytes = {(batch.crc, batch.size): at for at, batch in enumerate(foreign) if batch.crc_valid}
    for at, batch in enumerate(unmatched):
        place = by_bytes.get((batch.crc, batch.size)) if batch.crc_valid else None
        if place is None or not (own_odd[at] or their_odd[place]):
            continue
        twin = foreign[place]
        bad, good, odd, right = (
            (follower, reference, batch, twin) if own_odd[at] else (reference, follower, twin, batch)
        )
        detail = (
            f"base offset {odd.base_offset} and leader epoch {odd.leader_epoch} here, {right.base_offset} and "
            f"{right.leader_epoch} on broker {good.broker_id}, for the same bytes under the checksum"
        )
        pairs.append(
            CorruptPair(
                "blind",
                right.base_offset,
                right.end_offset,
                bad.broker_id,
                good.broker_id,
                odd.position,
                detail,
                odd,
                right,
            )
        )
        kept_own[at] = kept_theirs[place] = False
    return pairs, unmatched.where(kept_own), foreign.where(kept_theirs)


def _are_odd(facts: ReplicaFacts, batches: Batches) -> np.ndarray:
    """Mask of the `batches` whose offset or epoch contradicts the batch before or after in the same log."""
    # A cleaner leaves gaps, and a producer that retries, or ends two transactions in one millisecond, equal bytes.
    kinds = {"epoch_regression", "regression", "duplicate"} | (set() if facts.compacted else {"gap"})
    found = [item for _, item in facts.irregularities if item.kind in kinds]
    if not found:
        return np.zeros(len(batches), bool)
    bases = [item.base_offset for item in found]
    befores = [item.previous for item in found if item.kind != "epoch_regression" and item.previous is not None]
    after_rise = [item.base_offset for item in found if item.kind == "epoch_regression"]
    odd = np.isin(batches.starts, bases) | np.isin(batches.rows["last_offset"], befores)
    return odd | np.isin(batches.ends, after_rise)
