"""Rows of the tables of answers and facts: in the warehouse, in audit.json, and in the output of `verify`.

A table is a class, a column one of its fields (`row_classes`): name, type, and below it the meaning if the name does not say it
all. The tables of docs/reference.md are made from these texts (`tests.docs.reference_tables`). `None` is null: unknown, or not
applicable. Offsets are 64 bits wide, like all plain numbers here; ranges are half-open, `_ms` are milliseconds since the epoch.
Rows of inputs are in `bronze_tables`.
"""

# Without `from __future__ import annotations`: types are read from the classes, and texts would have to be compiled first.

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args, get_type_hints

from replica_audit.literals import (
    CaptureState,
    Committed,
    Confidence,
    FollowerVerdict,
    GroupEffect,
    GroupKind,
    LeadershipSource,
    MetadataStanding,
    NamedBy,
    Need,
    Occasion,
    Protocol,
    RemoteBasis,
    RemoteLineage,
    RemoteState,
    Role,
    Severity,
    Standing,
    Status,
    StoredForm,
    TailKind,
    Verdict,
)
from replica_audit.row_classes import Column, Int, Row, columns, sort_rows

#: (leader epoch, start offset) of each epoch.
Epochs = Sequence[Sequence[int]]


class LostHolder(NamedTuple):
    """A broker that holds lost records, each counted once over all its copies."""

    broker_id: Int
    records: int
    committed: int
    only_here: int
    """that no other broker holds"""
    committed_only_here: int


class SeverityCounts(NamedTuple):
    """Findings of each severity."""

    critical: Int
    high: Int
    medium: Int
    low: Int
    info: Int


class PartitionRow(NamedTuple):
    """The answer for a partition."""

    topic: str
    partition: Int
    topic_id: str | None
    verdict: Verdict
    leader_id: Int | None
    reference_id: Int | None
    leader_epoch: Int | None
    isr: Sequence[Int] | None
    under_replicated: bool | None
    unread_replicas: Sequence[Int]
    """brokers whose log of it is absent, or could not be read completely"""
    hw_lower: int | None
    hw_upper: int | None
    max_lag_records: int | None
    max_lag_bytes: int | None
    dropped_records: int
    """sum over followers"""
    committed_dropped: int
    """sum over followers"""
    promised_dropped: int | None
    """upper bound, by acks=all"""
    lost_records: int | None
    """each record once, however many brokers hold it; null if nothing captured is lost but a needed replica was not captured"""
    lost_committed: int | None
    lost_at_most: bool | None
    """true if the two are upper bounds"""
    lost_at_least: bool | None
    """true if the two are lower bounds, since a needed replica was not captured"""
    holders: Sequence[LostHolder]
    """brokers that hold lost records: how many, each once over all copies, and those that no other broker holds"""
    findings: SeverityCounts
    """severity → count"""


class ReplicaRow(NamedTuple):
    """A replica."""

    topic: str
    partition: Int
    broker_id: Int
    log_dir: str
    topic_id: str | None
    role: Role
    """leader, reference, compared, foreign, duplicate or set_aside; earlier: what a broker had before the partition was
    collected again, and has no longer; future, stray or delete: a copy that Kafka does not serve from, whose `log_dir` is its
    own directory; deleted_segments: the `.deleted` files in a directory, whose `log_dir` ends with `/*.deleted`"""
    is_leader: bool
    in_isr: bool | None
    log_start_offset: int
    local_start_offset: int
    """first offset that its files can have; offsets between the two are in remote storage only"""
    log_end_offset: int | None
    loaded_log_end_offset: int | None
    """after the next start; null if that checks batches whose checksum was never computed"""
    recovered_log_end_offset: int | None
    """after a full recovery; null if the checksum of a batch was never computed"""
    high_watermark_checkpoint: int | None
    recovery_point_checkpoint: int | None
    epochs: Epochs
    """from the batches"""
    checkpoint_epochs: Epochs | None
    """from the file"""
    batch_count: int
    unchecked_batches: int
    """number of them whose checksum was never computed: evidence has their headers only"""
    record_count: int
    size_bytes: int
    tail_kind: TailKind
    """the bytes after the last sound batch"""
    clean_shutdown: bool | None
    compacted: bool
    """now or at any time before"""
    unexplained_gaps: int
    """number of gaps that no cleaner explains"""
    common_prefix_end: int | None
    """with the reference"""
    lost_held: int | None
    """lost records that it holds"""
    lost_committed_held: int | None
    lost_only_here: int | None
    """lost records that no other copy holds"""
    lost_committed_only_here: int | None


