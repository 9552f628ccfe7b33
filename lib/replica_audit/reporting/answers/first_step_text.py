"""Do first: the beginning of the plan, with what it decides in short."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from replica_audit.command_line import render_command
from replica_audit.deciding.plan_parts import Plan, Step
from replica_audit.reporting.answers.decision_text import ToldDecision, tell_decisions
from replica_audit.reporting.answers.election_plan_text import tell_snapshot
from replica_audit.reporting.phrases.layout import clean
from replica_audit.reporting.phrases.sentences import Sentence, name_partitions
from replica_audit.results import Results

#: Steps of the plan that keep records safe, and those that come after everything has a leader. What is between them is
#: told by what it decides.
SAFE, AFTER = ("capture", "copy", "keep_up"), ("end_transaction", "mend")
#: So many of each action, and of the decisions.
LIMITS = {"capture": 3, "copy": 3, "keep_up": 2, "end_transaction": 3, "mend": 2}
DECISION_LIMIT = 4


@dataclass(frozen=True, slots=True)
class FirstStep:
    """What to do, and the commands that do it, for a POSIX shell."""

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
    """What is decided, as far as it asks for anything, and where the steps are."""
    asking = [one for one in tell_decisions(plan) if one.asks_for_something]
    for one in first_decisions(plan):
        yield FirstStep(("", name_partitions(one.places), f": {clean(one.sentence)}"))
    command = (render_command(results, "elect"),)
    if len(asking) > DECISION_LIMIT:
        yield FirstStep((f"{len(asking) - DECISION_LIMIT} more decisions and all steps:",), command)
    elif asking:
        steps = {1: "The plan", 2: "Both steps, what must hold before each"}.get(
            len(plan.steps), f"All {len(plan.steps)} steps, what must hold before each"
        )
        yield FirstStep((f"{steps}, and what every other choice costs:",), command)
