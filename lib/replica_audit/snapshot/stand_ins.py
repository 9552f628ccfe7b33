"""Replicas known from texts and tables in place of segments; used only if the snapshot has no segment of the replica."""

from __future__ import annotations

import posixpath
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from replica_audit.errors import FormatError
from replica_audit.literals import SegmentSource
from replica_audit.model import Part, ReplicaDir, SegmentFile, TopicPartition
from replica_audit.schema import QuarantineRow
from replica_audit.snapshot.dump.dump_text import find_sections, shows_files
from replica_audit.snapshot.inventory import LogDir
from replica_audit.snapshot.log_dir_names import (
    METADATA_PARTITION,
    broker_of_directory,
    broker_of_folders,
    parse_directory_name,
    parse_file_name,
    parse_node_name,
)
from replica_audit.snapshot.replica_dirs import NO_OFFSETS, OffsetFile, with_offsets
from replica_audit.snapshot.storage import Snapshot

if TYPE_CHECKING:
    from replica_audit.snapshot.batch_tables import LogKey, LogRows

#: Length of `00000000000000000000.log`, with which the name of a text without `Dumping` lines may begin.
_LOG_NAME = 24
_NO_BROKER = (
    "neither the Dumping line nor the path of the text has a directory or name broker-<id>: rename the file to "
    "broker-<id>.….dump.txt"
)
_NO_PARTITION = "neither the Dumping line nor the path of the text has <topic>-<partition>"


class UnownedError(ValueError):
    """The owner of a listing is unknown."""


class DumpedPath(NamedTuple):
    """The path of a dumped segment of a current replica."""

    broker_id: int
    folder: str
    """The log dir, as far as the Dumping line names it, without . and ..; else ''."""
    topic_partition: TopicPartition
    base_offset: int


def read_dumped_path(
    dumped: str, text_path: str, log_dirs: Sequence[LogDir], snapshot_name: str = ""
) -> DumpedPath | None:
    """Broker, log dir, partition and segment in the path of a `Dumping` line ('' without one), completed from `text_path`,
    relative to the snapshot.

    None for the metadata log, a directory -future, -delete or -stray, and a file that Kafka has set aside. Raises UnownedError.
    """
    dumped_file = dumped or posixpath.basename(text_path)[:_LOG_NAME]
    parts = posixpath.normpath(dumped_file.replace("\\", "/")).split("/")
    file = parse_file_name(parts[-1])
    kind, at = parse_directory_name(parts[-2]) if len(parts) > 1 else ("other", None)
    named = at is not None
    above = parts[:-2] if named else parts[:-1]
    if at is None:
        at = _partition_of(text_path)
    if at is None:
        raise UnownedError(f"{dumped}: {_NO_PARTITION}")
    if file.state != "live" or (named and kind != "current"):
        return None
    folder = "/".join(above) if named else ""
    here = find_log_dir(folder, log_dirs)
    broker_id = broker_of_folders(above) if here is None else here.broker_id
    if broker_id is None:
        broker_id = _broker_of_text(text_path, log_dirs, snapshot_name)
    if broker_id is None:
        raise UnownedError(_NO_BROKER)
    return DumpedPath(broker_id, folder, at, file.base_offset or 0)


def find_log_dir(folder: str, log_dirs: Iterable[LogDir]) -> LogDir | None:
    """Log dir of the snapshot with which a path ends, the longest if there are several; None if there is none."""
    found = [
        one for one in log_dirs if one.path and one.broker_id is not None and f"/{folder}".endswith(f"/{one.path}")
    ]
    return max(found, key=lambda one: len(one.path), default=None)


def _broker_of_text(path: str, log_dirs: Sequence[LogDir], snapshot_name: str) -> int | None:
    """Broker id from the log dir that contains the text, else from its name and the directories above it."""
    inside = [
        one
        for one in log_dirs
        if one.broker_id is not None and f"{path}/".startswith(f"{one.path}/" if one.path else "")
    ]
    if inside:
        return max(inside, key=lambda one: len(one.path)).broker_id
    *folders, name = path.split("/")
    # `broker-1.orders-0.dump.txt`, `broker-1_orders-0.dump.txt`, `broker-2.batches.txt`
    node = parse_node_name(name)
    if node is not None and node.role == "broker":
        return node.node_id
    return broker_of_folders([snapshot_name, *folders])


def _partition_of(path: str) -> TopicPartition | None:
    """Partition from the text's name, else from the nearest directory above it with a partition's name."""
    *folders, name = path.split("/")
    stem = name.removesuffix(".txt").removesuffix(".dump")
    node = parse_node_name(stem)
    if node is not None and node.role == "broker":
        stem = node.rest[1:] if node.rest[:1] in ("-", ".", "_") else node.rest
    for part in (stem, *reversed(folders)):
        parsed = parse_directory_name(part)
        if parsed.kind == "current" and parsed.topic_partition is not None and broker_of_directory(part) is None:
            return parsed.topic_partition
    return None


