"""High watermarks that a checkpoint file keeps of a partition whose directory is missing: what they prove to be lost (F.5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from replica_audit.auditing.leadership.broker_log_evidence import lineage_entries
from replica_audit.protocol.election import elections

if TYPE_CHECKING:
    from replica_audit.auditing.replicas.reference import Reference
    from replica_audit.model import Leadership

_MARKS = "replication-offset-checkpoint"


@dataclass(frozen=True, slots=True)
class OrphanedMark:
    """Offsets [start, end) that lay below a broker's high watermark, where the reference has, or would write, other records."""

    broker_id: int
    log_dir: str
    start_offset: int
    end_offset: int
    leader_epoch: int
    """Of the election that left them behind."""


def orphaned_marks(
    orphans: Mapping[tuple[int, str, str], int], leadership: Leadership | None, reference: Reference
) -> Iterator[OrphanedMark]:
    """Those that are proven: of a broker that was in sync, is assigned, and was fenced from before the election until now.

    Then its mark is of the log that the election left, and of this topic, whose id the metadata log knows. `orphans` as in
    `Case`; of brokers that have the partition on another disk none is given.
    """
    if leadership is None or leadership.topic_id is None or reference.outdated:
        return
    history = [state for state in leadership.history if not state.uncommitted]
    since = leadership.fenced_since
    for (broker_id, log_dir, file), mark in sorted(orphans.items()):
        fenced_at = since.get(broker_id)
        if file != _MARKS or fenced_at is None or broker_id not in (leadership.replicas or ()):
            continue
        was_in_sync = any(broker_id in state.isr for state in history if state.metadata_offset < fenced_at)
        later = [one.leader_epoch for one in elections(history) if one.metadata_offset >= fenced_at]
        starts = [(start, epoch) for epoch, start in lineage_entries(reference) if later and epoch >= min(later)]
        if was_in_sync and starts and min(starts)[0] < mark:
            start, epoch = min(starts)
            yield OrphanedMark(broker_id, log_dir, start, mark, epoch)
