"""A snapshot opened for an audit: shared input is read once, segments partition by partition."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from replica_audit.auditing.bronze_rows import damage_rows, unreadable_row
from replica_audit.auditing.comparison_plan import ComparisonPlan
from replica_audit.auditing.evidence import (
    AuditOptions,
    PartitionEvidence,
    SideEvidence,
    resolve_options,
)
from replica_audit.auditing.leadership.capture_times import CaptureTimes
from replica_audit.auditing.leadership.timeline_deviations import ProgressRow, assigned_replicas, timeline_of
from replica_audit.auditing.remote_reading import read_contents
from replica_audit.auditing.replicas.replica_facts import CopyKey
from replica_audit.config import Settings
from replica_audit.errors import FormatError
from replica_audit.model import (
    Damage,
    GroupOffset,
    RemoteListing,
    RemoteSegment,
    ReplicaDir,
    SegmentFile,
    SegmentSummary,
    TopicPartition,
    TransactionState,
)
from replica_audit.progress import Progress
from replica_audit.protocol.high_watermark_rule import rule_of
from replica_audit.schema import PartitionStateRow, QuarantineRow, ReportRows
from replica_audit.segments.digests import rows_of_chunks
from replica_audit.snapshot.broker_logs import BrokerLogEvent, read_broker_log
from replica_audit.snapshot.consumer_offsets import GROUP_OFFSETS
from replica_audit.snapshot.internal_topics import Each
from replica_audit.snapshot.inventory import Inventory, Manifest
from replica_audit.snapshot.leadership_rows import leadership_of_rows, state_rows
from replica_audit.snapshot.log_dir_names import kind_of_copy, parse_directory_name
from replica_audit.snapshot.opening import open_snapshot
from replica_audit.snapshot.remote_log_metadata import read_remote_logs
from replica_audit.snapshot.remote_store import StoredSegments, open_remote_store, read_listings
from replica_audit.snapshot.segment_sources import open_source, summarise_source
from replica_audit.snapshot.share_state import SHARE_OFFSETS, name_topics
from replica_audit.snapshot.storage import Snapshot
from replica_audit.snapshot.transaction_log import read_latest_states

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray


def audit_options(inventory: Inventory, settings: Settings) -> AuditOptions:
    """Resolve options from the settings, else the manifest. Raises UsageError for a malformed version."""
    manifest = inventory.manifest or Manifest(None, None, ())
    times = CaptureTimes(manifest.brokers, inventory.blank)
    return resolve_options(
        settings,
        manifest.kafka_version,
        manifest.quiesced,
        inventory.cluster_id,
        times,
        inventory.brokers,
        inventory.counts,
    )


@dataclass(frozen=True, slots=True)
class Examined:
    """A partition with its segments scanned, and the plan of its audit."""

    plan: ComparisonPlan
    rows: ReportRows = field(default_factory=ReportRows)
    """Rows produced by the scan that are not in a table already."""
    files: tuple[SegmentFile, ...] = ()


@dataclass(slots=True)
class _Placed:
    """Files and rows of one partition that were read beforehand."""

    directories: list[ReplicaDir] = field(default_factory=list)
    orphans: dict[tuple[int, str, str], int] = field(default_factory=dict)
    """Values of offset checkpoints without a directory, by (broker id, log dir, file)."""
    states: list[PartitionStateRow] = field(default_factory=list)
    files: list[SegmentFile] = field(default_factory=list)
    quarantine: list[QuarantineRow] = field(default_factory=list)
    observed: pa.Table | None = None
    """Rows of `replica_progress`."""
    events: list[BrokerLogEvent] = field(default_factory=list)
    groups: list[GroupOffset] = field(default_factory=list)
    remote: list[RemoteSegment] = field(default_factory=list)
    store: RemoteListing | None = None

    @property
    def is_evident(self) -> bool:
        """True if the partition has more than unusable input."""
        return bool(self.directories or self.orphans or self.states or self.observed is not None)


@dataclass(slots=True)
class OpenedSnapshot:
    """A snapshot with all input read beforehand; `examine` scans the segments of one partition."""

    snapshot: Snapshot
    inventory: Inventory
    options: AuditOptions
    unplaced: list[QuarantineRow]
    """Rows of no partition."""
    _remote_logs: tuple[str, ...] | None
    _placed: dict[TopicPartition, _Placed]

    @classmethod
    def open(
        cls, uri: str, settings: Settings, only: TopicPartition | None = None, progress: Progress | None = None
    ) -> OpenedSnapshot:
        """Open the snapshot at `uri` and read it as the settings say. Raises UsageError and InputError as `open_snapshot` does."""
        snapshot, inventory = open_snapshot(
            uri, settings.topics, settings.leadership, settings.leadership_source, progress=progress
        )
        return cls.read(snapshot, inventory, audit_options(inventory, settings), settings.topics, only)

    @classmethod
    def read(
        cls,
        snapshot: Snapshot,
        inventory: Inventory,
        options: AuditOptions,
        topics: tuple[str, ...],
        only: TopicPartition | None = None,
    ) -> OpenedSnapshot:
        """Read the input that covers several partitions; `only` restricts it to one partition."""
        placed, unplaced = _place(inventory)
        for place, rows in _read_observations(snapshot, inventory, topics, unplaced):
            placed[place].observed = rows
        # Partitions in quarantine only cannot be judged, and old logs name partitions that no longer exist.
        known = {place: one for place, one in sorted(placed.items()) if one.is_evident and only in (None, place)}
        if only is not None:
            log_dirs = [log_dir.path for log_dir in inventory.log_dirs]
            unplaced = [row for row in unplaced if _may_bear_on(row, only, log_dirs)]
        _read_broker_logs(snapshot, inventory, known, unplaced)
        _read_group_offsets(snapshot, inventory, known, unplaced)
        remote_logs = _read_remote_storage(snapshot, inventory, options.remote, known, unplaced)
        return cls(snapshot, inventory, options, unplaced, remote_logs, known)

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """Partitions with more than quarantine rows, sorted."""
        return tuple(self._placed)

    def files(self, partition: TopicPartition) -> tuple[SegmentFile, ...]:
        """Segment files of all replicas of a partition."""
        return tuple(self._placed[partition].files) if partition in self._placed else ()

    def count_copies(self, partition: TopicPartition) -> int:
        """Number of copies, including those put aside."""
        return len(self._placed[partition].directories)

    def is_led(self, partition: TopicPartition) -> bool:
        """True if any source names the partition's leader or replicas."""
        return partition in self._placed and bool(self._placed[partition].states)

    def examine(self, partition: TopicPartition) -> Examined:
        """Scan the segments of one of `partitions`; unreadable parts are in its quarantine."""
        known = self._placed[partition]
        assigned = assigned_replicas(known.states, known.directories)
        rule = rule_of(self.options.kafka_version)
        observed = () if known.observed is None else progress_rows(known.observed)
        timeline, course = timeline_of(partition.topic, partition.partition, observed, rule, assigned)
        quarantine = list(known.quarantine)
        summaries: dict[CopyKey, list[SegmentSummary]] = defaultdict(list)
        for file in known.files:
            try:
                summary = summarise_source(self.snapshot, file)
            except (OSError, FormatError) as error:
                quarantine.append(unreadable_row(file, error))
                continue
            summaries[file.broker_id, file.log_dir].append(summary)
            quarantine += damage_rows(file, summary)
        side = SideEvidence(
            tuple(known.events),
            tuple(known.groups),
            tuple(known.remote),
            self._remote_logs,
            known.store,
            timeline=course,
        )
        plan = plan_of(partition, known.directories, summaries, known.orphans, known.states, side, self.options)
        rows = ReportRows(
            quarantine=[row.as_input() for row in quarantine],
            partition_states=known.states,
            high_watermark_timeline=timeline,
        )
        return Examined(plan, rows, tuple(known.files))

    def read_batches(self, examined: Examined) -> dict[CopyKey, NDArray[np.void]]:
        """Read the batches of the chunks that a partition's audit needs by scanning their files again."""
        return self.read_chunks(examined, examined.plan.batches)

    def read_chunks(
        self, examined: Examined, wanted: Mapping[CopyKey, Collection[int]]
    ) -> dict[CopyKey, NDArray[np.void]]:
        """Batches of the `wanted` chunks, by copy."""
        found: dict[CopyKey, list[NDArray[np.void]]] = {}
        held: dict[str, set[int]] = defaultdict(set)
        evidence = examined.plan.evidence
        for _, summaries in evidence.copies:
            for summary in summaries:
                held[summary.path].update(chunk.chunk for chunk in summary.chunks)
        for file in examined.files:
            chunks = wanted.get((file.broker_id, file.log_dir))
            if not chunks or held[file.path].isdisjoint(chunks):
                continue
            with open_source(self.snapshot, file) as source:
                for item in source.items:
                    if not isinstance(item, Damage) and len(item):
                        found.setdefault((file.broker_id, file.log_dir), []).append(rows_of_chunks(item, chunks))
        return {key: np.concatenate(parts) for key, parts in found.items()}

    def read_transactions(
        self, producers: Collection[int], each: Each = map
    ) -> tuple[dict[int, TransactionState], list[QuarantineRow]]:
        """Read the coordinator's latest states of `producers` (nothing for none), and quarantine rows for unreadable parts of its log."""
        return read_latest_states(self.snapshot, _broker_log_dirs(self.inventory), producers, each)


