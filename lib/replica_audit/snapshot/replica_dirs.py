"""A partition directory: its checkpoints, and its segments as Kafka would load them (`LogLoader.load`)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple, TypeVar

from replica_audit.errors import FormatError
from replica_audit.model import CheckpointFile, Damage, ReplicaDir, TopicPartition
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
    CLEANER_OFFSETS,
    EPOCH_CHECKPOINT,
    HIGH_WATERMARKS,
    LOG_STARTS,
    OFFSET_CHECKPOINTS,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    FileName,
    parse_file_name,
)
from replica_audit.snapshot.owners import Folder
from replica_audit.snapshot.segment_file import SegmentFile
from replica_audit.snapshot.storage import Snapshot

_Value = TypeVar("_Value")


class OffsetFile(NamedTuple):
    """A `*-offset-checkpoint` of a log dir: how it was found, and its entries, none unless it is present."""

    file: CheckpointFile
    entries: Mapping[TopicPartition, int]

    def without(self, partitions: Collection[TopicPartition | None]) -> OffsetFile:
        """The file with the entries of all others."""
        return self._replace(entries={at: value for at, value in self.entries.items() if at not in partitions})


class FoundReplica(NamedTuple):
    """A partition directory's facts, its segments, and what of it could not be used."""

    replica: ReplicaDir
    segments: tuple[SegmentFile, ...]
    superseded: int
    """Segments that a `.swap` replaces."""
    quarantine: tuple[QuarantineRow, ...]


def read_offset_files(
    snapshot: Snapshot, folder: Folder, broker_id: int
) -> tuple[dict[str, OffsetFile], list[QuarantineRow]]:
    """The four offset checkpoints of a log dir, by name."""
    rows: list[QuarantineRow] = []
    files = {}
    for name in OFFSET_CHECKPOINTS:
        path = f"{folder.path}/{name}".lstrip("/")
        file, entries = _read_file(snapshot, folder, path, parse_offset_checkpoint)
        files[name] = OffsetFile(file, entries or {})
        rows += _quarantine(file, broker_id)
    return files, rows


def read_epochs(snapshot: Snapshot, folder: Folder) -> tuple[str | None, tuple[tuple[int, int], ...] | None]:
    """The topic id of a partition directory and the entries of its leader-epoch-checkpoint, as far as they can be read."""
    _, epochs = _read_file(snapshot, folder, f"{folder.path}/{EPOCH_CHECKPOINT}", parse_epoch_checkpoint)
    _, topic_id = _read_file(
        snapshot, folder, f"{folder.path}/{PARTITION_METADATA}", parse_partition_metadata, may_be_empty=False
    )
    return topic_id, epochs


def read_replica(
    snapshot: Snapshot,
    folder: Folder,
    log_dir: LogDir,
    broker_id: int,
    topic_partition: TopicPartition,
    offsets: Mapping[str, OffsetFile],
    problem: str | None = None,
) -> FoundReplica:
    """All that a partition directory and its log dir's checkpoints say; `problem` if it could not be listed."""
    topic, partition = topic_partition.topic, topic_partition.partition
    epoch_file, epochs = _read_file(snapshot, folder, f"{folder.path}/{EPOCH_CHECKPOINT}", parse_epoch_checkpoint)
    metadata_file, topic_id = _read_file(
        snapshot, folder, f"{folder.path}/{PARTITION_METADATA}", parse_partition_metadata, may_be_empty=False
    )
    rows = [row for file in (epoch_file, metadata_file) for row in _quarantine(file, broker_id, topic_partition)]
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
    values = {name: file.entries.get(topic_partition) for name, file in offsets.items()}
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
        high_watermark_file=offsets[HIGH_WATERMARKS].file,
        recovery_point_file=offsets[RECOVERY_POINTS].file,
        log_start_file=offsets[LOG_STARTS].file,
        cleaner_file=offsets[CLEANER_OFFSETS].file,
        high_watermark_checkpoint=values[HIGH_WATERMARKS],
        recovery_point_checkpoint=values[RECOVERY_POINTS],
        log_start_checkpoint=values[LOG_STARTS],
        cleaner_checkpoint=values[CLEANER_OFFSETS],
        problem=problem or metadata_file.problem,
        segment_bases=tuple(segment.base_offset for segment in segments),
        index_bases=tuple(sorted(others)),
    )
    return FoundReplica(replica, segments, live_logs - kept_live, tuple(rows))


def resolve_segments(
    files: Iterable[tuple[FileName, TreeEntry]], next_offset: Callable[[TreeEntry, int], int]
) -> dict[int, TreeEntry]:
    """The files that Kafka would load as segments, by base offset.

    `.deleted` and `.cleaned` are gone. A `.swap` at or above the least `.cleaned` is an incomplete split and gone too;
    any other replaces the live segments from the least swap's base up to the greatest offset after one (`next_offset`).
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
        pass  # the scan of the segment, which it stays, puts it into quarantine
    return following


def _read_file(
    snapshot: Snapshot, folder: Folder, path: str, parse: Callable[[bytes, str], _Value], may_be_empty: bool = True
) -> tuple[CheckpointFile, _Value | None]:
    if path.rpartition("/")[2] not in folder.files:
        return CheckpointFile("missing", path), None
    try:
        data = snapshot.read_bytes(path)
        value = parse(data, path)
    except FormatError as error:
        return CheckpointFile("malformed", path, str(error)), None
    except OSError as error:
        return CheckpointFile("unreadable", path, str(error)), None
    return CheckpointFile("empty" if not data and may_be_empty else "present", path), value


def _quarantine(
    file: CheckpointFile, broker_id: int, topic_partition: TopicPartition | None = None
) -> Iterable[QuarantineRow]:
    if file.state in ("malformed", "unreadable"):
        place: tuple[str | None, int | None] = (None, None)
        if topic_partition:
            place = (topic_partition.topic, topic_partition.partition)
        yield QuarantineRow(broker_id, *place, file.path, None, None, "CAP-UNREADABLE", file.problem or "")
