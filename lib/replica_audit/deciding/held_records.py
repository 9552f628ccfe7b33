"""What each replica of a partition holds, as pieces that are counted once however many hold them, and what is committed.

A record is proven committed by what proves it in the audit: below the proven high watermark where a log is the
reference's, else by its run (docs/semantics.md F.0). It is possibly committed where the bounds of the high watermark, or
what acks=all promised, leave that open.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from replica_audit.auditing.comparing.chunks import Tally, tally_from
from replica_audit.auditing.comparing.compared_batches import Batch
from replica_audit.auditing.comparing.comparison import Comparison
from replica_audit.auditing.comparing.loss import Piece, committed_ahead, has_data, piece_of
from replica_audit.auditing.comparing.runs import Run
from replica_audit.auditing.findings.case import Case
from replica_audit.auditing.replicas.facts import ReplicaFacts
from replica_audit.formats.segments.attributes import TRANSACTIONAL
from replica_audit.model import ChunkDigest

#: Protocols under which a clean election keeps all that was committed.
_KEEPS_COMMITTED = ("kip-279", "fetch")


@dataclass(frozen=True, slots=True)
class Marked:
    """A piece, and how far its records may have been committed at most (its `committed_end` is what is proven)."""

    piece: Piece
    possible_end: int
    leader_epoch: int | None
    sent_whole: bool
    """The whole batch or chunk, not a part of it."""


@dataclass(frozen=True, slots=True)
class Holding:
    """One replica's records, as far as replicas may differ in them."""

    facts: ReplicaFacts
    batches: tuple[Batch, ...]
    """Of the chunks in `loaded`."""
    loaded: frozenset[int]
    marked: tuple[Marked, ...]
    """In order of offset."""

    def dropped(self, truncate_to: int) -> Tally:
        """What truncation drops: every batch that reaches past the cut."""
        return tally_from(self.facts, self._first_dropped(truncate_to), self.batches, self.loaded)

    def parted(self, truncate_to: int) -> tuple[list[Marked], list[Marked]]:
        """(kept, dropped) of the pieces, whole batches."""
        first = self._first_dropped(truncate_to)
        kept = [item for item in self.marked if item.piece.end_offset <= first]
        return kept, [item for item in self.marked if item.piece.end_offset > first]

    def producers_dropped(self, truncate_to: int) -> set[int]:
        """Producers with transactional batches, markers among them, past the cut."""
        first = self._first_dropped(truncate_to)
        return {
            batch.producer_id
            for batch in self.batches
            if batch.end_offset > first and batch.magic >= 2 and batch.attributes & TRANSACTIONAL
        }

    def _first_dropped(self, truncate_to: int) -> int:
        return max(truncate_to, self.facts.log_start_offset)


def holding(case: Case, facts: ReplicaFacts, batches: Sequence[Batch], loaded: frozenset[int]) -> Holding:
    """The holding of one of a case's replicas, given its batches of the chunks `loaded`."""
    item = next((one for one in case.comparisons if one.follower is facts), None)
    marked = [one for batch in batches if has_data(batch) for one in _marked(case, facts, item, batch)]
    marked += [
        _of_chunk(case, facts, chunk)
        for number, chunk in facts.chunks.items()
        if number not in loaded and chunk.record_count
    ]
    marked.sort(key=lambda one: (one.piece.start_offset, one.piece.end_offset))
    return Holding(facts, tuple(batches), loaded, tuple(marked))


def _marked(case: Case, facts: ReplicaFacts, item: Comparison | None, batch: Batch) -> Iterator[Marked]:
    """A batch in pieces: the part that is the reference's, and that of a run."""
    run = None if item is None else next((one for one in item.runs if batch in one.batches), None)
    ahead = item is not None and batch in item.alignment.ahead
    start = batch.base_offset if run is None else max(batch.base_offset, run.start_offset)
    if start > batch.base_offset:
        yield _piece(facts, batch, batch.base_offset, start, *_shared(case))
    if ahead:
        yield _piece(
            facts, batch, start, batch.end_offset, committed_ahead(case.reference.facts, facts), batch.end_offset
        )
    elif run is not None and run.conflicting:
        yield _piece(facts, batch, start, batch.end_offset, *_of_run(case, run))
    else:
        yield _piece(facts, batch, start, batch.end_offset, *_shared(case))


def _piece(facts: ReplicaFacts, batch: Batch, start: int, end: int, committed_end: int, possible_end: int) -> Marked:
    piece = piece_of(facts.broker_id, batch, start, end, committed_end)
    return Marked(
        piece, max(possible_end, committed_end), batch.epoch, (start, end) == (batch.base_offset, batch.end_offset)
    )


def _shared(case: Case) -> tuple[int, int]:
    """How far records of the reference's own history are committed: proven, and at most."""
    mark, end = case.high_watermark, case.reference.facts.log_end_offset
    bounded = mark.hw_upper is not None and case.protocol in _KEEPS_COMMITTED
    return mark.proven_lower, max(mark.hw_upper, mark.proven_lower) if bounded else end


def _of_run(case: Case, run: Run) -> tuple[int, int]:
    """The same of a run that the reference has other records for.

    What a clean election left behind was not committed, as long as the log of the elected one was whole: a recorded high
    watermark past the run's start says that it was not. Before KIP-279 clean elections lost committed records too.
    """
    committed = -1 if run.committed_end is None else run.committed_end
    if run.likely is not None or case.protocol not in _KEEPS_COMMITTED:
        return committed, run.end_offset
    reached = min(case.high_watermark.reached, run.end_offset)
    cause = run.cause
    if cause is not None and cause.clean is True and run.committed_end is None:
        return committed, reached
    promised = None if cause is None else cause.promised_records
    if promised is None or promised > run.committed_records:
        return committed, run.end_offset
    return committed, max(committed, reached)


def _of_chunk(case: Case, facts: ReplicaFacts, chunk: ChunkDigest) -> Marked:
    """A chunk that every replica which has it holds alike."""
    committed, possible = _shared(case)
    piece = Piece(
        facts.broker_id,
        ("chunk", chunk.chunk, chunk.digest),
        chunk.base_offset,
        chunk.last_offset + 1,
        chunk.record_count,
        committed,
        chunk.digest,
        exact=True,
    )
    return Marked(piece, max(possible, committed), None, sent_whole=True)


def as_possible(items: Sequence[Marked]) -> list[Piece]:
    """The pieces with what may have been committed in the place of what is proven."""
    return [replace(item.piece, committed_end=item.possible_end) for item in items]
