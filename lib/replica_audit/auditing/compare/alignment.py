"""Alignment of two replicas by offset, from the batches of the chunks whose digests differ.

The unit is the follower's batch: it agrees if the reference has the same one, conflicts if the reference has other records
there (or wrote past it in a later epoch), and is otherwise ahead, missing on the reference, or not comparable. Compacted logs
are compared by epoch and batch range only, and absence proves nothing if a cleaner may have been there (F.0).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from replica_audit.auditing.replicas.offset_ranges import shared_start
from replica_audit.batch_header import or_none
from replica_audit.literals import DifferenceKind, PairDamage
from replica_audit.model import OffsetRange
from replica_audit.protocol.lineage import Lineage
from replica_audit.segments.batch_rows import NO_BATCHES, Batches, Columns, find_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
    from replica_audit.batch_header import Batch
    from replica_audit.model import OpenTransaction


_GREATEST_MAGIC = 2
#: Kinds of difference with other records at the same offsets.
CONFLICTS = ("epoch", "content")


class CorruptPair(NamedTuple):
    """A batch that both hold, damaged on one side (broker `bad_broker_id`): by its checksum, or in a field outside it."""

    kind: PairDamage
    """crc: the checksum fails on one side; blind: a header field outside the checksum was changed on one side."""
    start_offset: int
    end_offset: int
    bad_broker_id: int
    good_broker_id: int
    position: int
    detail: str
    odd: Batch | None = None
    """The batch with the changed offset or epoch, if that is the damage."""
    right: Batch | None = None
    """The counterpart of `odd`."""


def damaged_pair(
    reference: ReplicaFacts, follower: ReplicaFacts, batch: Batch, others: Iterable[Batch]
) -> CorruptPair | None:
    """Pair a follower's `batch` with the reference's, from `others`, if the two are equal except that one checksum is wrong; else None."""
    for other in others:
        same_place = (other.base_offset, other.leader_epoch) == (batch.base_offset, batch.leader_epoch)
        if same_place and other.crc_valid != batch.crc_valid:
            bad, good, damaged = (reference, follower, other) if batch.crc_valid else (follower, reference, batch)
            is_backwards = damaged.last_offset < damaged.base_offset
            end = max(batch.end_offset, other.end_offset) if is_backwards else damaged.end_offset
            detail = f"checksum of the batch at offset {damaged.base_offset} fails here and is right on broker {good.broker_id}"
            return CorruptPair("crc", damaged.base_offset, end, bad.broker_id, good.broker_id, damaged.position, detail)
    return None


def changed_magic(
    reference: ReplicaFacts, follower: ReplicaFacts, own: Batches, theirs: Batches
) -> Iterator[CorruptPair]:
    """Yield pairs of equal batches, one with a magic byte that no Kafka version writes; that byte is outside the checksum."""
    if own == theirs or not any((side.rows["magic"] > _GREATEST_MAGIC).any() for side in (own, theirs)):
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


def changed_headers(
    reference: ReplicaFacts, follower: ReplicaFacts, unmatched: Batches, foreign: Batches
) -> tuple[list[CorruptPair], Batches, Batches]:
    """Find batches with the same bytes under the checksum whose offset or epoch differs because one header was changed;
    also returns the remaining batches.

    Equal bytes alone prove nothing: a producer that retries after a failover writes them again in a new epoch. So the odd
    header must also contradict its neighbours in its own log.
    """
    pairs: list[CorruptPair] = []
    if not (unmatched and foreign):
        return pairs, unmatched, foreign
    own_odd = _are_odd(follower, unmatched)
    their_odd = _are_odd(reference, foreign)
    if not own_odd.any() and not their_odd.any():
        return pairs, unmatched, foreign
    kept_own = np.ones(len(unmatched), bool)
    kept_theirs = np.ones(len(foreign), bool)
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
        span = right.base_offset, right.end_offset
        pairs.append(CorruptPair("blind", *span, bad.broker_id, good.broker_id, odd.position, detail, odd, right))
        kept_own[at] = kept_theirs[place] = False
    return pairs, unmatched.where(kept_own), foreign.where(kept_theirs)


def _are_odd(facts: ReplicaFacts, batches: Batches) -> NDArray[np.bool_]:
    """Mask of the `batches` whose offset or epoch contradicts a neighbour in the same log."""
    # A cleaner leaves gaps; a producer that retries, or ends two transactions within a millisecond, writes equal bytes.
    kinds = {"epoch_regression", "regression", "duplicate"} | (set() if facts.compacted else {"gap"})
    found = [item for _, item in facts.irregularities if item.kind in kinds]
    if not found:
        return np.zeros(len(batches), bool)
    bases = [item.base_offset for item in found]
    befores = [item.previous for item in found if item.kind != "epoch_regression" and item.previous is not None]
    after_rise = [item.base_offset for item in found if item.kind == "epoch_regression"]
    odd = np.isin(batches.starts, bases) | np.isin(batches.rows["last_offset"], befores)
    return odd | np.isin(batches.ends, after_rise)


#: Fields, besides the base offset, that are equal in batches with the same bytes.
_IDENTITY = ("last_offset", "leader_epoch", "crc", "size", "crc_valid")
#: Fields that are equal in batches that differ only in their epoch, which is outside the checksum.
_CONTENT = ("last_offset", "magic", "crc", "size")


class Difference(NamedTuple):
    """A range where the two logs differ, before differences are joined into runs.

    `kind`: epoch, content, hole_here or hole_there; batching or format if the records are equal or were not read.
    """

    kind: DifferenceKind
    start_offset: int
    end_offset: int
    leader_epoch: int | None
    replica_epoch: int | None
    batches: Batches
    """Batches of the follower; empty if it has none. If several, they are contiguous and differ only in their offsets."""
    compared: bool = False
    """True if records were compared."""
    written_again: bool = False
    """True if the reference has the same batch in another epoch, because its producer resent it to another leader."""
    twin: Batch | None = None
    """The reference's batch, if at another offset."""

    @property
    def offsets(self) -> OffsetRange:
        return OffsetRange(self.start_offset, self.end_offset)

    @property
    def conflicting(self) -> bool:
        """True for other records at the same offsets; False for holes and other ways of storing equal records."""
        return self.kind in CONFLICTS

    @property
    def is_of_storage(self) -> bool:
        """True if only the way of storing the records differs, as far as they were read."""
        return self.kind in ("format", "batching")

    def parted(self, offset: int) -> tuple[Difference, ...]:
        """Split the difference at `offset` into batches that start below it, and the others."""
        at = int((self.batches.starts < offset).sum()) if len(self.batches) > 1 else 0
        return self.split([at]) if 0 < at < len(self.batches) else (self,)

    def split(self, places: Sequence[int]) -> tuple[Difference, ...]:
        """Split the batches at `places`, ascending indexes."""
        bounds = [0, *places, len(self.batches)]
        parts = [self.batches[low:high] for low, high in zip(bounds, bounds[1:], strict=False)]
        ends = [*(int(part.starts[0]) for part in parts[1:]), self.end_offset]
        starts = [self.start_offset, *ends]
        return tuple(
            self._replace(start_offset=start, end_offset=end, batches=part)
            for start, end, part in zip(starts, ends, parts, strict=False)
        )


