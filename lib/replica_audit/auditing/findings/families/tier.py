"""Segments in remote storage: of a history that the log left, and missing from the log's own (F.7)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from replica_audit.auditing.findings.code import Code
from replica_audit.auditing.findings.finding import Evidence, Finding, considered, finding, offsets
from replica_audit.wording import count

if TYPE_CHECKING:
    from replica_audit.auditing.findings.case import Case

TIER_ORPHAN = Code(
    "TIER-ORPHAN",
    severities=("critical",),
    verdicts=("COMMITTED_LOSS",),
    traits=("records",),
    summary="Remote storage has committed records of a history that the leader's log has left",
    meaning="A leader copied segments to remote storage and lost the partition to one that did not have their records. The "
    "segments stay there, no reader gets them, and retention may delete them one day.",
    proof="The segments by __remote_log_metadata with their epochs, and the leader's epochs, which rule them out at those "
    "offsets. Kafka copies only what lies below the last stable offset: the records were committed.",
    remedy="Keep remote storage from deleting them (retention.ms=-1 for the topic), and take the records out of the segments "
    "named: their files are in the remote store under the segment ids.",
    traps="A segment of a topic of the same name but another id; one that was copied in part; records below the log start.",
)
TIER_GAP = Code(
    "TIER-GAP",
    severities=("critical", "high"),
    verdicts=("COMMITTED_LOSS",),
    traits=(),
    summary="Offsets between log start and local start are in no segment of remote storage",
    meaning="The leader deleted its local segments, and __remote_log_metadata has no copied segment of its history for a part "
    "of them. Consumers that read there get an error.",
    proof="The log start and local start of the leader, its epochs, and the segments before and after the gap. Without a later "
    "segment it is likely: the copies are of one moment, and Kafka deletes local segments only once they were copied.",
    remedy="Look for the segment in the remote store and on other brokers; followers that were down longer may still have the "
    "offsets in their local log. Copy those before they follow.",
    traps="Retention that is deleting the oldest segments while the log-start checkpoint lags behind by up to a minute; a log "
    "of __remote_log_metadata that is not here from its beginning.",
)
CODES = (
    TIER_ORPHAN,
    TIER_GAP,
)


def judge(case: Case) -> Iterator[Finding]:
    """One for each stretch of another history, and for each gap."""
    facts = case.reference.facts
    for orphan in case.remote_orphans:
        number = orphan.end_offset - orphan.start_offset
        segments = count(len(orphan.segment_ids), "segment")
        yield finding(
            TIER_ORPHAN,
            f"remote storage has {segments} with {offsets(orphan.start_offset, orphan.end_offset)} of epoch "
            f"{orphan.leader_epoch}, up to {count(number, 'committed record')} that the log of broker {facts.broker_id} does "
            "not have",
            start_offset=orphan.start_offset,
            end_offset=orphan.end_offset,
            replica_epoch=orphan.leader_epoch,
            evidence=[
                *(Evidence("file", f"segment {one} in remote storage", value=one) for one in orphan.segment_ids),
                considered("uncommitted: no, Kafka copies only what lies below the last stable offset"),
            ],
        )
    for gap in case.remote_gaps:
        is_last = gap.end_offset == facts.local_start_offset
        yield finding(
            TIER_GAP,
            f"{offsets(gap.start_offset, gap.end_offset)} are below the local start {facts.local_start_offset} of broker "
            f"{facts.broker_id} and in no segment of remote storage; "
            + (
                "local segments are deleted only once they were copied (KAFKA-20732 deleted both)"
                if is_last
                else "a later segment is there"
            ),
            severity="high" if is_last else "critical",
            confidence="likely" if is_last else "proven",
            broker_id=facts.broker_id,
            start_offset=gap.start_offset,
            end_offset=gap.end_offset,
            evidence=[considered("retention: no, it deletes from the log start on, and this lies above it")],
        )