#: Most trusted first: a table does not count for a replica that has a text.
SOURCES = ("dump_text", "batch_table", "record_table")


class Found(NamedTuple):
    """Contents of the snapshot besides texts and tables."""

    log_dirs: Sequence[LogDir]
    """Log dirs of brokers of this cluster."""
    offset_files: Mapping[str, Mapping[str, OffsetFile]]
    """By path of the log dir, then by name."""
    replicas: Sequence[ReplicaDir]
    segments: Sequence[SegmentFile]


class StandIns(NamedTuple):
    """All replicas and segments, including those from texts and tables."""

    replicas: tuple[ReplicaDir, ...]
    segments: tuple[SegmentFile, ...]
    topics: tuple[str, ...]
    counts: Mapping[str, int]
    """Number of unused listings of one segment: its segment or a text is present too, or the replica is not a current one."""
    quarantine: tuple[QuarantineRow, ...]


class _Log(NamedTuple):
    """One replica's log in one source."""

    source: SegmentSource
    broker_id: int
    folder: str
    """The log dir named in the source."""
    topic_partition: TopicPartition


def read_stand_ins(
    snapshot: Snapshot,
    dump_paths: Iterable[str],
    table_paths: Iterable[str],
    found: Found,
    is_wanted: Callable[[str], bool],
) -> StandIns:
    """Read every text and table, and use the logs that have no segment."""
    reader = _StandIns(snapshot, found, is_wanted)
    for path in dump_paths:
        reader.look_into(path, reader.read_text)
    for path in table_paths:
        reader.look_into(path, reader.read_table)
    return reader.finish()


