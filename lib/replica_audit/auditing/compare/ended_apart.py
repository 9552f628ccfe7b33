"""Transactions that two logs have begun alike and end differently: a marker ends the transaction of its producer in one
partition (`TransactionStateManager`, KIP-98), and only its record tells COMMIT from ABORT."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from replica_audit.auditing.compare.alignment import Alignment, EndedApart
from replica_audit.model import CHUNK_OFFSETS
from replica_audit.segments.batch_rows import Batches
from replica_audit.segments.open_transactions import TransactionFinder, marker_of, open_at_end
from replica_audit.segments.records import ABORT, COMMIT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replica_audit.auditing.compare.record_comparison import RecordComparison
    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
    from replica_audit.batch_header import Batch
    from replica_audit.model import OpenTransaction


def with_aborted(
    reference: ReplicaFacts, follower: ReplicaFacts, alignment: Alignment, reading: RecordComparison
) -> Alignment:
    """Name in `alignment` the transactions that the reference aborts past the fork, and the follower's conflicting batches commit."""
    conflicts = [item for item in alignment.differences if item.kind == "epoch" and item.batches]
    if not conflicts:
        return alignment
    fork = min(item.start_offset for item in conflicts)
    own = Batches.joined([item.batches for item in conflicts])
    theirs = alignment.reference.where(alignment.reference.starts >= fork)
    aborted = tuple(
        EndedApart(transaction, mine, other)
        for transaction, mine, other in ended_in_both(reference, alignment.reference, fork, theirs, own)
        if reading.outcome(follower, other) == COMMIT and reading.outcome(reference, mine) == ABORT
    )
    return alignment._replace(aborted=aborted) if aborted else alignment


def ended_in_both(
    facts: ReplicaFacts, batches: Batches, cut: int, past: Batches, others: Batches
) -> Iterator[tuple[OpenTransaction, Batch, Batch]]:
    """Transactions open at `cut`, below which two logs are alike, with their markers in both.

    `facts` and the loaded `batches` are of one log, as are those `past` the cut; `others` are of the other log.
    """
    both = np.intersect1d(_ended_producers(past), _ended_producers(others))
    if not len(both):
        return
    for producer, transaction in open_below(facts, batches, cut, both).items():
        mine, other = (
            marker_of(transaction, part.where(part.rows["producer_id"] == producer)) for part in (past, others)
        )
        if mine is not None and other is not None:
            yield transaction, mine, other


def _ended_producers(batches: Batches) -> NDArray[np.int64]:
    return np.unique(batches.rows["producer_id"][batches.control])


def open_below(
    facts: ReplicaFacts, batches: Batches, end: int, producers: NDArray[np.int64] | None = None
) -> dict[int, OpenTransaction]:
    """Transactions that a log would leave open if it ended at `end`, restricted to `producers` if given.

    The segment with `end` is known as far as its `batches` were read; the costs of an election need all of it
    (`chunks_to`). A transaction open before an unread chunk may have ended there, and does not count.
    """
    bases = [segment.base_offset for segment in facts.segments]
    whole = [
        segment
        for segment, following in zip(facts.segments, [*bases[1:], facts.log_end_offset], strict=False)
        if following <= end
    ]
    start = bases[len(whole)] if len(whole) < len(bases) else end
    chunks = {one for one in facts.chunks if one * CHUNK_OFFSETS < end and start < min(end, (one + 1) * CHUNK_OFFSETS)}
    if unread := chunks.difference(np.unique(batches.starts // CHUNK_OFFSETS).tolist()):
        start = (max(unread) + 1) * CHUNK_OFFSETS
    rows = batches.rows[(batches.starts >= start) & (batches.ends <= end)]
    rest = TransactionFinder(None if unread else open_at_end(whole))
    rest.watch(rows if producers is None else rows[np.isin(rows["producer_id"], producers)])
    found = {one.producer_id: one for one in rest.open_transactions()}
    # Transactions that the whole log leaves open were also open at `end`, if they had begun.
    found |= {key: one for key, one in open_at_end(facts.segments).items() if one.first_offset < end}
    return found if producers is None else {key: one for key, one in found.items() if key in producers}
