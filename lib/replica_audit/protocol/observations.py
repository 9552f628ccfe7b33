"""Observations of one partition, the timeline that follows from them, and its deviating stretches."""

from __future__ import annotations

from dataclasses import dataclass

AHEAD, STUCK, REGRESSED = "ahead", "stuck", "regressed"


@dataclass(frozen=True, slots=True)
class ReplicaProgress:
    """One replica at one moment. Offsets are int64, None where the observer does not know."""

    broker_id: int
    known_log_end_offset: int | None = None
    """As the leader knows it: the offset of the last accepted fetch; -1 when the leader is new and none came yet."""
    log_end_offset: int | None = None
    """The replica's own."""
    last_caught_up_ms: int | None = None
    high_watermark: int | None = None
    eligible: bool | None = None
    """Not fenced, not shutting down, of the current broker epoch."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One partition at one moment: what its leader has, and one `ReplicaProgress` for every assigned replica."""

    time_ms: int
    leader_id: int | None
    leader_epoch: int | None
    isr: tuple[int, ...] | None
    """None: the observer does not know; then nothing is due and nothing too much."""
    replicas: tuple[ReplicaProgress, ...]
    pending_isr: tuple[int, ...] = ()
    """Replicas of an ISR expansion that is not confirmed yet."""
    min_insync_replicas: int | None = None
    lag_time_ms: int | None = None
    sequence: int = 0
    """Order among observations of one millisecond."""

    @property
    def sorted_isr(self) -> tuple[int, ...] | None:
        """The ISR in ascending order."""
        return None if self.isr is None else tuple(sorted(self.isr))


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """The high watermark after one observation."""

    time_ms: int
    sequence: int
    occasion: str
    """What made the leader try: leader (elected), isr (changed), fetch (served), append; none; start: the first row."""
    leader_id: int | None
    leader_epoch: int | None
    isr: tuple[int, ...] | None
    hw_recomputed: int | None
    hw_observed: int | None
    deviation: str | None
    """ahead, stuck or regressed; None when the observed value is what the rule gives, or the rule cannot tell."""
    limiting_broker_id: int | None
    """The replica that holds the high watermark below the leader's end."""
    leader_log_end_offset: int | None
    waiting_since_ms: int | None
    """Since when it has stood still below the leader's end; None when nothing waits."""
    lasting: bool
    """Not of this observation only: what was due at the one before is still missing. True for every deviation but
    stuck."""

    @property
    def is_held(self) -> bool:
        """Stuck where the rule puts it: something holds it for longer than anything may."""
        return self.deviation is not None and self.hw_observed == self.hw_recomputed


@dataclass(frozen=True, slots=True)
class DeviationRun:
    """A stretch of observations of one leadership with one deviation; times are inclusive."""

    deviation: str
    held: bool
    """It is where the rule puts it, but has been there longer than a replica may hold it."""
    leader_id: int | None
    leader_epoch: int | None
    start_ms: int
    end_ms: int
    observations: int
    least_observed: int
    greatest_observed: int
    least_recomputed: int
    greatest_recomputed: int
    leader_log_end_offset: int | None
    limiting_broker_id: int | None
    """At the end of the stretch."""
    lasting: bool
    """It lasted from one observation to the next: of a single one the readings may have been a moment apart."""
