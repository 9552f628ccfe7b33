"""What shows that a segment was there which is missing now."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
    from replica_audit.model import OffsetRange


def traces_of_segment(facts: ReplicaFacts, replicas: Iterable[ReplicaFacts], stretch: OffsetRange) -> list[str]:
    """Clauses that show that a replica, or another of `replicas`, had a segment with offsets of `stretch`; empty: none does."""
    start, end = stretch.start_offset, stretch.end_offset
    bases = [base for base in facts.directory.index_bases if start <= base < end]
    holders = [
        other.broker_id
        for other in replicas
        if other is not facts and other.local_start_offset < end and other.log_end_offset > start
    ]
    shown = [f"index or snapshot files of segment {base} are there without its .log" for base in bases]
    return shown + [f"broker {broker} has records in this range" for broker in holders]
