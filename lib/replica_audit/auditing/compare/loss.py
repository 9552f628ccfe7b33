"""Lost records, each counted once: other replicas hold them and the reference lacks them (docs/semantics.md F.0)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from replica_audit.auditing.compare.distinct_records import (
    Count,
    RecordRange,
    Share,
    add_shares,
    count_cluster,
    overlapping,
    piece_of,
    sum_counts,
)
from replica_audit.batch_header import ABSENT, or_absent

if TYPE_CHECKING:
    from replica_audit.auditing.compare.comparison import Comparison
    from replica_audit.auditing.compare.divergent_ranges import DivergentRange
    from replica_audit.auditing.replicas.replica_facts import CopyKey, ReplicaFacts
    from replica_audit.segments.batch_rows import Batches


#: Reasons in second-hand input that make a number of records a bound.
_UNCOUNTED = {"record_counts", "attributes", "base_offsets"}


@dataclass(frozen=True, slots=True)
class Loss:
    """Lost records of a partition, each counted once, on however many brokers."""

    total: Count | None
    """None if unknown."""
    at_most: bool = False
    """True for upper bounds: some input gives offsets but no number of records."""
    copies: Mapping[CopyKey, Share] = field(default_factory=dict)
    """By copy; several copies may hold the same records."""
    holders: Mapping[int, Share] = field(default_factory=dict)
    """By broker: lost records in its copies, and those that neither another broker nor remote storage has."""


def count_loss(
    comparisons: Sequence[Comparison],
    shorter: Collection[CopyKey],
    remote: Sequence[RecordRange],
) -> Loss:
    """Count the loss of a partition, given the comparison of every copy with the reference.

    `shorter` are the copies whose tails the reference lost (REP-LEADER-SHORTER): their records past its end count too. `remote`
    are the records of another history in remote storage. A record is identified by offset and leader epoch, without epochs by
    its batch; control batches, empty batches and records left behind by a clean election do not count. Compacted logs count
    only if their records could be read.
    """
    if not all(map(_is_known, comparisons)):
        return Loss(None)
    held = [_held_in(item, run) for item in comparisons for run in item.runs if run.is_lost]
    held += [_ahead(item) for item in comparisons if item.follower.key in shorter]
    pieces = _pieces(held, remote)
    if not pieces:
        return Loss(Count())
    at_most = any(_UNCOUNTED & set(item.follower.unproven) for item in comparisons)
    counted = [count_cluster(cluster) for cluster in overlapping(pieces)]
    return Loss(
        total=sum_counts(one.total for one in counted),
        at_most=at_most or any(one.at_most for one in counted),
        copies=add_shares(one.copies for one in counted),
        holders={
            broker_id: share
            for broker_id, share in add_shares(one.brokers for one in counted).items()
            if broker_id >= 0
        },
    )


def committed_ahead(reference: ReplicaFacts, follower: ReplicaFacts) -> int:
    """End of the records past the reference's end that its checkpoint, or the follower's, proves committed; -1 without such
    proof. They must be of the reference's own leadership."""
    mark = or_absent(reference.directory.high_watermark_checkpoint)
    own = or_absent(follower.directory.high_watermark_checkpoint)
    return max(mark, own if own <= follower.log_end_offset else ABSENT)


def count_run(item: Comparison, run: DivergentRange) -> Count:
    """Count the lost records of one row of `divergences`; rows of several brokers may count the same ones."""
    pieces = _pieces([_held_in(item, run)]) if run.is_lost else ()
    return sum_counts(count_cluster(cluster).total for cluster in overlapping(pieces))


def _is_known(item: Comparison) -> bool:
    """True if the loss can be counted. Healthy compacted logs differ, so their records must have been decoded."""
    reference = item.reference
    if not (reference.compacted or item.follower.compacted):
        return True
    if reference.second_hand or item.follower.second_hand:
        return not item.runs and item.alignment.own == item.alignment.reference
    return not item.problems and (item.compaction is None or item.compaction.complete)


class _Held(NamedTuple):
    """Batches of a copy within [start, end); those below `committed_end` were proven committed."""

    copy: CopyKey
    batches: Batches
    start_offset: int
    end_offset: int
    committed_end: int


def _held_in(item: Comparison, run: DivergentRange) -> _Held:
    until = -1 if run.committed_end is None else run.committed_end
    return _Held(_holder(item.follower), run.batches, run.start_offset, run.end_offset, until)


def _holder(facts: ReplicaFacts) -> CopyKey:
    """Key of a copy as a holder; without a broker id if it is earlier evidence, since the broker may no longer have it."""
    return (-1, facts.directory.log_dir) if facts.is_earlier else facts.key


def _ahead(item: Comparison) -> _Held:
    """Records past the reference's end that the reference had and lost."""
    facts = item.follower
    until = committed_ahead(item.reference, facts)
    return _Held(_holder(facts), item.ahead, facts.log_start_offset, int(item.ahead.ends.max(initial=0)), until)


def _pieces(held: Sequence[_Held], remote: Sequence[RecordRange] = ()) -> list[RecordRange]:
    """Ranges of the held batches, and those of `remote`.

    In an epoch that is plain and was committed up to one offset on all copies, consecutive batches form one range; elsewhere
    each batch is a range, since overlaps determine what is committed.
    """
    ends: dict[int | None, set[int]] = defaultdict(set)
    odd = set()
    for piece in remote:
        ends[piece.identity[0]].add(piece.committed_end)
        if not (piece.dense and piece.exact):
            odd.add(piece.identity[0])
    for one in held:
        for epoch, is_plain in one.batches.epochs_of_data.items():
            ends[epoch].add(one.committed_end)
            if not is_plain:
                odd.add(epoch)
    plain = {epoch for epoch, known in ends.items() if epoch is not None and len(known) == 1 and epoch not in odd}
    return [*remote, *(piece for one in held for piece in _pieces_of(one, plain))]


def _pieces_of(held: _Held, plain: Set[int]) -> Iterator[RecordRange]:
    batches = held.batches
    for low, high in batches.data_stretches(plain):
        piece = piece_of(held.copy, batches[low], *held[2:])
        yield piece if low == high else piece.between(piece.start_offset, min(int(batches.ends[high]), held.end_offset))
