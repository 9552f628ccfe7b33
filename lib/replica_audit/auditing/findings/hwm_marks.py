"""High watermarks that contradict a log or the in-sync replicas (F.5)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from replica_audit.auditing.finding import Code, Finding, considered, doubted, finding
from replica_audit.auditing.replicas.lost_tails import is_tail_lost, lineage_as_found
from replica_audit.schema import Evidence
from replica_audit.text import count, name_source

if TYPE_CHECKING:
    from replica_audit.auditing.case import Case
    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts

HWM_CP_ABOVE_LEO = Code(
    "HWM-CP-ABOVE-LEO",
    ("critical", "high"),
    ("COMMITTED_LOSS", "LATENT_CORRUPTION"),
    traits=("gone", "lost_tail"),
)
HWM_RP_ABOVE_LEO = Code("HWM-RP-ABOVE-LEO", ("high",), ("LATENT_CORRUPTION",), traits=("lost_tail",))
HWM_ABOVE_ISR_PREFIX = Code("HWM-ABOVE-ISR-PREFIX", ("critical",), ("COMMITTED_DIVERGENCE",))
HWM_UNDER_MIN_ISR = Code("HWM-UNDER-MIN-ISR", ("medium",))
CODES = (HWM_CP_ABOVE_LEO, HWM_RP_ABOVE_LEO, HWM_ABOVE_ISR_PREFIX, HWM_UNDER_MIN_ISR)


def judge(case: Case) -> Iterator[Finding]:
    """Marks of every replica that was compared, and of the partition."""
    for facts in case.replicas:
        yield from _above_log_end(case, facts)
    yield from _suffix(case)
    yield from _under_min_isr(case)


def _above_log_end(case: Case, facts: ReplicaFacts) -> Iterator[Finding]:
    if facts.end_is_open:
        return  # what lies past the end of what is shown is not known, so it is not a loss
    directory = facts.directory
    end = facts.log_end_offset
    checkpoint = directory.high_watermark_checkpoint
    recovery_point = directory.recovery_point_checkpoint
    if checkpoint is not None and is_tail_lost(case.reference, case.replicas, facts):
        held_to = max((_held_to(case, facts, other, checkpoint) for other in case.copies), default=end)
        gone = facts is case.reference.facts and held_to < checkpoint and case.were_at_rest(*case.copies)
        yield finding(
            HWM_CP_ABOVE_LEO,
            f"broker {facts.broker_id}: its high watermark was {checkpoint}, its log ends at {end}"
            + _gone_from(case.reference.facts, held_to, end, checkpoint),
            severity="critical" if gone else "high",
            verdict="COMMITTED_LOSS" if gone else "LATENT_CORRUPTION",
            confidence="likely" if gone else "proven",
            broker_id=facts.broker_id,
            start_offset=end,
            end_offset=checkpoint,
            evidence=[
                Evidence(
                    "checkpoint",
                    text="high watermark",
                    broker_id=facts.broker_id,
                    path=directory.high_watermark_file.path,
                    value=str(checkpoint),
                ),
                considered(
                    f"a truncation just before the copy: no, recovery point {recovery_point}, and no other leader of a later epoch "
                    f"began between {end} and that high watermark"
                ),
            ],
        )
    if recovery_point is not None and recovery_point > end:
        yield finding(
            HWM_RP_ABOVE_LEO,
            f"broker {facts.broker_id}: offsets below {recovery_point} were flushed to disk, its log ends at {end}",
            broker_id=facts.broker_id,
            start_offset=end,
            end_offset=recovery_point,
            evidence=[
                Evidence(
                    "checkpoint",
                    text="recovery point",
                    broker_id=facts.broker_id,
                    path=directory.recovery_point_file.path,
                    value=str(recovery_point),
                ),
                considered("a truncation: no, it writes a smaller recovery point at once"),
            ],
        )


def _held_to(case: Case, facts: ReplicaFacts, other: ReplicaFacts, checkpoint: int) -> int:
    """Offset up to which a replica has what `facts` lost between its log end and its checkpoint.

    An epoch file as found names the epochs of those records. Without one, records of a lineage that the reference has left
    are not taken for them.
    """
    lost = lineage_as_found(facts)
    end = min(other.log_end_offset, checkpoint)
    if other.is_about_to_go and other.log_start_offset > facts.log_end_offset:
        return facts.log_end_offset  # segments from the middle of a log
    if lost is not None:
        return lost.agrees_to(other.lineage, facts.log_end_offset, end)
    item = case.comparison_of(other)
    left = item is not None and any(part.start_offset < end <= part.end_offset for part in item.stretches)
    return facts.log_end_offset if left else end


def _gone_from(reference: ReplicaFacts, held_to: int, end: int, checkpoint: int) -> str:
    """Clause naming the records past `end` that no replica has; empty if some replica has all."""
    if held_to >= checkpoint:
        return ""
    if reference.log_start_offset >= checkpoint:
        return f"; the records between have been deleted since, broker {reference.broker_id} begins at {reference.log_start_offset}"
    if held_to <= end:
        return "; no replica here has the records between"
    return f"; no replica here has the records from {held_to} on"


def _suffix(case: Case) -> Iterator[Finding]:
    suffix = case.high_watermark.lowest_suffix
    if suffix is None:
        return
    broker_id, start = suffix
    lower = case.high_watermark.hw_lower
    found = finding(
        HWM_ABOVE_ISR_PREFIX,
        f"broker {broker_id} counts as in sync but has other or unreadable records from {start} on, though everything below {lower} is committed",
        broker_id=broker_id,
        start_offset=start,
        end_offset=lower,
        evidence=[Evidence("checkpoint", text=case.high_watermark.lower_evidence)],
    )
    yield doubted(found, next(item for item in case.comparisons if item.follower.broker_id == broker_id))


def _under_min_isr(case: Case) -> Iterator[Finding]:
    isr = case.reference.isr
    leadership = case.leadership
    if isr is None or leadership is None or case.stopped or case.reference.leader_id is None:
        return
    assigned = leadership.replicas
    minimum = case.config("min.insync.replicas")
    if minimum is not None and minimum.isdigit() and len(isr) < min(int(minimum), len(assigned or isr) or int(minimum)):
        yield finding(
            HWM_UNDER_MIN_ISR,
            f"{count(len(isr), 'replica')} in sync, but min.insync.replicas is {minimum}: acks=all is refused, and since 3.7 the high "
            "watermark stands still",
            evidence=[
                Evidence("leadership", text=f"min.insync.replicas={minimum}", value=name_source(leadership.source))
            ],
        )
