"""A plan for hundreds of bad partitions: its text is bounded, its lists are in files, and nothing is missing from either."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from tests.support.large_audit import audit_models, large_results
from tests.support.large_cluster import large_cluster
from tests.support.samples import SAMPLES

from replica_audit.api.elected import write_plan_files
from replica_audit.elect import kafka_commands, simulation, step_list
from replica_audit.elect.cluster_state import present_state
from replica_audit.elect.election_plan import plan_elections
from replica_audit.elect.kafka_commands import MOST_NAMES, Copies
from replica_audit.elect.plan_model import Plan, Step, plan_object
from replica_audit.model import TopicPartition
from replica_audit.protocol.controller import Registration
from replica_audit.report.plan_text import DECISION_LIMIT, STEP_LIMIT, render_plan, split_steps, tell_decisions
from replica_audit.results import Results

BAD = (("diverged-unclean", "ledger-0"), ("diverged-unclean", "ledger-1"), ("zombie", "orders-0"))


@cache
def large(partitions: int) -> Results:
    bad = audit_models([(str(SAMPLES / name), partition) for name, partition in BAD])
    return large_results(partitions, bad, bad, 1.0)


@cache
def planned(partitions: int) -> Plan:
    return plan_elections(large(partitions))


def test_partitions_that_are_imagined_once_get_the_plan_of_each_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    together = plan_object(planned(60))
    init = simulation.Kinds.__init__
    monkeypatch.setattr(
        simulation.Kinds, "__init__", lambda self, state, _, known: init(self, state, lambda one: one, known)
    )
    assert plan_object(plan_elections(large(60))) == together
    assert {"elect", "start", "stop"} <= {step["action"] for step in together["steps"]}


def test_partitions_of_other_epochs_are_alike_and_their_predictions_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    states = []
    for number, row in enumerate(large(60).partition_states):
        states.append(row._replace(leader_epoch=None if row.leader_epoch is None else row.leader_epoch + number))
    results = replace(large(60), partition_states=states, location="many")
    together = plan_object(plan_elections(results))
    epochs = {one["leader_epoch"] for step in together["steps"] for one in step["after"]}
    assert len(epochs) > 20
    init = simulation.Kinds.__init__
    monkeypatch.setattr(
        simulation.Kinds, "__init__", lambda self, state, _, known: init(self, state, lambda one: one, known)
    )
    assert plan_object(plan_elections(results)) == together


def test_registrations_share_equal_sets_of_brokers() -> None:
    """A set takes more memory than all else of a registration, and every partition has four."""
    registered = present_state(large(60)).partitions.values()
    sets = [brokers for one in registered for brokers in (one.isr, one.elr, one.adding, one.removing)]
    assert len({*map(id, sets)}) == len({*sets}) < 20 < len(sets)


def test_what_an_event_makes_of_a_registration_is_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many scenarios and attempts there are; a broker may be fenced at first, and stopped later."""
    results, _ = large_cluster(12, 1.0)
    worked: Counter[object] = Counter()
    held: list[Registration] = []
    steps: list[int] = []

    def counted(work: Callable[..., Registration], one: Registration, *given: Any, **more: bool) -> Registration:
        *event, alive = given
        own = alive.intersection((*one.replicas, *one.isr, *one.elr, *one.last_known))
        held.append(one)
        worked.update([(work, id(one), tuple(event), tuple(more.items()), own)])
        return work(one, *given, **more)

    for name in ("stop_broker", "start_broker", "catch_up", "elect"):
        monkeypatch.setattr(simulation, name, partial(counted, getattr(simulation, name)))
    after = simulation.Scenarios.after
    monkeypatch.setattr(
        simulation.Scenarios, "after", lambda self, step: (steps.append(len(self.ways)), after(self, step))[1]
    )
    plan_elections(results, premises=False)
    assert max(steps) > 50 and len(steps) > 40, "scenarios, and steps of all attempts"
    assert max(worked.values()) <= 2
    assert 0 < len(worked) < sum(steps), "less than one for each scenario and step"


def test_twice_as_many_partitions_hardly_lengthen_the_text() -> None:
    one, two = (render_plan(planned(partitions)) for partitions in (600, 1200))
    assert len(two) < 1.2 * len(one) and len(two) < 200_000