def plan_of(
    partition: TopicPartition,
    directories: Iterable[ReplicaDir],
    summaries: Mapping[CopyKey, Sequence[SegmentSummary]],
    orphans: Mapping[tuple[int, str, str], int],
    states: Iterable[PartitionStateRow],
    side: SideEvidence,
    options: AuditOptions,
) -> ComparisonPlan:
    """Plan of one partition's audit from its input; if the options say so, segments in the remote store are read now.

    `summaries` are those of the segments in each of `directories`.
    """
    if options.verify_remote and options.remote is not None:
        contents = read_contents(options.remote, side.store, side.remote_segments, summaries)
        side = side._replace(contents=contents)
    served: list[tuple[ReplicaDir, tuple[SegmentSummary, ...]]] = []
    put_aside: list[tuple[ReplicaDir, tuple[SegmentSummary, ...]]] = []
    for one in directories:
        copy = one, tuple(summaries.get((one.broker_id, one.log_dir), ()))
        if kind_of_copy(one.path, one.log_dir) == "current":
            served.append(copy)
        else:
            put_aside.append(copy)
    leadership = leadership_of_rows(states)
    return ComparisonPlan(
        PartitionEvidence(partition, tuple(served), leadership, options, side, orphans, tuple(put_aside))
    )


def _place(inventory: Inventory) -> tuple[dict[TopicPartition, _Placed], list[QuarantineRow]]:
    """Files and rows of an inventory by partition, and quarantine rows of no partition."""
    placed: dict[TopicPartition, _Placed] = defaultdict(_Placed)
    unplaced: list[QuarantineRow] = []
    for directory in inventory.copies:
        placed[directory.topic_partition].directories.append(directory)
    for orphan in inventory.orphan_checkpoints:
        key = (orphan.broker_id, orphan.log_dir, orphan.file)
        placed[TopicPartition(orphan.topic, orphan.partition)].orphans[key] = orphan.value
    for leadership in inventory.leaderships:
        placed[TopicPartition(leadership.topic, leadership.partition)].states += state_rows(leadership)
    for refused in inventory.quarantine:
        if refused.topic is None or refused.partition is None:
            unplaced.append(refused)
        else:
            placed[TopicPartition(refused.topic, refused.partition)].quarantine.append(refused)
    for file in inventory.all_segments:
        placed[TopicPartition(file.topic, file.partition)].files.append(file)
    return placed, unplaced


