"""Plans of captures and of clusters made by hand: order, commands by version, predictions, conflicts, what has moved."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
from tests.elect.clusters import Part, captured, outline, plan_of, results_of
from tests.support import metadata_log as write
from tests.support.fixtures import FIXTURES, truth
from tests.support.report_rows import change_rows, objects
from tests.support.scenario import written
from tests.support.scenes import change, scene
from tests.support.snapshots import Replica
from tests.support.some import some

from replica_audit.config import Settings
from replica_audit.elect.cluster_state import PresentState, present_state
from replica_audit.elect.election_plan import plan_elections
from replica_audit.elect.kafka_commands import Copies, Tools
from replica_audit.elect.plan_model import KeepStopped, Plan, SalvageSource, Step, parse_plan, plan_object
from replica_audit.elect.premises import ChangedPremise, moved_since
from replica_audit.elect.safeguards import copy_put_aside
from replica_audit.elect.simulation import Kinds, Scenarios, Transitions
from replica_audit.errors import UsageError
from replica_audit.model import TopicPartition
from replica_audit.protocol.controller import Registration
from replica_audit.protocol.versions import parse_kafka_version
from replica_audit.report.facts.conditions import find_conditions
from replica_audit.report.plan_text import render_plan, tell_decisions
from replica_audit.results import Results
from replica_audit.runner.in_process import audit_all
from replica_audit.schema import REPORT_ROWS, REPORT_TABLES, BesideRow, CaptureRow, FindingRow

REPORT_COLUMNS = {name: [column.name for column in columns] for name, columns in REPORT_TABLES.items()}
GOLDEN = Path(__file__).parent / "golden"


@cache
def audited(capture: str, version: str | None = None, asked: tuple[TopicPartition, ...] = ()) -> Results:
    return audit_all(str(FIXTURES / capture), Settings(kafka_version=version), asked=asked)


def predicted(plan: Plan) -> dict[tuple[str, int], tuple[int | None, int]]:
    """(partition, broker) → (cut, end) of the last word on each replica."""
    return {
        (f"{one.topic}-{one.partition}", one.broker_id): (one.truncate_to, one.log_end_offset)
        for step in plan.steps
        for one in step.after
    }


def test_a_wrong_leader_is_stopped_and_the_candidate_elected_alone() -> None:
    plan = plan_elections(audited("diverged-unclean", "4.3.1"))
    assert outline(plan) == [
        ("copy", (0,)),
        ("copy", (1,)),
        ("salvage", ()),
        ("forbid_unclean", ()),
        ("stop", (2, 1)),
        ("recopy", (1,)),
        ("start", (0,)),
        ("elect", (0,)),
        ("check", (0,)),
        ("start", (2,)),
        ("start", (1,)),
        ("restore_config", ()),
        ("verify", ()),
        ("restore", ()),
    ]
    assert [step.number for step in plan.steps] == list(range(1, 15))
    # What the captured cluster did later under broker 2 is in diverged-healed; here broker 0 leads partitions 0 and 2.
    assert predicted(plan)["ledger-0", 1] == (34, 79)
    assert predicted(plan)["ledger-1", 0] == (41, 70)
    assert {one.broker_id for one in plan.keep_down} == {1, 2}
    assert plan.conflicts == ()


@pytest.mark.parametrize(
    ("down", "said"),
    [
        ((), "Once any of brokers 1, 2 and 3 is down, do not start it until step 4 is done, since it could lead."),
        ((1, 2), "Brokers 1 and 2 are down: leave each down until step 4 is done, since it could lead. "
                 "Once broker 3 is down, do not start it until step 4 is done, since it could lead."),
        ((1,), "Broker 1 is down: leave it down until step 4 is done, since it could lead. "
               "Once any of brokers 2 and 3 is down, do not start it until step 4 is done, since it could lead."),
    ],
)  # fmt: skip
def test_brokers_that_stay_down_for_one_reason_are_told_together(down: tuple[int, ...], said: str) -> None:
    plan = plan_elections(audited("diverged-unclean", "4.3.1"))
    held = tuple(KeepStopped(broker, 4, broker in down, "it could lead") for broker in (1, 3, 2))
    assert said in " ".join(render_plan(replace(plan, keep_down=held)).split())


@pytest.mark.parametrize(("up", "said"), [((2,), "broker 2: it"), (None, "broker 2, if broker 2 is up: it")])
def test_whom_kafka_chooses_is_not_said_for_sure_of_a_broker_that_may_be_down(
    up: tuple[int, ...] | None, said: str
) -> None:
    results = results_of([Part("t", (1, 2, 3), 2, (2,), choice=1)], None, "topics_describe")
    text = " ".join(render_plan(plan_elections(results, up=up)).split())
    assert f"As things are, Kafka chooses {said} stays leader" in text


def test_records_that_two_copies_hold_are_salvaged_once() -> None:
    results = results_of([Part("t", (1, 2, 3), 2, (2,), choice=1)], None, "metadata_log")
    name = f"broker-2/t-0.{'0' * 32}-future"
    beside = [BesideRow(broker_id=2, log_dir=name, start_offset=10, end_offset=11, lost_held=1)]
    change_rows(results, "elections", lambda row: {"beside": beside if row.candidate_id == 1 else []})
    plan = plan_elections(results, up=(2,))
    assert sum(one.records for one in plan.decisions[0].salvage) == 2
    (step,) = [one for one in plan.steps if one.action == "salvage"]
    assert step.text == "Salvage what the planned leaders of t-0 lack (at most 1 record)"


def of_voters(results: Results, *voters: int) -> Results:
    captures = [captured("__cluster_metadata", node, named_by=("voters",), state="named") for node in voters]
    return replace(results, captures=captures)


def test_no_leader_of_the_controllers_is_waited_for_that_a_broker_has_to_vote_for() -> None:
    """Of three voters two are brokers: the third elects nobody before the first of them is up."""
    results = results_of([Part("t", (1, 2), 2, (2,), choice=1)], "4.3.1", "metadata_log")
    for voters, waits in (((1, 2, 100), False), ((100, 101, 102), True), ((1, 100, 101), True)):
        steps = plan_elections(of_voters(results, *voters), up=(), stopped_cleanly=(1, 2)).steps
        first = next(step for step in steps if step.brokers == (1,) and step.action == "start")
        started = next(step for step in steps if step.action == "start")
        assert started.controllers == tuple(node for node in voters if node >= 100)
        assert ("The controllers have a leader" in first.before) == waits
        assert any(step.text.startswith("Check that the controllers have a leader") for step in steps) == waits


def test_unclean_elections_are_forbidden_before_a_broker_may_lead_that_has_to_vote() -> None:
    """Others that vote run as controllers only until then, and the candidate, too, if need be."""
    results = results_of([Part("t", (1, 2), 2, (2,), choice=1, unclean="true")], "4.3.1", "metadata_log")
    for voters, helpers in (((1, 2, 100), [(2,)]), ((100, 101, 102), []), ((1, 2), [(2, 1)])):
        steps = plan_elections(of_voters(results, *voters), up=(), stopped_cleanly=(1, 2)).steps
        actions = [step.action for step in steps if step.brokers or step.action == "forbid_unclean"]
        assert "start" not in actions[: actions.index("forbid_unclean")]
        alone = [step.controllers for step in steps if "process.roles=controller" in " ".join(step.commands)]
        assert alone == helpers, voters


def test_controllers_that_are_down_are_started_before_leaders_are_looked_for() -> None:
    """Only a controller elects the broker that is to lead."""
    results = of_voters(results_of([Part("t", (1, 2), 2, (1, 2), choice=1)], "4.3.1", "metadata_log"), 100, 101, 102)
    kinds = [
        {"broker_id": 1, "kind": "live"},
        {"broker_id": 2, "kind": "offline"},
        {"broker_id": 100, "kind": "offline"},
    ]
    results = replace(results, audit={**results.audit, "inputs": {"brokers": kinds}})
    plan = plan_elections(results)
    assert plan.decisions[0].procedure == "confirm"
    done = [(step.action, step.controllers) for step in plan.steps if step.action in ("start", "check")]
    assert done == [
        ("start", (100, 101, 102)),
        ("check", (100, 101, 102)),
        ("check", ()),
    ]


@pytest.mark.parametrize(
    ("voters", "up", "left"),
    [
        ((1, 2, 3), (1, 2), "only 1 of 3 controllers is left"),
        ((1, 2, 3, 7, 8), (1, 2), None),
        ((1, 2, 7, 8), (1, 2), "only 2 of 4 controllers are left"),
        ((7, 8, 9), (1, 2), None),
        ((), (1, 2), None),
    ],
)
def test_a_plan_takes_no_majority_from_the_controllers(
    voters: tuple[int, ...], up: tuple[int, ...], left: str | None
) -> None:
    """Broker 3 is to be elected alone; brokers that are voters too are down then (H16)."""
    results = results_of([Part("t", (1, 2, 3), 2, (2,), choice=3)], "4.3.1", "metadata_log")
    plan = plan_elections(of_voters(results, *voters), up=up, stopped_cleanly={1, 2, 3} - set(up))
    (decision,) = plan.decisions
    elections = [step.action for step in plan.steps if step.action in ("stop", "start", "elect")]
    if left is None:
        assert (plan.conflicts, decision.procedure) == ((), "elect") and "elect" in elections
        return
    (conflict,) = plan.conflicts
    assert (
        conflict.reason
        == f"brokers 1 and 2 are controllers too, and without them {left}: nobody is elected until a majority is up"
    )
    assert decision.procedure == "unplanned" and elections == []


@pytest.mark.parametrize(
    ("voters", "helpers"), [((1, 2, 3), [(2,)]), ((1, 2, 3, 7, 8), []), ((1, 2, 7, 8), [(2,)]), ((1, 2), [(2, 1)])]
)
def test_where_all_are_down_voters_run_as_controllers_only_until_the_candidate_leads(
    voters: tuple[int, ...], helpers: list[tuple[int, ...]]
) -> None:
    """The former leader is the first to vote, and the last that is a broker again."""
    results = results_of([Part("t", (1, 2, 3), 2, (2,), choice=3)], "4.3.1", "metadata_log")
    plan = plan_elections(of_voters(results, *voters), up=(), stopped_cleanly=(1, 2, 3))
    alone = [step for step in plan.steps if "process.roles=controller" in " ".join(step.commands)]
    assert [step.controllers for step in alone] == helpers
    if helpers:
        started = [step.brokers for step in plan.steps if step.action == "start" and step.brokers]
        assert started == [(3,), (1,), (2,)]
        kept = {one.broker_id for one in plan.keep_down if "as a controller only it starts before" in one.reason}
        assert kept == {*helpers[0]}
        stops = [step.number for step in plan.steps if step.action == "stop"]
        assert len(stops) == len(helpers[0])
        assert all(plan.steps[number].brokers == plan.steps[number - 1].brokers for number in stops)


def test_no_node_is_started_for_another_partition_of_one_that_waits_for_a_quorum() -> None:
    """Broker 2 brought the quorum back, and led t again, though broker 1 has more: it was fenced for no plan but this one."""
    waiting = Part("t", (1, 2, 3), 2, (1, 2), choice=1)
    beside, apart = Part("u", (2, 4), 4, (4,), choice=2), Part("v", (4, 5), 4, (4,), choice=5)
    results = of_voters(results_of([waiting, beside, apart], "4.3.1", "metadata_log"), 1, 2, 3)
    plan = plan_elections(results, up=(1,), stopped_cleanly=(2, 3, 4, 5))
    told = {one.topic: one.reason for one in plan.conflicts}
    assert told["u"] == (
        "its brokers also have t-0, which waits for a majority of the controllers: a broker started before that may lead it "
        "in place of one that has more"
    )
    assert not any({1, 2, 3} & {*step.brokers} for step in plan.steps if step.action in ("start", "stop"))


@pytest.mark.parametrize("replicas", [(4, 1), (4, 5)])
def test_without_a_quorum_nobody_is_put_first_in_an_assignment(replicas: tuple[int, int]) -> None:
    """Only a controller changes an assignment; the plan gave up the first partition and asked for the second."""
    waiting = Part("t", (1, 2, 3), 2, (1, 2), choice=1)
    moved = Part("u", replicas, 4, replicas, choice=replicas[1])
    results = of_voters(results_of([waiting, moved], "4.3.1", "metadata_log"), 1, 2, 3)
    plan = plan_elections(results, up=(1, 4, 5), stopped_cleanly=(2, 3))
    assert {one.topic for one in plan.conflicts} == {"t", "u"}
    assert {one.procedure for one in plan.decisions} == {"unplanned"}
    assert not any(step.action == "reorder" for step in plan.steps)


def test_where_a_quorum_is_missing_nobody_is_awaited_as_a_leader() -> None:
    """The plan asked to see that broker 1 leads in place of broker 2, which is needed for an election and was not to be started."""
    results = results_of([Part("t", (1, 2, 3), 2, (1, 2), choice=1)], "4.3.1", "metadata_log")
    plan = plan_elections(of_voters(results, 1, 2, 3), up=(1,), asked=[("t", 0)])
    (conflict,) = plan.conflicts
    assert (
        "nobody is elected until a majority is up. Start broker 2 as a controller only (kafka-server-start.sh -daemon "
        "SERVER_PROPERTIES_OF_2 --override process.roles=controller --override listeners=CONTROLLER_LISTENER_OF_2) until "
        "other brokers lead the partitions that it led, then make the plan again"
    ) in conflict.reason
    assert not [step for step in plan.steps if step.action in ("check", "start", "elect")]


@pytest.mark.parametrize("version", [None, "4.3.1"])
@pytest.mark.parametrize(
    ("up", "copied"), [((1, 2, 3), (2,)), ((2, 3), (2,)), ((3,), ()), ((), ())], ids=["all", "leader", "other", "none"]
)
def test_a_leader_that_is_stopped_for_another_one_is_copied_again(
    version: str | None, up: tuple[int, ...], copied: tuple[int, ...]
) -> None:
    """Producers go on writing to it after it was copied: that is deleted as it follows, and nobody has counted it."""
    plan = plan_of(Part("t", (1, 2, 3), 2, (2,), choice=1), up=up, version=version)
    (elect,) = [step for step in plan.steps if step.action == "elect"]
    again = [step for step in plan.steps if step.action == "recopy"]
    assert [step.brokers for step in again] == [copied] * len(copied)
    for step in again:
        (stop,) = [one for one in plan.steps if one.action == "stop" and set(copied) <= set(one.brokers)]
        assert stop.number < step.number < elect.number
        assert step.commands[0] == "tar -czf broker-2-after-its-stop.tgz -C LOG_DIR_OF_2 -- ./t-0"
        assert "in this snapshot: t-0 at 11. If one ends later now, go no further" in step.text


def test_each_version_has_commands_of_its_own() -> None:
    for version in ("2.4.1", "2.5.1", "2.8.2", "3.6.2", "3.9.1", "4.3.1"):
        plan = plan_elections(
            audited("diverged-unclean", version), bootstrap="kafka:9092", client_config="client.properties"
        )
        said = [
            {"action": step.action, "commands": list(step.commands), "files": dict(step.files)}
            for step in plan.steps
            # Those of salvage name the snapshot's place.
            if step.commands and step.action != "salvage"
        ]
        path = GOLDEN / f"commands-{version}.json"
        assert said == json.loads(path.read_text(encoding="utf-8")), version


def test_a_version_without_a_tool_for_it_has_no_plan_but_the_costs() -> None:
    plan = plan_elections(audited("diverged-unclean", "2.3.1"))
    assert [(one.partition, "2.4" in one.reason) for one in plan.conflicts] == [(0, True), (2, True)]
    # What broker 1 leads, it goes on leading, and what that loses is put back; nothing is started or stopped.
    assert [one.action for one in plan.steps] == ["copy", "copy", "salvage", "restore"]
    assert all(one.candidates for one in plan.decisions)


@pytest.mark.parametrize("version", [None, "4.3.1", "2.8.2"])
def test_a_broker_is_stopped_only_when_the_one_before_it_has_ended(version: str | None) -> None:
    """Whoever leaves the ISR last may lead, and the commands come back before a broker has ended."""
    stops = [
        step
        for capture in ("diverged-unclean", "diverged-multi", "quorum3-1-unclean")
        for step in plan_elections(audited(capture, version)).steps
        if step.action == "stop" and len(step.brokers) > 1
    ]
    for step in some(stops):
        forms = [""] if version else ["kafka-server-stop.sh", "kill -TERM"]
        lines = [one for one in step.commands if not one.startswith("#")]
        assert len(lines) == len(forms) * 2 * len(step.brokers)
        for form in range(len(forms)):
            of_form = lines[form * 2 * len(step.brokers) :][: 2 * len(step.brokers)]
            for broker, stop, wait in zip(step.brokers, of_form[::2], of_form[1::2], strict=True):
                assert stop.endswith((f"--node-id={broker}", f"PID_OF_{broker}"))
                assert wait == f"tail --pid=PID_OF_{broker} -f /dev/null"


def test_an_eligible_replica_that_stopped_cleanly_is_only_started() -> None:
    plan = plan_elections(audited("elr-leaderless"), candidate_id=1, asked=[("accounts", 0), ("accounts", 1)])
    assert [one for one in outline(plan) if one[0] in ("start", "stop", "elect", "check")] == [
        ("start", (1,)),
        ("check", (1,)),
        ("start", (0,)),
    ]
    assert {one.procedure for one in plan.decisions} == {"start"}


def test_a_partition_without_the_broker_that_was_asked_for_keeps_its_best() -> None:
    plan = plan_elections(audited("elr-leaderless"), candidate_id=1)
    assert {(one.topic, one.candidate_id, one.asked) for one in plan.decisions} == {
        ("accounts", 1, True),
        ("__consumer_offsets", 0, False),
    }


def test_one_that_was_killed_has_to_be_elected() -> None:
    plan = plan_elections(audited("elr-leaderless"), candidate_id=0)
    assert ("elect", (0,)) in outline(plan)
    assert [one for one in outline(plan) if one[0] == "stop"] == [("stop", (2,))]


def test_up_and_stopped_cleanly_go_before_what_the_files_show() -> None:
    plan = plan_elections(audited("elr-leaderless"), candidate_id=0, up=[], stopped_cleanly=[0, 1])
    assert (plan.up, plan.stopped_cleanly, plan.unknown) == ((), (0, 1), ())
    assert [one for one in outline(plan) if one[0] == "elect"] == []


def test_nothing_needs_to_be_done_where_the_leader_is_best() -> None:
    plan = plan_elections(audited("diverged-unclean"), asked=[("ledger", 1)])
    assert [one.procedure for one in plan.decisions] == ["none"]
    # It loses something all the same, so that it is not said that nothing has to be done.
    assert not plan.is_at_rest
    assert [action for action, _ in outline(plan)] == ["copy", "salvage", "restore"]


def test_a_replica_that_is_not_there_is_a_mistake() -> None:
    with pytest.raises(UsageError, match="brokers 0, 1 and 2 have one"):
        plan_elections(audited("diverged-unclean"), candidate_id=7)


def test_the_same_snapshot_has_not_moved_and_a_later_one_has() -> None:
    before = plan_elections(audited("diverged-unclean"))
    assert parse_plan(json.loads(json.dumps(plan_object(before)))) == before
    asked = tuple(TopicPartition(one.topic, one.partition) for one in before.rests_on)
    places = [(one.topic, one.partition) for one in asked]
    assert _moved(before, plan_elections(audited("diverged-unclean", None, asked), asked=places)) == []
    later = _moved(before, plan_elections(audited("diverged-healed", None, asked), asked=places))
    told = {(one.what, one.broker_id) for one in later if one.partition == 0}
    assert {("leader epoch", None), ("ISR", None), ("log end", 0), ("leader epochs", 0)} <= told
    assert all(one.before != one.now for one in later)


def _moved(before: Plan, now: Plan) -> list[ChangedPremise]:
    return list(moved_since(before, now.cluster_id, now.rests_on))


def test_the_isr_alone_is_seen_to_have_moved() -> None:
    plan = plan_elections(audited("diverged-unclean"))
    now = replace(plan, rests_on=tuple(replace(one, isr=(1,)) for one in plan.rests_on))
    assert {one.what for one in _moved(plan, now)} == {"ISR"}


@pytest.mark.parametrize("content", [[], {}, {"steps": [], "rests_on": [], "schema_version": 2}])
def test_what_is_no_plan_is_refused(content: object) -> None:
    with pytest.raises(UsageError, match="plan"):
        parse_plan(content)


def test_a_choice_whose_costs_a_plan_does_not_have_is_refused() -> None:
    content = json.loads(json.dumps(plan_object(plan_elections(audited("diverged-unclean")))))
    content["decisions"][0]["candidate_id"] = 9
    with pytest.raises(UsageError, match="what broker 9 costs"):
        parse_plan(content)


def test_whoever_is_in_sync_of_another_choice_is_started_after_its_round() -> None:
    """Broker 1 is to lead a, and would take b, which broker 2 is to lead."""
    plan = plan_of(
        Part("a", replicas=(1, 2), leader=None, isr=(2,), choice=1),
        Part("b", replicas=(1, 2), leader=None, isr=(1,), choice=2),
        up=(),
        version="3.9.1",
    )
    # Each takes the other's partition: broker 1 leads b until it is stopped, and b is elected with broker 2 alone.
    assert plan.conflicts == ()
    assert [one for one in outline(plan) if one[0] in ("start", "stop", "elect")] == [
        ("start", (1,)),
        ("elect", (1,)),
        ("stop", (1,)),
        ("start", (2,)),
        ("elect", (2,)),
        ("start", (1,)),
    ]
    start = next(step for step in plan.steps if step.action == "start")
    assert any("No producer writes to b-0 until broker 2 is elected" in one for one in start.before)
    plan = plan_of(
        Part("a", replicas=(1, 2, 3), leader=None, isr=(3,), choice=1),
        Part("b", replicas=(1, 2, 3), leader=None, isr=(1,), choice=2),
        up=(),
        version="3.9.1",
    )
    assert plan.conflicts == ()
    elected = [step.brokers for step in plan.steps if step.action == "elect"]
    started = [step.brokers for step in plan.steps if step.action == "start"]
    assert elected == [(2,), (1,)]
    assert started.index((2,)) < started.index((1,)) < started.index((3,))


@pytest.mark.parametrize(
    ("elr", "of_b", "is_copied"),
    [
        ((3,), {}, True),
        ((3,), {"short": (1,)}, False),
        ((3,), {"short": ()}, False),
        ((3,), {"choice": 3}, False),
        ((3,), {"leader": None, "isr": ()}, False),
        ((), {}, False),
    ],
    ids=["shorter", "longer", "equal", "decided", "nobody leads", "no right"],
)
def test_a_leader_is_copied_before_its_stop_if_who_starts_before_it_leads_with_fewer_records(
    elr: tuple[int, ...], of_b: dict[str, Any], is_copied: bool
) -> None:
    """Broker 1 is stopped for a; broker 3, which is down, may lead b."""
    b = {"leader": 1, "isr": (1,), "choice": 1, "calm": "choice" not in of_b, "short": (3,), **of_b}
    plan = plan_of(
        Part("a", (1, 2), 1, (1,), choice=2), Part("b", (1, 3), elr=elr, fenced=(3,), **b), up=(1, 2), version="4.1.0"
    )
    copies = [step for step in plan.steps if step.action == "copy" and "stopped for other partitions" in step.text]
    assert [(one.brokers, one.partitions) for one in copies] == [((1,), (TopicPartition("b", 0),))] * is_copied
    assert ("stop", (1,)) in outline(plan)


def test_a_topic_that_allows_unclean_elections_is_forbidden_them_before_anything_is_started() -> None:
    plan = plan_of(
        Part("a", replicas=(1, 2), leader=None, isr=(2,), choice=1),
        Part("other", replicas=(1, 3), leader=3, isr=(3,), choice=3, unclean="true", calm=True),
        up=(3,),
        version="3.9.1",
    )
    # Broker 3 stays up, so that nobody takes its partition.
    assert [one for one in outline(plan) if one[0] == "forbid_unclean"] == []
    plan = plan_of(
        Part("a", replicas=(3, 1), leader=3, isr=(3,), choice=1),
        Part("other", replicas=(1, 3), leader=3, isr=(3,), choice=3, unclean="true", calm=True),
        up=(3,),
        version="3.9.1",
    )
    (step,) = [step for step in plan.steps if step.action == "forbid_unclean"]
    assert step.number < min(one.number for one in plan.steps if one.action in ("stop", "start"))
    assert any("--entity-name other" in command for command in step.commands)
    assert plan.conflicts == ()


def test_nobody_else_takes_over_who_loses_as_much_but_other_records() -> None:
    """Only what the chosen leader lacks is salvaged."""
    elected, kept = Part("a", (0, 1, 2), 1, (1,), 0), Part("b", (0, 1, 2), 1, (1,), 1, unclean=None, equals=(0,))
    plan = plan_of(elected, kept, up=[1])
    (step,) = [step for step in plan.steps if step.action == "forbid_unclean"]
    assert step.partitions == (("b", 0),)
    led = [step.leaders for step in plan.steps if step.action == "start"]
    assert led[-1] == (("a", 0, 0), ("b", 0, 1))
    (back,) = [one for one in plan.steps[-1].partitions if one == ("b", 0)]
    told = {(one.topic, one.broker_id, one.truncate_to) for step in plan.steps for one in step.after}
    assert ("b", 0, 10) in told and back


def test_cuts_are_predicted_under_another_leader_that_loses_as_much() -> None:
    """Of the brokers that are stopped for the other partition, the last leads this one again: X, 4.3.1, where `verify` took
    what the old leader lost of `__share_group_state` for a loss that the plan had not named."""
    elected, kept = Part("a", (0, 1, 2), 1, (1, 2), 0), Part("b", (2, 0, 1), 2, (1, 2), 2, equals=(1,))
    plan = plan_of(elected, kept, up=(1, 2), version="4.3.1")
    assert plan.conflicts == () and ("b", 0, 1) in plan.steps[-2].leaders
    assert {broker for (name, broker) in predicted(plan) if name == "b-0"} == {0, 1, 2}


@pytest.mark.parametrize(
    ("version", "source", "said"),
    [
        ("2.8.2", "zookeeper", "ZooKeeper is up: if it is down, start it first"),
        ("3.9.1", "metadata_log", "The controllers are up: if they are down, start them first"),
    ],
)
def test_what_a_broker_needs_before_it_is_started_first(version: str, source: str, said: str) -> None:
    """Under ZooKeeper a broker is the controller, and there is none before it."""
    plan = plan_of(Part("a", (1, 2), None, (2,), choice=1), up=(), version=version, source=source)
    step = next(step for step in plan.steps if step.action == "start")
    assert [one for one in step.before if "start" in one and "first" in one] == [said]


@pytest.mark.parametrize(
    ("version", "mode", "said"),
    [
        ("4.3.1", "metadata_log", "kafka-configs.sh --bootstrap-controller CONTROLLER:PORT --alter"),
        ("2.8.2", "zookeeper", "kafka-configs.sh --zookeeper ZOOKEEPER:2181 --alter"),
        ("3.6.2", "metadata_log", None),
    ],
)
def test_with_every_broker_down_elections_are_forbidden_in_another_way(
    version: str, mode: str, said: str | None
) -> None:
    plan = plan_of(
        Part("a", replicas=(1, 2), leader=None, isr=(2,), choice=1),
        Part("other", replicas=(1, 3), leader=None, isr=(3,), choice=3, unclean="true", calm=True),
        up=(),
        version=version,
        source=mode,
    )
    steps = [step for step in plan.steps if step.action == "forbid_unclean"]
    assert [step.commands[-1].startswith(said) for step in steps] == ([True] if said else [])
    # Where there is no way, it is told that the other topic would have a wrong leader.
    assert [one.topic for one in plan.conflicts] == ([] if said else ["other"])


def test_in_sync_replicas_change_places_by_a_reassignment_when_all_are_up() -> None:
    part = Part("a", replicas=(2, 1), leader=2, isr=(1, 2), choice=1)
    plan = plan_of(part, up=(1, 2), version="3.9.1")
    assert [step.action for step in plan.steps if step.action not in ("copy", "salvage")] == [
        "reorder",
        "verify",
        "restore",
    ]
    (step,) = [step for step in plan.steps if step.action == "reorder"]
    assert json.loads(step.files["reassign.json"])["partitions"][0]["replicas"] == [1, 2]
    # With a replica down the tool would refuse: the leader is stopped, and the candidate is elected by itself.
    plan = plan_of(replace(part, replicas=(2, 1, 3)), up=(1, 2), version="3.9.1")
    assert ("stop", (2,)) in outline(plan) and ("elect", (1,)) not in outline(plan)


def test_of_a_replica_that_a_reassignment_removes_nothing_is_predicted_and_its_end_is_told() -> None:
    """Broker 3 is added in the place of broker 2: as soon as it is in sync, broker 2 deletes its log."""
    part = Part("a", replicas=(1, 3, 2), leader=None, isr=(2,), choice=1, adding=(3,), removing=(2,))
    plan = plan_of(part, up=(), version="3.9.1")
    assert plan.conflicts == ()
    assert {one.broker_id for step in plan.steps for one in step.after} == {1, 3}
    (step,) = [step for step in plan.steps if "reassignment" in (step.irreversible or "")]
    assert step.action == "start" and "the replicas that it removes are deleted" in step.irreversible
    # The chosen replica may be the one that is removed: it leads until the others have all that it has.
    plan = plan_of(replace(part, isr=(1,), choice=2), up=(), version="3.9.1")
    assert plan.conflicts == () and all(not step.after for step in plan.steps)
    assert plan.steps[-2].leaders == (("a", 0, 1),)


def test_the_least_epoch_is_that_of_the_order_in_which_least_changes() -> None:
    """All were killed: where broker 0 is fenced last, nobody leads between it and broker 1."""
    part = Part("a", replicas=(0, 1, 2), leader=0, isr=(0, 1, 2), choice=1)
    plan = plan_of(part, up=(), version="3.9.1")
    assert {one.leader_epoch for step in plan.steps for one in step.after} == {7}


@pytest.mark.parametrize("unclean", ["true", "false", None])
@pytest.mark.parametrize(("leader", "first"), [(1, 2), (2, 1)])
def test_the_least_epoch_allows_for_the_last_in_sync_to_go_last(leader: int, first: int, unclean: str | None) -> None:
    """Whether the others were fenced before is not known, and with unclean elections they may have led meanwhile, or not."""
    part = Part("a", replicas=(first, leader, 0), leader=leader, isr=(leader,), choice=leader, unclean=unclean)
    plan = plan_of(part, up=(), version="3.9.1")
    assert {one.leader_epoch for step in plan.steps for one in step.after} == {7}


def test_a_broker_that_was_fenced_before_the_last_leader_went_is_not_elected_in_its_place() -> None:
    part = Part("a", replicas=(2, 1, 0), leader=1, isr=(1,), choice=1, unclean="true")
    seen = plan_of(replace(part, fenced=(0, 2)), up=(), version="4.3.1")
    assert ("elect", (1,)) not in outline(seen)
    (start,) = [step for step in seen.steps if (step.action, step.brokers) == ("start", (1,))]
    assert [(one.broker_id, one.leader_epoch) for one in start.after] == [(1, 7)]
    unseen = plan_of(part, up=(), version="4.3.1")
    assert ("elect", (1,)) in outline(unseen)


_SET, _REMOVE = "--add-config unclean.leader.election.enable=true", "--delete-config unclean.leader.election.enable"


@pytest.mark.parametrize(
    ("source", "unclean", "inherits", "does", "is_known"),
    [
        ("metadata_log", "true", None, _SET, True),
        ("metadata_log", "true", True, _REMOVE, True),
        ("metadata_log", None, None, _REMOVE, True),
        ("topics_describe", "true", None, _REMOVE, False),
        ("topics_describe", None, None, _REMOVE, True),
        ("user", None, None, _REMOVE, False),
    ],
)
def test_a_topic_that_inherits_unclean_elections_gets_no_value_of_its_own(source, unclean, inherits, does, is_known):
    """With one it would miss what is set for the cluster later."""
    other = Part("a", (1, 3), None, (3,), choice=3, unclean=unclean, inherits_unclean=inherits, calm=True)
    plan = plan_of(Part("b", (1, 2), None, (2,), choice=1), other, up=(), version="4.3.1", source=source)
    steps = {step.action: step for step in plan.steps}
    (command,) = steps["restore_config"].commands
    assert command.endswith(does)
    told = "Nothing shows whether a had a value of its own: if --describe showed one before the change, set it again"
    assert (told in steps["restore_config"].text) is not is_known
    *shown, forbid = steps["forbid_unclean"].commands
    assert forbid.endswith("--add-config unclean.leader.election.enable=false")
    assert [" --describe " in one for one in shown] == ([] if is_known else [True])


def test_each_log_dir_of_a_broker_is_copied_by_a_command_of_its_own() -> None:
    parts = [Part(topic, replicas=(2, 1), leader=2, isr=(1, 2), choice=1) for topic in ("a", "b", "c")]
    results = results_of(parts, "4.3.1", "metadata_log")
    change_rows(
        results,
        "replicas",
        lambda row: {
            "clean_shutdown": False,
            "log_dir": f"broker-{row.broker_id}/{'disk-2' if row.topic == 'b' else 'disk-1'}",
        },
    )
    commands = [
        one for step in plan_elections(results, up=(1, 2)).steps if step.action == "copy" for one in step.commands
    ]
    assert [one.partition(" -- ")[2] for one in commands if "LOG_DIR_OF_1" in one] == ["./a-0 ./c-0", "./b-0"]
    archives = [one.split()[2] for one in commands]
    assert len(archives) == len(set(archives)) == 4


def test_the_label_of_a_version_ends_where_a_command_of_every_version_follows() -> None:
    part = Part("a", replicas=(2, 1), leader=2, isr=(1, 2), choice=1)
    (step,) = [one for one in plan_of(part, up=(1, 2), source="user").steps if one.action == "reorder"]
    assert [one for one in step.commands if one.startswith("#")] == [
        "# Kafka 2.6 and later:",
        "# before Kafka 2.6:",
        "# Kafka 2.6 and later:",
        "# before Kafka 2.6:",
        "# every version:",
    ]
    assert step.commands[-2].startswith("kafka-leader-election.sh") and step.commands[-3] == "# every version:"


def test_a_plan_is_plain_json() -> None:
    content = plan_object(plan_elections(audited("diverged-unclean", "4.3.1")))
    assert json.loads(json.dumps(content)).keys() == content.keys()
    assert content["schema_version"] == 1
    assert (
        content["decisions"][0].keys()
        == asdict(plan_elections(audited("diverged-unclean", "4.3.1")).decisions[0]).keys()
    )


def test_a_partition_whose_assignment_nothing_shows_holds_no_plan_up() -> None:
    known = Part("known", (1, 2), leader=2, isr=(2,), choice=1)
    unknown = Part("unknown", (1, 2), leader=None, isr=None, choice=2)
    plan = plan_of(known, unknown, up=(2,))
    assert ("start", (1,)) in outline(plan)
    assert [one.topic for one in plan.conflicts] == ["unknown"]


def test_where_nobody_leads_it_is_not_said_that_nothing_needs_to_be_done() -> None:
    plan = plan_of(Part("calm", (0, 1), None, (1,), 1, calm=True), up=())
    assert plan.leaderless == (("calm", 0),)
    assert plan.is_quiet
    assert not plan.is_at_rest


def test_of_equal_candidates_it_says_that_neither_loses_anything() -> None:
    plan = plan_of(Part("t", (0, 1), 0, (0, 1), 0), up=(0, 1))
    lossless = replace(plan.decisions[0].chosen, lost_records=0, lost_committed=0)
    decision = replace(plan.decisions[0], candidates=(lossless, replace(lossless, candidate_id=1)))
    assert decision.instead(1, (), (), "it leads").reason == "broker 1 loses nothing; neither would broker 0. It leads"


def test_an_equal_candidate_loses_what_it_lacks_itself() -> None:
    """Both lose one record, each what the other one has."""
    results = results_of([Part("t", (0, 1), None, (), 0), Part("u", (0, 1), None, (), 1)], None, "metadata_log")
    change_rows(results, "elections", lambda row: {"lost_records": 1, "lost_committed": 1} if row.topic == "t" else {})
    decision = plan_elections(results, up=(), stopped_cleanly=(0, 1)).decisions[0]
    assert (decision.topic, decision.candidate_id) == ("t", 1)
    assert [one.broker_id for one in decision.salvage] == [0]


def test_every_order_of_fencing_is_tried_where_two_that_went_down_were_eligible() -> None:
    place = ("t", 0)
    registration = Registration((0, 1), 1, 5, frozenset({1}), elr=frozenset({0}), min_isr=2, has_elr=True)
    state = PresentState(
        {place: registration}, {place: False}, frozenset(), frozenset(), frozenset(), True, "kraft", frozenset()
    )
    kinds = Kinds(state, lambda place: place, Transitions())
    assert {way.partitions[place].last_known for way in Scenarios.of(state, kinds)} == {(0,), (1,)}


#: (who is in sync, who is up) while the registered leader, broker 1, is down; with what broker 2 is elected by.
REPLACED = [((1, 2), (2,), "isr"), ((1, 2, 3), (2, 3), "isr"), ((1, 3, 2), (3, 2), "isr"), ((1,), (2, 3), "unclean")]


def _replaced(isr: tuple[int, ...], up: tuple[int, ...], right: str, **costs: object) -> Plan:
    """Broker 1, the registered leader, is the best by its costs, and down. `costs`: what is other of broker 2's."""
    part = Part("a", (1, 2, 3), leader=1, isr=isr, choice=1, unclean=str(right == "unclean").lower())
    results = results_of([part], "4.3.1", "metadata_log")
    none = {"lost_records": 0, "lost_committed": 0, "hidden_records": 0}
    change_rows(results, "elections", lambda row: {**none, **(costs if row.candidate_id == 2 else {})})
    return plan_elections(results, up=up)