def in_order(differences: Iterable[Difference]) -> tuple[Difference, ...]:
    """Differences by offset; of one range in the order given."""
    return tuple(sorted(differences, key=lambda item: (item.start_offset, item.end_offset)))


class EndedApart(NamedTuple):
    """A transaction that the reference aborts and the follower commits."""

    transaction: OpenTransaction
    """The transaction, open where the two logs part."""
    reference_marker: Batch
    marker: Batch


class Alignment(NamedTuple):
    """Outcome of aligning one follower."""

    differences: tuple[Difference, ...] = ()
    corrupt: tuple[CorruptPair, ...] = ()
    ahead: Batches = NO_BATCHES
    """Batches at or past the reference's end that its leadership does not contradict."""
    own: Batches = NO_BATCHES
    """Batches of the follower in the examined chunks, for counting what a truncation drops."""
    reference: Batches = NO_BATCHES
    own_unchecked: Batches = NO_BATCHES
    """Batches that only the follower has and whose checksums were never computed: they may differ only by damage."""
    reference_unchecked: Batches = NO_BATCHES
    """Unchecked batches of the reference below the follower's end that the follower lacks."""
    aborted: tuple[EndedApart, ...] = ()

    def split_by(self, offset: int) -> Batch | None:
        """Batch of the follower that spans a cut at `offset` and is dropped completely; None without one."""
        rest = self.own.above(offset)
        return rest[0] if rest and rest.starts[0] < offset else None

    def with_differences(self, differences: Iterable[Difference]) -> Alignment:
        """The alignment with these differences, in order, in place of its own."""
        return self._replace(differences=in_order(differences))


