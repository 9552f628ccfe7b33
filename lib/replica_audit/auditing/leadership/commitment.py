"""Which records that the reference does not have were committed: what proves it of one replica holds for all that have them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from replica_audit.auditing.compare.divergent_ranges import CommitProof, DivergentRange
from replica_audit.auditing.leadership.sole_isr_proofs import SoleTerm, committed_stretch

if TYPE_CHECKING:
    from replica_audit.auditing.compare.comparison import Comparison
    from replica_audit.batch_header import Batch


class _Proven(NamedTuple):
    """A run whose records are proven committed up to `end_offset`."""

    item: Comparison
    run: DivergentRange
    end_offset: int
    proof: CommitProof


def with_proofs(comparisons: Sequence[Comparison], terms: Sequence[SoleTerm] = ()) -> tuple[Comparison, ...]:
    """The same, each conflicting run with the furthest proof that any replica with the same records gives (F.0).

    Beside checkpoints, which the runs have already, `terms` prove: leaders that were alone in the ISR.
    """
    proofs = [term for term in terms if term.proven]
    comparisons = [_with_terms(item, proofs, proven_to) for item in comparisons]
    proven = [
        _Proven(item, run, run.committed_end, run.proof)
        for item in comparisons
        for run in item.runs
        if run.conflicting and run.committed_end is not None and run.proof is not None
    ]
    comparisons = [
        replace(item, runs=tuple(_furthest(item, run, proven) for run in item.runs)) if proven else item
        for item in comparisons
    ]
    guesses = [term for term in terms if not term.proven]
    return tuple(_with_terms(item, guesses, lambda run, _, proof: replace(run, likely=proof)) for item in comparisons)


def _with_terms(
    item: Comparison, terms: Sequence[SoleTerm], add: Callable[[DivergentRange, int, CommitProof], DivergentRange]
) -> Comparison:
    """`add` called on each conflicting run with the furthest term that reaches further into it than its own proof."""
    reached = [(end, term) for term in terms if (end := committed_stretch(item.follower, term)) is not None]
    if not reached or not item.runs:
        return item
    end, term = max(reached, key=lambda pair: pair[0])
    return replace(
        item,
        runs=tuple(
            add(run, min(end, run.end_offset), term.proof)
            if run.conflicting and min(end, run.end_offset) > max(run.start_offset, run.committed_end or 0)
            else run
            for run in item.runs
        ),
    )


def _furthest(item: Comparison, run: DivergentRange, proven: Sequence[_Proven]) -> DivergentRange:
    best = run
    for other in proven:
        if not run.conflicting or other.run is run:
            continue
        end = _committed_by(item, run, other)
        if end > max(run.start_offset, best.committed_end or 0):
            proof = other.proof if other.item is item else _of_other(other.proof)
            best = proven_to(best, end, proof)
    return best


def _committed_by(item: Comparison, run: DivergentRange, other: _Proven) -> int:
    """Up to where the records of `run` are committed because those of `other` are; -1: not at all.

    An offset in a leader epoch is one record, as long as the two logs do not part before, and all that is below a
    committed record in its own log is committed.
    """
    if run.replica_epoch is None:
        return _shared_end(item, run, other)
    if run.replica_epoch == other.run.replica_epoch:
        return min(run.end_offset, other.end_offset, _parting(item, other.item))
    follows = other.item is item and run.end_offset <= other.run.start_offset
    return run.end_offset if follows and _is_one_history(item, run, other.run) else -1


def _parting(one: Comparison, other: Comparison) -> int:
    """The first offset at which the conflicting batches of two followers are not the same; what a cleaner removed from one
    of them does not part them."""
    if one is other:
        return one.follower.log_end_offset
    theirs = {batch.base_offset: _key(other, batch) for batch in _conflicting(other)}
    compacted = one.follower.compacted or other.follower.compacted
    first, end = min(theirs, default=0), other.follower.log_end_offset
    return next(
        (
            batch.base_offset
            for batch in _conflicting(one)
            if theirs.get(batch.base_offset, _key(one, batch)) != _key(one, batch)
            or (not compacted and batch.base_offset not in theirs and first <= batch.base_offset < end)
        ),
        max(one.follower.log_end_offset, end),
    )


def _conflicting(item: Comparison) -> list[Batch]:
    return [batch for run in item.runs if run.conflicting for batch in (*run.batches, *run.written_again)]


def _is_one_history(item: Comparison, run: DivergentRange, later: DivergentRange) -> bool:
    """Whether the follower has no batch between two of its runs: one that the reference has too may part two histories."""
    starts = item.alignment.own.starts
    between = starts[(run.end_offset <= starts) & (starts < later.start_offset)]
    for one in item.runs:
        if one.conflicting:
            between = between[(between < one.start_offset) | (between >= one.end_offset)]
    return not len(between)


def _shared_end(item: Comparison, run: DivergentRange, other: _Proven) -> int:
    """Up to where two runs without epochs begin with the same batches, of which those of `other` are committed."""
    keys = {_key(other.item, batch) for batch in other.run.batches if batch.base_offset < other.end_offset}
    end = -1
    for batch in run.batches:
        if _key(item, batch) not in keys:
            break
        end = min(batch.end_offset, other.end_offset)
    return end


def proven_to(run: DivergentRange, end_offset: int, proof: CommitProof) -> DivergentRange:
    """The run with its records below `end_offset` proven committed; as it is where the reference lacks none of them."""
    if not run.lacks_below(end_offset):
        return run
    count = run.batches.records_between(run.start_offset, end_offset)
    return replace(run, committed_end=end_offset, committed_records=count, proof=proof)


def _of_other(proof: CommitProof) -> CommitProof:
    if proof.kind != "checkpoint":
        return proof
    text = f"the high watermark of broker {proof.broker_id}, which has the same records, reached {proof.value}"
    return replace(proof, text=text)


def _key(item: Comparison, batch: Batch) -> tuple:
    """What two replicas' copies of a batch have in common; every cleaner writes bytes of its own."""
    if item.follower.compacted and batch.epoch is not None:
        return batch.base_offset, batch.last_offset, batch.epoch
    return batch.base_offset, batch.last_offset, batch.leader_epoch, batch.crc, batch.size
