"""Every log of a partition that may hold records: replicas, and what Kafka has put aside of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from replica_audit.auditing.findings.case import Case
from replica_audit.auditing.replicas.facts import ReplicaFacts, replica_facts
from replica_audit.deciding.costs import replicas_of
from replica_audit.formats.files.storage import Snapshot
from replica_audit.formats.format_error import FormatError
from replica_audit.formats.inventory import Inventory, LogDir, SegmentFile
from replica_audit.formats.log_dirs.names import OFFSET_CHECKPOINTS, parse_directory_name, parse_file_name
from replica_audit.formats.log_dirs.owners import Folder
from replica_audit.formats.log_dirs.replica_dirs import OffsetFile, read_replica
from replica_audit.formats.snapshots.sources import summarise_source
from replica_audit.model import CheckpointFile, ReplicaDir, SegmentSummary, TopicPartition

#: Kinds of copies in the order in which a record is taken from them: the first that holds it is its source.
KINDS = ("replica", "duplicate", "future", "stray", "delete", "deleted_segments")

_NO_OFFSETS = {name: OffsetFile(CheckpointFile("not_given", ""), {}) for name in OFFSET_CHECKPOINTS}


@dataclass(frozen=True, slots=True)
class Unread:
    """Something of a partition that may hold records and could not be read."""

    path: str
    reason: str
    broker_id: int | None = None
    position: int | None = None
    start_offset: int | None = None
    """Of the batch; None where it is not known."""
    end_offset: int | None = None
    record_count: int | None = None
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class Copy:
    """One log, and the files that it is read from."""

    kind: str
    """One of `KINDS`."""
    facts: ReplicaFacts
    files: tuple[SegmentFile, ...]

    @property
    def broker_id(self) -> int:
        return self.facts.broker_id

    @property
    def path(self) -> str:
        """Its directory, relative to the snapshot."""
        return self.facts.directory.path


@dataclass(frozen=True, slots=True)
class PutAside:
    """A directory -future, -stray or -delete, or the `.deleted` segments of a current one."""

    kind: str
    directory: ReplicaDir
    files: tuple[SegmentFile, ...]
    problem: str | None = None


def find_put_aside(snapshot: Snapshot, inventory: Inventory) -> tuple[list[PutAside], list[Unread]]:
    """All of them in the log dirs of the snapshot's brokers, sorted by path, and the directories that cannot be listed."""
    found: list[PutAside] = []
    unread: list[Unread] = []
    for log_dir in inventory.log_dirs:
        broker_id = log_dir.broker_id
        if log_dir.kind != "broker" or broker_id is None or log_dir in inventory.foreign_log_dirs:
            continue
        try:
            folders = [entry.path for entry in snapshot.list_directory(log_dir.path) if entry.is_dir]
        except OSError as error:
            unread.append(Unread(log_dir.path or ".", str(error), broker_id))
            continue
        for path in folders:
            name = parse_directory_name(path.rpartition("/")[2])
            if name.topic_partition is None or name.kind in ("metadata", "other"):
                continue
            try:
                found += _look_into(snapshot, log_dir, broker_id, path, name.kind, name.topic_partition)
            except OSError as error:
                unread.append(Unread(path, str(error), broker_id))
    return sorted(found, key=lambda one: (one.directory.path, one.kind)), unread


def _look_into(
    snapshot: Snapshot, log_dir: LogDir, broker_id: int, path: str, kind: str, at: TopicPartition
) -> Iterable[PutAside]:
    folder = Folder(path)
    folder.files = {entry.path.rpartition("/")[2]: entry for entry in snapshot.list_directory(path) if not entry.is_dir}
    names = [(parse_file_name(name), entry) for name, entry in folder.files.items()]
    deleted = sorted(
        (name.base_offset, entry)
        for name, entry in names
        if name.kind == "log" and name.state == "deleted" and name.base_offset is not None
    )
    if kind == "current" and not deleted:
        return
    found = read_replica(snapshot, folder, log_dir, broker_id, at, _NO_OFFSETS)
    if kind != "current" and found.segments:
        yield PutAside(kind, found.replica, found.segments, found.replica.problem)
    if deleted:
        segments = tuple(
            SegmentFile(broker_id, log_dir.path, at.topic, at.partition, entry.path, base, entry.size)
            for base, entry in deleted
        )
        bases = tuple(base for base, _ in deleted)
        directory = replace(found.replica, segment_bases=bases, index_bases=(), checkpoint_epochs=None)
        yield PutAside("deleted_segments", directory, segments, found.replica.problem)


def copies_of(
    snapshot: Snapshot,
    case: Case,
    log: ReplicaFacts,
    files: Sequence[SegmentFile],
    put_aside: Iterable[PutAside],
) -> tuple[list[Copy], list[PutAside], list[Unread]]:
    """The copies of the topic that `case` is about, in the order of `KINDS`, without `log`, which they are laid beside.

    Where the next start of its broker cuts that log, the files of it as they are now are a copy too.

    `files` are the segments of its replicas. Second come the directories that are put aside and of another topic of the
    same name, or may be: without an id on both sides nothing tells. Third, what could not be read.
    """
    copies: list[Copy] = []
    unread: list[Unread] = []
    by_key: dict[tuple[int, str], list[SegmentFile]] = {}
    for file in files:
        by_key.setdefault((file.broker_id, file.log_dir), []).append(file)
    replicas = [("replica", facts) for facts in replicas_of(case) if not _is_whole(log, facts)]
    replicas += [("replica", facts) for facts in case.set_aside]
    replicas += [("duplicate", facts) for facts in case.duplicates]
    for kind, facts in replicas:
        if facts.unread is not None:
            unread.append(Unread(facts.directory.path, facts.unread, facts.broker_id))
        copies.append(Copy(kind, facts, tuple(by_key.get(facts.key, ()))))
    present = case.reference.facts.directory.topic_id
    others: list[PutAside] = []
    for one in put_aside:
        if one.directory.partition != case.topic_partition.partition:
            continue
        if not _is_of_topic(one, present, case.topic_partition.topic):
            if one.directory.topic == case.topic_partition.topic:
                others.append(one)
            continue
        summaries, failed = _summarise(snapshot, one.files)
        unread += failed
        if one.problem is not None:
            unread.append(Unread(one.directory.path, one.problem, one.directory.broker_id))
        copies.append(Copy(one.kind, replica_facts(one.directory, summaries), one.files))
    copies.sort(key=lambda copy: (KINDS.index(copy.kind), copy.broker_id, copy.path))
    return copies, others, unread


def _is_whole(log: ReplicaFacts, facts: ReplicaFacts) -> bool:
    return facts.key == log.key and facts.log_end_offset == log.log_end_offset


def _is_of_topic(one: PutAside, present: str | None, topic: str) -> bool:
    """Whether a directory is of the topic with the id `present`: by the id, since Kafka may have cut the name short.

    Without ids by the name, where nothing has moved the directory away from its topic.
    """
    if one.directory.topic_id is None and present is None:
        return one.directory.topic == topic and one.kind in ("future", "deleted_segments")
    return one.directory.topic_id == present


def _summarise(snapshot: Snapshot, files: Iterable[SegmentFile]) -> tuple[list[SegmentSummary], list[Unread]]:
    summaries, unread = [], []
    for file in files:
        try:
            summaries.append(summarise_source(snapshot, file))
        except (OSError, FormatError) as error:
            unread.append(Unread(file.path, f"the segment could not be read: {error}", file.broker_id))
    return summaries, unread
