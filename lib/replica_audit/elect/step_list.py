"""Texts of the steps of elections: words, commands, conditions, and the log of each replica after them."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import NamedTuple

from replica_audit.elect.cluster_state import PresentState, tell_voteless
from replica_audit.elect.cost_matrix import Matrix
from replica_audit.elect.kafka_commands import (
    LISTENERS,
    MOST_NAMES,
    Copies,
    Tools,
    election_file,
    for_names,
    in_order,
    reassignment_file,
)
from replica_audit.elect.plan_model import Decision, Prediction, Step
from replica_audit.elect.simulation import Round, Scenarios
from replica_audit.model import TopicPartition
from replica_audit.protocol.versions import Version, empties_unrecovered, has_log_dir_ids, skips_unled_markers
from replica_audit.results import place_of
from replica_audit.snapshot.log_dir_names import PARTITION_METADATA
from replica_audit.snapshot.transaction_log import TOPIC as TRANSACTION_STATE
from replica_audit.text import count, listed, name_brokers, name_ids, verb

#: Name of the copies of leaders that were stopped, and the columns that show where their logs end.
AFTER_STOP = "after-its-stop"
_ENDS = "topic,partition,broker_id,log_end_offset"

_UNMARKED = (
    "its leader-epoch-checkpoint and replication-offset-checkpoint are not here; without both, its log is cut to its start and fetched "
    "again in full"
)
_MAJORITY = "A majority of the controllers stays up, even if some of these brokers are controllers too: without a majority nobody is elected"


class SimulatedStep(NamedTuple):
    """A step, and the cluster after it, which shows who leads then."""

    step: Step
    after: Scenarios


@dataclass(frozen=True, slots=True)
class StepTexts:
    """The steps of elections, one by one; `complete` puts them in order."""

    _state: PresentState
    _matrix: Matrix
    _decisions: Mapping[TopicPartition, Decision]
    _tools: Tools

    def forbid_unclean(self, topics: Collection[str], way: str) -> Step:
        said = {topic for (topic, _), value in self._state.unclean_said.items() if value}
        unsaid = sorted(set(topics) - said)
        unshown = f"{list_names(unsaid)} (nothing shows whether they are allowed there)" if unsaid else ""
        allowed = list_names(sorted(set(topics) & said))
        commands, files = for_names(
            sorted(topics),
            "forbid-unclean.txt",
            partial(self._tools.set_unclean, value=False, way=way, is_shown=bool(self._perhaps_own(topics))),
        )
        how = "at once" if self._state.mode == "zookeeper" else "within unclean.leader.election.interval.ms (5 minutes)"
        return Step(
            action="forbid_unclean",
            text=f"Forbid unclean elections for {' and for '.join(filter(None, (allowed, unshown)))}: otherwise the first replica to return "
            "would lead. If you switch to a later plan, it finds them forbidden already: restore the setting at its end, as this plan does",
            partitions=tuple(sorted(place for place in self._state.partitions if place[0] in topics)),
            commands=tuple(commands),
            files=files,
            before=(
                f"A {way if way != 'zookeeper' else 'node of ZooKeeper'} answers. Start no broker until this is done: where "
                f"unclean elections are allowed, one happens {how}",
            ),
        )

    def reorder(self, orders: Mapping[TopicPartition, tuple[int, ...]], uncut: Sequence[str]) -> Step:
        """`uncut`: conditions for replicas that may have been cut since they were copied."""
        file = "reassign.json"
        preferred = "elect-preferred.json"
        return Step(
            action="reorder",
            text=f"Put the chosen replica, which is in sync, first in the assignment of {list_places(orders)}, and elect it",
            brokers=tuple(sorted({order[0] for order in orders.values()})),
            partitions=tuple(orders),
            commands=tuple(
                in_order(
                    self._tools.reassign(file),
                    self._tools.reassign(file, verify=True),
                    self._tools.elect("preferred", preferred),
                    self._tools.describe(place[0] for place in orders),
                )
            ),
            files={file: reassignment_file(orders.items()), preferred: election_file(orders)},
            before=(
                "Every replica of these partitions is up: Kafka refuses a reassignment that names a broker that is down",
                *uncut,
            ),
        )

    def stop(
        self,
        brokers: Sequence[int],
        one: Round,
        without: Sequence[TopicPartition],
        perhaps: Sequence[int],
        before: Sequence[str] = (),
    ) -> Step:
        """`without`: partitions that have no leader from then on; `perhaps`: brokers that may be down already."""
        costs = f"; {list_places(without)} {verb(len(without), 'has', 'have')} no leader meanwhile" if without else ""
        order = ", in this order" if len(brokers) > 1 else ""
        unless = f", where {'they are' if len(brokers) > 1 else 'it is'} up" if perhaps else ""
        return Step(
            action="stop",
            text=f"Stop {name_brokers(brokers)}{unless}{order}{',' if unless or order else ''} with SIGTERM{costs}",
            brokers=tuple(brokers),
            partitions=one.places,
            commands=tuple(self._tools.stop(brokers)),
            before=(*before, *(() if self._state.mode == "zookeeper" else [_MAJORITY])),
        )

    def copy_again(self, broker: int, places: Sequence[TopicPartition], copies: Copies) -> Step:
        """Copy records that producers sent to a leader since the snapshot: they are cut as soon as it follows the new leader."""
        ends = [f"{place} at {self._matrix.replicas[place][broker].log_end_offset}" for place in places]
        copied = tuple(copy_commands(self._matrix, copies, broker, places))
        directory = f"{AFTER_STOP}/broker-{broker}"
        return Step(
            action="recopy",
            text=f"Copy {list_places(places)} of broker {broker} again, now that it is stopped: this plan does not count what producers sent "
            "it since the snapshot, and that is deleted once it follows another leader. The last command shows where the logs end; in this "
            f"snapshot: {list_names(ends, 20)}. If one ends later now, go no further: copy all brokers again into a new snapshot, as this "
            "one was copied, audit it, and follow its plan",
            brokers=(broker,),
            partitions=tuple(places),
            commands=(
                *copied,
                f"mkdir -p {directory}",
                *(f"tar -xzf {shlex.split(one)[2]} -C {directory}" for one in copied),
                f"replica-audit show {AFTER_STOP} --table replicas --columns {_ENDS} || true",
            ),
            files=copies.files_of(copied),
        )

    def start_controllers(self, *, are_enough: bool) -> Iterator[Step]:
        """Start the controllers, without which nobody is elected; `are_enough`: they are a majority without any broker."""
        nodes = self._state.controllers.not_up
        able = [node for node in nodes if node not in self._state.controllers.voteless]
        before = []
        if self._state.controllers.is_lost:
            carried_out = "The plan of replica-audit quorum BEFORE is carried out up to the step that starts brokers"
            before.append(f"{carried_out}: {tell_voteless(self._state.controllers.voteless)}")
        for node in able:
            if blank := self._state.blank.get(node):
                before.append(
                    f"Controller {node} starts with the log directory that has its metadata log: with {list_names(blank)} instead, "
                    "empty as in the snapshot, it votes for a node that lacks committed records"
                )
        yield Step(
            action="start",
            text=f"Start {name_ids('controller', nodes)}, {'each ' if len(nodes) > 1 else ''}unless it is up",
            controllers=nodes,
            commands=tuple(map(self._tools.start, nodes)),
            before=(*before, *room_for_metadata(able, self._state.kafka_version, "controller")),
        )
        if are_enough:
            yield self.check_quorum(nodes)

    def start_voters(self, nodes: Sequence[int]) -> Step:
        """Start combined nodes as controllers only."""
        they = "they vote" if len(nodes) > 1 else "it votes"
        return Step(
            action="start",
            text=f"Start {name_ids('node', nodes)} as {verb(len(nodes), 'a controller', 'controllers')} only: {they} for a "
            f"controller, without which nobody is elected, and cannot lead a partition meanwhile. {LISTENERS}",
            controllers=tuple(nodes),
            commands=tuple(map(self._tools.start_as_controller, nodes)),
            before=tuple(room_for_metadata(nodes, self._state.kafka_version)),
        )

    def stop_voter(self, node: int) -> Step:
        """Stop a node that runs as a controller only, to start it as a broker, too."""
        return Step(
            action="stop",
            text=f"Stop node {node}, which runs as a controller only",
            brokers=(node,),
            commands=tuple(self._tools.restart(node)[:-1]),
        )

    def check_quorum(self, nodes: Sequence[int], *, fences: bool = False) -> Step:
        """`fences`: the controllers have yet to see which brokers are down."""
        wait = (
            ". Then wait for broker.session.timeout.ms (9 seconds) at least: until then brokers that are down count as leaders"
            if fences
            else ""
        )
        return Step(
            action="check",
            text=f"Check that the controllers have a leader: without one nobody is elected{wait}",
            controllers=tuple(nodes),
            commands=tuple(self._tools.describe_quorum()[:1]),
        )

    def put_aside(self, broker: int, places: Sequence[TopicPartition]) -> Step:
        """Move a broker's partition directories out of its log dirs, so that it fetches these partitions again."""
        directory = f"put-aside-{broker}"
        futures = sorted(path for place in places for path in self._matrix.future_copies(place, broker))
        # A log known from a text or table has no directory in the snapshot.
        paths = [f"{self._matrix.log_dir(place, broker) or ''}/{place}" for place in places]
        in_turn = sorted(tuple(path.rpartition("/")[::2]) for path in (*paths, *futures))
        moved = (
            shlex.join(["mv", "-T", "--", f"LOG_DIR_OF_{broker}/{name}", f"{directory}/{name}"]) for _, name in in_turn
        )
        them = "it" if len(places) == 1 else "them"
        beside = (
            f", and with {them} {list_names(path.rpartition('/')[2] for path in futures)}, which would "
            "replace what it fetches"
            if futures
            else ""
        )
        return Step(
            action="put_aside",
            text=f"Move {list_places(places)} of broker {broker} out of its log directory{beside}, and keep what you move: "
            f"{'; '.join(self._unfound(broker, places))}. No truncation finds that: broker {broker} would rejoin the ISR, and a preferred "
            "election could make it lead like that. Without its directory it fetches everything from the leader",
            brokers=(broker,),
            partitions=tuple(places),
            commands=(f"mkdir -p {directory}", *moved),
            before=(
                f"Broker {broker} is down",
                f"{directory} is on another disk, or the disk of the log directory has room for {them} twice: on a full disk the log directory "
                "goes offline as the broker fetches",
            ),
            snapshot=tuple("/".join(path) for path in in_turn if path[0]) if futures else (),
        )

    def _unfound(self, broker: int, places: Sequence[TopicPartition]) -> Iterator[str]:
        """Clauses on differences in a broker's logs that no truncation finds."""
        lacked = {place: records for place in places if (records := self._lacked(broker, place))}
        if lacked:
            leaders = sorted({self._decisions[place].candidate_id for place in lacked})
            holed = "its copy here has a hole" if len(lacked) == 1 else "its copies here have holes"
            what = count(sum(lacked.values()), "record")
            yield f"{holed} where {name_brokers(leaders)} {verb(len(leaders), 'has', 'have')} {what}"
        kept = [one for place in places if (one := self._matrix.kept_keys.get(place, {}).get(broker)) is not None]
        if kept:
            leaders = sorted({one.leader_id for one in kept})
            keys = sum(one.keys for one in kept)
            yield (
                f"it has {count(keys, 'key')} that {name_brokers(leaders)} {verb(len(leaders), 'has', 'have')} deleted, and the "
                f"{verb(keys, 'tombstone is', 'tombstones are')} gone too"
            )

    def _lacked(self, broker: int, place: TopicPartition) -> int:
        cut = self._matrix.cut(place, self._decisions[place].candidate_id, broker)
        return 0 if cut is None else cut.lacked_records

    def start(
        self,
        broker: int,
        text: str,
        after: Scenarios,
        before: Sequence[str] = (),
        anew: Collection[TopicPartition] = (),
    ) -> Step:
        """`after`: the cluster once the broker is up; `anew`: partitions whose log on it was put aside."""
        led = {
            place: one.candidate_id for place, one in self._decisions.items() if after.leader(place) == one.candidate_id
        }
        cuts = ((place, self._matrix.cut(place, leader, broker)) for place, leader in led.items())
        gone = [place for place, cut in cuts if cut is not None and cut.dropped_records and place not in anew]
        registered = ((place, self._state.partitions.get(place)) for place in sorted(self._decisions))
        return Step(
            action="start",
            text=text,
            brokers=(broker,),
            partitions=tuple(place for place, one in registered if one is not None and broker in one.replicas),
            commands=(self._tools.start(broker),),
            before=(*before, *self._fenced(broker), *self._fetched_anew(broker, after, anew)),
            irreversible=f"Broker {broker} deletes what it has past the cut in {list_places(gone)}" if gone else None,
        )

    def _fenced(self, broker: int) -> Iterator[str]:
        """A condition for the start of a broker that was seen to run, and that the controllers had fenced."""
        if broker in self._state.fenced_running:
            yield (
                f"If a process of broker {broker} runs that the controllers have fenced, it is stopped with SIGTERM, and the cause is removed that "
                "its log names, or its process.roles (broker is missing): such a broker is not up"
            )

    def _fetched_anew(self, broker: int, after: Scenarios, anew: Collection[TopicPartition]) -> Iterator[str]:
        """Conditions for the start of a follower that begins empty, or is cut to its log start."""
        led: dict[tuple[int, str], list[TopicPartition]] = defaultdict(list)
        for place in anew:
            leader = after.leader(place)
            assert leader is not None
            led[leader, "it has nothing until then"].append(place)
        # Recovery after an unclean stop writes the epoch file anew.
        for place in self._matrix.unmarked.get(broker, ()) if broker in self._state.clean else ():
            leader = after.leader(place)
            if leader not in (None, broker) and place not in anew:
                led[leader, _UNMARKED].append(place)
        for (leader, why), places in sorted(led.items()):
            yield f"Broker {leader} stays up until broker {broker} is in sync with {list_places(places)} again: {why}"
        if anew and any(broker in one.offline for one in self._state.partitions.values()):
            yield (
                f"The offline log directory of broker {broker} is back: while one is offline the broker begins no new log, and stays out of sync "
                f"with {list_places(sorted(anew))}"
            )

    def repaired(self, broker: int) -> Iterator[str]:
        """A condition for starting a broker that cannot read some of its files."""
        if refused := self._state.refused.get(broker):
            codes = sorted({code for code, _ in refused.values()})
            them = "it" if len(refused) == 1 else "them"
            aside = f"; it sets a log without {PARTITION_METADATA} aside as -stray, and begins an empty one"
            aside = aside if any(path.endswith(PARTITION_METADATA) for path in refused) else ""
            yield (
                f"You have repaired {list_names(sorted(refused), 4)} of broker {broker} by hand, as replica-audit explain {' and '.join(codes)} "
                f"says, without rebuilding a log for it: with {them} as found here the broker exits, takes the log directory offline, or goes "
                f"on as if {verb(len(refused), 'it were', 'they were')} missing{aside}"
            )
            for path, (_, lines) in [one for one in sorted(refused.items()) if one[1][1]][:4]:
                source = "metadata log" if path.endswith(PARTITION_METADATA) else "batches beside it"
                yield f"By the {source} the lines of {path} are {lines}"

    def markers(self, coordinated: Sequence[TopicPartition], unled: Sequence[TopicPartition]) -> Iterator[str]:
        """A condition for a step after which the `coordinated` partitions of transactions have leaders, and `unled` ones have none (H22)."""
        if unled:
            them = verb(len(unled), "it", "them")
            yield (
                f"{list_places(unled)} may have no leader yet. A transaction coordinator then takes {them} for deleted (4.3.1) and writes "
                "no marker there: a transaction that was about to end hangs, and read_committed consumers see nothing of it. "
                f"kafka-dump-log.sh --transaction-log-decoder shows such transactions in {list_places(coordinated)} (PrepareCommit, PrepareAbort), "
                f"with their partitions{self._pending(unled)}. If there is one, go on; after the last step audit again: replica-audit "
                "explain TXN-HANGING says how to recover its records"
            )

    def _pending(self, unled: Sequence[TopicPartition]) -> str:
        """A clause on transactions that the copies here show to be open in some partitions, and how to look at them again."""
        pending = self._state.pending
        found = [f"{one} in {list_places([place])}" for place in unled for one in pending.get(place, ())]
        if not found:
            return ""
        return f"; in the copies here these are {list_names(found)}, which kafka-transactions.sh describe --transactional-id shows later"

    def is_coordinated(self, place: TopicPartition) -> bool:
        """True for a partition whose leader coordinates transactions, and skips markers where it finds no leader (H22)."""
        return place[0] == TRANSACTION_STATE and skips_unled_markers(self._state.kafka_version) is not False

    def room(self, broker: int, *, leads: bool) -> Iterator[str]:
        """A condition for the start of a broker that `leads` with the logs that it recovers then, or votes with its metadata log (H20)."""
        if empties_unrecovered(self._state.kafka_version) is False:
            return
        if leads and broker not in self._state.clean:
            since = "" if self._state.kafka_version else ", since Kafka 4.0,"
            yield (
                f"The disks of broker {broker} have room: on a full disk it empties{since} the logs that it recovers after a crash, "
                "and leads with them"
            )
        elif broker in self._state.controllers.voters.difference(self._state.controllers.voteless):
            yield from room_for_metadata([broker], self._state.kafka_version, "broker")

    def disk_back(self, one: Round) -> Iterator[str]:
        """Conditions for the start of a candidate whose log dir with some of its partitions is offline, or may have been replaced by
        an empty one, or by one with less."""
        candidate = one.candidate_id
        starts = "starts" if candidate in self._state.up | self._state.down else "starts, or runs if it is up,"
        yield from (f"Broker {candidate} {starts} with {what}" for what in self._right_disk(one))
        perhaps = self._kept_out(one)
        offline = [place for place in one.places if candidate in self._state.partitions[place].offline]
        if offline or (perhaps and candidate not in self._state.down):
            unless = "" if offline else " if the broker was up and did not lead"
            yield (
                f"The log directory of broker {candidate} with {list_places(offline or perhaps)}, which is offline{unless}, is back in its "
                "place, readable and with all its files, including meta.properties: if it is empty, the broker begins empty logs there and "
                "leads with them. If it is lost, follow the plan of elect with --candidate instead"
            )

    def kept_out(self, one: Round) -> Iterator[str]:
        """A condition for stopping a candidate that is not elected though entitled to lead."""
        if places := self._kept_out(one):
            yield (
                f"Broker {one.candidate_id} does not lead {list_places(places)}, though it is in sync or eligible. If it does, "
                "the source that names no leader is out of date: make it again, and audit again"
            )

    def _kept_out(self, one: Round) -> list[TopicPartition]:
        """Partitions that the candidate would lead if it could."""
        return [place for place in one.places if one.candidate_id in self._state.kept_out.get(place, ())]

    def disk_in_use(self, one: Round) -> Iterator[str]:
        """Conditions for a candidate that is up, or may be: nothing shows that it runs with the log dir that has its log."""
        candidate = one.candidate_id
        runs = "runs" if candidate in self._state.up else "runs, or is started,"
        yield from (
            f"Broker {candidate} {runs} with {what}. If it does not, stop it, copy all brokers again into a new snapshot, and "
            "follow its plan"
            for what in self._right_disk(one)
        )

    def _right_disk(self, one: Round) -> Iterator[str]:
        """For each other log dir of a candidate that is empty or has less: which one to use instead, and what happens otherwise."""
        candidate = one.candidate_id
        logs = {place: self._matrix.replicas[place][candidate] for place in one.places}
        shorter = {
            row.log_dir: place
            for place, own in logs.items()
            for row in self._matrix.other_disks(place, candidate)
            if (row.log_end_offset or 0) < (own.log_end_offset or 0)
        }
        held = list_names(sorted({row.log_dir for row in logs.values()}))
        start = f"the log directory that the snapshot has as {held}, or with a copy of it, in its place: with"
        if blank := self._state.blank.get(candidate):
            yield f"{start} {list_names(blank)} instead, empty as in the snapshot, it begins empty logs and leads with them"
        for log_dir, place in sorted(shorter.items()):
            yield f"{start} {log_dir} instead, it leads with less, such as a shorter log of {place}"

    def elect(self, one: Round, conditions: Iterable[str], *, by_itself: bool) -> Step:
        """`conditions` besides those of every election; `by_itself`: the broker may lead already, which cannot be known beforehand."""
        file = f"elect-broker-{one.candidate_id}.json"
        single = len(one.places) == 1
        offline = {broker for place in one.places for broker in self._state.partitions[place].offline} - {
            one.candidate_id
        }
        with_disk = f" (the log directory of {name_brokers(sorted(offline))} is offline)" if offline else ""
        return Step(
            action="elect",
            text=f"Elect broker {one.candidate_id} for {list_places(one.places)}",
            brokers=(one.candidate_id,),
            partitions=one.places,
            commands=tuple(self._tools.elect("unclean", file)),
            files={file: election_file(one.places)},
            before=(
                f"{list_places(one.places)} {'has' if single else 'have'} no leader"
                f"{f', or broker {one.candidate_id} leads by itself' if by_itself else ''}: where there is a leader, the tool "
                "changes nothing and still exits with 0",
                f"Of {'its' if single else 'their'} replicas only broker {one.candidate_id} is up{with_disk}: Kafka elects the first live "
                "one in the order of the assignment",
                *conditions,
            ),
            irreversible=f"Every replica that starts after this follows broker {one.candidate_id} and is cut to its log",
        )

    def confirm(self, places: Collection[TopicPartition]) -> Iterator[Step]:
        """Confirm leaders; `places`: partitions whose leader is the best choice but may be down, or leads once the controller
        has elected it."""
        leaders: dict[int, list[TopicPartition]] = {}
        for place in places:
            leaders.setdefault(self._decisions[place].candidate_id, []).append(place)
        for broker, led in sorted(leaders.items()):
            others = f"no other replica of {verb(len(led), 'it', 'them')}"
            if broker in self._state.up:
                otherwise = f"Until it does, start {others}. Only a controller elects it: if the controllers are down, start them"
            else:
                otherwise = (
                    f"If it is down, start it, and {others} before it leads. If it is up and does not lead, start and stop nothing: "
                    "run elect again, with the brokers that are up in --up, and follow that plan"
                )
            yield Step(
                action="check",
                text=f"Check that broker {broker} leads {list_places(led)}. {otherwise}",
                brokers=(broker,),
                partitions=tuple(led),
                before=tuple(self.disk_in_use(Round(broker, tuple(led)))),
                commands=tuple(self._tools.describe((place[0] for place in led), is_any_version=True)),
            )

    def check(self, one: Round, *, is_elected: bool) -> Step:
        """`is_elected`: a tool elected the candidate; otherwise its start makes it lead. A candidate whose log
        directory the controllers learn of only later is elected when it starts (KIP-858; X, 4.3.1)."""
        broker = one.candidate_id
        if is_elected:
            further = ": the tool's exit status 0 does not prove it"
        elif self._state.mode == "zookeeper" or has_log_dir_ids(self._state.kafka_version) is False:
            further = ""
        else:
            further = (
                f". If nobody does though broker {broker} is up, stop it with SIGTERM and start it once more: the controllers knew another log "
                "directory of it when it came back"
            )
        return Step(
            action="check",
            text=f"Check that broker {broker} leads {list_places(one.places)}{further}",
            brokers=(one.candidate_id,),
            partitions=one.places,
            commands=tuple(self._tools.describe(place[0] for place in one.places)),
        )

    def restore_config(self, topics: Collection[str]) -> Step:
        """Set unclean.leader.election.enable back. If the topic has no value of its own, or may have none, the
        setting is deleted, so that the cluster's value applies again."""
        said = {place[0]: self._state.unclean_said[place] for place in self._state.partitions}
        names = sorted(topics)
        before = {topic: said[topic] if self._state.own_unclean.get(topic) else None for topic in names}
        groups = [[topic] for topic in names]
        if len(topics) > MOST_NAMES:
            groups = [[topic for topic in names if before[topic] is value] for value in (False, None, True)]
        commands: list[str] = []
        files: dict[str, str] = {}
        for alike in filter(None, groups):
            value = before[alike[0]]
            of_value, file = for_names(
                alike, f"unclean-{str(value).lower()}.txt", partial(self._tools.set_unclean, value=value)
            )
            commands += of_value
            files |= file
        text = f"Set unclean.leader.election.enable of {list_names(names)} back to what it was, unless you want it to stay false"
        if doubtful := self._perhaps_own(topics):
            text += (
                f". Nothing shows whether {list_names(doubtful)} had a value of its own: if --describe showed one before the change, set it "
                "again with --add-config; if not, --delete-config, as printed, makes the topic inherit it again"
            )
        return Step(action="restore_config", text=text, commands=tuple(commands), files=files)

    def _perhaps_own(self, topics: Collection[str]) -> list[str]:
        """Topics of which nothing shows whether they have their own unclean.leader.election.enable."""
        return [topic for topic in sorted(topics) if self._state.own_unclean.get(topic) is None]

    def verify(self) -> Step:
        return Step(
            action="verify",
            text="Copy the log directories again, and check that every follower kept what this plan predicts: BEFORE is this snapshot, "
            "AFTER the new one, and plan.json this plan, written by elect --plan plan.json",
            commands=("replica-audit verify BEFORE AFTER --plan plan.json",),
        )

    def complete(self, steps: Iterable[SimulatedStep]) -> Iterator[Step]:
        """The steps in order, numbered, each with the leaders after it and the logs that follow the planned leader from then on."""
        planned = [place for place in sorted(self._decisions) if place in self._state.partitions]
        told: set[tuple[TopicPartition, int]] = set()
        reassigned: frozenset[TopicPartition] = frozenset()
        for number, (step, after) in enumerate(steps, 1):
            predicted: tuple[Prediction, ...] = ()
            if step.action in ("start", "elect", "reorder"):
                predicted = tuple(self._predict(after, planned, told))
                told.update((place_of(one), one.broker_id) for one in predicted)
            yield replace(
                step,
                number=number,
                after=predicted,
                leaders=tuple((*place, after.leader(place)) for place in planned),
                irreversible=_with_removed(step.irreversible, sorted(after.reassigned - reassigned)),
            )
            reassigned |= after.reassigned

    def _predict(
        self, after: Scenarios, places: Iterable[TopicPartition], told: Collection[tuple[TopicPartition, int]]
    ) -> Iterator[Prediction]:
        """Logs of replicas that follow the planned leader, or one that loses as much and leads by right; not those that are
        `told`, nor those that a reassignment removes."""
        kinds = after.kinds
        gained = cache(after.epochs_gained)
        for place in kinds.where(places, after.is_led_by_one):
            decision, choice = self._decisions[place], after.leader(place)
            if choice is None or choice not in (decision.candidate_id, *decision.equals):
                continue
            chosen = next(one for one in decision.candidates if one.candidate_id == choice)
            partition = self._state.partitions[place]
            if choice in partition.removing:
                continue
            absent = partition.removing | after.offline(place)
            for broker in partition.replicas:
                cut = self._matrix.cut(place, choice, broker)
                if broker in absent or broker not in after.up or cut is None or (place, broker) in told:
                    continue
                epoch = partition.leader_epoch + gained(kinds.first(place))
                yield Prediction(
                    *place,
                    broker_id=broker,
                    leader_id=choice,
                    leader_epoch=epoch if place in self._state.epoch_said else None,
                    truncate_to=None if broker == choice else cut.kept_to,
                    dropped_records=cut.dropped_records,
                    log_end_offset=chosen.log_end_offset,
                )