class VoterCopy(NamedTuple):
    """A controller that votes on the metadata log, and its copy of that log."""

    node_id: Int
    log_dir: str | None
    """None if the snapshot has no copy."""
    state: CaptureState
    missing: tuple[str, ...]
    """Names of files, or of the directory, that are missing or could not be read."""


class CaptureRow(NamedTuple):
    """A copy of a partition, or a broker that is named as having one: what of it is in the snapshot; for `__cluster_metadata`
    the copies of the quorum's voters."""

    topic: str
    partition: Int
    broker_id: Int
    log_dir: str | None
    """null if there is none"""
    state: CaptureState
    """whole; partial; awaited: evidence of it, with bytes still wanted; named: no log dir of the broker is in the snapshot;
    absent: one is, without the partition"""
    named_by: Sequence[NamedBy]
    """assignment, isr, elr: the present state; metadata_log: any state of the history; checkpoint: a checkpoint file of a log
    dir without the partition; voters: a control record of the metadata log, `quorum-state`, or a snapshot of the log"""
    missing: Sequence[str]
    """names of files, the word directory (of this topic id, where another one's is there), the number of wanted bytes, or
    the log with which it led last, that it uses, or on its former disk"""
    needed: Need | None
    """why the answer depends on a replica that was not captured, [semantics.md](semantics.md#f0-terms-that-the-rules-stand-on):
    elr, leads, isr, led_before_unclean, isr_before_unclean, isr_before_crash, former_disk, no_history; null: it does not, or it was captured"""


class ControllerEpoch(NamedTuple):
    """A range of a metadata log that the controller of one epoch wrote."""

    leader_epoch: Int
    start_offset: int
    end_offset: int


class MetadataLogRow(NamedTuple):
    """A node's copy of the metadata log, and how it compares with the others."""

    broker_id: Int | None
    """the controller or broker; null if unknown"""
    path: str
    directory_id: str | None
    standing: MetadataStanding
    """used: answers go by it; agrees; apart: records differ, and which are right is unknown; stale: it lacks committed records;
    refused: its whole history does, or is spliced; empty; unreadable"""
    refused: Sequence[str]
    """why its history cannot be the right one"""
    history: Int | None
    """number of its history, from 1; copies of one history do not contradict each other"""
    parts_at: int | None
    """first offset at which its records differ from those of the copy that is used"""
    proven_end: int | None
    """offset below which a majority of the voters, a `.checkpoint` or what brokers applied proves its records committed; null
    without proof. Voters whose logs were put there by hand prove nothing"""
    start_offset: int
    """below it there is only a `.checkpoint`"""
    end_offset: int
    epochs: Sequence[ControllerEpoch]
    checkpoints: Sequence[int]
    """end offsets of its `.checkpoint` files, which contain committed records only"""
    is_voter: bool | None
    """null if the voters are unknown"""
    may_vote: bool | None
    """false for a voter whose directory is not the one that the log names (KIP-853)"""
    seen_epoch: Int | None
    """in its `quorum-state`, as are the next two"""
    seen_leader_id: Int | None
    voted_id: Int | None


class HighWatermarkRow(NamedTuple):
    """The high watermark of a partition."""

    topic: str
    partition: Int
    leader_id: Int | None
    reference_id: Int
    leader_epoch: Int | None
    isr: Sequence[Int] | None
    leadership_source: LeadershipSource
    hw_lower: int
    hw_upper: int | None
    """null: no log end bounds it"""
    proven_lower: int
    """everything below it was committed"""
    exact: bool
    method: str
    lower_evidence: str
    upper_evidence: str
    limiting_broker_id: Int | None
    leader_log_end_offset: int | None


