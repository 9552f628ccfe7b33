"""The search for an order of steps that carries out all decisions, each by its procedure; a candidate that none serves gives way to
one that loses the same (docs/semantics.md, H and H.2)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from replica_audit.elect.cluster_state import METADATA_IN_DOUBT, WITHIN_QUORUM, PresentState
from replica_audit.elect.cost_matrix import Matrix
from replica_audit.elect.election_steps import PlanAttempt, chosen_first
from replica_audit.elect.kafka_commands import BROKER, CONTROLLER, Tools
from replica_audit.elect.plan_model import Alternative, Conflict, Decision, KeepStopped, Step
from replica_audit.elect.simulation import Transitions
from replica_audit.model import TopicPartition
from replica_audit.protocol.controller import Registration
from replica_audit.results import place_of
from replica_audit.text import name_brokers

#: Both limits reached, no further candidates are tried: tries multiply with equal candidates, and would take hours in a
#: large cluster with a different assignment for each partition. Registrations are counted in all scenarios.
ENOUGH_TRIES = 3
ENOUGH_SIMULATED = 50_000


class Try(NamedTuple):
    """Decisions with their procedures, and all steps for them in one order; a decision that no order serves is a conflict."""

    decisions: tuple[Decision, ...]
    steps: tuple[Step, ...]
    keep_down: tuple[KeepStopped, ...]
    conflicts: tuple[Conflict, ...]
    alternatives: tuple[Alternative, ...]
    outrun: tuple[tuple[int, TopicPartition], ...]
    """(leader, partition): the leader is stopped for other partitions, and a broker started before it may lead with fewer records."""
    unserved: frozenset[TopicPartition]
    """Partitions that no order serves."""


class Search:
    """A search in one cluster. It owns what is known of simulated events, and how much was simulated so far."""

    def __init__(self, state: PresentState, matrix: Matrix, tools: Tools) -> None:
        self._state = state
        self._matrix = matrix
        self._tools = tools
        self._transitions = Transitions()
        self.tries = 0
        self.simulated = 0

    @property
    def _is_over(self) -> bool:
        return self.tries >= ENOUGH_TRIES and self.simulated >= ENOUGH_SIMULATED

    def best(self, decisions: Sequence[Decision]) -> Try:
        """The outcome for these candidates, or for equal ones if they have no order, whichever serves more."""
        tried: set[tuple[TopicPartition, int]] = set()
        best: Try | None = None
        while True:
            found = self.tried(decisions)
            if best is None or len(found.unserved) < len(best.unserved):
                best = found
            unserved = [one for one in found.decisions if place_of(one) in found.unserved]
            tried |= {(place_of(one), one.candidate_id) for one in unserved}
            others = {
                place_of(one): equal
                for one in unserved
                if not one.asked
                for equal in one.equals
                if (place_of(one), equal) not in tried
            }
            if not others or self._is_over:
                return best
            decisions = [
                one
                if (equal := others.get(place_of(one))) is None
                else self._matrix.instead(one, equal, f"for broker {equal} there is an order of steps")
                for one in decisions
            ]

    def tried(self, decisions: Sequence[Decision]) -> Try:
        """The outcome for exactly these candidates."""
        self.tries += 1
        state = self._state
        sorted_out = [sort_out(state, one, self._tools) for one in decisions]
        decisions = [one for one, _ in sorted_out]
        conflicts = [Conflict(one.topic, one.partition, reason) for one, reason in sorted_out if reason is not None]
        given_up: dict[TopicPartition, str] = {}
        elected: set[TopicPartition] = set()
        way = self._way_to_forbid()
        allowed = {topic for (topic, _), said in state.unclean_said.items() if said and way is not None}
        forbidden: frozenset[str] = frozenset()
        while True:
            wanted = {place_of(one) for one in decisions if one.procedure == "elect"}
            elected |= wanted
            forbidden |= allowed.intersection(topic for topic, _ in wanted)
            attempt = PlanAttempt(state, self._matrix, decisions, self._tools, self._transitions, forbidden, way)
            attempt.carry_out()
            self.simulated += attempt.size
            risky = frozenset() if way is None else attempt.risky
            if not attempt.dragged and risky <= forbidden:
                tried = {place_of(one) for one in decisions if one.procedure not in ("none", "unplanned")}
                new = {place: why for place, why in attempt.unserved.items() if place in tried}
                if not new:
                    break
                # Their own steps go; steps for other partitions may then serve, or give up, others than before.
                given_up |= new
                decisions = [one.by("unplanned") if place_of(one) in new else one for one in decisions]
            decisions = [one.by("elect") if place_of(one) in attempt.dragged else one for one in decisions]
            forbidden |= risky
        unserved = {**attempt.unserved, **given_up}
        conflicts += [Conflict(*place, reason) for place, reason in sorted(unserved.items())]
        decided = tuple(one.by(attempt.procedures[place_of(one)]) for one in decisions)
        steps = tuple(attempt.steps())
        return Try(
            decisions=decided,
            steps=steps,
            keep_down=tuple(attempt.held(steps)),
            conflicts=tuple(conflicts),
            alternatives=tuple(
                Alternative(*place_of(one), chosen_first(state, one))
                for one in sorted(decided, key=place_of)
                if place_of(one) in elected and one.procedure in ("elect", "unplanned") and state.mode != "zookeeper"
                # The controller would pass over it and elect the next one.
                if one.candidate_id not in one.offline
            ),
            outrun=tuple(sorted(attempt.outrun)),
            unserved=frozenset(unserved),
        )

    def _way_to_forbid(self) -> str | None:
        """The way to forbid unclean elections before anything is started; None if there is none."""
        way = self._tools.way_to_configure(is_any_up=self._state.is_any_up)
        if way == CONTROLLER and not self._state.controllers_lead_alone:
            if self._state.unknown:
                return BROKER
            return None if self._state.controllers.is_lost else way
        return way


_NO_TOOL = "kafka-leader-election.sh exists since Kafka 2.4: no tool of this version elects a given replica"
_NO_ISR = "nothing says who is assigned and in sync (add a listing of kafka-topics.sh --describe, or leadership.json)"
_NO_METADATA = (
    f"{METADATA_IN_DOUBT}, so it is not known what a controller will do: put the right copy in place first "
    f"(replica-audit quorum SNAPSHOT{WITHIN_QUORUM})"
)
_OVERTAKEN = (
    "the source that says who leads and who is in sync is older than the logs: make it again, or copy the metadata log of every node again, "
    "and audit again. If no newer metadata log exists, replica-audit quorum SNAPSHOT says how to go on with this one"
    f"{WITHIN_QUORUM}"
)


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
    if state.controllers.is_doubted:
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
        return f"broker {choice} is not assigned to it, so no election can choose it"
    return None if tools.has_elections() else _NO_TOOL


def _may_be_down(brokers: Collection[int]) -> str:
    one = len(brokers) == 1
    return (
        f"it is not known whether {name_brokers(sorted(brokers))} {'is' if one else 'are'} up: the metadata log counts "
        f"{'it' if one else 'them'} as up, but "
        f"{'its log ends below its' if one else 'their logs end below their'} own checkpoints, as after a loss of power. Name the brokers "
        "that are up with --up (--up '' if none is)"
    )
