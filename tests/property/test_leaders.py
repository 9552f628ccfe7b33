"""Leaders of every version that follow its rule are never accused, whatever is seen of them; broken ones are found."""

from __future__ import annotations

import random

import pytest
from tests.property.leader import Leadership, glimpse, watch
from tests.support.observations import find_deviations

from replica_audit.protocol.high_watermark_rule import rule_of
from replica_audit.protocol.timeline import recompute_timeline

VERSIONS = [(0, 10), (1, 1), (2, 6), (2, 7), (2, 8), (3, 5), (3, 6), (3, 7), (4, 3)]
HISTORIES = 20


@pytest.mark.parametrize("version", VERSIONS)
def test_a_leader_that_follows_its_rule_is_never_accused(version):
    judged = 0
    for seed in range(HISTORIES):
        seen = watch(Leadership(version, seed))
        chance = random.Random(seed)
        for some in (seen, *(glimpse(seen, chance) for _ in range(4))):
            for rule in (rule_of(version), rule_of(None)):
                rows = list(recompute_timeline(some, rule, assigned=(0, 1, 2)))
                bad = [row for row in rows if row.deviation]
                assert not bad, f"seed {seed}\n{bad[0]}\n" + "\n".join(
                    f"{one}" for one in some if one.time_ms <= bad[0].time_ms
                )
                judged += len(rows)
    assert judged > 3_000


@pytest.mark.parametrize("lag_ms", [1_000, 10_000, 100_000])
@pytest.mark.parametrize("version", VERSIONS)
def test_where_the_lag_time_is_not_known_nobody_is_accused_by_it(version, lag_ms):
    judged = 0
    for seed in range(HISTORIES):
        seen = [one._replace(lag_time_ms=None) for one in watch(Leadership(version, seed, lag_ms=lag_ms))]
        chance = random.Random(seed)
        for some in (seen, glimpse(seen, chance)):
            for rule in (rule_of(version), rule_of(None)):
                rows = list(recompute_timeline(some, rule, assigned=(0, 1, 2)))
                bad = [row for row in rows if row.deviation]
                assert not bad, f"seed {seed}\n{bad[0]}"
                judged += len(rows)
    assert judged > 1_500


class Hasty(Leadership):
    """It does not wait for the slowest member of its ISR."""

    def holds(self, one):
        slowest = min(self.known, key=lambda each: (self.known[each], each))
        return super().holds(one) and one != slowest


class Idle(Leadership):
    """From its 20th event on it forgets to advance the high watermark."""

    happened = 0

    def happen(self):
        self.happened += 1
        super().happen()

    def advance(self):
        if self.happened < 20:
            super().advance()


class Forgetful(Leadership):
    """Its high watermark falls back now and then."""

    def happen(self):
        super().happen()
        if self.chance.random() < 0.1:
            self.mark = max(0, self.mark - 7)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("broken", "deviation", "at_least"), [(Hasty, "ahead", 0.5), (Idle, "stuck", 0.7), (Forgetful, "regressed", 0.7)]
)
def test_a_leader_that_does_not_is_found(version, broken, deviation, at_least):
    observed = [watch(broken(version, seed)) for seed in range(20)]
    for rule in (rule_of(version), rule_of(None)):
        found = 0
        for seen in observed:
            runs = find_deviations(recompute_timeline(seen, rule))
            found += any(run.deviation == deviation and run.lasting for run in runs)
        assert found >= 20 * at_least, f"{found} of 20 by {rule}"


def test_a_replica_that_is_never_shown_may_hold_the_mark():
    """Of two replicas only the leader is observed: what the other one does is not known."""
    told = 0
    for seed in range(HISTORIES):
        seen = watch(Leadership((3, 5), seed, brokers=2))
        lone = [one._replace(replicas=tuple(row for row in one.replicas if row.broker_id == 0)) for one in seen]
        lone = [one for one in lone if one.leader_id == 0 and one.isr == (0,)]
        assert not any(row.deviation for row in recompute_timeline(lone, rule_of((3, 5)), assigned=(0, 1)))
        told += len(lone)
    assert told > 30