class SoleIsr(NamedTuple):
    """From a state on, to the end of its leader epoch, only the leader was in sync (docs/semantics.md F.0)."""

    min_isr: Int | None
    """the greatest effective min.insync.replicas meanwhile; null if the metadata log does not show it"""
    others_fenced: Literal["throughout", "later", "no"]
    """every other assigned replica: `throughout` (at once, and for as long as the leader could know), `later` (they were, but
    not at once or not for all of it), or `no`"""
    applied: str | None
    """evidence that the leader's own process applied the change, besides its files of this partition; null without such evidence"""


class PartitionStateRow(NamedTuple):
    """A state of a partition: leader, epochs, ISR, eligible leader replicas, assignment, configuration; from the metadata log
    one for every change, with its time, from another source the last one."""

    topic: str
    partition: Int
    source: LeadershipSource
    entry: Int
    """number of the state, from 0"""
    time_ms: int | None
    metadata_offset: int | None
    occasion: Occasion | None
    uncommitted: bool | None
    topic_id: str | None
    leader_id: Int | None
    leader_epoch: Int | None
    partition_epoch: Int | None
    isr: Sequence[Int] | None
    elr: Sequence[Int]
    last_known_elr: Sequence[Int]
    recovering: bool | None
    replicas: Sequence[Int] | None
    removing: Sequence[Int] | None
    adding: Sequence[Int] | None
    directories: Sequence[str] | None
    fenced: Sequence[Int] | None
    """brokers; in the last state only"""
    fenced_since: Mapping[str, int] | None
    """broker → offset in the metadata log; in the last state only"""
    down_when_copied: Sequence[Int] | None
    """brokers that were down when they were copied, by their own copies of the metadata log; in the last state only"""
    configs: Mapping[str, str]
    sole_isr: SoleIsr | None
    """on the state from which the leader was alone in the ISR"""
    lacked_by: Sequence[Int] | None
    """controllers whose copies lack it, though it was committed before they were made"""
    overtaken: bool | None
    """true if the listing or file of states is older than the logs of another of its partitions, so that its ISR is not used"""
    leader_stopped: bool | None
    """true if nobody leads, and the last leader was in controlled shutdown when it stopped leading"""
    crashed: Sequence[Int] | None
    """replicas that registered again since the previous state without having announced their stop"""
    begun_anew: Sequence[Int] | None
    """replicas on another log dir than in the previous state, which their brokers no longer had (KIP-858)"""
    perhaps_down: Sequence[Int] | None
    """brokers that are not fenced and of which nothing shows that they ran when they were copied; in the last state only"""
    offline: Sequence[Int] | None
    """brokers whose log dir with the partition is offline or lost, so that they are not elected (KIP-858); in the last state only"""
    inherits_unclean: bool | None
    """true if unclean.leader.election.enable in `configs` is the cluster's, and the topic has no value of its own; from ZooKeeper false if it
    has one, and null if nothing says"""


class HighWatermarkTimelineRow(NamedTuple):
    """The high watermark after an observation, recomputed by the rule and as reported."""

    topic: str
    partition: Int
    time_ms: int
    sequence: int
    occasion: str
    leader_id: Int | None
    leader_epoch: Int | None
    isr: Sequence[Int] | None
    hw_recomputed: int | None
    """by the rule"""
    hw_observed: int | None
    """as reported"""
    deviation: str | None
    limiting_broker_id: Int | None
    leader_log_end_offset: int | None
    waiting_since_ms: int | None
    lasting: bool


class DivergenceRow(NamedTuple):
    """A range in which a replica conflicts with the reference."""

    topic: str
    partition: Int
    broker_id: Int
    reference_id: Int
    start_offset: int
    end_offset: int
    code: str
    leader_epoch: Int | None
    """of the reference's records"""
    replica_epoch: Int | None
    record_count: int
    committed: bool
    committed_records: int
    committed_evidence: str | None
    """the proof that they were committed"""
    promised_records: int | None
    """upper bound, by acks=all"""
    lost_records: int | None
    """in this range"""
    lost_committed: int | None
    first_timestamp_ms: int | None
    last_timestamp_ms: int | None


