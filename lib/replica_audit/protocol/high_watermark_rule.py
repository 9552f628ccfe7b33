"""The rule by which a leader advances its high watermark, applied to one observation of a partition: which replicas may hold
it back, and which certainly did (C.1; `Partition.maybeIncrementLeaderHW`, `ReplicaState.isCaughtUp`).

`protocol.timeline` applies it to a whole history; `auditing.leadership.high_watermark_bounds` concludes where the high watermark
of a snapshot is.
"""

from __future__ import annotations

from math import inf
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
#: A replica that does not keep up leaves the ISR within one and a half times the lag time, so none holds the high watermark longer.
HOLD_FACTOR = 1.5


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


class ReplicaProgress(NamedTuple):
    """One replica at one moment. Offsets are int64, None where the observer does not know."""

    broker_id: int
    known_log_end_offset: int | None = None
    """Log end known to the leader, i.e. the offset of the last accepted fetch; -1 if the leader is new and has received none."""
    log_end_offset: int | None = None
    """By the replica's own log."""
    last_caught_up_ms: int | None = None
    high_watermark: int | None = None
    eligible: bool | None = None
    """True if it is neither fenced nor shutting down and has the current broker epoch."""


class Observation(NamedTuple):
    """One partition at one moment, with one `ReplicaProgress` for every assigned replica, the leader included."""

    time_ms: int
    leader_id: int | None
    leader_epoch: int | None
    isr: tuple[int, ...] | None
    """None if the observer does not know it; then no deviation can be shown."""
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


def exceeds(one: int | None, other: int | None) -> bool:
    """True if both are known and `one` is greater."""
    return one is not None and other is not None and one > other


