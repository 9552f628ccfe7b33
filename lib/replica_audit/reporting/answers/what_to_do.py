"""What to do next: of the plan what Do first has not said, for the page and for summary.md."""

from __future__ import annotations

from dataclasses import dataclass

from replica_audit.command_line import render_command
from replica_audit.deciding.election_plan import advise
from replica_audit.deciding.plan_parts import Step
from replica_audit.model import Place
from replica_audit.reporting.answers.decision_text import tell_decisions
from replica_audit.reporting.answers.first_step_text import first_decisions, first_steps
from replica_audit.reporting.phrases.layout import clean
from replica_audit.reporting.phrases.sentences import end_sentence
from replica_audit.results import Results

#: How many choices are listed; `elect` lists all.
CHOICE_LIMIT = 8
#: Partitions that one choice names.
PLACE_LIMIT = 4


@dataclass(frozen=True, slots=True)
class ToldChoice:
    """What to choose for partitions, of which so many `more` are not named."""

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
    said, done = first_decisions(plan), first_steps(plan)
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
        steps=tuple(map(_tell_step, steps)),
        are_more=bool(done),
        command=render_command(results, "elect"),
    )


def _tell_step(step: Step) -> ToldStep:
    files = (
        f"printf '%s\\n' '{clean(' '.join(line.strip() for line in content.splitlines()))}' > {name}"
        for name, content in step.files.items()
    )
    return ToldStep(step.number, clean(end_sentence(step.text)), (*files, *map(clean, step.commands)))