def _read_broker_logs(
    snapshot: Snapshot,
    inventory: Inventory,
    known: Mapping[TopicPartition, _Placed],
    quarantine: list[QuarantineRow],
) -> None:
    """Read lines of broker logs on `known` partitions; unreadable logs are added to `quarantine`."""
    for file in inventory.broker_logs:
        for item in read_broker_log(snapshot, file.path, file.broker_id):
            if isinstance(item, QuarantineRow):
                quarantine.append(item)
            elif (place := TopicPartition(item.topic, item.partition)) in known:
                known[place].events.append(item)


def _read_group_offsets(
    snapshot: Snapshot,
    inventory: Inventory,
    known: Mapping[TopicPartition, _Placed],
    quarantine: list[QuarantineRow],
) -> None:
    """Read offsets of consumer groups and share groups in `known` partitions; unreadable input is added to `quarantine`."""
    log_dirs = _broker_log_dirs(inventory)
    groups, unread = GROUP_OFFSETS.read_all(snapshot, log_dirs)
    shared, unread_shares = SHARE_OFFSETS.read_all(snapshot, log_dirs)
    quarantine += [*unread, *unread_shares]
    topics_of = {one.topic_id: one.topic for one in inventory.copies if one.topic_id is not None}
    observed = () if inventory.observation is None else inventory.observation.committed_offsets()
    for one in (*groups, *name_topics(shared, topics_of), *observed):
        if (place := TopicPartition(one.topic, one.partition)) in known:
            known[place].groups.append(one)


