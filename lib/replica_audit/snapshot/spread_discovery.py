"""Discovery of many replicas by tasks; each reads the directories of some partitions on all brokers.

Tasks read ordinary directories: those below a log dir that its own files identify, and only with files of a partition at
rest. All other directories and files are left to the single pass of `snapshot.discovery`.
"""

from __future__ import annotations

import heapq
import posixpath
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from replica_audit.model import CheckpointFile, ReplicaDir, TopicPartition
from replica_audit.schema import QuarantineRow
from replica_audit.snapshot.file_tree import PackedNames, Problem, Tree, TreeEntry
from replica_audit.snapshot.inventory import LogDir
from replica_audit.snapshot.log_dir_names import (
    META_PROPERTIES,
    OFFSET_CHECKPOINTS,
    PARTITION_FILES,
    SEGMENT_SUFFIXES,
    parse_directory_name,
    parse_file_name,
)
from replica_audit.snapshot.log_dirs import (
    Folder,
    arrange_folders,
    choose_cluster,
    find_log_dirs,
    identify_log_dir,
    replica_key,
)
from replica_audit.snapshot.overtaken import EpochBounds
from replica_audit.snapshot.packed_replicas import HeldReplica, PackedReplicas, PackedSegments, SpreadReplicas
from replica_audit.snapshot.replica_dirs import OffsetFile, read_offset_files, read_replica
from replica_audit.snapshot.storage import Snapshot

#: Maximum number of partition directories that are read in this process; with more, tasks read all.
SPREAD_ABOVE = 2000

#: Directories for one task, or a few more.
STRETCH_DIRECTORIES = 2048

_ORDINARY = {*SEGMENT_SUFFIXES, *PARTITION_FILES.values()} - {"quorum_state"}

#: Marks a partition that a checkpoint does not name: offsets are never negative.
_NONE = -1


class DirStretch(NamedTuple):
    """The directories of some partitions in all log dirs, in order of partition and log dir."""

    topics: tuple[str, ...]
    topic: NDArray[np.int32]
    """Index in `topics`, for each directory."""
    partition: NDArray[np.int32]
    log_dir: NDArray[np.int32]
    """Index in `DirReader.owners`."""
    offsets: NDArray[np.int64]
    """For each directory its offset in each of `OFFSET_CHECKPOINTS`; -1 if it is not named there."""


class Owner(NamedTuple):
    """A log dir, and those of its properties that concern its replicas."""

    log_dir: LogDir
    is_foreign: bool
    checkpoints: Mapping[str, CheckpointFile]
    """Offset checkpoints of the log dir by name; empty if its replicas are not read."""


class FoundDirs(NamedTuple):
    """Contents of a task's directories."""

    held: tuple[HeldReplica, ...]
    """Replicas in order of partition, broker and log dir."""
    counts: Mapping[str, int]
    size_bytes: int
    quarantine: tuple[QuarantineRow, ...]
    tree: Tree
    """Directories that are not ordinary, with everything below them."""


class PackedDirs(NamedTuple):
    """`FoundDirs` with its replicas packed."""

    found: FoundDirs
    packs: Sequence[PackedReplicas]
    large: Sequence[PackedSegments]
    lines: bytes
    """Input of the snapshot's id for these replicas (`auditing.snapshot_id.pack_lines`)."""


class Spreading(Protocol):
    """Runs tasks."""

    def read(self, reader: DirReader, stretches: Sequence[DirStretch]) -> Iterable[PackedDirs]:
        """`reader.read` of each of `stretches`, in their order."""


class SpreadTree(NamedTuple):
    """A snapshot whose ordinary partition directories were read by tasks; `tree` has the others, and the names of those."""

    tree: Tree
    replicas: SpreadReplicas
    counts: Mapping[str, int]
    """Number of files in those directories, by kind."""
    size_bytes: int
    quarantine: tuple[QuarantineRow, ...]
    offset_files: Mapping[str, dict[str, OffsetFile]]
    """Offset checkpoints by log dir path and name, without partitions that have a directory there; only for log dirs in
    which all of these are ordinary."""


@dataclass(frozen=True, slots=True)
class AllReplicas(Iterable[ReplicaDir]):
    """Replicas that were read here merged, in order, with those that tasks have read."""

    read_here: tuple[ReplicaDir, ...]
    spread: SpreadReplicas

    def __iter__(self) -> Iterator[ReplicaDir]:
        return heapq.merge(self.read_here, self.spread, key=replica_key)

    def of_partitions(self, is_wanted: Callable[[EpochBounds], bool]) -> Iterator[ReplicaDir]:
        """See `HeldCopies`. A partition read partly here is always included: its bounds leave out the copies read here."""
        here = {one.topic_partition for one in self.read_here}
        return heapq.merge(self.read_here, self.spread.of_partitions(here, is_wanted), key=replica_key)


