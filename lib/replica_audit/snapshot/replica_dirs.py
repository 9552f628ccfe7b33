"""A partition directory: its checkpoints, its segments as Kafka would load them (`LogLoader.load`), and what Kafka has put aside."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from replica_audit.errors import FormatError
from replica_audit.model import NOT_GIVEN, CheckpointFile, Damage, ReplicaDir, SegmentFile, TopicPartition
from replica_audit.schema import QuarantineRow
from replica_audit.segments.scan import scan_segment
from replica_audit.snapshot.checkpoints import (
    parse_epoch_checkpoint,
    parse_offset_checkpoint,
    parse_partition_metadata,
)
from replica_audit.snapshot.file_tree import TreeEntry
from replica_audit.snapshot.inventory import LogDir
from replica_audit.snapshot.log_dir_names import (
    EPOCH_CHECKPOINT,
    OFFSET_CHECKPOINTS,
    PARTITION_METADATA,
    FileName,
    deleted_in,
    kind_of_copy,
    parse_file_name,
)
from replica_audit.snapshot.log_dirs import Folder
from replica_audit.snapshot.packed_replicas import HeldReplica
from replica_audit.snapshot.storage import Snapshot

_Value = TypeVar("_Value")


class OffsetFile(NamedTuple):
    """A `*-offset-checkpoint` of a log dir: its state, and its entries, which are empty unless it is present."""

    file: CheckpointFile
    entries: dict[TopicPartition, int]


#: Used for a directory without offset checkpoints: a log dir's entries concern current directories only.
NO_OFFSETS = {name: OffsetFile(NOT_GIVEN, {}) for name in OFFSET_CHECKPOINTS}


class FoundReplica(NamedTuple):
    """A partition directory's facts, its segments, and what could not be used."""

    replica: ReplicaDir
    segments: tuple[SegmentFile, ...]
    superseded: int
    """Number of segments that a `.swap` replaces."""
    quarantine: tuple[QuarantineRow, ...]


def read_offset_files(snapshot: Snapshot, folder: Folder) -> Iterator[tuple[str, OffsetFile]]:
    """The four offset checkpoints of a log dir by name, read one after the other: each may name a million partitions."""
    for name in OFFSET_CHECKPOINTS:
        file, entries = _read_file(snapshot, folder, name, parse_offset_checkpoint)
        yield name, OffsetFile(file, entries or {})


class OwnFiles(NamedTuple):
    """The text files of a partition directory, with their content as far as it is readable."""

    epoch_file: CheckpointFile
    epochs: tuple[tuple[int, int], ...] | None
    metadata_file: CheckpointFile
    topic_id: str | None


def read_own_files(snapshot: Snapshot, folder: Folder) -> OwnFiles:
    """Read leader-epoch-checkpoint and partition.metadata of a partition directory."""
    return OwnFiles(
        *_read_file(snapshot, folder, EPOCH_CHECKPOINT, parse_epoch_checkpoint),
        *_read_file(snapshot, folder, PARTITION_METADATA, parse_partition_metadata, may_be_empty=False),
    )


def read_replica(
    snapshot: Snapshot,
    folder: Folder,
    log_dir: LogDir,
    broker_id: int,
    topic_partition: TopicPartition,
    offsets: Mapping[str, OffsetFile],
    problem: str | None = None,
) -> FoundReplica:
    """Everything in a partition directory and its log dir's checkpoints; `problem` if it could not be listed."""
    topic, partition = topic_partition
    epoch_file, epochs, metadata_file, topic_id = read_own_files(snapshot, folder)
    rows = [row for file in (epoch_file, metadata_file) for row in unreadable(file, broker_id, topic_partition)]
    files = [(parse_file_name(name), entry) for name, entry in folder.files.items()]
    chosen = resolve_segments(files, lambda entry, base: _next_offset(snapshot, entry, base))
    segments = tuple(
        SegmentFile(broker_id, log_dir.path, topic, partition, entry.path, base, entry.size)
        for base, entry in sorted(chosen.items())
    )
    live_logs = sum(name.kind == "log" and name.state == "live" for name, _ in files)
    kept_live = sum(parse_file_name(segment.path.rpartition("/")[2]).state == "live" for segment in segments)
    others = {
        base
        for (kind, state, base), _ in files
        if kind in ("index", "timeindex") and state == "live" and base is not None and base not in chosen
    }
    replica = ReplicaDir(
        broker_id=broker_id,
        log_dir=log_dir.path,
        topic=topic,
        partition=partition,
        path=folder.path,
        topic_id=topic_id,
        clean_shutdown=log_dir.clean_shutdown,
        directory_id=log_dir.directory_id,
        epoch_file=epoch_file,
        checkpoint_epochs=epochs,
        problem=problem or metadata_file.problem,
        segment_bases=tuple(segment.base_offset for segment in segments),
        index_bases=tuple(sorted(others)),
    )
    return FoundReplica(with_offsets(replica, offsets), segments, live_logs - kept_live, tuple(rows))