class TruncationRound(NamedTuple):
    """One answer of the leader and the follower's step after it; None for a value that the protocol lacks."""

    request_epoch: Int | None
    leader_epoch: Int | None
    leader_end_offset: int | None
    replica_epoch: Int | None
    replica_end_offset: int | None
    truncate_to: int


class TruncationRow(NamedTuple):
    """The cut of a follower's log under one protocol, step by step."""

    topic: str
    partition: Int
    broker_id: Int
    leader_id: Int
    protocol: Protocol
    truncate_to: int
    rounds: Int
    reason: str
    """epoch_match, stepped_back, hw_fallback, out_of_range_tail, full_truncate, tiered_restart: the log is emptied and begins
    at the leader's local start, recovery or none"""
    steps: Sequence[TruncationRound]
    dropped_records: int
    dropped_bytes: int
    common_prefix_end: int | None
    committed_dropped: int
    first_timestamp_ms: int | None
    last_timestamp_ms: int | None


class VerificationRow(NamedTuple):
    """A replica in two snapshots."""

    topic: str
    partition: Int
    broker_id: Int
    leader_id: Int
    end_before: int
    kept_to: int | None = None
    expected: int | None = None
    end_after: int | None = None
    lost_records: int | None = None
    lost_committed: int | None = None
    lost_possible: int | None = None
    verdict: FollowerVerdict = "correct"
    reason: str = ""
    predicted: int | None = None


class BesideRow(NamedTuple):
    """A copy that neither leads nor follows, and holds some of what a candidate loses."""

    broker_id: Int
    log_dir: str
    start_offset: int
    end_offset: int
    lost_held: int


class RemoteShareRow(NamedTuple):
    """Records in remote storage that are known to be there in one way."""

    basis: RemoteBasis
    records: int


class ElectionRow(NamedTuple):
    """A candidate for leader and a replica: what the replica then keeps and drops; for partitions that are neither consistent
    nor lagging, or have no leader."""

    topic: str
    partition: Int
    candidate_id: Int
    broker_id: Int
    """also the candidate itself"""
    kept_to: int
    dropped_records: int
    dropped_bytes: int
    committed_dropped: int
    first_timestamp_ms: int | None
    last_timestamp_ms: int | None
    lost_held: int
    """lost records of the candidate that it holds"""
    lost_from: int | None
    """offset from which on it holds them; null if it holds none"""
    lacked_records: int
    """records of the candidate that it lacks below `kept_to`, where no truncation finds them"""
    lost_records: int
    """this and the following columns describe the candidate, in each of its rows"""
    lost_committed: int
    lost_possible: int
    is_only_likely: bool
    """true if it is likely, not proven, that all of `lost_committed` were committed"""
    lost_at_most: bool
    cut_transactions: Int
    only_here: int
    """records that no other replica has, nor an object of remote storage that was seen"""
    hidden_records: int
    """records that it lacks and another replica keeps, unseen"""
    remote_records: int
    """lost records that remote storage still has"""
    remote_unread: int
    """records of `remote_records` that cannot be extracted from the given store: encrypted, incomplete, or in no known segment"""
    remote_encrypted: int
    """records of `remote_unread` that are encrypted: only the brokers' plugin can read them"""
    remote_deleted: int
    """records of `remote_records` that Kafka deletes once the candidate leads"""
    remote_basis: Sequence[RemoteShareRow]
    """what shows that remote storage has `remote_records`, weakest first, each record by its strongest: log (its leader's files
    begin above it, and no segment of it is known), metadata (`__remote_log_metadata` alone), differs (an object whose size or
    content is not as told there), listing (an object that nobody read), content (one that was read, and is sound)"""
    damage: Sequence[str]
    """codes of damage in its files"""
    beside: Sequence[BesideRow]
    """copies that neither lead nor follow and hold some of what is lost: broker, directory, offsets, and number of records"""
    standing: Standing
    """leader, isr, elr, last_known, out_of_sync, unknown or unassigned"""
    clean: bool | None
    choice: Literal["best", "worst"] | None
    """best, worst or null"""
    reason: str | None
    """only for the best"""