@pytest.mark.parametrize(("isr", "up", "right"), REPLACED)
@pytest.mark.parametrize(
    "costs", [{}, {"lost_records": 5}, {"damage": ["LOG-CORRUPT-MID"]}], ids=["equal", "acks=1", "damaged"]
)
def test_whoever_leads_in_place_of_a_leader_that_is_down_is_not_stopped_for_nothing(
    isr: tuple[int, ...], up: tuple[int, ...], right: str, costs: dict
) -> None:
    plan = _replaced(isr, up, right, **costs)
    (decision,) = plan.decisions
    assert (decision.candidate_id, decision.procedure) == (2, "confirm")
    assert (decision.kafka_choice_id, decision.kafka_choice_right) == (2, right)
    assert not {step.action for step in plan.steps} & {"stop", "start", "elect", "reorder", "forbid_unclean"}
    assert [step.brokers for step in plan.steps if step.action == "check"] == [(2,)]
    (told,) = tell_decisions(plan)
    assert told.sentence.startswith("Keep broker 2 as leader, if it leads")
    assert " lead and " not in told.sentence
    loses = (
        "5 records that were not committed; broker 1 would lose nothing"
        if "lost_records" in costs
        else "nothing; neither would broker 1"
    )
    assert f"Broker 2 loses {loses}." in told.sentence.replace("broker 2 loses", "Broker 2 loses")
    assert ("files of broker 2 are damaged (LOG-CORRUPT-MID)" in told.sentence) == ("damage" in costs)
    assert "nothing needs to be done" not in render_plan(plan).lower()


