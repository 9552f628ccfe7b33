"""Log dirs of a snapshot: their contents, their owners, and the files beside them."""

from __future__ import annotations

import posixpath
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from types import MappingProxyType

from replica_audit.errors import FormatError
from replica_audit.model import ReplicaDir, SegmentFile
from replica_audit.schema import QuarantineRow
from replica_audit.snapshot.broker_logs import broker_of_path
from replica_audit.snapshot.checkpoints import parse_meta_properties
from replica_audit.snapshot.file_tree import PackedNames, TreeEntry
from replica_audit.snapshot.inventory import BrokerLogFile, DuplicateReplica, LogDir, MetadataLog
from replica_audit.snapshot.log_dir_names import (
    CLEAN_SHUTDOWN,
    HIGH_WATERMARKS,
    LOG_DIR_FILES,
    META_PROPERTIES,
    OFFSET_CHECKPOINTS,
    parse_directory_name,
    parse_file_name,
    parse_node_name,
)
from replica_audit.snapshot.storage import Snapshot

#: File names that no directory has, besides those of a partition.
_FILES = {*LOG_DIR_FILES, "manifest.json", "leadership.json"}


_NO_NAMES = PackedNames(())


class Folder:
    """A directory of the snapshot with its entries by name."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.files: dict[str, TreeEntry] = {}
        self.folders: dict[str, Folder] = {}
        self.unlisted = _NO_NAMES
        """Names of partition directories that are not read here."""

    def is_partition(self) -> bool:
        """True if it holds files of a partition. The name alone is not enough: `broker-0` looks like a partition too."""
        return any(parse_file_name(name).kind not in ("unknown", "tmp") for name in self.files)


def arrange_folders(
    entries: tuple[TreeEntry, ...], unlisted: Mapping[str, PackedNames] = MappingProxyType({})
) -> dict[str, Folder]:
    """All directories by path, except those that are `unlisted` (`file_tree.Tree`); '' is the root."""
    folders = {"": Folder("")}
    for entry in entries:
        above, _, name = entry.path.rpartition("/")
        parent = folders.setdefault(above, Folder(above))
        if entry.is_dir:
            parent.folders[name] = folders.setdefault(entry.path, Folder(entry.path))
            if name in _FILES or parse_file_name(name).kind not in ("unknown", "tmp"):
                parent.files[name] = TreeEntry(entry.path, 0, False)  # its reader reports that it is not a file
        else:
            parent.files[name] = entry
    # In an object store directories may have no entries of their own.
    for path in [path for path in folders if path]:
        child = folders[path]
        while child.path:
            above, _, name = child.path.rpartition("/")
            parent = folders.setdefault(above, Folder(above))
            parent.folders[name] = child
            child = parent
    for path, names in unlisted.items():
        folders[path].unlisted = names
    return folders


#: Files that a log dir may have before a broker has used it.
_FORMATTED = LOG_DIR_FILES.keys() - {*OFFSET_CHECKPOINTS}


def find_log_dirs(folders: Mapping[str, Folder]) -> list[Folder]:
    """Directories with meta.properties, an offset checkpoint or partition directories, in order of path."""
    return [folder for _, folder in sorted(folders.items()) if _is_log_dir(folder)]


def _is_log_dir(folder: Folder) -> bool:
    if META_PROPERTIES in folder.files or any(name in folder.files for name in OFFSET_CHECKPOINTS):
        return True
    return any(
        parse_directory_name(name).topic_partition is not None and child.is_partition()
        for name, child in folder.folders.items()
    )


def identify_log_dir(snapshot: Snapshot, folder: Folder) -> tuple[LogDir, list[QuarantineRow]]:
    """A log dir with its owner, and rows for an unreadable meta.properties and for a log dir without broker id."""
    rows = []
    node_id = cluster_id = directory_id = None
    named = _named_id(snapshot, folder.path)
    path = posixpath.join(folder.path, META_PROPERTIES)
    if META_PROPERTIES in folder.files:
        try:
            properties = parse_meta_properties(snapshot.read_bytes(path), path)
            node_id, cluster_id, directory_id = properties.node_id, properties.cluster_id, properties.directory_id
            if node_id is None and named is not None:
                remedy = (
                    "with KRaft no broker starts so; copy it again, or write it anew as in the broker's other log dirs"
                )
                raise FormatError(path, 0, "a line node.id= or broker.id=", "none", remedy)
        except (FormatError, OSError) as error:
            rows.append(QuarantineRow.of("CAP-UNREADABLE", path, error))
    if node_id is None:
        node_id = named
    current = [parse_directory_name(name).kind for name in (*folder.folders, *islice(folder.unlisted, 1))]
    is_controller = "metadata" in current and "current" not in current and HIGH_WATERMARKS not in folder.files
    if node_id is None:
        reason = "a log dir without broker id: no node.id or broker.id in meta.properties, and not below broker-<id>"
        rows.append(QuarantineRow.of("CAP-UNREADABLE", folder.path or ".", reason))
    kind = "controller" if is_controller else "broker"
    is_blank = not (folder.folders or folder.unlisted or folder.files.keys() - _FORMATTED)
    is_clean = CLEAN_SHUTDOWN in folder.files
    return LogDir(folder.path, node_id, cluster_id, directory_id, is_clean, kind, is_blank), rows


def _named_id(snapshot: Snapshot, path: str) -> int | None:
    for name in (*reversed(path.split("/")), snapshot.name):
        node = parse_node_name(name)
        if node is not None and not node.rest:
            return node.node_id
    return None


def misnamed(snapshot: Snapshot, log_dirs: Sequence[LogDir]) -> Iterator[QuarantineRow]:
    """A row for each log dir in a directory named for another node of the snapshot than meta.properties has; none if the
    names only number hosts, so that no name fits its node and some fit none."""
    owners = {one.broker_id for one in log_dirs}
    names = [_named_id(snapshot, one.path) for one in log_dirs]
    pairs = list(zip(log_dirs, names))
    if owners != {*names} and not any(one.broker_id == named for one, named in pairs):
        return
    for one, named in pairs:
        if named != one.broker_id and named in owners:
            reason = (
                f"a log dir of {one.kind} {one.broker_id} by its meta.properties, in a directory that is named for {one.kind} {named}: it "
                f"counts as {one.kind} {one.broker_id}'s; if it is mounted at {one.kind} {named}, which does not start with it, disks were "
                f"swapped: put them back before you start a {one.kind}"
            )
            yield QuarantineRow.of("META-FOREIGN-DIR", one.path or ".", reason, broker_id=one.broker_id)


def registered_elsewhere(log_dirs: Iterable[LogDir], online: Mapping[int, Collection[str]]) -> Iterator[QuarantineRow]:
    """A row for each log dir that meta.properties gives to one broker and that, by its id, is `online` on another: a
    controller refuses to register it for the first (KIP-858, `ClusterControlManager.registerBroker`)."""
    owners = {directory: broker for broker, some in online.items() for directory in some}
    for one in log_dirs:
        owner = owners.get(one.directory_id or "", one.broker_id)
        if one.kind == "broker" and owner != one.broker_id:
            reason = (
                f"a log dir of broker {one.broker_id} by node.id in its meta.properties, and of broker {owner} by its directory.id, which broker "
                f"{owner} registered with the controllers: these refuse broker {one.broker_id} with it; here it counts as broker "
                f"{one.broker_id}'s"
            )
            yield QuarantineRow.of("META-DIR-OWNER", one.path or ".", reason, broker_id=one.broker_id)


def choose_cluster(log_dirs: list[LogDir]) -> str | None:
    """The most frequent cluster id of the log dirs; on a tie that of the first log dir."""
    counts = Counter(log_dir.cluster_id for log_dir in log_dirs if log_dir.cluster_id)
    return counts.most_common(1)[0][0] if counts else None


def find_broker_logs(
    entries: Iterable[TreeEntry], log_dirs: Sequence[LogDir]
) -> tuple[list[BrokerLogFile], list[QuarantineRow]]:
    """Brokers' own logs, each with its broker if known, and a row for each log without one."""
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
            unowned.append(QuarantineRow.of("INPUT-IGNORED", entry.path, reason))
    return found, unowned


