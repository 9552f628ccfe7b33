"""Bronze tables: rows of a snapshot's contents, as an ingest writes them, and the rows of records that the data source makes."""

# Without `from __future__ import annotations`, as in `schema`.

from collections.abc import Mapping, Sequence
from typing import Annotated, NamedTuple

from replica_audit.batch_header import BATCH_COLUMNS
from replica_audit.literals import TailKind
from replica_audit.model import CheckpointFile, ObservedLog
from replica_audit.row_classes import Column, Int, columns
from replica_audit.schema import MetadataLogRow, PartitionStateRow, QuarantineRow, VoterCopy


class SnapshotRow(NamedTuple):
    """A snapshot."""

    uri: str
    location: str
    last_changes: str | None
    manifest: str | None
    log_dir_count: Int
    brokers: Sequence[Int]
    replica_count: Int
    segment_count: Int
    size_bytes: int
    inventory: Mapping[str, int]
    voters: Sequence[VoterCopy]
    metadata_logs: Sequence[MetadataLogRow]
    remote_logs: Sequence[Sequence[str]] | None = None
    """for each partition of `__remote_log_metadata` the log dirs of brokers that lead it or are in sync, up to the first
    unknown partition; null if the topic is unknown"""
    blank: Mapping[str, Int] | None = None
    """log dirs of brokers that have nothing, each with its broker; null in an ingest of before this column"""


class ReplicaDirRow(NamedTuple):
    """A partition directory."""

    broker_id: Int
    log_dir: str
    topic: str
    partition: Int
    path: str
    topic_id: str | None
    clean_shutdown: bool | None
    directory_id: str | None
    epoch_file: CheckpointFile
    high_watermark_file: CheckpointFile
    recovery_point_file: CheckpointFile
    log_start_file: CheckpointFile
    cleaner_file: CheckpointFile
    problem: str | None
    segment_bases: Sequence[int]
    index_bases: Sequence[int]
    observed: ObservedLog | None = None
    """the broker's answer, for a replica that was read through it"""


class SegmentRow(NamedTuple):
    """A segment file with its summary."""

    broker_id: Int
    log_dir: str
    topic: str
    partition: Int
    path: str
    base_offset: int
    size_bytes: int
    batch_count: int
    record_count: int
    last_offset: int | None
    tail_kind: TailKind
    tail_length: int
    summary: str
    """JSON"""
    batch_file: str | None = None
    batch_row: int | None = None
    last_change: str | None = None
    """in the storage's own form"""
    last_position: int | None = None
    """position of its last batch"""
    headers: str | None = None
    """a hash of the first and the last batch header"""


class SegmentNames(NamedTuple):
    """A record batch: its segment, offsets, epoch, CRC, producer, timestamps; no content."""

    broker_id: Int
    log_dir: str
    topic: str
    partition: Int
    segment_base_offset: int


class LeaderEpochRow(NamedTuple):
    """A line of `leader-epoch-checkpoint`."""

    broker_id: Int
    log_dir: str
    topic: str
    partition: Int
    entry: Int
    leader_epoch: Int
    start_offset: int


class OffsetCheckpointRow(NamedTuple):
    """A line of a `*-offset-checkpoint`."""

    broker_id: Int
    log_dir: str
    file: str
    topic: str
    partition: Int
    value: int


class ReplicaProgressRow(NamedTuple):
    """A replica at one moment, as observed. Only if a snapshot has such files."""

    topic: str
    partition: Int
    time_ms: int
    sequence: int
    leader_id: Int | None
    leader_epoch: Int | None
    isr: Sequence[Int] | None
    pending_isr: Sequence[Int] | None
    min_insync_replicas: Int | None
    lag_time_ms: int | None
    broker_id: Int
    known_log_end_offset: int | None
    log_end_offset: int | None
    last_caught_up_ms: int | None
    high_watermark: int | None
    eligible: bool | None
    problem: str | None
    """No longer used; kept for tables that have the column."""


class BrokerLogEvent(NamedTuple):
    """A line of a broker's own log. Only if a snapshot has such files."""

    topic: str
    partition: Int
    broker_id: Int | None
    """The broker whose log the line is in."""
    path: str
    line: Int
    """Line number, from 1."""
    kind: str
    """starts, cut, cut_below_mark, asked_to_cut, no_cut, mark_went_back, loaded, created, isr, elected, elected_uncleanly or refused."""
    clock_ms: int | None
    """Milliseconds since the epoch in the time zone of the log, taken as UTC; since midnight if the line has no date."""
    time: str | None
    """Time as written in the line."""
    leader_epoch: Int | None = None
    partition_epoch: Int | None = None
    offset: int | None = None
    """The log end (starts), the offset cut to (cut), or the one that the high watermark went back to."""
    high_watermark: int | None = None
    leader_id: Int | None = None
    isr: Sequence[Int] | None = None
    leads: bool | None = None
    """For starts: true as leader, false as follower."""
    topic_id: str | None = None
    final: bool | None = None
    """For asked_to_cut: true if no further question to the leader follows."""
    problem: str | None = None
    """No longer used; kept for tables that have the column."""


class PlacedSegment(NamedTuple):
    """A row of `segments` for driver and tasks: with the place of its summary, which grows with the log."""

    broker_id: Int
    log_dir: str
    topic: str
    partition: Int
    path: str
    base_offset: int
    size_bytes: int
    batch_count: int
    batch_file: str | None
    batch_row: int | None
    last_change: str | None
    last_position: int | None
    headers: str | None
    summary_file: str
    """relative to the table"""
    summary_row: int
    """row number in that file"""


#: Row classes as ingested, without `INGEST_COLUMNS`; in `batches` the fields of a batch header follow.
BRONZE_ROWS: dict[str, type] = {
    "snapshots": SnapshotRow,
    "replica_dirs": ReplicaDirRow,
    "segments": SegmentRow,
    "batches": SegmentNames,
    "leader_epochs": LeaderEpochRow,
    "offset_checkpoints": OffsetCheckpointRow,
    "partition_states": PartitionStateRow,
    "replica_progress": ReplicaProgressRow,
    "broker_log_events": BrokerLogEvent,
    "quarantine": QuarantineRow,
}
BRONZE_TABLES: dict[str, tuple[Column, ...]] = {table: columns(row) for table, row in BRONZE_ROWS.items()}
BRONZE_TABLES["batches"] += tuple(Column(name, stored.ddl) for name, stored in BATCH_COLUMNS.items())


class RecordRow(NamedTuple):
    """A record, which is in no table: the data source makes the row. A row with a `problem` has no record."""

    broker_id: Int
    log_dir: str
    topic: str
    partition: Int
    segment_base_offset: int
    batch_base_offset: int | None
    offset: int | None
    leader_epoch: Int | None
    magic: Annotated[int, "tinyint"] | None
    timestamp_ms: int | None
    log_append_time: bool | None
    producer_id: int | None
    producer_epoch: Annotated[int, "smallint"] | None
    sequence: Int | None
    transactional: bool | None
    control: bool | None
    key_size: Int | None
    value_size: Int | None
    header_count: Int | None
    problem: str | None


class HeaderRow(NamedTuple):
    """A header of a record."""

    name: str
    value: bytes | None


class PayloadRow(NamedTuple):
    """Contents of a record, only if the user asks for payloads."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[HeaderRow] | None
