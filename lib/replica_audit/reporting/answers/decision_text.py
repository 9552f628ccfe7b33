"""Decisions of a plan in sentences; equal ones of many partitions together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from replica_audit.deciding.plan_parts import Conflict, Decision, Plan, Source
from replica_audit.model import Place
from replica_audit.reporting.phrases.layout import render_range
from replica_audit.reporting.phrases.sentences import capitalise, end_sentence, join_some


@dataclass(frozen=True, slots=True)
class ToldDecision:
    """What is decided for partitions of which the same is said."""

    places: tuple[Place, ...]
    sentence: str
    asks_for_something: bool
    """Anything has to be done for it."""


def tell_decisions(plan: Plan) -> Iterator[ToldDecision]:
    """All decisions of a plan, and what has none, in the order of their first partitions."""
    said: dict[tuple[str, bool], list[Place]] = defaultdict(list)
    unplanned = {(one.topic, one.partition): one for one in plan.conflicts}
    for decision in plan.decisions:
        place = (decision.topic, decision.partition)
        sentence = tell_decision(decision, unplanned.pop(place, None))
        # Where a replica has to be copied first, a step of its own says so.
        waits = bool(decision.depends_on) and not decision.asked
        said[sentence, not waits and (decision.procedure != "none" or decision.loses_acknowledged)].append(place)
    for place, conflict in unplanned.items():
        said[_tell_conflict(conflict), True].append(place)
    for (sentence, asks), places in said.items():
        yield ToldDecision(tuple(places), sentence, asks)


def tell_decision(decision: Decision, conflict: Conflict | None = None) -> str:
    """The decision in a few sentences: whom to let lead, what it loses, and where that can be taken from."""
    reason = end_sentence(decision.reason)
    if decision.depends_on and not decision.asked:
        least = f"Of the captured replicas broker {decision.candidate_id} would lose the least"
        return f"{end_sentence(decision.open_question)} {least}, as far as that can be known without it."
    choice, chosen = f"broker {decision.candidate_id}", decision.chosen
    stays = {"none": f"let {choice} go on leading", "confirm": f"let {choice} go on leading, if it does lead"}
    text = stays.get(decision.procedure, f"elect {choice}")
    ranges = [_tell_source(one) for one in decision.salvage]
    if ranges and decision.loses_acknowledged:
        text += f" and salvage {join_some(ranges, 3, 'range')} first"
    each = all(one.loss[0] for one in decision.candidates if one.standing != "unassigned")
    if each and len(decision.candidates) > 1:
        text = f"each choice loses something: {text}"
    elif decision.procedure in stays and not chosen.loss[0] and not chosen.cut_transactions:
        text = "nothing needs to be done" if decision.procedure == "none" else text
        if ranges:
            text += f"; salvage {join_some(ranges, 3, 'range')} if you want what was never committed"
    if decision.depends_on:
        reason = f"{reason} {end_sentence(decision.open_question)}"
    return f"{capitalise(text)}. {reason}{'' if conflict is None else f' {_tell_conflict(conflict)}'}"


def _tell_source(source: Source) -> str:
    """[77, 89) from broker 1; [77, 89) from t-0.<id>-future of broker 1; [77, 89) from t-0/*.deleted of broker 1."""
    name = "" if source.name is None else f"{source.name} of "
    return f"{render_range(source.start_offset, source.end_offset)} from {name}broker {source.broker_id}"


def _tell_conflict(conflict: Conflict) -> str:
    return end_sentence(f"no plan: {conflict.reason}")
