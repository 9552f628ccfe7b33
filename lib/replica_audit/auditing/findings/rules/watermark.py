"""High watermarks that contradict a log (F.5)."""

from __future__ import annotations

from collections.abc import Iterator

from replica_audit.auditing.findings.finding import Case, Evidence, Finding, considered, doubted, finding
from replica_audit.auditing.replicas.facts import ReplicaFacts


def judge(case: Case) -> Iterator[Finding]:
    """HWM-*, but for HWM-LOSS and HWM-UNDER-MIN-ISR."""
    for facts in case.replicas:
        yield from _above_log_end(case, facts)
    yield from _suffix(case)


def _above_log_end(case: Case, facts: ReplicaFacts) -> Iterator[Finding]:
    if facts.end_is_open:
        return  # what lies past the end of what is shown is not known, and is no loss
    directory, end = facts.directory, facts.log_end_offset
    checkpoint, recovery_point = directory.high_watermark_checkpoint, directory.recovery_point_checkpoint
    if is_tail_lost(case, facts):
        holders = [other for other in case.replicas if other is not facts and _has_up_to(case, other, checkpoint)]
        gone = facts is case.reference.facts and case.quiesced and not holders
        yield finding(
            "HWM-CP-ABOVE-LEO",
            f"broker {facts.broker_id}: its high watermark was {checkpoint}, its log ends at {end}"
            + ("" if holders else _gone_from(case, facts, end)),
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


def is_tail_lost(case: Case, facts: ReplicaFacts) -> bool:
    """Whether a replica had records up to its checkpointed high watermark that its log has not, and no truncation tells why."""
    checkpoint = facts.directory.high_watermark_checkpoint
    if checkpoint is None or facts.end_is_open or checkpoint <= facts.log_end_offset:
        return False
    return not _is_just_truncated(case, facts, checkpoint)


def _has_up_to(case: Case, facts: ReplicaFacts, offset: int) -> bool:
    """Whether a replica reaches `offset` with records that are not of a lineage that the reference has left."""
    item = next((one for one in case.comparisons if one.follower is facts), None)
    left = item is not None and any(part.start_offset < offset <= part.end_offset for part in item.stretches)
    return facts.log_end_offset >= offset and not left


def _gone_from(case: Case, facts: ReplicaFacts, end: int) -> str:
    """What of [end, its checkpoint) no replica has, in words."""
    others = [other for other in case.replicas if other is not facts]
    reached = max(
        (other.log_end_offset for other in others if _has_up_to(case, other, other.log_end_offset)), default=0
    )
    if reached <= end:
        return "; no replica here has the records between"
    return f"; no replica here has the records from {reached} on"


def _is_just_truncated(case: Case, facts: ReplicaFacts, checkpoint: int) -> bool:
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
    found = finding(
        "HWM-ABOVE-ISR-PREFIX",
        f"broker {broker_id} counts as in sync but has other or unreadable records from {start} on, though everything below {lower} is committed",
        broker_id=broker_id,
        start_offset=start,
        end_offset=lower,
        evidence=[Evidence("checkpoint", case.high_watermark.lower_evidence)],
    )
    yield doubted(found, next(item for item in case.comparisons if item.follower.broker_id == broker_id))