def align(
    reference: ReplicaFacts,
    follower: ReplicaFacts,
    past_end: Lineage,
    theirs: Batches,
    own: Batches,
    lineage: Lineage,
    own_lineage: Lineage,
) -> Alignment:
    """Align `follower` with `reference`, given their batches of every chunk whose digests differ.

    `past_end` is the reference's lineage from its log end on: a record there of an earlier epoch conflicts (F.0). `lineage` and
    `own_lineage` are those of the two logs and give the epochs of offsets that a cleaner emptied.
    """
    floor = shared_start(reference, follower)
    compacted = reference.compacted or follower.compacted
    unmatched, foreign = unmatched_batches(own, theirs, floor, compacted)
    unchecked = unmatched.unchecked, foreign.where(foreign.starts < follower.log_end_offset).unchecked
    blind, unmatched, foreign = changed_headers(reference, follower, unmatched, foreign)
    corrupt = [*blind, *changed_magic(reference, follower, own, theirs)]
    if not unmatched and not foreign:
        return Alignment((), tuple(corrupt), NO_BATCHES, own, theirs, *unchecked)
    alone = _alone(reference, unmatched, theirs)
    starts = np.maximum(unmatched.starts, floor)
    past = alone & (starts >= reference.log_end_offset)
    old = past & (unmatched.epochs >= 0) & (unmatched.epochs < _epochs_at(past_end, starts))
    lacking = alone & ~past & (not reference.compacted)
    conflicts, their_epochs, again = epoch_conflicts(unmatched, theirs)
    # By the index of their first batch.
    found = dict(_stretches("epoch", unmatched, conflicts, floor, their_epochs, again))
    found.update(_stretches("epoch", unmatched, old, floor))
    found.update(_stretches("hole_there", unmatched, lacking, floor))
    rest = ~(conflicts | past | lacking)
    for at, batch in zip(rest.nonzero()[0].tolist(), unmatched.where(rest), strict=True):
        others = theirs.overlapping(batch.base_offset, batch.end_offset)
        pair = damaged_pair(reference, follower, batch, others)
        if pair is not None:
            corrupt.append(pair)
            continue
        if not batch.crc_valid:
            continue
        readable = [other for other in others if other.crc_valid]
        start = max(batch.base_offset, floor)
        one = Batches.of((batch,))
        if readable:
            kind = _conflict_kind(batch, readable, compacted)
            if kind:
                leader = readable[0]
                same = kind == "epoch" and any(_is_same_content(batch, other) for other in readable)
                found[at] = Difference(
                    kind, start, batch.end_offset, leader.epoch, batch.epoch, one, written_again=same
                )
        elif others:
            continue
        elif _is_cleaned_away(reference, batch, start):
            had = _foreign_epoch(reference, lineage, batch, start, theirs)
            if had is not None:
                found[at] = Difference("epoch", start, batch.end_offset, had, batch.epoch, one)
        elif not reference.cannot_read(batch.base_offset, batch.end_offset):
            found[at] = Difference("hole_there", start, batch.end_offset, None, batch.epoch, one)
    differences = in_order((*(found[at] for at in sorted(found)), *_holes(follower, foreign, own, floor, own_lineage)))
    return Alignment(differences, tuple(corrupt), unmatched.where(past & ~old), own, theirs, *unchecked)


