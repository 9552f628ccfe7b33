"""The high watermark over time, from observations of the replicas (`Partition.maybeIncrementLeaderHW`, C.1).

`spark/timeline.py` says the same with window functions; a test holds the two to each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from replica_audit.protocol.observations import (
    AHEAD,
    REGRESSED,
    STUCK,
    DeviationRun,
    Observation,
    ReplicaProgress,
    TimelineRow,
)

#: `replica.lag.time.max.ms` where an observation does not give it: 10 s before KIP-537 (2.5), 30 s since.
OLD_LAG_TIME_MS, LAG_TIME_MS = 10_000, 30_000

#: A replica that does not keep up leaves the ISR within one and a half times the lag time, so nothing holds for longer.
HOLD_FACTOR = 1.5


@dataclass(frozen=True, slots=True)
class Rule:
    """What the leader looks at when it tries to advance its high watermark, by version; None: not known."""

    pending_isr: bool = True
    """The maximal ISR, a pending expansion included, holds it (2.7, AlterIsr); before, the leader's own ISR."""
    eligibility: bool | None = None
    """A caught-up outsider holds it only when it may join the ISR (3.6, KAFKA-15021)."""
    min_isr_gate: bool | None = None
    """It stands still while the ISR is smaller than min.insync.replicas (3.7, KAFKA-15583)."""
    lag_time_ms: int = LAG_TIME_MS


def rule_of(kafka_version: tuple[int, ...] | None) -> Rule:
    """The rule of a version; of an unknown one what all versions agree on moves or accuses, the rest does neither."""
    if kafka_version is None:
        return Rule()
    version = kafka_version[:2]
    lag_time = LAG_TIME_MS if version >= (2, 5) else OLD_LAG_TIME_MS
    return Rule(version >= (2, 7), version >= (3, 6), version >= (3, 7), lag_time)


def may_join_isr(log_end_offset: int, leader_high_watermark: int, epoch_start_offset: int) -> bool:
    """Whether a follower may join the ISR: at the high watermark, and past the start of the leader's epoch (C.1)."""
    return log_end_offset >= max(leader_high_watermark, epoch_start_offset)


def follower_high_watermark(leader_high_watermark: int, log_start_offset: int, log_end_offset: int) -> int:
    """A follower's high watermark after a fetch that carried its leader's: never past its own log end."""
    return max(log_start_offset, min(leader_high_watermark, log_end_offset))


