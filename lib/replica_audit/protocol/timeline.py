"""The high watermark over time, from observations of the replicas (`Partition.maybeIncrementLeaderHW`, C.1).

`spark/timeline.py` says the same with window functions; a test holds the two to each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

#: `replica.lag.time.max.ms` where an observation does not give it: 10 s before KIP-537 (2.5), 30 s since.
OLD_LAG_TIME_MS, LAG_TIME_MS = 10_000, 30_000

#: A replica that does not keep up leaves the ISR within one and a half times the lag time, so nothing holds for longer.
HOLD_FACTOR = 1.5

AHEAD, STUCK, REGRESSED = "ahead", "stuck", "regressed"


@dataclass(frozen=True, slots=True)
class Rule:
    """What the leader looks at when it tries to advance its high watermark, by version."""

    pending_isr: bool = True
    """The maximal ISR, a pending expansion included, holds it (2.7, AlterIsr); before, the leader's own ISR."""
    eligibility: bool = True
    """A caught-up outsider holds it only when it may join the ISR (3.6, KAFKA-15021)."""
    min_isr_gate: bool | None = None
    """It stands still while the ISR is smaller than min.insync.replicas (3.7, KAFKA-15583); None: not known."""
    lag_time_ms: int = LAG_TIME_MS


def rule_of(kafka_version: tuple[int, ...] | None) -> Rule:
    """The rule of a version; of an unknown one the newest, whose gate then neither moves nor accuses."""
    if kafka_version is None:
        return Rule()
    version = kafka_version[:2]
    lag_time = LAG_TIME_MS if version >= (2, 5) else OLD_LAG_TIME_MS
    return Rule(version >= (2, 7), version >= (3, 6), version >= (3, 7), lag_time)


@dataclass(frozen=True, slots=True)
class ReplicaProgress:
    """One replica at one moment. Offsets are int64, None where the observer does not know."""

    broker_id: int
    known_log_end_offset: int | None = None
    """As the leader knows it: the offset of the last accepted fetch; -1 when the leader is new and none came yet."""
    log_end_offset: int | None = None
    """As the replica has it."""
    last_caught_up_ms: int | None = None
    high_watermark: int | None = None
    eligible: bool = True
    """Not fenced, not shutting down, of the current broker epoch."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One partition at one moment: what its leader has, and one `ReplicaProgress` for every assigned replica."""

    time_ms: int
    leader_id: int | None
    leader_epoch: int | None
    isr: tuple[int, ...]
    replicas: tuple[ReplicaProgress, ...]
    pending_isr: tuple[int, ...] = ()
    """Replicas of an ISR expansion that is not confirmed yet."""
    min_insync_replicas: int | None = None
    lag_time_ms: int | None = None
    sequence: int = 0
    """Order among observations of one millisecond."""


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """The high watermark after one observation."""

    time_ms: int
    sequence: int
    occasion: str
    """What made the leader try: leader (elected), isr (changed), fetch (served), append; none; start: the first row."""
    leader_id: int | None
    leader_epoch: int | None
    isr: tuple[int, ...]
    hw_recomputed: int | None
    hw_observed: int | None
    deviation: str | None
    """ahead, stuck or regressed; None when the observed value is what the rule gives."""
    limiting_broker_id: int | None
    """The replica that holds the high watermark below the leader's end."""
    leader_log_end_offset: int | None
    waiting_since_ms: int | None
    """Since when it has stood still below the leader's end; None when nothing waits."""


@dataclass(frozen=True, slots=True)
class DeviationRun:
    """A stretch of observations of one leadership with one deviation; times are inclusive."""

    deviation: str
    held: bool
    """It stands where the rule has it, but longer than a replica may hold it."""
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


def may_join_isr(log_end_offset: int, leader_high_watermark: int, epoch_start_offset: int) -> bool:
    """Whether a follower may join the ISR: at the high watermark, and past the start of the leader's epoch (C.1)."""
    return log_end_offset >= max(leader_high_watermark, epoch_start_offset)


def follower_high_watermark(leader_high_watermark: int, log_start_offset: int, log_end_offset: int) -> int:
    """A follower's high watermark after a fetch that carried its leader's: never past its own log end."""
    return max(log_start_offset, min(leader_high_watermark, log_end_offset))


def recompute_timeline(observations: Iterable[Observation], rule: Rule) -> Iterator[TimelineRow]:
    """A row for each observation of one partition, given in any order.

    Within a leadership the high watermark only grows. At its beginning the leader keeps its own: the observed value
    stands as far as every in-sync replica has that many records. Where the leader's view of a replica in the ISR is
    missing, the observed value is held to the replicas' own ends only, and never called stuck.
    """
    before: Observation | None = None
    row: TimelineRow | None = None
    last_observed: int | None = None
    for now in sorted(observations, key=lambda one: (one.time_ms, one.sequence)):
        view = _View(now, rule)
        first = before is None or (before.leader_id, before.leader_epoch) != (now.leader_id, now.leader_epoch)
        occasion = "start" if before is None else _occasion(before, now, first)
        candidate = view.candidate(occasion)
        recomputed = _greatest(candidate, view.kept) if first else _greatest(row.hw_recomputed, candidate)
        last_observed = None if first else last_observed
        waits = None not in (view.observed, view.leader_end) and view.leader_end > view.observed
        fresh = first or row.waiting_since_ms is None or view.observed != last_observed
        since = None if not waits else now.time_ms if fresh else row.waiting_since_ms
        row = TimelineRow(
            time_ms=now.time_ms,
            sequence=now.sequence,
            occasion=occasion,
            leader_id=now.leader_id,
            leader_epoch=now.leader_epoch,
            isr=tuple(sorted(now.isr)),
            hw_recomputed=recomputed,
            hw_observed=view.observed,
            deviation=_deviation(view, recomputed, last_observed, since),
            limiting_broker_id=view.limiting_broker_id,
            leader_log_end_offset=view.leader_end,
            waiting_since_ms=since,
        )
        yield row
        before = now
        last_observed = last_observed if view.observed is None else view.observed


