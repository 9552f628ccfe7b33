"""Lost records, each counted once: other replicas hold them and the reference does not (docs/semantics.md F.0)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from replica_audit.auditing.compare.comparison import Comparison
    from replica_audit.auditing.compare.divergent_ranges import DivergentRange
    from replica_audit.auditing.replicas.replica_facts import CopyKey, ReplicaFacts
    from replica_audit.batch_header import Batch
    from replica_audit.segments.batch_rows import Batches

_Holder = TypeVar("_Holder", tuple[int, str], int)

#: Points that second-hand input leaves unproven and that make a number of records a bound.
_UNCOUNTED = {"record_counts", "attributes", "base_offsets"}


@dataclass(frozen=True, slots=True)
class Count:
    """Records, and those of them that were proven committed."""

    records: int = 0
    committed: int = 0


#: Lost records that a holder has, and those that no other holder has.
_Share = tuple[Count, Count]


@dataclass(frozen=True, slots=True)
class Loss:
    """Lost records of a partition, each counted once, whatever the number of brokers that hold it."""

    total: Count | None
    """None if it is not known."""
    at_most: bool = False
    """The numbers are upper bounds: of some of the input only offsets tell how many records there are."""
    held: Mapping[CopyKey, Count] = field(default_factory=dict)
    """By copy, what it holds of them; these do not add up, since several may hold the same."""
    only_here: Mapping[CopyKey, Count] = field(default_factory=dict)
    """By copy, what no other one holds of them."""
    holders: Mapping[int, tuple[Count, Count]] = field(default_factory=dict)
    """By broker, what its copies hold of them, and what those of no other broker, nor remote storage, do."""


@dataclass(frozen=True, slots=True)
class RecordRange:
    """A batch, or the part of it in question, in one copy. Pieces with one `identity` hold the same records."""

    copy: CopyKey
    identity: tuple
    start_offset: int
    end_offset: int
    record_count: int
    committed_end: int
    """Its records below this offset were proven committed."""
    crc: int
    exact: bool
    """`record_count` is a number, not a bound."""

    @property
    def dense(self) -> bool:
        return self.record_count == self.end_offset - self.start_offset

    def between(self, start: int, end: int) -> RecordRange:
        """The part of a dense piece in [start, end)."""
        return RecordRange(self.copy, self.identity, start, end, end - start, self.committed_end, self.crc, self.exact)

    def committed_to(self, offset: int) -> RecordRange:
        """The range with the records below `offset` proven committed."""
        start = self.start_offset
        end = self.end_offset
        return RecordRange(self.copy, self.identity, start, end, self.record_count, offset, self.crc, self.exact)


def count_loss(
    reference: ReplicaFacts,
    comparisons: Sequence[Comparison],
    shorter: Collection[CopyKey] = (),
    remote: Sequence[RecordRange] = (),
) -> Loss:
    """The loss of a partition, given every copy beside the reference.

    `shorter` are the copies whose tails the reference lost (REP-LEADER-SHORTER): what they have past its end counts too.
    `remote` is what remote storage has of another history.
    Distinct is an offset with a leader epoch, without epochs the record itself; control batches, empty batches and what an
    election known to be clean left behind do not count. Compacted logs count only where their records could be read.
    """
    if not all(_is_known(reference, item) for item in comparisons):
        return Loss(None)
    held = [_held_in(item, run) for item in comparisons for run in item.runs if is_lost(run)]
    held += [_ahead(reference, item) for item in comparisons if item.follower.key in shorter]
    pieces = _pieces(held, remote)
    at_most = any(_UNCOUNTED & set(item.follower.unproven) for item in comparisons if pieces)
    clusters = list(_clusters(pieces))
    counted = [_count(cluster) for cluster in clusters]
    copies = _add_shares(one.copies for one in counted)
    return Loss(
        total=_sum(one.total for one in counted),
        at_most=at_most or any(one.at_most for one in counted),
        held={key: held for key, (held, _) in copies.items()},
        only_here={key: only_here for key, (_, only_here) in copies.items()},
        holders={
            broker_id: share
            for broker_id, share in _add_shares(one.brokers for one in counted).items()
            if broker_id >= 0
        },
    )


def committed_ahead(reference: ReplicaFacts, follower: ReplicaFacts) -> int:
    """Offset below which records past the reference's end were committed, by its checkpoint or the follower's; -1 if neither
    says so. They must be of its own leadership."""
    own = follower.directory.high_watermark_checkpoint
    marks = [
        reference.directory.high_watermark_checkpoint,
        own if own is not None and own <= follower.log_end_offset else None,
    ]
    return max((mark for mark in marks if mark is not None), default=-1)


def count_run(item: Comparison, run: DivergentRange) -> Count:
    """Lost records in one row of `divergences`; rows of several brokers may count the same ones."""
    pieces = _pieces([_held_in(item, run)]) if is_lost(run) else ()
    return _sum(_count(cluster).total for cluster in _clusters(pieces))


def is_lost(run: DivergentRange) -> bool:
    """True if records of a run count as lost: not if an election known to be clean left them behind uncommitted."""
    uncommitted = run.cause is not None and run.cause.excludes_commitment and run.committed_end is None
    return run.kind != "hole_here" and not (run.kind == "epoch" and uncommitted)


def _is_known(reference: ReplicaFacts, item: Comparison) -> bool:
    """Compacted logs differ when all is well; only decoded records tell what one of them has and the other lacks."""
    if not (reference.compacted or item.follower.compacted):
        return True
    if reference.second_hand or item.follower.second_hand:
        return not item.runs and item.alignment.own == item.alignment.reference
    return not item.problems and (item.compaction is None or item.compaction.complete)


class _Held(NamedTuple):
    """Batches that a copy holds within [start, end); those below `committed_end` were proven committed."""

    copy: CopyKey
    batches: Batches
    start_offset: int
    end_offset: int
    committed_end: int


def _held_in(item: Comparison, run: DivergentRange) -> _Held:
    until = -1 if run.committed_end is None else run.committed_end
    return _Held(item.follower.key, run.batches, run.start_offset, run.end_offset, until)


def _ahead(reference: ReplicaFacts, item: Comparison) -> _Held:
    """Records past the reference's end that the reference had and lost."""
    facts = item.follower
    until = committed_ahead(reference, item.follower)
    return _Held(facts.key, item.ahead, facts.log_start_offset, int(item.ahead.ends.max(initial=0)), until)


