"""Proofs that records missing on the reference were committed; a proof holds for all replicas with the same records (F.0, F.5)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial, reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple

from replica_audit.auditing.compare.alignment import CONFLICTS
from replica_audit.auditing.compare.divergent_ranges import CommitProof, DivergentRange
from replica_audit.auditing.replicas.lost_tails import lost_to
from replica_audit.model import OffsetRange
from replica_audit.protocol.election import CleanElections, elections
from replica_audit.protocol.lineage import Lineage
from replica_audit.protocol.versions import counts_fenced_outsiders, stands_still_below_min_isr
from replica_audit.snapshot.log_dir_names import HIGH_WATERMARKS
from replica_audit.text import render_time

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from replica_audit.auditing.compare.comparison import Comparison
    from replica_audit.auditing.replicas.reference import Reference
    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
    from replica_audit.batch_header import Batch
    from replica_audit.model import Leadership, PartitionState
    from replica_audit.schema import SoleIsr


#: Kinds of runs whose records epoch and offset identify across logs, which they do not where two logs differ in content only.
_OF_EPOCHS = ("epoch",)


class _Proven(NamedTuple):
    """A run with its records proven committed up to `end_offset`."""

    item: Comparison
    run: DivergentRange
    end_offset: int
    proof: CommitProof


def with_proofs(comparisons: Sequence[Comparison], terms: Sequence[SoleTerm]) -> tuple[Comparison, ...]:
    """Give each conflicting run the furthest proof that any replica with the same records has (F.0).

    The runs have checkpoints already; `terms` add leaders that were alone in the ISR.
    """
    proofs = [term for term in terms if term.proven]
    comparisons = [_with_terms(item, proofs, proven_to) for item in comparisons]
    # Again, for what follows from what was proven only now.
    comparisons = _with_shared_proofs(_with_shared_proofs(comparisons))
    guesses = [term for term in terms if not term.proven]
    return tuple(_with_terms(item, guesses, lambda run, _, proof: run._replace(likely=proof)) for item in comparisons)


def _with_shared_proofs(comparisons: Sequence[Comparison]) -> Sequence[Comparison]:
    proven = [
        _Proven(item, run, run.committed_end, run.proof)
        for item in comparisons
        for run in item.runs
        if run.committed_end is not None and run.proof is not None
    ]
    if not proven:
        return comparisons
    return [
        item._replace(runs=tuple(map(partial(_furthest, item, proven, _outside_runs(item)), item.runs)))
        for item in comparisons
    ]


def _with_terms(
    item: Comparison, terms: Sequence[SoleTerm], add: Callable[[DivergentRange, int, CommitProof], DivergentRange]
) -> Comparison:
    """Call `add` on the runs that `terms` reach, as `_with_proof` does, the latest term last."""
    for term in terms:
        kinds = CONFLICTS if item.follower.broker_id == term.leader_id else _OF_EPOCHS
        item = _with_proof(item, committed_stretch(item.follower, term), term.proof, kinds, add)
    return item


def _with_proof(
    item: Comparison,
    end_offset: int,
    proof: CommitProof,
    kinds: Collection[str],
    add: Callable[[DivergentRange, int, CommitProof], DivergentRange],
) -> Comparison:
    """Call `add` on each run of one of the `kinds` if the proof, up to `end_offset`, proves more than the run's own."""

    def extended(run: DivergentRange) -> DivergentRange:
        end = min(end_offset, run.end_offset)
        return add(run, end, proof) if run.kind in kinds and _proves_more(run, end, proof) else run

    return item._replace(runs=tuple(map(extended, item.runs)))


def _furthest(
    item: Comparison, proven: Sequence[_Proven], outside: NDArray[np.int64], run: DivergentRange
) -> DivergentRange:
    best = run
    is_settled = run.committed_end == run.end_offset and run.proof is not None and run.proof.certain
    if not run.conflicting or is_settled:
        return run
    for other in proven:
        end = _committed_by(item, run, other, outside)
        if _proves_more(best, end, other.proof):
            proof = other.proof if other.item is item else _of_other(other.proof)
            best = proven_to(best, end, proof)
    return best