@pytest.mark.parametrize(("isr", "up", "right"), REPLACED)
@pytest.mark.parametrize(
    "costs", [{"lost_records": 5, "lost_possible": 5}, {"cut_transactions": 1}, {"hidden_records": 4}],
    ids=["possibly committed", "a transaction", "hidden"],
)  # fmt: skip
def test_a_leader_that_is_down_is_elected_again_for_what_may_be_committed(
    isr: tuple[int, ...], up: tuple[int, ...], right: str, costs: dict
) -> None:
    plan = _replaced(isr, up, right, **costs)
    assert [one.candidate_id for one in plan.decisions] == [1]
    assert ("start", (1,)) in outline(plan)


def test_of_candidates_that_lack_hidden_records_it_is_not_said_that_they_lose_nothing() -> None:
    plan = _replaced((1, 2), (2,), "isr")
    results = results_of([Part("a", (1, 2), leader=1, isr=(1, 2), choice=1)], "4.3.1", "metadata_log")
    change_rows(results, "elections", lambda row: {"lost_records": 0, "lost_committed": 0, "hidden_records": 4})
    (decision,) = plan_elections(results, up=[2]).decisions
    assert decision.candidate_id == 2
    assert decision.reason.startswith(
        "broker 2 loses nothing more, but lacks 4 records, perhaps committed, that another replica has, a difference that no truncation finds; the "
        "same is true of broker 1. The controller elects broker 2"
    )
    assert plan.decisions[0].reason.startswith("broker 2 loses nothing; neither would broker 1. ")


