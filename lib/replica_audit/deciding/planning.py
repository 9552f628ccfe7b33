"""The steps that carry decisions out, tried on an imagined cluster before anybody takes them (docs/semantics.md, H and H.2).

The sequences are those that worked on real brokers: the candidate alone, an unclean election asked for, the others after it
one at a time. Whatever an election would do by itself meanwhile, to any partition of the snapshot, is seen beforehand.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from replica_audit.deciding.decisions import Matrix
from replica_audit.deciding.imagined_cluster import Change, ImaginedClusters
from replica_audit.deciding.kafka_commands import Tools
from replica_audit.deciding.plan_parts import Alternative, Conflict, Decision, Held, Step
from replica_audit.deciding.present_state import PresentState
from replica_audit.deciding.rounds import Round, order_rounds, takers
from replica_audit.deciding.step_list import StepList, list_places
from replica_audit.model import Place

_NO_TOOL = "kafka-leader-election.sh exists since Kafka 2.4: no tool of this version elects a given replica"
_NO_ISR = "nothing says who is assigned and in sync: add a listing of kafka-topics.sh --describe, or leadership.json"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Decisions with their procedures, and how they are carried out."""

    decisions: tuple[Decision, ...]
    steps: tuple[Step, ...]
    keep_down: tuple[Held, ...]
    conflicts: tuple[Conflict, ...]
    alternatives: tuple[Alternative, ...]


def make_steps(state: PresentState, matrix: Matrix, decisions: Sequence[Decision], tools: Tools) -> Outcome:
    """All steps for all decisions, in one order; a decision that no order serves is a conflict."""
    sorted_out = [_sort_out(state, one, tools) for one in decisions]
    decisions = [one for one, _ in sorted_out]
    conflicts = [Conflict(one.topic, one.partition, reason) for one, reason in sorted_out if reason is not None]
    wanted = {_place(one) for one in decisions if one.procedure == "elect"}
    allowed = {topic for (topic, _), said in state.unclean_said.items() if said}
    way = tools.way_to_configure(state.mode, is_any_up=bool(state.up))
    forbidden = frozenset(topic for topic, _ in wanted if topic in allowed and way is not None)
    while True:
        attempt = _Attempt(state, matrix, decisions, tools, forbidden, way)
        attempt.carry_out()
        if attempt.risky <= forbidden or way is None:
            break
        forbidden |= attempt.risky
    conflicts += [Conflict(*place, reason) for place, reason in sorted(attempt.unserved.items())]
    return Outcome(
        decisions=tuple(replace(one, procedure=attempt.procedures[_place(one)]) for one in decisions),
        steps=tuple(attempt.list.steps),
        keep_down=tuple(attempt.held()),
        conflicts=tuple(conflicts),
        alternatives=tuple(
            Alternative(*place, attempt.chosen_first(place))
            for place in sorted(wanted)
            if attempt.procedures[place] in ("elect", "unplanned") and state.mode != "zookeeper"
        ),
    )


def _sort_out(state: PresentState, decision: Decision, tools: Tools) -> tuple[Decision, str | None]:
    """The decision with the procedure that it wants, and why there is none."""
    registration = state.partitions.get(_place(decision))
    choice, reason = decision.candidate_id, None
    if registration is None:
        stays = decision.chosen.standing == "leader"
        procedure, reason = ("none", None) if stays else ("unplanned", _NO_ISR)
    elif registration.leader_id == choice:
        procedure = "none"
    elif choice not in registration.replicas:
        procedure, reason = "unplanned", f"broker {choice} is not assigned to it, so that no election finds it"
    elif not tools.has_elections():
        procedure, reason = "unplanned", _NO_TOOL
    else:
        all_up = set(registration.replicas) <= state.up
        in_sync = registration.leader_id is not None and choice in registration.isr
        procedure = "reorder" if all_up and in_sync else "elect"
    return replace(decision, procedure=procedure), reason


