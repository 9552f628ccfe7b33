"""What the leader looks at when it tries to advance its high watermark (`Partition.maybeIncrementLeaderHW`, C.1), and one
observation as that rule sees it: which replicas may hold the mark back, and which certainly did.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from replica_audit.protocol.observations import Observation, ReplicaProgress
from replica_audit.protocol.versions import (
    counts_fenced_outsiders,
    holds_pending_isr,
    stands_still_below_min_isr,
    tries_when_isr_changes,
    waits_thirty_seconds,
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
    isr_change: bool | None = None
    """The leader tries when its ISR changes; in 2.7 and 2.8 a change came too late for that (KAFKA-13091)."""
    lag_time_ms: int = LAG_TIME_MS


def rule_of(kafka_version: tuple[int, ...] | None) -> Rule:
    """The rule of a version; of an unknown one what all versions agree on moves or accuses, the rest does neither."""
    if kafka_version is None:
        return Rule()
    return Rule(
        pending_isr=bool(holds_pending_isr(kafka_version)),
        eligibility=not counts_fenced_outsiders(kafka_version),
        min_isr_gate=stands_still_below_min_isr(kafka_version),
        isr_change=tries_when_isr_changes(kafka_version),
        lag_time_ms=LAG_TIME_MS if waits_thirty_seconds(kafka_version) else OLD_LAG_TIME_MS,
    )


def may_join_isr(log_end_offset: int, leader_high_watermark: int, epoch_start_offset: int) -> bool:
    """Whether a follower may join the ISR: at the high watermark, and past the start of the leader's epoch (C.1)."""
    return log_end_offset >= max(leader_high_watermark, epoch_start_offset)


def follower_high_watermark(leader_high_watermark: int, log_start_offset: int, log_end_offset: int) -> int:
    """A follower's high watermark after a fetch that carried its leader's: never past its own log end."""
    return max(log_start_offset, min(leader_high_watermark, log_end_offset))


def exceeds(one: int | None, other: int | None) -> bool:
    """Whether both are known, and the first is the greater one."""
    return one is not None and other is not None and one > other