def _salvaging(
    *costs: Mapping[str, int],
    topics: Sequence[str] = "abc",
    asked: Sequence[str] = (),
    stamped: Sequence[str] = (),
    formats: Mapping[str, str] = MappingProxyType({}),
    cluster: tuple[str, str] = ("4.3.1", "metadata_log"),
) -> dict[str, Step]:
    """The steps that salvage and restore, of a partition for each of `costs`, which are those of its leader, broker 1; `asked` are patterns of
    --topic, records of `stamped` get the broker's time, and `formats` are message formats by topic; `cluster` is its version and source."""
    parts = [Part(topic, (1, 2), leader=1, isr=(1, 2), choice=1) for topic in topics[: len(costs)]]
    results = results_of(parts, *cluster)
    results.options["topics"] = asked
    none = {"lost_records": 0, "lost_committed": 0, "hidden_records": 0, "lost_held": 0}
    own = dict(zip(topics, costs, strict=False))
    held = {topic: one.get("lost_records", 0) for topic, one in own.items()}
    change_rows(
        results,
        "elections",
        lambda row: {
            **none,
            **(own[row.topic] if row.candidate_id == 1 else {}),
            "lost_held": held[row.topic] if (row.candidate_id, row.broker_id) == (1, 2) else 0,
        },
    )
    stamp = {"message.timestamp.type": "LogAppendTime"}
    configs = {
        topic: {
            **(stamp if topic in stamped else {}),
            **({"message.format.version": formats[topic]} if topic in formats else {}),
        }
        for topic in topics
    }
    change_rows(results, "partition_states", lambda row: {"configs": configs[row.topic]} if configs[row.topic] else {})
    return {step.action: step for step in plan_elections(results, up=(1, 2)).steps}


