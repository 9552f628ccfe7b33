"""Rows of `remote_segments`: segments in remote storage compared with the reference's log."""

from __future__ import annotations

from collections.abc import Iterator

from replica_audit.auditing.case import Case
from replica_audit.auditing.compare.remote_storage import place_segment
from replica_audit.auditing.conclude import PartitionAudit
from replica_audit.literals import RemoteBasis, RemoteLineage
from replica_audit.model import RemoteSegment
from replica_audit.schema import RemoteSegmentRow
from replica_audit.snapshot.remote_log_metadata import COPY_FINISHED, STATES


def remote_segment_rows(audit: PartitionAudit) -> Iterator[RemoteSegmentRow]:
    """Yield a row for each segment in `__remote_log_metadata` of a topic with that name, of any id."""
    case = audit.case
    known = {one.segment_id for one in case.remote.segments} if case is not None else set()
    for segment in audit.evidence.side.remote_segments:
        place: tuple[RemoteLineage, int | None] = ("unknown", None)
        if case is not None:
            place = ("other_topic", None)
            if segment.segment_id in known:
                place = place_segment(case.reference.facts, case.remote.lineage, segment, case.remote.start_offset)
        yield RemoteSegmentRow(
            topic=segment.topic,
            partition=segment.partition,
            topic_id=segment.topic_id,
            segment_id=segment.segment_id,
            start_offset=segment.start_offset,
            end_offset=segment.end_offset,
            epochs=segment.epochs,
            state=STATES[segment.state],
            lineage=place[0],
            parted_at=place[1],
            size_bytes=segment.size_bytes,
            copied_by=segment.broker_id,
            started_ms=segment.started_ms,
            copied_ms=segment.copied_ms,
            deleting_ms=segment.deleting_ms,
            updated_by=segment.updated_by,
            updated_ms=segment.updated_ms,
            max_timestamp_ms=None if segment.max_timestamp_ms < 0 else segment.max_timestamp_ms,
            told_in=segment.told_in,
            told_whole=segment.is_whole,
            stored=None if case is None else case.store.forms.get(segment.segment_id),
            basis=None if case is None else _basis(case, segment),
        )


def _basis(case: Case, segment: RemoteSegment) -> RemoteBasis | None:
    is_there = segment.state == COPY_FINISHED and segment.segment_id not in case.store.gone
    return case.store.basis_of(segment.segment_id) if is_there else None