def test_what_is_told_and_what_is_counted_are_all_decisions() -> None:
    plan = planned(1200)
    text = " ".join(render_plan(plan).split())
    told = list(tell_decisions(plan))
    assert len(told) > DECISION_LIMIT
    first = sum(len(one.places) for one in told[:DECISION_LIMIT])
    more = [int(number) for number in re.findall(r"(\d+) more partitions?, each in plan.json", text)]
    assert first + sum(more) == len({place for one in told for place in one.places}) == len(plan.decisions)


def test_names_that_are_too_many_for_a_command_are_in_its_file() -> None:
    plan = planned(1200)
    for step in plan.steps:
        for command in step.commands:
            assert len(command) < 100 * MOST_NAMES
            for file in re.findall(r"--(?:files-from|arg-file|path-to-json-file)[= ](\S+)", command):
                assert file in step.files
    (elect,) = [step for step in plan.steps if step.action == "elect"]
    (content,) = elect.files.values()
    named = {(one["topic"], one["partition"]) for one in json.loads(content)["partitions"]}
    assert named == set(elect.partitions) and len(named) > MOST_NAMES
    topics = {topic for topic, _ in next(step for step in plan.steps if step.action == "forbid_unclean").partitions}
    assert len(topics) <= MOST_NAMES  # of 48 topics each has its command


def test_tar_copies_what_is_named_in_the_file_beside_it(tmp_path: Path) -> None:
    places = [TopicPartition("orders", number) for number in range(MOST_NAMES + 1)]
    copies = Copies()
    command = copies.of_partitions(1, places)
    for topic, number in places:
        (tmp_path / "LOG_DIR_OF_1" / f"{topic}-{number}").mkdir(parents=True)
    for name, content in copies.files_of([command]).items():
        (tmp_path / name).write_text(content)
    subprocess.run(shlex.split(command), cwd=tmp_path, check=True)
    listed = subprocess.run(["tar", "-tzf", "broker-1.tgz"], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert set(listed.stdout.split()) == {f"./{topic}-{number}/" for topic, number in places}


def test_settings_of_many_topics_are_changed_by_a_command_for_each_value(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (kafka_commands, step_list):
        monkeypatch.setattr(module, "MOST_NAMES", 5)
    for action in ("forbid_unclean", "restore_config"):
        (step,) = [one for one in plan_elections(large(600)).steps if one.action == action]
        assert all(command.startswith(("xargs --arg-file=", "# ")) for command in step.commands)
        listed = Counter(topic for content in step.files.values() for topic in content.split())
        assert set(listed.values()) == {1} and len(listed) > 5


def test_a_step_for_remote_storage_has_the_file_that_names_its_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_commands, "MOST_NAMES", 5)
    stored = [row._replace(remote_records=row.lost_records) for row in large(600).elections]
    plan = plan_elections(replace(large(600), elections=stored, location="stored"))
    (step,) = [one for one in plan.steps if one.action == "keep_remote"]
    assert {*re.findall(r"--arg-file=(\S+)", " ".join(step.commands))} == step.files.keys() == {"keep-remote.txt"}


def test_files_that_are_too_long_for_the_text_lie_beside_the_plan(tmp_path: Path) -> None:
    plan = planned(1200)
    write_plan_files(str(tmp_path / "new" / "plan.json"), "{}", plan.steps)
    text = render_plan(plan)
    files = {name: content for step in plan.steps for name, content in step.files.items()}
    written = {path.name: path.read_text() for path in (tmp_path / "new").iterdir() if path.name != "plan.json"}
    assert written and all(files[name] == content for name, content in written.items())
    for name in files:
        assert (f"# {name}, " in text) == (name in written)


def test_steps_that_do_the_same_are_told_up_to_a_number() -> None:
    steps = [Step(number=number, action="mend" if number < 90 else "verify", text="") for number in range(1, 101)]
    told = list(split_steps(steps))
    assert [left_out for _, left_out in told if left_out] == [89 - STEP_LIMIT]
    assert len(told) + sum(left_out for _, left_out in told) == len(steps)
    starts = [Step(number=number, action="start", text="") for number in range(1, 101)]
    assert [step for step, _ in split_steps(starts)] == starts
