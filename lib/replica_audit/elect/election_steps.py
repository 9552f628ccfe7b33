"""The steps that carry decisions out, tried on simulated clusters first (docs/semantics.md, H and H.2).

The sequences are those that worked on real brokers: the candidate alone, an unclean election on request, then the others one at
a time. The simulation shows what elections would do by themselves meanwhile, to any partition of the snapshot.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import cache, partial

from replica_audit.elect.cluster_state import PresentState
from replica_audit.elect.cost_matrix import Matrix
from replica_audit.elect.kafka_commands import CONTROLLER, Copies, Tools
from replica_audit.elect.plan_model import Decision, KeepStopped, Step
from replica_audit.elect.simulation import Kinds, LeaderChange, Round, Scenario, Scenarios, Transitions, order_rounds
from replica_audit.elect.step_list import AFTER_STOP, SimulatedStep, StepTexts, list_places, on_brokers
from replica_audit.model import TopicPartition
from replica_audit.results import place_of
from replica_audit.text import name_brokers, verb

_CONTROLLERS_UP = "The controllers are up: if they are down, start them first"
_ZOOKEEPER_UP = "ZooKeeper is up: if it is down, start it first"
#: Most conditions of one kind in a step.
_MOST_CONDITIONS = 40


def chosen_first(state: PresentState, decision: Decision) -> tuple[int, ...]:
    """The assignment with the chosen replica first."""
    choice = decision.candidate_id
    return (choice, *(one for one in state.partitions[place_of(decision)].replicas if one != choice))


class PlanAttempt:
    """An attempt at all steps; it first forbids unclean elections for the `forbidden` topics. It alone owns what changes: the cluster
    as it is after the steps so far, these steps, and what is known of the partitions."""

    def __init__(
        self,
        state: PresentState,
        matrix: Matrix,
        decisions: Sequence[Decision],
        tools: Tools,
        transitions: Transitions,
        forbidden: frozenset[str],
        way: str | None,
    ) -> None:
        self.decisions: Mapping[TopicPartition, Decision] = {place_of(one): one for one in decisions}
        self.procedures = {place: one.procedure for place, one in self.decisions.items()}
        self._harmful = matrix.harmful(decisions)
        self._holed = matrix.holed(decisions)
        self._state = state
        self._matrix = matrix
        self._forbidden = forbidden
        self._way = way
        self._texts = StepTexts(state, matrix, self.decisions, tools)
        self._kinds = Kinds(state, self._treatment, transitions)
        self._now = Scenarios.of(state, self._kinds)
        self._list: list[SimulatedStep] = []
        self._copies = Copies(AFTER_STOP)
        self.unserved: dict[TopicPartition, str] = {}
        """Partitions that the steps do not serve, with the reason."""
        self.risky: frozenset[str] = frozenset()
        """Topics in which an unclean election would happen by itself."""
        self.dragged: set[TopicPartition] = set()
        """Partitions whose leader is best but is stopped for others, while another broker can take over to their harm."""
        self.outrun: set[tuple[int, TopicPartition]] = set()
        """`outrun` of `Try`."""
        self._harmed = [place for place in self._kinds.one_of_each(self._harmful) if place in state.partitions]
        self._takers = self._now.takers_of(place for place in self.decisions if place in state.partitions)
        self._coordinated = frozenset(filter(self._texts.is_coordinated, state.partitions))
        self._done: set[TopicPartition] = set()
        self._stopped: set[int] = set()
        self._as_controllers: set[int] = set()
        """Brokers that are controllers too and run as controllers only, for a quorum (D7)."""
        self._unled: set[TopicPartition] = set()
        """Partitions that the steps already name as without a leader when a transaction coordinator begins."""

    def _treatment(self, place: TopicPartition) -> Hashable:
        """Everything besides its registration on which the steps for a partition depend."""
        decision = self.decisions.get(place)
        is_forbidden = place[0] in self._forbidden
        if decision is None:
            return is_forbidden
        is_kept_out = place in self._state.kept_out
        return (
            is_forbidden,
            is_kept_out,
            decision.candidate_id,
            self._as_good(place),
            decision.procedure,
            self._harmful.get(place),
        )

    def _as_good(self, place: TopicPartition) -> tuple[int, ...]:
        """The chosen candidate, and those that lose the same and cut no record that only its log holds."""
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

    def steps(self) -> Iterator[Step]:
        """All steps, in order."""
        return self._texts.complete(self._list)

    def _add(self, *steps: Step) -> None:
        self._list += [SimulatedStep(step, self._now) for step in steps]

    def carry_out(self) -> None:
        """Make all steps, in order."""
        moving = [place for place, how in self.procedures.items() if how == "reorder"]
        choices = {place: self._choice(place) for place, how in self.procedures.items() if how == "elect"}
        confirmed = [place for place, how in self.procedures.items() if how == "confirm"]
        if self._state.starts_controllers and (confirmed or moving or choices):
            self._add(*self._texts.start_controllers(are_enough=self._state.controllers_lead_alone))
        if confirmed:
            if not self._look_for_quorum(confirmed, is_elected=True):
                self._give_up_beside(confirmed, [*moving, *choices])
                return
            self._add(*self._texts.confirm(confirmed))
        if not moving and not choices:
            self._start_rest([])
            return
        if self._forbidden and self._way is not None:
            if self._way == CONTROLLER and not self._state.controllers_lead_alone:
                self._start_voters({*choices.values()}, choices, is_joined=False)
            self._now = self._now.after(lambda one: one.forbidden(self._forbidden))
            self._add(self._texts.forbid_unclean(self._forbidden, self._way))
        if moving and self._look_for_quorum(moving):
            self._reorder(moving)
        rounds = order_rounds(choices, self._now.takers_of(choices), self._late(choices))
        self._start_apart(rounds)
        for number, one in enumerate(rounds):
            self._round(one, [place for later in rounds[number + 1 :] for place in later.places])
        self._start_rest(rounds)
        self._judge()
        if self._forbidden:
            self._add(self._texts.restore_config(self._forbidden))
        self._add(self._texts.verify())

    def _late(self, choices: Mapping[TopicPartition, int]) -> set[TopicPartition]:
        """Transaction partitions that are elected after others, whose markers their coordinators would skip if they had no leader (H22).
        Not where the leader of the others has to be down for their election."""
        leaders = {*choices.values()}
        late = set()
        for place in self._coordinated.intersection(choices):
            candidate = choices[place]
            replicas = self._state.partitions[place].replicas
            before = replicas[: replicas.index(candidate)] if candidate in replicas else replicas
            if not leaders <= {candidate, *before, *self._takers[place]}:
                late.add(place)
        return late

    def _start_apart(self, rounds: Sequence[Round]) -> None:
        """If nobody is up, start the brokers that no round is about before a round that elects a transaction coordinator: a partition that
        the coordinator finds without a leader gets no marker (H22)."""
        places = [place for one in rounds for place in one.places]
        if self._coordinated.isdisjoint(places) or self._state.up | self._state.unknown:
            return
        if self._state.controllers_lead_alone:
            about = {broker for place in (*places, *self._open()) for broker in self._state.partitions[place].replicas}
            for broker in sorted(self._state.down - about):
                self._start(broker, f"Start broker {broker}", [self._controllers_lead])

    def held(self, steps: Sequence[Step]) -> list[KeepStopped]:
        """Brokers that, by all `steps`, must not be started before a step: they would lead, or the election would choose them."""
        elections = [step.number for step in steps if step.action in ("elect", "check")]
        voting = {node for step in steps if step.action == "start" for node in step.controllers}
        found: dict[int, KeepStopped] = {}
        for step in steps:
            if step.action != "start" or not elections or step.number < elections[-1]:
                continue
            for broker in step.brokers:
                reasons: dict[str, list[TopicPartition]] = {}
                for place in sorted(self._done):
                    if (reason := self._why_down(place, broker)) is not None:
                        reasons.setdefault(reason, []).append(place)
                if reasons:
                    text = "; ".join(reason.format(list_places(places)) for reason, places in reasons.items())
                    text += "; as a controller only it starts before" if broker in voting else ""
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
            return f"it comes before broker {choice} in the assignment of {{}}, so the election would pick it"
        return None

    def _reorder(self, places: Sequence[TopicPartition]) -> None:
        """Put the candidate first in the assignment, then run a preferred election (H9); all replicas have to be up."""
        orders = {place: chosen_first(self._state, self.decisions[place]) for place in places}
        led: dict[int, list[TopicPartition]] = defaultdict(list)
        for place in places:
            led[self._choice(place)].append(place)
        uncut = [
            text
            for choice, some in sorted(led.items())
            for text in (*self._still_uncut(choice, some), *self._texts.disk_in_use(Round(choice, tuple(some))))
        ]
        for place in self._kinds.one_of_each(orders):
            self._now = self._now.after(partial(Scenario.reordered, place=place, replicas=orders[place]))
        self._done |= set(places)
        if orders:
            self._add(self._texts.reorder(orders, uncut))

    def _round(self, one: Round, later: Collection[TopicPartition]) -> None:
        """Start a candidate alone, elect it and check the result. `later` are the partitions of the rounds that follow."""
        candidate, number = one.candidate_id, len(self._list)
        disk: tuple[str, ...] = ()
        taken = self._kinds.where(later, lambda place: candidate in self._now.takers(place))
        is_simple = self._is_simple(one)
        uncut: list[str] = []
        if not is_simple:
            uncut = self._still_uncut(candidate, one.places)
            rivals = self._rivals(one, taken)
            if candidate in (self._now.up & self._state.up).difference(rivals):
                disk = tuple(self._texts.disk_in_use(one))
            if rivals:
                self._stop(rivals, one, [*uncut, *(self._texts.kept_out(one) if candidate in rivals else ())])
        is_quorum_new = self._start_voters({candidate}, one.places)
        if is_simple:
            text = f"Start broker {candidate} and nothing else: the controller elects it"
            before = [] if self._as_controllers else [self._controllers_lead]
            self._start(candidate, text, [*before, *self._texts.disk_back(one)], leads=True)
            self.procedures.update(dict.fromkeys(one.places, "start"))
        elif candidate not in self._now.up:
            unless = ", unless it is up," if candidate in self._now.perhaps_up else ""
            before = [*self._before_start(one, taken), *uncut, *self._texts.disk_back(one)]
            self._start(candidate, f"Start broker {candidate}{unless} and no other", before, leads=True)
        self._look_for_quorum(one.places)
        if is_quorum_new:
            self._add(self._texts.check_quorum(sorted(self._as_controllers), fences=True))
        kinds = self._kinds.one_of_each(one.places)
        if not is_simple and not all(self._now.is_led_by(place, candidate) for place in kinds):
            by_itself = any(way.leader(place) == candidate for way in self._now for place in kinds)
            led = self._led_coordinated()
            self._now = self._now.after(lambda way: way.elected(one.places))
            self._look()
            self._add(self._texts.elect(one, self._without_markers(led), by_itself=by_itself))
        self._done |= set(one.places)
        self._add(self._texts.check(one, is_elected=not is_simple))
        if disk:
            step, after = self._list[number]
            self._list[number] = SimulatedStep(replace(step, before=(*step.before, *disk)), after)

    def _missing_voters(self) -> tuple[frozenset[int], int]:
        """Combined nodes that do not run, and the number of them that a majority of the controllers needs."""
        voters = self._state.controllers.voters
        down = (voters & self._state.brokers) - self._now.perhaps_up - self._as_controllers
        return down, len(voters) // 2 + 1 - (len(voters) - len(down)) if voters else 0

    def _start_voters(self, candidates: Set[int], places: Iterable[TopicPartition], *, is_joined: bool = True) -> bool:
        """Start as many voters as a majority lacks, as controllers only (D7): as brokers they might lead. Never those that the plan has stopped,
        and candidates only if needed. `is_joined`: beside the candidate, which starts next. False if none is needed, or too few are left."""
        down, lacking = self._missing_voters()
        if is_joined:
            lacking -= len(down & candidates)
            down -= candidates
        able = down - self._stopped - {*self._state.controllers.voteless}
        if not 0 < lacking <= len(able):
            return False
        # Former leaders are the last that start as brokers.
        led = {self._state.partitions[place].leader_id for place in places}
        nodes = sorted(able, key=lambda node: (node in candidates, node not in led, node))[:lacking]
        self._as_controllers.update(nodes)
        self._add(self._texts.start_voters(nodes))
        if not is_joined:
            self._add(self._texts.check_quorum(nodes, fences=True))
        return True

    def _look_for_quorum(self, places: Iterable[TopicPartition], *, is_elected: bool = False) -> bool:
        """False if the controllers lack a quorum without brokers that are down (H16): the partitions are given up.
        `is_elected`: with a quorum, a broker that is up leads by itself."""
        voters = self._state.controllers.voters
        down, lacking = self._missing_voters()
        if lacking <= 0:
            return True
        left = len(voters) - len(down)
        are, them = ("is a controller", "it") if len(down) == 1 else ("are controllers", "them")
        reason = (
            f"{name_brokers(sorted(down))} {are} too, and without {them} only {left} of {len(voters)} controllers "
            f"{'is' if left == 1 else 'are'} left: nobody is elected until a majority is up"
        )
        able = sorted(down.difference(self._state.controllers.voteless))[:lacking]
        if is_elected and len(able) == lacking:
            commands = ", ".join(map(Tools.start_as_controller, able))
            reason += (
                f". Start {name_brokers(able)} as {'a controller' if len(able) == 1 else 'controllers'} only ({commands}) until other "
                f"brokers lead the partitions that {'it' if len(able) == 1 else 'they'} led, then make the plan again"
            )
        for place in places:
            self._give_up(place, reason)
        return False

    def _give_up_beside(self, waiting: Collection[TopicPartition], places: Iterable[TopicPartition]) -> None:
        """Give up those of `places` that share a broker with partitions `waiting` for a quorum: controllers without
        a leader have fenced nobody, so that a broker which is down leads again as soon as it is up."""
        partitions = self._state.partitions
        waiting_on = on_brokers({place: partitions[place].replicas for place in partitions.keys() & waiting})
        for place in places:
            if beside := waiting_on(partitions[place].replicas):
                self._give_up(
                    place,
                    f"its brokers also have {list_places(beside)}, which {verb(len(beside), 'waits', 'wait')} for a majority of the "
                    f"controllers: a broker started before that may lead {verb(len(beside), 'it', 'them')} in place of one that has more",
                )

    def _still_uncut(self, candidate: int, places: Collection[TopicPartition]) -> list[str]:
        """Conditions for a candidate that may be following a leader that cuts it: the cut may have happened since the copy."""
        found = []
        for place in places:
            cutting = {leader for leader, broker in self._harmful.get(place, ()) if broker == candidate}
            leading = {way.leader(place) for way in self._now if candidate in way.up}
            for leader in sorted(cutting & leading):
                found.append(
                    f"Broker {candidate} still has {list_places([place])} {self._how_far(place)}: if it has followed broker "
                    f"{leader} since it was copied, its log was cut. In that case add a new copy to the snapshot, beside this "
                    "one, and audit again"
                )
        if more := found[_MOST_CONDITIONS:]:
            found[_MOST_CONDITIONS:] = [
                f"The same holds for {len(more)} more logs of broker {candidate}: their ends and epochs are in rests_on of the plan as JSON"
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
        before = [self._controllers_lead] if not self._now.up and self._state.controllers_lead_alone else []
        for place in taken[:_MOST_CONDITIONS]:
            before.append(
                f"No producer writes to {list_places([place])} until broker {self._choice(place)} is elected for it: broker "
                f"{one.candidate_id} may lead it meanwhile, and records sent to it then are lost"
            )
        if more := taken[_MOST_CONDITIONS:]:
            before.append(
                f"No producer writes to {list_places(more)} until their planned leaders are elected: broker "
                f"{one.candidate_id} may lead them meanwhile too"
            )
        return before

    @property
    def _controllers_lead(self) -> str:
        if self._state.mode == "zookeeper":
            return _ZOOKEEPER_UP
        return "The controllers have a leader" if self._state.starts_controllers else _CONTROLLERS_UP

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

        Includes brokers with records that partitions in `taken` would lose if the candidate led them meanwhile, and the
        candidate itself if it has to start with a log dir that was offline.
        """
        earlier = {self._choice(place) for place in self._done}
        up = self._now.perhaps_up - {one.candidate_id}
        found = set()
        takers = cache(self._now.takers)
        is_back = any(step.action == "start" and one.candidate_id in step.brokers for step, _ in self._list)
        for place in self._kinds.one_of_each(one.places):
            partition = self._now.ways[0].partitions[place]
            # A log dir that was offline is used again only after a restart.
            kept_out = partition.offline | (frozenset() if is_back else self._state.kept_out.get(place, frozenset()))
            if one.candidate_id in kept_out & self._now.perhaps_up:
                found.add(one.candidate_id)
            for broker in (up & set(partition.replicas)) - partition.offline:
                before = partition.replicas.index(broker) < partition.replicas.index(one.candidate_id)
                # A broker elected in an earlier round stays up, unless this election would choose it.
                if broker not in earlier or before or broker in takers(place):
                    found.add(broker)
        for place in self._kinds.one_of_each(taken):
            found |= {broker for leader, broker in self._harmful.get(place, ()) if leader == one.candidate_id} & up
        leads = {self._now.leader(place) for place in self._kinds.one_of_each(one.places)}
        return sorted(found, key=lambda broker: (broker in leads, broker == one.candidate_id, broker))

    def _stop(self, brokers: Sequence[int], one: Round, before: Sequence[str]) -> None:
        led = [place for place in sorted(self._state.partitions) if self._now.leader(place) is not None]
        perhaps = [broker for broker in brokers if broker not in self._now.up]
        written = self._written_since(brokers)
        for broker in brokers:
            self._now = self._now.after(partial(Scenario.stopped, broker_id=broker))
            self.dragged |= set(self._kinds.where(led, partial(self._is_dragged, stopped=broker)))
        self.outrun |= {
            (broker, place)
            for broker in brokers
            for place, partition in self._state.partitions.items()
            if partition.leader_id == broker and self._is_outrun(place, broker)
        }
        self._stopped |= set(brokers)
        without = [place for place in led if self._now.leader(place) is None]
        self._add(self._texts.stop(brokers, one, without, perhaps, before))
        for broker, places in written.items():
            self._add(self._texts.copy_again(broker, places, self._copies))

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
        """True if the stopped leader of a partition without a plan has more records than a broker that is down and would lead as soon as
        it is up."""
        rows = self._matrix.replicas[place].items()
        ends = {broker: row.log_end_offset for broker, row in rows if row.log_end_offset is not None}
        if self.procedures.get(place) not in (None, "unplanned") or stopped not in ends:
            return False
        down = self._now.takers(place) - self._now.up
        return any(ends.get(broker, ends[stopped]) < ends[stopped] for broker in down)

    def _is_dragged(self, place: TopicPartition, stopped: int) -> bool:
        """True if a leader that should stay was stopped while a worse one is in sync or eligible."""
        stays = self.procedures.get(place) in ("none", "confirm") and self._choice(place) == stopped
        worse = {leader for leader, _ in self._harmful.get(place, ())}
        return stays and not worse.isdisjoint(self._now.takers(place))

    def _start(self, broker: int, text: str, before: Collection[str] = (), *, leads: bool = False) -> None:
        """`leads`: the broker is elected next."""
        led = self._led_coordinated()
        if broker in self._as_controllers:
            self._as_controllers.discard(broker)
            self._add(self._texts.stop_voter(broker))
        if anew := self._anew(broker):
            del self._holed[broker]
            self._add(self._texts.put_aside(broker, anew))
        self._now = self._now.after(partial(Scenario.started, broker_id=broker))
        is_clean = broker in self._stopped & self._state.up
        self._stopped.discard(broker)
        self._look()
        leads |= any(way.leader(place) == broker for way in self._now for place in self._kinds.assigned_to(broker))
        # A broker that the plan has stopped recovers nothing.
        room = self._texts.room(broker, leads=leads and not is_clean)
        before = (*before, *self._without_markers(led), *room, *self._texts.repaired(broker))
        self._add(self._texts.start(broker, text, self._now, before, anew))

    def _anew(self, broker: int) -> list[TopicPartition]:
        """Partitions that a broker which is down fetches anew as it starts (`Matrix.holed`), led by the chosen replica."""
        if broker in self._now.perhaps_up:
            return []
        return [
            place
            for place in self._holed.get(broker, ())
            if self.procedures[place] != "unplanned"
            and self._now.is_led_by(place, self._choice(place))
            and broker in self._now.ways[0].partitions[self._kinds.first(place)].replicas
            and broker not in self._now.offline(place)
        ]

    def _led_coordinated(self) -> set[TopicPartition]:
        """Partitions with a coordinator of transactions in every scenario."""
        return {
            *self._kinds.where(self._coordinated, lambda place: all(way.leader(place) is not None for way in self._now))
        }

    def _without_markers(self, before: Set[TopicPartition]) -> Iterator[str]:
        """A condition for a step that gives transactions a coordinator, besides those led `before`, while other
        partitions have no leader."""
        new = self._coordinated - before
        begun = [(way, [place for place in new if way.leader(place) is not None]) for way in self._now] if new else []
        ways = [way for way, led in begun if led]
        if not ways:
            return

        def is_unled(place: TopicPartition) -> bool:
            return any(way.leader(place) is None for way in ways)

        others = self._state.partitions.keys() - self._coordinated - self._unled
        unled = self._kinds.where(others, is_unled)
        self._unled.update(unled)
        yield from self._texts.markers(sorted({place for _, led in begun for place in led}), sorted(unled))

    def _start_rest(self, rounds: Sequence[Round]) -> None:
        """Start the remaining brokers one at a time: leaders of other partitions first, former leaders of those in `rounds`
        last, since their logs may diverge most."""
        partitions = [self._state.partitions[place] for one in rounds for place in one.places]
        down = {broker for one in partitions for broker in one.replicas} | self._stopped
        is_open = {broker for place in self._open() for broker in self._state.partitions[place].replicas}
        if rounds and not self._state.up | self._state.unknown:
            # The whole site is down, and there is no reason for any single broker to stay down.
            down |= self._state.down - is_open
        down |= self._rebuilt(is_open) | (self._as_controllers - is_open)
        down -= self._now.up
        led = {one.leader_id for one in partitions}
        others = Counter(one.leader_id for place, one in self._state.partitions.items() if place not in self._done)
        for broker in sorted(down, key=lambda broker: (broker in led, -others[broker], broker)):
            condition = "Each partition above has its planned leader, or its preferred leader, which took over in sync"
            self._start(broker, f"Start broker {broker}", [condition] if rounds else [])

    def _rebuilt(self, is_open: Set[int]) -> set[int]:
        """Brokers that are down and would rejoin the ISR with differences that no truncation finds (`Matrix.holed`);
        not where their start may affect other partitions, like that of brokers in `is_open`."""
        found = set()
        for broker in self._holed.keys() - is_open:
            trials = [replace(way, changes=()).started(broker) for way in self._now]
            is_harmless = not any(self._is_wrong(one) for way in trials for one in way.changes)
            if is_harmless and not any(any(self._harm(way)) for way in trials) and self._anew(broker):
                found.add(broker)
        return found

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
        """Partition, leader, and a follower that is cut and so loses the last copy of records that the choice would keep."""
        for place in self._harmed:
            leader = way.partitions[place].leader_id
            cut = [follower for one, follower in self._harmful[place] if one == leader and follower in way.up]
            # A leader after a reassignment has followed the chosen replica, which the reassignment removed.
            if leader is not None and cut and not (place in self._done and self._is_removed(way, place)):
                yield from ((place, leader, follower) for follower in cut)

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
