"""The high watermark over time, from observations of the replicas (`Partition.maybeIncrementLeaderHW`, C.1).

Between two observations anything that the rule allows may have happened, so an interval of possible high watermarks is
followed; only a value outside it is a deviation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from replica_audit.protocol.high_watermark_rule import Observation, Rule, View, exceeds

AHEAD, STUCK, REGRESSED = "ahead", "stuck", "regressed"


class TimelineRow(NamedTuple):
    """The high watermark after one observation."""

    time_ms: int
    sequence: int
    occasion: str
    """The event that made the leader try to advance: leader (elected), isr (changed), fetch (served), append; none; or
    start, for the first row."""
    leader_id: int | None
    leader_epoch: int | None
    isr: tuple[int, ...] | None
    hw_recomputed: int | None
    hw_observed: int | None
    deviation: str | None
    """ahead, stuck or regressed; None when the observed value follows the rule, or the rule cannot decide."""
    limiting_broker_id: int | None
    """The replica that holds the high watermark below the leader's log end."""
    leader_log_end_offset: int | None
    waiting_since_ms: int | None
    """Time since which it has stood still below the leader's log end; None if it is not below."""
    lasting: bool
    """True if a stuck high watermark was due at the observation before already; True for every other deviation."""

    @property
    def is_held(self) -> bool:
        """True if the high watermark is where the rule puts it, but a replica has held it there longer than one may."""
        return self.deviation is not None and self.hw_observed == self.hw_recomputed


class DeviationRun(NamedTuple):
    """A stretch of observations of one leadership with one deviation; times are inclusive."""

    deviation: str
    held: bool
    """`is_held` of the last `TimelineRow`."""
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
    """Limiting broker at the end of the stretch."""
    lasting: bool
    """True if it lasted from one observation to the next; readings of a single one may be a moment apart."""


def replicas_named(observations: Iterable[Observation]) -> frozenset[int]:
    """Brokers that have a row in the observations, or are in an ISR or pending ISR of them."""
    found: set[int] = set()
    for one in observations:
        found.update((replica.broker_id for replica in one.replicas), one.isr or (), one.pending_isr)
    return frozenset(found)


def recompute_timeline(
    observations: Iterable[Observation], rule: Rule, assigned: Collection[int] = ()
) -> Iterator[TimelineRow]:
    """A row for each observation of one partition, in any order; `assigned`: replicas that the partition is known to have."""
    ordered = sorted(observations, key=lambda one: (one.time_ms, one.sequence))
    return follow_timeline(ordered, rule, replicas_named(ordered) | frozenset(assigned))


def follow_timeline(
    observations: Iterable[Observation], rule: Rule, replicas: Collection[int]
) -> Iterator[TimelineRow]:
    """A row for each observation of one partition, given in order of time; only the last one is kept in memory.

    `replicas` are all that the partition has or had. The first observation of a leadership is not judged: a leader
    keeps the high watermark that it had. From then on it never goes back, is at most what the replicas that certainly
    held it allow, and at least what was due when the leader certainly tried. `hw_recomputed` is the observed value,
    moved into that interval; where none was observed, what the leader would set if it tried now.
    """
    ever = frozenset(replicas)
    before: View | None = None
    # Least and greatest high watermark possible in this leadership.
    least: int | None = None
    greatest: int | None = None
    reached: int | None = None
    last_observed: int | None = None
    since: int | None = None
    holding: frozenset[int] = frozenset()
    for now in observations:
        view = View(now, rule, ever)
        earlier = before if before is not None and before.leads_on(view) else None
        due_before, reached_before = (least, reached) if earlier else (None, None)
        deviation = None
        if earlier is None:
            least = reached = last_observed = None
            greatest = view.leader_end
            recomputed = view.estimate() if view.observed is None else view.observed
        else:
            reached = greatest
            greatest = view.most(earlier, greatest)
            least = _at_most(_greatest(least, view.due(earlier, least)), greatest)
            if view.observed is None:
                recomputed = _at_most(_greatest(view.estimate(), least), greatest)
            else:
                shared = view.shared_end(earlier)
                if last_observed is not None and reached_before is not None and shared is not None:
                    # Replica log ends are read after the high watermark of the observation before, which was at most
                    # what they have now.
                    bound = max(reached_before, shared)
                    if min(last_observed, view.observed) > bound:
                        greatest = bound
                least = _at_most(least, greatest)
                deviation = _deviation(view.observed, least, greatest, last_observed)
                recomputed = _at_most(_greatest(view.observed, least), greatest)
        if view.observed is not None:
            least = greatest = _at_most(recomputed, view.leader_end)
        fresh = earlier is None or since is None or view.observed != last_observed
        if not view.waits:
            since = None
            holding = frozenset()
        elif fresh:
            since = now.time_ms
            holding = view.holders
        else:
            holding &= view.holders
        long = since is not None and now.time_ms - since > view.hold_ms
        held = deviation is None and bool(holding) and long and not view.gated
        limiting = view.limiting_broker_id
        yield TimelineRow(
            time_ms=now.time_ms,
            sequence=now.sequence,
            occasion="start" if before is None else view.occasion(earlier),
            leader_id=now.leader_id,
            leader_epoch=now.leader_epoch,
            isr=now.sorted_isr,
            hw_recomputed=recomputed,
            hw_observed=view.observed,
            deviation=STUCK if held else deviation,
            lasting=held or (deviation is not None and (deviation != STUCK or exceeds(due_before, view.observed))),
            limiting_broker_id=min(holding) if held and limiting not in holding else limiting,
            leader_log_end_offset=view.leader_end,
            waiting_since_ms=since,
        )
        before = view
        last_observed = last_observed if view.observed is None else view.observed


