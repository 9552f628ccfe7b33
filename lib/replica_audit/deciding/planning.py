"""The steps that carry decisions out, tried on an imagined cluster before anybody takes them (docs/semantics.md, H).

The sequences are those that worked on real brokers: the candidate alone, an unclean election asked for, the others after it
one at a time. Whatever an election would do by itself meanwhile, to any partition of the snapshot, is seen beforehand.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from replica_audit.deciding.decisions import Matrix
from replica_audit.deciding.imagined_cluster import Change, ImaginedCluster
from replica_audit.deciding.kafka_commands import Tools, copy_command, election_file, reassignment_file
from replica_audit.deciding.plan_parts import Alternative, Conflict, Decision, Held, Prediction, Step
from replica_audit.deciding.present_state import Place, PresentState
from replica_audit.deciding.rounds import Round, order_rounds, takers
from replica_audit.wording import brokers as name_brokers

_MIN_TOOLS = "kafka-leader-election.sh exists since Kafka 2.4: no tool of this version elects a given replica"
_NO_ISR = "nothing says who is assigned and in sync: add a listing of kafka-topics.sh --describe, or leadership.json"


def make_steps(
    state: PresentState, matrix: Matrix, decisions: Sequence[Decision], tools: Tools
) -> tuple[list[Decision], list[Step], list[Held], list[Conflict], list[Alternative]]:
    """The decisions with their procedures, steps, brokers to keep down, conflicts, and ways through the Admin API."""
    decisions, conflicts = _sort_out(state, decisions, tools)
    pending = {_place(one): one.candidate_id for one in decisions if one.procedure == "elect"}
    known = {topic for (topic, _), said in state.unclean_said.items() if said}
    forbidden = frozenset(place[0] for place in pending if place[0] in known)
    while True:
        attempt = _Attempt(state, matrix, decisions, tools, forbidden)
        attempt.carry_out()
        if attempt.risky <= forbidden:
            break
        forbidden |= attempt.risky
    decisions = [replace(one, procedure=attempt.procedures.get(_place(one), one.procedure)) for one in decisions]
    conflicts += [Conflict(*place, reason) for place, reason in sorted(attempt.unserved.items())]
    alternatives = [
        Alternative(*place, (choice, *(one for one in state.partitions[place].replicas if one != choice)))
        for place, choice in sorted(pending.items())
        if attempt.procedures.get(place) in ("elect", "unplanned") and (state.mode != "zookeeper")
    ]
    return decisions, attempt.steps, attempt.held(), conflicts, alternatives


def _sort_out(
    state: PresentState, decisions: Sequence[Decision], tools: Tools
) -> tuple[list[Decision], list[Conflict]]:
    """Which decisions want steps; those that no tool can carry out are conflicts."""
    found, conflicts = [], []
    for one in decisions:
        place = _place(one)
        registration = state.partitions.get(place)
        if registration is None:
            stays = one.present_leader_id == one.candidate_id or one.chosen.standing == "leader"
            procedure, reason = ("none", None) if stays else ("unplanned", _NO_ISR)
        elif registration.leader_id == one.candidate_id:
            procedure, reason = "none", None
        elif one.candidate_id not in registration.replicas:
            procedure, reason = "unplanned", f"broker {one.candidate_id} is not assigned to it, so no election finds it"
        elif not tools.has_elections():
            procedure, reason = "unplanned", _MIN_TOOLS
        elif (
            registration.leader_id in state.up
            and one.candidate_id in registration.isr
            and set(registration.replicas) <= state.up
        ):
            procedure, reason = "reorder", None
        else:
            procedure, reason = "elect", None
        found.append(replace(one, procedure=procedure))
        if reason is not None:
            conflicts.append(Conflict(*place, reason))
    return found, conflicts


class _Attempt:
    """One try at all steps, with unclean elections forbidden for `forbidden` topics first.

    Where it is not known whether there are eligible leader replicas, or whether a topic allows unclean elections, both are
    imagined side by side.
    """

    def __init__(
        self,
        state: PresentState,
        matrix: Matrix,
        decisions: Sequence[Decision],
        tools: Tools,
        forbidden: frozenset[str],
    ) -> None:
        self.state, self.matrix, self.tools, self.forbidden = state, matrix, tools, forbidden
        self.decisions = {_place(one): one for one in decisions}
        self.procedures = {place: one.procedure for place, one in self.decisions.items()}
        self.worlds = [
            ImaginedCluster(state, has_elr=has_elr, unclean=unclean)
            for has_elr in ((True, False) if state.has_elr is None else (state.has_elr,))
            for unclean in (self._if_said, self._unless_forbidden)
        ]
        self.steps: list[Step] = []
        self.unserved: dict[Place, str] = {}
        self.risky: frozenset[str] = frozenset()
        self._done: set[Place] = set()
        self._told: set[tuple[Place, int]] = set()
        self._stopped: list[int] = []

    def carry_out(self) -> None:
        """All steps, in order."""
        self._copy()
        changing = [place for place, how in self.procedures.items() if how in ("elect", "reorder")]
        if changing:
            if self.forbidden:
                self._forbid_unclean()
            self._reorder([place for place in changing if self.procedures[place] == "reorder"])
            choices = {
                place: self.decisions[place].candidate_id for place in changing if self.procedures[place] == "elect"
            }
            rounds, unserved = order_rounds(choices, self.state.partitions)
            for place, reason in unserved.items():
                self._give_up(place, reason)
            for one in rounds:
                self._round(one)
            self._start_rest(rounds)
            self._judge()
            if self.forbidden:
                self._restore()
        if changing:
            self._verify()

    def held(self) -> list[Held]:
        """Brokers that must not be started before a step: they would lead, or be found by the election."""
        elections = [step.number for step in self.steps if step.action in ("elect", "check")]
        found = []
        for step in self.steps:
            if step.action != "start" or not elections or step.number < elections[-1]:
                continue
            for broker in step.brokers:
                reasons: dict[str, list[str]] = {}
                for place in sorted(self._done):
                    if (reason := self._why_down(place, broker)) is not None:
                        reasons.setdefault(reason, []).append(_name(place))
                if reasons:
                    text = "; ".join(reason.format(_list(names)) for reason, names in reasons.items())
                    found.append(Held(broker, elections[-1], text))
        return found

    def _if_said(self, place: Place) -> bool:
        return self.state.unclean_said[place] is True

    def _unless_forbidden(self, place: Place) -> bool:
        return self.state.unclean_said[place] is not False

    def _why_down(self, place: Place, broker: int) -> str | None:
        registration, decision = self.state.partitions[place], self.decisions[place]
        if broker == decision.candidate_id or broker not in registration.replicas:
            return None
        if broker in takers(registration) or broker == registration.leader_id:
            return "it would lead {} as soon as it is up"
        if registration.replicas.index(broker) < registration.replicas.index(decision.candidate_id):
            return f"it comes before broker {decision.candidate_id} in the assignment of {{}}, so that the election would find it"
        return None

    def _copy(self) -> None:
        """Step 0: what only one broker holds, and what the choices lose, from one broker each."""
        wanted: dict[int, list[Place]] = {}
        for place, decision in self.decisions.items():
            sources = {one.broker_id for one in decision.salvage}
            for broker, rows in self.matrix.rows[place].items():
                if broker in sources or rows[broker]["only_here"]:
                    wanted.setdefault(broker, []).append(place)
        if wanted:
            self._add(
                "copy",
                f"Copy these directories of {name_brokers(sorted(wanted))} before anything is started or stopped: they have "
                "records that no other replica has, or that the choice loses",
                brokers=sorted(wanted),
                partitions=sorted({place for places in wanted.values() for place in places}),
                commands=[copy_command(broker, places) for broker, places in sorted(wanted.items())],
            )

    def _forbid_unclean(self) -> None:
        topics = sorted(self.forbidden)
        for world in self.worlds:
            world.forbid_unclean(self.forbidden)
        said = {place[0] for place, value in self.state.unclean_said.items() if value}
        unsaid = [topic for topic in topics if topic not in said]
        allowed = _list([topic for topic in topics if topic in said])
        unshown = f"{_list(unsaid)}, of which nothing shows whether they are allowed" if unsaid else ""
        how = "at once" if self.state.mode == "zookeeper" else "within unclean.leader.election.interval.ms (5 minutes)"
        self._add(
            "forbid_unclean",
            f"Forbid unclean elections of {' and of '.join(filter(None, (allowed, unshown)))}: whichever replica returned first "
            "would lead",
            partitions=sorted(place for place in self.state.partitions if place[0] in self.forbidden),
            commands=self.tools.forbid_unclean(topics),
            before=[f"A broker answers; start none before: where unclean elections are allowed, one takes place {how}"],
        )

    def _reorder(self, places: Sequence[Place]) -> None:
        """H9: the candidate first in the assignment, then a preferred election; all replicas have to be up."""
        if not places:
            return
        orders = {place: self._first(place) for place in places}
        for world in self.worlds:
            for place, order in orders.items():
                world.reorder(place, order)
        self._done |= set(places)
        file = "reassign.json"
        self._add(
            "reorder",
            f"Put the chosen replica first in the assignment of {_list(map(_name, places))} and elect it; it is in sync",
            brokers=sorted({order[0] for order in orders.values()}),
            partitions=places,
            commands=[
                self.tools.reassign(file),
                self.tools.reassign(file, verify=True),
                self.tools.elect("preferred", "elect-preferred.json"),
                *self.tools.describe(place[0] for place in places),
            ],
            files={file: reassignment_file(orders.items()), "elect-preferred.json": election_file(places)},
            before=[
                "Every replica of these partitions is up: a reassignment that names a broker which is down is refused"
            ],
        )

    def _round(self, one: Round) -> None:
        """One candidate: alone, elected, and looked at."""
        name = f"broker {one.candidate_id}"
        if self._is_simple(one):
            self._start(one.candidate_id, f"Start {name} and nothing else: it is elected by itself")
            for place in one.places:
                self.procedures[place] = "start"
            self._done |= set(one.places)
            self._check(one)
            return
        self._stop(self._rivals(one), one)
        if any(one.candidate_id not in world.up for world in self.worlds):
            self._start(one.candidate_id, f"Start {name} alone")
        else:
            self._settle()
        self._done |= set(one.places)
        if any(world.leader(place) != one.candidate_id for world in self.worlds for place in one.places):
            self._elect(one)
        self._check(one)

    def _is_simple(self, one: Round) -> bool:
        """Whether the candidate has only to be started: it leads what it should, by right, and takes nothing else."""
        if any(one.candidate_id in world.up for world in self.worlds):
            return False
        for world in self.worlds:
            trial = ImaginedCluster.__new__(ImaginedCluster)
            trial.partitions, trial.up, trial.clean, trial.changes = (
                dict(world.partitions),
                set(world.up),
                set(world.clean),
                [],
            )
            trial.start(one.candidate_id)
            if any(trial.leader(place) != one.candidate_id for place in one.places):
                return False
            if any(self._is_wrong(change) for change in trial.changes):
                return False
        return True

    def _rivals(self, one: Round) -> list[int]:
        """Brokers that have to be down while the candidate is elected; those that lead now are stopped last."""
        up = {broker for world in self.worlds for broker in world.up} - {one.candidate_id}
        earlier = {self.decisions[place].candidate_id for place in self._done if self.procedures[place] == "elect"}
        found = set()
        for place in one.places:
            registration = self.worlds[0].partitions[place]
            order = registration.replicas
            for broker in set(order) & up:
                before = order.index(broker) < order.index(one.candidate_id)
                if broker not in earlier or before or broker in takers(registration):
                    found.add(broker)
        leads = {self.worlds[0].leader(place) for place in one.places}
        return sorted(found, key=lambda broker: (broker in leads, broker))

    def _stop(self, brokers: Sequence[int], one: Round) -> None:
        if not brokers:
            return
        before = {place for place, item in self.worlds[0].partitions.items() if item.leader_id is not None}
        for broker in brokers:
            for world in self.worlds:
                world.stop(broker)
        self._stopped += [broker for broker in brokers if broker not in self._stopped]
        without = sorted(place for place in before if self.worlds[0].leader(place) is None)
        costs = (
            f"; {_list(map(_name, without))} {'has' if len(without) == 1 else 'have'} no leader meanwhile"
            if without
            else ""
        )
        order = ", in this order," if len(brokers) > 1 else ""
        self._add(
            "stop",
            f"Stop {_list_brokers(brokers)}{order} with SIGTERM{costs}",
            brokers=brokers,
            partitions=one.places,
            commands=[self.tools.stop(broker) for broker in brokers],
        )

    def _start(self, broker: int, text: str, before: Sequence[str] = ()) -> None:
        for world in self.worlds:
            world.start(broker)
        leads = [
            place
            for place, decision in self.decisions.items()
            if broker != decision.candidate_id and self.worlds[0].leader(place) == decision.candidate_id
            and broker in self.state.partitions[place].replicas
        ]  # fmt: skip
        gone = [
            place
            for place in leads
            if self.matrix.rows[place][self.decisions[place].candidate_id].get(broker, {}).get("dropped_records")
        ]
        self._add(
            "start",
            text,
            brokers=[broker],
            partitions=sorted(place for place in self.decisions if broker in self._replicas(place)),
            commands=[self.tools.start(broker)],
            before=before,
            irreversible=f"What broker {broker} has of {_list(map(_name, gone))} past the cut is deleted"
            if gone
            else None,
        )
        if broker in self._stopped:
            self._stopped.remove(broker)

    def _elect(self, one: Round) -> None:
        file = f"elect-broker-{one.candidate_id}.json"
        for world in self.worlds:
            world.elect(one.places)
        self._add(
            "elect",
            f"Elect broker {one.candidate_id} for {_list(map(_name, one.places))}",
            brokers=[one.candidate_id],
            partitions=one.places,
            commands=[self.tools.elect("unclean", file)],
            files={file: election_file(one.places)},
            before=[
                f"{_list(map(_name, one.places))} {'has' if len(one.places) == 1 else 'have'} no leader: where there is one, the "
                "tool ends with 0 and changes nothing",
                f"Of {'its' if len(one.places) == 1 else 'their'} replicas broker {one.candidate_id} alone is up: the first live "
                "one in the order of the assignment is elected",
            ],
            irreversible=f"Whoever starts after this follows broker {one.candidate_id} and is cut to it",
        )

    def _check(self, one: Round) -> None:
        self._add(
            "check",
            f"See that broker {one.candidate_id} leads {_list(map(_name, one.places))}: an exit status of 0 proves nothing",
            brokers=[one.candidate_id],
            partitions=one.places,
            commands=self.tools.describe(place[0] for place in one.places),
        )

    def _start_rest(self, rounds: Sequence[Round]) -> None:
        """Everybody else, one at a time; who led before, and so may hold most that is wrong, comes last."""
        places = [place for one in rounds for place in one.places]
        brokers = {broker for place in places for broker in self._replicas(place)} | set(self._stopped)
        down = {broker for broker in brokers if any(broker not in world.up for world in self.worlds)}
        led = {self.state.partitions[place].leader_id for place in places}
        for broker in sorted(down, key=lambda broker: (broker in led, broker)):
            self._start(
                broker, f"Start broker {broker}", ["The partitions above have the leaders that the plan gives them"]
            )

    def _restore(self) -> None:
        said = {place[0]: self.state.unclean_said[place] for place in self.state.partitions}
        self._add(
            "restore_config",
            f"Put unclean.leader.election.enable of {_list(sorted(self.forbidden))} back to what it was, if you want it so",
            commands=[self.tools.restore_unclean(topic, said[topic]) for topic in sorted(self.forbidden)],
        )

    def _verify(self) -> None:
        self._add(
            "verify",
            "Copy the log directories again and compare: what every follower kept, with what this plan predicts",
            commands=["replica-audit verify BEFORE AFTER --plan plan.json"],
        )

    def _settle(self) -> None:
        for world in self.worlds:
            world.settle()

    def _is_wrong(self, change: Change) -> bool:
        """Whether an election that nobody asked for gave a partition to somebody who may lack what was committed."""
        decision = self.decisions.get(change.place)
        if decision is not None and change.leader_id == decision.candidate_id:
            return False
        return change.right in ("unclean", "last_known") and not change.ordered

    def _judge(self) -> None:
        """What went otherwise than chosen in any of the imagined worlds."""
        for world in self.worlds:
            for change in world.changes:
                if self._is_wrong(change) and change.right == "unclean":
                    self.risky |= {change.place[0]}
                if self._is_wrong(change) and change.place in self.decisions:
                    self._give_up(change.place, f"broker {change.leader_id} would be elected before broker "
                                                f"{self.decisions[change.place].candidate_id} can be")  # fmt: skip
            for place in self._done:
                leader, choice = world.leader(place), self.decisions[place].candidate_id
                if leader != choice and not (
                    leader in world.partitions[place].isr and choice in world.partitions[place].isr
                ):
                    self._give_up(
                        place, f"after all steps {'nobody' if leader is None else f'broker {leader}'} would lead it"
                    )

    def _give_up(self, place: Place, reason: str) -> None:
        self.unserved.setdefault(place, reason)
        self.procedures[place] = "unplanned"

    def _first(self, place: Place) -> tuple[int, ...]:
        choice = self.decisions[place].candidate_id
        return (choice, *(one for one in self._replicas(place) if one != choice))

    def _replicas(self, place: Place) -> tuple[int, ...]:
        registration = self.state.partitions.get(place)
        return () if registration is None else registration.replicas

    def _add(
        self,
        action: str,
        text: str,
        *,
        brokers: Iterable[int] = (),
        partitions: Iterable[Place] = (),
        commands: Iterable[str] = (),
        files: dict[str, str] | None = None,
        before: Iterable[str] = (),
        irreversible: str | None = None,
    ) -> None:
        first = 0 if action == "copy" else 1
        number = self.steps[-1].number + 1 if self.steps else first
        planned = [place for place in sorted(self.decisions) if place in self.state.partitions]
        self.steps.append(
            Step(
                number=number,
                action=action,
                text=text,
                brokers=tuple(brokers),
                partitions=tuple(partitions),
                commands=tuple(commands),
                files=files or {},
                before=tuple(before),
                after=tuple(self._predict(planned)) if action in ("start", "elect", "reorder") else (),
                leaders=tuple((*place, self.worlds[0].leader(place)) for place in planned),
                irreversible=irreversible,
            )
        )

    def _predict(self, places: Collection[Place]) -> Iterable[Prediction]:
        """What is new of replicas whose leader is the one that the plan wants."""
        world = self.worlds[0]
        for place in places:
            choice, leader = self.decisions[place].candidate_id, world.leader(place)
            if leader != choice or any(other.leader(place) != leader for other in self.worlds):
                continue
            end = self.matrix.kept_to(place, choice, choice)
            for broker in self._replicas(place):
                kept = self.matrix.kept_to(place, choice, broker)
                if broker not in world.up or kept is None or end is None or (place, broker) in self._told:
                    continue
                self._told.add((place, broker))
                epoch = world.partitions[place].leader_epoch
                yield Prediction(
                    *place,
                    broker_id=broker,
                    leader_id=leader,
                    leader_epoch=epoch if place in self.state.epoch_said else None,
                    truncate_to=None if broker == choice else kept,
                    dropped_records=self.matrix.rows[place][choice][broker]["dropped_records"],
                    log_end_offset=end,
                )


def _place(decision: Decision) -> Place:
    return decision.topic, decision.partition


def _name(place: Place) -> str:
    return f"{place[0]}-{place[1]}"


def _list(names: Iterable[str], limit: int = 5) -> str:
    """`a`, `a and b`, `a, b and 4 more`."""
    names = list(names)
    if len(names) > limit:
        names = [*names[: limit - 1], f"{len(names) - limit + 1} more"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else ""


def _list_brokers(brokers: Sequence[int]) -> str:
    """Brokers in the order given."""
    return name_brokers(brokers)
