"""Effect of the chosen metadata log on every node: which have it, which lack it, whose own log must be removed, and the obstacles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from replica_audit.cached_property import cached_property
from replica_audit.model import ReplicaDir
from replica_audit.quorum.answer_model import Lost, StrayDirectory
from replica_audit.quorum.broken_rules import gives_ids_again, goes_on
from replica_audit.quorum.choosing import best_of, foreign_text
from replica_audit.quorum.contents import NOTHING
from replica_audit.quorum.held_metadata import HeldMetadata
from replica_audit.quorum.lost_metadata import Assigned, assigned_by
from replica_audit.snapshot.metadata.histories import seen_epoch
from replica_audit.snapshot.metadata.kraft_records import Voters
from replica_audit.snapshot.metadata.log_copies import MetadataCopy
from replica_audit.snapshot.metadata.quorum import name_nodes, parting
from replica_audit.text import listed


class Restoration:
    """The chosen copy, put into force with the voters that it names. Properties are computed once."""

    def __init__(
        self, held: HeldMetadata, copy: MetadataCopy, voters: Voters, lost: Lost | None, *, to_its_end: bool = False
    ) -> None:
        self.held = held
        self.copy = copy
        self.voters = voters
        self._to_its_end = to_its_end
        """True if voters keep their logs only if they have the whole chosen log, not just what is proven committed."""
        self.directories = dict(voters.directories)
        """Directory id by voter, for a dynamic quorum (KIP-853)."""
        self.addresses = dict(voters.addresses)
        """Address in the log of each voter of a dynamic quorum, where the others look for it."""
        self.is_dynamic = bool(voters.directories)
        self.gives_ids_again = gives_ids_again(held, copy, lost)
        self.given_up: Sequence[StrayDirectory] = () if lost is None else lost.stray
        state = held.contents(copy)
        self._state = NOTHING if isinstance(state, str) else state
        self._assigned = assigned_by(self._state)
        brokers = {broker for broker, _, _ in self._assigned}.union(held.brokers)
        self.combined = [node for node in voters.ids if node in brokers]
        """Voters that are also brokers, by their disks or by the chosen log."""

    @cached_property
    def _present(self) -> set[Assigned]:
        """Replicas assigned by the chosen log that are here, or are put back."""
        ids = {name: topic_id for topic_id, name in self._state.topics.items()}
        found = (*self.held.inventory.replicas, *self.wrongly_stray)
        here = {(one.broker_id, one.topic_id or ids.get(one.topic), one.partition) for one in found}
        return {one for one in self._assigned if one in here}

    @cached_property
    def _without_partitions(self) -> dict[int, bool]:
        """Voters that have partitions by the chosen log and none here. True if another node has one of these here: if the
        empty replica led, it would truncate that node's log to nothing (D7)."""
        having = {*self.held.brokers, *(one.broker_id for one in self.wrongly_stray)}
        places = {(topic_id, partition) for _, topic_id, partition in self._present}
        found: dict[int, bool] = {}
        for broker, topic_id, partition in self._assigned:
            if broker in self.voters.ids and broker not in having:
                found[broker] = found.get(broker, False) or (topic_id, partition) in places
        return dict(sorted(found.items()))

    @cached_property
    def bare(self) -> list[int]:
        """Voters that seem to have lost partitions that others have: their log directories are all missing here, or all here and empty."""
        here = {one.broker_id for one in self.held.inventory.log_dirs}
        nodes = [node for node, is_elsewhere in self._without_partitions.items() if is_elsewhere]
        return [node for node in nodes if node not in here or self._is_empty(node)]

    @property
    def uncaptured(self) -> list[int]:
        """Voters whose partitions others have, and some of whose log directories are missing here: whether they lost any is unknown."""
        found = self._without_partitions.items()
        return [node for node, is_elsewhere in found if is_elsewhere and node not in self.bare]

    @property
    def unseen(self) -> list[int]:
        """Voters with partitions that no node has in the snapshot, e.g. if only metadata logs were copied."""
        found = self._without_partitions.items()
        return [node for node, is_elsewhere in found if not is_elsewhere and not self._is_empty(node)]

    @property
    def topics_of_bare(self) -> list[str]:
        """Topics with a partition that the chosen log assigns to a bare voter."""
        return sorted({self._state.topics[topic_id] for broker, topic_id, _ in self._assigned if broker in self.bare})

    def in_sync(self, node: int) -> int:
        """Number of partitions whose ISR contains a node by the chosen log."""
        return sum(node in one.isr for one in self._state.partitions.values())

    def _missing_log_dirs(self, node: int) -> set[str]:
        """Ids of log directories that a broker registered and that are not here."""
        own = {one.directory_id for one in self.held.inventory.log_dirs if one.broker_id == node}
        return set(self._state.log_dirs.get(node, ())) - own

    def _is_empty(self, node: int) -> bool:
        """True for a voter without partitions whose log directories are all here, with no -stray directory."""
        if any(one.broker_id == node for one in self.held.stray):
            return False
        if self._state.log_dirs.get(node):
            return not self._missing_log_dirs(node)
        # Without ids KRaft has one log directory (KIP-858), and metadata.log.dir may be another.
        of_metadata = {one.log_dir for one in self.held.inventory.metadata_logs}
        own = [one.path for one in self.held.inventory.log_dirs if one.broker_id == node]
        return any(path not in of_metadata for path in own)

    @cached_property
    def holders(self) -> list[int]:
        """Voters that keep their logs; empty if each of these logs ends before the chosen one, which has more."""
        holders = [node for node in self.voters.ids if self._holds(node)]
        own = [one for node in holders for one in self._own(node)]
        if not own or not self.held.moments.at_rest:
            return holders
        longest = max(own, key=lambda one: one.newness)
        is_short = longest.newness < self.copy.newness
        return [] if is_short and self.held.contents(longest) != self.held.contents(self.copy) else holders

    @cached_property
    def lacking(self) -> list[int]:
        """Voters that are not `holders`."""
        return [node for node in self.voters.ids if node not in self.holders]

    @property
    def fetches(self) -> bool:
        """True if a majority has the chosen log, so that the others fetch it from a leader."""
        return len(self.holders) > len(self.voters.ids) // 2

    @property
    def raises_epoch(self) -> bool:
        """True if voters must continue from `HeldMetadata.seen_epoch`, and would not by themselves (R4)."""
        if self.copy.epoch < self.held.seen_epoch:
            return True
        known = [seen_epoch(one) for node in self.holders for one in self._own(node)]
        return self.fetches and self.held.moments.at_rest and max(known) < self.held.seen_epoch

    @property
    def majority_stays(self) -> bool:
        """True if a majority of the voters stays as it is, up or down."""
        return self.fetches and not self.raises_epoch

    @property
    def stopped(self) -> list[int]:
        """Voters to stop: `lacking`, and those that start as controllers only, or all; holders first."""
        return [*(one for one in self.holders if one in self.bare or not self.majority_stays), *self.lacking]

    @cached_property
    def misled(self) -> list[int]:
        """Nodes whose quorum-state names as leader, in the chosen log's last epoch, a node that is given the log without a
        quorum-state: they exit as soon as another node claims to lead (`KafkaRaftClient.hasConsistentLeader`)."""
        if self.fetches or self.raises_epoch:
            return []
        keep = [*self.holders, *(node for node in self.lacking if node == self.copy.node_id)]
        states = [(node, one.state) for node in keep for one in self._own(node) if one.state is not None]
        return [
            node
            for node, state in states
            if state.leader_id in self.lacking
            and state.leader_id != node
            and state.leader_epoch == self.held.seen_epoch
        ]

    @cached_property
    def apart(self) -> list[int]:
        """Nodes that are not voters and have records that the chosen log lacks."""
        return self._others(lambda one: goes_on(one, self.copy))

    @cached_property
    def former(self) -> list[int]:
        """Nodes that are voters only by their own logs, and would elect among themselves."""
        return [node for node in self._others(self._votes_still) if node not in self.apart]

    @cached_property
    def stuck(self) -> list[int]:
        """Nodes that are not voters and cannot start with their quorum-state, or would load a damaged snapshot."""
        found = self._others(lambda one: self.held.is_stuck(one) or self.held.loads_damaged(one))
        return [node for node in found if node not in (*self.apart, *self.former)]

    @cached_property
    def wrongly_stray(self) -> list[ReplicaDir]:
        """-stray directories that the chosen log assigns to their broker, under their topic's name: unless renamed back,
        the broker would start these partitions empty."""
        return [
            one._replace(topic=self._state.topics[one.topic_id])
            for one in self.held.stray
            if one.topic_id is not None and (one.broker_id, one.topic_id, one.partition) in self._assigned
        ]

    @cached_property
    def ahead(self) -> list[ReplicaDir]:
        """Replicas with a later leader epoch than the chosen log knows, in a snapshot at rest: the log would give these epochs out again."""
        return [one for one, _ in self.held.ahead_of(self.copy)] if self.held.moments.at_rest else []

    @property
    def bereft(self) -> list[int]:
        """Brokers with partitions that the chosen log does not assign to them."""
        return sorted({one.broker_id for one in self.given_up})

    @property
    def unformatted(self) -> list[int]:
        """Voters without the log whose metadata.log.dir may be an empty disk although other directories are not."""
        known = {one.node_id for one in self.held.compared.copies}
        return [node for node in self.lacking if node not in known]

    def needs_id(self, node: int) -> bool:
        """True if a voter's directory was formatted again, so that the voter cannot vote from it."""
        if not self.is_dynamic:
            return False
        found = [one.directory_id for one in self.held.inventory.log_dirs if one.broker_id == node]
        return self.directories[node] not in found

    def obstacle(self, *, is_asked: bool) -> str | None:
        """Reason why no sequence of steps is known to work; None if one is."""
        if is_asked and (reason := self._unfit()) is not None:
            return reason
        if self.copy.problems:
            return f"part of the chosen log cannot be read: {'; '.join(reason for _, _, reason in self.copy.problems)}"
        if self.held.inventory.cluster_id is None and self.unformatted:
            return "no meta.properties names the cluster's id, with which empty disks are formatted"
        if self.held.loads_damaged(self.copy):
            start, end = self.copy.start_offset, self.copy.end_offset
            rest = (
                f"and put a sound one of another node there whose number is {start} to {end}, since the log begins at {start}"
                if start
                else "since the log has everything from offset 0 on"
            )
            return (
                f"the newest .checkpoint of the chosen log is damaged in {self.copy.log.path}: nodes load it when they start, and end, or go on "
                f"with part of the metadata. Take it out of there and of the node's own directory, {rest}, and run quorum again"
            )
        if self.copy.node_id is None:
            return (
                f"nothing says whose the chosen log is: put the meta.properties of its log directory beside {self.copy.log.path}, and run "
                "quorum again"
            )
        strangers = {one.broker_id for one in self.held.foreign}
        if strangers.intersection(self.voters.ids):
            return f"{foreign_text(self.held)}; no voter joins with another cluster's id"
        several = [one for one in (self.copy.node_id, *self.voters.ids, *self.apart) if len(self._own(one)) > 1]
        if several:
            paths = [copy.log.path for copy in self._own(several[0])]
            return (
                f"node {several[0]} has several logs here, {listed(paths)}, and nothing tells which it starts with. If the chosen one is "
                "a backup, put it into the node's log directory and keep the other elsewhere; then copy the node again, without "
                "the other, and run quorum again"
            )
        begun = set(map(place_on, self.held.inventory.replicas))
        taken = [one for one in self.wrongly_stray if place_on(one) in begun]
        if taken:
            return (
                f"broker {taken[0].broker_id} has {taken[0].topic}-{taken[0].partition} beside {taken[0].path}, which is of the topic that the "
                "chosen log knows: records may be in both, and the broker starts with one only"
            )
        twice = [one for one, number in Counter(map(place_on, self.wrongly_stray)).items() if number > 1]
        if twice:
            broker, topic, partition = twice[0]
            paths = [one.path for one in self.wrongly_stray if place_on(one) == twice[0]]
            return (
                f"broker {broker} has several directories of {topic}-{partition}, {listed(paths)}, of the topic that the chosen log knows: "
                "records may be in each, and the broker starts with one only"
            )
        unknown = [node for node in self.lacking if self.is_dynamic and node not in self.directories]
        if unknown:
            return f"the log does not say from which directory {name_nodes(unknown)} votes"
        if self.uncaptured:
            node = self.uncaptured[0]
            ids = sorted(self._missing_log_dirs(node))
            named = f" and directory.id={listed(ids, 'or')}" if ids else ""
            return (
                f"the partitions of node {node} are not in this snapshot, though another log directory of it is: they may be the only "
                "copy of committed records, and if they are lost, its empty replicas may lead. Copy every log directory of it into the "
                "snapshot, and run quorum again. For one that is lost for good, put an empty directory into the snapshot, with a "
                f"meta.properties of node.id={node}{named}"
            )
        return None

    def _unfit(self) -> str | None:
        """Reason why the requested log is unfit to start with; None if it is fit."""
        history = next(one for one in self.held.histories if any(copy is self.copy for copy in one.copies))
        newest = best_of(self.held, history)
        if history.is_spliced:
            return f"the log of {history.nodes} is spliced from two histories, and no plan is known that starts with it"
        if newest.newness > self.copy.newness:
            return f"the log of node {newest.node_id} continues that of node {self.copy.node_id}: choose that"
        return None

    @cached_property
    def _needed(self) -> int:
        """Offset that a voter's copy of the chosen log must reach for the voter to keep it."""
        number = None if self._to_its_end else self.held.history_of(self.copy)
        proven = self.copy.end_offset if number is None else self.held.proven[number].end_offset
        return min(proven, self.copy.end_offset)

    def _own(self, node: int) -> list[MetadataCopy]:
        return [one for one in self.held.compared.copies if one.node_id == node]

    def end_of(self, node: int) -> int:
        """End of the metadata log of a node that keeps its own."""
        return max(one.end_offset for one in self._own(node))

    def _holds(self, node: int) -> bool:
        return any(
            self.voters.admits(node, one.log.directory_id)
            and parting(self.copy, one) is None
            and one.end_offset >= max(self._needed, 1)
            and not one.problems
            and not self.held.loads_damaged(one)
            and not self.held.is_stuck(one)
            and one.log.path not in self.held.compared.refused
            and (one.newness == self.copy.newness or self._needed > 0)
            for one in self._own(node)
        )

    def _others(self, chosen: Callable[[MetadataCopy], bool]) -> list[int]:
        """Nodes that are not voters and have a copy for which `chosen` holds."""
        found = {one.node_id for one in self.held.copies if one.node_id not in self.voters.ids and chosen(one)}
        return sorted(node for node in found if node is not None)

    def _votes_still(self, one: MetadataCopy) -> bool:
        named = one.voters(self.held.snapshot) if self.held.history_of(one) is not None else None
        return named is not None and named.admits(one.node_id, one.log.directory_id)


def place_on(one: ReplicaDir | StrayDirectory) -> tuple[int, str, int]:
    """Broker, topic and partition of a directory."""
    return one.broker_id, one.topic, one.partition