def test_records_that_another_replica_keeps_unseen_are_salvaged_too() -> None:
    """No consumer reads them, and salvage --plan has them: the plan named them, and copied them, without a step that takes them out."""
    steps = _salvaging({"hidden_records": 4})
    assert steps["salvage"].text == "Salvage what the planned leaders of a-0 lack (at most 4 records)"
    assert steps["restore"].partitions == (("a", 0),)
    (decided,) = [one for one in steps["restore"].before if "DIV-HIDDEN" in one]
    assert decided.startswith("You have decided which side of a-0 is right")
    assert "copied directories of brokers 1 and 2 instead of a text" in steps["salvage"].before[0]


def test_what_salvage_takes_besides_is_named() -> None:
    """It takes what was never committed, too, once there is anything else, and restore puts all of it back."""
    committed, acks_1 = {"lost_records": 5, "lost_committed": 5}, {"lost_records": 3}
    both = _salvaging(committed, acks_1)
    assert both["salvage"].text == "Salvage what the planned leaders of a-0 and b-0 lack (at most 8 records)"
    assert both["restore"].partitions == (("a", 0), ("b", 0))
    assert not [one for one in both["restore"].before if "DIV-HIDDEN" in one]
    assert "salvage" not in _salvaging(acks_1)


def test_a_topic_that_stamps_records_takes_them_with_their_own_times() -> None:
    """Otherwise `restore` refuses it."""
    committed = {"lost_records": 5, "lost_committed": 5}
    step = _salvaging(committed, committed, committed, stamped=("a", "c"))["restore"]
    of = ["a", "c"]
    alter = "kafka-configs.sh --bootstrap-server HOST:PORT --alter --entity-type topics --entity-name"
    assert list(step.commands[:2]) == [f"{alter} {one} --add-config message.timestamp.type=CreateTime" for one in of]
    assert [one.split()[1] for one in step.commands[2:4]] == ["restore", "restore"]
    assert list(step.commands[4:]) == [f"{alter} {one} --add-config message.timestamp.type=LogAppendTime" for one in of]
    assert step.text.endswith(". Records of a and c get their producers' times until that is done")
    assert len(_salvaging(committed)["restore"].commands) == 2


