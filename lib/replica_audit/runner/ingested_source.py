"""Audit of an ingested snapshot from the warehouse, with the answers stored there."""

from __future__ import annotations

import json
import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from replica_audit.auditing.earlier_losses import CommittedLog, EarlierLosses
from replica_audit.auditing.evidence import (
    AuditOptions,
    SideEvidence,
    options_row,
    resolve_options,
)
from replica_audit.bronze_tables import BrokerLogEvent, SnapshotRow
from replica_audit.config import Settings
from replica_audit.model import GroupOffset, RemoteListing, RemoteSegment, TopicPartition, TransactionState
from replica_audit.progress import Progress
from replica_audit.protocol.high_watermark_rule import rule_of
from replica_audit.results import Results, by_place, place_of
from replica_audit.runner import audit_stage
from replica_audit.runner.audit_stage import AuditAnswers
from replica_audit.runner.executor import Executor, map_each
from replica_audit.runner.observation_files import LOG_EVENTS, PROGRESS, TIMELINE_TABLE, write_timeline
from replica_audit.runner.partition_tasks import Outlet, PartitionTask
from replica_audit.schema import AttemptRow, MetadataLogRow, QuarantineRow, ReportRows, VoterCopy
from replica_audit.snapshot.consumer_offsets import GROUP_OFFSETS
from replica_audit.snapshot.internal_topics import Each
from replica_audit.snapshot.observed import observed_offsets
from replica_audit.snapshot.record_reader import RecordReader
from replica_audit.snapshot.remote_log_metadata import RemoteLogs, read_remote_logs
from replica_audit.snapshot.remote_store import open_remote_store, read_listings
from replica_audit.snapshot.share_state import SHARE_OFFSETS, name_topics
from replica_audit.snapshot.storage import Snapshot
from replica_audit.snapshot.transaction_log import read_latest_states
from replica_audit.text import now
from replica_audit.warehouse.answer_tables import (
    REPORTED_TABLES,
    assemble_results,
    capture_times,
    snapshot_row,
    timeline_answers,
    told_results,
    with_snapshot_rows,
)
from replica_audit.warehouse.attempts import (
    Attempt,
    check_committed,
    check_large,
    ids_of,
    latest_attempt,
    own_rows,
    record_attempt,
)
from replica_audit.warehouse.delta_tables import Warehouse
from replica_audit.warehouse.ingested_rows import (
    SEGMENTS,
    EvidenceRows,
    IndexedPartition,
    StoredPartition,
    read_summary,
    unplaced_rows,
)
from replica_audit.warehouse.past_audits import CommittedRows, VerifiedRows, VerifiedSegment, past_losses
from replica_audit.warehouse.table_files import check_batch_files, read_batches

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from replica_audit.auditing.leadership.timeline_deviations import TimelineSummary
    from replica_audit.auditing.opened_snapshot import Examined
    from replica_audit.auditing.replicas.replica_facts import CopyKey
    from replica_audit.bronze_tables import PlacedSegment
    from replica_audit.model import SegmentSummary

#: Most report rows of a partition besides those for differences.
_ROWS_OF_PARTITION = 100


def audit(
    executor: Executor,
    warehouse: Warehouse,
    snapshot_id: str | None,
    settings: Settings,
    progress: Progress,
    snapshot_uri: str | None = None,
) -> Results:
    """Audit an ingested snapshot (by default the latest), write its tables and return its results.

    The records of batches that differ are read from the snapshot at `snapshot_uri`, else from where it was ingested. Raises
    UsageError if the cluster has no finished audit `settings.since`.
    """
    started = now()
    ingested = latest_attempt(warehouse, "ingest", **({"snapshot_id": snapshot_id} if snapshot_id else {}))
    snapshot = snapshot_row(warehouse, ingested)
    assert snapshot is not None, "its attempt has finished"
    options = _options(snapshot, ingested.cluster_id, settings)
    location = snapshot.location if snapshot_uri is None else Snapshot.open(snapshot_uri).location
    audit_id = uuid.uuid4().hex
    since = VerifiedRows.of(warehouse, settings.since, ingested.cluster_id) if settings.since else None
    warehouse.describe_commits(stage="audit", snapshot_id=ingested.snapshot_id, audit_id=audit_id)
    source = IngestedSource(warehouse, ingested, snapshot, options, location, audit_id, since)
    attempt = Attempt(
        started=started,
        cluster_id=ingested.cluster_id,
        snapshot_id=ingested.snapshot_id,
        audit_id=audit_id,
        ingest_id=ingested.ingest_id,
        options=json.dumps(options_row(options, settings)),
    )
    sink = InTables(warehouse, attempt, snapshot, settings.driver_rows, executor)
    return audit_stage.audit(executor, source, sink, progress)