class View:
    """One observation as the high watermark rule sees it.

    To accuse a leader takes two assumptions: within a leadership a replica's fetch offsets only grow (one that went
    back, or has no row, bounds nothing), and the readings of one observation are of one moment. Where the lag time is
    unknown, no replica's hold is called too long; only estimates use the default.
    """

    def __init__(self, now: Observation, rule: Rule, replicas: frozenset[int]) -> None:
        """`replicas`: every replica that the partition has or had, including all that any observation names."""
        self.now = now
        self.rule = rule
        self.replicas = replicas
        #: The replicas with a row, except the leader.
        self.others: dict[int | None, ReplicaProgress] = {one.broker_id: one for one in now.replicas}
        leader = self.others.pop(now.leader_id, None)
        self.observed = leader.high_watermark if leader else None
        self.leader_end = _first(leader.log_end_offset, leader.known_log_end_offset) if leader else None
        #: None where unknown, or where the ISR lacks its leader.
        self.isr = frozenset(now.isr) if now.isr is not None and now.leader_id in now.isr else None
        pending = now.pending_isr if rule.pending_isr else ()
        #: Replicas that hold the high watermark back as long as they are in the ISR, or about to be.
        self.members = (self.isr or frozenset()).union(pending) - {now.leader_id}

    @property
    def hold_ms(self) -> float:
        """Longest time in ms for which a replica may hold the high watermark; infinite if replica.lag.time.max.ms is unknown."""
        return inf if self.now.lag_time_ms is None else HOLD_FACTOR * self.now.lag_time_ms

    @property
    def waits(self) -> bool:
        """True if the high watermark is known to be below the leader's log end."""
        return exceeds(self.leader_end, self.observed)

    @property
    def absent(self) -> frozenset[int]:
        """Replicas without a row, of which nothing is known."""
        return self.replicas - self.others.keys() - {self.now.leader_id}

    @property
    def gated(self) -> bool:
        """True if the version has the min.insync.replicas gate and the ISR is too small for the high watermark to move (KAFKA-15583)."""
        if self.rule.min_isr_gate is False or self.isr is None or self.now.min_insync_replicas is None:
            return False
        return len(self.isr) < min(self.now.min_insync_replicas, len(self.replicas))

    @property
    def limiting_broker_id(self) -> int | None:
        """The replica that certainly holds the high watermark below the leader's log end."""
        holding = [one for one in self.others.values() if self._holds(one)]
        ends = [(end, one.broker_id) for one in holding if (end := _end(one)) is not None]
        end, broker_id = min(ends, default=(None, None))
        return broker_id if exceeds(self.leader_end, end) else None

    def leads_on(self, following: View) -> bool:
        """True if `following` is an observation of the same leadership; False where a leader epoch is missing."""
        leadership = self.now.leader_id, self.now.leader_epoch
        return None not in leadership and leadership == (following.now.leader_id, following.now.leader_epoch)

    @property
    def holders(self) -> frozenset[int]:
        """In-sync replicas known to be at or below the high watermark that have not caught up within `hold_ms`."""
        return frozenset(
            one.broker_id
            for one in self.others.values()
            if one.broker_id in self.members
            and self.observed is not None
            and one.known_log_end_offset is not None
            and one.known_log_end_offset <= self.observed
            and (one.last_caught_up_ms is None or self.now.time_ms - one.last_caught_up_ms > self.hold_ms)
        )

    def most(self, earlier: View, greatest: int | None) -> int | None:
        """Greatest high watermark that the leader may have, given `greatest` at the observation before; None: unbounded.

        What a member is known to have bounds it also where the member left the ISR in between and came back: for that it
        had to reach the high watermark (`Partition.isFollowerInSync`).
        """
        if self.leader_end is None:
            return None
        if greatest is None:
            return self.leader_end
        bounds = []
        for one in self.others.values():
            known = one.known_log_end_offset
            before = earlier.others.get(one.broker_id)
            if known is None or _went_back(before, one):
                continue
            if (self.isr is not None and one.broker_id in self.members) or earlier.surely_holds(before, self):
                bounds.append(known)
        if (fetched := self._fetched_by_enough(earlier, self.leader_end)) is not None:
            bounds.append(fetched)
        return min([self.leader_end, *(max(greatest, bound) for bound in bounds)])

    def shared_end(self, earlier: View) -> int | None:
        """Least log end of the in-sync replicas whose fetch offsets the leader's view lacks; None if unknown."""
        ends = []
        for one in self.others.values():
            if self.isr is None or one.broker_id not in self.members or one.known_log_end_offset is not None:
                continue
            if one.log_end_offset is not None and not _went_back(earlier.others.get(one.broker_id), one):
                ends.append(one.log_end_offset)
        return min(ends, default=None)

    def surely_holds(self, outsider: ReplicaProgress | None, following: View) -> bool:
        """True if a replica, in the ISR or not, held the high watermark back from this observation to `following`.

        Since 3.6 that takes more than having caught up, and who may join the ISR may change in between.
        """
        if outsider is None or self.rule.eligibility is not False or outsider.last_caught_up_ms is None:
            return False
        here, there = self.now.lag_time_ms, following.now.lag_time_ms
        if here is None or there is None:
            return False
        return following.now.time_ms - outsider.last_caught_up_ms <= min(here, there)

    def _fetched_by_enough(self, earlier: View, leader_end: int) -> int | None:
        """Upper bound set by the min.insync.replicas gate (3.7): the offset that enough replicas have fetched by now."""
        here, before = self.now.min_insync_replicas, earlier.now.min_insync_replicas
        if not self.rule.min_isr_gate or self.isr is None or here is None or before is None:
            return None
        ends = [leader_end] * (1 + len(self.absent))
        for one in self.others.values():
            known = one.known_log_end_offset
            ends.append(leader_end if known is None or _went_back(earlier.others.get(one.broker_id), one) else known)
        needed = max(1, min(here, before, len(ends)))
        return sorted(ends, reverse=True)[needed - 1]

    def due(self, earlier: View, least: int | None) -> int | None:
        """Lowest high watermark that the leader must have reached since `earlier`; None if unprovable.

        The leader tries when a record is appended, a replica's fetch offset changes or the ISR does; never because time
        passes. At its last try log ends and ISR were as they are now; outsiders that held it back then may have changed since.
        """
        if self.isr is None or self.leader_end is None or self.absent or not self._tried_since(earlier):
            return None
        if self.may_be_gated(len(self.isr)) or earlier.may_be_gated(len(self.isr)):
            return None
        ends = [self.leader_end]
        for one in self.others.values():
            if one.broker_id in self.members or self._may_hold(one, earlier, least):
                if one.known_log_end_offset is None:
                    return None
                ends.append(one.known_log_end_offset)
        end = min(ends)
        return end if end >= 0 else None

    def _tried_since(self, earlier: View) -> bool:
        if exceeds(self.leader_end, earlier.leader_end):
            return True
        if self.rule.isr_change and earlier.isr is not None and self.isr != earlier.isr:
            return True
        return any(_fetched_between(earlier.others.get(one.broker_id), one) for one in self.others.values())

    def _may_hold(self, outsider: ReplicaProgress, earlier: View, least: int | None) -> bool:
        """True if a replica outside the ISR may have held the high watermark at some time since `earlier`."""
        if not self.rule.isr_change and outsider.broker_id in earlier.members:
            return True
        known, caught_up = outsider.known_log_end_offset, outsider.last_caught_up_ms
        if known is None or caught_up is None or least is None:
            return True
        before = earlier.others.get(outsider.broker_id)
        if self.rule.pending_isr and known >= least and (before is None or before.known_log_end_offset != known):
            return True  # with the fetch that brought it here it may have been about to join the ISR
        here, there = self.now.lag_time_ms, earlier.now.lag_time_ms
        return here is None or there is None or earlier.now.time_ms - caught_up <= max(here, there)

    def may_be_gated(self, isr_size: int) -> bool:
        """True if an ISR of `isr_size` may be too small for the high watermark to move (KAFKA-15583)."""
        needed = self.now.min_insync_replicas
        return self.rule.min_isr_gate is not False and isr_size < (len(self.replicas) if needed is None else needed)

    def estimate(self) -> int | None:
        """High watermark that the leader would set now, as far as the observation shows its view of the replicas."""
        if self.leader_end is None or self.isr is None or self.gated:
            return None
        ends = [_end(one) for one in self.others.values() if self._holds(one) is not False]
        end = min([self.leader_end, *(end for end in ends if end is not None)])
        return end if end >= 0 else None

    def _holds(self, one: ReplicaProgress) -> bool | None:
        """True if a replica holds the high watermark back now; None if that depends on whether it may join the ISR, which is unknown."""
        if one.broker_id in self.members:
            return True
        lag_time = self.rule.lag_time_ms if self.now.lag_time_ms is None else self.now.lag_time_ms
        if one.last_caught_up_ms is None or self.now.time_ms - one.last_caught_up_ms > lag_time:
            return False
        if self.rule.eligibility is False or one.eligible:
            return True
        return None if one.eligible is None or self.rule.eligibility is None else False

    def occasion(self, earlier: View | None) -> str:
        """The event since `earlier` that made the leader try to advance; `leader` where a leadership begins."""
        if earlier is None:
            return "leader"
        if earlier.now.sorted_isr != self.now.sorted_isr:
            return "isr"
        if _fetches(earlier) != _fetches(self):
            return "fetch"
        return "append" if exceeds(self.leader_end, earlier.leader_end) else "none"


def _fetches(view: View) -> set[tuple]:
    return {(one.broker_id, one.known_log_end_offset, one.last_caught_up_ms) for one in view.others.values()}


def _end(one: ReplicaProgress) -> int | None:
    """The replica's log end as the leader knows it, else the replica's own, which is never lower."""
    return _first(one.known_log_end_offset, one.log_end_offset)


def _fetched_between(before: ReplicaProgress | None, now: ReplicaProgress) -> bool:
    """True if a replica is known to have fetched from another offset since `before`."""
    was = before.known_log_end_offset if before else None
    known = now.known_log_end_offset
    return was is not None and known is not None and was != known


def _went_back(before: ReplicaProgress | None, now: ReplicaProgress) -> bool:
    if before is None:
        return False
    return exceeds(before.known_log_end_offset, now.known_log_end_offset) or exceeds(
        before.log_end_offset, now.log_end_offset
    )


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)
