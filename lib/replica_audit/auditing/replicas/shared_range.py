"""The offsets that two logs share, and that can be compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from replica_audit.auditing.replicas.facts import ReplicaFacts


def shared_start(one: ReplicaFacts, other: ReplicaFacts) -> int:
    """The first offset that both logs can have a record at: the floor of what can be compared."""
    return max(one.local_start_offset, other.local_start_offset)


def shared_end(one: ReplicaFacts, other: ReplicaFacts) -> int:
    """Where the shorter of two logs ends: what lies above it is lag, or ahead."""
    return min(one.log_end_offset, other.log_end_offset)
