"""What each replica of a partition holds, as pieces that are counted once however many hold them, and what is committed.

A record is proven committed by what proves it in the audit: below the proven high watermark where a log is the
reference's, else by its run (docs/semantics.md F.0). It is possibly committed where the bounds of the high watermark, or
what acks=all promised, leave that open.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from replica_audit.auditing.comparing.chunks import Tally, tally_from
from replica_audit.auditing.comparing.comparison import Comparison
from replica_audit.auditing.comparing.loss import Piece, committed_ahead, has_data, piece_of
from replica_audit.auditing.comparing.runs import Run
from replica_audit.auditing.findings.case import Case
from replica_audit.auditing.replicas.facts import ReplicaFacts
from replica_audit.batch_header import TRANSACTIONAL, Batch, or_absent
from replica_audit.formats.segments.open_transactions import next_part
from replica_audit.model import ChunkDigest, OpenTransaction
from replica_audit.protocol.versions import keeps_committed


@dataclass(frozen=True, slots=True)
class Marked:
    """A piece, and how far its records may have been committed at most (its `committed_end` is what is proven).

    Batches that follow each other with a record at every offset, one epoch and the same marks are one piece.
    """

    piece: Piece
    possible_end: int
    leader_epoch: int | None
    is_ahead: bool = False
    """Past the reference's end, and its leadership does not contradict it."""
    place: tuple[int, int] | None = None
    """[start, end) in the replica's own log, where the piece has the offsets that the reference has its records at."""

    @property
    def is_plain(self) -> bool:
        """Whether the piece is counted by its offsets alone, so that it may be joined with the next, or cut."""
        return self.piece.dense and self.piece.exact and self.leader_epoch is not None and self.place is None

    def follows(self, before: Marked) -> bool:
        """Whether this is the continuation of `before`."""
        marks = (self.possible_end, self.leader_epoch, self.is_ahead, self.piece.committed_end, self.piece.identity)
        other = before.piece
        return (
            self.is_plain
            and before.is_plain
            and other.end_offset == self.piece.start_offset
            and marks
            == (before.possible_end, before.leader_epoch, before.is_ahead, other.committed_end, other.identity)
        )

    def above(self, offset: int) -> Marked | None:
        """The part from `offset` on, of a piece that cannot be cut all of it; None where nothing reaches so far."""
        if self.piece.end_offset <= offset:
            return None
        cut = self.is_plain and self.piece.start_offset < offset
        return self.between(offset, self.piece.end_offset) if cut else self

    def unproven(self) -> Marked:
        """The same with nothing proven of it: all of it may be lost, and may not."""
        possible_end = max(self.possible_end, self.piece.committed_end)
        return Marked(self.piece.committed_to(-1), possible_end, self.leader_epoch, self.is_ahead)

    def between(self, start: int, end: int) -> Marked:
        """The part in [start, end) of a piece that is plain."""
        return Marked(self.piece.between(start, end), self.possible_end, self.leader_epoch, self.is_ahead)


@dataclass(frozen=True, slots=True)
class TransactionPart:
    """A batch of a transaction, of its data or its marker."""

    batch: Batch
    is_possible: bool
    """It may have been committed."""
    is_ahead: bool
    """As in `Marked`."""