def _proves_more(run: DivergentRange, end_offset: int, proof: CommitProof) -> bool:
    """True if a proof reaches further than the run's own, or as far and only that one is uncertain."""
    if end_offset == run.committed_end and run.proof is not None:
        return proof.certain and not run.proof.certain
    return end_offset > max(run.start_offset, run.committed_end or 0)


def _committed_by(item: Comparison, run: DivergentRange, other: _Proven, outside: NDArray[np.int64]) -> int:
    """Offset up to which the records of `run` are committed because those of `other` are; -1 for none.

    An offset in a leader epoch identifies a record unless the two logs diverge below it, and everything below a committed
    record in its own log is committed.
    """
    if run.replica_epoch is None:
        return _shared_end(item, run, other)
    if run.replica_epoch == other.run.replica_epoch:
        return min(run.end_offset, other.end_offset, _parting(item, other.item))
    follows = other.item is item and run.end_offset <= other.run.start_offset
    # A batch between that the reference has too may separate two histories.
    first, after = outside.searchsorted((run.end_offset, other.run.start_offset))
    return run.end_offset if follows and first == after else -1


def _parting(one: Comparison, other: Comparison) -> int:
    """First offset at which the conflicting batches of two followers differ; batches removed by a cleaner do not count."""
    if one is other:
        return one.follower.log_end_offset
    theirs = {batch.base_offset: _key(other, batch) for batch in _conflicting(other)}
    start, end = other.follower.local_start_offset, other.follower.log_end_offset
    return next(
        (
            batch.base_offset
            for batch in _conflicting(one)
            if theirs.get(batch.base_offset, _key(one, batch)) != _key(one, batch)
            or (not one.follower.compacted and batch.base_offset not in theirs and start <= batch.base_offset < end)
        ),
        end,
    )


def _conflicting(item: Comparison) -> list[Batch]:
    return [batch for run in item.runs if run.conflicting for batch in (*run.batches, *run.written_again)]


def _outside_runs(item: Comparison) -> NDArray[np.int64]:
    """Base offsets of the follower's batches outside its conflicting runs, in order."""
    starts = item.alignment.own.starts.copy()
    starts.sort()
    for one in item.runs:
        if one.conflicting:
            starts = starts[(starts < one.start_offset) | (starts >= one.end_offset)]
    return starts


def _shared_end(item: Comparison, run: DivergentRange, other: _Proven) -> int:
    """Offset up to which two runs without epochs start with the same batches, as far as those of `other` are committed."""
    keys = {_key(other.item, batch) for batch in other.run.batches}
    end = -1
    for batch in run.batches:
        if _key(item, batch) not in keys:
            break
        end = min(batch.end_offset, other.end_offset)
    return end


def proven_to(run: DivergentRange, end_offset: int, proof: CommitProof) -> DivergentRange:
    """Mark the run's records below `end_offset` as proven committed; unchanged if the reference lacks none of them."""
    if not (run.batches.starts < end_offset).any():
        return run
    count = run.batches.records_between(run.start_offset, end_offset)
    return run._replace(committed_end=end_offset, committed_records=count, proof=proof)


def _of_other(proof: CommitProof) -> CommitProof:
    if proof.kind != "checkpoint":
        return proof
    text = f"the high watermark of broker {proof.broker_id}, which has the same records, reached {proof.value}"
    return proof._replace(text=text)


def _key(item: Comparison, batch: Batch) -> tuple:
    """Fields that identify a batch across replicas; in compacted logs without its bytes, which each cleaner rewrites."""
    if item.follower.compacted and batch.epoch is not None:
        return batch.base_offset, batch.last_offset, batch.epoch
    return batch.base_offset, batch.last_offset, batch.leader_epoch, batch.crc, batch.size


