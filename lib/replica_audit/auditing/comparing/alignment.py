"""Two replicas laid side by side, offset by offset, from the batches of the chunks whose digests differ.

The unit is the follower's batch: it agrees when the reference has the very same one, conflicts when the reference has
other records there (or wrote past it in a later epoch), and is otherwise ahead, missing on the reference, or cannot be
compared. Compacted logs are compared by epoch and batch range only, and absence means nothing where cleaners may have
been (F.0).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from replica_audit.auditing.comparing.damaged_pairs import CorruptPair, changed_headers, changed_magic, damaged_pair
from replica_audit.auditing.replicas.shared_range import shared_start
from replica_audit.closed_sets import DifferenceKind
from replica_audit.model import OffsetRange
from replica_audit.protocol.lineage import Lineage

if TYPE_CHECKING:
    from replica_audit.auditing.replicas.facts import ReplicaFacts
    from replica_audit.batch_header import Batch

_NO_LINEAGE = Lineage()


#: Kinds of differences that are other records at the same offsets.
CONFLICTS = ("epoch", "content")


@dataclass(frozen=True, slots=True)
class Difference:
    """A stretch where the two differ, before runs are made of it.

    `kind`: epoch, content, hole_here, hole_there; batching and format where the records are equal or were not read.
    """

    kind: DifferenceKind
    start_offset: int
    end_offset: int
    leader_epoch: int | None
    replica_epoch: int | None
    batches: tuple[Batch, ...]
    """The follower's; empty where it has none."""
    compared: bool = False
    """Records were decoded to tell."""
    written_again: bool = False
    """The reference has the very same batch in another epoch: its producer sent it again to another leader."""
    twin: Batch | None = None
    """The reference's batch, where it lies at another offset."""

    @property
    def conflicting(self) -> bool:
        """Other records at the same offsets, and not a hole or another way to store them."""
        return self.kind in CONFLICTS


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


def align(
    reference: ReplicaFacts,
    follower: ReplicaFacts,
    leader_epoch: int | None,
    reference_batches: Iterable[Batch],
    follower_batches: Iterable[Batch],
    lineage: Lineage = _NO_LINEAGE,
) -> Alignment:
    """Lay `follower` beside `reference`, given their batches of every chunk whose digests differ.

    `leader_epoch` is the current one: a record past the reference's end that is older than it conflicts (F.0). `lineage`
    is the reference's: where its cleaner left nothing, it tells the epoch.
    """
    theirs, own = tuple(reference_batches), tuple(follower_batches)
    floor = shared_start(reference, follower)
    compacted = reference.compacted or follower.compacted
    differences: list[Difference] = []
    corrupt: list[CorruptPair] = []
    ahead: list[Batch] = []
    unmatched, foreign = unmatched_batches(own, theirs, floor, compacted)
    blind, unmatched, foreign = changed_headers(reference, follower, unmatched, foreign)
    corrupt.extend((*blind, *changed_magic(reference, follower, own, theirs)))
    starts = [batch.base_offset for batch in theirs]
    longest = max((batch.end_offset - batch.base_offset for batch in theirs), default=0)
    for batch in unmatched:
        # Batches of the reference that overlap: those that begin no more than the longest batch before this one.
        first = bisect_left(starts, batch.base_offset - longest)
        others = [
            other
            for other in theirs[first : bisect_left(starts, batch.end_offset)]
            if other.end_offset > batch.base_offset
        ]
        pair = damaged_pair(reference, follower, batch, others)
        if pair is not None:
            corrupt.append(pair)
            continue
        if not batch.crc_valid:
            continue
        readable = [other for other in others if other.crc_valid]
        start = max(batch.base_offset, floor)
        if readable:
            kind = _conflict_kind(batch, readable, compacted)
            if kind:
                leader = readable[0]
                again = kind == "epoch" and any(_is_same_content(batch, other) for other in readable)
                differences.append(
                    Difference(kind, start, batch.end_offset, leader.epoch, batch.epoch, (batch,), written_again=again)
                )
        elif others or reference.cannot_read(batch.base_offset, batch.end_offset):
            continue
        elif start >= reference.log_end_offset:
            if batch.epoch is not None and leader_epoch is not None and batch.epoch < leader_epoch:
                differences.append(Difference("epoch", start, batch.end_offset, None, batch.epoch, (batch,)))
            else:
                ahead.append(batch)
        elif _is_cleaned_away(reference, batch, start):
            had = _foreign_epoch(reference, lineage, batch, start, theirs)
            if had is not None:
                differences.append(Difference("epoch", start, batch.end_offset, had, batch.epoch, (batch,)))
        else:
            differences.append(Difference("hole_there", start, batch.end_offset, None, batch.epoch, (batch,)))
    differences.extend(_holes(follower, foreign, own, floor))
    differences.sort(key=lambda item: (item.start_offset, item.end_offset))
    return Alignment(tuple(differences), tuple(corrupt), tuple(ahead), own, theirs)


