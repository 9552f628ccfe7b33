"""Discovery of a snapshot's contents: log dirs, replicas, segments, leaders. Nothing is skipped silently."""

from __future__ import annotations

import posixpath
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import cache, partial
from itertools import accumulate, chain

from replica_audit.bronze_tables import OffsetCheckpointRow
from replica_audit.literals import PUT_ASIDE
from replica_audit.model import Leadership, ReplicaDir, SegmentFile, TopicPartition
from replica_audit.parsing import matches
from replica_audit.schema import QuarantineRow
from replica_audit.snapshot.broker_logs import broker_of_path, is_broker_log
from replica_audit.snapshot.file_tree import TreeEntry
from replica_audit.snapshot.inventory import DuplicateReplica, Inventory, LogDir, MetadataLog
from replica_audit.snapshot.leadership_sources import RootFiles, read_leaderships
from replica_audit.snapshot.log_dir_names import (
    LOG_DIR_FILES,
    META_PROPERTIES,
    OFFSET_CHECKPOINTS,
    PARTITION_FILES,
    parse_directory_name,
    parse_file_name,
    progress_form,
)
from replica_audit.snapshot.log_dirs import (
    Folder,
    arrange_folders,
    choose_cluster,
    find_broker_logs,
    find_duplicates,
    find_log_dirs,
    identify_log_dir,
    metadata_log_in,
    misnamed,
    registered_elsewhere,
    replica_key,
    segment_key,
)
from replica_audit.snapshot.manifest import (
    MANIFEST,
    parse_manifest,
    with_ends_of_metadata,
    with_log_dirs,
    with_own_names,
)
from replica_audit.snapshot.metadata.copy_moments import copy_moments
from replica_audit.snapshot.metadata.metadata_log import find_voters, read_metadata
from replica_audit.snapshot.metadata.stale_copies import AppliedEvidence
from replica_audit.snapshot.observed import OBSERVED, parse_observation, with_observation
from replica_audit.snapshot.packed_replicas import HeldReplica, SpreadReplicas
from replica_audit.snapshot.producer_snapshots import greatest_producer
from replica_audit.snapshot.remote_store import is_listing
from replica_audit.snapshot.replica_dirs import (
    OffsetFile,
    deleted_segments,
    nameless_strays,
    of_known_topics,
    read_offset_files,
    read_own_files,
    read_put_aside,
    read_replica,
    stray_copies,
    unreadable,
)
from replica_audit.snapshot.spread_discovery import AllReplicas, Spreading, SpreadTree, read_spread
from replica_audit.snapshot.stand_ins import Found, read_stand_ins
from replica_audit.snapshot.storage import GREATEST_AHEAD, Snapshot, is_archive
from replica_audit.text import count, verb

_TABLE_ENDINGS = (".jsonl", ".csv", ".parquet")


def kind_by_name(path: str) -> str:
    """replica_progress, remote_objects, broker_log, dump_text, batch_table or unknown."""
    if progress_form(path):
        return "replica_progress"
    if is_listing(path):
        return "remote_objects"
    if is_broker_log(path):
        return "broker_log"
    return _stand_in(path) or "unknown"


def _stand_in(path: str) -> str | None:
    """dump_text or batch_table by a file's name; None for others."""
    folder, _, name = path.rpartition("/")
    if name.endswith(".dump.txt") or (name.endswith(".txt") and folder.rpartition("/")[2] == "dump"):
        return "dump_text"
    if is_listing(path):
        return None
    return "batch_table" if name.endswith(_TABLE_ENDINGS) and not fnmatchcase(name, "replica[_-]progress*") else None


def _in_delta_tables(entries: Iterable[TreeEntry]) -> Iterator[str]:
    """Paths of the files of Delta tables, such as those of a warehouse: none is a table of batches, and some were replaced."""
    logs = (f"/{entry.path}".partition("/_delta_log/") for entry in entries)
    tables = tuple({f"{table[1:]}/" if table else "" for table, found, _ in logs if found})
    return (entry.path for entry in entries if entry.path.startswith(tables))


