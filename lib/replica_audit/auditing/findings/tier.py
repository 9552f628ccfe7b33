"""Segments in remote storage: of a history that the log left, and missing from the log's own (F.7)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from replica_audit.auditing.finding import Code, Finding, considered, finding, offsets
from replica_audit.schema import Evidence
from replica_audit.text import count

if TYPE_CHECKING:
    from replica_audit.auditing.case import Case

TIER_ORPHAN = Code(
    "TIER-ORPHAN",
    severities=("critical",),
    verdicts=("COMMITTED_LOSS",),
    traits=("records",),
    summary="Remote storage has committed records that the leader's log does not have",
    meaning="A leader copied segments to remote storage and then lost the partition to a replica that did not have their "
    "records, or lost the end of its own log. The segments stay there, no reader gets them, and retention may delete them one day.",
    proof="The segments by __remote_log_metadata with their epochs, and the leader's epochs, which rule them out at those "
    "offsets; or the leader's log end below the end of a segment of its own epoch, where the copies are of one moment or its "
    "broker was down. Kafka copies only what lies below the last stable offset: the records were committed.",
    remedy="Keep remote storage from deleting them (retention.ms=-1 and retention.bytes=-1 for the topic), and take the records "
    "out of the segments named: their files are in the remote store under the segment ids.",
    traps="A segment of a topic of the same name but another id; one that was copied in part; records below the log start. A "
    "running leader may have copied more than an older copy of its log shows.",
)
TIER_GAP = Code(
    "TIER-GAP",
    severities=("critical",),
    verdicts=("COMMITTED_LOSS",),
    traits=(),
    summary="Offsets between log start and local start are in no segment of remote storage",
    meaning="The leader deleted its local segments, and __remote_log_metadata has no copied segment of its history for a part "
    "of them. Consumers that read there get an error.",
    proof="The log start and local start of the leader, its epochs, and the segments before and after the gap.",
    remedy="Look for the segment in the remote store and on other brokers; followers that were down longer may still have the "
    "offsets in their local log. Copy those before they follow.",
    traps="Retention that is deleting the oldest segments while the log-start checkpoint lags behind by up to a minute; a log "
    "of __remote_log_metadata that is not here from its beginning.",
)
TIER_NOT_COPIED = Code(
    "TIER-NOT-COPIED",
    severities=("high",),
    verdicts=("COMMITTED_LOSS",),
    traits=(),
    summary="Local segments were deleted that remote storage never got",
    meaning="Between the last copied segment of the leader's history and its local start nothing has the offsets. Kafka deletes "
    "local segments only once they were copied; KAFKA-20732 (before 4.3.2) deletes both just after an election.",
    proof="The local start of the leader, and the segments of its topic id that __remote_log_metadata names, from the log "
    "start on, or from the end of those that retention is deleting. It is likely: that log is here from its beginning, and was "
    "copied at one moment with the leader's log, or after it, but may itself lack its end.",
    remedy="Look for the segment in the remote store and on other brokers; followers that were down longer may still have the "
    "offsets in their local log. Copy those before they follow. Upgrade brokers that are older than 4.3.2.",
    traps="A segment that was copied, and its local files deleted, after __remote_log_metadata was captured; segments of a "
    "topic of the same name but another id.",
)
CODES = (
    TIER_ORPHAN,
    TIER_GAP,
    TIER_NOT_COPIED,
)


def judge(case: Case) -> Iterator[Finding]:
    """TIER-ORPHAN for each stretch of another history, TIER-GAP for each gap, TIER-NOT-COPIED for what was never copied."""
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
                *(Evidence("file", text=f"segment {one} in remote storage", value=one) for one in orphan.segment_ids),
                considered("uncommitted: no, Kafka copies only what lies below the last stable offset"),
            ],
        )
    local = f"below the local start {facts.local_start_offset} of broker {facts.broker_id} and in no segment of remote storage"
    above = considered("retention: no, it deletes from the log start on, and this lies above it")
    for gap in case.remote_holes.gaps:
        yield finding(
            TIER_GAP,
            f"{offsets(gap.start_offset, gap.end_offset)} are {local}; a later segment is there",
            broker_id=facts.broker_id,
            start_offset=gap.start_offset,
            end_offset=gap.end_offset,
            evidence=[above],
        )
    if last := case.remote_holes.uncopied:
        yield finding(
            TIER_NOT_COPIED,
            f"{offsets(last.start_offset, last.end_offset)} are {local}; local segments are deleted only once they were copied "
            "(KAFKA-20732 deleted both)",
            confidence="likely",
            broker_id=facts.broker_id,
            start_offset=last.start_offset,
            end_offset=last.end_offset,
            evidence=[
                above,
                considered("copied since: no, what tells of remote storage was captured as late as the log"),
            ],
        )
