"""The records of each replica of a partition, as ranges that are counted once however many replicas hold them.

A record is proven committed as in the audit: below the proven high watermark in a log that agrees with the reference, else by
its divergent range (docs/semantics.md F.0). It is possibly committed if the bounds of the high watermark, or the promise of
acks=all, leave that open.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from replica_audit.auditing.case import Case
from replica_audit.auditing.compare.comparison import Comparison
from replica_audit.auditing.compare.distinct_records import (
    ByIdentity,
    Count,
    RecordRange,
    by_identity,
    count_beyond,
    has_data,
    piece_of,
)
from replica_audit.auditing.compare.divergent_ranges import DivergentRange
from replica_audit.auditing.compare.loaded_batches import tally_from
from replica_audit.auditing.compare.loss import committed_ahead
from replica_audit.auditing.compare.remote_storage import epoch_parts
from replica_audit.auditing.compare.replays import replay_lineage
from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
from replica_audit.batch_header import Batch, or_absent
from replica_audit.model import ChunkDigest, OffsetRange, OffsetSet, OpenTransaction, span_of
from replica_audit.protocol.versions import keeps_committed
from replica_audit.segments.batch_rows import Batches, Tally, find_rows
from replica_audit.segments.open_transactions import marker_of, next_part


class CommittedRange(NamedTuple):
    """A range of records, with the offset below which they may have been committed (`committed_end`: proven committed).

    Consecutive batches with a record at every offset, the same epoch and the same marks form one range.
    """

    piece: RecordRange
    possible_end: int
    leader_epoch: int | None
    is_ahead: bool = False
    """True past the reference's end, where its leadership does not contradict the records."""
    place: tuple[int, int] | None = None
    """[start, end) in the replica's own log, if `piece` uses the reference's offsets of the same records."""

    @property
    def span(self) -> OffsetRange:
        return OffsetRange(self.piece.start_offset, self.piece.end_offset)

    @property
    def is_plain(self) -> bool:
        """True if the range is counted by its offsets alone, so that it may be joined or cut."""
        return self.piece.dense and self.piece.exact and self.leader_epoch is not None and self.place is None

    def follows(self, before: CommittedRange) -> bool:
        """True if this continues `before`."""
        marks = (self.possible_end, self.leader_epoch, self.is_ahead, self.piece.committed_end, self.piece.identity)
        other = before.piece
        return (
            self.is_plain
            and before.is_plain
            and other.end_offset == self.piece.start_offset
            and marks
            == (before.possible_end, before.leader_epoch, before.is_ahead, other.committed_end, other.identity)
        )

    @property
    def own_span(self) -> OffsetRange:
        """Its offsets in the replica's own log."""
        return self.span if self.place is None else OffsetRange(*self.place)

    def above(self, offset: int) -> CommittedRange | None:
        """The part from `offset` on, or the whole range if it cannot be cut; None if it ends before `offset`."""
        if self.piece.end_offset <= offset:
            return None
        cut = self.is_plain and self.piece.start_offset < offset
        return self.between(offset, self.piece.end_offset) if cut else self

    def unproven(self) -> CommittedRange:
        """A copy with no record counted as proven committed."""
        possible_end = max(self.possible_end, self.piece.committed_end)
        return CommittedRange(self.piece.committed_to(-1), possible_end, self.leader_epoch, self.is_ahead)

    def between(self, start: int, end: int) -> CommittedRange:
        """The part in [start, end) of a plain range."""
        return CommittedRange(self.piece.between(start, end), self.possible_end, self.leader_epoch, self.is_ahead)


@dataclass(frozen=True, slots=True)
class TransactionPart:
    """A batch of a transaction's data, or its marker."""

    batch: Batch
    marker: Batch | None
    """The transaction's end, here or in a later batch that is dropped too."""
    is_possible: bool
    """True if it may have been committed."""
    is_ahead: bool
    """`is_ahead` of the `CommittedRange`."""
    was_open: bool
    """True if the transaction had begun below the cut, where the two logs are alike."""


