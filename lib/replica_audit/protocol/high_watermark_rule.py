"""The rule by which a leader advances its high watermark (`Partition.maybeIncrementLeaderHW`, C.1), for each version.

Where the high watermark of a snapshot is, `auditing.leadership.high_watermark_bounds` concludes.
"""

from __future__ import annotations

from dataclasses import dataclass

from replica_audit.protocol.versions import (
    counts_fenced_outsiders,
    holds_pending_isr,
    stands_still_below_min_isr,
    tries_when_isr_changes,
    waits_thirty_seconds,
)

#: `replica.lag.time.max.ms` where an observation does not give it: 10 s before KIP-537 (2.5), 30 s since.
OLD_LAG_TIME_MS, LAG_TIME_MS = 10_000, 30_000


@dataclass(frozen=True, slots=True)
class Rule:
    """The inputs of `Partition.maybeIncrementLeaderHW` that depend on the version; None: unknown."""

    pending_isr: bool = True
    """The maximal ISR, a pending expansion included, holds it (2.7, AlterIsr); before, the leader's own ISR."""
    eligibility: bool | None = None
    """A caught-up outsider holds it only when it may join the ISR (3.6, KAFKA-15021)."""
    min_isr_gate: bool | None = None
    """It stands still while the ISR is smaller than min.insync.replicas (3.7, KAFKA-15583)."""
    isr_change: bool | None = None
    """The leader tries when its ISR changes; in 2.7 and 2.8 a change came too late for that (KAFKA-13091)."""
    lag_time_ms: int = LAG_TIME_MS


def rule_of(kafka_version: tuple[int, ...] | None) -> Rule:
    """The rule of a version (`Partition.maybeIncrementLeaderHW`). For an unknown version, parts on which versions disagree are
    None, so that they accuse no leader.
    """
    if kafka_version is None:
        return Rule()
    return Rule(
        pending_isr=bool(holds_pending_isr(kafka_version)),
        eligibility=not counts_fenced_outsiders(kafka_version),
        min_isr_gate=stands_still_below_min_isr(kafka_version),
        isr_change=tries_when_isr_changes(kafka_version),
        lag_time_ms=LAG_TIME_MS if waits_thirty_seconds(kafka_version) else OLD_LAG_TIME_MS,
    )
