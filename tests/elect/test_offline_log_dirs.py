"""Plans where a broker that is up has a partition on a log dir that is offline (KIP-858; docs/semantics.md H19)."""

from __future__ import annotations

from dataclasses import replace

from tests.elect.clusters import Part, outline, plan_of, results_of

from replica_audit.elect.cluster_state import present_state
from replica_audit.elect.plan_model import Plan, Step
from replica_audit.report.plan_text import render_plan
from replica_audit.results import FurtherStates

LEADERLESS = Part("t", (1, 2), None, (1,), choice=1, offline=(1,))


def the(plan: Plan, action: str, broker: int) -> Step:
    return next(step for step in plan.steps if step.action == action and step.brokers == (broker,))


def test_the_chosen_replica_is_started_again_with_its_log_dir_before_it_is_elected() -> None:
    plan = plan_of(LEADERLESS, up=(1,))
    assert plan.decisions[0].kafka_choice_id is None
    assert not plan.alternatives
    steps = outline(plan)
    assert (
        steps.index(("stop", (1,)))
        < steps.index(("start", (1,)))
        < steps.index(("check", (1,)))
        < steps.index(("start", (2,)))
    )
    assert any(
        "log directory of broker 1 with t-0, which is offline, is back" in one for one in the(plan, "start", 1).before
    )
    text = " ".join(render_plan(plan).split())
    assert "Kafka elects nobody, and not broker 1 however long it is up" in text
    assert "Kafka chooses broker 1" not in text


def test_a_chosen_replica_that_is_down_is_started_only_with_its_log_dir() -> None:
    plan = plan_of(LEADERLESS, up=())
    assert ("stop", (1,)) not in outline(plan)
    assert any("which is offline, is back" in one for one in the(plan, "start", 1).before)
    sound = plan_of(Part("t", (1, 2), None, (1,), choice=1), up=())
    assert not any("offline" in one for one in the(sound, "start", 1).before)


def test_who_is_passed_over_is_not_stopped_for_another() -> None:
    other = Part("t", (1, 2), None, (1,), choice=2, offline=(1,))
    plan = plan_of(other, up=(1, 2))
    assert "stop" not in [action for action, _ in outline(plan)]
    assert [one.broker_id for step in plan.steps for one in step.after] == [2]
    assert any("the log directory of broker 1 is offline" in one for one in the(plan, "elect", 2).before)
    assert ("stop", (1,)) in outline(plan_of(Part("t", (1, 2), None, (1,), choice=2), up=(1, 2)))


def test_a_broker_that_stopped_without_one_of_its_log_dirs_counts_as_killed() -> None:
    results = results_of([LEADERLESS], None, "metadata_log")
    assert present_state(results, up=(), stopped_cleanly=(1, 2)).clean == {2}


def test_a_large_audit_knows_of_partitions_without_details_which_log_dirs_are_offline() -> None:
    whole = results_of([LEADERLESS], None, "metadata_log")
    ((place, state),) = whole.states()
    further = replace(whole, partition_states=[], further=FurtherStates([place], [state]))
    assert present_state(further, up=(1,)).partitions[place].offline == {1}
