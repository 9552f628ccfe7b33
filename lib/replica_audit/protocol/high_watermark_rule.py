"""The parts of the rule by which a leader advances its high watermark that differ by version (C.1).

`protocol.leader_view` applies it (`Partition.maybeIncrementLeaderHW`), `protocol.timeline` to a whole history;
`auditing.leadership.high_watermark_bounds` concludes where the high watermark of a snapshot is.
"""

from __future__ import annotations

from typing import NamedTuple

from replica_audit.protocol.versions import (
    counts_fenced_outsiders,
    holds_pending_isr,
    stands_still_below_min_isr,
    tries_when_isr_changes,
    waits_thirty_seconds,
)

#: `replica.lag.time.max.ms` where an observation does not give it: 10 s before KIP-537 (2.5), 30 s since.
OLD_LAG_TIME_MS, LAG_TIME_MS = 10_000, 30_000


class Rule(NamedTuple):
    """The parts of `Partition.maybeIncrementLeaderHW` that depend on the version; None: unknown."""

    pending_isr: bool = True
    """True if members of the maximal ISR, a pending expansion included, hold it back (2.7, AlterIsr); before 2.7 only
    the leader's own ISR does."""
    eligibility: bool | None = None
    """True if a caught-up replica outside the ISR holds it back only when it may join the ISR (3.6, KAFKA-15021)."""
    min_isr_gate: bool | None = None
    """True if it stands still while the ISR is smaller than min.insync.replicas (3.7, KAFKA-15583)."""
    isr_change: bool | None = None
    """True if the leader tries to advance it when its ISR changes; in 2.7 and 2.8 the change came too late for that (KAFKA-13091)."""
    lag_time_ms: int = LAG_TIME_MS


def rule_of(kafka_version: tuple[int, ...] | None) -> Rule:
    """The rule of a version (`Partition.maybeIncrementLeaderHW`). For an unknown version, parts on which versions
    disagree are None, so that no leader is accused by them."""
    if kafka_version is None:
        return Rule()
    return Rule(
        pending_isr=bool(holds_pending_isr(kafka_version)),
        eligibility=not counts_fenced_outsiders(kafka_version),
        min_isr_gate=stands_still_below_min_isr(kafka_version),
        isr_change=tries_when_isr_changes(kafka_version),
        lag_time_ms=LAG_TIME_MS if waits_thirty_seconds(kafka_version) else OLD_LAG_TIME_MS,
    )