OLD = {"a": "0.10.2-IV0", "b": "0.11.0-IV2", "c": "0.9.0.1"}


def test_a_topic_whose_message_format_has_no_transactions_gets_a_later_one_first() -> None:
    """Otherwise `restore` refuses all topics."""
    committed = {"lost_records": 5, "lost_committed": 5}
    step = _salvaging(committed, committed, committed, formats=OLD, cluster=("2.8.2", "zookeeper"))["restore"]
    alter = "kafka-configs.sh --bootstrap-server HOST:PORT --alter --entity-type topics --entity-name"
    assert step.commands[:2] == tuple(f"{alter} {one} --add-config message.format.version=0.11.0" for one in "ac")
    assert [one.split()[1] for one in step.commands[2:]] == ["restore", "restore"]
    assert step.text.endswith(
        ". a and c get message format 0.11.0, the first with transactions, and keep it: under a lower one replicas delete their "
        "leader epochs"
    )


@pytest.mark.parametrize("cluster", [("3.9.1", "zookeeper"), ("4.3.1", "metadata_log")])
def test_brokers_that_ignore_message_formats_get_none(cluster: tuple[str, str]) -> None:
    committed = {"lost_records": 5, "lost_committed": 5}
    step = _salvaging(committed, committed, formats=OLD, cluster=cluster)["restore"]
    assert len(step.commands) == 2 and "format" not in step.text


def test_kafkas_own_topics_which_salvage_passes_over_are_not_among_what_it_takes() -> None:
    committed = {"lost_records": 5, "lost_committed": 5}
    steps = _salvaging(committed, committed, topics=("a", "__b"))
    assert steps["salvage"].partitions == steps["restore"].partitions == (("a", 0),)
    assert _salvaging(committed, topics=("__b",)).keys().isdisjoint({"salvage", "restore"})
    assert _salvaging(committed, topics=("__b",), asked=("__b",))["salvage"].partitions == (("__b", 0),)


@pytest.mark.parametrize(
    ("isr", "up", "procedure"),
    [((1, 2), (1, 2), "reorder"), ((1,), (1, 2), "elect"), ((1, 2), (1,), "elect"), ((1, 2), None, "unplanned")],
)
def test_what_the_present_leader_would_cut_off_the_choice_is_copied_first(
    isr: tuple[int, ...], up: tuple[int, ...] | None, procedure: str
) -> None:
    """Also where the audit counts none of it as lost, since copies of different moments may explain it."""
    part = Part("a", (1, 2), leader=1, isr=isr, choice=2)
    results = results_of([part], "4.3.1", "metadata_log" if up is not None else "topics_describe")
    change_rows(
        results,
        "elections",
        lambda row: {
            "only_here": 0,
            "lost_records": 5 * (row.candidate_id == 1),
            "lost_committed": 0,
            "lost_possible": 5 * (row.candidate_id == 1),
            "lost_held": 5 if (row.candidate_id, row.broker_id) == (1, 2) else 0,
        },
    )
    change_rows(
        results,
        "replicas",
        lambda row: {
            "role": "leader" if row.broker_id == 1 else "compared",
            "lost_held": 0,
            "log_end_offset": row.broker_id * 5,
        },
    )
    change_rows(results, "partitions", lambda row: {"reference_id": 1})
    if up is None:
        results.partition_states.clear()
    plan = plan_elections(results, up=up)
    assert [one.procedure for one in plan.decisions] == [procedure]
    assert (
        outline(plan)[0] == ("copy", (2,)) and "follow" in plan.steps[0].text and "./a-0" in plan.steps[0].commands[0]
    )
    conditions = [
        text for step in plan.steps for text in step.before if text.startswith("Broker 2 still has a-0 up to")
    ]
    # One that is up may have followed since.
    assert bool(conditions) == (up == (1, 2)), conditions


def test_what_the_present_leader_has_too_needs_no_copy() -> None:
    assert "copy" not in {action for action, _ in outline(_replaced((1, 2), (1, 2), "isr", lost_records=5))}


def test_what_is_asked_for_is_not_replaced() -> None:
    results = results_of([Part("a", (1, 2), leader=1, isr=(1, 2), choice=1)], "4.3.1", "metadata_log")
    plan = plan_elections(results, up=[2], candidate_id=1)
    assert [(one.candidate_id, one.procedure) for one in plan.decisions] == [(1, "elect")]


