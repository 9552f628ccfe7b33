"""A large partition compared piece by piece: a piece is a stretch of chunks that no batch reaches out of.

Pieces know nothing of each other, so they may be compared anywhere. What they hand over is what differs, and of all else
sums: `conclude` does with that as from the batches themselves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from replica_audit.auditing.comparing.aligned_pair import AlignedPair, Records, align_pair, batches_in
from replica_audit.auditing.comparing.alignment import Alignment
from replica_audit.auditing.comparing.chunks import Tally, tally_batches
from replica_audit.auditing.comparing.contents import RecordSource
from replica_audit.auditing.comparing.epoch_rot import may_be_confirmed
from replica_audit.auditing.comparing.replays import replay_all
from replica_audit.auditing.comparing.wanted_chunks import cut_chunks
from replica_audit.auditing.partitions.plan import Plan
from replica_audit.auditing.replicas.facts import CopyKey, ReplicaFacts
from replica_audit.batch_header import Batch
from replica_audit.formats.segments.batches import BATCH_DTYPE
from replica_audit.model import CHUNK_OFFSETS

#: Chunk numbers, ascending.
Piece = tuple[int, ...]

#: What makes a batch look out of place: its twin on the other replica may lie in any chunk.
_OUT_OF_PLACE = {"gap", "regression", "duplicate", "epoch_regression"}


def plan_pieces(plan: Plan, limit: int) -> list[Piece]:
    """The chunks that a plan wants, cut into pieces of about `limit` batches, all replicas together.

    None where they are no more than `limit` in all, and where a comparison cannot be cut: of compacted logs, of logs
    known from texts or tables only, and of those with batches whose offset or epoch looks out of place.
    """
    grouping = plan.grouping
    copies = {facts.key: facts for facts in (*grouping.compared, *grouping.beside)}
    if grouping.reference is None or not all(map(_is_divisible, copies.values())):
        return []
    if not all(facts.knows_high_watermark for facts in grouping.compared):
        return []
    if any(may_be_confirmed(one, copies[one.key]) for one in plan.doubts):
        return []
    numbers = sorted(set().union(*(pair.chunks for pair in plan.pairs)))
    held = {number: [facts.chunks[number] for facts in copies.values() if number in facts.chunks] for number in numbers}
    if sum(chunk.batch_count for chunks in held.values() for chunk in chunks) <= limit:
        return []
    pieces: list[list[int]] = []
    weight, reached = limit, -1
    for number, chunks in held.items():
        if weight >= limit and min(chunk.base_offset for chunk in chunks) > reached:
            pieces.append([])
            weight = 0
        pieces[-1].append(number)
        weight += sum(chunk.batch_count for chunk in chunks)
        reached = max(reached, *(chunk.last_offset for chunk in chunks))
    return [tuple(piece) for piece in pieces]


class PieceAligner:
    """Lays the followers of one partition beside the reference, in the chunks of one piece after another."""

    def __init__(self, plan: Plan) -> None:
        self._pairs, self._tiered = plan.pairs, plan.evidence.is_tiered

    def wanted(self, piece: Piece) -> dict[CopyKey, set[int]]:
        """Chunks whose batches `align` wants to see, by copy."""
        wanted: dict[CopyKey, set[int]] = {}
        for reference, follower, needed in self._pairs:
            for key in (reference.facts.key, follower.key):
                wanted.setdefault(key, set()).update(needed & set(piece))
        return wanted

    def align(
        self, piece: Piece, batches: Mapping[CopyKey, np.ndarray], read: RecordSource | None
    ) -> dict[CopyKey, AlignedPair]:
        """Each follower beside the reference in the chunks of `piece`, given their batches (`BATCH_DTYPE`), by copy."""
        nothing, found = np.empty(0, BATCH_DTYPE), {}
        for reference, follower, needed in self._pairs:
            chunks = needed & set(piece)
            if chunks:
                theirs, own = (batches.get(key, nothing) for key in (reference.facts.key, follower.key))
                records = None if read is None else Records(read, own, theirs)
                sides = (batches_in(theirs, chunks), batches_in(own, chunks))
                pair = align_pair(reference, follower, *sides, chunks, self._tiered, records)
                cuts = cut_chunks(reference, follower, replay_all(reference, follower, self._tiered))
                found[follower.key] = _condense(pair, cuts)
        return found


def join_pieces(parts: Iterable[Mapping[CopyKey, AlignedPair]]) -> dict[CopyKey, AlignedPair]:
    """What `PieceAligner` found of all pieces of a partition, in their order."""
    found: dict[CopyKey, list[AlignedPair]] = {}
    for part in parts:
        for key, pair in part.items():
            found.setdefault(key, []).append(pair)
    return {key: _join(pairs) for key, pairs in found.items()}


def _is_divisible(facts: ReplicaFacts) -> bool:
    in_place = not any(item.kind in _OUT_OF_PLACE for _, item in facts.irregularities)
    return in_place and not facts.compacted and not facts.second_hand


def _condense(pair: AlignedPair, cuts: Collection[int]) -> AlignedPair:
    """`pair` with sums in place of batches that are the same on both sides, except those that a conclusion may look at.

    These are the batches of chunks that a cut goes through or whose sums damage makes doubtful, those within a
    difference, and one as a witness that the two logs have something in common.
    """
    alignment = pair.alignment
    sides = (alignment.own, alignment.reference)
    common = set.intersection(*({_identity(batch) for batch in side} for side in sides))
    unsound = {_chunk_of(batch) for side in sides for batch in side if not batch.crc_valid}
    loaded = pair.loaded & (set(cuts) | unsound)
    witness = min(common, default=None)
    differing = _joined_ranges((item.start_offset, item.end_offset) for item in alignment.differences)

    def keep(batch: Batch) -> bool:
        identity = _identity(batch)
        return (
            _chunk_of(batch) in loaded
            or identity == witness
            or identity not in common
            or _touches(differing, batch.base_offset, batch.end_offset)
        )

    own, reference = (tuple(filter(keep, side)) for side in sides)
    tallies = [_tallies(side, loaded) for side in sides]
    condensed = Alignment(alignment.differences, alignment.corrupt, alignment.ahead, own, reference)
    return AlignedPair(condensed, loaded, pair.compaction, pair.problems, *tallies)


def _identity(batch: Batch) -> tuple:
    return (
        batch.base_offset,
        batch.last_offset,
        batch.leader_epoch,
        batch.crc,
        batch.size,
        batch.magic,
        batch.attributes,
    )


def _chunk_of(batch: Batch) -> int:
    return batch.base_offset // CHUNK_OFFSETS


def _tallies(batches: Iterable[Batch], loaded: Collection[int]) -> dict[int, Tally]:
    by_chunk: dict[int, list[Batch]] = {}
    for batch in batches:
        if (number := _chunk_of(batch)) not in loaded:
            by_chunk.setdefault(number, []).append(batch)
    return {number: tally_batches(of_chunk) for number, of_chunk in by_chunk.items()}


def _joined_ranges(ranges: Iterable[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    """Starts and ends of the union of `ranges`."""
    joined: list[list[int]] = []
    for start, end in sorted(ranges):
        if joined and start <= joined[-1][1]:
            joined[-1][1] = max(joined[-1][1], end)
        else:
            joined.append([start, end])
    starts, ends = zip(*joined) if joined else ((), ())
    return np.array(starts, np.int64), np.array(ends, np.int64)


def _touches(ranges: tuple[np.ndarray, np.ndarray], start: int, end: int) -> bool:
    starts, ends = ranges
    at = int(np.searchsorted(ends, start, side="right"))
    return at < len(ends) and starts[at] < end


def _join(pairs: Sequence[AlignedPair]) -> AlignedPair:
    parts = [pair.alignment for pair in pairs]
    differences = sorted(
        (item for part in parts for item in part.differences), key=lambda item: (item.start_offset, item.end_offset)
    )
    corrupt = sorted((item for part in parts for item in part.corrupt), key=lambda item: item.kind != "blind")
    alignment = Alignment(
        tuple(differences),
        tuple(corrupt),
        *(tuple(item for part in parts for item in getattr(part, name)) for name in ("ahead", "own", "reference")),
    )
    return AlignedPair(
        alignment,
        frozenset().union(*(pair.loaded for pair in pairs)),
        None,
        tuple(problem for pair in pairs for problem in pair.problems),
        {number: tally for pair in pairs for number, tally in pair.own_tallies.items()},
        {number: tally for pair in pairs for number, tally in pair.reference_tallies.items()},
    )