def _pieces(held: Sequence[_Held], remote: Sequence[RecordRange] = ()) -> list[RecordRange]:
    """Pieces of what is held, and those given.

    In an epoch that is plain throughout and was committed up to one offset, consecutive batches make one piece; elsewhere each
    batch is a piece, since overlaps tell what is committed.
    """
    ends: dict[int | None, set[int]] = defaultdict(set)
    odd = set()
    for piece in remote:
        ends[piece.identity[0]].add(piece.committed_end)
        if not (piece.dense and piece.exact):
            odd.add(piece.identity[0])
    for one in held:
        for epoch, is_plain in one.batches.epochs_of_data():
            ends[epoch].add(one.committed_end)
            if not is_plain:
                odd.add(epoch)
    plain = [epoch for epoch, known in ends.items() if epoch is not None and len(known) == 1 and epoch not in odd]
    return [*remote, *(piece for one in held for piece in _pieces_of(one, plain))]


def _pieces_of(held: _Held, plain: Sequence[int]) -> Iterator[RecordRange]:
    batches = held.batches
    for low, high in batches.data_stretches(plain):
        piece = piece_of(held.copy, batches[low], *held[2:])
        yield piece if low == high else piece.between(piece.start_offset, min(int(batches.ends[high]), held.end_offset))


def has_data(batch: Batch) -> bool:
    """True if a batch can be read and has records that producers sent."""
    return batch.crc_valid and batch.record_count != 0 and not batch.is_control


def piece_of(copy: CopyKey, batch: Batch, start: int, end: int, committed_end: int) -> RecordRange:
    """The part of a batch in [start, end), of whose records those below `committed_end` were proven committed."""
    start = max(batch.base_offset, start)
    end = min(batch.end_offset, end)
    span = batch.end_offset - batch.base_offset
    dense = batch.record_count in (span, -1)
    whole = end - start == span
    count = end - start if dense else min(batch.record_count, end - start)
    # Without an epoch nothing but the record itself tells two of them apart.
    identity = (batch.epoch,) if batch.epoch is not None else (None, batch.base_offset, batch.last_offset, batch.crc)
    exact = batch.record_count >= 0 and (dense or whole)
    return RecordRange(copy, identity, start, end, count, committed_end, batch.crc, exact)


@dataclass(frozen=True, slots=True)
class _Tally:
    total: Count
    at_most: bool
    copies: Mapping[CopyKey, _Share]
    brokers: Mapping[int, _Share]


