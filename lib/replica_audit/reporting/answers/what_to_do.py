"""The plan in short: the choices, what they lose, and the commands, for the page and for summary.md."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from replica_audit.answering.best_choices import goes_on_leading
from replica_audit.answering.by_partition import Row
from replica_audit.deciding.loss_words import say_loss
from replica_audit.deciding.plan_parts import Plan
from replica_audit.reporting.answers.election_plan_text import tell_decision
from replica_audit.reporting.phrases.command_lines import render_command
from replica_audit.reporting.phrases.layout import clean
from replica_audit.reporting.phrases.sentences import end_sentence
from replica_audit.results import Results

#: How many partitions have their choices listed; `elect` lists all.
CHOICE_LIMIT = 8


@dataclass(frozen=True, slots=True)
class ToldChoice:
    """One partition and what to choose for it."""

    topic: str
    partition: int
    sentence: str


@dataclass(frozen=True, slots=True)
class ToldStep:
    """One step with its commands, for a POSIX shell."""

    number: int
    text: str
    commands: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WhatToDo:
    """The plan in short. `left_out` choices are shown by `command` only."""

    choices: tuple[ToldChoice, ...]
    left_out: int
    steps: tuple[ToldStep, ...]
    command: str


def tell_what_to_do(results: Results) -> WhatToDo | None:
    """The plan of `results` in short; None where there is nothing to decide."""
    if not results.rows("elections"):
        return None
    # Imported here, so that what plans nothing loads nothing for it.
    from replica_audit.deciding.election_plan import plan_elections

    plan = plan_elections(results)
    choices = tuple(_choices(plan))
    return WhatToDo(
        choices=choices[:CHOICE_LIMIT],
        left_out=max(0, len(choices) - CHOICE_LIMIT),
        steps=tuple(_steps(plan)),
        command=render_command(results, "elect"),
    )


def _choices(plan: Plan) -> Iterator[ToldChoice]:
    for decision in plan.decisions:
        yield ToldChoice(decision.topic, decision.partition, clean(tell_decision(decision)))
    for conflict in plan.conflicts:
        yield ToldChoice(conflict.topic, conflict.partition, end_sentence(clean(f"no plan: {conflict.reason}")))


def _steps(plan: Plan) -> Iterator[ToldStep]:
    for step in plan.steps:
        files = (
            f"printf '%s\\n' '{clean(' '.join(line.strip() for line in content.splitlines()))}' > {name}"
            for name, content in step.files.items()
        )
        yield ToldStep(step.number, clean(end_sentence(step.text)), (*files, *map(clean, step.commands)))


def tell_candidate(row: Row) -> str:
    """Whom the best choice of a partition lets lead, as a clause."""
    return (
        f"let broker {row['candidate_id']} go on leading"
        if goes_on_leading(row)
        else f"elect broker {row['candidate_id']}"
    )


def tell_choice(row: Row) -> str:
    """The same with what it loses: `elect broker 2, which loses nothing`."""
    loses = say_loss(row["lost_records"], row["lost_committed"], row["lost_possible"], row["lost_at_most"])
    return f"{tell_candidate(row)}, which loses {loses}"