def find_duplicates(replicas: Iterable[ReplicaDir]) -> tuple[DuplicateReplica, ...]:
    """Partitions with several current copies on one broker."""
    places: dict[tuple[int, str, int], list[str]] = defaultdict(list)
    for replica in replicas:
        places[replica.broker_id, replica.topic, replica.partition].append(replica.log_dir)
    several = {key: tuple(sorted(log_dirs)) for key, log_dirs in sorted(places.items()) if len(log_dirs) > 1}
    return tuple(DuplicateReplica(*key, log_dirs) for key, log_dirs in several.items())


def metadata_log_in(log_dir: LogDir, folder: Folder) -> MetadataLog:
    """The live files of the metadata log in a directory of a log dir."""
    names = [(parse_file_name(name), name) for name in sorted(folder.files)]
    live = [(name.kind, f"{folder.path}/{text}") for name, text in names if name.state == "live"]
    logs = tuple(path for kind, path in live if kind == "log")
    snapshots = tuple(path for kind, path in live if kind == "kraft_snapshot")
    quorum_state = "quorum-state" in folder.files
    return MetadataLog(
        log_dir.broker_id, log_dir.path, folder.path, logs, snapshots, quorum_state, log_dir.directory_id
    )


def replica_key(replica: ReplicaDir) -> tuple:
    """Sort key of replicas: topic, partition, broker, log dir."""
    return replica.topic, replica.partition, replica.broker_id, replica.log_dir


def segment_key(segment: SegmentFile) -> tuple:
    """Sort key of segments: topic, partition, broker, log dir, base offset."""
    return segment.topic, segment.partition, segment.broker_id, segment.log_dir, segment.base_offset