def recompute_timeline(observations: Iterable[Observation], rule: Rule) -> Iterator[TimelineRow]:
    """A row for each observation of one partition, given in any order.

    An observation allows an interval: at least what is due when the leader tries, at most what the replicas that
    surely hold it allow. The observed value is moved into it, and within a leadership the greatest of these is the
    recomputed one; at the beginning of a leadership the leader keeps what it has. Observations may be far apart: what a
    leader may have done in between is allowed.
    """
    before: Observation | None = None
    row: TimelineRow | None = None
    reached = last_observed = None
    for now in sorted(observations, key=lambda one: (one.time_ms, one.sequence)):
        view = _View(now, before, rule)
        if view.first:
            reached = last_observed = None
        due_before, reached = reached, _greatest(reached, view.allowed())
        overtaken = (
            None not in (view.observed, last_observed, view.shared) and min(view.observed, last_observed) > view.shared
        )
        waits = None not in (view.observed, view.leader_end) and view.leader_end > view.observed
        fresh = view.first or row.waiting_since_ms is None or view.observed != last_observed
        since = None if not waits else now.time_ms if fresh else row.waiting_since_ms
        told = view.complete or view.observed is not None or now.isr is None
        shown = reached if told else _greatest(reached, view.limit)
        recomputed = view.shared if overtaken else shown
        deviation = _deviation(view, recomputed, last_observed, since)
        row = TimelineRow(
            time_ms=now.time_ms,
            sequence=now.sequence,
            occasion=view.occasion,
            leader_id=now.leader_id,
            leader_epoch=now.leader_epoch,
            isr=None if now.isr is None else tuple(sorted(now.isr)),
            hw_recomputed=recomputed,
            hw_observed=view.observed,
            deviation=deviation,
            lasting=deviation is not None
            and (deviation != STUCK or view.observed == recomputed or view.observed < _or_least(due_before)),
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
        key = None if row.deviation is None else (row.leader_id, row.leader_epoch, row.deviation, row.is_held)
        if key is not None:
            if key != last:
                runs.append([])
            runs[-1].append(row)
        last = key
    return [_run(run) for run in runs]


class _View:
    """One observation as the rule sees it, after the one before it."""

    def __init__(self, now: Observation, before: Observation | None, rule: Rule) -> None:
        lag_time = rule.lag_time_ms if now.lag_time_ms is None else now.lag_time_ms
        self.time_ms, self.hold_ms = now.time_ms, HOLD_FACTOR * lag_time
        self.first = before is None or (before.leader_id, before.leader_epoch) != (now.leader_id, now.leader_epoch)
        self.occasion = _occasion(before, now, self.first)
        leader = next((one for one in now.replicas if one.broker_id == now.leader_id), None)
        others = [one for one in now.replicas if one.broker_id != now.leader_id]
        members = {*(now.isr or ()), *(now.pending_isr if rule.pending_isr else ())} - {now.leader_id}
        in_sync = [one for one in others if one.broker_id in members]
        caught_up = [
            one
            for one in others
            if one.broker_id not in members
            and one.last_caught_up_ms is not None
            and now.time_ms - one.last_caught_up_ms <= lag_time
            and _holds(one, rule) is not False
        ]
        self.observed = leader.high_watermark if leader else None
        self.leader_end = _first(leader.log_end_offset, leader.known_log_end_offset) if leader else None
        seen = {one.broker_id for one in in_sync if one.known_log_end_offset is not None}
        #: The leader's view of every in-sync replica is there; without it nothing is ever due.
        self.complete = self.leader_end is not None and now.isr is not None and members == seen
        sure = in_sync + [one for one in caught_up if _holds(one, rule) and one.known_log_end_offset is not None]
        perhaps = [one for one in caught_up if one not in sure]
        ends = [(_first(one.known_log_end_offset, one.log_end_offset), one.broker_id) for one in sure]
        least = min([one for one in ends if one[0] is not None], default=None)
        below = least is not None and self.leader_end is not None and least[0] < self.leader_end
        self.limiting_broker_id = least[1] if below else None
        self.limit = least[0] if below else self.leader_end
        #: What is due: nothing may hold it below.
        known = [one.known_log_end_offset for one in perhaps]
        self.due = None if None in known or self.occasion == "none" else _least(self.limit, *known)
        #: Offsets that followers fetched from under this leader; -1 is left from the election.
        self.fetched_from = _least(
            self.leader_end, *(o for o in (one.known_log_end_offset for one in sure) if (o or 0) >= 0)
        )
        #: What every in-sync replica is known to have: no high watermark of before lies above it.
        self.shared = _least(*(_reached(one) for one in in_sync))
        size = None if now.isr is None else len(now.isr)
        needed = min(now.min_insync_replicas or 0, max(len(now.replicas), size or 0))
        self.gated = rule.min_isr_gate is not False and size is not None and size < needed
        self.ceiling = None
        if self.gated and rule.min_isr_gate and not self.first:
            # The gate may have been open since the last observation: as far as enough replicas have fetched by now.
            fetched = sorted((_or_greatest(one.known_log_end_offset) for one in others), reverse=True)
            self.ceiling = _least(self.leader_end, *fetched[needed - 2 : needed - 1] if needed > 1 else ())

    def allowed(self) -> int | None:
        """The observed value moved into the interval that this observation allows; None where it says nothing."""
        if self.leader_end is None:
            return self.observed
        if self.ceiling is not None:
            high = self.ceiling
        elif self.first:
            high = self.fetched_from
        else:
            high = self.limit if self.complete else self.leader_end
        low = self.due if self.complete and not self.gated else None
        return _greatest(None if self.observed is None else min(self.observed, high), low)


def _holds(outsider: ReplicaProgress, rule: Rule) -> bool | None:
    """Whether a caught-up replica outside the ISR holds the high watermark; None: it is not known."""
    if rule.eligibility is False or outsider.eligible:
        return True
    return None if rule.eligibility is None or outsider.eligible is None else False


def _reached(one: ReplicaProgress) -> int | None:
    known = one.known_log_end_offset
    return _greatest(None if known is None or known < 0 else known, one.log_end_offset)


def _occasion(before: Observation | None, now: Observation, first: bool) -> str:
    if before is None:
        return "start"
    if first:
        return "leader"
    if before.isr != now.isr and sorted(before.isr or ()) != sorted(now.isr or ()):
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
    held = since is not None and view.time_ms - since > view.hold_ms and not view.gated
    return STUCK if view.observed < recomputed or held else None


def _run(rows: Sequence[TimelineRow]) -> DeviationRun:
    first, last = rows[0], rows[-1]
    observed = [row.hw_observed for row in rows]
    recomputed = [row.hw_recomputed for row in rows]
    return DeviationRun(
        deviation=first.deviation,
        held=first.is_held,
        leader_id=first.leader_id,
        leader_epoch=first.leader_epoch,
        start_ms=min(row.waiting_since_ms for row in rows) if first.is_held else first.time_ms,
        end_ms=last.time_ms,
        observations=len(rows),
        least_observed=min(observed),
        greatest_observed=max(observed),
        least_recomputed=min(recomputed),
        greatest_recomputed=max(recomputed),
        leader_log_end_offset=_greatest(*(row.leader_log_end_offset for row in rows)),
        limiting_broker_id=last.limiting_broker_id,
        lasting=any(row.lasting for row in rows),
    )


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


def _least(*values: int | None) -> int | None:
    return min((value for value in values if value is not None), default=None)


def _greatest(*values: int | None) -> int | None:
    return max((value for value in values if value is not None), default=None)


def _or_least(value: int | None) -> int:
    return -(2**63) if value is None else value


def _or_greatest(value: int | None) -> int:
    return 2**63 - 1 if value is None else value