class _StandIns:
    def __init__(self, snapshot: Snapshot, found: Found, is_wanted: Callable[[str], bool]) -> None:
        self._snapshot = snapshot
        self._found = found
        self._is_wanted = is_wanted
        self._with_segments = {(one.broker_id, one.topic, one.partition) for one in found.segments}
        self._with_directory = {(one.log_dir, one.topic, one.partition) for one in found.replicas}
        self._logs: dict[_Log, dict[int, list[tuple[Part, int]]]] = defaultdict(lambda: defaultdict(list))
        self._counts: Counter[str] = Counter()
        self._quarantine: list[QuarantineRow] = []
        self._topics: set[str] = set()

    def look_into(self, path: str, read: Callable[[str], None]) -> None:
        """Call `read`, and quarantine a file that it cannot read."""
        try:
            read(path)
        except (OSError, FormatError) as error:
            self._quarantine.append(QuarantineRow.of("CAP-UNREADABLE", path, error))

    def read_text(self, path: str) -> None:
        """Note the listings in one text of kafka-dump-log."""
        with self._snapshot.open_file(path) as stream:
            sections = find_sections(stream)
            is_other = not sections and not shows_files(stream)
        if is_other:
            code = "CAP-UNREADABLE" if path.endswith(".dump.txt") else "INPUT-IGNORED"
            reason = "no listing of kafka-dump-log is in it"
            self._quarantine.append(QuarantineRow.of(code, path, reason))
        nameless: set[str] = set()
        for section in sections:
            try:
                dumped = read_dumped_path(section.dumped_path, path, self._found.log_dirs, self._snapshot.name)
            except UnownedError as error:
                nameless.add(str(error))
                continue
            if dumped is None:
                self._counts["directory_listed_not_current"] += 1
            elif self._is_used(dumped.broker_id, dumped.topic_partition):
                part = Part(path, section.start, section.end, section.dumped_path)
                log = _Log("dump_text", dumped.broker_id, dumped.folder, dumped.topic_partition)
                base = dumped.base_offset if section.base_offset is None else section.base_offset
                self._logs[log][base].append((part, section.end - section.start))
        self._quarantine += [QuarantineRow.of("CAP-UNREADABLE", path, problem) for problem in sorted(nameless)]

    def read_table(self, path: str) -> None:
        """Note the logs in one table."""
        # Imported here: pyarrow loads more slowly than a small snapshot is audited, and few snapshots have tables.
        from replica_audit.snapshot.batch_tables import count_table, table_columns, table_kind

        kind = table_kind(self._snapshot, path)
        if kind is None:
            reason = "a table without the columns of batches (broker_id, topic, partition, base_offset, last_offset) or records"
            self._quarantine.append(QuarantineRow.of("INPUT-IGNORED", path, reason))
            return
        columns = table_columns(self._snapshot, path, kind)
        with self._snapshot.open_file(path) as stream:
            size = stream.seek(0, 2)
        groups = count_table(self._snapshot, path, kind)
        total = sum(rows.row_count for rows in groups.values())
        for key, rows in sorted(groups.items(), key=lambda item: (item[0][:4], item[0][4] or -1)):
            self._note_rows(Part(path, 0, size, columns=columns), kind, key, rows, size * rows.row_count // total)

    def _note_rows(self, table: Part, kind: SegmentSource, key: LogKey, rows: LogRows, size: int) -> None:
        topic_partition = TopicPartition(key.topic, key.partition)
        if topic_partition == METADATA_PARTITION:
            self._counts["directory_listed_not_current"] += 1
        elif self._is_used(key.broker_id, topic_partition):
            part = table._replace(log_dir=key.log_dir, segment_base_offset=key.segment_base_offset)
            base = rows.least_offset if key.segment_base_offset is None else key.segment_base_offset
            log = _Log(kind, key.broker_id, key.log_dir, topic_partition)
            segments = self._logs[log]
            if key.segment_base_offset is None and segments:
                # Rows of one log in several tables form one segment.
                known = min(segments)
                segments[min(known, base)] = segments.pop(known)
                base = min(known, base)
            segments[base].append((part, size))

    def _is_used(self, broker_id: int, at: TopicPartition) -> bool:
        self._topics.add(at.topic)
        if not self._is_wanted(at.topic):
            return False
        if (broker_id, at.topic, at.partition) in self._with_segments:
            self._counts["log_superseded_by_segments"] += 1
            return False
        return True

    def finish(self) -> StandIns:
        """The replicas and segments of the snapshot, with those of the noted logs."""
        replicas = {(one.broker_id, one.log_dir, one.topic, one.partition): one for one in self._found.replicas}
        segments = list(self._found.segments)
        taken: dict[tuple[int, TopicPartition], str] = {}
        for log in sorted(self._logs, key=lambda log: (SOURCES.index(log.source), log[1:])):
            place = (log.broker_id, log.topic_partition)
            if taken.setdefault(place, log.source) != log.source:
                self._counts["log_superseded_by_text"] += len(self._logs[log])
                continue
            files = [self._segment(log, base, parts) for base, parts in sorted(self._logs[log].items())]
            replica = self._replica(log, files, replicas)
            replicas[replica.broker_id, replica.log_dir, replica.topic, replica.partition] = replica
            segments += [file._replace(log_dir=replica.log_dir) for file in files]
        rows = tuple(self._quarantine)
        return StandIns(
            tuple(replicas.values()), tuple(segments), tuple(sorted(self._topics)), dict(self._counts), rows
        )

    def _segment(self, log: _Log, base: int, parts: list[tuple[Part, int]]) -> SegmentFile:
        at = log.topic_partition
        path = f"{parts[0][0].path} (broker {log.broker_id}, {at}/{base:020d}.log)"
        size = sum(size for _, size in parts)
        places = tuple(part for part, _ in parts)
        return SegmentFile(log.broker_id, log.folder, at.topic, at.partition, path, base, size, log.source, places)

    def _replica(self, log: _Log, files: Sequence[SegmentFile], known: Mapping[tuple, ReplicaDir]) -> ReplicaDir:
        """The directory, if it exists without segments, else what is known of the missing one."""
        at = log.topic_partition
        log_dir = self._log_dir(log)
        folder = log.folder if log_dir is None else log_dir.path
        bases = {file.base_offset for file in files}
        replica = known.get((log.broker_id, folder, at.topic, at.partition))
        if replica is None:
            replica = self._not_there(log, folder, log_dir, files[0].parts[0].path)
        return replica._replace(
            segment_bases=tuple(sorted({*replica.segment_bases, *bases})),
            index_bases=tuple(base for base in replica.index_bases if base not in bases),
        )

    def _not_there(self, log: _Log, folder: str, log_dir: LogDir | None, path: str) -> ReplicaDir:
        at = log.topic_partition
        files = {} if log_dir is None else self._found.offset_files.get(log_dir.path, {})
        # A log dir with only meta.properties does not show its checkpoints.
        present = {name: file for name, file in files.items() if file.file.state != "missing"}
        replica = ReplicaDir(
            broker_id=log.broker_id,
            log_dir=folder,
            topic=at.topic,
            partition=at.partition,
            path=path,
            clean_shutdown=log_dir.clean_shutdown if log_dir is not None and present else None,
            directory_id=None if log_dir is None else log_dir.directory_id,
        )
        return with_offsets(replica, {**NO_OFFSETS, **present})

    def _log_dir(self, log: _Log) -> LogDir | None:
        """The log dir of the snapshot that held the log: by path, else the broker's only one."""
        own = [one for one in self._found.log_dirs if one.broker_id == log.broker_id]
        at = log.topic_partition
        holding = [one for one in own if (one.path, at.topic, at.partition) in self._with_directory]
        here = find_log_dir(log.folder, own)
        if here is not None:
            return here
        chosen = holding or own
        return chosen[0] if len(chosen) == 1 else None