class View:
    """One observation as the rule sees it.

    Three assumptions make it possible to accuse at all: within a leadership a replica's fetches go on from where they were,
    one that went back or has no row bounds nothing; the readings of one observation are of one moment; settings that are not
    given are the defaults of the version.
    """

    def __init__(self, now: Observation, rule: Rule, replicas: Collection[int]) -> None:
        self.now, self.rule = now, rule
        self.lag_time_ms = rule.lag_time_ms if now.lag_time_ms is None else now.lag_time_ms
        self.hold_ms = HOLD_FACTOR * self.lag_time_ms
        rows = {one.broker_id: one for one in now.replicas}
        leader = None if now.leader_id is None else rows.pop(now.leader_id, None)
        self.others = rows
        self.observed = leader.high_watermark if leader else None
        self.leader_end = _first(leader.log_end_offset, leader.known_log_end_offset) if leader else None
        self.waits = exceeds(self.leader_end, self.observed)
        #: None: not known, as where the ISR lacks its leader.
        self.isr = frozenset(now.isr) if now.isr is not None and now.leader_id in now.isr else None
        pending = frozenset(now.pending_isr) if rule.pending_isr else frozenset()
        #: Replicas that hold the mark back as long as they are in the ISR, or about to be.
        self.members = ((self.isr or frozenset()) | pending) - {now.leader_id}
        self.absent = (frozenset(replicas) | self.members) - rows.keys() - {now.leader_id}
        self.replica_count = max(len(frozenset(replicas) | {now.leader_id}), len(now.isr or ()))
        needed = min(now.min_insync_replicas or 0, self.replica_count)
        #: The ISR is too small for the mark to move, if the version has that gate.
        self.gated = rule.min_isr_gate is not False and self.isr is not None and len(self.isr) < needed
        sure = [one for one in rows.values() if one.broker_id in self.members or self._is_caught_up(one)]
        ends = [(end, one.broker_id) for one in sure if (end := _end(one)) is not None]
        self._limit = limit = min(ends, default=None)
        #: The replica that holds the mark below the leader's end.
        self.limiting_broker_id = limit[1] if limit and exceeds(self.leader_end, limit[0]) else None

    def leads_on(self, following: View) -> bool:
        """Whether `following` is of the same leadership; without a leader epoch that is not known, so it is not."""
        leadership = self.now.leader_id, self.now.leader_epoch
        return None not in leadership and leadership == (following.now.leader_id, following.now.leader_epoch)

    @property
    def holders(self) -> frozenset[int]:
        """Members that are known to be no further than the mark, and not to have caught up within the time to hold."""
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
        """The greatest mark that the leader may have, after `greatest` at the observation before; None: any.

        What a member is known to have bounds it also where the member left the ISR in between and came back: for that it
        had to reach the mark (`isFollowerInSync`).
        """
        if self.leader_end is None:
            return None
        if greatest is None:
            return self.leader_end
        bounds = []
        for one in self.others.values():
            known, before = one.known_log_end_offset, earlier.others.get(one.broker_id)
            if known is None or _went_back(before, one):
                continue
            if (self.isr is not None and one.broker_id in self.members) or earlier.surely_holds(before, self):
                bounds.append(known)
        if (fetched := self._fetched_by_enough(earlier, self.leader_end)) is not None:
            bounds.append(fetched)
        return min([self.leader_end, *(max(greatest, bound) for bound in bounds)])

    def shared_end(self, earlier: View) -> int | None:
        """What every in-sync replica has that the leader's view is not known of; None where that is not known either."""
        ends = []
        for one in self.others.values():
            if self.isr is None or one.broker_id not in self.members or one.known_log_end_offset is not None:
                continue
            if one.log_end_offset is not None and not _went_back(earlier.others.get(one.broker_id), one):
                ends.append(one.log_end_offset)
        return min(ends, default=None)

    def surely_holds(self, outsider: ReplicaProgress | None, following: View) -> bool:
        """Whether a replica held the mark from here to `following`, in the ISR or not.

        Since 3.6 that takes more than having caught up, and who may join the ISR may change in between.
        """
        if outsider is None or self.rule.eligibility is not False or outsider.last_caught_up_ms is None:
            return False
        lag_time = min(self.lag_time_ms, following.lag_time_ms)
        return following.now.time_ms - outsider.last_caught_up_ms <= lag_time

    def _fetched_by_enough(self, earlier: View, leader_end: int) -> int | None:
        """Below min.insync.replicas the mark stands still (3.7): it is at most what enough replicas have fetched by now."""
        here, before = self.now.min_insync_replicas, earlier.now.min_insync_replicas
        if not self.rule.min_isr_gate or self.isr is None or here is None or before is None:
            return None
        needed = min(here, before, self.replica_count)
        if len(self.isr) >= needed or needed < 2 or len(self.absent) >= needed - 1:
            return None
        ends = []
        for one in self.others.values():
            known = one.known_log_end_offset
            if known is None or _went_back(earlier.others.get(one.broker_id), one):
                known = leader_end
            ends.append(known)
        ends += [leader_end] * len(self.absent)
        return sorted(ends, reverse=True)[needed - 2] if len(ends) >= needed - 1 else None

    def due(self, earlier: View, least: int | None) -> int | None:
        """The least mark that the leader set when it certainly tried since `earlier`; None where nothing is certain.

        It tries when a record is appended, a replica's fetch offset changes or the ISR does; never because time passes.
        The last time that it tried, log ends and ISR were as they are now; who else held it then may have changed since.
        """
        if self.isr is None or self.leader_end is None or self.absent or not self._tried_since(earlier):
            return None
        if self.may_be_gated() or earlier.may_be_gated(len(self.isr)):
            return None
        ends = [self.leader_end]
        for one in self.others.values():
            if one.broker_id in self.members or self._may_hold(one, earlier, least):
                if one.known_log_end_offset is None:
                    return None
                ends.append(one.known_log_end_offset)
        return None if min(ends) < 0 else min(ends)

    def _tried_since(self, earlier: View) -> bool:
        if exceeds(self.leader_end, earlier.leader_end):
            return True
        if self.rule.isr_change and earlier.isr is not None and self.isr != earlier.isr:
            return True
        return any(
            one.broker_id in earlier.others
            and None not in (one.known_log_end_offset, earlier.others[one.broker_id].known_log_end_offset)
            and one.known_log_end_offset != earlier.others[one.broker_id].known_log_end_offset
            for one in self.others.values()
        )

    def _may_hold(self, outsider: ReplicaProgress, earlier: View, least: int | None) -> bool:
        """Whether a replica outside the ISR may have held the mark at some time since `earlier`."""
        if not self.rule.isr_change and outsider.broker_id in earlier.members:
            return True
        known, caught_up = outsider.known_log_end_offset, outsider.last_caught_up_ms
        if known is None or caught_up is None or least is None:
            return True
        before = earlier.others.get(outsider.broker_id)
        if self.rule.pending_isr and known >= least and (before is None or before.known_log_end_offset != known):
            return True  # with the fetch that brought it here it may have been about to join
        return earlier.now.time_ms - caught_up <= max(self.lag_time_ms, earlier.lag_time_ms)

    def may_be_gated(self, isr_size: int | None = None) -> bool:
        """Whether an ISR of that size, by default the observed one, may be too small for the mark to move."""
        if self.rule.min_isr_gate is False:
            return False
        size = isr_size if isr_size is not None else len(self.isr) if self.isr is not None else 0
        needed = self.now.min_insync_replicas
        return size < (self.replica_count if needed is None else needed)

    def estimate(self) -> int | None:
        """What the leader would set if it tried now, as far as its view of the replicas is known."""
        if self.leader_end is None or self.isr is None:
            return None
        if self.gated:
            return None
        unsure = [one for one in self.others.values() if self._is_caught_up(one, unless=False)]
        ends = [self.leader_end, *(end for one in unsure if (end := _end(one)) is not None)]
        ends += [self._limit[0]] if self._limit else []
        return None if min(ends) < 0 else min(ends)

    def _is_caught_up(self, one: ReplicaProgress, unless: bool | None = None) -> bool:
        """Whether a replica caught up lately and holds the mark by that; `unless` False: or it is not known to be excluded."""
        if one.last_caught_up_ms is None or self.now.time_ms - one.last_caught_up_ms > self.lag_time_ms:
            return False
        if self.rule.eligibility is False or one.eligible:
            return True
        return unless is False and (self.rule.eligibility is None or one.eligible is None)

    def occasion(self, earlier: View | None) -> str:
        """What made the leader try since `earlier`; leader: a leadership begins."""
        if earlier is None:
            return "leader"
        if sorted(earlier.now.isr or ()) != sorted(self.now.isr or ()) or (earlier.now.isr is None) != (
            self.now.isr is None
        ):
            return "isr"
        if _fetches(earlier) != _fetches(self):
            return "fetch"
        return "append" if exceeds(self.leader_end, earlier.leader_end) else "none"


def _fetches(view: View) -> set[tuple]:
    return {(one.broker_id, one.known_log_end_offset, one.last_caught_up_ms) for one in view.others.values()}


def _end(one: ReplicaProgress) -> int | None:
    """What the leader knows a replica to have, else what it has: never less."""
    return _first(one.known_log_end_offset, one.log_end_offset)


def _went_back(before: ReplicaProgress | None, now: ReplicaProgress) -> bool:
    if before is None:
        return False
    return exceeds(before.known_log_end_offset, now.known_log_end_offset) or exceeds(
        before.log_end_offset, now.log_end_offset
    )


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)
