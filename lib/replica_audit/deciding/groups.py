"""Consumer groups that a choice of leader hits: they have read records that its log does not have (KIP-320)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from replica_audit.protocol.lineage import Lineage


class GroupOffset(NamedTuple):
    """An offset that a group committed: the next one that it reads, and the epoch of the last record that it read."""

    group: str
    topic: str
    partition: int
    committed_offset: int
    leader_epoch: int | None


def count_hits(offsets: Iterable[GroupOffset], lineage: Lineage, end_offset: int, shared_end: int) -> int:
    """Groups of one partition that have read past what a log has of what they read.

    `lineage` and `end_offset` are the candidate's; `shared_end` is where it parts from the log that was read, which counts
    for offsets without an epoch.
    """
    hit = set()
    for one in offsets:
        if one.leader_epoch is None or one.leader_epoch < 0 or not lineage:
            end = min(shared_end, end_offset)
        else:
            answer = lineage.end_offset_for(one.leader_epoch, end_offset)
            end = end_offset if answer is None else min(answer[1], end_offset)
        if one.committed_offset > end:
            hit.add(one.group)
    return len(hit)
