"""Types that all rooms share: partitions, batches, segments, replicas, leadership.

Every class is a named tuple or a frozen dataclass of plain values, so that it can be pickled to an executor, written as JSON and compared in a
test. Offsets are int64, ranges are half-open, times are milliseconds since the epoch, absent is None.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

from replica_audit.literals import (
    DamageKind,
    FileState,
    GroupKind,
    IrregularityKind,
    LeadershipSource,
    Occasion,
    SegmentSource,
    StoredForm,
    TailKind,
)

if TYPE_CHECKING:
    from replica_audit.schema import SoleIsr


#: The group coordinator's log.
GROUP_OFFSETS_TOPIC = "__consumer_offsets"

#: How the names of groups begin whose offsets are the progress of `restore`: numbers of records, not positions in a log.
RESTORE_GROUP = "replica-audit-restore-"

#: The topic config that allows unclean elections.
UNCLEAN = "unclean.leader.election.enable"

#: The topic config with the number of in-sync replicas that acks=all needs.
MIN_ISR = "min.insync.replicas"

#: The topic config that says whose time its records get, and its two values: the producer's and the broker's.
TIMESTAMP_TYPE = "message.timestamp.type"
MESSAGE_FORMAT = "message.format.version"
CREATE_TIME = "CreateTime"
APPEND_TIME = "LogAppendTime"

#: Offsets are compared in chunks of this many; a batch belongs to the chunk of its base offset.
CHUNK_OFFSETS = 65_536


class TopicPartition(NamedTuple):
    """One partition of one topic; its directory is named `<topic>-<partition>`."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    @classmethod
    def parse(cls, name: str) -> TopicPartition:
        """Split `name` at its last dash (Kafka `UnifiedLog.parseTopicPartitionName`).

        Raises ValueError if there is no dash, no topic, or no number from 0 to 2^31 - 1 after it.
        """
        topic, dash, number = name.rpartition("-")
        if not dash or not topic or not (number.isascii() and number.isdigit()) or len(number.lstrip("0")) > 10:
            raise ValueError(f"{name[:300]!r} is not <topic>-<partition>")
        partition = int(number.lstrip("0") or "0")
        if partition >= 1 << 31:
            raise ValueError(f"{name[:300]!r} is not <topic>-<partition>: the greatest partition is {(1 << 31) - 1}")
        return cls(topic, partition)


class OffsetRange(NamedTuple):
    """Offsets from `start_offset` up to, but not including, `end_offset`."""

    start_offset: int
    end_offset: int

    @property
    def size(self) -> int:
        """Number of its offsets."""
        return max(0, self.end_offset - self.start_offset)

    def holds(self, offset: int) -> bool:
        return self.start_offset <= offset < self.end_offset

    def covers(self, start_offset: int, end_offset: int) -> bool:
        """True if all of [start, end) is in the range."""
        return self.start_offset <= start_offset and end_offset <= self.end_offset

    def overlaps(self, start_offset: int, end_offset: int) -> bool:
        """True if a part of [start, end) is in the range."""
        return self.start_offset < end_offset and start_offset < self.end_offset


class _HasOffsets(Protocol):
    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...


def span_of(stretches: Sequence[_HasOffsets]) -> OffsetRange:
    """The range from the least start to the greatest end; `stretches` must not be empty."""
    return OffsetRange(min(one.start_offset for one in stretches), max(one.end_offset for one in stretches))


def without(ranges: Iterable[OffsetRange], taken: Iterable[OffsetRange]) -> list[OffsetRange]:
    """`ranges`, in their order, minus the parts that `taken` covers."""
    return OffsetSet.of(taken).missing_from(ranges)


def joined(ranges: Iterable[OffsetRange]) -> tuple[OffsetRange, ...]:
    """`ranges` in order, those that touch or overlap joined."""
    found: list[OffsetRange] = []
    for part in sorted(ranges):
        if found and part.start_offset <= found[-1].end_offset:
            last = found.pop()
            found.append(OffsetRange(last.start_offset, max(last.end_offset, part.end_offset)))
        else:
            found.append(part)
    return tuple(found)


