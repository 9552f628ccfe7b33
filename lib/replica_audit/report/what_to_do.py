"""The start of a plan for terminal, page and summary.md: Do first, then the remaining choices and steps.

Decisions are worded in `report.plan_text`, steps in `elect`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from replica_audit.elect.election_plan import advise
from replica_audit.elect.plan_model import AFTERWARDS, Plan, Step
from replica_audit.model import TopicPartition
from replica_audit.report.layout import clean
from replica_audit.report.plan_text import (
    ToldDecision,
    split_steps,
    tell_decisions,
    tell_left_out,
    tell_long_file,
    tell_snapshot,
)
from replica_audit.report.sentences import Sentence, end_sentence, name_partitions
from replica_audit.results import Results
from replica_audit.text import capitalise

#: Actions that keep records safe. Steps between them and `AFTERWARDS` are described by their decisions, except one that
#: moves a directory away where no leader changes.
SAFE = ("check_disks", "keep_remote", "check_remote", "capture", "copy", "keep_up")
#: Maximum numbers of steps of each action, and of decisions, in Do first.
LIMITS = {
    "check_disks": 1,
    "keep_remote": 2,
    "check_remote": 1,
    "capture": 3,
    "copy": 3,
    "keep_up": 2,
    "put_aside": 2,
    "end_transaction": 3,
    "mend": 2,
}
DECISION_LIMIT = 4
#: Maximum number of other choices listed; `elect` lists all.
CHOICE_LIMIT = 8
#: Maximum number of partitions named in a choice.
PLACE_LIMIT = 4


class ToldStep(NamedTuple):
    """A step of the plan, or a decision that requires an action, with its POSIX shell commands."""

    sentence: Sentence
    commands: tuple[str, ...] = ()
    number: int | None = None
    """Number in the plan; None for a decision."""


class ToldChoice(NamedTuple):
    """Choice for partitions; `more` is the number of those not named."""

    places: tuple[TopicPartition, ...]
    more: int
    sentence: str


class WhatToDo(NamedTuple):
    """The plan of an audit: what to do first, most urgent first, and the remaining choices and steps.

    Partitions of `left_out` choices are shown by `command` only.
    """

    first: tuple[ToldStep, ...] = ()
    choices: tuple[ToldChoice, ...] = ()
    """Choices that require no action, or are too many for Do first."""
    left_out: int = 0
    steps: tuple[ToldStep, ...] = ()
    step_count: int = 0
    """Number of steps outside Do first; `steps` leaves out those that do the same for other partitions."""
    are_more: bool = False
    """True if Do first has other steps of the plan."""
    command: str = ""

    @property
    def goes_on(self) -> bool:
        """True if choices or steps remain after Do first."""
        return bool(self.choices or self.steps)


def tell_what_to_do(results: Results) -> WhatToDo:
    """Describe the plan of `results`."""
    plan = advise(results)
    decisions = list(tell_decisions(plan))
    asking = [one for one in decisions if one.asks_for_something]
    done = first_steps(plan)
    aside = [step for step in done if step.action == "put_aside"]
    first = (
        *(_tell_step(step) for step in done if step.action in SAFE),
        *(_tell_step(step, is_alone=True) for step in aside),
        *_decide(results, plan, asking, is_more=bool(aside)),
        *(_tell_step(step) for step in done if step.action in AFTERWARDS),
    )
    if not decisions:
        return WhatToDo(first)
    said = asking[:DECISION_LIMIT]
    choices = [one for one in decisions if one not in said]
    steps = [step for step in plan.steps if step not in done]
    return WhatToDo(
        first=first,
        choices=tuple(
            ToldChoice(one.places[:PLACE_LIMIT], len(one.places[PLACE_LIMIT:]), clean(one.sentence))
            for one in choices[:CHOICE_LIMIT]
        ),
        left_out=sum(len(one.places) for one in choices[CHOICE_LIMIT:]),
        steps=tuple(_tell_step(step, left_out) for step, left_out in split_steps(steps)),
        step_count=len(steps),
        are_more=bool(done),
        command=results.command("elect"),
    )


def first_steps(plan: Plan) -> list[Step]:
    """Steps of `plan` that Do first prints, in order."""
    told: Counter[str] = Counter()
    found = []
    moves_leaders = any(step.action in ("elect", "reorder", "stop") for step in plan.steps)
    for step in plan.steps:
        if step.action == "put_aside" and moves_leaders:
            continue
        told[step.action] += 1
        if told[step.action] <= LIMITS.get(step.action, 0):
            found.append(step)
    return found


def _tell_step(step: Step, left_out: int = 0, *, is_alone: bool = False) -> ToldStep:
    """Describe a step, its first clause stressed if it keeps records safe; `left_out` is the number of following steps that do
    the same elsewhere. With its conditions if it `is_alone`, without those that the plan has before it."""
    commands = tuple(map(clean, step.commands))
    files = (
        tell_long_file(name, content)
        or f"printf '%s\\n' '{clean(' '.join(line.strip() for line in content.splitlines()))}' > {name}"
        for name, content in step.files.items()
    )
    lead = ""
    rest = f"{clean(step.text)}."
    if step.action in SAFE:
        lead, colon, clause = clean(step.text).partition(": ")
        rest = f"{colon}{clause}."
        if step.snapshot:
            rest += f" {tell_snapshot(step.snapshot)}"
        # Commands of replica-audit run where it is installed.
        if commands and (step.brokers or step.controllers) and not commands[0].startswith("replica-audit "):
            rest += " On each node:" if step.controllers else f" On the broker{'' if len(commands) == 1 else 's'}:"
    if is_alone:
        rest += f" Before: {clean('; '.join(step.before))}."
    if left_out:
        rest += f" {end_sentence(tell_left_out(step, left_out))}"
    return ToldStep(("", lead, rest) if lead else (rest,), (*files, *commands), step.number)


def _decide(results: Results, plan: Plan, asking: Sequence[ToldDecision], *, is_more: bool) -> Iterator[ToldStep]:
    """Decisions that require an action, and the command that shows the steps, also if there `is_more` to them without a decision."""
    for one in asking[:DECISION_LIMIT]:
        yield ToldStep(("", name_partitions(one.places), f": {clean(one.sentence)}"))
    command = (results.command("elect"),)
    if len(asking) > DECISION_LIMIT:
        yield ToldStep((f"{len(asking) - DECISION_LIMIT} more decisions and all steps:",), command)
    elif asking or is_more:
        named = {0: "", 1: "The plan, and ", 2: "Both steps with their conditions, and "}
        steps = named.get(len(plan.steps), f"All {len(plan.steps)} steps with their conditions, and ")
        yield ToldStep((f"{capitalise(f'{steps}the cost of every other choice')}:",), command)