def _confirmed(version: str | None, unknown: bool = True, topic: str = "a") -> Plan:
    """The plan where the registered leader is the best choice and nothing tells whether it is up."""
    results = results_of([Part(topic, (1, 2), leader=1, isr=(1, 2), choice=1)], version, "topics_describe")
    return plan_elections(results, up=None if unknown else [1, 2])


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("1.1.1", ["--zookeeper"]),
        ("2.1.1", ["--zookeeper"]),
        ("2.2.0", ["--bootstrap-server"]),
        ("4.3.1", ["--bootstrap-server"]),
        (None, ["--bootstrap-server", "--zookeeper"]),
    ],
)
def test_a_leader_that_may_be_down_is_looked_at_with_the_tool_of_the_version(
    version: str | None, said: list[str]
) -> None:
    (step,) = (one for one in _confirmed(version).steps if one.action == "check")
    found = [one.split()[1] for one in step.commands if not one.startswith("#")]
    assert found == said
    # Another one that is in sync would lead as soon as it is up, and cut this one.
    assert "start it, and no other replica of it before it leads" in step.text
    assert not [one for one in _confirmed(version, unknown=False).steps if one.action == "check"]


def test_without_a_plan_nothing_is_asked_for() -> None:
    part = Part("a", (1, 2), leader=1, isr=(1, 2), choice=2)
    results = results_of([part], "4.3.1", "metadata_log")
    change_rows(results, "partition_states", lambda row: {"fenced": []})
    results.findings[:] = objects("findings", [
        {**dict.fromkeys(FindingRow._fields), "topic": "a", "partition": 0, "broker_id": 1, "status": "new",
         "code": "HWM-CP-ABOVE-LEO", "severity": "high", "evidence": []}
    ])  # fmt: skip
    plan = plan_elections(results)
    assert [one.reason.partition(":")[0] for one in plan.conflicts] == ["it is not known whether broker 1 is up"]
    assert not {step.action for step in plan.steps} & {"start", "stop", "elect", "reorder", "forbid_unclean"}
    (told,) = tell_decisions(plan)
    assert (
        told.sentence.startswith("No plan: ")
        and "Each choice loses something; the best would be to elect broker 2" in told.sentence
    )
    for up in ([], [1, 2]):
        asked = plan_elections(results, up=up)
        assert not asked.conflicts and {step.action for step in asked.steps} & {"elect", "reorder"}


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("2.8.2", ["abort"]),
        ("3.0.0", ["find-hanging", "abort"]),
        ("4.3.1", ["find-hanging", "abort"]),
        (None, ["find-hanging", "abort", "abort"]),
    ],
)
@pytest.mark.parametrize("topic", ["orders", "-orders", "--help"])
def test_a_transaction_is_ended_by_what_the_version_has(version: str | None, said: list[str], topic: str) -> None:
    tools = Tools(parse_kafka_version(version))
    commands = [shlex.split(one) for one in tools.end_transaction((topic, 3), 9) if not one.startswith("#")]
    assert [one[3] for one in commands] == said
    # The tool takes what begins with a dash for an option, unless it is one word with its own.
    assert all(f"--topic={topic}" in one for one in commands)
    by_offset, by_producer = (
        [one for one in commands if option in one] for option in ("--start-offset", "--producer-id")
    )
    assert len(by_offset) == said.count("find-hanging") and len(by_producer) == said.count("abort") - len(by_offset)


@pytest.mark.parametrize(
    ("confidence", "version", "ends", "tells"),
    [
        ("proven", "2.8.2", True, True),
        ("likely", "4.3.1", True, True),
        ("suspect", "2.8.2", False, False),
        ("suspect", "4.3.1", True, False),
        ("suspect", None, True, False),
    ],
)
def test_a_transaction_that_a_later_one_may_yet_end_is_aborted_only_where_brokers_say_that_it_hangs(
    confidence: str, version: str | None, ends: bool, tells: bool
) -> None:
    """An abort would end the later one, too, which may be in progress, and whatever was committed before it."""
    results = results_of([Part("a", (1, 2), leader=1, isr=(1, 2), choice=1, calm=True)], version, "metadata_log")
    results.findings[:] = objects("findings", [
        {**dict.fromkeys(FindingRow._fields), "topic": "a", "partition": 0, "broker_id": 1, "status": "new", "start_offset": 7,
         "code": "TXN-HANGING", "severity": "medium", "confidence": confidence, "evidence": []}
    ])  # fmt: skip
    assert any(step.action == "end_transaction" for step in plan_elections(results).steps) == ends
    assert bool(find_conditions(results).hanging) == tells


@pytest.mark.parametrize(
    ("up", "lost", "needed", "is_started"),
    [
        ((), 0, False, True),
        # Somebody is up: who is not may be down for a reason of its own.
        ((2,), 0, False, False),
        # Nothing tells what its start does to the other partition.
        ((), None, False, False),
        ((), 4, False, False),
        ((), 0, True, False),
    ],
)
def test_after_the_loss_of_a_whole_site_everybody_is_started(
    up: tuple[int, ...], lost: int | None, needed: bool, is_started: bool
) -> None:
    """Also a broker that has none of the partitions that are decided: what is left may need it, as consumer offsets do."""
    bad = Part("bad", (1, 2), leader=2, isr=(1, 2), choice=1)
    results = results_of(
        [bad, Part("other", (3, 4), leader=3, isr=(3, 4), choice=3, calm=True)], "4.3.1", "metadata_log"
    )
    change_rows(results, "partitions", lambda row: {"lost_records": lost if row.topic == "other" else 2})
    results.captures[:] = [CaptureRow("other", 0, 4, None, "absent", (), (), "isr")] * needed
    plan = plan_elections(results, up=up, stopped_cleanly=[])
    started = [step.brokers[0] for step in plan.steps if step.action == "start"]
    assert started[0] == 1 and {1, 2} <= {*started, *up}
    assert ({3, 4} <= set(started)) == is_started == bool({3, 4} & set(started))


@pytest.mark.parametrize("told", [(), (1,), (2,), (1, 2)])
def test_salvage_waits_for_files_where_a_text_tells_of_a_log(told: tuple[int, ...]) -> None:
    """It compares the files of the plan's leader with those of whoever has the records."""
    results = results_of([Part("a", (1, 2), leader=2, isr=(1, 2), choice=1)], "4.3.1", "metadata_log")
    change_rows(results, "replicas", lambda row: {"clean_shutdown": None if row.broker_id in told else False})
    plan = plan_elections(results, up=[2])
    (step,) = (step for step in plan.steps if step.action == "salvage")
    assert [int(one) for one in re.findall(r"\d+", " ".join(step.before))] == list(told)


@pytest.mark.parametrize(
    ("suffix", "fate"),
    [
        (f".{'a' * 32}-future", "Kafka cuts it to the current log as the broker starts"),
        (f".{'a' * 32}-delete", "Kafka deletes it"),
        (f".{'a' * 32}-stray", "no log has them once it is removed"),
        ("", "a broker does not start with two directories of one partition"),
    ],
    ids=["future", "delete", "stray", "second disk"],
)
def test_what_becomes_of_a_copy_beside_is_told(suffix: str, fate: str) -> None:
    """Nothing deletes a -stray directory (H8), and nothing but a move cuts one."""
    results = results_of([Part("a", (1, 2), leader=2, isr=(1, 2), choice=1)], "4.3.1", "metadata_log")
    (decision,) = plan_elections(results, up=[2]).decisions
    path = f"broker-2/disk-b/a-0{suffix}"
    decision = replace(decision, salvage=(SalvageSource(2, path, 5, 9, 4, path),))
    (step,) = copy_put_aside(present_state(results, up=[2]), [decision], Copies())
    assert step.text.endswith(fate) and step.snapshot == (path,)


@pytest.mark.parametrize("leader", [2, None])
@pytest.mark.parametrize("believed", [True, False])
def test_what_a_source_that_is_older_than_the_logs_says_is_no_base_of_a_plan(
    leader: int | None, believed: bool
) -> None:
    """The audit says that who is in sync is unknown; then no step goes by who was."""
    results = results_of([Part("a", (1, 2, 3), leader=leader, isr=(2, 3), choice=1)], "4.3.1", "topics_describe")
    if not believed:
        change_rows(results, "partitions", lambda row: {"isr": None})
    plan = plan_elections(results, up=[2, 3])
    moves = {step.action for step in plan.steps} & {"start", "stop", "elect", "reorder", "forbid_unclean"}
    assert bool(moves) == believed and ["older than the logs" in one.reason for one in plan.conflicts] == [True] * (
        not believed
    )
    assert ("Kafka chooses broker 2" in render_plan(plan)) == believed
    # With nobody in sync known, nobody knows whom it elects.
    assert "Kafka elects nobody" not in render_plan(plan)


