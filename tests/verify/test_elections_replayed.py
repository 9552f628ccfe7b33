"""Predictions of plans from captures, compared with what real brokers did when they were carried out (tests/brokers)."""

from __future__ import annotations

from dataclasses import asdict
from functools import cache
from typing import Any

import pytest
from tests.brokers.elections_seen import recorded
from tests.support.fixtures import FIXTURES, truth

from replica_audit.config import Settings
from replica_audit.elect.election_plan import plan_elections
from replica_audit.results import Results
from replica_audit.runner.in_process import audit_all
from replica_audit.verify.verification import outcomes_of

SEEN = recorded()


@cache
def _audited(capture: str, kafka: str) -> Results:
    return audit_all(str(FIXTURES / capture), Settings(topics=tuple(truth(capture)["topics"]), kafka_version=kafka))


def test_runs_of_every_kind_are_recorded() -> None:
    captures = {one["capture"] for one in SEEN}
    assert {"diverged-unclean", "elr-leaderless", "last-replica-elr-2-cut", "last-replica-standing-2-cut"} <= captures
    cut = [
        ends
        for one in SEEN
        for part in one["partitions"].values()
        for ends in part["replicas"].values()
        if ends[1] < ends[0]
    ]
    assert len(cut) >= 10


@pytest.mark.parametrize("seen", SEEN, ids=lambda one: f"{one['capture']}-{one['candidate']}")
def test_what_is_predicted_is_what_was_seen(seen: dict[str, Any]) -> None:
    plan = plan_elections(_audited(seen["capture"], seen["kafka"]), candidate_id=seen["candidate"], up=seen["up"])
    for (topic, partition), outcome in outcomes_of(plan).items():
        found = seen["partitions"][f"{topic}-{partition}"]
        assert found["leader"] == outcome.leader_id, (topic, partition)
        for broker, (cut, end) in outcome.replicas.items():
            ended, kept, ends = found["replicas"][str(broker)]
            assert (kept, ends) == (ended if cut is None else min(cut, ended), end), (topic, partition, broker)
    assert asdict(plan)["conflicts"] == ()
