"""The metadata log across the nodes of a snapshot: histories, what is proven committed, and the state by each copy."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial

import numpy as np

from replica_audit.cached_property import cached_property
from replica_audit.errors import FormatError
from replica_audit.model import Damage, ReplicaDir, SegmentFile
from replica_audit.quorum.answer_model import NodeRole, Unusable
from replica_audit.quorum.contents import NOTHING, ClusterContents, read_contents
from replica_audit.segments.batch_rows import Batches
from replica_audit.segments.digests import count_records
from replica_audit.segments.scan import scan_segment
from replica_audit.snapshot.inventory import Inventory, LogDir
from replica_audit.snapshot.metadata.compared_copies import ComparedCopies, MetadataComparison, compare_copies
from replica_audit.snapshot.metadata.copy_moments import CopyMoments, copy_moments
from replica_audit.snapshot.metadata.histories import QuorumHistory, find_histories, seen_epoch
from replica_audit.snapshot.metadata.kraft_records import DUAL_WRITE, ZK_MIGRATION, Voters
from replica_audit.snapshot.metadata.log_copies import UNKNOWN_REACH, MetadataCopy, is_complete
from replica_audit.snapshot.metadata.producer_blocks import next_id
from replica_audit.snapshot.metadata.proven_end import Proven
from replica_audit.snapshot.metadata.quorum import newest_copy, parting
from replica_audit.snapshot.metadata.stale_copies import AppliedEvidence, first_change
from replica_audit.snapshot.producer_snapshots import SeenProducer, greatest_producer
from replica_audit.snapshot.replica_dirs import stray_copies
from replica_audit.snapshot.storage import Snapshot

#: Broker, log dir, topic and partition.
_Directory = tuple[int, str, str, int]


class HeldMetadata:
    """The copies of one snapshot, compared. Properties are computed once, on first use."""

    def __init__(self, snapshot: Snapshot, inventory: Inventory) -> None:
        self.snapshot = snapshot
        self.inventory = inventory
        self.moments: CopyMoments = copy_moments(inventory.manifest, inventory.log_dirs, inventory.replicas)
        self._epochs = {
            (one.broker_id, one.topic, one.partition, one.topic_id): one.checkpoint_epochs for one in inventory.replicas
        }
        self.stray = tuple(stray_copies((*inventory.put_aside, *inventory.unplaced)))
        """Directories that brokers renamed to -stray."""
        self._producer = cache(partial(greatest_producer, snapshot, inventory.replicas))
        evidence = AppliedEvidence(self._epochs_of, inventory.replicas, self.stray, self.moments, self._producer)
        self.compared: ComparedCopies = compare_copies(snapshot, inventory.metadata_logs, evidence)
        self._contents: dict[tuple[str, int], ClusterContents | str] = {}
        self._damaged: dict[str, bool] = {}
        self._records: dict[_Directory, int] = {}
        self.uncounted: list[Unusable] = []
        """Segments that `records_in` could not read to their end."""

    def _epochs_of(self, broker_id: int, topic: str, partition: int, topic_id: str) -> tuple | None:
        return self._epochs.get((broker_id, topic, partition, topic_id))

    @property
    def copies(self) -> tuple[MetadataCopy, ...]:
        """Readable copies with records or a snapshot."""
        return self.compared.usable

    @cached_property
    def unread(self) -> tuple[MetadataCopy, ...]:
        """Copies with unreadable records that extend further than any readable copy."""
        newest = newest_copy(self.copies).newness
        return tuple(
            copy
            for copy in self.compared.copies
            if (copy.problems or copy.log.path in self.compared.refused) and newest < copy.reach < UNKNOWN_REACH
        )

    @cached_property
    def foreign(self) -> tuple[LogDir, ...]:
        """Log dirs of another cluster than most; not used."""
        own = self.inventory.cluster_id
        return tuple(one for one in self.inventory.log_dirs if one.cluster_id not in (None, own))

    @cached_property
    def unapplied(self) -> Mapping[str, str]:
        """By nodes, reasons why contradicting histories that are not spliced cannot be applied."""
        forked = self.histories if self.found.quorum.forks else ()
        states = ((one, self.contents(newest_copy(one.copies))) for one in forked if not one.is_spliced)
        return {one.nodes: state for one, state in states if isinstance(state, str)}

    def is_stuck(self, copy: MetadataCopy) -> bool:
        """True if the copy's node cannot start, since its quorum-state cannot be read (`FileQuorumStateStore.readStateFromFile`)."""
        return any(row.path == f"{copy.log.path}/quorum-state" for row in self.compared.ignored)

    @cached_property
    def hidden(self) -> tuple[MetadataCopy, ...]:
        """Copies of unknown length, since their end cannot be read."""
        return tuple(copy for copy in self.compared.copies if copy.reach == UNKNOWN_REACH)

    @property
    def found(self) -> MetadataComparison:
        """The comparison of the copies that can be read: an answer needs at least one."""
        assert self.compared.found is not None
        return self.compared.found

    @property
    def voters(self) -> Voters:
        """Voters by the newest copy or, if only one history is not refused, by its newest copy; without ids if no copy names them."""
        return self.found.quorum.voters or Voters(())

    @cached_property
    def histories(self) -> tuple[QuorumHistory, ...]:
        """Groups of copies that do not contradict each other, newest first."""
        found = self.found
        evidence = AppliedEvidence(directories=self.inventory.replicas, stray=self.stray)
        return found.histories or find_histories(self.snapshot, found.groups, found.quorum.voters, evidence)

    def history_of(self, copy: MetadataCopy) -> int | None:
        """Index of a copy's history in `histories`; None for a copy that holds nothing or cannot be read."""
        return self.found.history_of(copy)

    @cached_property
    def seen_epoch(self) -> int:
        """The greatest epoch that any node knows."""
        return max(map(seen_epoch, self.compared.copies))

    def first_change(self, copy: MetadataCopy, offset: int) -> int | None:
        """Time of the first record from `offset` on that is not only about the quorum's leader and the brokers' liveness."""
        return first_change(self.snapshot, copy, offset)

    @property
    def proven(self) -> tuple[Proven, ...]:
        """The proven committed end of each history."""
        return self.found.proven

    @cached_property
    def available(self) -> frozenset[int]:
        """Voters with log records in a directory from which they may vote."""
        return frozenset(copy.node_id for copy in self._of_voters() if copy.node_id is not None)

    def able_voters(self) -> list[int]:
        """Voters, in order, that hold everything proven committed in their history."""
        found: set[int] = set()
        short: set[int] = set()
        for copy in self._of_voters():
            number = self.history_of(copy)
            if copy.node_id is not None:
                holds = number is not None and copy.end_offset >= self.proven[number].end_offset
                (found if holds else short).add(copy.node_id)
        # It is unknown which of several logs a node starts with.
        return sorted(found - short)

    def _of_voters(self) -> Iterator[MetadataCopy]:
        """Copies with records that belong to a voter and are in the directory it votes from."""
        for copy in self.copies:
            if copy.end_offset and self.voters.admits(copy.node_id, copy.log.directory_id):
                yield copy

    def contents(self, copy: MetadataCopy) -> ClusterContents | str:
        """The state after a copy's records; the reason as text if it cannot be built."""
        key = copy.log.path, copy.end_offset
        if key not in self._contents:
            number = self.history_of(copy)
            others = () if number is None else self.histories[number].copies
            self._contents[key] = read_contents(self.snapshot, copy, others)
        return self._contents[key]

    def known_topics(self, copy: MetadataCopy) -> frozenset[str]:
        """Ids of topics that a copy knows or knew."""
        state = self.contents(copy)
        return frozenset() if isinstance(state, str) else state.created

    def common(self, copy: MetadataCopy, other: MetadataCopy) -> ClusterContents:
        """The state up to the offset at which two copies part; empty if unknown."""
        parted = parting(copy, other)
        if parted is None or not parted:
            shorter = min(copy, other, key=lambda one: one.end_offset)
            found = self.contents(shorter) if parted is None else NOTHING
        else:
            found = self.contents(copy.until(parted))
        return NOTHING if isinstance(found, str) else found

    def loads_damaged(self, copy: MetadataCopy) -> bool:
        """True if the snapshot that a copy's node loads when it starts is damaged, or missing although the log begins after it.

        The newest one is loaded even if the log goes back further (`KafkaRaftClient.updateListenersProgress`): its part before
        the damage, without a warning, if that has the metadata.version (4.3.1); otherwise the node exits.
        """
        path = copy.log.path
        if path not in self._damaged:
            newest = copy.snapshots[-1:]
            sound = is_complete(self.snapshot, newest[0].path) if newest else not copy.start_offset
            self._damaged[path] = not sound
        return self._damaged[path]

    @cached_property
    def brokers(self) -> tuple[int, ...]:
        """Nodes with partitions here, in order."""
        return tuple(sorted({one.broker_id for one in self.inventory.replicas}))

    @cached_property
    def newest_state(self) -> ClusterContents:
        """The state after the newest copy; empty if unknown."""
        state = self.contents(newest_copy(self.copies))
        return NOTHING if isinstance(state, str) else state

    @property
    def registered(self) -> frozenset[int]:
        """Brokers by the newest copy."""
        return frozenset(self.newest_state.log_dirs)

    @property
    def writes_to_zookeeper(self) -> bool:
        """True if by the newest copy the cluster is migrating from ZooKeeper and its controllers write the log's content there too."""
        return self.newest_state.of_kind(ZK_MIGRATION).get("") == DUAL_WRITE

    @cached_property
    def only_in_zookeeper(self) -> tuple[str, ...]:
        """Topics, and leader epochs of partitions, that ZooKeeper has and no copy, while controllers write to both: a log had them first."""
        if not self.writes_to_zookeeper:
            return ()
        states = [one for one in map(self.contents, self.copies) if not isinstance(one, str)]
        names = {name: topic_id for one in states for topic_id, name in one.topics.items()}
        created = {topic_id for one in states for topic_id in one.created}
        epochs = {key: now.leader_epoch or 0 for one in states for key, now in one.partitions.items()}
        topics, partitions = set(), []
        for one in self.inventory.leaderships:
            topic_id = names.get(one.topic) if one.topic_id is None else one.topic_id
            if one.source != "zookeeper" or (topic_id in created and topic_id not in names.values()):
                continue
            known = None if topic_id is None else epochs.get((topic_id, one.partition))
            if topic_id not in created:
                topics.add(f"topic {one.topic}")
            elif known is None:
                partitions.append(f"partition {one.topic_partition}")
            elif one.leader_epoch is not None and one.leader_epoch > known:
                partitions.append(f"leader epoch {one.leader_epoch} of {one.topic_partition}")
        return (*sorted(topics), *partitions)

    @cached_property
    def next_producer_id(self) -> int | None:
        """First producer id that controllers have not given out by the newest copy; None if unknown, or if ids may be ZooKeeper's."""
        return next_id(self.snapshot, self.found.groups[0])

    @cached_property
    def unknown_producer(self) -> SeenProducer | None:
        """Greatest producer id in brokers' files, if no copy has given it out although nothing ran while all were copied
        (brokers get ids only from controllers); else None."""
        free = self.next_producer_id if self.moments.at_rest else None
        seen = None if free is None else self._producer()
        return None if seen is None or free is None or seen.producer_id < free else seen

    @property
    def has_zookeeper(self) -> bool:
        """True if partition states of ZooKeeper are here."""
        return any(one.source == "zookeeper" for one in self.inventory.leaderships)

    @property
    def is_alone(self) -> bool:
        """True if only one copy is here, and nothing from a broker: nothing can show what it lacks."""
        return len(self.compared.copies) == 1 and not self.brokers and not self.stray

    def role(self, copy: MetadataCopy) -> NodeRole:
        """Role of the node that a copy belongs to."""
        has_replicas = copy.node_id in self.brokers
        if copy.node_id in self.voters.ids:
            return "combined" if has_replicas else "controller"
        kinds = (one.kind for one in self.inventory.log_dirs if one.path == copy.log.log_dir)
        return "broker" if has_replicas or next(kinds, None) == "broker" else "controller"

    @cached_property
    def _segments(self) -> Mapping[_Directory, Sequence[SegmentFile]]:
        """Segments of every partition directory whose files are here."""
        found: dict[_Directory, list[SegmentFile]] = defaultdict(list)
        for segment in self.inventory.segments:
            if segment.source == "segment":
                found[_directory(segment)].append(segment)
        return found

    def has_segments(self, one: ReplicaDir) -> bool:
        """True if segment files of the directory are here."""
        return _directory(one) in self._segments

    def records_in(self, one: ReplicaDir) -> int:
        """Number of data records in a partition directory."""
        key = _directory(one)
        if key not in self._records:
            self._records[key] = sum(map(self._count, self._segments.get(key, ())))
        return self._records[key]

    def unknown_topics(self, copy: MetadataCopy) -> frozenset[str]:
        """Topics of brokers' directories that a copy never knew; empty if its state is unknown."""
        here = {one.topic_id for one in self.inventory.replicas if one.topic_id is not None}
        return frozenset() if isinstance(self.contents(copy), str) else frozenset(here - self.known_topics(copy))

    def ahead_of(self, copy: MetadataCopy) -> Iterator[tuple[ReplicaDir, int]]:
        """Replicas with records of a later leader epoch than a copy knows, and the latest that it knows."""
        state = self.contents(copy)
        known = {} if isinstance(state, str) else {key: now.leader_epoch for key, now in state.partitions.items()}
        for one in self.inventory.replicas:
            latest = None if one.topic_id is None else known.get((one.topic_id, one.partition))
            if latest is not None and any(epoch > latest for epoch, _ in one.checkpoint_epochs or ()):
                yield one, latest

    def _count(self, segment: SegmentFile) -> int:
        records = 0
        try:
            with self.snapshot.open_file(segment.path) as stream:
                for item in scan_segment(stream, segment.size_bytes, segment.base_offset):
                    if not isinstance(item, Damage):
                        records += int(count_records(item)[~Batches(item).control].sum())
        except (OSError, FormatError) as error:
            reason = f"records from here on are not counted among those of -stray directories: {error}"
            self.uncounted.append(Unusable(segment.path, getattr(error, "position", None), reason))
        return records


def _directory(one: ReplicaDir | SegmentFile) -> _Directory:
    return one.broker_id, one.log_dir, one.topic, one.partition


def missing_records(copy: MetadataCopy, others: Sequence[MetadataCopy]) -> int:
    """Number of metadata records that `others` have and `copy` does not, from the start of `copy` on."""
    pieces = [piece.headers for one in others for piece in one.pieces]
    if not pieces:
        return 0
    headers = np.concatenate(pieces)
    headers = headers[headers["base_offset"] >= copy.start_offset]
    keys, first = np.unique(headers[["base_offset", "leader_epoch", "crc"]], return_index=True)
    gone = headers[first][~np.isin(keys, copy.keys)]
    return int((gone["last_offset"] - gone["base_offset"] + 1).sum())


def digest_of(copy: MetadataCopy) -> str:
    """Digest over the keys of all batches of a copy."""
    return hashlib.sha256(np.ascontiguousarray(copy.keys).tobytes()).hexdigest()[:32]
