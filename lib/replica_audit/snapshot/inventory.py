"""Contents of a snapshot: log dirs, replicas, segments, leaders, and everything else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from replica_audit.bronze_tables import OffsetCheckpointRow
from replica_audit.literals import CaptureKind
from replica_audit.model import Leadership, ReplicaDir, SegmentFile
from replica_audit.schema import MetadataLogRow, QuarantineRow, VoterCopy
from replica_audit.snapshot.observed import ObservedCluster
from replica_audit.snapshot.packed_replicas import SpreadReplicas


class LogDir(NamedTuple):
    """One Kafka log dir of the snapshot."""

    path: str
    """Relative to the snapshot; '' for the snapshot itself."""
    broker_id: int | None
    """Broker id from meta.properties, else from the directory's name; None if neither has one."""
    cluster_id: str | None
    directory_id: str | None
    clean_shutdown: bool
    kind: str
    """broker or controller."""
    is_blank: bool = False
    """True if it has no more than a formatted disk that was never used."""


class DuplicateReplica(NamedTuple):
    """A partition with several current copies on one broker, in different log dirs (META-DUP-DIR)."""

    broker_id: int
    topic: str
    partition: int
    log_dirs: tuple[str, ...]


class MetadataLog(NamedTuple):
    """A directory `__cluster_metadata-0`: a source of leadership, not an audited partition."""

    node_id: int | None
    log_dir: str
    path: str
    segment_paths: tuple[str, ...]
    """`.log` files in order of base offset."""
    snapshot_paths: tuple[str, ...]
    """`.checkpoint` files in order of end offset and epoch."""
    has_quorum_state: bool = False
    directory_id: str | None = None
    """Id of the log dir from meta.properties; None before 3.7."""


class BrokerLogFile(NamedTuple):
    """A `server.log`, `state-change.log` or `controller.log`, perhaps rotated."""

    path: str
    size_bytes: int
    broker_id: int | None
    """Broker id of the log dir that contains it, else of a directory `broker-<id>` on its path; None without either."""


class CopiedLogDir(NamedTuple):
    """One log dir of the snapshot: start and end of its copy (ms, None if unknown), and the state of the broker."""

    broker_id: int
    log_dir: str
    started_ms: int | None
    finished_ms: int | None
    kind: CaptureKind | None
    """live, image, stopped or killed; None if unknown."""
    is_evidence: bool = False
    """True if the evidence collector wrote it, which can be run again."""
    partitions: tuple[str, ...] = ()
    """The only partitions in it, if these were collected again; empty if it has all."""
    is_unseen: bool = False
    """True if the copier looked for the running broker and did not find it: `kind` is then null, not left out."""
    ahead_ms: int | None = None
    """Time by which the broker's clock was ahead of the last batch of its metadata log when that was copied; None if unknown."""

    @property
    def may_be_image(self) -> bool:
        """True if its files may come from an image of the broker's disk, which is older than the copy and lacks what was
        not yet on the disk: the manifest says so, or the broker was not seen running (C.2, "Images of a disk")."""
        return self.kind == "image" or self.is_unseen


class Manifest(NamedTuple):
    """Content of manifest.json; missing values are None."""

    quiesced: bool | None
    kafka_version: str | None
    brokers: tuple[CopiedLogDir, ...]


class Inventory(NamedTuple):
    """Everything in a snapshot; all tuples are sorted."""

    cluster_id: str | None
    """The cluster that most log dirs name; None if none names one."""
    log_dirs: tuple[LogDir, ...]
    """Includes those of another cluster, whose replicas are left out."""
    replicas: tuple[ReplicaDir, ...]
    segments: tuple[SegmentFile, ...]
    duplicates: tuple[DuplicateReplica, ...]
    orphan_checkpoints: tuple[OffsetCheckpointRow, ...]
    """Lines for partitions without a current directory in that log dir: of a future replica, or deleted since."""
    metadata_logs: tuple[MetadataLog, ...]
    metadata_copies: tuple[MetadataLogRow, ...]
    """Comparison of the metadata logs."""
    voters: tuple[VoterCopy, ...]
    """Voters of the metadata log's quorum, as far as a control record or quorum-state names them."""
    leaderships: tuple[Leadership, ...]
    """Leadership from topic listings and leadership.json, each with its `source`."""
    leadership_files: tuple[str, ...]
    remote_logs: tuple[tuple[str, ...], ...] | None
    """For each partition of `__remote_log_metadata`, the log dirs of brokers that lead it or are in sync, up to the first
    unknown partition; None if the topic is unknown."""
    manifest: Manifest | None
    broker_logs: tuple[BrokerLogFile, ...]
    progress_files: tuple[tuple[str, int], ...]
    """Path and size of the files of `replica_progress`."""
    remote_listings: tuple[tuple[str, int], ...]
    """Path and size of the listings of a remote store."""
    topics: tuple[str, ...]
    """All topics with a current directory, including those that the filter leaves out."""
    counts: Mapping[str, int]
    """Number of files, and of directories in log dirs, by kind; the files add up to all files."""
    size_bytes: int
    quarantine: tuple[QuarantineRow, ...]
    put_aside: tuple[ReplicaDir, ...] = ()
    """Copies that Kafka does not serve from (`replica_dirs.read_put_aside`, `deleted_segments`)."""
    put_aside_segments: tuple[SegmentFile, ...] = ()
    unplaced: tuple[ReplicaDir, ...] = ()
    """Copies put aside whose partition is not in the snapshot, as far as ids show."""
    observation: ObservedCluster | None = None
    """Brokers' answers to `observe`."""
    spread: SpreadReplicas = SpreadReplicas()
    """Replicas of a large snapshot, read by tasks; they are not in `replicas`, nor their segments in `segments`."""

    @property
    def copies(self) -> tuple[ReplicaDir, ...]:
        """`replicas` and `put_aside`."""
        return (*self.replicas, *self.put_aside)

    @property
    def all_segments(self) -> tuple[SegmentFile, ...]:
        return (*self.segments, *self.put_aside_segments)

    @property
    def replica_count(self) -> int:
        """Number of current replicas, including those read by tasks."""
        return len(self.replicas) + len(self.spread)

    @property
    def segment_count(self) -> int:
        """Number of segments of all copies."""
        return len(self.segments) + len(self.put_aside_segments) + self.spread.segment_count

    @property
    def segment_bytes(self) -> int:
        """Size in bytes of all these segments."""
        return sum(file.size_bytes for file in self.all_segments) + self.spread.segment_bytes

    @property
    def blank(self) -> dict[str, int]:
        """Empty log dirs of the cluster, without even a text or table in place of a log, and the ids of their nodes."""
        used = {one.log_dir for one in self.replicas}
        return {
            one.path: one.broker_id
            for one in self.log_dirs
            if one.is_blank
            and one.broker_id is not None
            and one.cluster_id in (None, self.cluster_id)
            and one.path not in used
        }

    @property
    def brokers(self) -> list[int]:
        """Brokers with a log dir in the snapshot, or a text or table in its place, in order."""
        of_dirs = {one.broker_id for one in self.log_dirs if one.kind == "broker" and one.broker_id is not None}
        return sorted(of_dirs | {one.broker_id for one in self.replicas})