def unmatched_batches(
    own: tuple[Batch, ...], theirs: tuple[Batch, ...], floor: int, compacted: bool
) -> tuple[list[Batch], list[Batch]]:
    """Batches above `floor` that the other side does not have: the follower's, the reference's.

    The same batch is one of the same bytes; where `compacted`, one of the same range and leader epoch, since each
    replica's cleaner writes its own bytes.
    """

    def identity(batch: Batch) -> tuple:
        if compacted:
            return batch.base_offset, batch.last_offset, batch.epoch, batch.crc_valid
        return batch.base_offset, batch.last_offset, batch.leader_epoch, batch.crc, batch.size, batch.crc_valid

    mine, their = {identity(batch) for batch in own}, {identity(batch) for batch in theirs}
    return (
        [batch for batch in own if batch.end_offset > floor and identity(batch) not in their],
        [batch for batch in theirs if batch.end_offset > floor and identity(batch) not in mine],
    )


def _conflict_kind(batch: Batch, others: list[Batch], compacted: bool) -> DifferenceKind | None:
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


def _is_same_content(batch: Batch, other: Batch) -> bool:
    """Whether two batches differ in nothing but their epoch, which their checksums do not cover."""
    names = ("base_offset", "last_offset", "magic", "crc", "size")
    return all(getattr(batch, name) == getattr(other, name) for name in names)


def _holes(follower: ReplicaFacts, foreign: list[Batch], own: tuple[Batch, ...], floor: int) -> Iterator[Difference]:
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
        start = max(batch.base_offset, floor)
        if not _is_cleaned_away(follower, batch, start):
            yield Difference("hole_here", start, batch.end_offset, batch.epoch, None, ())


def _is_cleaned_away(facts: ReplicaFacts, batch: Batch, start: int) -> bool:
    """Whether compaction may be why `facts` has nothing of the other side's `batch` from `start` on."""
    return facts.compacted and (batch.record_count == 0 or facts.may_be_cleaned(start, batch.end_offset))


def _foreign_epoch(
    facts: ReplicaFacts, lineage: Lineage, batch: Batch, start: int, batches: tuple[Batch, ...]
) -> int | None:
    """The epoch that `facts` was in at `start`, where that is certainly not the one of the other side's `batch` of records.

    Then its cleaner removed another record there, and this one was never on that log. `batches` are those of `facts`. They
    tell of a later epoch from its first batch on, but of an earlier one only below a batch of it or of one between: an
    epoch began before where the cleaner left its first batch. The epoch file of a replica that fetched a log that was
    cleaned already says no more than the batches.
    """
    epochs = [epoch for epoch, _ in facts.epoch_starts]
    if batch.epoch is None or not batch.record_count or epochs != sorted(epochs):
        return None
    epoch = lineage.epoch_for_offset(start)
    if epoch is None or epoch == batch.epoch:
        return None
    return epoch if epoch > batch.epoch or _is_followed_by(batch, batches, batch.epoch) else None


def _is_followed_by(batch: Batch, batches: tuple[Batch, ...], below: int) -> bool:
    """Whether a batch of an epoch below `below` comes after `batch`."""
    later = batches[bisect_left(batches, batch.end_offset, key=lambda one: one.base_offset) :]
    return any(one.epoch is not None and one.epoch < below for one in later)


def conflicting_ranges(differences: Iterable[Difference]) -> tuple[OffsetRange, ...]:
    """Contiguous stretches of conflicting records (not holes), touching ones joined: what a checkpoint proves by (F.0)."""
    stretches: list[OffsetRange] = []
    for item in differences:
        if not item.conflicting:
            continue
        if stretches and item.start_offset <= stretches[-1].end_offset:
            last = stretches.pop()
            stretches.append(OffsetRange(last.start_offset, max(last.end_offset, item.end_offset)))
        else:
            stretches.append(OffsetRange(item.start_offset, item.end_offset))
    return tuple(stretches)