@dataclass(frozen=True, slots=True)
class ReplicaRecords:
    """The records of one replica in which replicas may differ."""

    case: Case
    facts: ReplicaFacts
    batches: Batches
    """Batches of the chunks in `loaded`."""
    loaded: frozenset[int]
    marked: tuple[CommittedRange, ...]
    """Ranges in order of offset."""
    places: Places

    def dropped(self, truncate_to: int) -> Tally:
        """The batches that truncation drops: all that reach past the cut."""
        return tally_from(self.facts, self._first_dropped(truncate_to), self.batches, self.loaded)

    def parted(self, truncate_to: int) -> tuple[list[CommittedRange], list[CommittedRange]]:
        """(kept, dropped) of the ranges; a batch across the cut is dropped whole."""
        first = self._first_dropped(truncate_to)
        at = int(self.batches.reach.searchsorted(first, side="right"))
        edge = min(first, int(self.batches.starts[at])) if at < len(self.batches) else first
        kept = []
        dropped = []
        for item in self.marked:
            start, end = item.own_span
            if end <= edge:
                kept.append(item)
            elif start >= edge or not item.is_plain:
                dropped.append(item)
            else:
                kept.append(item.between(start, edge))
                dropped.append(item.between(edge, end))
        return kept, dropped

    def cut_part(self, transaction: OpenTransaction, truncate_to: int) -> TransactionPart | None:
        """The first part of a transaction that truncation drops; None if there is none. For a transaction that begins above the
        cut, in the other log, this is the marker."""
        first = self._first_dropped(truncate_to)
        own = self.batches
        dropped = own.where((own.ends > first) & (own.rows["producer_id"] == transaction.producer_id))
        marker = marker_of(transaction, dropped)
        was_open = transaction.first_offset < first
        batch = next_part(transaction, dropped) if was_open else marker
        if batch is None:
            return None
        at = next(iter(find_rows(Batches.of((batch,)).columns(*_PLACE), own.columns(*_PLACE)).tolist()))
        parts = list(_marked(self.case, self.facts, batch, self.places.runs_at(at), bool(self.places.ahead[at])))
        is_possible = any(one.possible_end > one.piece.start_offset for one in parts)
        return TransactionPart(batch, marker, is_possible, any(one.is_ahead for one in parts), was_open)

    def _first_dropped(self, truncate_to: int) -> int:
        return max(truncate_to, self.facts.log_start_offset)


#: Besides its base offset, the columns that identify a batch in its log, however it was read.
_PLACE = ("last_offset", "position")


@dataclass(frozen=True, slots=True)
class Places:
    """The result of a comparison for each batch of a replica; arrays are parallel to the batches."""

    runs: Sequence[DivergentRange]
    run: NDArray[np.int64]
    """Index of the run that it is part of; -1: none, -2: several."""
    several: Mapping[int, Sequence[DivergentRange]]
    """The runs of each batch that is in several, by the batch's index."""
    again: NDArray[np.int64]
    """Index of the run in which it was written again; -1: none."""
    ahead: NDArray[np.bool_]
    """Mask of batches past the reference's end that its leadership does not contradict."""

    @classmethod
    def of(cls, item: Comparison | None, batches: Batches) -> Places:
        """Comparison results of a follower's `batches`; empty for the reference itself, which has no comparison."""
        runs = () if item is None else item.runs
        place = batches.columns(*_PLACE)
        run = np.full(len(batches), -1)
        again = np.full(len(batches), -1)
        ahead = np.zeros(len(batches), bool)
        several: dict[int, list[DivergentRange]] = {}
        for number, one in enumerate(runs):
            inside = _are_among(place, one.batches)
            for twice in (inside & (run != -1)).nonzero()[0].tolist():
                several.setdefault(twice, [runs[run[twice]]]).append(one)
            run[inside] = np.where(run[inside] == -1, number, -2)
            again[_are_among(place, one.written_again)] = number
        if item is not None:
            ahead = _are_among(place, item.alignment.ahead)
        return cls(runs, run, several, again, ahead)

    def runs_at(self, at: int) -> Sequence[DivergentRange]:
        """The divergent ranges that a batch is part of, in order."""
        number = self.run[at]
        if number == -2:
            return self.several[at]
        return () if number == -1 else (self.runs[number],)


def _are_among(place: Sequence[NDArray[np.int64]], batches: Batches) -> NDArray[np.bool_]:
    """Mask of a replica's batches, identified by `place`, that are among `batches`."""
    return find_rows(place, Batches.in_order(batches.rows).columns(*_PLACE)) >= 0


def holding(case: Case, facts: ReplicaFacts, batches: Batches, loaded: frozenset[int]) -> ReplicaRecords:
    """The records of one replica of a case, given its batches of the chunks `loaded`."""
    item = case.comparison_of(facts)
    places = Places.of(item, batches)
    twins = {} if item is None else _twins(item)
    marked = list(_pieces(case, facts, batches, places, twins))
    marked += [
        item
        for number, chunk in facts.chunks.items()
        if number not in loaded and chunk.record_count and chunk.last_offset >= facts.log_start_offset
        for item in _of_chunk(case, facts, chunk)
    ]
    marked.sort(key=lambda one: one.piece.start_offset)
    # A cleaner leaves parts of batches, so in compacted logs each is looked up by itself.
    return ReplicaRecords(case, facts, batches, loaded, tuple(marked if facts.compacted else _joined(marked)), places)


