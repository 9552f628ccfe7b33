"""A plan in words: what each choice costs, the best, and the steps with their commands."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from replica_audit.deciding.plan_parts import Candidate, Decision, Plan, Prediction, Step
from replica_audit.reporting.phrases.layout import align_columns, clean, paint, render_range, text_width, wrap
from replica_audit.reporting.phrases.sentences import capitalise, join_some, verb
from replica_audit.wording import count

STANDING_WORDS = {
    "leader": "leads",
    "isr": "in sync",
    "elr": "eligible",
    "last_known": "led last",
    "out_of_sync": "unclean",
    "unknown": "not known",
    "unassigned": "not assigned",
}

_RIGHTS = {
    "stays": "it leads and stays",
    "isr": "the first in sync that is up",
    "elr": "the first eligible one that is up",
    "last_known": "the last known leader",
    "unclean": "the first that is up, uncleanly",
}


def render_plan(plan: Plan, colour: bool = False) -> str:
    """The plan as text."""
    lines: list[str] = []
    for decision in plan.decisions:
        lines += [*_decision(decision, colour), ""]
    for conflict in plan.conflicts:
        lines += [*wrap(f"{clean(conflict.topic)}-{conflict.partition}: no plan: {conflict.reason}."), ""]
    if not plan.decisions and not plan.conflicts:
        return "Nothing needs to be decided: every partition has a leader, and no replica differs from it."
    lines += _brokers(plan)
    if not plan.changes_leaders:
        lines.append("Nothing needs to be done: every leader is the best choice.")
    for held in plan.keep_down:
        lines += wrap(
            f"Once broker {held.broker_id} is down, do not start it before step {held.until_step} is done: {held.reason}."
        )
    if plan.steps:
        lines += ["", paint("The plan", "head", colour)]
        lines += [line for step in plan.steps for line in _step(step)]
    if plan.alternatives:
        lines += ["", *_alternatives(plan)]
    return "\n".join(lines).rstrip()


def tell_decision(decision: Decision) -> str:
    """The decision in a sentence or two: whom to let lead, what it loses, and where that can be taken from before."""
    stays = decision.procedure == "none"
    choice = f"broker {decision.candidate_id}"
    text = f"let {choice} go on leading" if stays else f"elect {choice}"
    if decision.salvage:
        ranges = [
            f"{render_range(one.start_offset, one.end_offset)} from broker {one.broker_id}" for one in decision.salvage
        ]
        text += f" and salvage {join_some(ranges, 3, 'range')} first"
    each = all(one.lost_records for one in decision.candidates if one.standing != "unassigned")
    if each and len(decision.candidates) > 1:
        text = f"each choice loses something: {text}"
    elif stays and not decision.salvage:
        text = "nothing needs to be done"
    return f"{capitalise(text)}. {capitalise(decision.reason)}."


def _decision(decision: Decision, colour: bool) -> Iterator[str]:
    yield paint(f"{clean(decision.topic)}-{decision.partition}", "head", colour)
    yield from wrap(tell_decision(decision), "  ")
    heading = ["candidate", "clean", "log end", "lost", "committed", "possibly", "transactions cut", "groups"]
    rows = [_row(one, decision.candidate_id) for one in decision.candidates]
    yield from align_columns([heading, *rows], right=range(2, 8), indent="  ")
    if decision.kafka_choice_id is not None and decision.kafka_choice_right is not None:
        right = _RIGHTS[decision.kafka_choice_right]
        yield from wrap(f"As things are, Kafka chooses broker {decision.kafka_choice_id}: {right}.", "  ")
    elif decision.procedure != "none":
        yield from wrap("As things are, Kafka elects nobody.", "  ")


def _row(one: Candidate, chosen: int) -> list[str]:
    most = "<=" if one.lost_at_most and one.lost_records else ""
    mark = "*" if one.candidate_id == chosen else " "
    return [
        f"{mark} broker {one.candidate_id}",
        STANDING_WORDS[one.standing],
        str(one.log_end_offset),
        f"{most}{one.lost_records}",
        f"{most}{one.lost_committed}",
        f"{most}{one.lost_possible}",
        str(one.cut_transactions),
        "-" if one.groups_hit is None else str(one.groups_hit),
    ]


def _brokers(plan: Plan) -> Iterator[str]:
    parts = [f"up: {_ids(plan.up)}"]
    cleanly = set(plan.stopped_cleanly)
    parts.append(f"stopped cleanly: {_ids(plan.stopped_cleanly)}")
    parts.append(
        f"down otherwise: {_ids([one for one in plan.down if one not in cleanly and one not in plan.unknown])}"
    )
    if plan.unknown:
        parts.append(f"not known and taken to be down: {_ids(plan.unknown)} (--up says it)")
    yield from wrap(f"Brokers {'; '.join(parts)}.")


def _ids(ids: Iterable[int]) -> str:
    return ", ".join(map(str, ids)) or "none"


def _step(step: Step) -> Iterator[str]:
    yield from wrap(f"{step.number}. {step.text}.", "", "   ")
    for condition in step.before:
        yield from wrap(f"before: {condition}.", "   ", "           ")
    for name, content in step.files.items():
        first, *more = content.rstrip("\n").split("\n")
        yield f"   printf '%s\\n' '{clean(first)}"
        yield from (f"   {clean(line)}" for line in more[:-1])
        yield f"   {clean(more[-1])}' > {name}"
    for command in step.commands:
        yield from wrap_command(command, "   ")
    for text in tell_predictions(step.after):
        yield from wrap(text, "   ", "     ")
    if step.irreversible:
        yield from wrap(f"cannot be undone: {step.irreversible[0].lower()}{step.irreversible[1:]}.", "   ", "     ")


def wrap_command(command: str, indent: str) -> Iterator[str]:
    """A command for a POSIX shell in lines that are short enough, each but the last with a backslash at its end."""
    line = indent
    for number, word in enumerate(map(shlex.quote, shlex.split(clean(command)))):
        longer = f"{line}{' ' if number else ''}{word}"
        if number and len(longer) > text_width() - 2:
            yield f"{line} \\"
            longer = f"{indent}  {word}"
        line = longer
    yield line


def tell_predictions(after: Sequence[Prediction]) -> Iterator[str]:
    """What each log is after a step, a line for each partition and leader."""
    by_place: dict[tuple, list[Prediction]] = {}
    for one in after:
        by_place.setdefault((one.topic, one.partition, one.leader_id), []).append(one)
    for (topic, partition, leader), some in by_place.items():
        epoch = some[0].leader_epoch
        since = "" if epoch is None else f" in leader epoch {epoch} or later"
        cuts = [f"broker {one.broker_id} is cut to {one.truncate_to}" for one in some if one.dropped_records]
        text = f"then: {clean(topic)}-{partition} has broker {leader} as leader{since} and ends at {some[0].log_end_offset}"
        yield "; ".join([text, *cuts])


def _alternatives(plan: Plan) -> Iterator[str]:
    yield from wrap(
        "Another way, which stops only the leader: the Admin API (alterPartitionReassignments) takes the same replicas in "
        "another order even while one of them is down, which none of Kafka's tools does. An unclean election then finds the "
        "first live one of this order, as long as nobody leads."
    )
    for one in plan.alternatives:
        yield f"  {clean(one.topic)}-{one.partition}: replicas {', '.join(map(str, one.replicas))}"


def render_moved(changes: Sequence[Mapping[str, Any]], colour: bool = False) -> str:
    """The outcome of `elect --check`."""
    if not changes:
        return "Nothing has moved: the plan still holds."
    said = f"{count(len(changes), 'thing')} that the plan rests on {verb(len(changes), 'has', 'have')} moved; make a new plan:"
    lines = [paint(said, "high", colour)]
    for one in changes:
        place = "" if one["topic"] is None else f"{clean(one['topic'])}-{one['partition']}: "
        of_broker = "" if one["broker_id"] is None else f" of broker {one['broker_id']}"
        lines += wrap(
            f"{place}{one['what']}{of_broker} was {_value(one['before'])}, is {_value(one['now'])}", "  ", "    "
        )
    return "\n".join(lines)


def _value(value: Any) -> str:
    if value is None:
        return "nobody"
    if isinstance(value, list):
        return (
            ", ".join(f"{item[0]} from {item[1]}" if isinstance(item, list) else str(item) for item in value) or "none"
        )
    return clean(value)