class OffsetSet(NamedTuple):
    """A set of offsets for repeated look-ups."""

    ranges: tuple[OffsetRange, ...]
    """Ranges in order; neighbours do not touch."""
    ends: tuple[int, ...]
    """End of each range."""

    @classmethod
    def of(cls, ranges: Iterable[OffsetRange]) -> OffsetSet:
        found = joined(part for part in ranges if part.start_offset < part.end_offset)
        return cls(found, tuple(part.end_offset for part in found))

    def missing_from(self, ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
        """The parts of `ranges`, in their order, that are not in the set."""
        left = []
        for part in ranges:
            start = part.start_offset
            for one in self.ranges[bisect_right(self.ends, start) : bisect_left(self.ends, part.end_offset) + 1]:
                if start < (end := min(one.start_offset, part.end_offset)):
                    left.append(OffsetRange(start, end))
                start = max(start, one.end_offset)
            if start < part.end_offset:
                left.append(OffsetRange(start, part.end_offset))
        return left

    def shared_with(self, ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
        """The parts of `ranges`, in their order, that are in the set."""
        found = []
        for part in ranges:
            for one in self.ranges[
                bisect_right(self.ends, part.start_offset) : bisect_left(self.ends, part.end_offset) + 1
            ]:
                start, end = max(part.start_offset, one.start_offset), min(part.end_offset, one.end_offset)
                if start < end:
                    found.append(OffsetRange(start, end))
        return found


class Damage(NamedTuple):
    """Part of a segment file without a usable batch, followed by sound batches or the end of the file."""

    position: int
    length: int
    reason: str
    """One sentence: what was expected there and what was found."""
    kind: DamageKind
    """`corrupt` between sound batches or up to the file's end; else the tail kinds `partial`, `zero_filled`, `garbage`."""
    expected_offset: int | None
    """Offset that the next batch should have had there; None at the start of a file that begins with damage."""
    next_offset: int | None
    """Base offset of the first sound batch after the damage in this file, if any."""


class Irregularity(NamedTuple):
    """A batch that is readable but breaks a rule of its log."""

    kind: IrregularityKind
    """crc: checksum differs. gap: base > previous last + 1. regression / duplicate: base <= previous last, partly / fully
    known. epoch_regression: leader epoch below the previous one. segment_name: first base below the file's name, or span beyond
    2^31-1. field: counts, deltas, attribute bits or magic that cannot be. producer_duplicate: same producer id, epoch and
    sequence twice in the segment."""
    position: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    previous: int | None
    """The neighbour's contradicted value: last offset or leader epoch of the batch before; None for crc, field.

    For producer_duplicate the producer's last offset before a sequence that restarts at 0, else None.
    """
    detail: str


class ChunkDigest(NamedTuple):
    """Digest of the batches that one segment holds of one chunk of offsets; digests of a chunk that spans segments are added.

    `digest` is the sum modulo 2^64 of a 64-bit hash of (base, last, epoch, crc, size) of each batch: a sum, since XOR would
    cancel a batch that occurs twice.
    """

    chunk: int
    batch_count: int
    record_count: int
    size_bytes: int
    base_offset: int
    last_offset: int
    digest: int
    first_timestamp_ms: int | None
    last_timestamp_ms: int | None


class EpochStart(NamedTuple):
    """The first in a run of batches with one leader epoch, in file order (-1: without an epoch)."""

    leader_epoch: int
    base_offset: int
    position: int


class OpenTransaction(NamedTuple):
    """Transactional batches of one producer that no marker of it follows."""

    producer_id: int
    first_epoch: int
    """Producer epoch of its first batch."""
    last_epoch: int
    first_offset: int
    last_offset: int
    last_timestamp_ms: int


class TransactionState(NamedTuple):
    """Last state of a producer's transaction in the transaction coordinator's log (Kafka `TransactionMetadata`)."""

    producer_id: int
    producer_epoch: int
    """-1 if unknown."""
    state: str
    partitions: tuple[TopicPartition, ...]
    """Partitions that still need markers."""
    updated_ms: int
    leader_epoch: int
    """Leader epoch of the record in `__transaction_state`; `offset` is its offset."""
    offset: int
    transactional_id: str | None = None
    """The name under which the client opened the transaction; None if the record's key lacks it."""


class GroupOffset(NamedTuple):
    """The offset that a consumer group committed last for a partition (Kafka `OffsetAndMetadata`), or that a share group has
    reached."""

    group: str
    topic: str
    partition: int
    committed_offset: int
    """The next one that the group reads; of a share group the end of the records that it is done with."""
    leader_epoch: int | None
    """Leader epoch of the last record that the group read, None if its client gave none (KIP-320); of a share group that of the
    leader that gave it the records."""
    committed_ms: int
    topic_id: str | None = None
    """Set since 4.1 if the client gave it; None if unknown."""
    kind: GroupKind = "consumer"


class RemoteSegment(NamedTuple):
    """A segment of a tiered topic in its last state in `__remote_log_metadata` (Kafka `RemoteLogSegmentMetadata`)."""

    topic: str
    partition: int
    topic_id: str
    start_offset: int
    end_offset: int
    segment_id: str
    epochs: tuple[tuple[int, int], ...]
    """(leader epoch, start offset) of its records."""
    state: int
    """Index in `snapshot.remote_log_metadata.STATES`."""
    broker_id: int
    """The broker that copied it."""
    size_bytes: int
    max_timestamp_ms: int
    """Greatest timestamp of its records; -1 without records."""
    started_ms: int
    """Beginning of the copy, by the clock of the broker that made it."""
    updated_ms: int
    """Beginning of its present state, by the clock of `updated_by`."""
    updated_by: int
    """The broker that set its present state."""
    copied_ms: int | None
    """Time at which its copy was finished, whatever its state since; None if it never was."""
    deleting_ms: int | None
    """First beginning of its deletion."""
    deletions: int
    """Number of times that its deletion was begun: Kafka tries again."""
    is_whole: bool
    """True if the copy of `__remote_log_metadata` that names it is here from its beginning."""
    told_in: str
    """Log dir of that copy."""
    told_until_ms: int
    """Time of the latest message in that copy, about any segment."""

    @property
    def offsets(self) -> OffsetRange:
        return OffsetRange(self.start_offset, self.end_offset)


class RemoteObject(NamedTuple):
    """A segment in a remote store, by the names of its objects (`snapshot.remote_store`)."""

    topic: str
    partition: int
    topic_id: str
    start_offset: int
    segment_id: str
    is_chunked: bool
    """True for the layout of Aiven's plugin, which needs a manifest to read it; False for LocalTieredStorage."""
    log_path: str | None = None
    """The object with its batches, relative to the store; None if the store has only other objects of the segment."""
    log_bytes: int = 0
    modified_ms: int | None = None
    """Last change of that object; None if the store or listing does not say."""
    placed_ms: int | None = None
    """Time at which the file was created or copied here, regardless of its modification time; None unless in a local directory."""
    was_seen_again: bool | None = None
    """True if it was still there after another segment of the partition was not; None if the store was not listed again."""
    manifest_path: str | None = None
    segment_bytes: int | None = None
    """Size of the segment that was copied, in whatever form it is stored; None if unknown."""
    unread: str | None = None
    """Clause on why its batches cannot be read; None if they can."""
    is_encrypted: bool = False
    """True if only the brokers' plugin, which has the keys, can read it."""

    @property
    def missing(self) -> str | None:
        """The object without which the segment cannot be read; None if all are there."""
        if self.log_path is None:
            return ".log"
        return ".rsm-manifest" if self.is_chunked and self.manifest_path is None else None

    @property
    def form(self) -> StoredForm:
        """Readability of the segment in the store."""
        if self.missing is not None:
            return "incomplete"
        if self.is_encrypted:
            return "encrypted"
        return "readable" if self.unread is None else "unknown"


class RemoteListing(NamedTuple):
    """Contents of a remote store for one partition, of any topic of that name."""

    objects: tuple[RemoteObject, ...]
    listed_ms: int | None
    """Moment at which the store had exactly these objects; None if unknown."""
    latest_ms: int | None = None
    """The latest moment that any part of the listing names."""

    def of(self, segments: Iterable[RemoteSegment]) -> dict[str, RemoteObject]:
        """The objects of segments, by segment id. One of another topic id is of another topic, whatever its segment id."""
        topics = {one.segment_id: one.topic_id for one in segments}
        return {one.segment_id: one for one in self.objects if topics.get(one.segment_id) == one.topic_id}


@dataclass(frozen=True, slots=True)
class SegmentSummary:
    """One segment file after its scan: everything that the audit needs of it besides its batches."""

    path: str
    """Relative to the snapshot."""
    base_offset: int
    """Base offset from the file's name."""
    size_bytes: int
    batch_count: int = 0
    unchecked_count: int = 0
    """Number of batches whose checksum was never computed."""
    unchecked_end: int | None = None
    """Position of its last batch if its checksum was not computed and it claims more offsets than records, which no producer
    writes: only its bytes show whether the file ends there."""
    record_count: int = 0
    """Sum of the batches' record counts; a legacy entry counts its inner messages."""
    first_base_offset: int | None = None
    first_leader_epoch: int | None = None
    last_base_offset: int | None = None
    last_offset: int | None = None
    """Last offset of the last sound batch of the file, if any."""
    last_leader_epoch: int | None = None
    greatest_last_offset: int | None = None
    epoch_starts: tuple[EpochStart, ...] = ()
    irregularities: tuple[Irregularity, ...] = ()
    irregularity_counts: Mapping[str, int] = field(default_factory=dict)
    """Exact number per kind; `irregularities` holds the first 100 of each kind only. sequence_gap is counted only: the number
    of places in this file where a producer's sequences skip ahead."""
    first_sequences: tuple[tuple[int, int, int], ...] = ()
    """(producer id, producer epoch, sequence of its first record) of the 100 that begin first in this file."""
    last_sequences: tuple[tuple[int, int, int], ...] = ()
    """(producer id, producer epoch, sequence of its last record) of the 100 that end last in this file, in that order."""
    damage: tuple[Damage, ...] = ()
    tail_kind: TailKind = "clean"
    """clean, partial, zero_filled or garbage: the bytes after the last sound batch."""
    tail_length: int = 0
    chunks: tuple[ChunkDigest, ...] = ()
    greatest_magic: int | None = None
    has_epochs: bool = False
    """True if a batch of magic 2 has a leader epoch of 0 or more."""
    has_delete_horizon: bool = False
    has_sparse_batch: bool = False
    """True if a batch of magic 2 has fewer records than it spans: a cleaner was at work."""
    first_timestamp_ms: int | None = None
    last_timestamp_ms: int | None = None
    open_transactions: tuple[OpenTransaction, ...] = ()
    """Transactions that are open at the end of this file, as far as it shows."""
    ended_producers: tuple[tuple[int, int], ...] = ()
    """(producer id, greatest epoch of its markers in this file)."""
    source: SegmentSource = "segment"
    """Source of the segment."""
    form: str = "batches"
    """Form of the record batches (`snapshot.provenance`): only logs of one form can be compared batch by batch."""
    unproven: tuple[str, ...] = ()
    """Points that `source` leaves unproven, in the terms of `snapshot.provenance.UNPROVEN`."""
    digest: str | None = None
    """SHA-256 over every batch's header and the places of damage; None if it was not computed."""


class CheckpointFile(NamedTuple):
    """A checkpoint file as read: `state` is present, empty (0 bytes: no entries), missing, malformed, unreadable or not_given.

    `unreadable`: it is there, but the storage did not return its bytes. `not_given`: the replica is known from a text or table
    only, so the existence of the file is unknown.
    """

    state: FileState
    path: str
    problem: str | None = None
    """Reason if malformed (line number, expected and found text) or unreadable (the error)."""

    @property
    def is_unknown(self) -> bool:
        """True if neither the file's content nor its absence is known."""
        return self.state in ("unreadable", "not_given")


#: A file whose presence is unknown.
NOT_GIVEN = CheckpointFile("not_given", "")


class ObservedLog(NamedTuple):
    """A broker's answer to `observe` about a replica, whose batches are known up to its own high watermark only."""

    high_watermark: int
    """The replica's own: a follower's is behind its leader's."""
    log_start_offset: int
    """Beginning of the log; batches may have been read from a later offset."""
    log_end_offset: int | None
    """None if the broker did not say."""
    last_epoch: int | None
    """Leader epoch of the last record."""

    @property
    def hides_tail(self) -> bool:
        """True if there are, or may be, records above the high watermark."""
        return self.log_end_offset is None or self.log_end_offset > self.high_watermark


class ReplicaDir(NamedTuple):
    """One current partition directory of one log dir, with everything that its log dir says about it."""

    broker_id: int
    log_dir: str
    """Path of the log dir relative to the snapshot, '' for the snapshot itself."""
    topic: str
    partition: int
    path: str
    topic_id: str | None = None
    clean_shutdown: bool | None = None
    """None if the log dir is not in the snapshot."""
    directory_id: str | None = None
    epoch_file: CheckpointFile = NOT_GIVEN
    checkpoint_epochs: tuple[tuple[int, int], ...] | None = None
    """(leader epoch, start offset) as found; None unless the file is present or empty."""
    high_watermark_file: CheckpointFile = NOT_GIVEN
    recovery_point_file: CheckpointFile = NOT_GIVEN
    log_start_file: CheckpointFile = NOT_GIVEN
    cleaner_file: CheckpointFile = NOT_GIVEN
    high_watermark_checkpoint: int | None = None
    recovery_point_checkpoint: int | None = None
    log_start_checkpoint: int | None = None
    cleaner_checkpoint: int | None = None
    problem: str | None = None
    """Reason why the directory could not be read, or its partition.metadata not used; None without one."""
    segment_bases: tuple[int, ...] = ()
    """Base offsets of the segments found; a replica whose segments could not all be scanned has fewer summaries."""
    index_bases: tuple[int, ...] = ()
    """Base offsets of .index and .timeindex files without a .log beside them; producer snapshots may outlive theirs."""
    observed: ObservedLog | None = None
    """Set for a replica that was read through its broker; its high watermark then replaces the checkpoint."""

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def is_epoch_file_empty(self) -> bool:
        """True if leader-epoch-checkpoint is there without entries: of 0 bytes, until it is first written, or with a count of 0, since its
        entries were removed (`LeaderEpochFileCache`)."""
        return self.epoch_file.state in ("present", "empty") and self.checkpoint_epochs == ()

    @property
    def offset_files(self) -> tuple[CheckpointFile, ...]:
        """The offset checkpoints of its log dir."""
        return self.high_watermark_file, self.recovery_point_file, self.log_start_file, self.cleaner_file

    @property
    def segment_count(self) -> int:
        return len(self.segment_bases)


def min_isr_of(configs: Mapping[str, str], replica_count: int) -> int | None:
    """`min.insync.replicas` of a topic, capped at its replicas (`caps_min_isr`); None if `configs` do not give it."""
    said = configs.get(MIN_ISR, "")
    return min(int(said), replica_count) if said.isdigit() else None


class PartitionState(NamedTuple):
    """State of a partition from one record of the metadata log on (Kafka `PartitionRegistration`)."""

    time_ms: int
    """By the controller's clock; for the occasion `snapshot` the state is at least this old."""
    metadata_offset: int
    """Offset of the record; for the occasion `snapshot` the snapshot's end."""
    occasion: Occasion
    """snapshot, created, changed, configured, elr_cleared or deleted (with its topic: the last state)."""
    leader_id: int | None
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    last_known_elr: tuple[int, ...]
    replicas: tuple[int, ...]
    removing: tuple[int, ...]
    adding: tuple[int, ...]
    directories: tuple[str, ...]
    """Directory ids in the order of `replicas`; empty before they were assigned."""
    recovering: bool
    """True if the leader was elected uncleanly and has not reported its recovery since (LeaderRecoveryState 1)."""
    configs: Mapping[str, str]
    uncommitted: bool = False
    """True above what a majority of the captured voters holds: it may never have been committed."""
    batch_end: int | None = None
    """End offset of the record's batch, which brokers apply as a whole; known only while the metadata log is read."""
    sole_isr: SoleIsr | None = None
    """Set on the state from which the leader was alone in the ISR."""
    leader_stopped: bool = False
    """True if there is no leader, and the last one ended in a controlled shutdown, so that it flushed its log."""
    crashed: tuple[int, ...] = ()
    """Replicas that registered again since the state before without having announced their stop: they may have lost the end of
    their log."""
    begun_anew: tuple[int, ...] = ()
    """Replicas on another log dir than in the state before, which their brokers no longer had: not a move, a log begun anew (KIP-858)."""
    inherits_unclean: bool = False
    """True if `configs` have unclean.leader.election.enable as the cluster's, and the topic no value of its own."""
    lacked_by: tuple[int, ...] = ()
    """Controllers whose copies lack this record, though it was committed before they were made (META-STALE)."""

    @property
    def min_isr(self) -> int | None:
        """`min_isr_of` the topic."""
        return min_isr_of(self.configs, len(self.replicas))

    @property
    def is_below_min_isr(self) -> bool:
        """True if fewer replicas are in sync than the topic needs to commit."""
        return self.min_isr is not None and len(self.isr) < self.min_isr


#: Shared by leaderships without configs or fenced brokers, which are most of a million.
_NO_CONFIGS: Mapping[str, str] = {}
_NOT_FENCED: Mapping[int, int] = {}


@dataclass(frozen=True, slots=True)
class Leadership:
    """Leader, ISR and assignment of a partition, and the source that names them."""

    topic: str
    partition: int
    source: LeadershipSource
    """metadata_log, zookeeper, topics_describe, user or inferred."""
    leader_id: int | None = None
    """None: the newest state has no leader (or, with source inferred, it is unknown)."""
    leader_epoch: int | None = None
    isr: tuple[int, ...] | None = None
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    replicas: tuple[int, ...] | None = None
    """The assignment; None if unknown."""
    topic_id: str | None = None
    configs: Mapping[str, str] = field(default_factory=lambda: _NO_CONFIGS)
    """Topic configs in the source; a missing key is unknown, not the default."""
    inherits_unclean: bool | None = None
    """True if ZooKeeper has configs of the topic, without unclean.leader.election.enable; false if with it; None if it has none."""
    history: tuple[PartitionState, ...] = ()
    """Every state since the metadata log begins, oldest first, tentative ones last; empty from any other source."""
    fenced: tuple[int, ...] | None = None
    """Assigned brokers that were fenced, stopping or not registered at the end; None if unknown."""
    fenced_since: Mapping[int, int] = field(default_factory=lambda: _NOT_FENCED)
    """For fenced brokers, the first offset of the batch of the metadata log that fenced them, or registered them since; others
    are left out."""
    down_when_copied: tuple[int, ...] = ()
    """Fenced brokers whose own copy of the metadata log reaches to when they were fenced: it was made after they had gone down
    (`snapshot.metadata.copy_moments`)."""
    perhaps_down: tuple[int, ...] = ()
    """Brokers that are not `fenced` and of which nothing shows that they ran when they were copied (`snapshot.metadata.copy_moments`)."""
    offline: tuple[int, ...] = ()
    """Assigned brokers whose log dir with the partition was offline, or lost, when they last told the controller (KIP-858)."""
    overtaken: bool = False
    """True if the listing, or the file of states, is older than the logs of another of its partitions: its ISR may be out of date."""

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def believed(self) -> Leadership:
        """The leadership, without ISR and eligible replicas if it is `overtaken`."""
        return replace(self, isr=None, elr=(), last_known_elr=()) if self.overtaken else self

    @property
    def committed(self) -> tuple[PartitionState, ...]:
        """Committed states of `history`, oldest first."""
        return tuple(state for state in self.history if not state.uncommitted)

    @property
    def leaderless_since_ms(self) -> int | None:
        """Time by the controller's clock of the state since which nobody has led; None if somebody leads, or no state is known."""
        since = None
        for state in reversed(self.history):
            if state.leader_id is not None:
                break
            since = state.time_ms
        return since

    @property
    def is_deleted(self) -> bool:
        """True if the topic was deleted: remaining directories of the partition wait for removal."""
        return bool(self.history) and self.history[-1].occasion == "deleted"

    @property
    def gone(self) -> frozenset[int]:
        """Brokers that could lead a leaderless partition, by a source that does not say who is fenced: they were
        down then, or their disks offline."""
        is_shown = self.source != "inferred" and self.fenced is None and self.leader_id is None
        return frozenset((*(self.believed.isr or ()), *self.believed.elr)) if is_shown else frozenset()

    @property
    def said_tiered(self) -> bool | None:
        """True if the source says that the topic is tiered; None if it shows no configs of the topic.

        Brokers have no default for it: in a source with the topic's configs its absence means off.
        """
        knows = self.configs or self.source in ("metadata_log", "zookeeper")
        return self.configs.get("remote.storage.enable") == "true" if knows else None

    @property
    def is_copying(self) -> bool:
        """True if the source says that the topic's segments are copied to remote storage."""
        return bool(self.said_tiered) and self.configs.get("remote.log.copy.disable") != "true"

    @property
    def named(self) -> frozenset[int]:
        """Brokers that are named as having a replica: assigned, in sync, eligible or leading."""
        leader = () if self.leader_id is None else (self.leader_id,)
        return frozenset((*(self.replicas or ()), *(self.isr or ()), *self.elr, *leader))


class Part(NamedTuple):
    """Place of a part of a segment's text or table: bytes [start, end) of a text, or some rows of a table in them."""

    path: str
    start: int = 0
    end: int = 0
    dumped_path: str = ""
    """Path of the segment in the text."""
    columns: tuple[str, ...] = ()
    """Columns in which a table has values."""
    log_dir: str = ""
    """Log dir in the table."""
    segment_base_offset: int | None = None


class SegmentFile(NamedTuple):
    """A segment of a replica, as Kafka would load it: a `.swap` that wins is one, the files it replaces are not.

    Unless `source` is segment, `path` is only a display name and the contents are in `parts`.
    """

    broker_id: int
    log_dir: str
    topic: str
    partition: int
    path: str
    base_offset: int
    size_bytes: int
    """Bytes to read."""
    source: SegmentSource = "segment"
    """segment, dump_text, batch_table or record_table."""
    parts: tuple[Part, ...] = ()