def _pieces(
    case: Case, facts: ReplicaFacts, batches: Batches, places: Places, twins: Mapping[tuple[int, int, int], Batch]
) -> Iterator[CommittedRange]:
    """The ranges of a replica's batches, from the log start on; consecutive batches with the same marks form one."""
    known = _as_written_again(batches, places)
    odd = places.ahead | (places.run == -2) | np.isin(batches.starts, [base for base, _, _ in twins])
    for number, run in enumerate(places.runs):
        inside = (batches.starts >= run.start_offset) & (batches.ends <= run.end_offset) & (run.kind != "content")
        odd |= (places.run == number) & ~inside
    plain = known.is_plain & ~odd & (not facts.compacted)
    chosen = known.data & (batches.ends > facts.log_start_offset)
    # A batch that is not plain forms one or more ranges of its own.
    single = np.where(plain, -1, np.arange(len(batches)))
    for low, high in known.stretches(chosen | odd, known.epochs, places.run, single):
        if plain[low]:
            within = next(iter(places.runs_at(low)), None)
            start = max(int(batches.starts[low]), facts.log_start_offset)
            marks = (
                case.committed_in(within) if within is not None and within.conflicting else _shared(case, facts, start)
            )
            first = _piece(facts, known[low], start, int(batches.ends[low]), *marks)
            yield first.between(start, int(batches.ends[high]))
            continue
        own = batches[low]
        twin = twins.get(_key(own))
        batch = known[low] if twin is None else twin._replace(position=own.position)
        if has_data(batch) and own.end_offset > facts.log_start_offset:
            place = None if twin is None else (own.base_offset, own.end_offset)
            is_here = _key(batch) == _key(own)
            runs, is_ahead = (places.runs_at(low), bool(places.ahead[low])) if is_here else ((), False)
            for one in _marked(case, facts, batch, runs, is_ahead):
                yield one._replace(place=place)


def _twins(item: Comparison) -> dict[tuple[int, int, int], Batch]:
    """The reference's batch for each of the follower's batches that is the same at another offset or in another epoch: its
    producer sent it again, or its header was changed on the follower's disk."""
    found = {_key(part.batches[0]): part.twin for part in item.alignment.differences if part.twin is not None}
    for pair in item.alignment.corrupt:
        if pair.odd is not None and pair.right is not None and pair.bad_broker_id == item.follower.broker_id:
            found[_key(pair.odd)] = pair.right
    return found


def _as_written_again(batches: Batches, places: Places) -> Batches:
    """The batches, with the reference's epoch where it rewrote the same records in its own: each counts as one record, whoever leads."""
    again = places.again >= 0
    if not again.any():
        return batches
    rows = batches.rows.copy()
    rows["leader_epoch"][again] = [or_absent(places.runs[number].leader_epoch) for number in places.again[again]]
    return Batches(rows)


def _joined(marked: Iterable[CommittedRange]) -> Iterator[CommittedRange]:
    same: list[CommittedRange] = []
    for item in marked:
        if same and not item.follows(same[-1]):
            yield _join(same)
            same = []
        same.append(item)
    if same:
        yield _join(same)


def _join(items: Sequence[CommittedRange]) -> CommittedRange:
    first = items[0]
    last = items[-1]
    return first if first is last else first.between(first.piece.start_offset, last.piece.end_offset)


def _key(batch: Batch) -> tuple[int, int, int]:
    return batch.base_offset, batch.last_offset, batch.position


def _marked(
    case: Case, facts: ReplicaFacts, batch: Batch, runs: Sequence[DivergentRange], is_ahead: bool
) -> Iterator[CommittedRange]:
    """A batch from the log start on, in pieces: the parts shared with the reference, and those of runs, in order."""
    start = max(batch.base_offset, facts.log_start_offset)
    if is_ahead:
        yield _piece(facts, batch, start, batch.end_offset, *_of_ahead(case, facts, batch))._replace(is_ahead=True)
        return
    for run in runs:
        begin = max(start, run.start_offset)
        end = min(batch.end_offset, run.end_offset)
        if start < begin:
            yield _piece(facts, batch, start, begin, *_shared(case, facts, start, batch.epoch))
        if begin < end:
            marks = case.committed_in(run) if run.conflicting else _shared(case, facts, begin, batch.epoch)
            part = _piece(facts, batch, begin, end, *marks)
            yield _as_other(part, facts) if run.kind == "content" else part
        start = max(start, end)
    if start < batch.end_offset:
        yield _piece(facts, batch, start, batch.end_offset, *_shared(case, facts, start, batch.epoch))


