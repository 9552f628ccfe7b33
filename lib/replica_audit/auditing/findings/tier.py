"""Segments in remote storage: of a history that the log left, and missing from the log's own (F.7)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from replica_audit.auditing.finding import Code, Finding, considered, finding
from replica_audit.schema import Evidence
from replica_audit.text import count, name_offsets

if TYPE_CHECKING:
    from replica_audit.auditing.case import Case

TIER_ORPHAN = Code("TIER-ORPHAN", ("critical",), ("COMMITTED_LOSS",), traits=("records",))
TIER_GAP = Code("TIER-GAP", ("critical",), ("COMMITTED_LOSS",))
TIER_NOT_COPIED = Code("TIER-NOT-COPIED", ("high",), ("COMMITTED_LOSS",))
CODES = (TIER_ORPHAN, TIER_GAP, TIER_NOT_COPIED)


def judge(case: Case) -> Iterator[Finding]:
    """TIER-ORPHAN for each stretch of another history, TIER-GAP for each gap, TIER-NOT-COPIED for what was never copied."""
    facts = case.reference.facts
    for orphan in case.remote_orphans:
        number = orphan.end_offset - orphan.start_offset
        segments = count(len(orphan.segment_ids), "segment")
        yield finding(
            TIER_ORPHAN,
            f"remote storage has {segments} with {name_offsets(orphan.start_offset, orphan.end_offset)} of epoch "
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
            f"{name_offsets(gap.start_offset, gap.end_offset)} are {local}; a later segment is there",
            broker_id=facts.broker_id,
            start_offset=gap.start_offset,
            end_offset=gap.end_offset,
            evidence=[above],
        )
    if last := case.remote_holes.uncopied:
        yield finding(
            TIER_NOT_COPIED,
            f"{name_offsets(last.start_offset, last.end_offset)} are {local}; local segments are deleted only once they were copied "
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
