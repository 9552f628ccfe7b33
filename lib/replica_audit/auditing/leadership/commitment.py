"""Which records that the reference does not have were committed: what proves it of one replica holds for all that have them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from replica_audit.auditing.comparing.runs import Proof, Run, records_between
from replica_audit.auditing.leadership.alone_in_isr import SoleTerm, committed_stretch

if TYPE_CHECKING:
    from replica_audit.auditing.comparing.comparison import Comparison
    from replica_audit.batch_header import Batch


class _Proven(NamedTuple):
    """The batches of a run that are proven committed, up to `end_offset`."""

    item: Comparison
    end_offset: int
    proof: Proof
    keys: set[tuple]


def with_proofs(comparisons: Sequence[Comparison], terms: Sequence[SoleTerm] = ()) -> tuple[Comparison, ...]:
    """The same, each conflicting run with the furthest proof that any replica with the same records gives (F.0).

    Beside checkpoints, which the runs have already, `terms` prove: leaders that were alone in the ISR.
    """
    proofs = [term for term in terms if term.proven]
    comparisons = [_with_terms(item, proofs, proven_to) for item in comparisons]
    proven = [
        _Proven(item, run.committed_end, run.proof, _keys(item, run.batches, run.committed_end))
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


def _with_terms(item: Comparison, terms: Sequence[SoleTerm], add: Callable[[Run, int, Proof], Run]) -> Comparison:
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


def _furthest(item: Comparison, run: Run, proven: Sequence[_Proven]) -> Run:
    best = run
    for other in proven:
        if other.item is item or not run.conflicting:
            continue
        end = None
        for batch in run.batches:
            if _key(item, batch) not in other.keys:
                break
            end = min(batch.end_offset, other.end_offset)
        if end is not None and end > max(run.start_offset, best.committed_end or 0):
            best = proven_to(best, end, _of_other(other.proof))
    return best


def proven_to(run: Run, end_offset: int, proof: Proof) -> Run:
    """The run with its records below `end_offset` proven committed; as it is where the reference lacks none of them."""
    if not run.lacks_below(end_offset):
        return run
    count = records_between(run.batches, run.start_offset, end_offset)
    return replace(run, committed_end=end_offset, committed_records=count, proof=proof)


def _of_other(proof: Proof) -> Proof:
    if proof.kind != "checkpoint":
        return proof
    text = f"the high watermark of broker {proof.broker_id}, which has the same records, reached {proof.value}"
    return replace(proof, text=text)


def _keys(item: Comparison, batches: Sequence[Batch], end_offset: int) -> set[tuple]:
    return {_key(item, batch) for batch in batches if batch.base_offset < end_offset}


def _key(item: Comparison, batch: Batch) -> tuple:
    """What two replicas' copies of a batch have in common; every cleaner writes bytes of its own."""
    if item.follower.compacted and batch.epoch is not None:
        return batch.base_offset, batch.last_offset, batch.epoch
    return batch.base_offset, batch.last_offset, batch.leader_epoch, batch.crc, batch.size