class DirReader(NamedTuple):
    """Reads directories in tasks."""

    snapshot: Snapshot
    owners: tuple[Owner, ...]
    is_wanted: Callable[[str], bool]
    """Filter of the topics whose replicas are read; files of others are only counted."""

    def read(self, stretch: DirStretch) -> FoundDirs:
        held: list[HeldReplica] = []
        counts: Counter[str] = Counter()
        rows: list[QuarantineRow] = []
        entries: list[TreeEntry] = []
        problems: list[Problem] = []
        size_bytes = 0
        places = [(number, *self._place(stretch, number)) for number in range(len(stretch.topic))]
        listings = self.snapshot.list_each([_path(owner, at) for _, owner, at in places])
        listed = [(place, tree) for place, tree in zip(places, listings, strict=True)]
        self.snapshot.read_ahead(path for (_, owner, at), tree in listed for path in self._small(owner, at, tree))
        for (number, owner, at), tree in listed:
            if not is_ordinary(tree):
                entries += (TreeEntry(_path(owner, at), 0, True), *tree.entries)
                problems += tree.problems
                continue
            folder = Folder(_path(owner, at))
            folder.files = {entry.name: entry for entry in tree.entries}
            prefix = "foreign_" if owner.is_foreign else ""
            counts.update(prefix + parse_file_name(name).counted_as for name in folder.files)
            size_bytes += sum(entry.size for entry in tree.entries)
            broker_id = owner.log_dir.broker_id
            if owner.checkpoints and broker_id is not None and self.is_wanted(at.topic):
                offsets = {
                    name: OffsetFile(owner.checkpoints[name], {} if value == _NONE else {at: int(value)})
                    for name, value in zip(OFFSET_CHECKPOINTS, stretch.offsets[number])
                }
                found = read_replica(self.snapshot, folder, owner.log_dir, broker_id, at, offsets)
                held.append(HeldReplica(found.replica, found.segments))
                rows += found.quarantine
        held.sort(key=lambda one: replica_key(one.replica))
        found_tree = Tree(tuple(entries), tuple(problems))
        return FoundDirs(tuple(held), dict(counts), size_bytes, tuple(rows), found_tree)

    def _place(self, stretch: DirStretch, number: int) -> tuple[Owner, TopicPartition]:
        topic = stretch.topics[stretch.topic[number]]
        return self.owners[stretch.log_dir[number]], TopicPartition(topic, int(stretch.partition[number]))

    def _small(self, owner: Owner, at: TopicPartition, tree: Tree) -> Iterator[str]:
        if owner.checkpoints and self.is_wanted(at.topic) and is_ordinary(tree):
            yield from (one.path for one in tree.entries if one.name in PARTITION_FILES)


def is_ordinary(tree: Tree) -> bool:
    """True if a directory contains only files of a partition, none of them being replaced or removed."""
    names = (parse_file_name(entry.name) for entry in tree.entries)
    return (
        not tree.problems
        and not any(entry.is_dir for entry in tree.entries)
        and all(name.kind in _ORDINARY and name.state == "live" for name in names)
    )


def leave_out(names: Collection[str], directories: Collection[str]) -> list[str]:
    """The partition directories in a folder that its files identify as a log dir; empty for any other."""
    if META_PROPERTIES not in names and not any(name in names for name in OFFSET_CHECKPOINTS):
        return []
    return [name for name in directories if _partition_of(name) is not None]


def _partition_of(name: str) -> TopicPartition | None:
    """Partition whose directory Kafka would name `name`; None if there is none."""
    kind, at = parse_directory_name(name)
    return at if kind == "current" and at is not None and str(at) == name else None


def _path(owner: Owner, at: TopicPartition) -> str:
    return posixpath.join(owner.log_dir.path, str(at))


