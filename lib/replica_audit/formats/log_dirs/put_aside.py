"""Copies of partitions that Kafka does not serve from: -future, -stray and -delete directories, and `.deleted` segments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from replica_audit.formats.files.storage import Snapshot
from replica_audit.formats.inventory import LogDir, SegmentFile
from replica_audit.formats.log_dirs.names import DELETED, OFFSET_CHECKPOINTS, kind_of_copy, parse_file_name
from replica_audit.formats.log_dirs.owners import Folder
from replica_audit.formats.log_dirs.replica_dirs import OffsetFile, read_replica
from replica_audit.model import CheckpointFile, ReplicaDir, TopicPartition

#: Kinds of directories that hold such a copy.
DIRECTORY_KINDS = ("future", "stray", "delete")

#: Nothing is known of their offset checkpoints: entries of the log dir are those of the current directory.
_NO_OFFSETS = {name: OffsetFile(CheckpointFile("not_given", ""), {}) for name in OFFSET_CHECKPOINTS}


class PutAside(NamedTuple):
    """One such copy; its `log_dir` is its directory, or the pattern of its files: a log dir may have several."""

    replica: ReplicaDir
    segments: tuple[SegmentFile, ...]


def read_put_aside(
    snapshot: Snapshot, folder: Folder, log_dir: LogDir, broker_id: int, kind: str, at: TopicPartition
) -> Iterator[PutAside]:
    """What a directory of a partition holds of such copies; nothing where it has no segment of one."""
    deleted = {
        name.base_offset: entry
        for name, entry in ((parse_file_name(name), entry) for name, entry in folder.files.items())
        if name.kind == "log" and name.state == "deleted" and name.base_offset is not None
    }
    if kind == "current" and not deleted:
        return
    found = read_replica(snapshot, folder, log_dir, broker_id, at, _NO_OFFSETS)
    if kind != "current" and found.segments:
        yield _placed(found.replica, found.segments, folder.path)
    if deleted:
        segments = tuple(
            SegmentFile(broker_id, log_dir.path, at.topic, at.partition, entry.path, base, entry.size)
            for base, entry in sorted(deleted.items())
        )
        replica = replace(found.replica, segment_bases=tuple(sorted(deleted)), index_bases=(), checkpoint_epochs=None)
        yield _placed(replica, segments, folder.path + DELETED)


def _placed(replica: ReplicaDir, segments: Iterable[SegmentFile], place: str) -> PutAside:
    return PutAside(replace(replica, log_dir=place), tuple(replace(one, log_dir=place) for one in segments))


def of_known_topics(
    found: Iterable[PutAside], topics: Mapping[tuple[str, int], str], names: Iterable[TopicPartition]
) -> Iterator[PutAside]:
    """Those that are of a partition that is there, under its name: Kafka may have cut the topic short in that of the
    directory.

    `topics` gives the names by (topic id, partition), `names` are all partitions. Without an id a -future directory and
    `.deleted` segments go by the name, since nothing has taken them away from their topic.
    """
    known = frozenset(names)
    for one in found:
        replica = one.replica
        if replica.topic_id is None:
            in_place = kind_of_copy(replica) in ("future", "deleted")
            topic = replica.topic if in_place and replica.topic_partition in known else None
        else:
            topic = topics.get((replica.topic_id, replica.partition))
        if topic is not None:
            yield PutAside(replace(replica, topic=topic), tuple(replace(file, topic=topic) for file in one.segments))