@dataclass(frozen=True, slots=True)
class Holding:
    """One replica's records, as far as replicas may differ in them."""

    facts: ReplicaFacts
    batches: tuple[Batch, ...]
    """Of the chunks in `loaded`."""
    loaded: frozenset[int]
    marked: tuple[Marked, ...]
    """In order of offset."""
    transactional: tuple[TransactionPart, ...] = ()
    """Of `batches` those of transactions, markers too."""
    _ends: tuple[int, ...] = ()
    """Ends of `batches`, none below one before it."""

    def dropped(self, truncate_to: int) -> Tally:
        """What truncation drops: every batch that reaches past the cut."""
        return tally_from(self.facts, self._first_dropped(truncate_to), self.batches, self.loaded)

    def parted(self, truncate_to: int) -> tuple[list[Marked], list[Marked]]:
        """(kept, dropped) of the pieces: a batch that the cut goes through is dropped whole."""
        first = self._first_dropped(truncate_to)
        at = bisect_right(self._ends, first)
        edge = min(first, self.batches[at].base_offset) if at < len(self.batches) else first
        kept, dropped = [], []
        for item in self.marked:
            start, end = item.place or (item.piece.start_offset, item.piece.end_offset)
            if end <= edge:
                kept.append(item)
            elif start >= edge or not item.is_plain:
                dropped.append(item)
            else:
                kept.append(item.between(start, edge))
                dropped.append(item.between(edge, end))
        return kept, dropped

    def cut_part(self, transaction: OpenTransaction, truncate_to: int) -> TransactionPart | None:
        """The first part of a transaction that truncation drops, where it was open at the cut; else None."""
        first = self._first_dropped(truncate_to)
        if transaction.first_offset >= first:
            return None
        dropped = {part.batch: part for part in self.transactional if part.batch.end_offset > first}
        batch = next_part(transaction, dropped)
        return None if batch is None else dropped[batch]

    def _first_dropped(self, truncate_to: int) -> int:
        return max(truncate_to, self.facts.log_start_offset)


def holding(case: Case, facts: ReplicaFacts, batches: Sequence[Batch], loaded: frozenset[int]) -> Holding:
    """The holding of one of a case's replicas, given its batches of the chunks `loaded`."""
    item = next((one for one in (*case.comparisons, *case.beside) if one.follower is facts), None)
    # A batch stands in a comparison as it was read there: its place in the log tells it from all others.
    runs = defaultdict(list)
    for run in () if item is None else item.runs:
        for batch in run.batches:
            runs[_key(batch)].append(run)
    again = {} if item is None else {_key(batch): run for run in item.runs for batch in run.written_again}
    twins = {} if item is None else _twins(item)
    ahead = set() if item is None else {_key(batch) for batch in item.alignment.ahead}
    marked = []
    for own in batches:
        twin = twins.get(_key(own))
        batch = _as_written_again(own, again.get(_key(own)), twin)
        if has_data(batch) and own.end_offset > facts.log_start_offset:
            parts = _marked(case, facts, batch, runs.get(_key(batch), ()), _key(batch) in ahead)
            place = None if twin is None else (own.base_offset, own.end_offset)
            marked += [replace(one, place=place) for one in parts]
    marked += [
        _of_chunk(case, facts, chunk)
        for number, chunk in facts.chunks.items()
        if number not in loaded and chunk.record_count and chunk.last_offset >= facts.log_start_offset
    ]
    marked.sort(key=lambda one: (one.piece.start_offset, one.piece.end_offset))
    ends = tuple(accumulate((batch.end_offset for batch in batches), max))
    # A cleaner leaves parts of batches: of compacted logs each is asked for by itself.
    transactional = tuple(
        _transaction_part(_marked(case, facts, batch, runs.get(_key(batch), ()), _key(batch) in ahead), batch)
        for batch in batches
        if batch.magic >= 2 and batch.attributes & TRANSACTIONAL
    )
    return Holding(
        facts, tuple(batches), loaded, tuple(marked if facts.compacted else _joined(marked)), transactional, ends
    )


def _twins(item: Comparison) -> dict[tuple[int, int, int], Batch]:
    """The reference's batch for each of the follower's that is the same at another offset or in another epoch: its producer
    sent it again, or its header was changed on the follower's disk.
    """
    found = {_key(part.batches[0]): part.twin for part in item.alignment.differences if part.twin is not None}
    for pair in item.alignment.corrupt:
        if pair.odd is not None and pair.right is not None and pair.bad_broker_id == item.follower.broker_id:
            found[_key(pair.odd)] = pair.right
    return found


def _transaction_part(marked: Iterable[Marked], batch: Batch) -> TransactionPart:
    parts = list(marked)
    is_possible = any(one.possible_end > one.piece.start_offset for one in parts)
    return TransactionPart(batch, is_possible, any(one.is_ahead for one in parts))


