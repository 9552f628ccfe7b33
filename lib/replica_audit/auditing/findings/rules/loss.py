"""Committed records that the reference does not have (F.5, HWM-LOSS)."""

from __future__ import annotations

from collections.abc import Iterator

from replica_audit.auditing.comparing.comparison import Comparison
from replica_audit.auditing.comparing.runs import Run
from replica_audit.auditing.findings.finding import Case, Evidence, Finding, considered, doubted, finding, offsets
from replica_audit.auditing.leadership.election_causes import describe

#: KAFKA-14704: between these a follower could checkpoint a high watermark over records that it was about to cut.
_HIGH_WATERMARK_OVER_TAIL = ((2, 8), (3, 5))


def judge(case: Case) -> Iterator[Finding]:
    """HWM-LOSS, one for each run of a replica with records that were committed."""
    for item in case.comparisons:
        for run in item.runs:
            if run.committed_end is not None:
                yield doubted(_loss(case, item, run), item)


def _loss(case: Case, item: Comparison, run: Run) -> Finding:
    follower, leader, proof = item.follower, case.reference.facts, run.proof
    version = case.kafka_version
    suspect = (
        proof.kind == "checkpoint"
        and version is not None
        and _HIGH_WATERMARK_OVER_TAIL[0] <= version[:2] < _HIGH_WATERMARK_OVER_TAIL[1]
    )
    end = min(run.end_offset, run.committed_end)
    # Where only the end of a transaction is missing no producer lost a record, but its consumers wait.
    count, kind = run.committed_records, "committed record"
    if count == 0:
        count, kind = sum(batch.base_offset < end for batch in run.batches), "committed control batch"
    is_one = count == 1
    plural = kind if is_one else f"{kind}es" if kind.endswith("ch") else f"{kind}s"
    records = f"{count} {plural} at {offsets(run.start_offset, end)}"
    return finding(
        "HWM-LOSS",
        f"{records} {'is' if is_one else 'are'} not on broker {leader.broker_id}; broker {follower.broker_id} still has "
        f"{'it' if is_one else 'them'}: "
        f"{proof.text}" + ("; unless the topic was deleted and created again" if item.doubt is not None else ""),
        confidence="suspect" if suspect else "proven",
        broker_id=follower.broker_id,
        start_offset=run.start_offset,
        end_offset=end,
        replica_epoch=run.replica_epoch,
        evidence=[*_evidence(run, suspect), *_history(run)],
    )


def _evidence(run: Run, suspect: bool) -> list[Evidence]:
    proof = run.proof
    if proof.kind != "checkpoint":
        return [
            Evidence("leadership", text, proof.broker_id, value=proof.value) for text in (proof.text, *proof.evidence)
        ]
    return [
        Evidence(
            "checkpoint",
            "high watermark inside the conflicting records",
            proof.broker_id,
            proof.path,
            value=proof.value,
        ),
        considered(
            "KAFKA-14704: this version could checkpoint a high watermark over a tail that it was about to cut"
            if suspect
            else "the checkpoint was learnt from the present leader: no, the logs differ up to it"
        ),
    ]


def _history(run: Run) -> list[Evidence]:
    """The election that left committed records behind; a clean one does that when its winner had lost its own tail."""
    cause = run.cause
    if cause is None or cause.election is None:
        return []
    found = [
        Evidence(
            "leadership", describe(cause.election), cause.election.leader_id, value=str(cause.election.leader_epoch)
        )
    ]
    if cause.clean:
        found.append(
            considered(
                f"a clean election loses nothing: broker {cause.election.leader_id} must have lost the end of its own log"
            )
        )
    return found