class _Attempt:
    """One try at all steps, with unclean elections forbidden for `forbidden` topics first."""

    def __init__(
        self,
        state: PresentState,
        matrix: Matrix,
        decisions: Sequence[Decision],
        tools: Tools,
        forbidden: frozenset[str],
        way: str | None,
    ) -> None:
        self.decisions: Mapping[Place, Decision] = {_place(one): one for one in decisions}
        self.procedures = {place: one.procedure for place, one in self.decisions.items()}
        self.clusters = ImaginedClusters(state)
        self.list = StepList(state, matrix, self.decisions, tools, self.clusters)
        self.unserved: dict[Place, str] = {}
        """Partitions that the steps do not serve, with the reason."""
        self.risky: frozenset[str] = frozenset()
        """Topics of which somebody would be elected uncleanly by itself."""
        self._state, self._forbidden, self._way = state, forbidden, way
        self._done: set[Place] = set()
        self._stopped: set[int] = set()

    def carry_out(self) -> None:
        """All steps, in order."""
        self.list.copy()
        moving = [place for place, how in self.procedures.items() if how == "reorder"]
        choices = {place: self._choice(place) for place, how in self.procedures.items() if how == "elect"}
        if not moving and not choices:
            return
        if self._forbidden and self._way is not None:
            for cluster in self.clusters:
                cluster.forbid_unclean(self._forbidden)
            self.list.forbid_unclean(self._forbidden, self._way)
        self._reorder(moving)
        rounds, unserved = order_rounds(choices, self._state.partitions)
        for place, reason in unserved.items():
            self._give_up(place, reason)
        for one in rounds:
            self._round(one)
        self._start_rest(rounds)
        self._judge()
        if self._forbidden:
            self.list.restore_config(self._forbidden)
        self.list.verify()

    def chosen_first(self, place: Place) -> tuple[int, ...]:
        """The assignment with the chosen replica first, else as it is."""
        choice = self._choice(place)
        return (choice, *(one for one in self._state.partitions[place].replicas if one != choice))

    def held(self) -> list[Held]:
        """Brokers that must not be started before a step: they would lead, or be found by the election."""
        elections = [step.number for step in self.list.steps if step.action in ("elect", "check")]
        found = []
        for step in self.list.steps:
            if step.action != "start" or not elections or step.number < elections[-1]:
                continue
            for broker in step.brokers:
                reasons: dict[str, list[Place]] = {}
                for place in sorted(self._done):
                    if (reason := self._why_down(place, broker)) is not None:
                        reasons.setdefault(reason, []).append(place)
                if reasons:
                    text = "; ".join(reason.format(list_places(places)) for reason, places in reasons.items())
                    found.append(Held(broker, elections[-1], text))
        return found

    def _why_down(self, place: Place, broker: int) -> str | None:
        partition, choice = self._state.partitions[place], self._choice(place)
        if broker == choice or broker not in partition.replicas or self.procedures[place] == "reorder":
            return None
        if broker in takers(partition) or broker == partition.leader_id:
            return "it would lead {} as soon as it is up"
        if partition.replicas.index(broker) < partition.replicas.index(choice):
            return f"it comes before broker {choice} in the assignment of {{}}, so that the election would find it"
        return None

    def _reorder(self, places: Sequence[Place]) -> None:
        """H9: the candidate first in the assignment, then a preferred election; all replicas have to be up."""
        orders = {place: self.chosen_first(place) for place in places}
        for place, order in orders.items():
            for way in self.clusters:
                way.reorder(place, order)
        self._done |= set(places)
        if orders:
            self.list.reorder(orders)

    def _round(self, one: Round) -> None:
        """One candidate: alone, elected, and looked at."""
        candidate = one.candidate_id
        if self._is_simple(one):
            self._start(candidate, f"Start broker {candidate} and nothing else: it is elected by itself")
            self.procedures.update(dict.fromkeys(one.places, "start"))
        else:
            if rivals := self._rivals(one):
                self._stop(rivals, one)
            if candidate not in self.clusters.up:
                self._start(candidate, f"Start broker {candidate} alone")
            if not all(self.clusters.is_led_by(place, candidate) for place in one.places):
                for way in self.clusters:
                    way.elect(one.places)
                self.list.elect(one)
        self._done |= set(one.places)
        self.list.check(one)

    def _is_simple(self, one: Round) -> bool:
        """Whether the candidate has only to be started: it leads what it should, by right, and takes nothing else."""
        if one.candidate_id in self.clusters.up:
            return False
        for way in self.clusters:
            trial = way.copy()
            trial.start(one.candidate_id)
            led = all(trial.leader(place) == one.candidate_id for place in one.places)
            if not led or any(self._is_wrong(change) for change in trial.changes):
                return False
        return True

    def _rivals(self, one: Round) -> list[int]:
        """Brokers that have to be down while the candidate is elected; those that lead now are stopped last."""
        earlier = {self._choice(place) for place in self._done}
        found = set()
        for place in one.places:
            partition = self.clusters.ways[0].partitions[place]
            for broker in set(partition.replicas) & self.clusters.up - {one.candidate_id}:
                before = partition.replicas.index(broker) < partition.replicas.index(one.candidate_id)
                # One that was elected in a round before stays, unless it would be found in place of this candidate.
                if broker not in earlier or before or broker in takers(partition):
                    found.add(broker)
        leads = {self.clusters.leader(place) for place in one.places}
        return sorted(found, key=lambda broker: (broker in leads, broker))

    def _stop(self, brokers: Sequence[int], one: Round) -> None:
        led = [place for place in sorted(self._state.partitions) if self.clusters.leader(place) is not None]
        for broker in brokers:
            for way in self.clusters:
                way.stop(broker)
        self._stopped |= set(brokers)
        self.list.stop(brokers, one, [place for place in led if self.clusters.leader(place) is None])

    def _start(self, broker: int, text: str, before: Collection[str] = ()) -> None:
        for way in self.clusters:
            way.start(broker)
        self._stopped.discard(broker)
        self.list.start(broker, text, tuple(before))

    def _start_rest(self, rounds: Sequence[Round]) -> None:
        """Everybody else, one at a time; who led before, and so may hold most that is wrong, comes last."""
        partitions = [self._state.partitions[place] for one in rounds for place in one.places]
        down = ({broker for one in partitions for broker in one.replicas} | self._stopped) - self.clusters.up
        led = {one.leader_id for one in partitions}
        for broker in sorted(down, key=lambda broker: (broker in led, broker)):
            condition = "The partitions above have the leaders that the plan gives them"
            self._start(broker, f"Start broker {broker}", [condition] if rounds else [])

    def _is_wrong(self, change: Change) -> bool:
        """Whether an election that nobody asked for gave a partition to somebody who may lack what was committed."""
        decision = self.decisions.get(change.place)
        if decision is not None and change.leader_id == decision.candidate_id:
            return False
        return change.right in ("unclean", "last_known") and not change.ordered

    def _judge(self) -> None:
        """What went otherwise than chosen in any of the ways."""
        for way in self.clusters:
            for change in filter(self._is_wrong, way.changes):
                if change.right == "unclean":
                    self.risky |= {change.place[0]}
                if change.place in self.decisions:
                    choice = self._choice(change.place)
                    self._give_up(
                        change.place, f"broker {change.leader_id} would be elected before broker {choice} can be"
                    )
                elif change.right == "unclean" and self._way is None:
                    text = f"broker {change.leader_id} would be elected uncleanly as soon as it is up, and no broker is up to forbid it"
                    self.unserved.setdefault(change.place, text)
            for place in self._done:
                leader, isr = way.leader(place), way.partitions[place].isr
                if leader != self._choice(place) and not {leader, self._choice(place)} <= isr:
                    who = "nobody" if leader is None else f"broker {leader}"
                    self._give_up(place, f"after all steps {who} would lead it")

    def _give_up(self, place: Place, reason: str) -> None:
        self.unserved.setdefault(place, reason)
        self.procedures[place] = "unplanned"

    def _choice(self, place: Place) -> int:
        return self.decisions[place].candidate_id


def _place(decision: Decision) -> Place:
    return decision.topic, decision.partition