class GroupOffsetRow(NamedTuple):
    """A consumer group's last commit for a partition, or how far a share group has come there, and its position on the
    leader's log."""

    group: str
    topic: str
    partition: Int
    committed_offset: int
    """of a share group the end of the records that it has acknowledged or given up"""
    leader_epoch: Int | None
    """of the last record that the group read, null if its client does not say; of a share group that of the leader that gave
    it the records"""
    committed_ms: int
    effect: GroupEffect | None
    """unaffected, past_end, epoch_differs: past the divergence inside the leader's log, or read_lost: valid, above lost
    records; null for an offset of an earlier topic of that name"""
    parted_at: int | None
    """offset at which the records it read and the leader's log part"""
    kind: GroupKind = "consumer"
    """consumer or share"""


class RemoteSegmentRow(NamedTuple):
    """A segment that is or was in remote storage, by `__remote_log_metadata`, beside the log of the reference."""

    topic: str
    partition: Int
    topic_id: str
    segment_id: str
    start_offset: int
    end_offset: int
    epochs: Epochs
    """of its records"""
    state: RemoteState
    """copy_started, copy_finished, delete_started or delete_finished"""
    lineage: RemoteLineage
    """own: everything above the log start belongs to the log; left: of another history, that the log left or never had;
    past_end: it continues where the copy of the log ends, or knows a later leader epoch; below_start: retention or
    DeleteRecords removed the log's records there; other_topic: of another topic of that name; unknown: no log of the partition
    has epochs"""
    parted_at: int | None
    """for left and past_end, the first offset that does not belong to the log"""
    size_bytes: int
    copied_by: Int
    """the broker that copied it"""
    started_ms: int
    """beginning of its copy"""
    copied_ms: int | None
    """end of its copy; null if it was never finished"""
    deleting_ms: int | None
    """first beginning of its deletion"""
    updated_by: Int
    """the broker that set its present state"""
    updated_ms: int
    max_timestamp_ms: int | None
    """greatest of its records"""
    told_in: str
    """the log dir of the copy of `__remote_log_metadata` that names it"""
    told_whole: bool
    """true if that copy is here from its beginning, and all of it could be read"""
    stored: StoredForm | None
    """state of a copied segment in the store: readable; encrypted; unknown: its form, or whether it was there yet, is unknown;
    incomplete: some of its objects are missing; absent. Null if the store was not read, and for other segments"""
    basis: RemoteBasis | None
    """what shows that the store has a copied segment, as in `elections.remote_basis`; null of one that it has no more, and of
    other segments"""


class LostProducerRow(NamedTuple):
    """A producer of the lost records that a broker holds."""

    topic: str
    partition: Int
    broker_id: Int
    producer_id: int | None
    """null: not idempotent"""
    transactional: bool
    transactional_id: str | None
    """null unless the coordinator's log in the snapshot has it"""
    transaction_state: str | None
    """null unless the coordinator's log in the snapshot has it"""
    start_offset: int
    end_offset: int
    record_count: int
    first_timestamp_ms: int | None
    last_timestamp_ms: int | None


class Evidence(NamedTuple):
    """One piece of a finding's evidence: a place in a file, a value, or a benign explanation that was considered."""

    kind: str
    """batch, checkpoint, lineage, replay, leadership, log, timeline, loss, file, wanted, unseen, kept, or considered"""
    broker_id: Int | None = None
    path: str | None = None
    position: int | None = None
    value: str | None = None
    text: str = ""


class FindingRow(NamedTuple):
    """A finding."""

    finding_id: str
    """the same in every audit"""
    code: str
    severity: Severity
    confidence: Confidence
    topic: str | None
    """null for a finding on a log dir, or on input without a partition"""
    partition: Int | None
    broker_id: Int | None
    start_offset: int | None
    end_offset: int | None
    message: str
    evidence: Sequence[Evidence]
    status: Status


