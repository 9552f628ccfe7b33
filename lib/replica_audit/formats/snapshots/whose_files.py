"""Whose a file or directory of a snapshot is, where its place does not say it alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from replica_audit.formats.files.trees import Entry
from replica_audit.formats.inventory import BrokerLogFile, DuplicateReplica, LogDir, MetadataLog, SegmentFile
from replica_audit.formats.leadership.broker_logs import broker_of_path
from replica_audit.formats.log_dirs.names import parse_file_name
from replica_audit.formats.log_dirs.owners import Folder
from replica_audit.model import QuarantineRow, ReplicaDir


def find_broker_logs(
    entries: Iterable[Entry], log_dirs: Sequence[LogDir]
) -> tuple[list[BrokerLogFile], list[QuarantineRow]]:
    """Brokers' own logs with their brokers, None where it could be anybody's; and a row for each of these."""
    found, unowned = [], []
    for entry in entries:
        around = [
            one for one in log_dirs if one.path and entry.path.startswith(f"{one.path}/") and one.broker_id is not None
        ]
        owner = max(around, key=lambda one: len(one.path), default=None)
        broker_id = owner.broker_id if owner else broker_of_path(entry.path)
        found.append(BrokerLogFile(entry.path, entry.size, broker_id))
        if broker_id is None:
            reason = (
                "cannot tell whose log this is, so only its lines on cuts below a high watermark count: put it into a "
                "directory broker-<id>"
            )
            unowned.append(ignored_row("INPUT-IGNORED", entry.path, reason))
    return found, unowned


def find_duplicates(replicas: Iterable[ReplicaDir]) -> tuple[DuplicateReplica, ...]:
    """Partitions of which one broker has several current copies."""
    places: dict[tuple[int, str, int], list[str]] = defaultdict(list)
    for replica in replicas:
        places[replica.broker_id, replica.topic, replica.partition].append(replica.log_dir)
    several = {key: tuple(sorted(log_dirs)) for key, log_dirs in sorted(places.items()) if len(log_dirs) > 1}
    return tuple(DuplicateReplica(*key, log_dirs) for key, log_dirs in several.items())


def metadata_log_in(log_dir: LogDir, folder: Folder) -> MetadataLog:
    """The metadata log in a directory of a log dir: the files of it that are live."""
    names = [(parse_file_name(name), name) for name in sorted(folder.files)]
    live = [(name.kind, f"{folder.path}/{text}") for name, text in names if name.state == "live"]
    logs = tuple(path for kind, path in live if kind == "log")
    snapshots = tuple(path for kind, path in live if kind == "kraft_snapshot")
    quorum_state = "quorum-state" in folder.files
    return MetadataLog(
        log_dir.broker_id, log_dir.path, folder.path, logs, snapshots, quorum_state, log_dir.directory_id
    )


def replica_key(replica: ReplicaDir) -> tuple:
    """What replicas are sorted by."""
    return replica.topic, replica.partition, replica.broker_id, replica.log_dir


def segment_key(segment: SegmentFile) -> tuple:
    """What segments are sorted by."""
    return segment.topic, segment.partition, segment.broker_id, segment.log_dir, segment.base_offset


def ignored_row(code: str, path: str, reason: str, broker_id: int | None = None) -> QuarantineRow:
    """A row of `quarantine` for a file or directory that is not used."""
    return QuarantineRow(broker_id, path, None, None, code, reason)