class DeviationRuns:
    """Stretches of deviating rows, given in order of time. The first `limit` are kept; all are counted."""

    def __init__(self, limit: int | None = None) -> None:
        self.count = 0
        self.runs: list[DeviationRun] = []
        self._limit = limit
        self._key: tuple | None = None
        self._open: DeviationRun | None = None

    def add(self, row: TimelineRow) -> None:
        key = None if row.deviation is None else (row.leader_id, row.leader_epoch, row.deviation, row.is_held)
        if key != self._key:
            self._close()
            self._key = key
        if key is not None:
            self._open = _run_of(row) if self._open is None else _join_runs(self._open, _run_of(row))

    def finish(self) -> list[DeviationRun]:
        """Close the last stretch and return all that were kept."""
        self._close()
        self._key = None
        return self.runs

    def _close(self) -> None:
        if self._open is not None:
            self.count += 1
            if self._limit is None or len(self.runs) < self._limit:
                self.runs.append(self._open)
            self._open = None


def _deviation(observed: int, least: int | None, greatest: int | None, last_observed: int | None) -> str | None:
    if greatest is not None and observed > greatest:
        return AHEAD
    if least is None or observed >= least:
        return None
    return REGRESSED if last_observed is not None and observed < last_observed else STUCK


def _run_of(row: TimelineRow) -> DeviationRun:
    # Only an observed high watermark deviates; the recomputed one is then its value moved into the interval.
    assert row.deviation is not None
    assert row.hw_observed is not None
    assert row.hw_recomputed is not None
    return DeviationRun(
        deviation=row.deviation,
        held=row.is_held,
        leader_id=row.leader_id,
        leader_epoch=row.leader_epoch,
        start_ms=row.waiting_since_ms if row.is_held and row.waiting_since_ms is not None else row.time_ms,
        end_ms=row.time_ms,
        observations=1,
        least_observed=row.hw_observed,
        greatest_observed=row.hw_observed,
        least_recomputed=row.hw_recomputed,
        greatest_recomputed=row.hw_recomputed,
        leader_log_end_offset=row.leader_log_end_offset,
        limiting_broker_id=row.limiting_broker_id,
        lasting=row.lasting,
    )


def _join_runs(one: DeviationRun, next_one: DeviationRun) -> DeviationRun:
    return one._replace(
        start_ms=min(one.start_ms, next_one.start_ms),
        end_ms=next_one.end_ms,
        observations=one.observations + next_one.observations,
        least_observed=min(one.least_observed, next_one.least_observed),
        greatest_observed=max(one.greatest_observed, next_one.greatest_observed),
        least_recomputed=min(one.least_recomputed, next_one.least_recomputed),
        greatest_recomputed=max(one.greatest_recomputed, next_one.greatest_recomputed),
        leader_log_end_offset=_greatest(one.leader_log_end_offset, next_one.leader_log_end_offset),
        limiting_broker_id=next_one.limiting_broker_id,
        lasting=one.lasting or next_one.lasting,
    )


def _at_most(value: int | None, bound: int | None) -> int | None:
    """`value` cut to `bound`; None as either leaves the other unchanged."""
    return value if value is None or bound is None else min(value, bound)


def _greatest(*values: int | None) -> int | None:
    return max((value for value in values if value is not None), default=None)
