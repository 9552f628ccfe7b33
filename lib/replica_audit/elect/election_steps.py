"""The steps that carry decisions out, tried on simulated clusters first (docs/semantics.md, H and H.2).

The sequences are those that worked on real brokers: the candidate alone, an unclean election on request, then the others one at
a time. The simulation shows what elections would do by themselves meanwhile, to any partition of the snapshot.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import NamedTuple

from replica_audit.elect.cluster_state import METADATA_IN_DOUBT, PresentState
from replica_audit.elect.cost_matrix import Matrix
from replica_audit.elect.kafka_commands import BROKER, CONTROLLER, Tools
from replica_audit.elect.plan_model import Alternative, Conflict, Decision, KeepStopped, Step
from replica_audit.elect.simulation import LeaderChange, Round, Scenario, Scenarios, order_rounds
from replica_audit.elect.step_list import StepList, list_places
from replica_audit.model import TopicPartition
from replica_audit.protocol.controller import Registration
from replica_audit.results import place_of
from replica_audit.text import name_brokers, verb

_NO_TOOL = "kafka-leader-election.sh exists since Kafka 2.4: no tool of this version elects a given replica"
_NO_ISR = "nothing says who is assigned and in sync: add a listing of kafka-topics.sh --describe, or leadership.json"
_NO_METADATA = (
    f"{METADATA_IN_DOUBT}, so that nothing tells what a controller will do: put the right one in place first "
    "(replica-audit quorum SNAPSHOT)"
)
_CONTROLLERS_UP = "The controllers are up: where they are down, start them first"
_OVERTAKEN = "what says who leads and who is in sync is older than the logs: make it again and audit again"


#: Most conditions of one kind in a step.
_MOST_CONDITIONS = 40
#: No further candidates are tried after so many tries in which as many registrations were simulated, those of all scenarios.
ENOUGH_TRIES, ENOUGH_SIMULATED = 3, 50_000


class _Effort:
    """What was simulated for a plan so far. Tries multiply with equal candidates, and would go on for hours in a large cluster
    whose partitions have each their own assignment."""

    def __init__(self) -> None:
        self.tries = 0
        self.simulated = 0

    @property
    def is_over(self) -> bool:
        return self.tries >= ENOUGH_TRIES and self.simulated >= ENOUGH_SIMULATED


class PlannedDecisions(NamedTuple):
    """Decisions with their procedures and steps."""

    decisions: tuple[Decision, ...]
    steps: tuple[Step, ...]
    keep_down: tuple[KeepStopped, ...]
    conflicts: tuple[Conflict, ...]
    alternatives: tuple[Alternative, ...]
    outrun: tuple[tuple[int, TopicPartition], ...]
    """(leader, partition): the leader is stopped for other partitions, and a broker started before it may lead with fewer records."""


def make_steps(state: PresentState, matrix: Matrix, decisions: Sequence[Decision], tools: Tools) -> PlannedDecisions:
    """All steps for all decisions, in one order; a decision that no order serves is a conflict.

    If the best candidate has no order, or stops leaders of more partitions, an equal one is tried, until `_Effort` is over.
    """
    effort = _Effort()
    outcome, stopped = _serve(state, matrix, decisions, tools, effort)
    if stopped:
        for candidate, places in sorted(_alternatives(outcome.decisions).items()):
            if effort.is_over:
                break
            others = [
                _instead(one, candidate, matrix, "fewer leaders have to be stopped for it")
                if place_of(one) in places
                else one
                for one in outcome.decisions
            ]
            other, fewer = _serve(state, matrix, others, tools, effort)
            if len(fewer) < len(stopped) and len(other.conflicts) <= len(outcome.conflicts):
                outcome = other
                stopped = fewer
    return outcome


def _instead(decision: Decision, candidate: int, matrix: Matrix, why: str) -> Decision:
    return decision.instead(candidate, matrix.sources(place_of(decision), candidate), why)


def _alternatives(decisions: Sequence[Decision]) -> dict[int, frozenset[TopicPartition]]:
    """Partitions to be elected, by each broker that would lose as much as the chosen one."""
    found: dict[int, set[TopicPartition]] = defaultdict(set)
    for one in decisions:
        if one.procedure != "elect" or one.asked:
            continue
        for other in one.equals:
            found[other].add(place_of(one))
    return {broker: frozenset(places) for broker, places in found.items()}


def _serve(
    state: PresentState, matrix: Matrix, decisions: Sequence[Decision], tools: Tools, effort: _Effort
) -> tuple[PlannedDecisions, frozenset[TopicPartition]]:
    """The outcome for these candidates, or for equal ones if they have no order, whichever serves more, and the partitions whose
    leader should stay but is stopped."""
    tried = {(place_of(one), one.candidate_id) for one in decisions}
    best: tuple[PlannedDecisions, frozenset[TopicPartition]] | None = None
    fewest = 0
    while True:
        outcome, unserved, stopped = try_order(state, matrix, decisions, tools, effort)
        if best is None or len(unserved) < fewest:
            best, fewest = (outcome, stopped), len(unserved)
        others = {
            place_of(one): equal
            for one in outcome.decisions
            if place_of(one) in unserved and not one.asked
            for equal in one.equals
            if (place_of(one), equal) not in tried
        }
        if not others or effort.is_over:
            return best
        tried |= set(others.items())
        decisions = [
            one
            if (equal := others.get(place_of(one))) is None
            else _instead(one, equal, matrix, f"for broker {equal} there is an order of steps")
            for one in decisions
        ]


def try_order(
    state: PresentState, matrix: Matrix, decisions: Sequence[Decision], tools: Tools, effort: _Effort
) -> tuple[PlannedDecisions, frozenset[TopicPartition], frozenset[TopicPartition]]:
    """The outcome for exactly these candidates, the partitions that no order serves, and those that lose a leader on the way."""
    effort.tries += 1
    sorted_out = [sort_out(state, one, tools) for one in decisions]
    decisions = [one for one, _ in sorted_out]
    conflicts = [Conflict(one.topic, one.partition, reason) for one, reason in sorted_out if reason is not None]
    given_up: dict[TopicPartition, str] = {}
    elected: set[TopicPartition] = set()
    allowed = {topic for (topic, _), said in state.unclean_said.items() if said}
    way = tools.way_to_configure(is_any_up=state.is_any_up)
    if way == CONTROLLER and not _lead_alone(state):
        way = BROKER if state.unknown else None
    forbidden: frozenset[str] = frozenset()
    while True:
        wanted = {place_of(one) for one in decisions if one.procedure == "elect"}
        elected |= wanted
        confirmed = {place_of(one) for one in decisions if one.procedure == "confirm"}
        if way is not None:
            forbidden |= frozenset(topic for topic, _ in wanted if topic in allowed)
        attempt = _Attempt(state, matrix, decisions, tools, forbidden, way)
        attempt.carry_out()
        effort.simulated += attempt.size
        decisions = [one.by("elect") if place_of(one) in attempt.dragged else one for one in decisions]
        if not attempt.dragged and (attempt.risky <= forbidden or way is None):
            new = {place: why for place, why in attempt.unserved.items() if place in wanted | confirmed}
            if not new:
                break
            # Their own steps go; steps for other partitions may then serve, or give up, others than before.
            given_up |= new
            decisions = [one.by("unplanned") if place_of(one) in new else one for one in decisions]
        forbidden |= attempt.risky if way is not None else frozenset()
    unserved = {**attempt.unserved, **given_up}
    conflicts += [Conflict(*place, reason) for place, reason in sorted(unserved.items())]
    outcome = PlannedDecisions(
        decisions=tuple(one.by(attempt.procedures[place_of(one)]) for one in decisions),
        steps=tuple(attempt.list.steps),
        keep_down=tuple(attempt.held()),
        conflicts=tuple(conflicts),
        alternatives=tuple(
            Alternative(*place, attempt.chosen_first(place))
            for place in sorted(elected)
            if attempt.procedures[place] in ("elect", "unplanned") and state.mode != "zookeeper"
        ),
        outrun=tuple(sorted(attempt.outrun)),
    )
    return outcome, frozenset(unserved), frozenset(attempt.interrupted)


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
    elif state.leader_now(place) == choice:
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
    if state.doubted is not None:
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


def _by_leader(pairs: Iterable[tuple[int, int]]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = defaultdict(list)
    for leader, follower in pairs:
        found[leader].append(follower)
    return dict(found)


def _lead_alone(state: PresentState) -> bool:
    """False if the controllers have no majority until a broker that is one of them is up."""
    return not state.voters or 2 * len(state.voters - state.brokers) > len(state.voters)


def _may_be_down(brokers: Collection[int]) -> str:
    one = len(brokers) == 1
    return (
        f"nothing tells whether {name_brokers(sorted(brokers))} {'is' if one else 'are'} up: the metadata log has "
        f"{'it' if one else 'them'} up, and {'its log ends below its' if one else 'their logs end below their'} own checkpoints, "
        "as after a loss of power. Say with --up who is up (--up '' where nobody is)"
    )


class _Attempt:
    """An attempt at all steps; it first forbids unclean elections for the `forbidden` topics."""

    def __init__(
        self,
        state: PresentState,
        matrix: Matrix,
        decisions: Sequence[Decision],
        tools: Tools,
        forbidden: frozenset[str],
        way: str | None,
    ) -> None:
        self.decisions: Mapping[TopicPartition, Decision] = {place_of(one): one for one in decisions}
        self.procedures = {place: one.procedure for place, one in self.decisions.items()}
        self._harmful = matrix.harmful(decisions)
        self._state = state
        self._matrix = matrix
        self._forbidden = forbidden
        self._way = way
        self._now = Scenarios.of(state, self._treatment)
        self._kinds = self._now.kinds
        self.list = StepList(state, matrix, self.decisions, tools, self._now)
        self.unserved: dict[TopicPartition, str] = {}
        """Partitions that the steps do not serve, with the reason."""
        self.risky: frozenset[str] = frozenset()
        """Topics in which an unclean election would happen by itself."""
        self.dragged: set[TopicPartition] = set()
        """Partitions whose leader is best but is stopped for others, while another broker can take over to their harm."""
        self.interrupted: set[TopicPartition] = set()
        """Partitions whose leader is stopped for others."""
        self.outrun: set[tuple[int, TopicPartition]] = set()
        """`outrun` of `PlannedDecisions`."""
        self._cut_by = {
            place: _by_leader(self._harmful[place])
            for place in self._kinds.one_of_each(self._harmful)
            if place in state.partitions
        }
        """Followers harmed by each leader, by representative partition."""
        self._takers = self._now.takers_of(place for place in self.decisions if place in state.partitions)
        self._done: set[TopicPartition] = set()
        self._stopped: set[int] = set()
        self._starts_controllers = bool(state.controllers) and (state.controllers_are_down or not state.up)

    def _treatment(self, place: TopicPartition) -> Hashable:
        """Everything that the steps for a partition depend on, besides its registration."""
        decision = self.decisions.get(place)
        is_forbidden = place[0] in self._forbidden
        if decision is None:
            return is_forbidden
        return is_forbidden, decision.candidate_id, self._as_good(place), decision.procedure, self._harmful.get(place)

    def _as_good(self, place: TopicPartition) -> tuple[int, ...]:
        """The chosen candidate, and those that lose as much and cut nothing off its log that it alone holds."""
        decision = self.decisions[place]
        choice = decision.candidate_id
        if not decision.loses_acknowledged:
            return choice, *decision.equals
        cuts = ((one, self._matrix.cut(place, one, choice)) for one in decision.equals)
        return choice, *(one for one, cut in cuts if cut is None or not cut.lost_held)

    @property
    def size(self) -> int:
        """Number of registrations that it simulates, those of all scenarios."""
        return len(self._now.ways) * len(self._kinds.firsts)

    def carry_out(self) -> None:
        """Make all steps, in order."""
        moving = [place for place, how in self.procedures.items() if how == "reorder"]
        choices = {place: self._choice(place) for place, how in self.procedures.items() if how == "elect"}
        confirmed = [place for place, how in self.procedures.items() if how == "confirm"]
        if self._starts_controllers and (confirmed or moving or choices):
            self.list.start_controllers(self._now, are_enough=_lead_alone(self._state))
        if confirmed:
            if not self._look_for_quorum(confirmed, is_elected=True):
                self._give_up_beside(confirmed, [*moving, *choices])
                return
            self.list.confirm(self._now, confirmed)
        if not moving and not choices:
            return
        if self._forbidden and self._way is not None:
            self._now = self._now.after(lambda one: one.forbidden(self._forbidden))
            self.list.forbid_unclean(self._now, self._forbidden, self._way)
        self._reorder(moving)
        rounds = order_rounds(choices, self._now.takers_of(choices))
        for number, one in enumerate(rounds):
            self._round(one, [place for later in rounds[number + 1 :] for place in later.places])
        self._start_rest(rounds)
        self._judge()
        if self._forbidden:
            self.list.restore_config(self._now, self._forbidden)
        self.list.verify(self._now)

    def chosen_first(self, place: TopicPartition) -> tuple[int, ...]:
        """The assignment with the chosen replica first."""
        choice = self._choice(place)
        return (choice, *(one for one in self._state.partitions[place].replicas if one != choice))

    def held(self) -> list[KeepStopped]:
        """Brokers that must not be started before a step: they would lead, or the election would choose them."""
        elections = [step.number for step in self.list.steps if step.action in ("elect", "check")]
        found: dict[int, KeepStopped] = {}
        for step in self.list.steps:
            if step.action != "start" or not elections or step.number < elections[-1]:
                continue
            for broker in step.brokers:
                reasons: dict[str, list[TopicPartition]] = {}
                for place in sorted(self._done):
                    if (reason := self._why_down(place, broker)) is not None:
                        reasons.setdefault(reason, []).append(place)
                if reasons:
                    text = "; ".join(reason.format(list_places(places)) for reason, places in reasons.items())
                    found[broker] = KeepStopped(broker, elections[-1], broker in self._state.down, text)
        return list(found.values())

    def _why_down(self, place: TopicPartition, broker: int) -> str | None:
        partition = self._state.partitions[place]
        choice = self._choice(place)
        if broker == choice or broker not in partition.replicas or self.procedures[place] == "reorder":
            return None
        if broker in self._takers[place] or broker == partition.leader_id:
            return "it could lead {} as soon as it is up"
        if partition.replicas.index(broker) < partition.replicas.index(choice):
            return f"it comes before broker {choice} in the assignment of {{}}, so that the election would find it"
        return None

    def _reorder(self, places: Sequence[TopicPartition]) -> None:
        """Put the candidate first in the assignment, then run a preferred election (H9); all replicas have to be up."""
        orders = {place: self.chosen_first(place) for place in places}
        led: dict[int, list[TopicPartition]] = defaultdict(list)
        for place in places:
            led[self._choice(place)].append(place)
        uncut = [text for choice, some in sorted(led.items()) for text in self._still_uncut(choice, some)]
        for place in self._kinds.one_of_each(orders):
            self._now = self._now.after(partial(Scenario.reordered, place=place, replicas=orders[place]))
        self._done |= set(places)
        if orders:
            self.list.reorder(self._now, orders, uncut)

    def _round(self, one: Round, later: Collection[TopicPartition]) -> None:
        """Start a candidate alone, elect it and check the result. `later` are the partitions of the rounds that follow."""
        candidate = one.candidate_id
        taken = self._kinds.where(later, lambda place: candidate in self._now.takers(place))
        if self._is_simple(one):
            text = f"Start broker {candidate} and nothing else: it is elected by itself"
            self._start(candidate, text, [self._controllers_lead])
            self.procedures.update(dict.fromkeys(one.places, "start"))
            self._look_for_quorum(one.places)
        else:
            uncut = self._still_uncut(candidate, one.places)
            if rivals := self._rivals(one, taken):
                self._stop(rivals, one, uncut)
            if candidate not in self._now.up:
                unless = ", unless it is up," if candidate in self._now.perhaps_up else ""
                before = [*self._before_start(one, taken), *uncut]
                self._start(candidate, f"Start broker {candidate}{unless} and no other", before)
            self._look_for_quorum(one.places)
            kinds = self._kinds.one_of_each(one.places)
            if not all(self._now.is_led_by(place, candidate) for place in kinds):
                by_itself = any(way.leader(place) == candidate for way in self._now for place in kinds)
                self._now = self._now.after(lambda way: way.elected(one.places))
                self._look()
                self.list.elect(self._now, one, by_itself=by_itself)
        self._done |= set(one.places)
        self.list.check(self._now, one)

    def _look_for_quorum(self, places: Iterable[TopicPartition], *, is_elected: bool = False) -> bool:
        """False if the brokers that are down are needed for a quorum of the controllers (H16): the partitions are given up.
        `is_elected`: with a quorum, who is up leads by itself."""
        voters = self._state.voters
        down = (voters & self._state.brokers) - self._now.perhaps_up
        left = len(voters) - len(down)
        if 2 * left > len(voters) or not voters:
            return True
        are, them = ("is a controller", "it") if len(down) == 1 else ("are controllers", "them")
        reason = (
            f"{name_brokers(sorted(down))} {are} too, and without {them} {left} of {len(voters)} controllers "
            f"{'is' if left == 1 else 'are'} left: nobody is elected until a majority is up"
        )
        able = sorted(down.difference(self._state.voteless))[: len(voters) // 2 + 1 - left]
        if is_elected and 2 * (left + len(able)) > len(voters):
            commands = ", ".join(map(Tools.start_as_controller, able))
            reason += (
                f". Start {name_brokers(able)} as {'a controller' if len(able) == 1 else 'controllers'} only ({commands}) until others "
                f"lead what {'it' if len(able) == 1 else 'they'} led, then make the plan again"
            )
        for place in places:
            self._give_up(place, reason)
        return False

    def _give_up_beside(self, waiting: Collection[TopicPartition], places: Iterable[TopicPartition]) -> None:
        """Give up those of `places` that share a broker with partitions `waiting` for a quorum: the controllers, who have no leader, fenced
        nobody there, so that a broker that is down leads again as soon as it is up."""
        on: dict[int, list[TopicPartition]] = defaultdict(list)
        for place in self._state.partitions.keys() & waiting:
            for broker in self._state.partitions[place].replicas:
                on[broker].append(place)
        for place in places:
            if beside := sorted({one for broker in self._state.partitions[place].replicas for one in on.get(broker, ())}):
                self._give_up(
                    place,
                    f"its brokers have {list_places(beside)}, too, which {verb(len(beside), 'waits', 'wait')} for a majority of the "
                    f"controllers: whoever is started before that may lead {verb(len(beside), 'it', 'them')} in place of the broker that "
                    "has more",
                )

    def _still_uncut(self, candidate: int, places: Collection[TopicPartition]) -> list[str]:
        """Conditions for a candidate that may be following a leader that cuts it: that may have happened since it was copied."""
        found = []
        for place in places:
            cutting = {leader for leader, broker in self._harmful.get(place, ()) if broker == candidate}
            leading = {way.leader(place) for way in self._now if candidate in way.up}
            for leader in sorted(cutting & leading):
                found.append(
                    f"Broker {candidate} still has {list_places([place])} {self._how_far(place)}: if it has followed broker "
                    f"{leader} since it was copied, it was cut; then add a new copy of it to the snapshot, beside this one, and "
                    "audit again"
                )
        if more := found[_MOST_CONDITIONS:]:
            found[_MOST_CONDITIONS:] = [
                f"The same of {len(more)} more logs of broker {candidate}: their ends and epochs are in rests_on of the plan as JSON"
            ]
        return found

    def _how_far(self, place: TopicPartition) -> str:
        """A condition that only the uncut chosen log meets: its end and its last epoch."""
        chosen = self.decisions[place].chosen
        far = f"up to offset {chosen.log_end_offset}"
        epochs = self._matrix.replicas[place][chosen.candidate_id].epochs
        if not epochs:
            return far
        return f"{far}, and the last entry of its leader-epoch-checkpoint below that offset is still {epochs[-1][0]} {epochs[-1][1]}"

    def _before_start(self, one: Round, taken: Sequence[TopicPartition]) -> list[str]:
        """Conditions before the start of a candidate that may meanwhile lead `taken`, for which others are chosen."""
        before = [self._controllers_lead] if not self._now.up and _lead_alone(self._state) else []
        for place in taken[:_MOST_CONDITIONS]:
            before.append(
                f"No producer writes to {list_places([place])} until broker {self._choice(place)} is elected for it: broker "
                f"{one.candidate_id} may lead it meanwhile, and what it is sent then is lost"
            )
        if more := taken[_MOST_CONDITIONS:]:
            before.append(
                f"Nor to {list_places(more)} until the brokers that the plan chooses are elected for them: broker "
                f"{one.candidate_id} may lead them meanwhile too"
            )
        return before

    @property
    def _controllers_lead(self) -> str:
        return "The controllers have a leader" if self._starts_controllers else _CONTROLLERS_UP

    def _is_simple(self, one: Round) -> bool:
        """True if starting the candidate is enough: it becomes leader by right, and takes no other partition."""
        if one.candidate_id in self._now.perhaps_up:
            return False
        for way in self._now:
            trial = replace(way, changes=()).started(one.candidate_id)
            led = all(trial.leader(place) == one.candidate_id for place in self._kinds.one_of_each(one.places))
            if not led or any(self._is_wrong(change) for change in trial.changes) or any(self._harm(trial)):
                return False
        return True

    def _rivals(self, one: Round, taken: Sequence[TopicPartition]) -> list[int]:
        """Brokers that have to be down while the candidate is elected; present leaders are stopped last.

        Includes brokers that hold what `taken`, which the candidate may lead meanwhile, would lose.
        """
        earlier = {self._choice(place) for place in self._done}
        up = self._now.perhaps_up - {one.candidate_id}
        found = set()
        takers = cache(self._now.takers)
        for place in self._kinds.one_of_each(one.places):
            partition = self._now.ways[0].partitions[place]
            for broker in set(partition.replicas) & up:
                before = partition.replicas.index(broker) < partition.replicas.index(one.candidate_id)
                # A broker elected in an earlier round stays up, unless this election would choose it.
                if broker not in earlier or before or broker in takers(place):
                    found.add(broker)
        for place in self._kinds.one_of_each(taken):
            found |= {broker for leader, broker in self._harmful.get(place, ()) if leader == one.candidate_id} & up
        leads = {self._now.leader(place) for place in self._kinds.one_of_each(one.places)}
        return sorted(found, key=lambda broker: (broker in leads, broker))

    def _stop(self, brokers: Sequence[int], one: Round, before: Sequence[str]) -> None:
        led = [place for place in sorted(self._state.partitions) if self._now.leader(place) is not None]
        perhaps = [broker for broker in brokers if broker not in self._now.up]
        written = self._written_since(brokers)
        for broker in brokers:
            self._now = self._now.after(partial(Scenario.stopped, broker_id=broker))
            self.dragged |= set(self._kinds.where(led, partial(self._is_dragged, stopped=broker)))
            self.interrupted |= {
                place
                for place, partition in self._state.partitions.items()
                if partition.leader_id == broker
                and self.procedures.get(place) in (None, "none", "confirm", "unplanned")
            }
        self.outrun |= {
            (broker, place)
            for place in self.interrupted
            if self.procedures.get(place) in (None, "unplanned")
            for broker in brokers
            if self._is_outrun(place, broker)
        }
        self._stopped |= set(brokers)
        without = [place for place in led if self._now.leader(place) is None]
        self.list.stop(self._now, brokers, one, without, perhaps, before)
        for broker, places in written.items():
            self.list.copy_again(self._now, broker, places)

    def _written_since(self, brokers: Collection[int]) -> dict[int, list[TopicPartition]]:
        """By broker, the partitions that it leads and another one is to lead: producers may have written to it since it was copied."""
        choices = [place for place, how in self.procedures.items() if how == "elect" and place not in self._done]
        found: dict[int, list[TopicPartition]] = defaultdict(list)
        for broker in brokers:
            for place in self._kinds.where(choices, partial(self._may_lead_now, broker)):
                if self._choice(place) != broker and broker in self._matrix.replicas[place]:
                    found[broker].append(place)
        return found

    def _may_lead_now(self, broker: int, place: TopicPartition) -> bool:
        return any(way.leader(place) == broker for way in self._now)

    def _is_outrun(self, place: TopicPartition, stopped: int) -> bool:
        """True if the stopped leader has more records than a broker that is down and would lead as soon as it is up."""
        rows = self._matrix.replicas[place].items()
        ends = {broker: row.log_end_offset for broker, row in rows if row.log_end_offset is not None}
        if self._state.partitions[place].leader_id != stopped or stopped not in ends:
            return False
        down = self._now.takers(place) - self._now.up - {stopped}
        return any(ends.get(broker, ends[stopped]) < ends[stopped] for broker in down)

    def _is_dragged(self, place: TopicPartition, stopped: int) -> bool:
        """True if a leader that should stay was stopped while a worse one is in sync or eligible."""
        stays = self.procedures.get(place) in ("none", "confirm") and self._choice(place) == stopped
        worse = {leader for leader, _ in self._harmful.get(place, ())}
        return stays and not worse.isdisjoint(self._now.takers(place))

    def _start(self, broker: int, text: str, before: Collection[str] = ()) -> None:
        self._now = self._now.after(partial(Scenario.started, broker_id=broker))
        self._stopped.discard(broker)
        self._look()
        self.list.start(self._now, broker, text, tuple(before))

    def _start_rest(self, rounds: Sequence[Round]) -> None:
        """Start the remaining brokers one at a time: leaders of other partitions first, former leaders of those in `rounds`
        last, since their logs may diverge most."""
        partitions = [self._state.partitions[place] for one in rounds for place in one.places]
        down = {broker for one in partitions for broker in one.replicas} | self._stopped
        if rounds and not self._state.up | self._state.unknown:
            # The whole site is down, and no broker has a reason of its own to stay down.
            down |= self._state.down - {
                broker for place in self._open() for broker in self._state.partitions[place].replicas
            }
        down -= self._now.up
        led = {one.leader_id for one in partitions}
        others = Counter(one.leader_id for place, one in self._state.partitions.items() if place not in self._done)
        for broker in sorted(down, key=lambda broker: (broker in led, -others[broker], broker)):
            condition = "The partitions above have the leaders that the plan gives them, or preferred ones that took over from them in sync"
            self._start(broker, f"Start broker {broker}", [condition] if rounds else [])

    def _open(self) -> Iterator[TopicPartition]:
        """Partitions that a start may affect in unknown ways: without a plan, or undecided though their replicas may differ."""
        for place in self._state.partitions:
            decided = self.procedures.get(place, "unplanned") != "unplanned"
            is_calm = place not in self._matrix.rows and self._matrix.lost(place) == 0
            if not decided and (not is_calm or place in self._matrix.needed):
                yield place

    def _is_wrong(self, change: LeaderChange) -> bool:
        """True if an election that was not requested made a leader of a replica that may lack committed records."""
        if change.place in self.decisions and change.leader_id in self._as_good(change.place):
            return False
        return change.right == "unclean" and not change.ordered

    def _harm(self, way: Scenario) -> Iterator[tuple[TopicPartition, int, int]]:
        """Partition, leader, and a follower that is cut and loses the last copy of records, though the choice would keep them."""
        for place, followers in self._cut_by.items():
            leader = way.partitions[place].leader_id
            # A leader after a reassignment has followed the chosen replica, which the reassignment removed.
            if leader in followers and not (place in self._done and self._is_removed(way, place)):
                yield from ((place, leader, follower) for follower in followers[leader] if follower in way.up)

    def _is_removed(self, way: Scenario, place: TopicPartition) -> bool:
        """True if a reassignment removed the chosen replica, after the added replicas were in sync with it."""
        return way.is_reassigned(place) and self._choice(place) not in way.partitions[place].replicas

    def _look(self) -> None:
        """Give up partitions that the last step harms in any scenario."""
        for way in self._now:
            for place, leader, follower in self._harm(way):
                self._give_up(
                    place,
                    f"broker {follower} would be cut to broker {leader} before broker {self._choice(place)} can be elected",
                )

    def _judge(self) -> None:
        """Collect scenarios that end with a leader other than the chosen one."""
        for way in self._now:
            for change in filter(self._is_wrong, way.changes):
                self.risky |= {topic for topic, _ in self._kinds.alike(change.place)}
                if change.place in self.decisions:
                    choice = self._choice(change.place)
                    self._give_up(
                        change.place, f"broker {change.leader_id} would be elected before broker {choice} can be"
                    )
                elif self._way is None:
                    text = f"broker {change.leader_id} would be elected uncleanly as soon as it is up, and no broker is up to forbid it"
                    for place in self._kinds.alike(change.place):
                        self.unserved.setdefault(place, text)
            for place in self._kinds.one_of_each(self._done):
                leader = way.leader(place)
                choice = self._choice(place)
                isr = way.partitions[place].isr
                if leader != choice and not {leader, choice} <= isr and not self._is_removed(way, place):
                    who = "nobody" if leader is None else f"broker {leader}"
                    self._give_up(place, f"after all steps {who} would lead it")

    def _give_up(self, place: TopicPartition, reason: str) -> None:
        for one in self._kinds.alike(place):
            self.unserved.setdefault(one, reason)
            self.procedures[one] = "unplanned"

    def _choice(self, place: TopicPartition) -> int:
        return self.decisions[place].candidate_id
