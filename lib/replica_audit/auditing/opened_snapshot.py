"""A snapshot read once for all its partitions: bronze rows by partition, broker logs, observations, leadership."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from replica_audit.auditing.bronze_rows import damage_rows, unreadable_row
from replica_audit.auditing.comparison_plan import ComparisonPlan, plan_audit
from replica_audit.auditing.evidence import AuditOptions, SideEvidence, partition_evidence
from replica_audit.auditing.leadership.timeline_deviations import ProgressRow, assigned_replicas, timeline_of
from replica_audit.auditing.replicas.replica_facts import CopyKey
from replica_audit.errors import FormatError
from replica_audit.model import (
    Damage,
    GroupOffset,
    RemoteSegment,
    ReplicaDir,
    SegmentFile,
    SegmentSummary,
    TopicPartition,
    TransactionState,
)
from replica_audit.protocol.high_watermark import rule_of
from replica_audit.schema import PartitionStateRow, QuarantineRow, ReportRows
from replica_audit.segments.digests import rows_of_chunks
from replica_audit.snapshot.broker_logs import BrokerLogEvent, read_broker_log
from replica_audit.snapshot.consumer_offsets import GROUP_OFFSETS
from replica_audit.snapshot.internal_topics import Each, InternalTopic
from replica_audit.snapshot.inventory import Inventory
from replica_audit.snapshot.leadership_rows import leadership_of_rows, state_rows
from replica_audit.snapshot.log_dir_names import parse_directory_name
from replica_audit.snapshot.remote_log_metadata import REMOTE_SEGMENTS
from replica_audit.snapshot.segment_sources import open_source, summarise_source
from replica_audit.snapshot.storage import Snapshot
from replica_audit.snapshot.transaction_log import read_latest_states

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

_Said = TypeVar("_Said")


@dataclass(frozen=True, slots=True)
class Examined:
    """A partition whose segments were looked at, and the data that its audit asks for."""

    plan: ComparisonPlan
    rows: ReportRows = field(default_factory=ReportRows)
    """Those that come of the reading itself, where no table has them already."""
    files: tuple[SegmentFile, ...] = ()


@dataclass(slots=True)
class _Placed:
    """Files and rows of one partition that were read beforehand."""

    directories: list[ReplicaDir] = field(default_factory=list)
    orphans: dict[tuple[int, str, str], int] = field(default_factory=dict)
    """Entries of offset checkpoints without a directory, by broker id, log dir and file."""
    states: list[PartitionStateRow] = field(default_factory=list)
    files: list[SegmentFile] = field(default_factory=list)
    quarantine: list[QuarantineRow] = field(default_factory=list)
    observed: pa.Table | None = None
    """Rows of `replica_progress`."""
    events: list[BrokerLogEvent] = field(default_factory=list)
    groups: list[GroupOffset] = field(default_factory=list)
    remote: list[RemoteSegment] = field(default_factory=list)

    @property
    def is_evident(self) -> bool:
        """True if more is known of it than input that could not be used."""
        return bool(self.directories or self.orphans or self.states or self.observed is not None)


@dataclass(slots=True)
class OpenedSnapshot:
    """A snapshot with everything that was read beforehand. `examine` scans the segments of any one partition."""

    snapshot: Snapshot
    inventory: Inventory
    options: AuditOptions
    unplaced: list[QuarantineRow]
    """Of no partition."""
    _placed: dict[TopicPartition, _Placed]

    @classmethod
    def read(
        cls,
        snapshot: Snapshot,
        inventory: Inventory,
        options: AuditOptions,
        topics: tuple[str, ...],
        only: TopicPartition | None = None,
    ) -> OpenedSnapshot:
        """Read what bears on more than one partition; `only` keeps what is said of that one."""
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
        for place, rows in _read_observations(snapshot, inventory, topics, unplaced):
            placed[place].observed = rows
        # Partitions that are in quarantine only cannot be judged; and logs of years name partitions that are long gone.
        known = {place: one for place, one in sorted(placed.items()) if one.is_evident and only in (None, place)}
        if only is not None:
            log_dirs = [log_dir.path for log_dir in inventory.log_dirs]
            unplaced = [row for row in unplaced if _may_bear_on(row, only, log_dirs)]
        _read_broker_logs(snapshot, inventory, known, unplaced)
        for one in _read_internal(snapshot, inventory, GROUP_OFFSETS, unplaced):
            if (place := TopicPartition(one.topic, one.partition)) in known:
                known[place].groups.append(one)
        for segment in _read_internal(snapshot, inventory, REMOTE_SEGMENTS, unplaced):
            if (place := TopicPartition(segment.topic, segment.partition)) in known:
                known[place].remote.append(segment)
        return cls(snapshot, inventory, options, unplaced, known)

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """Partitions of which more is known than quarantine rows, sorted."""
        return tuple(self._placed)

    def files(self, partition: TopicPartition) -> tuple[SegmentFile, ...]:
        """Segments of all replicas of a partition."""
        return tuple(self._placed[partition].files) if partition in self._placed else ()

    def count_copies(self, partition: TopicPartition) -> int:
        """Number of copies, those put aside too."""
        return len(self._placed[partition].directories)

    def is_led(self, partition: TopicPartition) -> bool:
        """True if any source says who leads a partition or has replicas of it."""
        return partition in self._placed and bool(self._placed[partition].states)

    def examine(self, partition: TopicPartition) -> Examined:
        """Scan the segments of one of `partitions`; what cannot be read is in its quarantine."""
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
        side = SideEvidence(tuple(known.events), tuple(known.groups), tuple(known.remote), course)
        leadership = leadership_of_rows(known.states)
        evidence = partition_evidence(
            partition, known.directories, summaries, known.orphans, leadership, side, self.options
        )
        rows = ReportRows(
            quarantine=[row.as_input() for row in quarantine],
            partition_states=known.states,
            high_watermark_timeline=timeline,
        )
        return Examined(plan_audit(evidence), rows, tuple(known.files))

    def read_batches(self, examined: Examined) -> dict[CopyKey, NDArray[np.void]]:
        """Batches of the chunks that the audit of a partition wants, by scanning once more the files that have some of them."""
        return self.read_chunks(examined, examined.plan.batches)

    def read_chunks(
        self, examined: Examined, wanted: Mapping[CopyKey, Collection[int]]
    ) -> dict[CopyKey, NDArray[np.void]]:
        """Batches of `wanted` chunks, by copy."""
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
        """The coordinator's latest states of `producers`, and what of its log could not be read; for none nothing is read."""
        log_dirs = [one.path for one in self.inventory.log_dirs if one.kind == "broker"]
        return read_latest_states(self.snapshot, log_dirs, producers, each)


