"""The high watermark and loss (F.5)."""

from __future__ import annotations

from collections.abc import Iterator

from replica_audit.auditing.comparison import Comparison, Run
from replica_audit.auditing.elections import describe
from replica_audit.auditing.facts import ReplicaFacts
from replica_audit.auditing.findings import Case, Evidence, Finding, considered, finding, offsets

#: KAFKA-14704: between these a follower could checkpoint a high watermark over records that it was about to cut.
_HIGH_WATERMARK_OVER_TAIL = ((2, 8), (3, 5))


def judge(case: Case) -> Iterator[Finding]:
    """HWM-*, but for HWM-UNDER-MIN-ISR."""
    for item in case.comparisons:
        yield from _loss(case, item)
    for facts in case.replicas:
        yield from _above_log_end(case, facts)
    yield from _suffix(case)


def _loss(case: Case, item: Comparison) -> Iterator[Finding]:
    follower, leader = item.follower, case.reference.facts
    version = case.kafka_version
    suspect = version is not None and _HIGH_WATERMARK_OVER_TAIL[0] <= version[:2] < _HIGH_WATERMARK_OVER_TAIL[1]
    checkpoint = follower.directory.high_watermark_checkpoint
    for run in item.runs:
        if run.committed_end is None:
            continue
        end = min(run.end_offset, run.committed_end)
        yield finding(
            "HWM-LOSS",
            f"{run.committed_records} committed records at {offsets(run.start_offset, end)} are not on broker {leader.broker_id}; "
            f"broker {follower.broker_id} still has them: its own high watermark reached {checkpoint}",
            confidence="suspect" if suspect else "proven",
            broker_id=follower.broker_id,
            start_offset=run.start_offset,
            end_offset=end,
            replica_epoch=run.replica_epoch,
            evidence=[
                Evidence(
                    "checkpoint",
                    "high watermark of this replica inside its conflicting records",
                    follower.broker_id,
                    follower.directory.high_watermark_file.path,
                    value=str(checkpoint),
                ),
                considered(
                    "KAFKA-14704: this version could checkpoint a high watermark over a tail that it was about to cut"
                    if suspect
                    else "the checkpoint was learnt from the present leader: no, the logs differ up to it"
                ),
                *_history(run),
            ],
        )


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


def _above_log_end(case: Case, facts: ReplicaFacts) -> Iterator[Finding]:
    directory, end = facts.directory, facts.log_end_offset
    checkpoint, recovery_point = directory.high_watermark_checkpoint, directory.recovery_point_checkpoint
    if checkpoint is not None and checkpoint > end and not _just_truncated(case, facts, checkpoint):
        holders = [other for other in case.replicas if other is not facts and other.log_end_offset >= checkpoint]
        gone = facts is case.reference.facts and case.quiesced and not holders
        yield finding(
            "HWM-CP-ABOVE-LEO",
            f"broker {facts.broker_id}: its high watermark was {checkpoint}, its log ends at {end}"
            + ("; no replica here has the records between" if not holders else ""),
            severity="critical" if gone else "high",
            verdict="COMMITTED_LOSS" if gone else "LATENT_CORRUPTION",
            confidence="likely" if gone else "proven",
            broker_id=facts.broker_id,
            start_offset=end,
            end_offset=checkpoint,
            evidence=[
                Evidence(
                    "checkpoint",
                    "high watermark",
                    facts.broker_id,
                    directory.high_watermark_file.path,
                    value=str(checkpoint),
                ),
                considered(
                    f"a truncation just before the copy: no, recovery point {recovery_point}, and no later epoch of the reference "
                    "begins below that high watermark"
                ),
            ],
        )
    if recovery_point is not None and recovery_point > end:
        yield finding(
            "HWM-RP-ABOVE-LEO",
            f"broker {facts.broker_id}: offsets below {recovery_point} were flushed to disk, its log ends at {end}",
            broker_id=facts.broker_id,
            start_offset=end,
            end_offset=recovery_point,
            evidence=[
                Evidence(
                    "checkpoint",
                    "recovery point",
                    facts.broker_id,
                    directory.recovery_point_file.path,
                    value=str(recovery_point),
                ),
                considered("a truncation: no, it writes a smaller recovery point at once"),
            ],
        )


def _just_truncated(case: Case, facts: ReplicaFacts, checkpoint: int) -> bool:
    """Whether a truncation explains a checkpoint past the log end: it writes the recovery point at once, and a later
    epoch is why. No truncation explains a checkpoint that no other replica ever reached.
    """
    if facts.directory.recovery_point_checkpoint != facts.log_end_offset or facts.directory.clean_shutdown:
        return False
    last = -1 if facts.last_leader_epoch is None else facts.last_leader_epoch
    others = [other for other in case.replicas if other is not facts]
    reached = max(
        (max(other.log_end_offset, other.directory.high_watermark_checkpoint or 0) for other in others), default=0
    )
    return checkpoint <= reached and any(
        epoch > last and start <= checkpoint for epoch, start in case.reference.augmented_lineage
    )


def _suffix(case: Case) -> Iterator[Finding]:
    suffix = case.high_watermark.lowest_suffix
    if suffix is None:
        return
    broker_id, start = suffix
    lower = case.high_watermark.hw_lower
    yield finding(
        "HWM-ABOVE-ISR-PREFIX",
        f"broker {broker_id} counts as in sync but has other or unreadable records from {start} on, though everything below {lower} is committed",
        broker_id=broker_id,
        start_offset=start,
        end_offset=lower,
        evidence=[Evidence("checkpoint", case.high_watermark.lower_evidence)],
    )
