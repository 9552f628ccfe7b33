"""Observations made of rows, and the summary of their timeline."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.histories import history
from tests.support.made_cases import directory

from replica_audit.auditing.leadership.timeline_deviations import (
    ProgressRow,
    assigned_replicas,
    observation_of,
    observations_of,
    timeline_of,
)
from replica_audit.protocol.high_watermark_rule import Observation, ReplicaProgress, rule_of

#: Broker 1 leads.
LEADER = ProgressRow("orders", 0, 5, None, 1, 3, [1, 2], None, 2, 30_000, 1, None, 20, None, 15, None)
FOLLOWER = LEADER._replace(broker_id=2, known_log_end_offset=18, log_end_offset=18, high_watermark=None)
OBSERVED = Observation(
    5, 1, 3, (1, 2), (ReplicaProgress(1, None, 20, None, 15), ReplicaProgress(2, 18, 18)), (), 2, 30_000, 0
)
FIRST = OBSERVED.replicas[0]


@pytest.mark.parametrize(
    ("rows", "changes"),
    [
        ([LEADER, FOLLOWER], {}),
        ([FOLLOWER, LEADER], {}),
        (
            [one._replace(isr=None, pending_isr=[3], sequence=4) for one in (LEADER, FOLLOWER)],
            {"isr": None, "pending_isr": (3,), "sequence": 4},
        ),
        # Where rows disagree on the leader's values the latest epoch counts, then the greatest leader, then the greatest of the others.
        ([LEADER, FOLLOWER._replace(leader_epoch=4, leader_id=0)], {"leader_epoch": 4, "leader_id": 0}),
        ([LEADER._replace(leader_epoch=4, leader_id=0), FOLLOWER], {"leader_epoch": 4, "leader_id": 0}),
        ([LEADER, FOLLOWER._replace(leader_epoch=None, leader_id=9)], {}),
        ([LEADER, FOLLOWER._replace(leader_id=2, isr=[1])], {"leader_id": 2, "isr": (1,)}),
        ([LEADER._replace(isr=[2]), FOLLOWER], {"isr": (2,)}),
        ([LEADER._replace(isr=None), FOLLOWER], {}),
        ([LEADER, FOLLOWER._replace(leader_id=2)], {"leader_id": 2}),
        ([LEADER, FOLLOWER._replace(lag_time_ms=40_000)], {"lag_time_ms": 40_000}),
        # Of one replica the greatest values count.
        ([LEADER, FOLLOWER, LEADER._replace(log_end_offset=21)], {"replicas": (FIRST._replace(log_end_offset=21), OBSERVED.replicas[1])}),
        ([LEADER, FOLLOWER, LEADER._replace(log_end_offset=19)], {}),
        ([LEADER, FOLLOWER, LEADER._replace(log_end_offset=None)], {}),
    ],
)  # fmt: skip
def test_an_observation_of_its_rows(rows: list[ProgressRow], changes: dict[str, Any]) -> None:
    assert observation_of(rows) == OBSERVED._replace(**changes)


def test_an_observation_for_each_moment_in_order() -> None:
    later = [one._replace(time_ms=6) for one in (LEADER, FOLLOWER)]
    second = [one._replace(sequence=1) for one in (LEADER, FOLLOWER)]
    first = [LEADER, FOLLOWER._replace(sequence=0)]
    found = list(observations_of([later[0], second[0], *first, second[1], later[1]]))
    assert found == [OBSERVED, OBSERVED._replace(sequence=1), OBSERVED._replace(time_ms=6)]


def test_the_replicas_that_a_partition_has_or_had() -> None:
    states = [*history({"replicas": (2, 4)}), *(one._replace(replicas=None) for one in history())]
    assert assigned_replicas(states, [directory(7)]) == {1, 2, 3, 4, 7}


RULE = rule_of(None)


def test_the_summary_of_a_timeline_has_its_extent_and_what_deviates() -> None:
    ahead = [LEADER._replace(time_ms=7, high_watermark=19), FOLLOWER._replace(time_ms=7)]
    rows, summary = timeline_of("orders", 0, [*ahead, LEADER, FOLLOWER], RULE, (1, 2))
    assert summary is not None
    assert (summary.observations, summary.first_ms, summary.run_count) == (2, 5, 1)
    assert [(one.deviation, one.start_ms) for one in summary.runs] == [("ahead", 7)]
    assert [(row.topic, row.partition, row.time_ms, row.hw_observed) for row in rows] == [
        ("orders", 0, 5, 15),
        ("orders", 0, 7, 19),
    ]
    assert timeline_of("orders", 0, [], RULE) == ([], None)


def test_a_replica_that_nobody_observed_may_hold_the_mark_back() -> None:
    """Broker 3 is assigned, and may be one that the leader waits for."""
    seen = [LEADER, FOLLOWER, LEADER._replace(time_ms=6, log_end_offset=30)]
    seen.append(FOLLOWER._replace(time_ms=6, known_log_end_offset=25, log_end_offset=25))
    for assigned, deviation in (((), "stuck"), ((1, 2), "stuck"), ((1, 2, 3), None)):
        rows, _ = timeline_of("orders", 0, seen, RULE, assigned)
        assert [row.deviation for row in rows] == [None, deviation], assigned
