"""The plan that puts the chosen metadata log into force or, without a choice, keeps what must be kept.

Sequences are those that worked on real controllers (docs/semantics.md, part I): seeds get the chosen log without its
quorum-state, voters of a dynamic quorum (KIP-853) get their old directory id back, and nothing is ever formatted with
--standalone or started blank while the right log is down.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from replica_audit.auditing.findings.meta import META_FOREIGN_DIR
from replica_audit.elect.disk_steps import tell_swapped
from replica_audit.elect.kafka_commands import LISTENERS, Copies, Tools
from replica_audit.elect.plan_model import Prediction, Step
from replica_audit.elect.step_list import list_names, room_for_metadata
from replica_audit.model import ReplicaDir, TopicPartition
from replica_audit.protocol.versions import keeps_strays
from replica_audit.quorum.answer_model import Lost
from replica_audit.quorum.choosing import EMPTY_LEADS, Chosen, barred_voters, best_of, may_go_on
from replica_audit.quorum.held_metadata import HeldMetadata
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
from replica_audit.snapshot.log_dir_names import METADATA_PARTITION
from replica_audit.snapshot.metadata.quorum import name_nodes
from replica_audit.text import capitalise, count, verb

_OPERATORS = "Everything that starts or repairs nodes automatically is paused: systemd's Restart=, Strimzi's Cluster Operator, such jobs"
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
#: More brokers than these are not copied at once.
_FEW = 10
_ELECT_FIRST = "You have made the copies that elect asks for, and elect does not say to start another node first"
_NO_ARCHIVE = (
    "No archive with these names exists yet: an earlier one may be the only copy of something that is gone now"
)
_LOG_DIR_OF_N = "LOG_DIR_OF_N means here the log directory that has what the command names"
_GET_ZOOKEEPER = "Copy what ZooKeeper has, put its partition states into the snapshot as zookeeper.json, and run quorum again, which compares them: "
_ZOOKEEPER = (
    "this cluster is migrating from ZooKeeper, and the first controller that leads overwrites the states there with those of its log, and "
    "deletes every topic that its log does not know. If ZooKeeper has more, start no controller: let brokers go back to it, as Kafka's "
    "documentation of the migration says, and migrate again. Otherwise the quorum's next epoch has to be above kraft_controller_epoch of "
    "/migration there, or no controller registers with it: a greater leaderEpoch in the quorum-state of voters raises it"
)
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
    """The steps, without numbers, and the reason if they end with copies."""

    steps: tuple[Step, ...] = ()
    reason: str | None = None


def plan_quorum(held: HeldMetadata, chosen: Chosen, tools: Tools, lost: Lost | None) -> Planned:
    """The plan for a verdict; for `agree` only disks that were swapped are put back. `lost` is what the choice loses."""
    planned = _planned(held, chosen, tools, lost)
    return replace(planned, steps=(*_check_disks(held), *planned.steps))


def _check_disks(held: HeldMetadata) -> Iterator[Step]:
    """A step that says to which node log dirs belong that the snapshot has under the name of another."""
    misnamed = {row.path for row in held.inventory.quarantine if row.code == META_FOREIGN_DIR.code}
    wrong = [
        (one.path or ".", one.broker_id, one.kind)
        for one in held.inventory.log_dirs
        if (one.path or ".") in misnamed and one not in held.foreign and one.broker_id is not None
    ]
    if wrong:
        controllers = {node for _, node, kind in wrong if kind == "controller"}
        yield Step(
            action="check_disks",
            text=tell_swapped({path: node for path, node, _ in wrong}, "node"),
            controllers=tuple(sorted(controllers)),
            brokers=tuple(sorted({node for _, node, _ in wrong} - controllers)),
        )


def _empty_disks(held: HeldMetadata) -> Mapping[int, tuple[str, str]]:
    """By voter of which an empty log dir was captured beside that with its metadata log, the names of both, the empty one last."""
    empty: dict[int, list[str]] = defaultdict(list)
    for log_dir, node in held.inventory.blank.items():
        empty[node].append(log_dir)
    voters = held.voters.ids
    used = {one.node_id: one.log.log_dir for one in held.copies if one.node_id in voters}
    return {node: (used[node], list_names(names)) for node, names in sorted(empty.items()) if node in used}


def _planned(held: HeldMetadata, chosen: Chosen, tools: Tools, lost: Lost | None) -> Planned:
    if chosen.verdict == "agree":
        return Planned(tuple(_ask(held)) if held.is_alone or held.only_in_zookeeper else ())
    if not held.voters.ids:
        return Planned(tuple(_keep(held)), "nothing here names the voters")
    if chosen.verdict == "rejoin":
        return Planned(tuple(_replace_voters(held, tools)))
    copy = chosen.copy
    if copy is None and held.only_in_zookeeper:
        return Planned(tuple(_keep(held)), _BEYOND)
    if copy is None and chosen.verdict == "none" and (held.unread or held.unapplied):
        return Planned(tuple(_keep(held)), _UNREAD if held.unread else _UNAPPLIED)
    if copy is None:
        return Planned(tuple(_keep(held)), f"{_NO_CHOICE[chosen.verdict]}{_ways_on(held, chosen)}")
    voters = copy.voters(held.snapshot) or held.voters
    to = Restoration(held, copy, voters, lost, to_its_end=chosen.asked and chosen.is_tentative)
    first = (*_look(to), *_keep(held))
    if (reason := to.obstacle(is_asked=chosen.asked)) is not None:
        return Planned(first, reason)
    return Planned((*first, *_Plan(to, chosen, tools).steps()))


def _ways_on(held: HeldMetadata, chosen: Chosen) -> str:
    """Sentences on how to go on with one of several histories, or with the newest log that is left."""
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


def _look(to: Restoration) -> Iterator[Step]:
    """Steps that look for partitions of voters that have none in the snapshot."""
    if nodes := sorted((*to.bare, *to.uncaptured)):
        yield Step(
            action="capture",
            text=f"Check whether the log directories of {name_nodes(nodes)} (log.dirs) still have partitions that this snapshot lacks, "
            "including those that end in -stray. If so, start nothing, copy them into the snapshot, and run quorum again: they may be the "
            "only copy of committed records",
            brokers=tuple(nodes),
        )
    if nodes := to.unseen:
        have, one = ("has its", "it") if len(nodes) == 1 else ("have their", "one of them")
        yield Step(
            action="capture",
            text=f"Check whether {name_nodes(nodes)} still {have} partitions, of which this snapshot has none. If {one} has lost any, start "
            f"nothing, copy the log directories of every node into the snapshot, and run quorum again: {EMPTY_LEADS}",
            brokers=tuple(nodes),
        )


def _ask(held: HeldMetadata) -> Iterator[Step]:
    """Steps that look for what may know more than the snapshot does."""
    if held.writes_to_zookeeper:
        text = capitalise(_ZOOKEEPER) if held.has_zookeeper else f"{_GET_ZOOKEEPER}{_ZOOKEEPER}"
        yield Step(action="check", text=text)
    here = {one.node_id for one in held.compared.copies}
    voters = held.voters.ids
    hidden = {one.node_id for one in held.hidden}
    absent = [node for node in voters if node not in held.available or node in hidden]
    silent = sorted(held.registered.union(held.brokers).difference(here, voters))
    first = ", of brokers first of those that were up last," if len(silent) > _FEW else ","
    if absent or silent:
        yield Step(
            action="capture",
            text=f"Check whether a disk with the metadata log of {name_nodes((*absent, *silent))}{first} or a backup of it, still exists: it "
            "may hold more than any copy here. If so, do not start it, copy it into the snapshot, and run quorum again",
            controllers=tuple(absent),
            brokers=tuple(silent),
        )


def _keep(held: HeldMetadata) -> Iterator[Step]:
    """Steps that capture disks missing from the snapshot, then copy all that are there."""
    yield from _ask(held)
    # Archives of elect's plan, which may be made in the same directory, have other names.
    copies = Copies("metadata")
    nodes = {one.node_id: held.role(one) for one in held.compared.copies}
    known = {node: role for node, role in nodes.items() if node is not None}
    told = "".join(
        f"; LOG_DIR_OF_{node} means in this plan what the snapshot has as {used}, wherever it is mounted, not {empty}, which is empty"
        for node, (used, empty) in _empty_disks(held).items()
    )
    yield Step(
        action="copy",
        text="Start nothing until the metadata log of every node is copied: a node that follows cuts its own without a warning. "
        f"LOG_DIR_OF_N is the log directory of node N with __cluster_metadata-0 (metadata.log.dir, else the first of log.dirs){told}; run the "
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


def _predict(node: int, end_offset: int, epoch: int | None) -> Prediction:
    """The metadata log of a node before it starts; `epoch` is the one that the node counts on from."""
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
    """Steps for voters with other directories than the log names, while a majority votes."""
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
    """Copies, called `name`, of partitions that nobody may have afterwards; `why` continues "the partitions"."""
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
        before=("Their brokers are stopped, and their producers are too", _NO_ARCHIVE),
    )


class _Plan:
    """Steps after the copies that carry out a restoration."""

    def __init__(self, to: Restoration, chosen: Chosen, tools: Tools) -> None:
        self._to = to
        self._tools = tools
        self._may_be_skew = chosen.may_be_skew
        self._empty_disks = _empty_disks(to.held)

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
        yield from self._start()
        yield from self._see()

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
        """Copy partitions whose leader epochs the chosen log gives out again: whoever leads first may cut the others."""
        if self._to.ahead:
            yield _copy_of(
                self._to.ahead,
                "ahead",
                "whose logs have later leader epochs than the chosen log: which replica leads first decides what is kept of them",
            )

    def _order_ahead(self) -> Step:
        """Raise leader epochs above those of the logs: a follower takes no records of later epochs than the leader's (KAFKA-18723)."""
        latest = max(epoch for one in self._to.ahead for epoch, _ in one.checkpoint_epochs or ())
        forgotten = " and brokers have forgotten the old ones" if self._to.gives_ids_again else ""
        return Step(
            action="check",
            text="Copy the log directories again before any broker is started. Where the metadata log is older than the logs, elect has no "
            "plan, and where it says to start no controller and to run quorum, this plan has done that; but it names the best choice of each "
            "partition. Start the broker that is the best choice of most, and check that it leads "
            "them (where nobody does, by an unclean election). Stop and start it again, which adds two to their leader epochs, until the last "
            f"line of leader-epoch-checkpoint in its directory of each begins with {latest + 1} or more. Until then longer followers are cut, "
            "and all others stay out of sync. Then stop it, put back that file of each from the copy that this plan made, where it has one, "
            "and start it once more: it lost entries while it led, and without them followers are cut to where these begin, again and again. "
            "Then start the others: they are cut where they differ from it, so what another broker has beyond the leader is only in its copy",
            partitions=tuple(sorted({one.topic_partition for one in self._to.ahead})),
            commands=("replica-audit elect AFTER",),
            before=(f"Producers stay stopped until all replicas are in sync again{forgotten}",),
        )

    def _forget_producers(self) -> Step:
        """Have brokers forget producers: a broker knows a batch again by producer id, epoch and sequence numbers, and acknowledges it
        without writing it (`ProducerStateEntry.findDuplicateBatch`)."""
        return Step(
            action="forget_producers",
            text="Make brokers forget the old producers: controllers give out their ids again, and the first batches of a new producer with "
            "such an id would be acknowledged but not written. With this setting brokers forget a producer that has been silent for a second, "
            "at the latest after ten minutes (producer.id.expiration.check.interval.ms); a batch that is sent again later than that may be "
            "written twice. Keep the setting until the newest old records are older than producer.id.expiration.ms was (a day, unless it was "
            "set), then set it back: until then every broker that starts reads the old producers from its files, and new producers wait ten "
            "minutes again",
            commands=tuple(self._tools.expire_producers()),
            before=(
                "All brokers are up. Every producer is stopped, and starts again only ten minutes after this step",
            ),
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
        text = (
            f"Give node {node} the chosen log" if not own else f"Let node {node}, which has the chosen log, vote again"
        )
        irreversible = None
        if not own:
            irreversible = (
                f"Node {node} forgets whom it voted for, and what its own log had is in put-aside-{node} only"
            )
        elif files:
            irreversible = f"Node {node} forgets whom it voted for"
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
        """Content by file name of the quorum-state that a node needs, since it would start from a wrong epoch or cannot
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

    def _of(self, node: int, step: Step) -> Step:
        """The step, addressed to a node that does not vote: a controller or a broker."""
        copies = (one for one in self._to.held.copies if one.node_id == node)
        is_controller = any(self._to.held.role(one) == "controller" for one in copies)
        return replace(step, controllers=(node,)) if is_controller else replace(step, brokers=(node,))

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
        return self._of(node, step)

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

    def _copy_again(self, when: str, otherwise: str = "") -> Step:
        return Step(
            action="check",
            text=f"If brokers are down, copy the log directories again before any of them is started{when}: of replicas that differ, the "
            "first to start may lead, and cut the others. First make the copies that elect asks for. If elect gives an order of starting, "
            "follow it instead of the starts below (--up names the brokers that are up)"
            f"{otherwise}",
            commands=("replica-audit elect AFTER",),
        )

    def _start(self) -> Iterator[Step]:
        if self._to.combined:
            yield self._copy_again(
                f", {name_nodes(self._to.combined)} too, {verb(len(self._to.combined), 'which is a broker', 'which are brokers')} "
                "as well as voters",
                # Elect gives no order where the others have to be down and are needed for a majority (H16).
                ". If it gives none, keep AFTER, and first start those that lose nothing by its table, instead of the order below: a "
                "majority of the voters elects leaders, and any broker that is up then may lead",
            )
        going_on = [node for node in self._to.holders if node not in self._to.stopped]
        if going_on:
            each = "each unless it is up" if len(going_on) > 1 else "unless it is up"
            yield Step(
                action="start",
                text=f"Start {name_nodes(going_on)}, {each}: a majority has the right log",
                controllers=tuple(going_on),
                commands=tuple(map(self._tools.start, going_on)),
                before=(
                    *self._right_disks(going_on),
                    *self._has_partitions(going_on),
                    *self._elect_first,
                    *self._room(going_on),
                ),
            )
        lacking = self._to.lacking
        order = sorted(
            self._to.stopped,
            key=lambda one: (self._to.fetches and one in lacking, one != self._to.copy.node_id, one in lacking, one),
        )
        for node in order:
            is_bare = node in self._to.bare
            how = ", unless it is up" if node in self._to.holders else ""
            if is_bare:
                how = f" as a controller only: {self._why_controller(node)}. {LISTENERS}"
            yield Step(
                action="start",
                text=f"Start node {node}{how}",
                controllers=(node,),
                commands=(self._tools.start_as_controller(node) if is_bare else self._tools.start(node),),
                before=(
                    *self._right_disks([node]),
                    *self._has_partitions([node]),
                    *self._elect_first,
                    *self._before_start(node, order),
                    *self._is_reached(node),
                    *self._room([node]),
                    *(
                        ("No other broker starts before the quorum has a leader",)
                        if node == order[0] and not self._to.fetches
                        else ()
                    ),
                ),
            )

    @property
    def _elect_first(self) -> tuple[str, ...]:
        return (_ELECT_FIRST,) if self._to.combined else ()

    def _why_controller(self, node: int) -> str:
        if number := self._to.in_sync(node):
            return f"the chosen log has it in the ISR of {count(number, 'partition')}, and {EMPTY_LEADS}"
        return f"an unclean election may choose it, though the chosen log has it in no ISR, and {EMPTY_LEADS}"

    def _room(self, nodes: Sequence[int]) -> Iterator[str]:
        """A condition for those of `nodes` that start with what was committed."""
        left = [node for node in nodes if not (self._to.fetches and node in self._to.lacking)]
        return room_for_metadata(left, self._tools.kafka_version)

    def _right_disks(self, nodes: Sequence[int]) -> Iterator[str]:
        """Conditions for nodes of which an empty log dir was captured too."""
        for node in nodes:
            if node in self._empty_disks:
                used, empty = self._empty_disks[node]
                yield (
                    f"Node {node} starts with the log directory that the snapshot has as {used}, or with a copy of it, in its place: with "
                    f"{empty} instead, empty as in the snapshot, it votes for a node that lacks committed records"
                )

    def _has_partitions(self, nodes: Sequence[int]) -> Iterator[str]:
        """Checks of the log directories of nodes that have no partition here."""
        for node in nodes:
            if node in self._to.bare:
                yield f"No log directory of node {node} has a partition, nor one that ends in -stray"
            elif node in self._to.unseen:
                yield f"Node {node} still has its partitions, or no other node has any of them"

    def _is_reached(self, node: int) -> Iterator[str]:
        """A condition for a voter that may come back on another host. Nodes look for voters where their settings have them or, in a dynamic
        quorum (KIP-853), where the log has: there the voter tells the leader its new address, and nobody leads who is looked for at the old
        ones (`VoterSet`)."""
        if node in self._to.held.available:
            return
        if not self._to.is_dynamic:
            yield (
                f"controller.quorum.voters of every node has the address at which node {node} is now. Where that is a new one, write it there "
                "before the node starts. Nodes that stay up read it when they are started again only: one after the other, as soon as the "
                "quorum has a leader"
            )
        elif len(self._to.voters.ids) > 1 and node in self._to.addresses:
            yield (
                f"The other voters reach node {node} at {self._to.addresses[node]}, where the chosen log has it. Where it has another address now, "
                "the old one leads there (a name that resolves to it, or a forwarded port) until the quorum has a leader and this voter is there"
            )

    def _before_start(self, node: int, order: Sequence[int]) -> Iterator[str]:
        if self._to.fetches and node in self._to.lacking:
            yield f"{_named(self._to.holders)} are up and have a leader"
        elif node != order[0]:
            yield f"Node {order[0]} is up and stays up"

    def _fill_bare(self) -> Iterator[Step]:
        """Give voters that started as controllers only both roles, once others lead their partitions."""
        if not self._to.bare:
            return
        bare = name_nodes(self._to.bare)
        yield Step(
            action="check",
            text=f"Check that {bare} {verb(len(self._to.bare), 'leads', 'lead')} no partition that another node has, and that each of "
            "those has a leader. For one without, elect one that has it, by what elect says of AFTER (kafka-leader-election.sh "
            "--election-type unclean)",
            commands=tuple(self._tools.describe(self._to.topics_of_bare)),
        )
        for node in self._to.bare:
            yield Step(
                action="start",
                text=f"Start node {node} with both roles: the leaders fill its replicas",
                brokers=(node,),
                commands=tuple(self._tools.restart(node)),
                before=(f"Every partition that another node has is led, and not by {bare}",),
            )

    def _see(self) -> Iterator[Step]:
        epoch = (
            ""
            if self._to.majority_stays
            else f" in epoch {max(self._to.copy.epoch, self._to.held.seen_epoch) + 1} or later"
        )
        yield Step(
            action="check",
            text=f"Check that the quorum has a leader{epoch}, that every voter is listed, and that their lag goes to 0",
            controllers=tuple(self._to.voters.ids),
            commands=tuple(self._tools.describe_quorum()),
        )
        if self._to.ahead:
            yield self._order_ahead()
        elif not self._to.combined:
            yield self._copy_again("")
        yield from self._fill_bare()
        known = {one.node_id for one in self._to.held.copies if one.node_id is not None}
        for node in sorted(known.union(self._to.held.brokers).difference(self._to.voters.ids)):
            step = Step(
                action="start",
                text=f"Start node {node}, unless it is up",
                commands=(self._tools.start(node),),
                before=("The quorum has a leader",),
            )
            yield self._of(node, step)
        if self._to.gives_ids_again:
            yield self._forget_producers()
        yield Step(
            action="verify",
            text="Check that every topic that the choice does not lose is there. Then copy the log directories again: in the new snapshot "
            "quorum finds nothing to decide",
            commands=("replica-audit quorum AFTER",),
        )