def _clusters(pieces: Iterable[RecordRange]) -> Iterator[list[RecordRange]]:
    """Pieces of one identity that overlap, directly or through others."""
    grouped: dict[tuple, list[RecordRange]] = defaultdict(list)
    for piece in pieces:
        grouped[piece.identity].append(piece)
    for same in grouped.values():
        same.sort(key=lambda piece: (piece.start_offset, piece.end_offset))
        cluster: list[RecordRange] = []
        end = -1
        for piece in same:
            if cluster and piece.start_offset >= end:
                yield cluster
                cluster = []
            cluster.append(piece)
            end = max(end, piece.end_offset)
        if cluster:
            yield cluster


def _count(cluster: Sequence[RecordRange]) -> _Tally:
    """Count of one cluster: by offsets if every offset has a record, else by the batches' own record counts."""
    until = _committed_end(cluster)
    total, at_most = _union(cluster, until)
    of_copies = _shares(cluster, until, total, lambda piece: piece.copy)
    return _Tally(total, at_most, of_copies, _shares(cluster, until, total, lambda piece: piece.copy[0]))


def _committed_end(cluster: Iterable[RecordRange]) -> int:
    """Offset below which the records of one identity are proven committed; no piece proves anything past its own end."""
    return max(min(piece.committed_end, piece.end_offset) for piece in cluster)


def _shares(
    cluster: Sequence[RecordRange], until: int, total: Count, holder: Callable[[RecordRange], _Holder]
) -> dict[_Holder, _Share]:
    """Share of each holder in one cluster: what it holds, and what no other holds."""
    found = {}
    for key in {holder(piece) for piece in cluster}:
        held, _ = _union([piece for piece in cluster if holder(piece) == key], until)
        rest, _ = _union([piece for piece in cluster if holder(piece) != key], until)
        found[key] = held, Count(max(0, total.records - rest.records), max(0, total.committed - rest.committed))
    return found


def _add_shares(counted: Iterable[Mapping[_Holder, _Share]]) -> dict[_Holder, _Share]:
    """The sums over clusters, in order of the holders."""
    found: dict[_Holder, list[_Share]] = defaultdict(list)
    for shares in counted:
        for key, share in shares.items():
            found[key].append(share)
    return {key: (_sum(held for held, _ in found[key]), _sum(only for _, only in found[key])) for key in sorted(found)}


def _union(pieces: Sequence[RecordRange], until: int) -> tuple[Count, bool]:
    """Distinct records of overlapping pieces, those below `until` committed, and whether that is a bound only."""
    if not pieces:
        return Count(), False
    first = pieces[0]
    if len(pieces) == 1 and first.dense:
        return Count(first.record_count, _covered(pieces, until)), not first.exact
    start = first.start_offset
    end = max(piece.end_offset for piece in pieces)
    if all(piece.dense for piece in pieces):
        return Count(_covered(pieces, end), _covered(pieces, until)), not all(piece.exact for piece in pieces)
    if all((piece.start_offset, piece.end_offset, piece.crc) == (start, end, first.crc) for piece in pieces):
        return Count(first.record_count, first.record_count if until > start else 0), not first.exact
    # Every cleaner leaves other records of a batch: these are no more than the offsets, nor than all of them together.
    most = min(_covered(pieces, end), sum(piece.record_count for piece in pieces))
    whole = any(piece.dense and (piece.start_offset, piece.end_offset) == (start, end) for piece in pieces)
    return Count(most, min(most, max(0, until - start))), not whole


def count_beyond(pieces: Sequence[RecordRange], held: Sequence[RecordRange] = ()) -> tuple[Count, bool]:
    """Distinct records of `pieces` that none of `held` has, and whether that is an upper bound only."""
    total = Count()
    at_most = False
    if not pieces:
        return total, at_most
    kept = {id(piece) for piece in held}
    for cluster in _clusters((*pieces, *held)):
        inside = [piece for piece in cluster if id(piece) in kept]
        if len(inside) == len(cluster):
            continue
        until = _committed_end(cluster)
        whole, bound = _union(cluster, until)
        rest, _ = _union(inside, until)
        records = max(0, whole.records - rest.records)
        committed = max(0, whole.committed - rest.committed)
        total = Count(total.records + records, total.committed + committed)
        at_most = at_most or (bound and records > 0)
    return total, at_most


def _covered(pieces: Sequence[RecordRange], until: int) -> int:
    """Offsets below `until` that any of `pieces`, which are sorted by their starts, covers."""
    count = 0
    reached = -1
    for piece in pieces:
        low = max(piece.start_offset, reached)
        high = min(piece.end_offset, until)
        if low < high:
            count += high - low
            reached = high
    return count


def _sum(counts: Iterable[Count]) -> Count:
    records = committed = 0
    for one in counts:
        records += one.records
        committed += one.committed
    return Count(records, committed)