def find_deviations(rows: Iterable[TimelineRow]) -> list[DeviationRun]:
    """The stretches of deviating rows, given in order of time."""
    runs: list[list[TimelineRow]] = []
    last: tuple | None = None
    for row in rows:
        held = row.deviation == STUCK and row.hw_observed == row.hw_recomputed
        key = None if row.deviation is None else (row.leader_id, row.leader_epoch, row.deviation, held)
        if key is not None:
            if key != last:
                runs.append([])
            runs[-1].append(row)
        last = key
    return [_run(run) for run in runs]


class _View:
    """One observation as the rule sees it."""

    def __init__(self, now: Observation, rule: Rule) -> None:
        lag_time = rule.lag_time_ms if now.lag_time_ms is None else now.lag_time_ms
        self.hold_ms = HOLD_FACTOR * lag_time
        self.time_ms = now.time_ms
        members = {*now.isr, *(now.pending_isr if rule.pending_isr else ())} - {now.leader_id}
        leader = next((one for one in now.replicas if one.broker_id == now.leader_id), None)
        others = [one for one in now.replicas if one.broker_id != now.leader_id]
        self.observed = leader.high_watermark if leader else None
        self.leader_end = _first(leader.log_end_offset, leader.known_log_end_offset) if leader else None
        holders = [
            one
            for one in others
            if one.broker_id in members
            or (
                one.last_caught_up_ms is not None
                and now.time_ms - one.last_caught_up_ms <= lag_time
                and (one.eligible or not rule.eligibility)
            )
        ]
        known = [(one.known_log_end_offset, one.broker_id) for one in holders if one.known_log_end_offset is not None]
        seen = {broker_id for _, broker_id in known}
        self.complete = members <= seen and len(known) == len(holders)
        ends = [(_first(one.known_log_end_offset, one.log_end_offset), one.broker_id) for one in holders]
        ends = [one for one in ends if one[0] is not None]
        limits = min(known if self.complete else ends, default=(None, None))
        self.limit = _least(self.leader_end, limits[0])
        below = self.leader_end is not None and limits[0] is not None and limits[0] < self.leader_end
        self.limiting_broker_id = limits[1] if below else None
        own = [_greatest(one.known_log_end_offset, one.log_end_offset) for one in others if one.broker_id in members]
        #: What a new leader may have kept from before: no more than every in-sync replica has.
        self.kept = None if self.observed is None else _least(self.observed, self.leader_end, *own)
        needed = min(now.min_insync_replicas or 0, max(len(now.replicas), len(now.isr)))
        too_few = len(now.isr) < needed
        self.gated = too_few and rule.min_isr_gate is True
        self.perhaps_gated = too_few and rule.min_isr_gate is None

    def candidate(self, occasion: str) -> int | None:
        """What the leader would advance to; None while it stands still."""
        if self.leader_end is None:
            return self.observed
        if self.gated:
            return None
        if self.complete and not self.perhaps_gated and occasion != "none":
            return self.limit
        return _least(self.observed, self.limit)


def _occasion(before: Observation, now: Observation, first: bool) -> str:
    if first:
        return "leader"
    if sorted(before.isr) != sorted(now.isr):
        return "isr"

    def fetched(one: Observation) -> list[tuple]:
        others = (replica for replica in one.replicas if replica.broker_id != one.leader_id)
        return sorted((r.broker_id, _or_least(r.known_log_end_offset), _or_least(r.last_caught_up_ms)) for r in others)

    if fetched(before) != fetched(now):
        return "fetch"
    ends = [next((r for r in one.replicas if r.broker_id == one.leader_id), None) for one in (before, now)]
    old, new = (_first(end.log_end_offset, end.known_log_end_offset) if end else None for end in ends)
    return "append" if new is not None and old is not None and new > old else "none"


def _deviation(view: _View, recomputed: int | None, last_observed: int | None, since: int | None) -> str | None:
    if view.observed is None or recomputed is None:
        return None
    if view.observed > recomputed:
        return AHEAD
    if last_observed is not None and view.observed < last_observed:
        return REGRESSED
    if view.observed < recomputed or (since is not None and view.time_ms - since > view.hold_ms):
        return STUCK
    return None


def _run(rows: Sequence[TimelineRow]) -> DeviationRun:
    first, last = rows[0], rows[-1]
    held = first.deviation == STUCK and first.hw_observed == first.hw_recomputed
    observed = [row.hw_observed for row in rows]
    recomputed = [row.hw_recomputed for row in rows]
    return DeviationRun(
        deviation=first.deviation,
        held=held,
        leader_id=first.leader_id,
        leader_epoch=first.leader_epoch,
        start_ms=min(row.waiting_since_ms for row in rows) if held else first.time_ms,
        end_ms=last.time_ms,
        observations=len(rows),
        least_observed=min(observed),
        greatest_observed=max(observed),
        least_recomputed=min(recomputed),
        greatest_recomputed=max(recomputed),
        leader_log_end_offset=_greatest(*(row.leader_log_end_offset for row in rows)),
        limiting_broker_id=last.limiting_broker_id,
    )


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


def _least(*values: int | None) -> int | None:
    return min((value for value in values if value is not None), default=None)


def _greatest(*values: int | None) -> int | None:
    return max((value for value in values if value is not None), default=None)


def _or_least(value: int | None) -> int:
    return -(2**63) if value is None else value
