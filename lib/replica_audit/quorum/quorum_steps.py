"""The plan that puts the chosen metadata log into force, or keeps what must be kept where there is none.

Sequences are those that held on real controllers (docs/semantics.md, part I): seeds get the chosen log without its
quorum-state, voters of a dynamic quorum (KIP-853) get their old directory id back, and nothing is ever formatted with
--standalone or started blank while the right log is down.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from replica_audit.elect.kafka_commands import (
    CHOSEN_LOG,
    Copies,
    Tools,
    pack_metadata,
    put_metadata_aside,
    put_quorum_state,
    quorum_state_file,
    restore_stray,
    set_directory_id,
    unpack_metadata,
)
from replica_audit.elect.plan_model import Step
from replica_audit.model import Place, ReplicaDir
from replica_audit.quorum.answer_model import Lost
from replica_audit.quorum.broken_rules import goes_on
from replica_audit.quorum.choosing import Chosen, barred_voters, best_of, foreign_text
from replica_audit.quorum.held_metadata import HeldMetadata
from replica_audit.snapshot.metadata.histories import seen_epoch
from replica_audit.snapshot.metadata.kraft_records import Voters
from replica_audit.snapshot.metadata.log_copies import MetadataCopy
from replica_audit.snapshot.metadata.quorum import name_nodes, parting
from replica_audit.text import capitalise, count, listed

_OPERATORS = "Whatever starts or repairs nodes by itself is paused: systemd's Restart=, Strimzi's Cluster Operator, a job that does it"
_NO_CHOICE = {
    "keep_both": "what one history holds the other does not, and both were in use: which topics and changes to give up is for people. "
    "Keep every copy, start nothing meanwhile, and stop producers: brokers that are up go on acknowledging records to topics that may be "
    "given up, and consumers can read those as long as they are up",
    "none": "no copy here holds what brokers have applied: look for disks and backups of nodes, brokers too, that are not in this "
    "snapshot, add them to it, and run quorum again",
}
_COPIED_TWICE = (
    "No controller ran while this snapshot was copied, or a second one, controllers last, says the same: what a running quorum wrote "
    "since then is lost with its log"
)
_ELECT_FIRST = "The copies that elect asks for are made, and by what elect says no other node has to be first"
_NO_ARCHIVE = "No archive of these names exists yet: an earlier one may be the only copy of what is gone now"
#: Brokers before this version delete a directory that is not theirs.
_FIRST_STRAY = (3, 6, 1)
_UNREAD = "part of the newest log cannot be read: keep the disk that it is on, read it again from there or from a backup, and run quorum again"


@dataclass(frozen=True, slots=True)
class Planned:
    """The steps, without numbers, and why they end with copies where they do."""

    steps: tuple[Step, ...] = ()
    reason: str | None = None


def plan_quorum(held: HeldMetadata, chosen: Chosen, tools: Tools, lost: Lost | None) -> Planned:
    """The plan for a verdict; of `agree` none. `lost` is what the choice loses."""
    if chosen.verdict == "agree" or held.voters is None:
        lacking = chosen.verdict != "agree"
        return Planned(tuple(_keep(held)) if lacking else (), "nothing here names the voters" if lacking else None)
    if chosen.verdict == "rejoin":
        return Planned(tuple(_replace_voters(held, tools)))
    copy = chosen.copy
    if copy is None and chosen.verdict == "none" and held.unread:
        return Planned(tuple(_keep(held)), _UNREAD)
    if copy is None:
        return Planned(tuple(_keep(held)), f"{_NO_CHOICE[chosen.verdict]}{_ways_on(held, chosen)}")
    voters = copy.voters(held.snapshot) or held.voters
    plan = _Plan(held, chosen, copy, voters, tools, lost)
    if (reason := plan.obstacle()) is not None:
        return Planned(tuple(_keep(held)), reason)
    return Planned((*_keep(held), *plan.steps()))


def _ways_on(held: HeldMetadata, chosen: Chosen) -> str:
    """How to go on with one of several histories, as sentences."""
    if chosen.verdict != "keep_both":
        return ""
    told = []
    for history in held.histories:
        if history.is_spliced:
            told.append(f"the log of {history.nodes} is spliced, and no plan is known that starts with it")
        elif (node := best_of(held, history).node_id) is not None:
            told.append(f"quorum --choose {node} has the plan for that of {history.nodes}, and names what it gives up")
    return f". Once that is decided: {'; '.join(told)}"


def _keep(held: HeldMetadata) -> Iterator[Step]:
    """Disks that are not in the snapshot, then copies of all that are."""
    # Archives of elect's plan, which may be made in the same directory, have other names.
    copies = Copies("metadata")
    here = {one.node_id for one in held.compared.copies}
    voters = () if held.voters is None else held.voters.ids
    absent = [node for node in voters if node not in here]
    absent += sorted({one.node_id for one in held.hidden if one.node_id in voters})
    silent = [node for node in held.brokers if node not in (*here, *voters)]
    if absent or silent:
        yield Step(
            action="capture",
            text=f"See whether a disk with the metadata log of {name_nodes((*absent, *silent))}, or a backup of it, still exists, which "
            "this snapshot does not have: it may hold more than any copy here. If so, do not start it, copy it into the snapshot, and run "
            "quorum again",
            controllers=tuple(absent),
            brokers=tuple(silent),
        )
    nodes = {one.node_id: held.role(one) for one in held.compared.copies}
    known = {node: role for node, role in nodes.items() if node is not None}
    yield Step(
        action="copy",
        text="Start nothing before the metadata log of every node is copied: a node that follows cuts its own without a warning. "
        "LOG_DIR_OF_N is the log directory of node N with __cluster_metadata-0 (metadata.log.dir, else the first of log.dirs); run the "
        "commands as the user that runs Kafka",
        brokers=tuple(sorted(node for node, role in known.items() if role == "broker")),
        controllers=tuple(sorted(node for node, role in known.items() if role != "broker")),
        commands=tuple(
            copies.of_metadata(node, "broker" if role == "broker" else "controller")
            for node, role in sorted(known.items())
        ),
        before=(_OPERATORS, _NO_ARCHIVE),
        snapshot=tuple(one.log.path for one in held.compared.copies),
    )


def _place_on(one: ReplicaDir) -> tuple[int, str, int]:
    return one.broker_id, one.topic, one.partition


def _named(nodes: Sequence[int]) -> str:
    return capitalise(name_nodes(nodes))


def _their(nodes: Sequence[int]) -> str:
    return "its" if len(nodes) == 1 else "their"


def _replace_voters(held: HeldMetadata, tools: Tools) -> Iterator[Step]:
    """Voters that were formatted anew, while a majority votes."""
    assert held.voters is not None
    directories = dict(held.voters.directories)
    for node in barred_voters(held):
        yield Step(
            action="replace_voter",
            text=f"Put node {node}, which was formatted anew, into the place of the voter that it was. The second command is for its host; "
            "where it times out, run it again: until then the node only observes",
            controllers=(node,),
            commands=tuple(tools.replace_voter(node, directories[node])),
            before=(
                f"A majority of the voters is up, and node {node} runs and has caught up as an observer: kafka-metadata-quorum.sh describe "
                "--replication shows it",
                "It is removed before it is added: an id that is among the voters cannot be added",
            ),
        )
    yield Step(
        action="check",
        text="See that every voter is there with the directory that it has now, and that its lag goes to 0",
        commands=tuple(tools.describe_quorum()),
    )


class _Plan:
    """The steps after the copies, for one chosen copy."""

    def __init__(
        self, held: HeldMetadata, chosen: Chosen, copy: MetadataCopy, voters: Voters, tools: Tools, lost: Lost | None
    ) -> None:
        self._given_up = () if lost is None else lost.stray
        self._may_be_skew, self._asked = chosen.may_be_skew, chosen.asked
        self._held, self._copy, self._voters, self._tools = held, copy, voters, tools
        self._directories = dict(voters.directories)
        self._is_dynamic = bool(voters.directories)
        self._needed = self._proven()
        self._holders = self._with_the_choice()
        self._majority = len(voters.ids) // 2 + 1
        self._lacking = [node for node in voters.ids if node not in self._holders]
        self._seen = max(map(seen_epoch, held.compared.copies))
        self._combined = [node for node in voters.ids if node in held.brokers]
        self._fetches = len(self._holders) >= self._majority
        """Those that lack it get it from a leader, since a majority has it."""
        self._apart = [
            one.node_id
            for one in held.copies
            if one.node_id is not None and one.node_id not in voters.ids and goes_on(one, copy)
        ]
        self._stray = list(self._wrongly_stray())
        self._bereft = sorted({one.broker_id for one in self._given_up})
        """Brokers with partitions that the chosen log does not assign to them."""

    def obstacle(self) -> str | None:
        """Why no sequence of steps is known to lead there."""
        if self._asked and (reason := self._unfit()) is not None:
            return reason
        if self._copy.problems:
            return f"part of the chosen log cannot be read: {'; '.join(reason for _, _, reason in self._copy.problems)}"
        if self._held.inventory.cluster_id is None and self._unformatted():
            return "no meta.properties names the cluster's id, with which empty disks are formatted"
        if self._held.lacks_beginning(self._copy):
            return (
                f"the chosen log begins at offset {self._copy.start_offset}, and the .checkpoint of what came before is damaged in "
                f"{self._copy.log.path}: no node starts with it. Put a sound one of the same name from another node there, and run quorum again"
            )
        if self._copy.node_id is None:
            return (
                f"nothing says whose the chosen log is: put the meta.properties of its log directory beside {self._copy.log.path}, and run "
                "quorum again"
            )
        strangers = {one.broker_id for one in self._held.foreign}
        if strangers.intersection(self._voters.ids):
            return f"{foreign_text(self._held)}; no voter joins with another cluster's id"
        several = [one for one in (self._copy.node_id, *self._voters.ids, *self._apart) if len(self._own(one)) > 1]
        if several:
            paths = [copy.log.path for copy in self._own(several[0])]
            return (
                f"node {several[0]} has several logs here, {listed(paths)}, and nothing tells which it starts with. If the chosen one is "
                "a backup, put it into the node's log directory and keep the other elsewhere; then copy the node again, without "
                "the other, and run quorum again"
            )
        begun = set(map(_place_on, self._held.inventory.replicas))
        taken = [one for one in self._stray if _place_on(one) in begun]
        if taken:
            return (
                f"broker {taken[0].broker_id} has {taken[0].topic}-{taken[0].partition} beside {taken[0].path}, which is of the topic that the "
                "chosen log knows: records may be in both, and the broker starts with one only"
            )
        twice = [one for one, number in Counter(map(_place_on, self._stray)).items() if number > 1]
        if twice:
            broker, topic, partition = twice[0]
            paths = [one.path for one in self._stray if _place_on(one) == twice[0]]
            return (
                f"broker {broker} has several directories of {topic}-{partition}, {listed(paths)}, of the topic that the chosen log knows: "
                "records may be in each, and the broker starts with one only"
            )
        unknown = [node for node in self._lacking if self._is_dynamic and node not in self._directories]
        if unknown:
            return f"the log does not say from which directory {name_nodes(unknown)} votes"
        return None

    def _unfit(self) -> str | None:
        """Why a log that was asked for is not one to start with."""
        history = next(one for one in self._held.histories if any(copy is self._copy for copy in one.copies))
        newest = best_of(self._held, history)
        if history.is_spliced:
            return f"the log of {history.nodes} is spliced from two histories, and no plan is known that starts with it"
        if newest.newness > self._copy.newness:
            return f"the log of node {newest.node_id} continues that of node {self._copy.node_id}: choose that"
        return None

    def steps(self) -> Iterator[Step]:
        """In order, without numbers."""
        yield from self._stop()
        yield from self._copy_given_up()
        if self._fetches:
            yield from map(self._empty, self._lacking)
        else:
            yield self._pack()
            yield from map(self._seed, self._lacking)
        if self._raises_epoch:
            yield from map(self._mend_epoch, self._holders)
        yield from map(self._put_broker_aside, self._apart)
        yield from self._put_back()
        yield from self._start()
        yield from self._see()

    def _proven(self) -> int:
        number = self._held.history_of(self._copy)
        return (
            self._copy.end_offset
            if number is None
            else min(self._held.proven[number].end_offset, self._copy.end_offset)
        )

    def _own(self, node: int) -> list[MetadataCopy]:
        return [one for one in self._held.compared.copies if one.node_id == node]

    def _holds(self, node: int) -> bool:
        return any(
            self._voters.admits(node, one.log.directory_id)
            and parting(self._copy, one) is None
            and one.end_offset >= max(self._needed, 1)
            and not one.problems
            and not self._held.lacks_beginning(one)
            and one.log.path not in self._held.compared.refused
            and (one.newness == self._copy.newness or self._needed > 0)
            for one in self._own(node)
        )

    def _with_the_choice(self) -> list[int]:
        """Voters that keep their logs; none where none of them goes as far as the chosen one, and that holds more."""
        holders = [node for node in self._voters.ids if self._holds(node)]
        own = [one for node in holders for one in self._own(node)]
        if not own or not self._held.moments.at_rest:
            return holders
        longest = max(own, key=lambda one: one.newness)
        is_short = longest.newness < self._copy.newness
        return [] if is_short and self._held.contents(longest) != self._held.contents(self._copy) else holders

    @property
    def _raises_epoch(self) -> bool:
        if self._copy.epoch < self._seen:
            return True
        known = [seen_epoch(one) for node in self._holders for one in self._own(node)]
        return self._fetches and self._held.moments.at_rest and max(known) < self._seen

    def _unformatted(self) -> list[int]:
        formatted = {one.broker_id for one in self._held.inventory.log_dirs if one.cluster_id is not None}
        return [node for node in self._lacking if node not in formatted]

    def _stop(self) -> Iterator[Step]:
        stopped = self._lacking if self._fetches and not self._raises_epoch else list(self._voters.ids)
        if stopped:
            before = (_COPIED_TWICE,) if self._may_be_skew else ()
            step = self._stop_nodes(stopped, f", with SIGTERM. {self._others()}")
            yield replace(step, brokers=(), controllers=step.brokers, before=before)
        strays = sorted({one.broker_id for one in self._stray}.difference(self._apart, stopped))
        bereft = [one for one in self._bereft if one not in (*stopped, *self._apart, *strays)]
        if self._apart:
            have = "it has" if len(self._apart) == 1 else "they have"
            why = f"{have} records that the chosen log does not have, and a broker dies that a leader asks to truncate below what it has applied"
            yield self._stop_nodes(self._apart, f": {why}")
        if strays:
            yield self._stop_nodes(strays, f": directories of {_their(strays)} partitions are put back")
        if bereft:
            yield self._stop_nodes(bereft, f": partitions of {_their(bereft)} own are given up, and are copied first")

    def _stop_nodes(self, nodes: Sequence[int], why: str) -> Step:
        return Step(
            action="stop",
            text=f"Stop {name_nodes(nodes)}, where {'it is' if len(nodes) == 1 else 'they are'} up{why}",
            brokers=tuple(nodes),
            commands=tuple(self._tools.stop(nodes)),
        )

    def _copy_given_up(self) -> Iterator[Step]:
        """Partitions that the chosen log does not assign to their brokers, before these set the directories aside."""
        given_up = {(one.broker_id, one.topic, one.partition) for one in self._given_up}
        in_log_dir: dict[tuple[int, str], list[Place]] = defaultdict(list)
        for one in self._held.inventory.replicas:
            if _place_on(one) in given_up:
                in_log_dir[one.broker_id, one.log_dir].append((one.topic, one.partition))
        if not in_log_dir:
            return
        copies = Copies("given-up")
        commands = [copies.of_partitions(broker, sorted(places)) for (broker, _), places in sorted(in_log_dir.items())]
        records = sum(one.records for one in self._given_up)
        yield Step(
            action="copy",
            text=f"Copy the partitions that the chosen log does not know, or not on these brokers: {self._fate()}, no cluster serves "
            f"their {count(records, 'record')} any more, and these copies are where they can be had from. LOG_DIR_OF_N is here the log "
            "directory that has what the command names",
            brokers=tuple(self._bereft),
            partitions=tuple(sorted({place for places in in_log_dir.values() for place in places})),
            commands=tuple(commands),
            files=copies.files_of(commands),
            before=(
                f"{_named(self._bereft)} {'is' if len(self._bereft) == 1 else 'are'} stopped, and their producers are too",
                _NO_ARCHIVE,
            ),
        )

    def _fate(self) -> str:
        """What brokers do to directories that are not theirs, as a clause (KAFKA-15605)."""
        version = self._tools.kafka_version
        if version is not None and version < _FIRST_STRAY:
            return "brokers before Kafka 3.6.1 delete their directories"
        return "their directories become -stray" + (
            " (before Kafka 3.6.1 brokers delete them)" if version is None else ""
        )

    def _others(self) -> str:
        text = "Start no other broker meanwhile"
        handled = {*self._voters.ids, *self._bereft, *(one.broker_id for one in self._stray)}
        nodes = sorted({one.node_id for one in self._held.copies if one.node_id is not None} - handled)
        if nodes and not self._apart:
            stay, they = ("stays as it is", "it") if len(nodes) == 1 else ("stay as they are", "they")
            text = f"{_named(nodes)} {stay}, up or down: the chosen log has all that {they} applied"
        return (
            f"{text}. {_named(self._combined)} are brokers too, and serve nothing while they are stopped"
            if self._combined
            else text
        )

    def _pack(self) -> Step:
        node = self._copy.node_id
        assert node is not None
        others = [one for one in self._lacking if one != node]
        hosts = f"the host{'s' if len(others) > 1 else ''} of {name_nodes(others)}"
        return Step(
            action="pack",
            text=f"Pack the metadata log of node {node}, without its quorum-state, and bring {CHOSEN_LOG} to {hosts}",
            controllers=(node,) if node in self._voters.ids else (),
            brokers=() if node in self._voters.ids else (node,),
            commands=(pack_metadata(node),),
            before=(
                f"It ends at offset {self._copy.end_offset}, in controller epoch {self._copy.epoch}, as when it was copied: replica-audit "
                "quorum --check finds what has moved",
            ),
        )

    def _seed(self, node: int) -> Step:
        own = node == self._copy.node_id
        files = self._quorum_state(node)
        put = [put_quorum_state(node, name) for name in files]
        commands = [*self._identify(node), *(put if own else put_metadata_aside(node, unpack_metadata(node), *put))]
        text = (
            f"Give node {node} the chosen log" if not own else f"Let node {node}, which has the chosen log, vote again"
        )
        return Step(
            action="seed",
            text=f"{text}{self._told_identity(node)}{self._told_epoch() if files else ''}",
            controllers=(node,),
            commands=tuple(commands),
            files=files,
            before=(
                "Its process has ended" if own else f"Its process has ended, and put-aside-{node} does not exist yet",
            ),
            irreversible=f"Node {node} forgets whom it voted for"
            + ("" if own else f", and what its own log had is in put-aside-{node} only")
            if files or not own
            else None,
        )

    def _empty(self, node: int) -> Step:
        files = self._quorum_state(node)
        put = [put_quorum_state(node, name) for name in files]
        then = (f"mkdir LOG_DIR_OF_{node}/__cluster_metadata-0", *put) if files else ()
        commands = [*self._identify(node), *put_metadata_aside(node, *then)]
        return Step(
            action="empty",
            text=f"Put the metadata log of node {node} aside: a majority has the right one, and it fetches all of it from the leader"
            f"{self._told_identity(node)}{self._told_epoch() if files else ''}",
            controllers=(node,),
            commands=tuple(commands),
            files=files,
            before=(
                f"Its process has ended, and put-aside-{node} does not exist yet",
                f"{_named(self._holders)} hold what was committed. Until this node has caught up, none of them may be lost",
            ),
            irreversible=f"What the log of node {node} had is in put-aside-{node} only",
        )

    def _identify(self, node: int) -> Iterator[str]:
        if node in self._unformatted():
            yield self._tools.format_voter(node, self._held.inventory.cluster_id or "", is_dynamic=self._is_dynamic)
        if self._needs_id(node):
            yield set_directory_id(node, self._directories[node])

    def _needs_id(self, node: int) -> bool:
        if not self._is_dynamic:
            return False
        found = [one.directory_id for one in self._held.inventory.log_dirs if one.broker_id == node]
        return self._directories[node] not in found

    def _told_identity(self, node: int) -> str:
        if not self._needs_id(node):
            return ""
        return f", and its old directory.id, {self._directories[node]}: the log knows its voters by these, and a new one never votes"

    def _told_epoch(self) -> str:
        return f". Its quorum-state says epoch {self._seen}, which nodes have seen: the next one has to be above it, or brokers never register"

    def _quorum_state(self, node: int) -> dict[str, str]:
        if not self._raises_epoch:
            return {}
        content = quorum_state_file(self._voters.ids, self._seen, is_dynamic=self._is_dynamic)
        return {f"quorum-state-{node}": content}

    def _mend_epoch(self, node: int) -> Step:
        files = self._quorum_state(node)
        return Step(
            action="mend_epoch",
            text=f"Let node {node}, which has the right log, count on from epoch {self._seen}, which other nodes have seen",
            controllers=(node,),
            commands=tuple(put_quorum_state(node, name) for name in files),
            files=files,
            before=("Its process has ended",),
            irreversible=f"Node {node} forgets whom it voted for",
        )

    def _put_broker_aside(self, node: int) -> Step:
        return Step(
            action="empty",
            text=f"Put the metadata log of node {node} aside, which is of another history: it fetches the chosen one",
            brokers=(node,),
            commands=tuple(put_metadata_aside(node)),
            before=(f"Its process has ended, and put-aside-{node} does not exist yet",),
            irreversible=f"What the metadata log of node {node} had is in put-aside-{node} only",
        )

    def _wrongly_stray(self) -> Iterator[ReplicaDir]:
        """Directories of partitions that the chosen log assigns to their broker, by its name: the broker would begin them empty."""
        state = self._held.contents(self._copy)
        for one in self._held.stray:
            if isinstance(state, str) or one.topic_id is None:
                continue
            now = state.partitions.get((one.topic_id, one.partition))
            if now is not None and one.broker_id in now.replicas:
                yield replace(one, topic=state.topics[one.topic_id])

    def _put_back(self) -> Iterator[Step]:
        by_broker: dict[int, list[ReplicaDir]] = defaultdict(list)
        for one in self._stray:
            by_broker[one.broker_id].append(one)
        for broker, found in sorted(by_broker.items()):
            yield Step(
                action="put_back",
                text=f"Give broker {broker} the directories back that it set aside as -stray: the chosen log knows their topics, and the "
                "broker would begin them empty. LOG_DIR_OF_N is here the log directory that has them",
                brokers=(broker,),
                partitions=tuple(sorted((one.topic, one.partition) for one in found)),
                commands=tuple(
                    restore_stray(broker, one.path.rpartition("/")[2], f"{one.topic}-{one.partition}") for one in found
                ),
                before=("Its process has ended",),
            )

    def _copy_again(self, when: str, otherwise: str = "") -> Step:
        return Step(
            action="check",
            text=f"Where brokers are down, copy the log directories again before any of them is started{when}: of replicas that differ the "
            "one that is started first may lead, and cut the others. The copies that elect asks for come first, and where it has an order of "
            "starting, that takes the place of the starts below (--up names the brokers that are up)"
            f"{otherwise}",
            commands=("replica-audit elect AFTER",),
        )

    def _start(self) -> Iterator[Step]:
        if self._combined:
            yield self._copy_again(
                f", {name_nodes(self._combined)} too, {'which is a broker' if len(self._combined) == 1 else 'which are brokers'} "
                "as well as voters",
                # Elect has no order where the others have to be down and are needed for a majority (H16).
                ". Where it has none, keep AFTER, and start those first that lose nothing by its table, in place of the order below: a "
                "majority of the voters elects leaders, and who is up then may lead",
            )
        if self._fetches and not self._raises_epoch:
            yield Step(
                action="start",
                text=f"Start {name_nodes(self._holders)}, each unless it is up: a majority has the right log",
                controllers=tuple(self._holders),
                commands=tuple(map(self._tools.start, self._holders)),
                before=self._elect_first,
            )
        chosen = [self._copy.node_id] if self._copy.node_id in self._voters.ids else []
        stopped = self._lacking if self._fetches and not self._raises_epoch else [*self._holders, *self._lacking]
        order = sorted(stopped, key=lambda one: (one not in chosen, one not in self._holders, one))
        for node in order:
            yield Step(
                action="start",
                text=f"Start node {node}{', unless it is up' if node in self._holders else ''}",
                controllers=(node,),
                commands=(self._tools.start(node),),
                before=(
                    *self._elect_first,
                    *self._before_start(node, order),
                    *(
                        ("No other broker starts before the quorum has a leader",)
                        if node == order[0] and not self._fetches
                        else ()
                    ),
                ),
            )

    @property
    def _elect_first(self) -> tuple[str, ...]:
        return (_ELECT_FIRST,) if self._combined else ()

    def _before_start(self, node: int, order: Sequence[int]) -> Iterator[str]:
        if node != order[0]:
            yield f"Node {order[0]} is up and stays up"
        elif self._fetches and node in self._lacking:
            yield f"{_named(self._holders)} are up and have a leader"

    def _see(self) -> Iterator[Step]:
        stays = self._fetches and not self._raises_epoch
        epoch = "" if stays else f" in epoch {max(self._copy.epoch, self._seen) + 1} or later"
        yield Step(
            action="check",
            text=f"See that the quorum has a leader{epoch}, that every voter is there, and that their lag goes to 0",
            controllers=tuple(self._voters.ids),
            commands=tuple(self._tools.describe_quorum()),
        )
        if not self._combined:
            yield self._copy_again("")
        known = {one.node_id for one in self._held.copies if one.node_id is not None}
        for broker in sorted(known.union(self._held.brokers).difference(self._voters.ids)):
            yield Step(
                action="start",
                text=f"Start node {broker}, unless it is up",
                brokers=(broker,),
                commands=(self._tools.start(broker),),
                before=("The quorum has a leader",),
            )
        yield Step(
            action="verify",
            text="See that every topic is there that the choice does not lose. Then copy the log directories again: quorum finds nothing to "
            "decide in the new snapshot",
            commands=("replica-audit quorum AFTER",),
        )
