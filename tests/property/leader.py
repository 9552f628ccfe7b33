"""A leader that follows the rule of its version, event by event, and observers who see part of it now and then."""

from __future__ import annotations

import random

from replica_audit.protocol.high_watermark_rule import Observation, ReplicaProgress

LAG_MS = 10_000


class Leadership:
    """One partition of `brokers` replicas; what its leaders do is `Partition.maybeIncrementLeaderHW` of `version`."""

    def __init__(self, version: tuple[int, int], seed: int, brokers: int = 3, lag_ms: int = LAG_MS) -> None:
        self.version, self.chance, self.lag_ms = version, random.Random(f"{version} {seed}"), lag_ms
        self.ids = range(brokers)
        self.time, self.epoch, self.leader = 1_000_000, 0, 0
        self.ends = dict.fromkeys(self.ids, 10)
        self.marks = dict.fromkeys(self.ids, 10)
        self.mark, self.min_isr = 10, self.chance.choice([1, 1, 2, 3])
        self.isr, self.expanding, self.shrinking = set(self.ids), set(), set()
        self.eligible = dict.fromkeys(self.ids, True)
        self.slow: set[int] = set()
        self.lead()

    def lead(self) -> None:
        """A leadership begins: nothing is known of anybody, and the leader keeps its own mark."""
        self.epoch_start, self.mark = self.ends[self.leader], min(self.marks[self.leader], self.ends[self.leader])
        self.known = {one: -1 for one in self.ids if one != self.leader}
        self.caught_up = {one: self.time if one in self.isr else 0 for one in self.known}
        self.last_fetch = {one: (0, 1 << 62) for one in self.known}
        self.expanding, self.shrinking = set(), set()
        self.advance()

    def advance(self) -> None:
        """Try to advance the high watermark."""
        if self.version >= (3, 7) and len(self.isr) < min(self.min_isr, len(self.ids)):
            return
        self.mark = max(
            self.mark, min([self.ends[self.leader], *(end for one, end in self.known.items() if self.holds(one))])
        )

    def holds(self, one: int) -> bool:
        """True if a replica holds the high watermark back now."""
        if one in self.isr or one in self.expanding:
            return True
        return self.time - self.caught_up[one] <= self.lag_ms and (self.version < (3, 6) or self.eligible[one])

    def fetch(self, one: int) -> None:
        """One fetch: where the follower is, and then some of the records above."""
        end, leader_end = self.ends[one], self.ends[self.leader]
        time_before, end_before = self.last_fetch[one]
        if end >= leader_end:
            self.caught_up[one] = self.time
        elif end >= end_before:
            self.caught_up[one] = max(self.caught_up[one], time_before)
        self.last_fetch[one] = self.time, leader_end
        moved, self.known[one] = self.known[one] != end, end
        if (
            one not in self.isr
            and end >= max(self.mark, self.epoch_start)
            and (self.version < (3, 6) or self.eligible[one])
        ):
            if self.version < (2, 7):
                self.isr.add(one)
                self.advance()
            elif not self.expanding and not self.shrinking:
                self.expanding.add(one)
        if moved:
            self.advance()
        self.marks[one] = min(self.mark, end)
        self.ends[one] = min(leader_end, end + self.chance.choice([1, 3, 100]))

    def answer(self) -> None:
        """The controller's answer to a change of the ISR, or its refusal."""
        if self.expanding and self.chance.random() < 0.4:
            self.expanding = set()
            return
        changes = bool(self.expanding or self.shrinking)
        self.isr = (self.isr | self.expanding) - self.shrinking
        self.expanding, self.shrinking = set(), set()
        if changes and self.version >= (3, 0):
            self.advance()

    def shrink(self) -> None:
        """Remove those that have not kept up; since 2.7 it takes the controller's answer."""
        out = {one for one in self.isr - {self.leader} if self.time - self.caught_up[one] > self.lag_ms}
        out = {one for one in out if self.known[one] != self.ends[self.leader]}
        if out and self.version < (2, 7):
            self.isr -= out
            self.advance()
        elif out and not self.expanding:
            self.shrinking |= out
            if self.version < (3, 0):
                self.advance()

    def elect(self) -> None:
        """A clean election; the others are cut to the new leader's end, before 0.11 to their own marks."""
        alive = sorted(self.isr - {self.leader})
        if not alive:
            return
        if self.chance.random() < 0.5:
            self.isr.discard(self.leader)
        self.marks[self.leader] = self.mark
        self.leader, self.epoch = self.chance.choice(alive), self.epoch + 1
        for one in set(self.ids) - {self.leader}:
            self.ends[one] = self.marks[one] if self.version < (0, 11) else min(self.ends[one], self.ends[self.leader])
        self.lead()

    def happen(self) -> None:
        """Something happens."""
        chance = self.chance
        for _ in range(chance.choice([0, 1, 1, 1, 3])):
            self.time += chance.choice([1, 50, 500, self.lag_ms // 3])
            self.shrink()
            self.answer() if chance.random() < 0.8 else None
        if chance.random() < 0.1:
            self.slow ^= {chance.choice(self.ids)}
        event = chance.random()
        if event < 0.3:
            self.ends[self.leader] += chance.randint(1, 5)
            self.advance()
        elif event < 0.8:
            followers = [one for one in self.known if one not in self.slow]
            self.fetch(chance.choice(followers)) if followers else None
        elif event < 0.85:
            one = chance.choice(self.ids)
            self.eligible[one] = one in self.isr or not self.eligible[one]
        elif event < 0.88:
            self.min_isr = chance.choice([1, 2, 3])
        elif event < 0.9:
            self.elect()

    def observe(self) -> Observation:
        """Everything that can be seen of it now."""
        rows = [
            ReplicaProgress(
                one,
                None if one == self.leader else self.known[one],
                self.ends[one],
                None if one == self.leader else self.caught_up[one],
                self.mark if one == self.leader else None,
                self.eligible[one],
            )
            for one in self.ids
        ]
        pending = tuple(sorted(self.expanding))
        isr = tuple(sorted(self.isr))
        return Observation(
            self.time, self.leader, self.epoch, isr, tuple(rows), pending, self.min_isr, self.lag_ms, self.epoch
        )


def watch(leadership: Leadership, events: int = 60) -> list[Observation]:
    """Its observations, one after each of so many events."""
    seen = []
    for number in range(events):
        leadership.happen()
        seen.append(leadership.observe()._replace(sequence=number))
    return seen


def glimpse(seen: list[Observation], chance: random.Random) -> list[Observation]:
    """Some of the observations, with rows that are absent and values that are not known."""
    often, absent, unknown = chance.choice([0.2, 0.6, 1]), chance.choice([0, 0.1]), chance.choice([0, 0.05, 0.3])

    def blur(values: object, *names: str) -> dict[str, None]:
        return {name: None for name in names if chance.random() < unknown}

    found = []
    for one in seen:
        if chance.random() > often:
            continue
        rows = [
            row._replace(
                **blur(
                    row, "known_log_end_offset", "log_end_offset", "last_caught_up_ms", "high_watermark", "eligible"
                ),
            )
            for row in one.replicas
            if chance.random() >= absent
        ]
        found.append(one._replace(replicas=tuple(rows), **blur(one, "isr", "min_insync_replicas", "leader_epoch")))
    return found