class QuarantineRow(NamedTuple):
    """Input that could not be used."""

    broker_id: Int | None
    topic: str | None
    partition: Int | None
    path: str
    position: int | None
    length: int | None
    code: str
    reason: str

    @classmethod
    def of(
        cls,
        code: str,
        path: str,
        reason: str | Exception,
        *,
        broker_id: int | None = None,
        at: tuple[str, int] | None = None,
        position: int | None = None,
        length: int | None = None,
    ) -> "QuarantineRow":
        """A row, of the partition `at` if given; a FormatError as the reason supplies its own position."""
        topic, partition = at or (None, None)
        position = getattr(reason, "position", position)
        return cls(broker_id, topic, partition, path, position, length, code, str(reason))

    def as_input(self) -> "InputRow":
        """The row as an `InputRow`."""
        return InputRow(self.broker_id, self.path, self.position, self.length, self.code, self.reason)


class InputRow(NamedTuple):
    """A file that could not be used, in the answers."""

    broker_id: Int | None
    path: str
    position: int | None
    length: int | None
    code: str
    reason: str


class QualityRow(NamedTuple):
    """An expectation of the quality checks, and its outcome."""

    suite: str
    name: str
    table: str
    expectation: str
    column: str | None
    severity: Severity
    success: bool | None
    element_count: int | None
    unexpected_count: int | None
    observed: str | None
    failing: Sequence[str]
    """rows in words"""
    description: str | None
    error: str | None
    status: Status | None
    """for a failure: new or known"""


class GoneRecordsRow(NamedTuple):
    """A range that replicas held before and no replica holds now."""

    topic: str
    partition: Int
    start_offset: int
    end_offset: int
    leader_epoch: Int | None
    record_count: int
    committed: Committed
    broker_ids: Sequence[Int]
    may_hold: Sequence[Int]
    first_timestamp_ms: int | None
    last_timestamp_ms: int | None


class SurpriseRow(NamedTuple):
    """A deviation from a plan's prediction."""

    topic: str
    partition: Int
    broker_id: Int | None
    what: str
    predicted: str | None
    found: str | None


class NotVerifiedRow(NamedTuple):
    """A partition that could not be judged."""

    topic: str
    partition: Int
    reason: str
    expected: bool


class AttemptRow(NamedTuple):
    """The beginning, end or failure of a stage."""

    cluster_id: str | None
    snapshot_id: str | None
    audit_id: str | None
    ingest_id: str | None
    stage: str
    state: str
    started: str
    finished: str | None
    tool_version: str
    table_versions: Mapping[str, int] | None
    row_counts: Mapping[str, int] | None
    """rows that the stage committed to each table; a reader of more or fewer ends with status 4"""
    options: str | None
    """JSON"""

    @property
    def ended(self) -> str:
        """End of the attempt, or for one that runs or broke off its start."""
        return self.finished or self.started


class ReplicaFactsRow(NamedTuple):
    """Facts of a replica that quality suites check: every number is 0 in a sound log, null if not applicable."""

    place: str
    """the row in words"""
    topic: str
    partition: Int
    broker_id: Int
    log_dir: str
    is_leader: bool
    in_isr: bool | None
    compacted: bool
    tail_kind: TailKind
    batch_count: int
    log_start_offset: int
    log_end_offset: int | None
    wrong_crcs: int | None
    """null if none is known to be wrong, but not all were computed"""
    unchecked_batches: int | None
    """batches whose checksum was never computed"""
    offset_gaps: int
    offset_regressions: int
    epoch_regressions: int
    high_watermark_above_end: int | None
    recovery_point_above_end: int | None
    high_watermark_below_start: int | None
    lineage_conflicts: int | None
    isr_shortfall: int | None
    sequence_gaps: int | None
    """number of places where a producer's sequences skip ahead, within a segment or from one to the next; null in a compacted log"""
    timestamps_ahead_ms: int | None
    """time by which the latest timestamp lies past the end of the copy; null if the snapshot does not show that end"""
    capture_age_ms: int | None
    """from the end of the copy to the audit; null as above"""


