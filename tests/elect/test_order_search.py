"""The search for an order of steps in a cluster whose partitions have each their own assignment: it ends, and its best order counts."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.elect.clusters import BROKERS, results_of, scattered

from replica_audit.elect import order_search
from replica_audit.elect.election_plan import plan_elections
from replica_audit.elect.order_search import Search, Try
from replica_audit.elect.plan_model import Decision, Plan
from replica_audit.model import TopicPartition


def planned(count: int, seed: int, up: frozenset[int]) -> Plan:
    return plan_elections(results_of(scattered(count, seed), None, "metadata_log"), up=up)


@pytest.fixture
def tries(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, frozenset[TopicPartition]]]:
    """Registrations simulated until the end of each try, and the partitions that it does not serve."""
    found = []
    original = Search.tried

    def noted(search: Search, decisions: Sequence[Decision]) -> Try:
        outcome = original(search, decisions)
        found.append((search.simulated, outcome.unserved))
        return outcome

    monkeypatch.setattr(Search, "tried", noted)
    return found


@pytest.mark.parametrize("enough", [1, 1_500])
def test_no_candidate_is_tried_any_more_once_enough_was_simulated(
    enough: int, tries: list[tuple[int, frozenset[TopicPartition]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(order_search, "ENOUGH_SIMULATED", enough)
    plan = planned(30, 4, frozenset(BROKERS))
    assert len(tries) >= 3
    assert all(simulated < enough for simulated, _ in tries[2:-1])
    told = {(one.topic, one.partition) for one in plan.conflicts}
    assert {(one.topic, one.partition) for one in plan.decisions if one.procedure == "unplanned"} <= told
    assert "elect" in {step.action for step in plan.steps}


def test_the_order_that_serves_most_counts_not_the_last(tries: list[tuple[int, frozenset[TopicPartition]]]) -> None:
    plan = planned(30, 4, frozenset(BROKERS))
    unserved = [len(places) for _, places in tries]
    assert unserved[0] == len({(one.topic, one.partition) for one in plan.conflicts}) == 2
    assert max(unserved[1:5]) > 10