@dataclass(frozen=True, slots=True)
class TableReader:
    """Reads partitions from a warehouse, in tasks (`runner.partition_tasks.PartitionReader`)."""

    options: AuditOptions
    location: str
    """Location of the snapshot."""
    batches: str
    """Directory of the table `batches`."""
    evidence: EvidenceRows
    since: VerifiedRows | None
    """Rows that an earlier audit has verified."""
    committed: CommittedRows = CommittedRows()
    """Rows that the latest audits proved committed."""
    _stored: Mapping[TopicPartition, StoredPartition] = field(default_factory=dict)
    """The partitions of one task."""
    _verified: Mapping[TopicPartition, Sequence[VerifiedSegment]] = field(default_factory=dict)
    _committed: Mapping[TopicPartition, tuple[CommittedLog, ...]] = field(default_factory=dict)

    def opened(self, tasks: Sequence[PartitionTask]) -> TableReader:
        places = [task.partition for task in tasks]
        files = {path for task in tasks for path in task.segment_files}
        verified = {} if self.since is None else self.since.read(places)
        committed = self.committed.read(places)
        return replace(self, _stored=self.evidence.read(places, files), _verified=verified, _committed=committed)

    def examine(self, task: PartitionTask) -> Examined:
        from replica_audit.auditing.bronze_rows import directories_of_rows
        from replica_audit.auditing.compare.wanted_chunks import verified_copies
        from replica_audit.auditing.opened_snapshot import Examined, plan_of

        own = self._of(task.partition)
        directories, orphans = directories_of_rows(own.replica_dirs, own.leader_epochs, own.offset_checkpoints)
        summaries: dict[CopyKey, list[SegmentSummary]] = defaultdict(list)
        for one in own.segments:
            summaries[one.broker_id, one.log_dir].append(self._summary(one))
        verified = verified_copies(
            ((one.broker_id, one.log_dir), one.common_prefix_end, self._summary(one))
            for one in self._verified.get(task.partition, ())
        )
        losses = replace(task.side.losses, committed=self._committed.get(task.partition, ()))
        side = task.side._replace(verified=verified, losses=losses)
        states = own.partition_states
        return Examined(plan_of(task.partition, directories, summaries, orphans, states, side, self.options))

    def read_batches(self, examined: Examined) -> dict[CopyKey, NDArray[np.void]]:
        needed = examined.plan.batches
        segments = self._of(examined.plan.evidence.topic_partition).segments
        return read_batches(self.batches, segments, needed) if needed else {}

    def _of(self, partition: TopicPartition) -> StoredPartition:
        return self._stored.get(partition, StoredPartition())

    def _summary(self, one: PlacedSegment | VerifiedSegment) -> SegmentSummary:
        return read_summary(self.evidence.files[SEGMENTS].directory, one.summary_file, one.summary_row)

    def read_records(self) -> RecordReader:
        return RecordReader(self.location)

    def rows_read(self, examined: Examined, rows: ReportRows) -> ReportRows:
        """`rows` unchanged: the tables have the others since the ingest."""
        return rows