#: Default of broker.session.timeout.ms: a fenced broker was last heard of at least this long before.
_SESSION_MS = 9_000


class SoleTerm(NamedTuple):
    """An epoch that ended with its leader alone in the ISR, and the evidence that it committed all it wrote; certain if `proven`."""

    leader_epoch: int
    leader_id: int
    proven: bool
    proof: CommitProof


def sole_terms(
    replicas: Sequence[ReplicaFacts], leadership: Leadership | None, kafka_version: tuple[int, ...] | None
) -> tuple[SoleTerm, ...]:
    """Terms in which the leader committed all it wrote, at least probably; empty without history.

    The leader's own files must have the epoch: a leader writes it there as soon as it leads.
    """
    if leadership is None:
        return ()
    states = leadership.committed
    is_gated = stands_still_below_min_isr(kafka_version) is not False
    found = []
    for number, state in enumerate(states):
        facts = next((one for one in replicas if one.broker_id == state.leader_id), None)
        alone = state.sole_isr
        if alone is None or facts is None or not _knows(facts, state.leader_epoch):
            continue
        # One replica in sync has to suffice to advance the high watermark.
        if is_gated and (alone.min_isr is None or alone.min_isr > 1):
            continue
        before = states[number - 1] if number else None
        began_alone = state.occasion != "snapshot" and (before is None or before.leader_epoch < state.leader_epoch)
        end = next((one for one in states[number:] if one.leader_epoch > state.leader_epoch), None)
        applied = "its own files have that epoch, which began so" if began_alone else alone.applied
        confidence = confidence_of_term(
            alone.others_fenced,
            is_shown=applied is not None,
            is_likely=applied is not None or _took_note(facts, state, end),
            outsiders_count=counts_fenced_outsiders(kafka_version) is True,
        )
        if confidence is not None:
            proven = confidence == "proven"
            proof = _proof_of_term(facts.broker_id, state, alone, proven, applied, kafka_version)
            found.append(SoleTerm(state.leader_epoch, facts.broker_id, proven, proof))
    return tuple(found)


def confidence_of_term(
    others_fenced: Literal["throughout", "later", "no"], *, is_shown: bool, is_likely: bool, outsiders_count: bool
) -> Literal["proven", "likely"] | None:
    """Confidence that a leader alone in the ISR committed all it wrote; None if it may not have. By the first line that fits:

    | others fenced | its process took note | answer |
    |---|---|---|
    | no | | |
    | throughout, later | nothing shows it, nor do times (`is_likely`) | |
    | throughout, in a version where fenced replicas out of the ISR do not count | something shows it (`is_shown`) | proven |
    | throughout, in a version where they do (`outsiders_count`) | something shows it | likely |
    | later | something shows it | likely |
    | throughout, later | by times only | likely |
    """
    if others_fenced == "no" or not is_likely:
        return None
    return "proven" if is_shown and others_fenced == "throughout" and not outsiders_count else "likely"


def _knows(facts: ReplicaFacts, leader_epoch: int) -> bool:
    return any(epoch == leader_epoch for epoch, _ in facts.epoch_entries)


def _took_note(facts: ReplicaFacts, state: PartitionState, end: PartitionState | None) -> bool:
    """True if the times show that the leader applied the change: it wrote afterwards, or was fenced only a session timeout later."""
    if end is not None and end.time_ms - state.time_ms > _SESSION_MS:
        return True
    return any(
        chunk.last_timestamp_ms is not None and chunk.last_timestamp_ms >= state.time_ms
        for chunk in facts.chunks.values()
    )


