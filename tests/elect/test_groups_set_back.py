"""The step that sets groups back which have read what the planned leader lacks, from rows of groups in one capture."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import pytest
from tests.support.fixtures import FIXTURES

from replica_audit.config import Settings
from replica_audit.elect import kafka_commands
from replica_audit.elect.cost_matrix import Matrix
from replica_audit.elect.election_plan import plan_elections
from replica_audit.elect.follow_up_steps import reset_steps
from replica_audit.elect.plan_model import Plan
from replica_audit.literals import GroupKind
from replica_audit.model import TopicPartition
from replica_audit.results import Results
from replica_audit.runner.in_process import audit_all
from replica_audit.schema import GroupOffsetRow

_CALL = ["--bootstrap-server", "HOST:PORT", "--reset-offsets", "--execute"]


@cache
def audited() -> Results:
    """ledger-0: broker 1 leads with 52 records, brokers 0 and 2 have 79 and 52; broker 0 parts from both at 34."""
    return audit_all(str(FIXTURES / "diverged-unclean"), Settings(topics=("ledger",)))


def plan_of(*groups: tuple[str, int, GroupKind], candidate: int | None = 0) -> Plan:
    """The plan with groups that committed an offset of ledger-0."""
    rows = [
        GroupOffsetRow(name, "ledger", 0, offset, None, 0, "unaffected", None, kind) for name, offset, kind in groups
    ]
    found = replace(audited(), group_offsets=rows)
    return plan_elections(found, asked=[TopicPartition("ledger", 0)], candidate_id=candidate)


def commands(plan: Plan) -> list[list[str]]:
    return [shlex.split(one) for step in plan.steps if step.action == "reset_offsets" for one in step.commands]


def test_a_consumer_group_gets_the_offset_at_which_the_logs_part_whatever_its_name() -> None:
    plan = plan_of(("it's; $(a) group", 50, "consumer"), ("-dash", 79, "consumer"), ("at", 34, "consumer"))
    assert commands(plan) == [
        ["kafka-consumer-groups.sh", *_CALL, f"--group={name}", "--topic=ledger:0", "--to-offset", "34"]
        for name in ("-dash", "it's; $(a) group")
    ]


def test_a_share_group_of_the_same_name_gets_the_time_there() -> None:
    plan = plan_of(("both", 50, "consumer"), ("both", 51, "share"))
    (step,) = (one for one in plan.steps if one.action == "reset_offsets")
    assert [words[0] for words in commands(plan)] == ["kafka-consumer-groups.sh", "kafka-share-groups.sh"]
    share = ["kafka-share-groups.sh", *_CALL, "--group=both", "--topic=ledger:0", "--to-datetime", "TIME_AT_34"]
    assert commands(plan)[1] == share
    assert "2 groups for ledger-0" in step.text and "TIME_AT_N is" in step.text
    assert plan.decisions[0].chosen.groups_hit == 2


def test_it_comes_after_every_start_and_before_records_are_restored() -> None:
    actions = [step.action for step in plan_of(("g", 50, "consumer")).steps]
    last = max(number for number, action in enumerate(actions) if action in ("start", "elect", "check"))
    assert last < actions.index("reset_offsets") < actions.index("restore")


@pytest.mark.parametrize(
    ("groups", "candidate"),
    [
        ([("g", 50, "consumer")], 1),
        ([("g", 34, "consumer")], 0),
        ([("replica-audit-restore-0123", 50, "consumer")], 0),
        ([], 0),
    ],
    ids=["the leader stays", "nothing read past it", "progress of restore", "no groups"],
)
def test_there_is_no_such_step(groups: Sequence[tuple[str, int, GroupKind]], candidate: int) -> None:
    assert commands(plan_of(*groups, candidate=candidate)) == []


def test_there_is_none_where_no_step_elects_the_leader() -> None:
    plan, found = plan_of(("g", 50, "consumer")), audited()
    row = GroupOffsetRow("g", "ledger", 0, 50, None, 0, "unaffected", None)
    made = [
        [*reset_steps(Matrix(found), [one.by(procedure) for one in plan.decisions], [row], kafka_commands.Tools())]
        for procedure in ("elect", "unplanned")
    ]
    assert [len(steps) for steps in made] == [1, 0]


def test_many_groups_are_read_from_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_commands, "MOST_NAMES", 2)
    names = ['"double" it\'s', "-dash", "back\\slash"]
    plan = plan_of(*((name, 50, "consumer") for name in names), ("s", 50, "share"))
    (step,) = (one for one in plan.steps if one.action == "reset_offsets")
    assert [words[0] for words in commands(plan)] == ["xargs", "kafka-share-groups.sh"]
    (content,) = step.files.values()
    printed = subprocess.run(
        ["xargs", "-L", "1", "printf", "%s|%s|%s|%s\n"], input=content, capture_output=True, text=True, check=True
    )
    assert printed.stdout.splitlines() == [f"--group={name}|--topic=ledger:0|--to-offset|34" for name in sorted(names)]
