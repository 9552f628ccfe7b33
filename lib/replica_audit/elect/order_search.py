"""The search for an order of steps that carries out all decisions: candidates that lose the same are tried in turn (docs/semantics.md H.2)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from replica_audit.elect.cluster_state import PresentState
from replica_audit.elect.cost_matrix import Matrix
from replica_audit.elect.election_steps import PlanAttempt, chosen_first
from replica_audit.elect.kafka_commands import BROKER, CONTROLLER, Tools
from replica_audit.elect.plan_model import Alternative, Conflict, Decision, KeepStopped, Step
from replica_audit.elect.procedures import sort_out
from replica_audit.elect.simulation import Transitions
from replica_audit.model import TopicPartition
from replica_audit.results import place_of

#: No further candidates are tried after so many tries in which as many registrations were simulated, those of all scenarios: tries
#: multiply with equal candidates, and would go on for hours in a large cluster whose partitions have each their own assignment.
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
    interrupted: frozenset[TopicPartition]
    """Partitions whose leader should stay but is stopped."""


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
        """The outcome for these candidates; if the best one has no order, or stops leaders of more partitions, an equal one is tried."""
        best = self._served(decisions)
        for candidate, places in sorted(_alternatives(best.decisions).items()):
            if self._is_over or not best.interrupted:
                break
            others = [
                self._instead(one, candidate, "fewer leaders have to be stopped for it")
                if place_of(one) in places
                else one
                for one in best.decisions
            ]
            other = self._served(others)
            if len(other.interrupted) < len(best.interrupted) and len(other.conflicts) <= len(best.conflicts):
                best = other
        return best

    def _served(self, decisions: Sequence[Decision]) -> Try:
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
                else self._instead(one, equal, f"for broker {equal} there is an order of steps")
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
            interrupted=frozenset(attempt.interrupted),
        )

    def _way_to_forbid(self) -> str | None:
        """The way to forbid unclean elections before anything is started; None if there is none."""
        way = self._tools.way_to_configure(is_any_up=self._state.is_any_up)
        if way == CONTROLLER and not self._state.controllers_lead_alone:
            return BROKER if self._state.unknown else None
        return way

    def _instead(self, decision: Decision, candidate: int, why: str) -> Decision:
        return decision.instead(candidate, self._matrix.sources(place_of(decision), candidate), why)


def _alternatives(decisions: Sequence[Decision]) -> dict[int, frozenset[TopicPartition]]:
    """Partitions to be elected, by each broker that would lose as much as the chosen one."""
    found: dict[int, set[TopicPartition]] = defaultdict(set)
    for one in decisions:
        if one.procedure != "elect" or one.asked:
            continue
        for other in one.equals:
            found[other].add(place_of(one))
    return {broker: frozenset(places) for broker, places in found.items()}
