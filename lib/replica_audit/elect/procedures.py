"""How each decision is carried out, by what the snapshot says of its partition (docs/semantics.md, H and H.2)."""

from __future__ import annotations

from collections.abc import Collection

from replica_audit.elect.cluster_state import METADATA_IN_DOUBT, PresentState
from replica_audit.elect.kafka_commands import Tools
from replica_audit.elect.plan_model import Decision
from replica_audit.protocol.controller import Registration
from replica_audit.results import place_of
from replica_audit.text import name_brokers

_NO_TOOL = "kafka-leader-election.sh exists since Kafka 2.4: no tool of this version elects a given replica"
_NO_ISR = "nothing says who is assigned and in sync: add a listing of kafka-topics.sh --describe, or leadership.json"
_NO_METADATA = (
    f"{METADATA_IN_DOUBT}, so that nothing tells what a controller will do: put the right one in place first "
    "(replica-audit quorum SNAPSHOT)"
)
_OVERTAKEN = "what says who leads and who is in sync is older than the logs: make it again and audit again"


def sort_out(state: PresentState, decision: Decision, tools: Tools) -> tuple[Decision, str | None]:
    """The decision with its procedure, and for `unplanned` the reason. The first condition that holds decides.

    | condition | procedure |
    |---|---|
    | the metadata logs are in doubt, or the source of leadership is older than the logs | unplanned |
    | a replica was not captured and may hold more, and nobody asked for the candidate | unplanned |
    | the metadata log has an assigned broker up that has lost the end of a log | unplanned |
    | the assignment is unknown; the candidate leads, and is up | none |
    | as before, and it may be down | confirm |
    | the assignment is unknown | unplanned |
    | the candidate leads | none |
    | it is the registered leader and may be down, or is elected without a request | confirm |
    | it is not assigned, or no tool of this version elects a replica | unplanned |
    | every replica is up, one leads, and the candidate is in sync | reorder |
    | none of these | elect |
    """
    place = place_of(decision)
    choice = decision.candidate_id
    registration = state.partitions.get(place)
    reason = _why_nothing(state, decision, registration)
    if reason is not None:
        procedure = "unplanned"
    elif registration is None:
        procedure = "none" if choice in state.up else "confirm"
    elif registration.leader_id == choice and choice in state.up:
        procedure = "none"
    elif state.may_lead(place, choice):
        procedure = "confirm"
    elif reason := _why_no_election(choice, registration, tools):
        procedure = "unplanned"
    else:
        is_led = registration.leader_id is not None and state.up.issuperset(registration.replicas)
        procedure = "reorder" if is_led and choice in registration.isr else "elect"
    return decision.by(procedure), reason


def _why_nothing(state: PresentState, decision: Decision, registration: Registration | None) -> str | None:
    """Clause on why a partition must be left alone; None if its brokers may be started, stopped and elected."""
    if state.controllers.doubted is not None:
        return _NO_METADATA
    if place_of(decision) in state.overtaken:
        return _OVERTAKEN
    if decision.depends_on and not decision.asked:
        return decision.open_question
    if registration is None:
        is_led = decision.chosen.standing == "leader" and decision.candidate_id in state.up | state.unknown
        return None if is_led else _NO_ISR
    contradicted = state.contradicted.intersection(registration.replicas)
    return _may_be_down(contradicted) if contradicted else None


def _why_no_election(choice: int, registration: Registration, tools: Tools) -> str | None:
    if choice not in registration.replicas:
        return f"broker {choice} is not assigned to it, so that no election finds it"
    return None if tools.has_elections() else _NO_TOOL


def _may_be_down(brokers: Collection[int]) -> str:
    one = len(brokers) == 1
    return (
        f"nothing tells whether {name_brokers(sorted(brokers))} {'is' if one else 'are'} up: the metadata log has "
        f"{'it' if one else 'them'} up, and {'its log ends below its' if one else 'their logs end below their'} own checkpoints, "
        "as after a loss of power. Say with --up who is up (--up '' where nobody is)"
    )