def _read_remote_storage(
    snapshot: Snapshot,
    inventory: Inventory,
    remote: str | None,
    known: Mapping[TopicPartition, _Placed],
    quarantine: list[QuarantineRow],
) -> tuple[str, ...] | None:
    """Read the segments of `known` partitions in remote storage, by __remote_log_metadata and in the store `remote`; unreadable
    input is added to `quarantine`. Returns the log dirs with __remote_log_metadata (`RemoteLogs.log_dirs`)."""
    remote_logs, unread = read_remote_logs(snapshot, _broker_log_dirs(inventory), inventory.remote_logs)
    quarantine += unread
    for segment in remote_logs.segments:
        if (place := TopicPartition(segment.topic, segment.partition)) in known:
            known[place].remote.append(segment)
    store, unread = read_listings(snapshot) if remote is None else (open_remote_store(remote), [])
    quarantine += unread
    if store is not None:
        for place, placed in known.items():
            placed.store, unread = store.read(place.topic, place.partition, placed.remote)
            quarantine += unread
        if store.location is not None:
            snapshot.remote_store = StoredSegments(Snapshot.open(store.location))
    return remote_logs.log_dirs


def _broker_log_dirs(inventory: Inventory) -> list[str]:
    return [one.path for one in inventory.log_dirs if one.kind == "broker"]


def _read_observations(
    snapshot: Snapshot, inventory: Inventory, topics: tuple[str, ...], quarantine: list[QuarantineRow]
) -> Iterable[tuple[TopicPartition, pa.Table]]:
    """Read the rows of `replica_progress` by partition; unusable input is added to `quarantine`."""
    if not inventory.progress_files:
        return ()
    # Imported here because loading pyarrow takes longer than auditing a small snapshot, and few have observations.
    import pyarrow as pa

    from replica_audit.snapshot.replica_progress import plan_progress, read_progress

    tables: list[pa.Table] = []
    for part in plan_progress(snapshot, inventory.progress_files):
        if isinstance(part, QuarantineRow):
            quarantine.append(part)
            continue
        for item in read_progress(snapshot, part, topics):
            if isinstance(item, QuarantineRow):
                quarantine.append(item)
            else:
                tables.append(item)
    return rows_by_partition(pa.concat_tables(tables)) if tables else ()


def progress_rows(rows: pa.Table) -> Iterator[ProgressRow]:
    """Convert rows of `replica_progress` to objects."""
    from replica_audit.arrow_rows import arrow_to_rows

    return arrow_to_rows(rows, ProgressRow)


def rows_by_partition(rows: pa.Table) -> Iterable[tuple[TopicPartition, pa.Table]]:
    """Group rows with the columns topic and partition by partition."""
    from replica_audit.arrow_rows import arrow_to_numbers, joined

    # Grouping a table would import pandas.
    rows = rows.sort_by([("topic", "ascending"), ("partition", "ascending")])
    topics, numbers = joined(rows["topic"]), arrow_to_numbers(rows["partition"])
    named = arrow_to_numbers(topics.dictionary_encode().indices)
    starts = np.flatnonzero(np.diff(named, prepend=-1) | np.diff(numbers, prepend=-1)).tolist()
    for start, end in zip(starts, [*starts[1:], rows.num_rows], strict=True):
        yield TopicPartition(topics[start].as_py(), int(numbers[start])), rows.slice(start, end - start)


def _may_bear_on(row: QuarantineRow, partition: TopicPartition, log_dirs: Iterable[str]) -> bool:
    """True if unused input may belong to `partition`; False if it is in another partition's directory."""
    for log_dir in log_dirs:
        below = f"{log_dir}/" if log_dir else ""
        if row.path.startswith(below):
            name = parse_directory_name(row.path[len(below) :].partition("/")[0])
            if name.kind != "metadata" and name.topic_partition not in (None, partition):
                return False
    return True