def _as_written_again(batch: Batch, run: Run | None, twin: Batch | None) -> Batch:
    """The batch as the reference has it, where it is the same: one record, whoever leads."""
    if twin is not None:
        return twin._replace(position=batch.position)
    return batch if run is None else batch._replace(leader_epoch=or_absent(run.leader_epoch))


def _joined(marked: Iterable[Marked]) -> Iterator[Marked]:
    same: list[Marked] = []
    for item in marked:
        if same and not item.follows(same[-1]):
            yield _join(same)
            same = []
        same.append(item)
    if same:
        yield _join(same)


def _join(items: Sequence[Marked]) -> Marked:
    first, last = items[0], items[-1]
    return first if first is last else first.between(first.piece.start_offset, last.piece.end_offset)


def _key(batch: Batch) -> tuple[int, int, int]:
    return batch.base_offset, batch.last_offset, batch.position


def _marked(case: Case, facts: ReplicaFacts, batch: Batch, runs: Sequence[Run], is_ahead: bool) -> Iterator[Marked]:
    """A batch from the log start on, in pieces: the parts that are the reference's, and those of runs, in order."""
    start = max(batch.base_offset, facts.log_start_offset)
    if is_ahead:
        yield replace(_piece(facts, batch, start, batch.end_offset, *_of_ahead(case, facts, batch)), is_ahead=True)
        return
    for run in runs:
        begin, end = max(start, run.start_offset), min(batch.end_offset, run.end_offset)
        if start < begin:
            yield _piece(facts, batch, start, begin, *_shared(case))
        if begin < end:
            part = _piece(facts, batch, begin, end, *(case.committed_in(run) if run.conflicting else _shared(case)))
            yield _as_other(part, facts) if run.kind == "content" else part
        start = max(start, end)
    if start < batch.end_offset:
        yield _piece(facts, batch, start, batch.end_offset, *_shared(case))


def _as_other(part: Marked, facts: ReplicaFacts) -> Marked:
    """Records that are not those of the reference, though their offsets and epoch are: the bytes tell them apart, and
    every cleaner writes its own.
    """
    piece = part.piece
    return replace(part, piece=replace(piece, identity=(*piece.identity, 0 if facts.compacted else piece.crc)))


def _piece(facts: ReplicaFacts, batch: Batch, start: int, end: int, committed_end: int, possible_end: int) -> Marked:
    piece = piece_of(facts.key, batch, start, end, committed_end)
    return Marked(piece, max(possible_end, committed_end), batch.epoch)


def _shared(case: Case) -> tuple[int, int]:
    """How far records of the reference's own history are committed: proven, and at most."""
    mark = case.high_watermark
    if mark.hw_upper is None or not keeps_committed(case.protocol):
        return mark.proven_lower, case.reference.facts.log_end_offset
    return mark.proven_lower, max(mark.hw_upper, mark.proven_lower)


def _of_ahead(case: Case, facts: ReplicaFacts, batch: Batch) -> tuple[int, int]:
    """The same of what a replica has past the reference's end."""
    committed = committed_ahead(case.reference.facts, facts)
    tail = next(one.never_committed for one in (*case.comparisons, *case.beside) if one.follower is facts)
    return committed, committed if tail is not None and batch.base_offset >= tail.start_offset else batch.end_offset


def _of_chunk(case: Case, facts: ReplicaFacts, chunk: ChunkDigest) -> Marked:
    """A chunk that every replica which has it holds alike."""
    committed, possible = _shared(case)
    piece = Piece(
        facts.key,
        ("chunk", chunk.chunk, chunk.digest),
        chunk.base_offset,
        chunk.last_offset + 1,
        chunk.record_count,
        committed,
        chunk.digest,
        exact=True,
    )
    return Marked(piece, max(possible, committed), None)


def as_possible(items: Sequence[Marked]) -> list[Piece]:
    """The pieces with what may have been committed in the place of what is proven."""
    return [item.piece.committed_to(item.possible_end) for item in items]