def _epochs_at(lineage: Lineage, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Epoch that wrote each of `offsets`; -1 below the first entry."""
    epochs, starts = zip(*((-1, -1), *lineage))
    return np.array(epochs)[np.searchsorted(starts, offsets, "right") - 1]


def unmatched_batches(own: Batches, theirs: Batches, floor: int, compacted: bool) -> tuple[Batches, Batches]:
    """(the follower's, the reference's) batches above `floor` that the other side lacks.

    Batches are the same if their bytes are; if `compacted`, if their range and leader epoch are, since each replica's cleaner
    writes its own bytes.
    """
    if own == theirs:
        return NO_BATCHES, NO_BATCHES

    def identity(batches: Batches) -> Columns:
        if compacted:
            return [*batches.columns("last_offset", "crc_valid"), batches.epochs]
        return batches.columns(*_IDENTITY)

    mine = identity(own)
    their = identity(theirs)
    return (
        own.where((own.ends > floor) & (find_rows(mine, their) < 0)),
        theirs.where((theirs.ends > floor) & (find_rows(their, mine) < 0)),
    )


def _conflict_kind(batch: Batch, others: list[Batch], compacted: bool) -> DifferenceKind | None:
    """Kind of conflict by batch headers (epoch, content or format); None if they are compatible."""
    epochs = [other.epoch for other in others]
    if batch.epoch is not None and any(epoch not in (None, batch.epoch) for epoch in epochs):
        return "epoch"
    is_mixed = any((epoch is None) != (batch.epoch is None) for epoch in epochs)
    if is_mixed or (batch.epoch is None and any(other.magic != batch.magic for other in others)):
        # Records were converted between formats or rewritten by the cleaner: only decoding can decide.
        return None if compacted else "format"
    return None if compacted and (batch.magic < 2 or batch.epoch is None) else "content"


def _is_same_content(batch: Batch, other: Batch) -> bool:
    """True if two batches differ only in their epoch, which is outside the checksum."""
    return all(getattr(batch, name) == getattr(other, name) for name in ("base_offset", *_CONTENT))


def _alone(facts: ReplicaFacts, batches: Batches, others: Batches) -> NDArray[np.bool_]:
    """Mask of the readable `batches` at whose offsets the log `facts`, which has `others`, is readable but empty. Between two segments
    of a compacted log a cleaner may have left nothing, or a file is missing."""
    low, high = others.overlaps(batches.starts, batches.ends)
    alone = batches.rows["crc_valid"] & (low >= high)
    for stretch in (*facts.unreadable, *(() if facts.compacted else facts.missing)):
        alone &= (batches.ends <= stretch.start_offset) | (batches.starts >= stretch.end_offset)
    return alone


def epoch_conflicts(
    batches: Batches, others: Batches
) -> tuple[NDArray[np.bool_], NDArray[np.int64], NDArray[np.bool_]]:
    """Find the epochs that replaced `batches` in the other log.

    Returns a mask of the `batches` at whose offsets the other log has only sound batches of one other epoch, that epoch, and a
    mask of those that are there unchanged except for the epoch.
    """
    low, high = others.overlaps(batches.starts, batches.ends)
    is_plain = others.rows["crc_valid"] & (others.epochs >= 0)
    # Running counts of the others that are unusable, and of those in another epoch than their predecessor or overlapping it: if
    # neither grows between two bounds, all others between them lie at a batch's offsets.
    odd = np.concatenate(([0], np.cumsum(~is_plain)))
    changes = (others.epochs[1:] != others.epochs[:-1]) | (others.starts[1:] < others.reach[:-1])
    breaks = np.concatenate(([0, 0], np.cumsum(changes)))
    conflicts = batches.rows["crc_valid"] & (batches.epochs >= 0) & (low < high)
    low = low[conflicts]
    high = high[conflicts]
    epochs = np.full(len(batches), -1)
    epochs[conflicts] = others.epochs[low]
    conflicts[conflicts] = (odd[high] == odd[low]) & (breaks[high] == breaks[low + 1])
    conflicts &= epochs != batches.epochs
    return conflicts, epochs, find_rows(batches.columns(*_CONTENT), others.columns(*_CONTENT)) >= 0


def _stretches(
    kind: DifferenceKind,
    batches: Batches,
    chosen: NDArray[np.bool_],
    floor: int,
    their_epochs: NDArray[np.int64] | None = None,
    again: NDArray[np.bool_] | None = None,
) -> Iterator[tuple[int, Difference]]:
    """Make differences of the `chosen` batches, each with the index of its first one; equal neighbours share one difference."""
    if not chosen.any():
        return
    starts = np.maximum(batches.starts, floor)
    ends = batches.ends
    own = batches.epochs
    theirs = np.full(len(batches), -1) if their_epochs is None else their_epochs
    again = np.zeros(len(batches), bool) if again is None else again
    # A batch that overlaps another is a difference of its own.
    single = np.zeros(len(batches), bool)
    single[1:] |= batches.starts[1:] < batches.reach[:-1]
    single[:-1] |= batches.starts[1:] < ends[:-1]
    together = np.where(single, np.arange(len(batches)), -1)
    for low, high in batches.stretches(chosen, own, theirs, again, together):
        part = batches[low : high + 1]
        epochs = or_none(theirs[low]), or_none(own[low])
        yield low, Difference(kind, int(starts[low]), int(ends[high]), *epochs, part, written_again=bool(again[low]))


def _holes(
    follower: ReplicaFacts, foreign: Batches, own: Batches, floor: int, lineage: Lineage
) -> Iterator[Difference]:
    """Batches of the reference within the follower's range at whose offsets the follower has none, unless its cleaner removed them.

    If the cleaner removed batches of another epoch, they are known to be other records.
    """
    absent = _alone(follower, foreign, own) & (foreign.ends <= follower.log_end_offset)
    for batch in foreign.where(absent):
        start = max(batch.base_offset, floor)
        if not _is_cleaned_away(follower, batch, start):
            if not follower.cannot_read(batch.base_offset, batch.end_offset):
                yield Difference("hole_here", start, batch.end_offset, batch.epoch, None, NO_BATCHES)
        elif (had := _foreign_epoch(follower, lineage, batch, start, own)) is not None:
            yield Difference("epoch", start, batch.end_offset, batch.epoch, had, NO_BATCHES)


def _is_cleaned_away(facts: ReplicaFacts, batch: Batch, start: int) -> bool:
    """True if compaction may have removed the other side's `batch` from `start` on in `facts`."""
    return facts.compacted and (batch.record_count == 0 or facts.may_be_cleaned(start, batch.end_offset))


def _foreign_epoch(facts: ReplicaFacts, lineage: Lineage, batch: Batch, start: int, batches: Batches) -> int | None:
    """Leader epoch that `facts` certainly had at `start`, if different from that of the other side's `batch`; else None.

    If so, the cleaner of `facts` removed another record there, and `batch` was never in that log. Only `batches`, those of
    `facts`, are evidence: the epoch file of a replica that fetched a cleaned log knows no more. An epoch later than
    `batch`'s is certain from its first batch on. An earlier one is certain only below a batch of itself or of an epoch in
    between, since the next epoch may have started before the first batch that the cleaner left.
    """
    epochs = [epoch for epoch, _ in facts.epoch_starts]
    if batch.epoch is None or not batch.record_count or epochs != sorted(epochs):
        return None
    epoch = lineage.epoch_for_offset(start)
    if epoch is None or epoch == batch.epoch:
        return None
    later = batches.epochs[batches.starts >= batch.end_offset]
    return epoch if epoch > batch.epoch or ((later >= 0) & (later < batch.epoch)).any() else None
