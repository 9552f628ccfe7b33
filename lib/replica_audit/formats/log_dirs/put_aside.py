"""Copies of partitions that Kafka does not serve from: directories -future, -stray and -delete."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from replica_audit.formats.files.storage import Snapshot
from replica_audit.formats.inventory import LogDir, SegmentFile
from replica_audit.formats.log_dirs.names import OFFSET_CHECKPOINTS, kind_of_copy
from replica_audit.formats.log_dirs.owners import Folder
from replica_audit.formats.log_dirs.replica_dirs import OffsetFile, read_replica
from replica_audit.model import CheckpointFile, ReplicaDir, TopicPartition

#: Nothing is known of their offset checkpoints: entries of the log dir are those of the current directory.
_NO_OFFSETS = {name: OffsetFile(CheckpointFile("not_given", ""), {}) for name in OFFSET_CHECKPOINTS}


class PutAside(NamedTuple):
    """One such copy; its `log_dir` is its own directory."""

    replica: ReplicaDir
    segments: tuple[SegmentFile, ...]


def read_put_aside(
    snapshot: Snapshot, folder: Folder, log_dir: LogDir, broker_id: int, at: TopicPartition
) -> PutAside | None:
    """The copy in a directory; None where it has no segment."""
    found = read_replica(snapshot, folder, log_dir, broker_id, at, _NO_OFFSETS)
    if not found.segments:
        return None
    segments = tuple(replace(one, log_dir=folder.path) for one in found.segments)
    return PutAside(replace(found.replica, log_dir=folder.path), segments)


def of_known_topics(
    found: Iterable[PutAside], topics: Mapping[tuple[str, int], str], names: Iterable[TopicPartition]
) -> Iterator[PutAside]:
    """Those that are of a partition that is there, under its name: Kafka may have cut the topic short in that of the
    directory.

    `topics` gives the names by (topic id, partition), `names` are all partitions. Without an id the name counts of a
    -future directory only: nothing has taken it away from its topic.
    """
    known = frozenset(names)
    for one in found:
        replica = one.replica
        if replica.topic_id is None:
            is_future = kind_of_copy(replica.path, replica.log_dir) == "future"
            topic = replica.topic if is_future and replica.topic_partition in known else None
        else:
            topic = topics.get((replica.topic_id, replica.partition))
        if topic is not None:
            yield PutAside(replace(replica, topic=topic), tuple(replace(file, topic=topic) for file in one.segments))
