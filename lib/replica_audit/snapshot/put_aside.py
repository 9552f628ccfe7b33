"""Copies of partitions that Kafka does not serve from: directories -future, -stray and -delete, and `.deleted` segments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from replica_audit.model import CheckpointFile, ReplicaDir, TopicPartition
from replica_audit.snapshot.inventory import LogDir
from replica_audit.snapshot.log_dir_names import OFFSET_CHECKPOINTS, deleted_in, kind_of_copy, parse_file_name
from replica_audit.snapshot.owners import Folder
from replica_audit.snapshot.replica_dirs import OffsetFile, read_replica
from replica_audit.snapshot.segment_file import SegmentFile
from replica_audit.snapshot.storage import Snapshot

#: Nothing is known of their offset checkpoints: entries of the log dir are those of the current directory.
_NOT_GIVEN = CheckpointFile("not_given", "")
_NO_OFFSETS = {name: OffsetFile(_NOT_GIVEN, {}) for name in OFFSET_CHECKPOINTS}


class PutAside(NamedTuple):
    """One such copy, under a `log_dir` of its own (`kind_of_copy`)."""

    replica: ReplicaDir
    segments: tuple[SegmentFile, ...]


def read_put_aside(snapshot: Snapshot, folder: Folder, log_dir: LogDir, broker_id: int, at: TopicPartition) -> PutAside:
    """The copy in a directory -future, -stray or -delete, which may have no segment."""
    found = read_replica(snapshot, folder, log_dir, broker_id, at, _NO_OFFSETS)
    segments = tuple(replace(one, log_dir=folder.path) for one in found.segments)
    return PutAside(replace(found.replica, log_dir=folder.path), segments)


def deleted_segments(folder: Folder, replica: ReplicaDir) -> PutAside | None:
    """The `.deleted` segments in the directory of `replica`, of which only their batches tell anything; None without any."""
    names = [(parse_file_name(name), entry) for name, entry in folder.files.items()]
    found = sorted(
        (name.base_offset, entry)
        for name, entry in names
        if name.kind == "log" and name.state == "deleted" and name.base_offset is not None
    )
    if not found:
        return None
    broker_id, topic, partition = replica.broker_id, replica.topic, replica.partition
    directory = replace(
        replica,
        log_dir=deleted_in(replica.path),
        segment_bases=tuple(base for base, _ in found),
        index_bases=(),
        epoch_file=_NOT_GIVEN,
        checkpoint_epochs=None,
        high_watermark_file=_NOT_GIVEN,
        high_watermark_checkpoint=None,
        recovery_point_file=_NOT_GIVEN,
        recovery_point_checkpoint=None,
        log_start_file=_NOT_GIVEN,
        log_start_checkpoint=None,
        cleaner_file=_NOT_GIVEN,
        cleaner_checkpoint=None,
    )
    return PutAside(
        directory,
        tuple(
            SegmentFile(broker_id, directory.log_dir, topic, partition, entry.path, base, entry.size)
            for base, entry in found
        ),
    )


def of_known_topics(
    found: Iterable[PutAside], topics: Mapping[tuple[str, int], str], names: Iterable[TopicPartition]
) -> Iterator[PutAside]:
    """Copies that are of a captured partition, with its topic: Kafka may have shortened the topic in the directory's name.

    `topics` gives the names by (topic id, partition), `names` are all partitions. Without an id the name counts where
    nothing has taken the directory away from its topic: not of -stray and -delete.
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
            yield PutAside(replace(replica, topic=topic), tuple(replace(file, topic=topic) for file in one.segments))
