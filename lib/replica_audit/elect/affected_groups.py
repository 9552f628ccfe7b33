"""Consumer groups that a choice of leader hits: they have read records that its log does not have (KIP-320)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from replica_audit.model import Place
from replica_audit.protocol.lineage import Lineage


class CommittedOffset(NamedTuple):
    """An offset that a group committed: the next one that it reads, and the epoch of the last record that it read."""

    group: str
    topic: str
    partition: int
    committed_offset: int
    leader_epoch: int | None


def by_partition(offsets: Iterable[CommittedOffset]) -> dict[Place, list[CommittedOffset]]:
    """The offsets of each partition that has any."""
    found: dict[Place, list[CommittedOffset]] = defaultdict(list)
    for one in offsets:
        found[one.topic, one.partition].append(one)
    return dict(found)


def find_hit(offsets: Iterable[CommittedOffset], lineage: Lineage, end_offset: int, shared_end: int) -> frozenset[str]:
    """Groups of one partition that have read past what a log has of what they read.

    `lineage` and `end_offset` are the candidate's; `shared_end` is where it parts from the log that was read, which counts
    for offsets without an epoch, and of an epoch that the candidate's log does not have; of these the end of the epoch
    before counts too, since they may have been read from a third log.
    """
    hit = set()
    for one in offsets:
        known = one.leader_epoch is not None and one.leader_epoch >= 0 and lineage
        answer = lineage.end_offset_for(one.leader_epoch, end_offset) if known else None
        # What was read in an epoch that the log does not have is on it only below the point where the two part, and below
        # the end of the epoch before: it need not have been read from the present leader.
        of_log = answer is not None and answer[0] == one.leader_epoch
        ends = [end_offset] if of_log else [end_offset, shared_end]
        end = min(ends if answer is None else [*ends, answer[1]])
        if one.committed_offset > end:
            hit.add(one.group)
    return frozenset(hit)