class PartitionFactsRow(NamedTuple):
    """Facts of a partition that quality suites check, or of findings without a partition."""

    place: str
    topic: str | None
    partition: Int | None
    verdict: Verdict | None
    hw_lower: int | None
    hw_upper: int | None
    hw_width: int | None
    uncaptured_replicas: int | None
    """named replicas whose log is missing from the snapshot, at least in part"""
    committed_copies: int | None
    """replicas that hold everything proven committed; null if only one was copied, or that is unknown"""
    segments_held_once: int | None
    """segments of the reference with committed records that no other replica holds completely; null as `committed_copies`"""
    critical_findings: int
    high_findings: int
    medium_findings: int
    low_findings: int
    info_findings: int


#: Columns that every bronze table begins with; `ingest_id` is the attempt that wrote the row.
INGEST_COLUMNS = (Column("cluster_id", "string"), Column("snapshot_id", "string"), Column("ingest_id", "string"))
#: Columns that every report table begins with.
AUDIT_COLUMNS = (*INGEST_COLUMNS[:2], Column("audit_id", "string"))


@dataclass(frozen=True, kw_only=True)
class ReportRows:
    """Rows of the report tables, by the names and in the order that audit.json has them; of a table that was not computed there
    are none. Sorted rows are in the order of `SORT_KEYS`."""

    partitions: list[PartitionRow] = field(default_factory=list)
    replicas: list[ReplicaRow] = field(default_factory=list)
    captures: list[CaptureRow] = field(default_factory=list)
    metadata_logs: list[MetadataLogRow] = field(default_factory=list)
    high_watermarks: list[HighWatermarkRow] = field(default_factory=list)
    partition_states: list[PartitionStateRow] = field(default_factory=list)
    high_watermark_timeline: list[HighWatermarkTimelineRow] = field(default_factory=list)
    divergences: list[DivergenceRow] = field(default_factory=list)
    truncations: list[TruncationRow] = field(default_factory=list)
    elections: list[ElectionRow] = field(default_factory=list)
    group_offsets: list[GroupOffsetRow] = field(default_factory=list)
    remote_segments: list[RemoteSegmentRow] = field(default_factory=list)
    lost_producers: list[LostProducerRow] = field(default_factory=list)
    findings: list[FindingRow] = field(default_factory=list)
    quarantine: list[InputRow] = field(default_factory=list)
    quality: list[QualityRow] = field(default_factory=list)

    def table(self, name: str) -> list[Any]:
        """The rows of a table. Raises KeyError for an unknown name."""
        if name not in REPORT_ROWS:
            raise KeyError(name)
        return getattr(self, name)

    def in_order(self) -> "ReportRows":
        """Each table's rows in the order of `SORT_KEYS`."""
        return ReportRows(**{table: sort_rows(self.table(table)) for table in REPORT_ROWS})

    def take(self, more: "ReportRows") -> None:
        """Append the rows of `more`."""
        for table, rows in vars(more).items():
            self.table(table).extend(rows)


#: The class of each table's rows.
REPORT_ROWS: dict[str, type[Row]] = {table: get_args(kind)[0] for table, kind in get_type_hints(ReportRows).items()}
#: The columns of each table, without `AUDIT_COLUMNS`.
REPORT_TABLES: dict[str, tuple[Column, ...]] = {table: columns(row) for table, row in REPORT_ROWS.items()}
#: Tables of `verify`'s JSON, which compare two snapshots; no audit has them.
VERIFICATION_ROWS: dict[str, type] = {
    "verifications": VerificationRow,
    "gone_records": GoneRecordsRow,
    "surprises": SurpriseRow,
    "not_verified": NotVerifiedRow,
}
VERIFICATION_TABLES: dict[str, tuple[Column, ...]] = {table: columns(row) for table, row in VERIFICATION_ROWS.items()}
#: Tables that quality suites check besides the report tables.
FACT_TABLES: dict[str, tuple[Column, ...]] = {
    "replica_facts": columns(ReplicaFactsRow),
    "partition_facts": columns(PartitionFactsRow),
}
#: Raised when rows get a meaning that an earlier version would misread. A new column is not such a change: older readers ignore it.
SCHEMA_VERSION = 1