def _proof_of_term(
    leader_id: int,
    state: PartitionState,
    alone: SoleIsr,
    proven: bool,
    applied: str | None,
    kafka_version: tuple[int, ...] | None,
) -> CommitProof:
    minimum = alone.min_isr
    allowed = (
        f"min.insync.replicas was {minimum}"
        if minimum is not None and minimum <= 1
        else f"Kafka {'.'.join(map(str, kafka_version or ()))} moves the high watermark however few replicas are in sync"
    )
    others = {
        "throughout": "every other assigned replica was fenced in the same metadata batch and stayed so for as long as the leader could know",
        "later": "the other assigned replicas were fenced, but not from that batch on for all of the time",
    }[alone.others_fenced]
    noted = applied or "nothing but times shows that the leader's process took note of it"
    when = f"{render_time(state.time_ms)}, record {state.metadata_offset} of the metadata log"
    text = f"broker {leader_id} was alone in the ISR in leader epoch {state.leader_epoch} from {render_time(state.time_ms)} on"
    if not proven:
        text += ", which makes it likely that they were committed"
    return CommitProof(
        "sole_isr",
        leader_id,
        text,
        str(state.leader_epoch),
        evidence=(f"ISR {leader_id} alone: {when}", allowed, noted, others),
    )


def committed_stretch(facts: ReplicaFacts, term: SoleTerm) -> int:
    """Offset up to which a replica's log is that of the leader of `term`; 0 if nothing shows it.

    An epoch has one leader, so a log with its records has that leader's log below them. The leader's own has them up to where its epoch
    file, which may be the later one, agrees with it.
    """
    if facts.lineage.start_of(term.leader_epoch) is not None:
        later = [start for epoch, start in facts.lineage if epoch > term.leader_epoch]
        return min(later, default=facts.log_end_offset)
    written = facts.sound_file_lineage
    if facts.broker_id != term.leader_id or written is None or written.start_of(term.leader_epoch) is None:
        return 0
    return facts.lineage.shared_with(written, facts.log_end_offset)


class LostMark(NamedTuple):
    """A high watermark that a replica reached before it lost the end of its log."""

    facts: ReplicaFacts
    checkpoint: int
    proven_end: int
    """End of what was committed on `lineage`; below the checkpoint if the replica may have been truncated after an unclean election."""
    lineage: Lineage
    """Lineage by its epoch file, including lost records."""
    certain: bool
    """False if its log may have been cut instead, so that it is of another history than the checkpoint."""


def lost_marks(reference: Reference, replicas: Sequence[ReplicaFacts]) -> tuple[LostMark, ...]:
    """High watermarks of replicas that lost their tail and whose epoch file has its epochs."""
    clean = CleanElections.of(reference.history)
    found = []
    for facts in replicas:
        lost = lost_to(reference, replicas, facts)
        lineage = facts.sound_file_lineage
        if lost is not None and lineage is not None:
            checkpoint, certain = lost
            doubtful = [start for (before, _), (epoch, start) in pairwise(lineage) if not clean.between(before, epoch)]
            found.append(LostMark(facts, checkpoint, min([checkpoint, *doubtful]), lineage, certain))
    return tuple(found)


def with_lost_marks(comparisons: Sequence[Comparison], marks: Sequence[LostMark]) -> tuple[Comparison, ...]:
    """Apply to each conflicting run what `marks` prove of its records, on any replica."""
    return tuple(reduce(_with_mark, marks, item) for item in comparisons)


def _with_mark(item: Comparison, mark: LostMark) -> Comparison:
    ends = [
        min(batch.end_offset, mark.proven_end)
        for run in item.runs
        for batch in run.batches
        if batch.epoch is not None and mark.lineage.epoch_for_offset(batch.base_offset) == batch.epoch
    ]
    if not ends:
        return item
    # A log with a record of an epoch has its leader's log below it.
    return _with_proof(item, max(ends), _proof_of_mark(item, mark), _OF_EPOCHS, proven_to)