#: Directories that belong in a log dir although they are not partitions.
_KNOWN_DIRECTORIES = {"remote-log-index-cache", "dump", "logs"}


def discover(snapshot: Snapshot, topics: tuple[str, ...] = (), spreading: Spreading | None = None) -> Inventory:
    """Everything in `snapshot`; `topics` are shell patterns on whole names that replicas and segments must match.

    With `spreading`, tasks read the partition directories if there are many: their replicas are in `spread`, not in `replicas` and
    `segments`. Texts and tables in place of segments are matched against all replicas, so with such input one pass reads everything.

    Reads the small text files, and of segments only a `.swap` (Kafka asks for its end). What cannot be used is in `quarantine`:
    CAP-UNREADABLE for what had to be read, META-FOREIGN-DIR and META-DIR-OWNER, and INPUT-IGNORED for files that are not input.
    """
    spread = None if spreading is None else read_spread(snapshot, partial(matches, topics), spreading)
    if spread is not None and any(_stand_in(entry.path) for entry in spread.tree.entries if not entry.is_dir):
        spread = None
    return _Discovery(snapshot, topics, spread).inventory()


class _Discovery:
    """One pass over a snapshot, or over the part that tasks have left."""

    def __init__(self, snapshot: Snapshot, topics: tuple[str, ...], spread: SpreadTree | None) -> None:
        self._snapshot = snapshot
        self._filters = [topics, *snapshot.evidence.topics]
        self._spread = SpreadReplicas() if spread is None else spread.replicas
        tree = snapshot.list_tree() if spread is None else spread.tree
        self._files = [entry for entry in tree.entries if not entry.is_dir]
        self._folders = arrange_folders(tree.entries, tree.unlisted)
        self._root = RootFiles(snapshot, tuple(sorted(self._folders[""].files)))
        self._problems = {problem.path: problem for problem in tree.problems}
        self._kinds: dict[str, str] = {}
        self._counts: Counter[str] = Counter()
        self._quarantine: list[QuarantineRow] = []
        self._replicas: list[ReplicaDir] = []
        self._read: dict[tuple[int, TopicPartition], list[ReplicaDir]] = defaultdict(list)
        self._segments: list[SegmentFile] = []
        self._orphans: list[OffsetCheckpointRow] = []
        self._metadata_logs: list[MetadataLog] = []
        self._topics: set[str] = set()
        self._put_aside: list[HeldReplica] = []
        self._unread: dict[tuple[int, TopicPartition], list[Folder]] = defaultdict(list)
        self._offset_files: dict[str, dict[str, OffsetFile]] = {}
        self._log_dirs_of: dict[int, list[str]] = defaultdict(list)
        self._size_bytes = sum(entry.size for entry in self._files)
        self._read_offsets: Mapping[str, dict[str, OffsetFile]] = {} if spread is None else spread.offset_files
        if spread is not None:
            self._counts.update(spread.counts)
            self._size_bytes += spread.size_bytes
            self._quarantine += spread.quarantine

    def _is_wanted(self, topic: str) -> bool:
        """True if a topic passes every filter: topics that one broker was not asked for cannot be compared."""
        return all(matches(patterns, topic) for patterns in self._filters)

    def inventory(self) -> Inventory:
        self._snapshot.read_ahead(self._small_files())
        found = find_log_dirs(self._folders)
        # A log dir, or a directory above one, is not a partition, whatever its name.
        log_dir_paths = {path for folder in found for path in accumulate(folder.path.split("/"), posixpath.join)}
        log_dirs = []
        for folder in found:
            log_dir, rows = identify_log_dir(self._snapshot, folder)
            log_dirs.append(log_dir)
            self._quarantine += rows
        cluster_id = choose_cluster(log_dirs)
        foreign = [one for one in log_dirs if one.cluster_id not in (None, cluster_id)]
        self._quarantine += misnamed(self._snapshot, [one for one in log_dirs if one not in foreign])
        for log_dir, folder in zip(log_dirs, found, strict=True):
            self._look_into(log_dir, folder, log_dir_paths, log_dir in foreign)
        manifest, unplaced_entries = with_own_names(self._root.read(MANIFEST, "manifest", parse_manifest), log_dirs)
        self._quarantine += unplaced_entries
        manifest = with_log_dirs(manifest, self._snapshot.evidence.log_dirs.values())
        observation = self._root.read(OBSERVED, "observed", parse_observation)
        if cluster_id is None and observation is not None:
            cluster_id = observation.cluster_id
        held = AllReplicas(tuple(sorted(self._replicas, key=replica_key)), self._spread)
        applied = held if self._spread else tuple(self._replicas)
        stray = stray_copies(one.replica for one in self._put_aside)
        producer = cache(partial(greatest_producer, self._snapshot, applied))
        moments = copy_moments(manifest, log_dirs, applied)
        evidence = AppliedEvidence(self._epochs_of, applied, tuple(stray), moments, producer)
        metadata = read_metadata(self._snapshot, self._metadata_logs, evidence)
        self._quarantine += registered_elsewhere((one for one in log_dirs if one not in foreign), metadata.online)
        manifest = with_ends_of_metadata(manifest, metadata.ends)
        leaderships, leadership_files, in_sync = read_leaderships(self._root, metadata, held, self._is_wanted)
        self._kinds.update(self._root.kinds)
        self._quarantine += [*metadata.quarantine, *self._root.quarantine]
        self._kinds.update(dict.fromkeys(_in_delta_tables(self._files), "unknown"))
        of_kind: dict[str, list[TreeEntry]] = defaultdict(list)
        for entry in self._files:
            # `_look_into` has set the kinds of the others, in log dirs.
            of_kind[self._kinds.get(entry.path) or kind_by_name(entry.path)].append(entry)
        self._counts.update({kind: len(entries) for kind, entries in of_kind.items()})
        archives = [entry.path for entry in of_kind["unknown"] if "/" not in entry.path and is_archive(entry.path)]
        self._quarantine += [
            QuarantineRow.of("INPUT-IGNORED", path, "an archive is not read: unpack it") for path in archives
        ]
        dumps = [entry.path for entry in of_kind["dump_text"]]
        tables = [entry.path for entry in of_kind["batch_table"]]
        self._add_stand_ins(dumps, tables, [one for one in log_dirs if one not in foreign and one.kind == "broker"])
        if observation is not None:
            self._replicas, self._segments = with_observation(
                self._replicas, self._segments, observation, self._is_wanted
            )
            self._topics.update(one.topic for one in observation.replicas)
        broker_logs, unowned = find_broker_logs(of_kind["broker_log"], log_dirs)
        self._quarantine += unowned
        put_aside = list(self._wanted_copies(self._put_aside, leaderships))
        placed = {one.replica.path for one in put_aside}
        unplaced = {one.replica.path: one.replica for one in self._put_aside}
        named = {*(one.topic_partition for one in self._replicas), *(one.topic_partition for one in leaderships)}
        if self._counts["partition_metadata"]:
            self._quarantine += nameless_strays(self._put_aside, named)
        self._tell_problems()
        return Inventory(
            cluster_id=cluster_id,
            log_dirs=tuple(log_dirs),
            replicas=tuple(sorted(self._replicas, key=replica_key)),
            segments=tuple(sorted(self._segments, key=segment_key)),
            duplicates=self._duplicates(log_dirs),
            orphan_checkpoints=tuple(self._orphans),
            metadata_logs=tuple(self._metadata_logs),
            metadata_copies=metadata.copies,
            voters=find_voters(metadata.voters, self._metadata_logs, metadata.unread, log_dirs),
            leaderships=leaderships,
            leadership_files=leadership_files,
            remote_logs=_log_dirs_of(in_sync, log_dirs),
            manifest=manifest,
            broker_logs=tuple(broker_logs),
            progress_files=tuple((entry.path, entry.size) for entry in of_kind["replica_progress"]),
            remote_listings=tuple((entry.path, entry.size) for entry in of_kind["remote_objects"]),
            topics=tuple(sorted(self._topics)),
            counts=dict(sorted(self._counts.items())),
            size_bytes=self._size_bytes,
            quarantine=tuple(sorted(self._quarantine, key=lambda row: (row.path, row.code, row.reason))),
            put_aside=tuple(sorted((one.replica for one in put_aside), key=replica_key)),
            put_aside_segments=tuple(sorted((file for one in put_aside for file in one.segments), key=segment_key)),
            unplaced=tuple(unplaced[path] for path in sorted(unplaced.keys() - placed)),
            spread=self._spread,
            observation=observation,
        )

    def _small_files(self) -> Iterator[str]:
        """Files that will be read completely, judging by their names."""
        for entry in self._files:
            folder, _, name = entry.path.rpartition("/")
            if entry.size > GREATEST_AHEAD or name not in (META_PROPERTIES, *OFFSET_CHECKPOINTS, *PARTITION_FILES):
                continue
            at = parse_directory_name(folder.rpartition("/")[2]).topic_partition
            if name not in PARTITION_FILES or at is None or self._is_wanted(at.topic):
                yield entry.path

    def _tell_problems(self) -> None:
        """Add a row for each path that could not be examined, except those that a reader reports itself."""
        told = {row.path for row in self._quarantine} | {segment.path for segment in self._segments}
        of_replicas = {replica.path: replica for replica in self._replicas}
        for path, problem in self._problems.items():
            if path in told:
                continue
            code = "INPUT-IGNORED" if problem.is_told_elsewhere else "CAP-UNREADABLE"
            owner = of_replicas.get(path)
            broker_id = broker_of_path(f"{path}/") if owner is None else owner.broker_id
            at = None if owner is None else owner.topic_partition
            self._quarantine.append(QuarantineRow.of(code, path or ".", problem.reason, broker_id=broker_id, at=at))

    def _add_stand_ins(self, dumps: list[str], tables: list[str], log_dirs: list[LogDir]) -> None:
        """Add the logs that only texts and tables describe."""
        if not dumps and not tables:
            return
        found = Found(log_dirs, self._offset_files, self._replicas, self._segments)
        added = read_stand_ins(self._snapshot, dumps, tables, found, self._is_wanted)
        self._replicas, self._segments = list(added.replicas), list(added.segments)
        self._topics.update(added.topics)
        self._counts.update(added.counts)
        self._quarantine += added.quarantine
        known = {(one.log_dir, one.topic, one.partition) for one in self._replicas}
        self._orphans = [one for one in self._orphans if (one.log_dir, one.topic, one.partition) not in known]

    def _look_into(self, log_dir: LogDir, folder: Folder, log_dirs: set[str], is_foreign: bool) -> None:
        for name, entry in folder.files.items():
            kind = LOG_DIR_FILES.get(name)
            if kind or name.endswith(".tmp"):
                self._kinds[entry.path] = kind or "tmp"
        if folder.unlisted:
            self._counts["directory_current"] += len(folder.unlisted)
        partitions: list[tuple[TopicPartition, Folder]] = []
        for name, child in sorted(folder.folders.items()):
            if child.path not in log_dirs:
                place = self._look_at_directory(log_dir, name, child, is_foreign)
                if place is not None:
                    partitions.append((place, child))
        for name, entry in folder.files.items():
            parsed = parse_directory_name(name)
            if entry.path in self._problems and parsed.kind == "current" and parsed.topic_partition:
                # For example an unfollowed link in place of a partition directory.
                partitions.append((parsed.topic_partition, Folder(entry.path)))
        if is_foreign:
            number = len(partitions) + len(folder.unlisted)
            left_out = f"{count(number, 'partition')} {verb(number, 'is', 'are')} left out"
            reason = f"a log dir of cluster {log_dir.cluster_id}: its {left_out}"
            row = QuarantineRow.of("META-FOREIGN-DIR", folder.path or ".", reason, broker_id=log_dir.broker_id)
            self._quarantine.append(row)
        elif log_dir.broker_id is not None and log_dir.kind == "broker":
            self._read_replicas(log_dir, log_dir.broker_id, folder, partitions)

    def _look_at_directory(self, log_dir: LogDir, name: str, child: Folder, is_foreign: bool) -> TopicPartition | None:
        """Count a directory of a log dir, and read it unless it is a partition in use; returns that partition."""
        parsed = parse_directory_name(name)
        self._counts[f"directory_{parsed.kind}"] += 1
        self._note_files(child, parsed.kind, is_foreign)
        if parsed.kind == "current":
            return parsed.topic_partition
        if parsed.kind in PUT_ASIDE and parsed.topic_partition and not is_foreign:
            self._read_put_aside(log_dir, child, parsed.topic_partition)
        elif parsed.kind == "metadata" and not is_foreign:
            self._metadata_logs.append(metadata_log_in(log_dir, child))
        elif parsed.kind == "other" and name not in _KNOWN_DIRECTORIES:
            reason = "this directory is not a partition: Kafka refuses to start with it"
            self._quarantine.append(QuarantineRow.of("INPUT-IGNORED", child.path, reason, broker_id=log_dir.broker_id))
        return None

    def _read_put_aside(self, log_dir: LogDir, child: Folder, at: TopicPartition) -> None:
        if log_dir.broker_id is not None and log_dir.kind == "broker":
            found = read_put_aside(self._snapshot, child, log_dir, log_dir.broker_id, at)
            if found.segments:
                self._put_aside.append(found)
            self._note_deleted(child, found.replica)

    def _note_deleted(self, folder: Folder, replica: ReplicaDir) -> None:
        found = deleted_segments(folder, replica)
        if found is not None:
            self._put_aside.append(found)

    def _wanted_copies(self, found: Sequence[HeldReplica], leaderships: Iterable[Leadership]) -> Iterator[HeldReplica]:
        """Wanted copies among those that Kafka has put aside."""
        asked = {(one.replica.topic_id, one.replica.partition) for one in found}
        names = {one.replica.topic_partition for one in found}
        told: Iterable[tuple[str | None, TopicPartition]] = chain(
            ((one.topic_id, one.topic_partition) for one in leaderships),
            ((one.topic_id, one.topic_partition) for one in chain(self._replicas, self._spread if found else ())),
        )
        wanted = [
            (topic_id, at)
            for topic_id, at in told
            if ((topic_id, at.partition) in asked or at in names) and self._is_wanted(at.topic)
        ]
        topics = {(topic_id, at.partition): at.topic for topic_id, at in wanted if topic_id is not None}
        return of_known_topics(found, topics, [at for _, at in wanted])

    def _read_replicas(
        self, log_dir: LogDir, broker_id: int, folder: Folder, partitions: list[tuple[TopicPartition, Folder]]
    ) -> None:
        offsets = self._read_offsets.get(folder.path) or dict(read_offset_files(self._snapshot, folder))
        self._quarantine += (row for one in offsets.values() for row in unreadable(one.file, broker_id))
        present = {topic_partition for topic_partition, _ in partitions}
        if folder.unlisted:
            self._topics.update({name.rpartition("-")[0] for name in folder.unlisted})
            self._log_dirs_of[broker_id].append(log_dir.path)
        else:
            self._offset_files[log_dir.path] = offsets
        for name, file in offsets.items():
            for at, value in file.entries.items():
                if (
                    at not in present
                    and str(at) not in folder.unlisted
                    and self._is_wanted(at.topic)
                    and self._snapshot.evidence.has(log_dir.path, str(at))
                ):
                    line = OffsetCheckpointRow(broker_id, log_dir.path, name, at.topic, at.partition, value)
                    self._orphans.append(line)
        for at, child in partitions:
            self._topics.add(at.topic)
            if not self._is_wanted(at.topic):
                self._unread[broker_id, at].append(child)
                continue
            problem = self._problems.get(child.path)
            reason = None if problem is None else f"{child.path}: {problem.reason}"
            found = read_replica(self._snapshot, child, log_dir, broker_id, at, offsets, reason)
            self._replicas.append(found.replica)
            self._read[broker_id, at].append(found.replica)
            self._segments += found.segments
            self._quarantine += found.quarantine
            self._note_deleted(child, found.replica)
            if found.superseded:
                self._counts["log_superseded_by_swap"] += found.superseded

    def _epochs_of(self, broker_id: int, topic: str, partition: int, topic_id: str) -> tuple | None:
        """Entries of a broker's leader-epoch-checkpoint, even of topics that the filter leaves out."""
        at = TopicPartition(topic, partition)
        known = [(one.topic_id, one.checkpoint_epochs) for one in self._read.get((broker_id, at), ())]
        unread = [*self._unread.get((broker_id, at), ()), *self._read_by_tasks(broker_id, at)]
        read = (read_own_files(self._snapshot, folder) for folder in unread)
        known += [(one.topic_id, one.epochs) for one in read]
        return next((entries for of_topic, entries in known if of_topic == topic_id), None)

    def _read_by_tasks(self, broker_id: int, at: TopicPartition) -> Iterator[Folder]:
        """Directories of a partition in log dirs that tasks have read."""
        for log_dir in self._log_dirs_of[broker_id]:
            folder = Folder(posixpath.join(log_dir, str(at)))
            with suppress(OSError):  # not an ordinary one, so it was read here
                entries = self._snapshot.list_directory(folder.path)
                folder.files = {entry.name: entry for entry in entries if not entry.is_dir}
            if folder.files:
                yield folder

    def _duplicates(self, log_dirs: Iterable[LogDir]) -> tuple[DuplicateReplica, ...]:
        """Replicas that a broker has twice; of those read by tasks only if a broker has several log dirs."""
        of_brokers = Counter(one.broker_id for one in log_dirs)
        several = max(of_brokers.values(), default=0) > 1
        return find_duplicates(chain(self._replicas, self._spread if several else ()))

    def _note_files(self, folder: Folder, kind: str, is_foreign: bool) -> None:
        """Remember the kinds under which files below a directory of a log dir are counted."""
        prefix = "foreign_" if is_foreign else ""
        for name, entry in folder.files.items():
            # Broker logs, and texts and tables in place of segments, keep their kind inside a log dir too.
            is_put_beside = is_broker_log(entry.path) or _stand_in(entry.path) is not None
            if is_put_beside and kind in ("current", "other") and not is_foreign:
                continue
            known = parse_file_name(name).counted_as if kind in ("current", "metadata") else f"in_{kind}_directory"
            self._kinds[entry.path] = f"{prefix}metadata_{known}" if kind == "metadata" else f"{prefix}{known}"
        for child in folder.folders.values():
            self._note_files(child, "other" if kind in ("current", "metadata") else kind, is_foreign)


def _log_dirs_of(
    brokers: Sequence[Collection[int]] | None, log_dirs: Iterable[LogDir]
) -> tuple[tuple[str, ...], ...] | None:
    """Paths of the log dirs of each group of brokers."""
    if brokers is None:
        return None
    return tuple(tuple(one.path for one in log_dirs if one.broker_id in group) for group in brokers)