class IngestedSource:
    """The partitions of an ingested snapshot (`runner.audit_stage.Source`)."""

    def __init__(
        self,
        warehouse: Warehouse,
        ingested: AttemptRow,
        snapshot: SnapshotRow,
        options: AuditOptions,
        location: str,
        audit_id: str,
        since: VerifiedRows | None,
    ) -> None:
        """`ingested` is a finished attempt, `snapshot` its row of `snapshots`; the timeline is written under `audit_id`."""
        self._warehouse, self._ingested, self._audit_id = warehouse, ingested, audit_id
        self._log_dirs: Collection[str] = ()
        self._topics: Mapping[str, str] = {}
        self._unread_in_store: list[QuarantineRow] = []
        self.reader = TableReader(
            options,
            location,
            warehouse.directory("batches"),
            EvidenceRows.of(warehouse, own_rows(ingested)),
            since,
        )
        self.cluster_id: str | None = ingested.cluster_id
        self.voters: Iterable[VoterCopy] = snapshot.voters
        self.metadata_logs: Iterable[MetadataLogRow] = snapshot.metadata_logs
        self._remote_logs = snapshot.remote_logs

    def unplaced(self) -> list[QuarantineRow]:
        return [*unplaced_rows(self._warehouse, own_rows(self._ingested)), *self._unread_in_store]

    def tasks(self, executor: Executor) -> list[PartitionTask]:
        """All partitions, with the rows of this attempt. Raises EngineError if the rows that the ingest committed are not those
        in the tables."""
        warehouse, attempt = self._warehouse, own_rows(self._ingested)
        ids = {**attempt, "cluster_id": self.cluster_id, "audit_id": self._audit_id}
        del ids["ingest_id"]
        rule = rule_of(self.reader.options.kafka_version)
        timelines = write_timeline(executor, warehouse, attempt, ids, rule)
        index = self.reader.evidence.index()
        check_committed(warehouse, self._ingested, index.counts)
        check_large(warehouse, self._ingested, ("batches", PROGRESS, LOG_EVENTS), self._ingested.snapshot_id)
        check_batch_files(self.reader.batches, index.batch_files)
        self._log_dirs, self._topics = index.log_dirs, index.topics
        known = {one.place: one for one in index.partitions}
        known.update((place, IndexedPartition(place)) for place in timelines.keys() - known.keys())
        self.reader = replace(self.reader, committed=CommittedRows.of(warehouse, self.cluster_id, known))
        said, nothing = self._said(executor, known.keys(), timelines), SideEvidence()
        return [
            PartitionTask(place, one.batch_count, said.get(place, nothing), one.segment_files)
            for place, one in sorted(known.items())
        ]

    def _said(
        self, executor: Executor, known: Collection[TopicPartition], timelines: Mapping[TopicPartition, TimelineSummary]
    ) -> dict[TopicPartition, SideEvidence]:
        """Side evidence of partitions that is in none of their tables; partitions named nowhere else are not added."""
        warehouse = self._warehouse
        events: dict[TopicPartition, list[BrokerLogEvent]] = defaultdict(list)
        for one in warehouse.read(LOG_EVENTS, BrokerLogEvent, **own_rows(self._ingested)):
            isr = None if one.isr is None else tuple(one.isr)
            events[place_of(one)].append(one._replace(isr=isr))
        offsets: list[GroupOffset] = []
        logs = RemoteLogs([], None)
        if (snapshot := self._snapshot()) is not None:
            # Unreadable parts are in quarantine since the ingest.
            each: Each = partial(map_each, executor)
            committed, _ = GROUP_OFFSETS.read_all(snapshot, self._log_dirs, each)
            shared, _ = SHARE_OFFSETS.read_all(snapshot, self._log_dirs, each)
            offsets = [*committed, *name_topics(shared, self._topics), *observed_offsets(snapshot.read_bytes)]
            logs, _ = read_remote_logs(snapshot, self._log_dirs, self._remote_logs, each)
        groups, remote = by_place(offsets), by_place(logs.segments)
        stored = self._stored(known, remote)
        losses = past_losses(warehouse, self.cluster_id, known)
        places: Iterable[TopicPartition] = known
        if not logs.log_dirs:
            places = {*events, *groups, *remote, *stored, *timelines, *losses} & set(known)
        return {
            place: SideEvidence(
                tuple(events.get(place, ())),
                tuple(groups.get(place, ())),
                tuple(remote.get(place, ())),
                logs.log_dirs,
                stored.get(place),
                timeline=timelines.get(place),
                losses=losses.get(place, EarlierLosses()),
            )
            for place in places
        }

    def _stored(
        self, known: Collection[TopicPartition], remote: Mapping[TopicPartition, Sequence[RemoteSegment]]
    ) -> dict[TopicPartition, RemoteListing]:
        """The remote store's contents for each partition; empty without a store or a listing of it."""
        store = None
        if uri := self.reader.options.remote:
            store = open_remote_store(uri)
            # Tasks run elsewhere, where a relative path would name another directory.
            self.reader = replace(self.reader, options=self.reader.options._replace(remote=store.location))
        elif snapshot := self._snapshot():
            # Unreadable parts of a listing are in quarantine since the ingest.
            store, _ = read_listings(snapshot)
        found: dict[TopicPartition, RemoteListing] = {}
        if store is not None:
            for place in known:
                found[place], unread = store.read(*place, remote.get(place, ()))
                self._unread_in_store += unread
        return found

    def read_transactions(
        self, producers: Collection[int], each: Each
    ) -> tuple[dict[int, TransactionState], list[QuarantineRow]]:
        """States as in `Source`; a segment that cannot be read is in quarantine since the scan."""
        snapshot = self._snapshot() if producers else None
        if snapshot is None:
            return {}, []
        return read_latest_states(snapshot, self._log_dirs, producers, each)[0], []

    def _snapshot(self) -> Snapshot | None:
        """The snapshot; None if it is gone, which reading records to compare reports."""
        try:
            return Snapshot.open(self.reader.location)
        except OSError:
            return None


