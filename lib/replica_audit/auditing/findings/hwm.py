"""Committed records that another log still has and the reference lacks (F.5)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from replica_audit.auditing.finding import (
    Code,
    Finding,
    considered,
    doubted,
    fate_of_copy,
    finding,
    likely,
    name_copy,
    place_of_copy,
    undecided,
    why_undecided,
)
from replica_audit.auditing.leadership.election_causes import describe
from replica_audit.model import OffsetRange
from replica_audit.protocol.versions import may_mark_over_tail
from replica_audit.schema import Evidence
from replica_audit.text import count, name_offsets

if TYPE_CHECKING:
    from replica_audit.auditing.case import Case
    from replica_audit.auditing.compare.comparison import Comparison
    from replica_audit.auditing.compare.divergent_ranges import CommitProof, DivergentRange
    from replica_audit.auditing.leadership.commitment import OrphanedMark


HWM_LOSS = Code(
    "HWM-LOSS", ("critical", "high"), ("COMMITTED_LOSS", "INCONCLUSIVE"), traits=("records", "held", "decided")
)


def judge(case: Case) -> Iterator[Finding]:
    """Yield a finding for each run with committed records, and each mark of a replica without a directory."""
    for item in case.comparisons:
        for run in item.runs:
            if (proof := run.proof) and (committed := run.committed_range):
                found = undecided(_loss(case, item, run, committed.end_offset, proof), why_undecided(case, item, run))
                if found.confidence == "proven" and (others := case.why_others_lost(run)):
                    found = found._replace(message=f"{found.message}; {others}")
                yield doubted(likely(found, case.why_only_likely(item, run)), item)
    for item in case.beside:
        for run in item.runs:
            if (proof := run.proof) and (committed := run.committed_range) and run.committed_records:
                found = _beside(case, item, committed, run.committed_records, proof.text, run.replica_epoch)
                found = undecided(found, case.why_on_leader(run.start_offset, run.replica_epoch))
                yield likely(found, case.why_only_likely(item, run))
        if case.is_lost_tail(item):
            yield from _lost_tail(case, item)
    for mark in case.orphaned_marks:
        yield undecided(_orphaned(case, mark), case.why_on_leader(mark.start_offset))


def _orphaned(case: Case, mark: OrphanedMark) -> Finding:
    start = mark.start_offset
    end = mark.end_offset
    return finding(
        HWM_LOSS,
        f"{name_offsets(start, end)} were committed on broker {mark.broker_id}, whose checkpointed high watermark reached {end}, but broker "
        f"{case.reference.facts.broker_id} has epoch {mark.leader_epoch} from {start} on; the directory of the partition on broker "
        f"{mark.broker_id} is not in the snapshot",
        confidence="suspect" if may_mark_over_tail(case.options.kafka_version) else "proven",
        broker_id=mark.broker_id,
        offsets=(start, end),
        replica_epoch=mark.leader_epoch - 1,
        evidence=[
            Evidence("checkpoint", text="high watermark", broker_id=mark.broker_id, path=mark.log_dir, value=str(end)),
            considered(
                "an entry of an earlier topic, or from the present leader: no, the broker was in sync, and has been fenced since before "
                f"the election of epoch {mark.leader_epoch}"
            ),
        ],
    )


def _lost_tail(case: Case, item: Comparison) -> Iterator[Finding]:
    """HWM-LOSS for records of the leader's log that a copy in `Case.beside` still has, as far as its checkpoint proves them committed."""
    start = case.reference.facts.log_end_offset
    end = case.committed_tail(item)
    if records := item.alignment.ahead.records_between(start, end):
        log = "the current log, which it was copied from," if case.is_copied_from_reference(item) else "that log"
        why = f"{log} ends at {start} and its high watermark was {end} or more"
        yield _beside(case, item, OffsetRange(start, end), records, why, item.alignment.ahead[0].epoch)


def _beside(
    case: Case, item: Comparison, where: OffsetRange, records: int, why: str, replica_epoch: int | None
) -> Finding:
    facts = item.follower
    has = "had" if facts.is_earlier else "still has"
    return finding(
        HWM_LOSS,
        f"{count(records, 'committed record')} at {name_offsets(*where)} {'is' if records == 1 else 'are'} not on broker "
        f"{case.reference.facts.broker_id}; {name_copy(facts)} {has} {'it' if records == 1 else 'them'}: {why}; "
        f"{fate_of_copy(facts)}",
        broker_id=facts.broker_id,
        offsets=where,
        replica_epoch=replica_epoch,
        evidence=[place_of_copy(facts)],
    )


def _loss(case: Case, item: Comparison, run: DivergentRange, end: int, proof: CommitProof) -> Finding:
    follower = item.follower
    leader = case.reference.facts
    suspect = proof.kind != "sole_isr" and bool(may_mark_over_tail(case.options.kafka_version))
    number = run.committed_records
    what = ("committed record", "committed records")
    if not number:
        # Only the end of a transaction is missing: no producer lost a record, but consumers wait.
        number = sum(batch.base_offset < end for batch in run.batches)
        what = ("committed control batch", "committed control batches")
    are, them = ("is", "it") if number == 1 else ("are", "them")
    doubt = "" if item.doubt is None else "; unless the topic was deleted and created again"
    return finding(
        HWM_LOSS,
        f"{count(number, *what)} at {name_offsets(run.start_offset, end)} {are} not on broker {leader.broker_id}; "
        f"broker {follower.broker_id} still has {them}: {proof.text}{doubt}",
        confidence="suspect" if suspect else "proven",
        broker_id=follower.broker_id,
        offsets=(run.start_offset, end),
        replica_epoch=run.replica_epoch,
        evidence=[*_proof_evidence(proof, suspect), *_history(run)],
    )


def _proof_evidence(proof: CommitProof, suspect: bool) -> list[Evidence]:
    if proof.kind == "sole_isr":
        return [Evidence("leadership", text=proof.text, broker_id=proof.broker_id, value=proof.value), *proof.told()]
    is_checkpoint = proof.kind == "checkpoint"
    if suspect:
        otherwise = "KAFKA-14704: this version could checkpoint a high watermark over a tail that it was about to cut"
    elif is_checkpoint:
        otherwise = "a checkpoint that came from the present leader: no, the logs differ up to it"
    else:
        otherwise = "a truncation cut the end of that log: no, no leader's epoch begins there"
    text = "high watermark past the end of its own log, over records of the same leader epoch"
    if is_checkpoint:
        text = "a checkpoint inside these records: those below it were committed"
    found = Evidence("checkpoint", text=text, broker_id=proof.broker_id, path=proof.path, value=proof.value)
    return [found, considered(otherwise)]


def _history(run: DivergentRange) -> list[Evidence]:
    """Evidence of the election that left committed records behind; a clean one does so if its winner had lost its own tail."""
    cause = run.cause
    if cause is None or cause.election is None:
        return []
    winner = cause.election.leader_id
    epoch = str(cause.election.leader_epoch)
    found = [Evidence("leadership", text=describe(cause.election), broker_id=winner, value=epoch)]
    if cause.clean:
        text = f"a clean election loses nothing unless broker {winner} had lost the end of its own log"
        found.append(considered(text))
    return found