def _as_other(part: CommittedRange, facts: ReplicaFacts) -> CommittedRange:
    """Mark records as different from the reference's at the same offsets and epoch: the batch's CRC identifies them, except in
    compacted logs, where every cleaner writes its own batches."""
    piece = part.piece
    return part._replace(piece=piece._replace(identity=(*piece.identity, 0 if facts.compacted else piece.crc)))


def _piece(
    facts: ReplicaFacts, batch: Batch, start: int, end: int, committed_end: int, possible_end: int
) -> CommittedRange:
    piece = piece_of(facts.key, batch, start, end, committed_end)
    return CommittedRange(piece, max(possible_end, committed_end), batch.epoch)


def _shared(case: Case, facts: ReplicaFacts, start: int, leader_epoch: int | None = None) -> tuple[int, int]:
    """(proven, possible) committed ends for records from `start` on that are in no run. They belong to the
    reference's history, with two exceptions: below its log start that may be unproven, and where its cleaner has
    been it may have another epoch now, and no batch of theirs."""
    mark = case.high_watermark
    item = case.comparison_of(facts)
    part = None if item is None else item.unproven_below_start
    proven = mark.proven_lower if part is None or start >= part.end_offset else part.start_offset
    if leader_epoch is not None and _has_other_epoch(case.reference.facts, start, leader_epoch):
        proven = start
    if mark.hw_upper is None or not keeps_committed(case.options.protocol):
        return proven, case.reference.facts.log_end_offset
    return proven, max(mark.hw_upper, mark.proven_lower)


def _has_other_epoch(facts: ReplicaFacts, start: int, leader_epoch: int) -> bool:
    known = replay_lineage(facts, tiered=False).epoch_for_offset(start) if facts.compacted else None
    return known not in (None, leader_epoch)


def _of_ahead(case: Case, facts: ReplicaFacts, batch: Batch) -> tuple[int, int]:
    """`_shared` for records past the reference's end."""
    committed = committed_ahead(case.reference.facts, facts)
    item = case.comparison_of(facts)
    tail = None if item is None else item.never_committed
    return committed, committed if tail is not None and batch.base_offset >= tail.start_offset else batch.end_offset


def _of_chunk(case: Case, facts: ReplicaFacts, chunk: ChunkDigest) -> Iterator[CommittedRange]:
    """A chunk that is equal in every replica that has it; by its epochs if remote storage may have the same records, too."""
    committed, possible = _shared(case, case.reference.facts, chunk.base_offset)
    end = chunk.last_offset + 1
    piece = RecordRange(
        facts.key,
        ("chunk", chunk.chunk, chunk.digest),
        chunk.base_offset,
        end,
        chunk.record_count,
        committed,
        chunk.digest,
        exact=True,
    )
    one = CommittedRange(piece, max(possible, committed), None)
    parts = list(epoch_parts(facts.lineage, chunk.base_offset, end)) if case.remote.segments and piece.dense else []
    if not parts or parts[0][0] > chunk.base_offset:
        yield one
        return
    for first, last, epoch in parts:
        of_epoch = one.between(first, last)
        yield of_epoch._replace(piece=of_epoch.piece._replace(identity=(epoch,)), leader_epoch=epoch)


def as_possible(items: Iterable[CommittedRange]) -> Iterator[RecordRange]:
    """The ranges with possibly committed records counted as proven."""
    return (item.piece.committed_to(item.possible_end) for item in items)


def count_ranges(items: Iterable[CommittedRange], held: ByIdentity = MappingProxyType({})) -> tuple[Count, bool]:
    """`count_beyond` of ranges."""
    return count_beyond((item.piece for item in items), held)


def number_beyond(items: Iterable[CommittedRange], held: ByIdentity) -> int:
    """Number of distinct records of `items` that none of `held` has."""
    return count_ranges(items, held)[0].records


def span_beyond(items: Sequence[CommittedRange], held: ByIdentity) -> OffsetRange:
    """From the first to the last record of `items` that none of `held` has, in the replica's own log; `number_beyond` must not be 0.

    A range that cannot be cut counts whole, unless a range of `held` has all its offsets. Where numbers of records alone tell
    that some are missing, this spans all of `items`.
    """
    dense: dict[tuple, OffsetSet] = {}
    missing: list[OffsetRange] = []
    for item in items:
        identity = item.piece.identity
        if identity not in dense:
            same = held.get(identity, ())
            dense[identity] = OffsetSet.of(OffsetRange(one.start_offset, one.end_offset) for one in same if one.dense)
        left = dense[identity].missing_from([item.span])
        if left:
            missing += left if item.is_plain else [item.own_span]
    return span_of(missing or [item.own_span for item in items])


def ranges_by_identity(items: Iterable[CommittedRange]) -> ByIdentity:
    """Group ranges by identity."""
    return by_identity(item.piece for item in items)