def with_offsets(replica: ReplicaDir, offsets: Mapping[str, OffsetFile]) -> ReplicaDir:
    """The replica with its values from its log dir's offset checkpoints, given by name."""
    at = replica.topic_partition
    marks, recovery_points, log_starts, cleaner = (offsets[name] for name in OFFSET_CHECKPOINTS)
    return replica._replace(
        high_watermark_file=marks.file,
        recovery_point_file=recovery_points.file,
        log_start_file=log_starts.file,
        cleaner_file=cleaner.file,
        high_watermark_checkpoint=marks.entries.get(at),
        recovery_point_checkpoint=recovery_points.entries.get(at),
        log_start_checkpoint=log_starts.entries.get(at),
        cleaner_checkpoint=cleaner.entries.get(at),
    )


def resolve_segments(
    files: Iterable[tuple[FileName, TreeEntry]], next_offset: Callable[[TreeEntry, int], int]
) -> dict[int, TreeEntry]:
    """The files that Kafka would load as segments, by base offset.

    `.deleted` and `.cleaned` are gone. A `.swap` at or above the least `.cleaned` is an incomplete split and gone too; any
    other replaces the live segments from the least swap's base up to the greatest offset after one (`next_offset`).
    """
    based = [(kind, state, base, entry) for (kind, state, base), entry in files if base is not None]
    cleaned = [base for _, state, base, _ in based if state == "cleaned"]
    live = {base: entry for kind, state, base, entry in based if kind == "log" and state == "live"}
    swaps = {base: entry for kind, state, base, entry in based if kind == "log" and state == "swap"}
    swaps = {base: entry for base, entry in swaps.items() if not cleaned or base < min(cleaned)}
    if not swaps:
        return live
    end = max(next_offset(entry, base) for base, entry in swaps.items())
    return {**{base: entry for base, entry in live.items() if not min(swaps) <= base < end}, **swaps}


def _next_offset(snapshot: Snapshot, entry: TreeEntry, base_offset: int) -> int:
    following = base_offset
    try:
        with snapshot.open_file(entry.path) as stream:
            for item in scan_segment(stream, entry.size, base_offset):
                if not isinstance(item, Damage):
                    following = int(item["last_offset"][-1]) + 1
    except (OSError, FormatError):
        pass  # it remains a segment, and its scan quarantines it
    return following


def _read_file(
    snapshot: Snapshot, folder: Folder, name: str, parse: Callable[[bytes, str], _Value], may_be_empty: bool = True
) -> tuple[CheckpointFile, _Value | None]:
    path = posixpath.join(folder.path, name)
    if name not in folder.files:
        return CheckpointFile("missing", path), None
    try:
        data = snapshot.read_bytes(path)
        value = parse(data, path)
    except FormatError as error:
        return CheckpointFile("malformed", path, str(error)), None
    except OSError as error:
        return CheckpointFile("unreadable", path, str(error)), None
    return CheckpointFile("empty" if not data and may_be_empty else "present", path), value