def _read_broker_logs(
    snapshot: Snapshot,
    inventory: Inventory,
    known: Mapping[TopicPartition, _Placed],
    quarantine: list[QuarantineRow],
) -> None:
    """Lines of brokers' own logs on `known` partitions; unreadable logs are added to `quarantine`."""
    for file in inventory.broker_logs:
        for item in read_broker_log(snapshot, file.path, file.broker_id):
            if isinstance(item, QuarantineRow):
                quarantine.append(item)
            elif (place := TopicPartition(item.topic, item.partition)) in known:
                known[place].events.append(item)


def _read_internal(
    snapshot: Snapshot, inventory: Inventory, topic: InternalTopic[_Said], quarantine: list[QuarantineRow]
) -> list[_Said]:
    """Records of one of Kafka's own topics; a row is added to `quarantine` for each log that cannot be read."""
    said, unread = topic.read_all(snapshot, [one.path for one in inventory.log_dirs if one.kind == "broker"])
    quarantine += unread
    return said


def _read_observations(
    snapshot: Snapshot, inventory: Inventory, topics: tuple[str, ...], quarantine: list[QuarantineRow]
) -> Iterable[tuple[TopicPartition, pa.Table]]:
    """The rows of `replica_progress` by partition; what could not be used is added to `quarantine`."""
    if not inventory.progress_files:
        return ()
    # Here, since pyarrow takes longer to load than a small snapshot takes to audit, and few have observations.
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
    """Rows of `replica_progress` as objects."""
    from replica_audit.arrow_rows import arrow_to_rows

    return arrow_to_rows(rows, ProgressRow)


def rows_by_partition(rows: pa.Table) -> Iterable[tuple[TopicPartition, pa.Table]]:
    """Rows with the columns topic and partition, partition after partition."""
    rows = rows.sort_by([("topic", "ascending"), ("partition", "ascending")]).combine_chunks()
    counted = rows.group_by(["topic", "partition"], use_threads=False).aggregate([([], "count_all")])
    start = 0
    for group in counted.sort_by([("topic", "ascending"), ("partition", "ascending")]).to_pylist():
        yield TopicPartition(group["topic"], group["partition"]), rows.slice(start, group["count_all"])
        start += group["count_all"]


def _may_bear_on(row: QuarantineRow, partition: TopicPartition, log_dirs: Iterable[str]) -> bool:
    """True if unused input may be of `partition`: not if it lies in the directory of another one."""
    for log_dir in log_dirs:
        below = f"{log_dir}/" if log_dir else ""
        if row.path.startswith(below):
            name = parse_directory_name(row.path[len(below) :].partition("/")[0])
            if name.kind != "metadata" and name.topic_partition not in (None, partition):
                return False
    return True
