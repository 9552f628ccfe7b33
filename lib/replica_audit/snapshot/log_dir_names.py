"""Names of directories and files in a Kafka log dir (`LocalLog`, `LogFileUtils`, `LogManager`)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from replica_audit.model import TopicPartition
from replica_audit.parsing import INT32

METADATA_PARTITION = TopicPartition("__cluster_metadata", 0)

META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
HIGH_WATERMARKS = "replication-offset-checkpoint"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
OFFSET_CHECKPOINTS = (HIGH_WATERMARKS, RECOVERY_POINTS, LOG_STARTS, CLEANER_OFFSETS)
EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"

#: Other files of a log dir, with the kind under which the inventory counts them.
LOG_DIR_FILES = {
    META_PROPERTIES: "meta_properties",
    CLEAN_SHUTDOWN: "clean_shutdown",
    ".lock": "lock",
    "bootstrap.checkpoint": "bootstrap_checkpoint",
    **{name: name.replace("-", "_") for name in OFFSET_CHECKPOINTS},
}

#: A directory of a broker or controller in a snapshot, or the start of a name, with the node id.
_NODE = re.compile(r"(broker|controller)-([0-9]{1,10})(?![0-9])")
_SUFFIXED = re.compile(r"(.*)\.([0-9a-f]{32})-(delete|future|stray)", re.S)
#: Suffixes of a segment and the files beside it, and of files being replaced or removed.
SEGMENT_SUFFIXES = ("log", "index", "timeindex", "txnindex", "snapshot")
SEGMENT_STATES = ("deleted", "cleaned", "swap")

_SEGMENT_FILE = re.compile(rf"([0-9]{{20}})\.({'|'.join(SEGMENT_SUFFIXES)})(?:\.({'|'.join(SEGMENT_STATES)}))?")
_KRAFT_SNAPSHOT = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint(?:\.(part|deleted))?")
#: `<base offset>-<term>-<version>.log` in `<namespace>/<topic>/<partition>_<revision>` (`storage/fs_utils.h` of Redpanda).
_REDPANDA_SEGMENT = re.compile(r"[0-9]+-[0-9]+-v[0-9]+\.log")
#: Other files of a partition directory, with their kind.
PARTITION_FILES = {
    EPOCH_CHECKPOINT: "epoch_checkpoint",
    PARTITION_METADATA: "partition_metadata",
    "quorum-state": "quorum_state",
}

_DELETED = "*.deleted"


class NodeName(NamedTuple):
    """Role (`broker`, `controller`) and id of a node, and the rest of the name that begins with them."""

    role: str
    node_id: int
    rest: str


def parse_node_name(name: str) -> NodeName | None:
    """Node at the start of a name such as `broker-1` or `broker-1.orders-0.dump.txt`; None if there is none."""
    match = _NODE.match(name)
    if match is None or int(match.group(2)) > INT32:
        return None
    return NodeName(match.group(1), int(match.group(2)), name[match.end() :])


def broker_of_directory(name: str) -> int | None:
    """Broker id of a directory `broker-<id>`; None for any other name."""
    node = parse_node_name(name)
    return node.node_id if node is not None and (node.role, node.rest) == ("broker", "") else None


def broker_of_folders(folders: Iterable[str]) -> int | None:
    """Broker id of the innermost directory `broker-<id>` among `folders`, from the outermost on."""
    found = [broker_id for one in folders if (broker_id := broker_of_directory(one)) is not None]
    return found[-1] if found else None


class DirectoryName(NamedTuple):
    """A directory of a log dir: kind `current`, `future`, `delete`, `stray`, `metadata` or `other`."""

    kind: str
    topic_partition: TopicPartition | None


class FileName(NamedTuple):
    """A file of a partition directory.

    `kind` is log, index, timeindex, txnindex, snapshot, epoch_checkpoint, partition_metadata, quorum_state, kraft_snapshot, tmp
    or unknown; `state` is live, deleted, cleaned, swap or part; `base_offset` is the number in the name, if any.
    """

    kind: str
    state: str
    base_offset: int | None

    @property
    def counted_as(self) -> str:
        """Kind in the inventory, with the state unless it is live."""
        return self.kind if self.state == "live" else f"{self.kind}_{self.state}"


# Cached: all brokers have the same names, and every file of a directory parses its name.
@lru_cache(maxsize=1 << 14)
def parse_directory_name(name: str) -> DirectoryName:
    """Kind and partition of a directory directly below a log dir; the topic in -delete and -stray names may be shortened."""
    kind, stem = "current", name
    match = _SUFFIXED.fullmatch(name)
    if match:
        stem, kind = match.group(1), match.group(3)
    try:
        topic_partition = TopicPartition.parse(stem)
    except ValueError:
        return DirectoryName(kind if match else "other", None)
    if kind == "current" and topic_partition == METADATA_PARTITION:
        kind = "metadata"
    return DirectoryName(kind, topic_partition)


@lru_cache(maxsize=4096)
def parse_file_name(name: str) -> FileName:
    """Kind, state and base offset of a file directly in a partition directory."""
    if name in PARTITION_FILES:
        return FileName(PARTITION_FILES[name], "live", None)
    match = _SEGMENT_FILE.fullmatch(name)
    if match and int(match.group(1)) < 2**63:
        return FileName(match.group(2), match.group(3) or "live", int(match.group(1)))
    match = _KRAFT_SNAPSHOT.fullmatch(name)
    if match:
        return FileName("kraft_snapshot", match.group(3) or "live", int(match.group(1)))
    return FileName("tmp" if name.endswith(".tmp") else "unknown", "live", None)


def parse_snapshot_name(name: str) -> tuple[int, int] | None:
    """End offset and controller epoch in a KRaft snapshot's name; None for any other file, and for an incomplete snapshot."""
    match = _KRAFT_SNAPSHOT.fullmatch(name)
    return None if match is None or match.group(3) else (int(match.group(1)), int(match.group(2)))


def deleted_in(path: str) -> str:
    """The `log_dir` that represents the `.deleted` segments in the directory `path`: the files as a shell pattern."""
    return f"{path}/{_DELETED}"


def directory_of_deleted(log_dir: str) -> str | None:
    """The directory whose `.deleted` segments a `log_dir` represents (`deleted_in`); None for any other."""
    return log_dir.removesuffix(f"/{_DELETED}") if log_dir.endswith(f"/{_DELETED}") else None


def kind_of_copy(path: str, log_dir: str) -> str:
    """Kind of a partition's copy at `path`: current, future, stray, delete or deleted_segments.

    The `log_dir` of a copy that Kafka has put aside is its own directory, since a log dir may have several, or its `deleted_in`.
    """
    if log_dir == deleted_in(path):
        return "deleted_segments"
    return parse_directory_name(path.rpartition("/")[2]).kind if log_dir == path else "current"


_PROGRESS = re.compile(r"(?:^|/)replica_progress[^/]*(?:/.*)?$")
_PROGRESS_ENDINGS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".csv": "csv", ".parquet": "parquet"}


def progress_form(path: str) -> str | None:
    """jsonl, csv or parquet for a file named `replica_progress*`, or in a directory of such a name; else None."""
    name = path.rpartition("/")[2]
    if not _PROGRESS.match(path) or name.startswith((".", "_")):
        return None
    return next((form for ending, form in _PROGRESS_ENDINGS.items() if name.lower().endswith(ending)), None)


def is_redpanda_segment(path: str) -> bool:
    """True if a file's name is that of a segment of Redpanda, whose log differs from Kafka's."""
    return _REDPANDA_SEGMENT.fullmatch(path.rpartition("/")[2]) is not None