def room_for_metadata(nodes: Sequence[int], version: Version | None, kind: str = "node") -> Iterator[str]:
    """A condition for the start of voters, which recover their whole metadata log then, however they were stopped (H20)."""
    if nodes and empties_unrecovered(version) is not False:
        since = "" if version else ", since Kafka 4.0,"
        yield (
            f"There is room on the disk with the metadata log of {name_ids(kind, nodes)}: a node recovers this log at "
            f"every start, and on a full disk it empties the log{since} and votes for a node that lacks committed records"
        )


def _with_removed(irreversible: str | None, ended: Sequence[TopicPartition]) -> str | None:
    """`irreversible`, a clause on what a step cannot undo, extended by the replicas that the reassignments in `ended` remove."""
    if not ended:
        return irreversible
    removed = f"The reassignment of {list_places(ended)} ends, and the replicas that it removes are deleted"
    return f"{irreversible}; {removed[:1].lower()}{removed[1:]}" if irreversible else removed


def copy_commands(matrix: Matrix, copies: Copies, broker: int, places: Iterable[TopicPartition]) -> Iterator[str]:
    """A command for each log dir of the broker that has any of the partitions, as far as the snapshot shows which."""
    in_log_dir: dict[str, list[TopicPartition]] = defaultdict(list)
    for place in places:
        in_log_dir[matrix.log_dir(place, broker) or ""].append(place)
    for _, some in sorted(in_log_dir.items()):
        yield copies.of_partitions(broker, some)


def list_names(names: Iterable[str], limit: int = 5) -> str:
    """`a`, `a and b`, `a, b and 4 more`; "" for no names."""
    names = list(names)
    if len(names) > limit:
        names = [*names[: limit - 1], f"{len(names) - limit + 1} more"]
    return listed(names)


def on_brokers(
    brokers_of: Mapping[TopicPartition, Iterable[int]],
) -> Callable[[Iterable[int]], list[TopicPartition]]:
    """Make a function that, given brokers, lists the partitions on any of them; `brokers_of` has the brokers of each partition."""
    places: dict[int, list[TopicPartition]] = defaultdict(list)
    for place, brokers in brokers_of.items():
        for broker in brokers:
            places[broker].append(place)
    return lambda brokers: sorted({place for broker in brokers for place in places.get(broker, ())})


def list_places(places: Iterable[TopicPartition]) -> str:
    """Names of partitions, joined like `list_names`."""
    return list_names(map(str, places))
