"""The plan in two parts: what to do first, and what to do next; for the terminal, the page and summary.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from replica_audit.command_line import render_command
from replica_audit.elect.election_plan import advise
from replica_audit.elect.plan_model import Plan, Step
from replica_audit.model import Place
from replica_audit.report.layout import clean
from replica_audit.report.plan_text import (
    ToldDecision,
    split_steps,
    tell_decisions,
    tell_left_out,
    tell_long_file,
    tell_snapshot,
)
from replica_audit.report.sentences import Sentence, capitalise, end_sentence, name_partitions
from replica_audit.results import Results

#: Steps of the plan that keep records safe, and those that come after everything has a leader. What is between them is
#: told by what it decides.
SAFE = ("capture", "copy", "keep_up")
AFTER = ("end_transaction", "mend")
#: So many of each action, and of the decisions.
LIMITS = {"capture": 3, "copy": 3, "keep_up": 2, "end_transaction": 3, "mend": 2}
DECISION_LIMIT = 4


@dataclass(frozen=True, slots=True)
class FirstStep:
    """A step and its commands, for a POSIX shell."""

    sentence: Sentence
    commands: tuple[str, ...] = ()


def tell_first_steps(results: Results, plan: Plan) -> Iterator[FirstStep]:
    """The first steps of `plan`, that of `results`, most urgent first."""
    yield from map(_tell_step, first_steps(plan, SAFE))
    yield from _decide(results, plan)
    yield from map(_tell_step, first_steps(plan, AFTER))


def first_steps(plan: Plan, actions: Collection[str] = (*SAFE, *AFTER)) -> list[Step]:
    """The steps of `plan` with these actions that Do first prints, in order."""
    told: Counter[str] = Counter()
    found = []
    for step in plan.steps:
        told[step.action] += 1
        if step.action in actions and told[step.action] <= LIMITS[step.action]:
            found.append(step)
    return found


def first_decisions(plan: Plan) -> list[ToldDecision]:
    """The decisions of `plan` that Do first prints, in order."""
    return [one for one in tell_decisions(plan) if one.asks_for_something][:DECISION_LIMIT]


def _tell_step(step: Step) -> FirstStep:
    """A step that keeps records safe with its first clause stressed."""
    commands = tuple(map(clean, step.commands))
    lead, colon, rest = clean(step.text).partition(": ")
    if step.action not in SAFE:
        return FirstStep((f"{lead}{colon}{rest}.",), commands)
    told = f"{rest}." if colon else ""
    if step.snapshot:
        told += f" {tell_snapshot(step.snapshot)}"
    if commands:
        told += " On each node:" if step.controllers else f" On the broker{'' if len(commands) == 1 else 's'}:"
    return FirstStep(("", lead, f"{colon.strip()} {told}".rstrip() if colon else f". {told}".rstrip()), commands)


def _decide(results: Results, plan: Plan) -> Iterator[FirstStep]:
    """Decisions that ask for something, and where the steps are."""
    asking = [one for one in tell_decisions(plan) if one.asks_for_something]
    for one in first_decisions(plan):
        yield FirstStep(("", name_partitions(one.places), f": {clean(one.sentence)}"))
    command = (render_command(results, "elect"),)
    if len(asking) > DECISION_LIMIT:
        yield FirstStep((f"{len(asking) - DECISION_LIMIT} more decisions and all steps:",), command)
    elif asking:
        all_steps = f"All {len(plan.steps)} steps, what must hold before each"
        named = {0: "", 1: "The plan, and ", 2: "Both steps, what must hold before each, and "}
        steps = named.get(len(plan.steps), f"{all_steps}, and ")
        yield FirstStep((f"{capitalise(f'{steps}what every other choice costs')}:",), command)


#: How many choices are listed; `elect` lists all.
CHOICE_LIMIT = 8
#: Partitions that one choice names.
PLACE_LIMIT = 4


@dataclass(frozen=True, slots=True)
class ToldChoice:
    """Choice for partitions, `more` of which are not named."""

    places: tuple[Place, ...]
    more: int
    sentence: str


@dataclass(frozen=True, slots=True)
class ToldStep:
    """One step with its commands, for a POSIX shell."""

    number: int
    text: str
    commands: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WhatToDo:
    """The rest of the plan. Partitions of `left_out` choices are shown by `command` only."""

    choices: tuple[ToldChoice, ...]
    left_out: int
    steps: tuple[ToldStep, ...]
    step_count: int
    """Steps that Do first leaves; of those that do the same for other partitions not all are among `steps`."""
    are_more: bool
    """Do first has other steps of the plan."""
    command: str


def tell_what_to_do(results: Results) -> WhatToDo | None:
    """What Do first leaves of the plan of `results`: choices that ask for nothing or are too many for it, and the steps; None
    where there is nothing to decide, or nothing is left.
    """
    plan = advise(results)
    if not plan.decisions and not plan.conflicts:
        return None
    said = first_decisions(plan)
    done = first_steps(plan)
    choices = [one for one in tell_decisions(plan) if one not in said]
    steps = [step for step in plan.steps if step not in done]
    if not choices and not steps:
        return None
    return WhatToDo(
        choices=tuple(
            ToldChoice(one.places[:PLACE_LIMIT], len(one.places[PLACE_LIMIT:]), clean(one.sentence))
            for one in choices[:CHOICE_LIMIT]
        ),
        left_out=sum(len(one.places) for one in choices[CHOICE_LIMIT:]),
        steps=tuple(_tell_next_step(step, left_out) for step, left_out in split_steps(steps)),
        step_count=len(steps),
        are_more=bool(done),
        command=render_command(results, "elect"),
    )


def _tell_next_step(step: Step, left_out: int) -> ToldStep:
    """A step; `left_out` others that follow it do the same for other partitions."""
    files = (
        tell_long_file(name, content)
        or f"printf '%s\\n' '{clean(' '.join(line.strip() for line in content.splitlines()))}' > {name}"
        for name, content in step.files.items()
    )
    more = f" {end_sentence(tell_left_out(step, left_out))}" if left_out else ""
    return ToldStep(step.number, clean(end_sentence(step.text)) + more, (*files, *map(clean, step.commands)))
