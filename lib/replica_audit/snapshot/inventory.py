"""What was found in a snapshot: log dirs, replicas, segments, who leads, and everything else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from replica_audit.bronze_tables import OffsetCheckpointRow
from replica_audit.literals import CaptureKind
from replica_audit.model import Leadership, ReplicaDir, SegmentFile
from replica_audit.schema import MetadataLogRow, QuarantineRow, VoterCopy
from replica_audit.snapshot.observed import ObservedCluster
from replica_audit.snapshot.packed_replicas import SpreadReplicas


@dataclass(frozen=True, slots=True)
class LogDir:
    """One Kafka log dir of the snapshot."""

    path: str
    """Relative to the snapshot, '' for the snapshot itself."""
    broker_id: int | None
    """From meta.properties, else the directory's name; None where neither says."""
    cluster_id: str | None
    directory_id: str | None
    clean_shutdown: bool
    kind: str
    """broker or controller."""
    problem: str | None = None
    """meta.properties that cannot be read, or names another node than the directory's name."""


@dataclass(frozen=True, slots=True)
class DuplicateReplica:
    """A partition of which one broker has a current copy in several log dirs (META-DUP-DIR)."""

    broker_id: int
    topic: str
    partition: int
    log_dirs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MetadataLog:
    """A directory `__cluster_metadata-0`: input of the leadership, not an audited partition."""

    node_id: int | None
    log_dir: str
    path: str
    segment_paths: tuple[str, ...]
    """`.log` files in order of base offset."""
    snapshot_paths: tuple[str, ...]
    """`.checkpoint` files in order of end offset and epoch."""
    has_quorum_state: bool = False
    directory_id: str | None = None
    """Of the log dir, from meta.properties; None where it says none (before 3.7)."""


@dataclass(frozen=True, slots=True)
class BrokerLogFile:
    """A `server.log`, `state-change.log` or `controller.log`, rotated or not."""

    path: str
    size_bytes: int
    broker_id: int | None
    """Of the log dir that it lies in, else of a directory `broker-<id>` on its path; None where neither says."""


@dataclass(frozen=True, slots=True)
class CopiedLogDir:
    """One log dir of the snapshot: when its copy began and ended (ms, None if not said), and what the broker did."""

    broker_id: int
    log_dir: str
    started_ms: int | None
    finished_ms: int | None
    kind: CaptureKind | None
    """live, stopped or killed; None if not said."""
    is_evidence: bool = False
    """Collected, so that it can be collected again."""
    partitions: tuple[str, ...] = ()
    """Only these, again; none: all."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What the manifest says; `quiesced` None: it does not."""

    quiesced: bool | None
    kafka_version: str | None
    brokers: tuple[CopiedLogDir, ...]


@dataclass(frozen=True, slots=True)
class Inventory:
    """Everything in a snapshot; all tuples are sorted."""

    cluster_id: str | None
    """The cluster that most log dirs name; None where none names one."""
    log_dirs: tuple[LogDir, ...]
    """Also those of another cluster, whose replicas are left out."""
    replicas: tuple[ReplicaDir, ...]
    segments: tuple[SegmentFile, ...]
    duplicates: tuple[DuplicateReplica, ...]
    orphan_checkpoints: tuple[OffsetCheckpointRow, ...]
    """Lines whose partition has no current directory in that log dir: a future replica's, or one deleted since."""
    metadata_logs: tuple[MetadataLog, ...]
    metadata_copies: tuple[MetadataLogRow, ...]
    """How these compare."""
    voters: tuple[VoterCopy, ...]
    """Of the metadata log's quorum, as far as a control record or quorum-state names them."""
    leaderships: tuple[Leadership, ...]
    """From topic listings and leadership.json, each with its `source`."""
    leadership_files: tuple[str, ...]
    remote_logs: tuple[tuple[str, ...], ...] | None
    """For each partition of `__remote_log_metadata` the log dirs of the brokers that lead it or are in sync, none for the
    first that is not known; None where nothing tells of it.
    """
    manifest: Manifest | None
    dump_paths: tuple[str, ...]
    """Text of kafka-dump-log."""
    table_paths: tuple[str, ...]
    """Batch or record metadata as JSONL, CSV or Parquet."""
    broker_logs: tuple[BrokerLogFile, ...]
    """Brokers' own logs."""
    progress_files: tuple[tuple[str, int], ...]
    """Path and size of the files of `replica_progress`."""
    remote_listings: tuple[tuple[str, int], ...]
    """Path and size of the listings of a remote store."""
    topics: tuple[str, ...]
    """All topics that have a current directory, also those that the filter left out."""
    counts: Mapping[str, int]
    """How many files, and directories of log dirs, there are of each kind; the files add up to all files."""
    size_bytes: int
    quarantine: tuple[QuarantineRow, ...]
    put_aside: tuple[ReplicaDir, ...] = ()
    """Copies that Kafka does not serve from (`replica_dirs.PutAside`)."""
    put_aside_segments: tuple[SegmentFile, ...] = ()
    unplaced: tuple[ReplicaDir, ...] = ()
    """What is put aside and is of no partition that is there as far as ids tell."""
    observation: ObservedCluster | None = None
    """What brokers answered `observe`."""
    spread: SpreadReplicas = SpreadReplicas()
    """Replicas that tasks have read, of a snapshot of many; they are not in `replicas`, nor their segments in `segments`."""

    @property
    def copies(self) -> tuple[ReplicaDir, ...]:
        """`replicas` and `put_aside`."""
        return (*self.replicas, *self.put_aside)

    @property
    def all_segments(self) -> tuple[SegmentFile, ...]:
        """Those of all `copies`."""
        return (*self.segments, *self.put_aside_segments)

    @property
    def replica_count(self) -> int:
        """Current replicas, those that tasks have read too."""
        return len(self.replicas) + len(self.spread)

    @property
    def segment_count(self) -> int:
        """Segments of all copies."""
        return len(self.segments) + len(self.put_aside_segments) + self.spread.segment_count

    @property
    def segment_bytes(self) -> int:
        """Bytes of all these segments."""
        return sum(file.size_bytes for file in self.all_segments) + self.spread.segment_bytes

    @property
    def brokers(self) -> list[int]:
        """Brokers of which a log dir, or something in its place, is in the snapshot, in order."""
        of_dirs = {one.broker_id for one in self.log_dirs if one.kind == "broker" and one.broker_id is not None}
        return sorted(of_dirs | {one.broker_id for one in self.replicas})
