"""The plan that puts the chosen metadata log into force or, without a choice, keeps what must be kept.

The sequences worked on real controllers (docs/semantics.md, part I): seeds get the chosen log without its quorum-state,
voters of a dynamic quorum (KIP-853) get their old directory id back, and nothing is ever formatted with --standalone or
started blank while the right log is down.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from replica_audit.elect.kafka_commands import Copies, Tools
from replica_audit.elect.plan_model import Prediction, Step
from replica_audit.model import ReplicaDir, TopicPartition
from replica_audit.protocol.versions import keeps_strays
from replica_audit.quorum.answer_model import Lost
from replica_audit.quorum.choosing import Chosen, barred_voters, best_of, may_go_on
from replica_audit.quorum.held_metadata import HeldMetadata
from replica_audit.quorum.keeping_steps import NO_ARCHIVE, check_disks, keep_all, search_for_logs, search_for_partitions
from replica_audit.quorum.log_dir_commands import (
    CHOSEN_LOG,
    pack_metadata,
    put_metadata_aside,
    put_quorum_state,
    quorum_state_file,
    restore_stray,
    set_directory_id,
    unpack_metadata,
)
from replica_audit.quorum.restoration import Restoration, place_on
from replica_audit.quorum.start_steps import StartSteps, address
from replica_audit.snapshot.log_dir_names import METADATA_PARTITION
from replica_audit.snapshot.metadata.quorum import name_nodes
from replica_audit.text import capitalise, count, verb

_NO_CHOICE = {
    "keep_both": "each history holds something that the other lacks, and both were in use: people must decide which topics and changes to give up. "
    "Keep every copy, start nothing meanwhile, and stop producers: brokers that are up go on acknowledging records to topics that may be "
    "given up. Consumers can read those topics while these brokers are up",
    "none": "no copy here holds what brokers have applied: look for disks and backups of nodes, including brokers, that are not in "
    "this snapshot, add them to it, and run quorum again",
}
_COPIED_TWICE = (
    "No controller ran while this snapshot was copied, or a second snapshot, controllers last, says the same: what a running quorum has "
    "written since then is lost with its log"
)
_LOG_DIR_OF_N = "LOG_DIR_OF_N means here the log directory that has what the command names"
_BEYOND = (
    "no copy here has what ZooKeeper has: start no controller with one of them. Look for a newer one, add it to the snapshot, and run quorum "
    "again, or let brokers go back to ZooKeeper, which loses nothing that it has"
)
_UNAPPLIED = (
    "records of one history cannot be applied, so it is not known whether it is the right one: copy its logs again. If their records are "
    "of a later Kafka, use a version of replica-audit that knows them"
)
_UNREAD = "part of the newest log cannot be read: keep its disk, read the log again from there or from a backup, and run quorum again"


@dataclass(frozen=True, slots=True)
class Planned:
    """The steps, without numbers, and the reason if they end after the copies."""

    steps: tuple[Step, ...] = ()
    reason: str | None = None


def plan_quorum(held: HeldMetadata, chosen: Chosen, tools: Tools, lost: Lost | None) -> Planned:
    """The plan for a verdict; for `agree` it only puts swapped disks back. `lost` is what the choice loses."""
    planned = _planned(held, chosen, tools, lost)
    return replace(planned, steps=(*check_disks(held), *planned.steps))


def _planned(held: HeldMetadata, chosen: Chosen, tools: Tools, lost: Lost | None) -> Planned:
    if chosen.verdict == "agree":
        return Planned(tuple(search_for_logs(held)) if held.is_alone or held.only_in_zookeeper else ())
    if not held.voters.ids:
        return Planned(tuple(keep_all(held)), "nothing here names the voters")
    if chosen.verdict == "rejoin":
        return Planned(tuple(_replace_voters(held, tools)))
    copy = chosen.copy
    if copy is None and held.only_in_zookeeper:
        return Planned(tuple(keep_all(held)), _BEYOND)
    if copy is None and chosen.verdict == "none" and (held.unread or held.unapplied):
        return Planned(tuple(keep_all(held)), _UNREAD if held.unread else _UNAPPLIED)
    if copy is None:
        return Planned(tuple(keep_all(held)), f"{_NO_CHOICE[chosen.verdict]}{_ways_on(held, chosen)}")
    voters = copy.voters(held.snapshot) or held.voters
    to = Restoration(held, copy, voters, lost, to_its_end=chosen.asked and chosen.is_tentative)
    first = (*search_for_partitions(to), *keep_all(held))
    if (reason := to.obstacle(is_asked=chosen.asked)) is not None:
        return Planned(first, reason)
    return Planned((*first, *_Plan(to, chosen, tools).steps()))


def _ways_on(held: HeldMetadata, chosen: Chosen) -> str:
    """Sentences on how to go on with one of several histories, or with the newest remaining log."""
    if chosen.verdict == "none" and not may_go_on(held):
        return ""
    if chosen.verdict == "none":
        node = best_of(held, held.histories[0]).node_id
        return (
            f". If there are none, the cluster can only go on with what is left: quorum --choose {node} has the plan for the log of node "
            f"{node}, which is the newest. What is known of its loss is listed below; topics that it does not know have to be created again, and "
            "their records produced again from the copies that the plan makes of the brokers' directories"
        )
    told = []
    for history in held.histories:
        if history.is_spliced:
            told.append(f"the log of {history.nodes} is spliced, and no plan is known that starts with it")
        elif (node := best_of(held, history).node_id) is not None:
            told.append(f"quorum --choose {node} has the plan for that of {history.nodes}, and names what it gives up")
    return f". Once that is decided: {'; '.join(told)}"


def _predict(node: int, end_offset: int, epoch: int | None) -> Prediction:
    """The metadata log of a node before it starts; `epoch` is the one from which the node continues."""
    return Prediction(
        METADATA_PARTITION.topic,
        METADATA_PARTITION.partition,
        broker_id=node,
        leader_id=None,
        leader_epoch=epoch,
        truncate_to=None,
        dropped_records=0,
        log_end_offset=end_offset,
    )


def _named(nodes: Sequence[int]) -> str:
    return capitalise(name_nodes(nodes))


def _their(nodes: Sequence[int]) -> str:
    return verb(len(nodes), "its", "their")


def _replace_voters(held: HeldMetadata, tools: Tools) -> Iterator[Step]:
    """Steps for voters whose directories are not those in the log, while a majority votes."""
    directories = dict(held.voters.directories)
    for node in barred_voters(held):
        yield Step(
            action="replace_voter",
            text=f"Replace the old voter {node} by node {node} with its present directory. Run the second command on its host; "
            "if it times out, run it again: until it succeeds the node only observes",
            controllers=(node,),
            commands=tuple(tools.replace_voter(node, directories[node])),
            before=(
                f"The disk that it voted from, with directory.id={directories[node]}, is lost: if it is not, put it back, and do nothing else",
                f"A majority of the voters is up, and node {node} runs and has caught up as an observer: kafka-metadata-quorum.sh describe "
                "--replication shows it",
                "It is removed before it is added: an id that is among the voters cannot be added",
            ),
        )
    yield Step(
        action="check",
        text="Check that every voter is listed with its present directory, and that its lag goes to 0",
        commands=tuple(tools.describe_quorum()),
    )


def _copy_of(replicas: Sequence[ReplicaDir], name: str, why: str) -> Step:
    """Copies, called `name`, of partitions that may be lost afterwards; `why` continues "the partitions"."""
    in_log_dir: dict[tuple[int, str], list[TopicPartition]] = defaultdict(list)
    for one in replicas:
        in_log_dir[one.broker_id, one.log_dir].append(one.topic_partition)
    copies = Copies(name)
    commands = [copies.of_partitions(broker, sorted(places)) for (broker, _), places in sorted(in_log_dir.items())]
    return Step(
        action="copy",
        text=f"Copy the partitions {why}. {_LOG_DIR_OF_N}",
        brokers=tuple(sorted({broker for broker, _ in in_log_dir})),
        partitions=tuple(sorted({one.topic_partition for one in replicas})),
        commands=tuple(commands),
        files=copies.files_of(commands),
        before=("Their brokers are stopped, and their producers are too", NO_ARCHIVE),
    )


class _Plan:
    """Steps after the copies that carry out a restoration."""

    def __init__(self, to: Restoration, chosen: Chosen, tools: Tools) -> None:
        self._to = to
        self._tools = tools
        self._may_be_skew = chosen.may_be_skew

    def steps(self) -> Iterator[Step]:
        """All steps in order, without numbers."""
        yield from self._stop()
        yield from self._copy_given_up()
        yield from self._copy_ahead()
        if self._to.fetches:
            yield from map(self._empty, self._to.lacking)
        else:
            yield self._pack()
            yield from map(self._seed, self._to.lacking)
        yield from map(self._mend_epoch, filter(self._quorum_state, self._to.holders))
        yield from map(self._fetch_anew, sorted((*self._to.apart, *self._to.former, *self._to.stuck)))
        yield from self._put_back()
        yield from StartSteps(self._to, self._tools).steps()

    def _stop(self) -> Iterator[Step]:
        if self._to.stopped:
            before = (_COPIED_TWICE,) if self._may_be_skew else ()
            step = self._stop_nodes(sorted(self._to.stopped), f", with SIGTERM. {self._others()}")
            yield replace(step, brokers=(), controllers=step.brokers, before=before)
        handled = set(self._to.stopped)
        for nodes, why in self._other_stops():
            left = [node for node in nodes if node not in handled]
            if left:
                yield self._stop_nodes(left, f": {why(left)}")
                handled.update(left)

    def _other_stops(self) -> Iterator[tuple[Sequence[int], Callable[[Sequence[int]], str]]]:
        """Groups of nodes that are not voters, and why they are stopped."""
        yield (
            self._to.apart,
            lambda nodes: (
                f"{verb(len(nodes), 'it has', 'they have')} records that the chosen log does not have, and a broker dies that a leader asks to "
                "truncate below what it has applied"
            ),
        )
        yield (
            self._to.former,
            lambda nodes: (
                f"by {_their(nodes)} own log {verb(len(nodes), 'it is a voter', 'they are voters')} still, and such nodes elect a "
                "leader among themselves"
            ),
        )
        yield (
            self._to.stuck,
            lambda nodes: f"{_their(nodes)} quorum-state cannot be read, or newest .checkpoint is damaged",
        )
        strays = sorted({one.broker_id for one in self._to.wrongly_stray})
        yield strays, lambda nodes: f"directories of {_their(nodes)} partitions are put back"
        yield (
            sorted({one.broker_id for one in self._to.ahead}),
            lambda nodes: (
                f"logs of {_their(nodes)} partitions have later leader epochs than the chosen log, and are copied first"
            ),
        )
        yield self._to.bereft, lambda nodes: f"partitions of {_their(nodes)} own are given up, and are copied first"

    def _stop_nodes(self, nodes: Sequence[int], why: str) -> Step:
        waits = ""
        if self._to.held.registered.union(self._to.held.brokers).intersection(nodes):
            waits = ". A broker that finds no leader of the quorum ends after five minutes only, and cleanly: do not kill it"
        return Step(
            action="stop",
            text=f"Stop {name_nodes(nodes)}, where {verb(len(nodes), 'it is', 'they are')} up{why}{waits}",
            brokers=tuple(nodes),
            commands=tuple(self._tools.stop(nodes)),
        )

    def _copy_given_up(self) -> Iterator[Step]:
        """Copy partitions that the chosen log does not assign to their brokers, before these rename the directories."""
        places = {(one.broker_id, one.topic, one.partition) for one in self._to.given_up}
        given_up = [one for one in self._to.held.inventory.replicas if place_on(one) in places]
        records = sum(one.records for one in self._to.given_up)
        if given_up:
            yield _copy_of(
                given_up,
                "given-up",
                f"that the chosen log does not know, or not on these brokers: {self._fate()}, no cluster serves their "
                f"{count(records, 'record')} any more, and these copies are where they can be had from",
            )

    def _copy_ahead(self) -> Iterator[Step]:
        """Copy partitions whose leader epochs the chosen log gives out again: the first leader may make the others truncate."""
        if self._to.ahead:
            yield _copy_of(
                self._to.ahead,
                "ahead",
                "whose logs have later leader epochs than the chosen log: which replica leads first decides what is kept of them",
            )

    def _fate(self) -> str:
        """Clause on what brokers do to directories that are not assigned to them (docs/semantics.md H8)."""
        keeps = keeps_strays(self._tools.kafka_version)
        if keeps is None:
            return "their directories become -stray (before Kafka 3.7 brokers delete them)"
        return "their directories become -stray" if keeps else "brokers before Kafka 3.7 delete their directories"

    def _others(self) -> str:
        text = "Start no other broker meanwhile"
        handled = {*self._to.voters.ids, *(node for nodes, _ in self._other_stops() for node in nodes)}
        nodes = sorted({one.node_id for one in self._to.held.copies if one.node_id is not None} - handled)
        if nodes and not self._to.apart:
            stay, they = ("stays as it is", "it") if len(nodes) == 1 else ("stay as they are", "they")
            text = f"{_named(nodes)} {stay}, up or down: the chosen log has all that {they} applied"
        return (
            f"{text}. {_named(self._to.combined)} are brokers too, and serve nothing while they are stopped"
            if self._to.combined
            else text
        )

    def _pack(self) -> Step:
        node = self._to.copy.node_id
        assert node is not None
        others = [one for one in self._to.lacking if one != node]
        hosts = f"the host{'s' if len(others) > 1 else ''} of {name_nodes(others)}"
        return Step(
            action="pack",
            text=f"Pack the metadata log of node {node}, without its quorum-state, and bring {CHOSEN_LOG} to {hosts}",
            controllers=(node,) if node in self._to.voters.ids else (),
            brokers=() if node in self._to.voters.ids else (node,),
            commands=(pack_metadata(node),),
            before=(
                f"It ends at offset {self._to.copy.end_offset}, in controller epoch {self._to.copy.epoch}, as when it was copied: replica-audit "
                "quorum --check finds what has moved",
            ),
        )

    def _seed(self, node: int) -> Step:
        own = node == self._to.copy.node_id
        files = self._quorum_state(node)
        put = [put_quorum_state(node, name) for name in files]
        commands = [*self._identify(node), *(put if own else put_metadata_aside(node, unpack_metadata(node), *put))]
        forgets = f"Node {node} forgets whom it voted for"
        text, irreversible = f"Let node {node}, which has the chosen log, vote again", forgets if files else None
        if not own:
            text = f"Give node {node} the chosen log"
            irreversible = f"{forgets}, and what its own log had is in put-aside-{node} only"
        return Step(
            action="seed",
            text=f"{text}{self._told_identity(node)}{self._told_epoch(node)}",
            controllers=(node,),
            commands=tuple(commands),
            files=files,
            before=(
                "Its process has ended" if own else f"Its process has ended, and put-aside-{node} does not exist yet",
            ),
            irreversible=irreversible,
            after=(
                _predict(node, self._to.copy.end_offset, self._to.held.seen_epoch if files else self._to.copy.epoch),
            ),
        )

    def _empty(self, node: int) -> Step:
        files = self._quorum_state(node)
        put = [put_quorum_state(node, name) for name in files]
        then = (f"mkdir LOG_DIR_OF_{node}/__cluster_metadata-0", *put) if files else ()
        commands = [*self._identify(node), *put_metadata_aside(node, *then)]
        return Step(
            action="empty",
            text=f"Put the metadata log of node {node} aside: a majority has the right one, and it fetches all of it from the leader"
            f"{self._told_identity(node)}{self._told_epoch(node)}",
            controllers=(node,),
            commands=tuple(commands),
            files=files,
            before=(
                f"Its process has ended, and put-aside-{node} does not exist yet",
                f"{_named(self._to.holders)} hold what was committed. Until this node has caught up, none of them may be lost",
            ),
            irreversible=f"What the log of node {node} had is in put-aside-{node} only",
            after=(_predict(node, 0, self._to.held.seen_epoch if files else None),),
        )

    def _identify(self, node: int) -> Iterator[str]:
        if node in self._to.unformatted:
            yield self._tools.format_voter(
                node, self._to.held.inventory.cluster_id or "", is_dynamic=self._to.is_dynamic
            )
        if self._to.needs_id(node):
            yield set_directory_id(node, self._to.directories[node])

    def _told_identity(self, node: int) -> str:
        if not self._to.needs_id(node):
            return ""
        return f", and its old directory.id, {self._to.directories[node]}: the log knows its voters by these, and a new one never votes"

    def _told_epoch(self, node: int) -> str:
        """Sentence on the quorum-state that a node is given; empty if it is given none."""
        if self._to.raises_epoch:
            return (
                f". Its quorum-state says epoch {self._to.held.seen_epoch}, which nodes have seen: the next one has to be above it, or brokers never "
                "register"
            )
        if node in self._to.misled:
            return (
                f". Its new quorum-state says epoch {self._to.held.seen_epoch} and names no leader: a voter that led in that epoch, and has lost its "
                "own, ends as soon as another node names it as the leader"
            )
        return ". Its quorum-state cannot be read, and is replaced" if self._quorum_state(node) else ""

    def _quorum_state(self, node: int) -> dict[str, str]:
        """Content, by file name, of the quorum-state that a node needs because it would start from a wrong epoch or cannot
        read its own; empty if it needs none."""
        is_stuck = node == self._to.copy.node_id and self._to.held.is_stuck(self._to.copy)
        if not (self._to.raises_epoch or node in self._to.misled or is_stuck):
            return {}
        content = quorum_state_file(self._to.voters.ids, self._to.held.seen_epoch, is_dynamic=self._to.is_dynamic)
        return {f"quorum-state-{node}": content}

    def _mend_epoch(self, node: int) -> Step:
        files = self._quorum_state(node)
        return Step(
            action="mend_epoch",
            text=f"Let node {node}, which has the right log, count on from epoch {self._to.held.seen_epoch}{self._told_epoch(node)}",
            controllers=(node,),
            commands=tuple(put_quorum_state(node, name) for name in files),
            files=files,
            before=("Its process has ended",),
            irreversible=f"Node {node} forgets whom it voted for",
            after=(_predict(node, self._to.end_of(node), self._to.held.seen_epoch),),
        )

    def _fetch_anew(self, node: int) -> Step:
        why = "is of another history" if node in self._to.apart else "names it as a voter"
        what = "with the quorum-state or .checkpoint that cannot be read" if node in self._to.stuck else f"which {why}"
        step = Step(
            action="empty",
            text=f"Put the metadata log of node {node} aside, {what}: it fetches the chosen one",
            commands=tuple(put_metadata_aside(node)),
            before=(f"Its process has ended, and put-aside-{node} does not exist yet",),
            irreversible=f"What the metadata log of node {node} had is in put-aside-{node} only",
            after=(_predict(node, 0, None),),
        )
        return address(self._to, node, step)

    def _put_back(self) -> Iterator[Step]:
        by_broker: dict[int, list[ReplicaDir]] = defaultdict(list)
        for one in self._to.wrongly_stray:
            by_broker[one.broker_id].append(one)
        for broker, found in sorted(by_broker.items()):
            yield Step(
                action="put_back",
                text=f"Give broker {broker} back the directories that it set aside as -stray: the chosen log knows their topics, and the "
                f"broker would begin them empty. {_LOG_DIR_OF_N} first",
                brokers=(broker,),
                partitions=tuple(sorted(one.topic_partition for one in found)),
                commands=tuple(
                    restore_stray(broker, one.path.rpartition("/")[2], str(one.topic_partition)) for one in found
                ),
                before=("Its process has ended",),
            )