def _proof_of_mark(item: Comparison, mark: LostMark) -> CommitProof:
    facts = mark.facts
    whose = "its own high watermark"
    lost = "it"
    if item.follower is not facts:
        lost = f"broker {facts.broker_id}"
        whose = f"the high watermark of {lost}, which had the same records,"
    text = f"{whose} reached {mark.checkpoint}, before {lost} lost its log from {facts.log_end_offset} on"
    path = facts.directory.high_watermark_file.path
    return CommitProof("lost_tail", facts.broker_id, text, str(mark.checkpoint), path, certain=mark.certain)


class OrphanedMark(NamedTuple):
    """Offsets [start, end) below a broker's high watermark where the reference has, or would write, other records."""

    broker_id: int
    log_dir: str
    start_offset: int
    end_offset: int
    leader_epoch: int
    """Epoch of the election that left them behind."""


def orphaned_marks(
    orphans: Mapping[tuple[int, str, str], int], leadership: Leadership | None, reference: Reference
) -> Iterator[OrphanedMark]:
    """Proven marks of brokers that were in sync, are assigned, and have been fenced since before the election.

    Such a mark belongs to the log that the election abandoned, and to this topic: the metadata log has its id. `orphans` as
    in `Case`, without brokers that have the partition on another disk.
    """
    if leadership is None or leadership.topic_id is None or reference.outdated:
        return
    history = leadership.committed
    since = leadership.fenced_since
    for (broker_id, log_dir, file), mark in sorted(orphans.items()):
        fenced_at = since.get(broker_id)
        if file != HIGH_WATERMARKS or fenced_at is None or broker_id not in (leadership.replicas or ()):
            continue
        was_in_sync = any(broker_id in state.isr for state in history if state.metadata_offset < fenced_at)
        later = [one.leader_epoch for one in elections(history) if one.metadata_offset >= fenced_at]
        starts = [(start, epoch) for epoch, start in reference.facts.sound_entries if later and epoch >= min(later)]
        if was_in_sync and starts and min(starts)[0] < mark:
            start, epoch = min(starts)
            yield OrphanedMark(broker_id, log_dir, start, mark, epoch)


def with_unproven_below_start(
    comparisons: Sequence[Comparison], reference: Reference, replicas: Sequence[ReplicaFacts], lost: Sequence[LostMark]
) -> tuple[Comparison, ...]:
    """Give each comparison the records below the reference's log start that nothing proves committed.

    `replicas` are the reference and its followers, `lost` the marks of what they lost.
    """
    start = reference.facts.log_start_offset
    apart = [item for item in comparisons if item.follower.log_start_offset < start and item.unseen_below >= 0]
    if not apart:
        return tuple(comparisons)
    one_history = {item.follower.key for item in comparisons if item.unseen_below < 0}
    # Each lineage with the offset below which its log is proven committed.
    marks = [(one.lineage, one.proven_end) for one in lost]
    for facts in replicas:
        ends = [*_ends(facts)]
        if facts.key in one_history:
            ends.append(start)
        marks.append((_lineage(facts), max(ends, default=0)))
    found = {}
    for item in apart:
        own = _lineage(item.follower)
        ends = [*_ends(item.follower), *(own.shared_with(*mark) for mark in marks)]
        if (end := max(ends)) < start:
            found[item.follower.key] = OffsetRange(end, start)
    return tuple(item._replace(unproven_below_start=found.get(item.follower.key)) for item in comparisons)


def _ends(facts: ReplicaFacts) -> Iterator[int]:
    """Offsets below which a log's own checkpoints prove it committed; a checkpoint past its end may concern records that it lost."""
    for mark in (facts.directory.high_watermark_checkpoint, facts.log_start_offset):
        if mark is not None and mark <= facts.log_end_offset:
            yield mark


def _lineage(facts: ReplicaFacts) -> Lineage:
    """Epochs of all remaining batches, including those below the log start; below the first of them, those of the epoch file,
    whose others they replace."""
    return Lineage.of((*(facts.sound_file_lineage or ()), *facts.found_batches))