@pytest.mark.parametrize("damage", [[], ["EPO-CACHE-MISSING"]])
def test_nothing_needs_to_be_done_is_not_said_of_damaged_files_nor_above_steps(damage: list[str]) -> None:
    results = results_of([Part("a", (1, 2), leader=1, isr=(1, 2), choice=1)], "4.3.1", "metadata_log")
    change_rows(
        results,
        "elections",
        lambda row: {"lost_records": 0, "lost_committed": 0, "damage": damage if row.candidate_id == 1 else []},
    )
    finding = dict.fromkeys(REPORT_COLUMNS["findings"])
    results.findings[:] = objects(
        "findings",
        [
            {
                **finding,
                "topic": "a",
                "partition": 0,
                "broker_id": 1,
                "status": "new",
                "code": code,
                "severity": "high",
                "evidence": [],
            }
            for code in damage
        ],
    )
    plan = plan_elections(results, up=[1, 2])
    text = render_plan(plan)
    assert bool(plan.steps) == bool(damage) and plan.is_at_rest
    assert ("Nothing needs to be done" in text) == (not damage)
    assert ("No leader has to change: every leader is the best choice." in text) == bool(damage)


def test_a_plan_of_a_cluster_that_was_stopped_in_order_does_not_ask_for_a_plan(tmp_path: Path) -> None:
    """Its one step was to run elect (META-NO-LEADER)."""
    whole, behind = (Replica(written(0, end, 0), clean_shutdown=True) for end in (80, 60))
    stops = [write.registration_change(one, stopping=1) for one in (3, 2, 1)]
    changes = (stops[0], change(isr=(1, 2)), stops[1], change(isr=(1,)), stops[2], change(leader=-1, isr=(1,)))
    answer = scene(tmp_path, {1: whole, 2: whole, 3: behind}, *changes)
    assert answer.verdict == "LAGGING" and answer.found("META-NO-LEADER"), answer
    assert outline(plan_elections(audit_all(str(tmp_path), Settings()))) == []


def test_without_a_plan_no_salvage_is_announced_that_it_does_not_have() -> None:
    part = Part("a", (1, 2), leader=1, isr=(1, 2), choice=2)
    for version, is_planned in (("2.3.1", False), ("2.4.1", True)):
        plan = plan_elections(results_of([part], version, "topics_describe"), up=[1, 2])
        (told,) = tell_decisions(plan)
        assert bool(plan.conflicts) != is_planned
        assert ("salvage [10, 11) from broker 1 first" in told.sentence) == is_planned
        assert ("broker 2 lacks [10, 11) from broker 1" in told.sentence) != is_planned
        assert any(step.action == "salvage" and step.commands for step in plan.steps) == is_planned


def test_a_leader_that_was_stopped_is_copied_from_each_of_its_log_dirs() -> None:
    """4.3.1, two disks: tar found half of the partitions, and the plan ended there."""
    parts = [Part(topic, (2, 1), leader=2, isr=(2,), choice=1) for topic in ("a", "b", "c")]
    results = results_of(parts, "4.3.1", "metadata_log")
    disks = {"a": "x", "b": "y", "c": "x"}
    change_rows(results, "replicas", lambda row: {"clean_shutdown": False, "log_dir": f"broker-2/{disks[row.topic]}"})
    (step,) = [one for one in plan_elections(results, up=(1, 2)).steps if one.action == "recopy"]
    assert step.commands[:5] == (
        "tar -czf broker-2-after-its-stop.tgz -C LOG_DIR_OF_2 -- ./a-0 ./c-0",
        "tar -czf broker-2-after-its-stop-2.tgz -C LOG_DIR_OF_2 -- ./b-0",
        "mkdir -p after-its-stop/broker-2",
        "tar -xzf broker-2-after-its-stop.tgz -C after-its-stop/broker-2",
        "tar -xzf broker-2-after-its-stop-2.tgz -C after-its-stop/broker-2",
    )


@pytest.mark.parametrize(
    ("config", "change"),
    [
        ({"unclean.leader.election.enable": "true"}, "--add-config unclean.leader.election.enable=true"),
        ({}, "--delete-config unclean.leader.election.enable"),
        (None, None),
    ],
    ids=["its own", "inherited", "unknown"],
)
def test_zookeepers_config_of_a_topic_shows_whether_its_value_was_its_own(
    tmp_path: Path, config: dict[str, str] | None, change: str | None
) -> None:
    """The listing shows what is in force, inherited or not."""
    capture = tmp_path / "capture"
    shutil.copytree(FIXTURES / "zk-2.8-diverged-unclean", capture)
    states = truth("zk-2.8-diverged-unclean")["zookeeper_partition_states"]
    znodes: dict[str, object] = {}
    for name, state in states.items():
        topic, _, number = name.rpartition("-")
        znodes[f"/brokers/topics/{topic}/partitions/{number}/state"] = state
        if config is not None:
            znodes[f"/config/topics/{topic}"] = {"version": 1, "config": config}
    (capture / "zookeeper.json").write_text(json.dumps(znodes))
    plan = plan_elections(audit_all(str(capture), Settings(kafka_version="2.8.2")), up=())
    (step,) = [one for one in plan.steps if one.action == "restore_config"]
    assert ("Nothing shows whether" in step.text) == (change is None)
    assert change is None or all(change in command for command in step.commands), step.commands


class Compared(int):
    """The number of a partition that counts how often it is compared."""

    count = 0

    def __eq__(self, other: object) -> bool:
        Compared.count += 1
        return int(self) == other

    __hash__ = int.__hash__


def test_a_plan_looks_no_partition_up_among_all_others() -> None:
    found = audited("diverged-unclean", "4.3.1")
    counts = []
    for copies in (10, 40):
        rows = {
            table: [
                row
                if getattr(row, "partition", None) is None
                else row._replace(partition=Compared(row.partition + 100 * copy))
                for copy in range(copies)
                for row in found.table(table)
            ]
            for table in REPORT_ROWS
        }
        Compared.count = 0
        plan = plan_elections(replace(found, **rows))
        counts.append(Compared.count)
        assert sum(len(step.partitions) for step in plan.steps if step.action == "salvage") >= copies
    assert counts[1] <= 4.4 * counts[0]


@pytest.mark.parametrize(
    ("capture", "version", "fate"),
    [
        ("diverged-unclean", "4.3.1", "the next start sets its directory aside as -stray, which Kafka never deletes"),
        ("diverged-unclean", "3.6.2", "the next start deletes its directory"),
        (
            "diverged-unclean",
            None,
            "the next start deletes its directory before Kafka 3.7, and since then sets it aside as -stray, which Kafka never deletes",
        ),
        ("zk-2.8-diverged-unclean", "2.8.2", "in KRaft the next start deletes its directory"),
        ("zk-2.8-diverged-unclean", "2.7.2", "its directory stays as it is until it is assigned again"),
    ],
)
def test_a_log_that_its_broker_is_not_assigned_follows_nobody(capture: str, version: str | None, fate: str) -> None:
    results = audit_all(str(FIXTURES / capture), Settings(kafka_version=version))

    def told() -> list[str]:
        texts = [step.text for step in plan_elections(results).steps if step.action == "copy"]
        return [text for text in texts if "that the leader does not have" in text]

    first = told()
    assert first and all(text.endswith("; they are deleted as soon as it follows") for text in first), first
    change_rows(
        results, "elections", lambda row: {} if row.standing in ("leader", "isr") else {"standing": "unassigned"}
    )
    assert told() and all(text.endswith(f"; it is not assigned to the broker, and {fate}") for text in told()), told()


def test_what_to_do_where_a_step_fails_is_told_where_steps_change_the_cluster() -> None:
    for leader, is_told in ((None, True), (1, False)):
        plan = plan_of(Part("t", (1, 2), leader, (1,), choice=1), up=(1,))
        assert plan.steps
        text = " ".join(render_plan(plan).split())
        assert ("If a command fails, fix the cause and repeat it before you go on." in text) is is_told
        assert ("copy all brokers again into a new snapshot" in text) is is_told


@pytest.mark.parametrize(
    ("leaders", "is_one"), [((1, 1), True), ((None, None), True), ((1, 2), False), ((1, None), False)]
)
def test_cuts_are_predicted_where_every_scenario_has_the_same_leader(
    leaders: tuple[int | None, ...], is_one: bool
) -> None:
    kinds: Any = None
    ways: Any = tuple(SimpleNamespace(leader=lambda _, one=one: one) for one in leaders)
    assert Scenarios(kinds, ways, {}).is_led_by_one(TopicPartition("t", 0)) is is_one