class InTables:
    """Answers in the report tables, which count once the audit's `finished` row is there (`runner.audit_stage.Sink`)."""

    def __init__(
        self, warehouse: Warehouse, attempt: Attempt, snapshot: SnapshotRow, driver_rows: int, executor: Executor
    ) -> None:
        """`snapshot` is the row of `snapshots`; `executor` reads the results."""
        self._warehouse = warehouse
        self._attempt = attempt
        self._snapshot = snapshot
        self._driver_rows = driver_rows
        self._executor = executor
        self._ids = ids_of(attempt)
        self._finished: AttemptRow | None = None

    def outlet(self, tasks: Sequence[PartitionTask]) -> Outlet:
        """Tables if there may be many rows, since each partition has some, and each batch may differ; else the driver."""
        batches = sum(task.batches for task in tasks)
        many = batches + _ROWS_OF_PARTITION * len(tasks) > self._driver_rows
        directories = {table: self._warehouse.directory(table) for table in REPORTED_TABLES} if many else {}
        return Outlet(directories, self._ids)

    def keep(self, answers: AuditAnswers) -> None:
        warehouse, audit_id = self._warehouse, self._ids["audit_id"]
        counts = {TIMELINE_TABLE: warehouse.count_rows(TIMELINE_TABLE, audit_id)}
        for table in REPORTED_TABLES:
            warehouse.append(table, answers.rows.table(table), self._ids, answers.files[table])
            counts[table] = answers.count(table)
        self._finished = record_attempt(
            warehouse, "audit", "finished", tables=REPORTED_TABLES, row_counts=counts, **self._attempt
        )

    def fail(self) -> None:
        record_attempt(self._warehouse, "audit", "failed", **self._attempt)

    def results(self, answers: AuditAnswers) -> Results:
        warehouse, finished = self._warehouse, self._finished
        assert finished is not None, "results are of answers that were kept"
        if any(answers.files.values()):
            return told_results(warehouse, finished, self._snapshot, self._executor)
        rows = with_snapshot_rows(answers.rows, warehouse, finished)
        return assemble_results(finished, rows, self._snapshot, timeline_answers(warehouse, finished))


def _options(snapshot: SnapshotRow, cluster_id: str | None, settings: Settings) -> AuditOptions:
    manifest = json.loads(snapshot.manifest or "{}")
    return resolve_options(
        settings,
        manifest.get("kafka_version"),
        manifest.get("quiesced"),
        cluster_id,
        capture_times(snapshot),
        snapshot.brokers or (),
        snapshot.inventory,
    )