def read_spread(snapshot: Snapshot, is_wanted: Callable[[str], bool], spreading: Spreading) -> SpreadTree | None:
    """The snapshot with its ordinary directories read by tasks. None if one pass must read everything: there are few directories,
    a second look finds other log dirs than the first, or files are not what they seem (`Snapshot.list_skeleton`)."""
    tree = snapshot.list_skeleton(leave_out)
    if tree is None or sum(map(len, tree.unlisted.values())) <= SPREAD_ABOVE:
        return None
    folders = arrange_folders(tree.entries, tree.unlisted)
    log_dirs = find_log_dirs(folders)
    identified = [identify_log_dir(snapshot, folder)[0] for folder in log_dirs]
    cluster_id = choose_cluster(identified)
    table = _Table()
    owners: list[Owner] = []
    read: dict[str, dict[str, OffsetFile]] = {}
    for log_dir, folder in zip(identified, log_dirs, strict=True):
        is_foreign = log_dir.cluster_id not in (None, cluster_id)
        offsets: dict[str, OffsetFile] = {}
        at = [at for name in folder.unlisted if (at := parse_directory_name(name).topic_partition) is not None]
        values = np.full((len(at), len(OFFSET_CHECKPOINTS)), _NONE, np.int64)
        if at and not is_foreign and log_dir.broker_id is not None and log_dir.kind == "broker":
            for column, (name, file) in enumerate(read_offset_files(snapshot, folder)):
                values[:, column] = [file.entries.pop(one, _NONE) for one in at]
                offsets[name] = OffsetFile(file.file, {**file.entries})
            read[folder.path] = offsets
        table.add(len(owners), at, values)
        owners.append(Owner(log_dir, is_foreign, {name: file.file for name, file in offsets.items()}))
    parts = list(spreading.read(DirReader(snapshot, tuple(owners), is_wanted), table.stretches()))
    whole = _put_together(tree, [part.found.tree for part in parts])
    found = [one.path for one in find_log_dirs(arrange_folders(whole.entries, whole.unlisted))]
    if found != [one.path for one in log_dirs] or snapshot.evidence.overlay(whole) is not whole:
        return None
    packs = tuple(pack for part in parts for pack in part.packs)
    large = tuple(pack for part in parts for pack in part.large)
    counts: Counter[str] = Counter()
    for part in parts:
        counts.update(part.found.counts)
    return SpreadTree(
        whole,
        SpreadReplicas(packs, large, tuple(part.lines for part in parts)),
        counts,
        sum(part.found.size_bytes for part in parts),
        tuple(row for part in parts for row in part.found.quarantine),
        {path: one for path, one in read.items() if whole.unlisted[path] is tree.unlisted[path]},
    )


def _put_together(tree: Tree, others: Iterable[Tree]) -> Tree:
    """The tree with the directories that tasks have only listed."""
    entries, problems = list(tree.entries), list(tree.problems)
    for other in others:
        entries += other.entries
        problems += other.problems
    listed = {entry.path for entry in entries if entry.is_dir}
    partly = {posixpath.dirname(path) for path in listed}
    unlisted = {
        folder: PackedNames(name for name in names if posixpath.join(folder, name) not in listed)
        if folder in partly
        else names
        for folder, names in tree.unlisted.items()
    }
    problems.sort(key=lambda problem: problem.path)
    return replace(tree, entries=tuple(sorted(entries)), problems=tuple(problems), unlisted=unlisted)


class _Table:
    """Partition directories, each with the number of its log dir, as columns."""

    def __init__(self) -> None:
        self._topics: dict[str, int] = {}
        self._parts: list[tuple[NDArray[np.int32], NDArray[np.int64]]] = []

    def add(self, number: int, at: Sequence[TopicPartition], values: NDArray[np.int64]) -> None:
        """Add the directories of a log dir, with their values in its offset checkpoints."""
        places = np.empty((len(at), 3), np.int32)
        places[:, 0] = [self._topics.setdefault(topic, len(self._topics)) for topic, _ in at]
        places[:, 1] = [partition for _, partition in at]
        places[:, 2] = number
        self._parts.append((places, values))

    def stretches(self) -> list[DirStretch]:
        """All directories in order of partition and log dir, cut between partitions."""
        places = np.concatenate([places for places, _ in self._parts])
        values = np.concatenate([values for _, values in self._parts])
        self._parts.clear()
        names = list(self._topics)
        rank = np.empty(len(names), np.int32)
        rank[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names), dtype=np.int32)
        order = np.lexsort((places[:, 2], places[:, 1], rank[places[:, 0]]))
        begins = np.flatnonzero((np.diff(places[order, :2], axis=0, prepend=-1) != 0).any(axis=1))
        found = []
        start = 0
        while start < len(places):
            after = np.searchsorted(begins, start + STRETCH_DIRECTORIES)
            end = int(begins[after]) if after < len(begins) else len(places)
            rows = order[start:end]
            numbers, topic = np.unique(places[rows, 0], return_inverse=True)
            topics = tuple(names[number] for number in numbers)
            partition, log_dir = places[rows, 1], places[rows, 2]
            found.append(DirStretch(topics, topic.astype(np.int32), partition, log_dir, values[rows]))
            start = end
        return found