def unreadable(file: CheckpointFile, broker_id: int, at: TopicPartition | None = None) -> Iterator[QuarantineRow]:
    """Quarantine row for a file that could not be read."""
    if file.state in ("malformed", "unreadable"):
        yield QuarantineRow.of("CAP-UNREADABLE", file.path, file.problem or "", broker_id=broker_id, at=at)


def read_put_aside(
    snapshot: Snapshot, folder: Folder, log_dir: LogDir, broker_id: int, at: TopicPartition
) -> HeldReplica:
    """The copy in a directory -future, -stray or -delete, under a `log_dir` of its own (`kind_of_copy`); it may have no segment."""
    found = read_replica(snapshot, folder, log_dir, broker_id, at, NO_OFFSETS)
    segments = tuple(one._replace(log_dir=folder.path) for one in found.segments)
    return HeldReplica(found.replica._replace(log_dir=folder.path), segments)


def deleted_segments(folder: Folder, replica: ReplicaDir) -> HeldReplica | None:
    """The `.deleted` segments in the directory of `replica`, known only by their batches; None if there are none."""
    names = [(parse_file_name(name), entry) for name, entry in folder.files.items()]
    found = sorted(
        (name.base_offset, entry)
        for name, entry in names
        if name.kind == "log" and name.state == "deleted" and name.base_offset is not None
    )
    if not found:
        return None
    broker_id, topic, partition = replica.broker_id, replica.topic, replica.partition
    directory = replica._replace(
        log_dir=deleted_in(replica.path),
        segment_bases=tuple(base for base, _ in found),
        index_bases=(),
        epoch_file=NOT_GIVEN,
        checkpoint_epochs=None,
    )
    return HeldReplica(
        with_offsets(directory, NO_OFFSETS),
        tuple(
            SegmentFile(broker_id, directory.log_dir, topic, partition, entry.path, base, entry.size)
            for base, entry in found
        ),
    )


def stray_copies(copies: Iterable[ReplicaDir]) -> Iterator[ReplicaDir]:
    """Copies that a broker renamed to -stray because the metadata did not know their topic."""
    return (one for one in copies if kind_of_copy(one.path, one.log_dir) == "stray")


def nameless_strays(found: Iterable[HeldReplica], names: Container[TopicPartition]) -> Iterator[QuarantineRow]:
    """A row for each -stray directory with records, without a topic id, and with the name of one of the partitions `names`: since
    3.7.1 a KRaft broker sets such a log aside if it lost its partition.metadata (KAFKA-16814), and starts an empty one."""
    for one in found:
        replica = one.replica
        is_stray = kind_of_copy(replica.path, replica.log_dir) == "stray" and replica.topic_partition in names
        if (
            is_stray
            and replica.topic_id is None
            and replica.problem is None
            and any(file.size_bytes for file in one.segments)
        ):
            reason = (
                f"it has records, and no {PARTITION_METADATA} says of which topic: a broker of KRaft (3.7.1 and later) sets a log aside so that "
                f"lost the file, and begins an empty one. If it is the log of {replica.topic_partition}, put the {PARTITION_METADATA} of another "
                "of its replicas into this directory of the snapshot, and audit again"
            )
            yield QuarantineRow.of("CAP-UNREADABLE", replica.path, reason, broker_id=replica.broker_id)


def of_known_topics(
    found: Iterable[HeldReplica], topics: Mapping[tuple[str, int], str], names: Iterable[TopicPartition]
) -> Iterator[HeldReplica]:
    """Copies of captured partitions, with the partition's topic: Kafka may have shortened it in the directory's name.

    `topics` has the names by (topic id, partition), `names` all partitions. A copy without an id is matched by name unless
    its directory is -stray or -delete, which no longer belongs to its topic.
    """
    known = frozenset(names)
    for one in found:
        replica = one.replica
        if replica.topic_id is None:
            is_there = kind_of_copy(replica.path, replica.log_dir) in ("current", "future")
            topic = replica.topic if is_there and replica.topic_partition in known else None
        else:
            topic = topics.get((replica.topic_id, replica.partition))
        if topic is not None:
            yield HeldReplica(replica._replace(topic=topic), tuple(file._replace(topic=topic) for file in one.segments))
