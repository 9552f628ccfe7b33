"""A snapshot read once for all its partitions: bronze rows by partition, broker logs, observations, leadership."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from replica_audit.auditing.bronze_rows import bronze_rows, damage_rows, segment_row
from replica_audit.auditing.comparison_plan import ComparisonPlan, plan_audit
from replica_audit.auditing.evidence import (
    EVIDENCE_TABLES,
    GROUPS,
    LOG_EVENTS,
    REMOTE,
    TIMELINE,
    AuditOptions,
    partition_evidence,
)
from replica_audit.auditing.leadership.broker_log_evidence import event_row
from replica_audit.auditing.leadership.timeline_deviations import assigned_replicas, summary_row, timeline_of
from replica_audit.auditing.replicas.replica_facts import CopyKey
from replica_audit.errors import FormatError
from replica_audit.model import Damage, Place, TopicPartition, TransactionState
from replica_audit.protocol.high_watermark import rule_of
from replica_audit.schema import QuarantineRow
from replica_audit.segments.digests import rows_of_chunks
from replica_audit.snapshot.broker_logs import read_broker_log
from replica_audit.snapshot.consumer_offsets import GROUP_OFFSETS
from replica_audit.snapshot.internal_topics import Each, InternalTopic
from replica_audit.snapshot.inventory import Inventory
from replica_audit.snapshot.log_dir_names import parse_directory_name
from replica_audit.snapshot.remote_log_metadata import REMOTE_SEGMENTS
from replica_audit.snapshot.segment_file import SegmentFile
from replica_audit.snapshot.segment_sources import open_source, summarise_source
from replica_audit.snapshot.storage import Snapshot
from replica_audit.snapshot.transaction_log import read_latest_states

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Examined:
    """A partition whose segments were scanned: its rows, and the data that its audit asks for."""

    rows: dict[str, list[Row]]
    """Rows of the bronze tables; `quarantine` has those of this partition's files."""
    timeline: list[Row]
    plan: ComparisonPlan
    files: tuple[SegmentFile, ...]


@dataclass(slots=True)
class OpenedSnapshot:
    """A snapshot with everything that was read beforehand. `examine` scans the segments of any one partition."""

    snapshot: Snapshot
    inventory: Inventory
    options: AuditOptions
    unplaced: list[Row]
    """Quarantine rows that belong to no partition."""
    _rows: dict[TopicPartition, dict[str, list[Row]]]
    _files: dict[TopicPartition, list[SegmentFile]]
    _events: dict[TopicPartition, list[Row]]
    _observed: dict[TopicPartition, pa.Table] = field(default_factory=dict)
    _groups: dict[TopicPartition, list[Row]] = field(default_factory=dict)
    _remote: dict[TopicPartition, list[Row]] = field(default_factory=dict)

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
        placed: dict[Place, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
        unplaced: list[Row] = []
        for table, of_table in bronze_rows(inventory).items():
            for row in of_table:
                if row["topic"] is None:
                    unplaced.append(row)
                else:
                    placed[row["topic"], row["partition"]][table].append(row)
        rows = {TopicPartition(*place): of_place for place, of_place in placed.items()}
        files: dict[TopicPartition, list[SegmentFile]] = defaultdict(list)
        for file in inventory.all_segments:
            files[TopicPartition(file.topic, file.partition)].append(file)
        observed = _read_observations(snapshot, inventory, topics, unplaced)
        # Partitions that are in quarantine only cannot be judged; and logs of years name partitions that are long gone.
        known = {place for place, of_one in rows.items() if set(of_one) & set(EVIDENCE_TABLES)} | set(observed)
        if only is not None:
            known &= {only}
            log_dirs = [log_dir.path for log_dir in inventory.log_dirs]
            unplaced = [row for row in unplaced if _may_bear_on(row, only, log_dirs)]
        events = _read_broker_logs(snapshot, inventory, known, unplaced)
        groups = _read_internal(snapshot, inventory, GROUP_OFFSETS, known, unplaced)
        remote = _read_internal(snapshot, inventory, REMOTE_SEGMENTS, known, unplaced)
        kept = {place: rows.get(place) or defaultdict(list) for place in sorted(known)}
        return cls(snapshot, inventory, options, unplaced, kept, files, events, observed, groups, remote)

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """Partitions of which more is known than quarantine rows, sorted."""
        return tuple(self._rows)

    def files(self, partition: TopicPartition) -> tuple[SegmentFile, ...]:
        """Segments of all replicas of a partition."""
        return tuple(self._files.get(partition, ()))

    def count_copies(self, partition: TopicPartition) -> int:
        """Number of copies, those put aside too."""
        return len(self._rows[partition]["replica_dirs"])

    def is_led(self, partition: TopicPartition) -> bool:
        """True if any source says who leads a partition or has replicas of it."""
        return bool(self._rows.get(partition, {}).get("partition_states"))

    def examine(self, partition: TopicPartition) -> Examined:
        """Scan the segments of one of `partitions`; what cannot be read is in its quarantine."""
        place = {"topic": partition.topic, "partition": partition.partition}
        rows = {table: list(self._rows[partition][table]) for table in (*EVIDENCE_TABLES, "quarantine")}
        observed = self._observed.get(partition)
        seen = [] if observed is None else observed.to_pylist()
        assigned = assigned_replicas(rows["partition_states"], rows["replica_dirs"])
        rule = rule_of(self.options.kafka_version)
        timeline, course = timeline_of(partition.topic, partition.partition, seen, rule, assigned)
        files = self.files(partition)
        for file in files:
            names = {**place, "broker_id": file.broker_id, "log_dir": file.log_dir}
            try:
                summary = summarise_source(self.snapshot, file)
            except (OSError, FormatError) as error:
                rows["quarantine"].append(unreadable_row(names, file, error))
                continue
            rows["segments"].append(segment_row(names, summary))
            rows["quarantine"].extend(damage_rows(names, summary))
        facts = {table: rows[table] for table in EVIDENCE_TABLES}
        facts[LOG_EVENTS] = self._events.get(partition, [])
        facts[GROUPS] = self._groups.get(partition, [])
        facts[REMOTE] = self._remote.get(partition, [])
        facts[TIMELINE] = [summary_row(course)] if course is not None else []
        evidence = partition_evidence(partition, facts, self.options)
        return Examined(rows, timeline, plan_audit(evidence), files)

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
        for _, summaries in (*evidence.replicas, *evidence.put_aside):
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
    ) -> tuple[dict[int, TransactionState], list[Row]]:
        """The coordinator's latest states of `producers`, and what of its log could not be read; for none nothing is read."""
        log_dirs = [one.path for one in self.inventory.log_dirs if one.kind == "broker"]
        states, unread = read_latest_states(self.snapshot, log_dirs, producers, each)
        return states, [row._asdict() for row in unread]


def unreadable_row(names: Mapping[str, Any], file: SegmentFile, error: Exception) -> Row:
    """The quarantine row of a segment that could not be read; the audit of the others goes on."""
    return {
        "broker_id": names["broker_id"],
        "topic": names["topic"],
        "partition": names["partition"],
        "path": file.path,
        "position": getattr(error, "position", None),
        "length": file.size_bytes,
        "code": "CAP-UNREADABLE",
        "reason": f"the segment could not be read: {error}",
    }


def _read_broker_logs(
    snapshot: Snapshot, inventory: Inventory, known: Collection[TopicPartition], quarantine: list[Row]
) -> dict[TopicPartition, list[Row]]:
    """Lines of brokers' own logs on `known` partitions; unreadable logs are added to `quarantine`."""
    events: dict[TopicPartition, list[Row]] = defaultdict(list)
    for file in inventory.broker_logs:
        for item in read_broker_log(snapshot, file.path, file.broker_id):
            if isinstance(item, QuarantineRow):
                quarantine.append(item._asdict())
            elif (place := TopicPartition(item.topic, item.partition)) in known:
                events[place].append(event_row(item))
    return events


def _read_internal(
    snapshot: Snapshot,
    inventory: Inventory,
    topic: InternalTopic,
    known: Collection[TopicPartition],
    quarantine: list[Row],
) -> dict[TopicPartition, list[Row]]:
    """Rows from the logs of one of Kafka's own topics on `known` partitions; what cannot be read is added to `quarantine`."""
    found = defaultdict(list)
    said, unread = topic.read_all(snapshot, [one.path for one in inventory.log_dirs if one.kind == "broker"])
    quarantine += (row._asdict() for row in unread)
    for row in map(asdict, said):
        if (place := TopicPartition(row["topic"], row["partition"])) in known:
            found[place].append(row)
    return found


def _read_observations(
    snapshot: Snapshot, inventory: Inventory, topics: tuple[str, ...], quarantine: list[Row]
) -> dict[TopicPartition, pa.Table]:
    """The rows of `replica_progress` by partition; what could not be used is added to `quarantine`."""
    if not inventory.progress_files:
        return {}
    # Here, since pyarrow takes longer to load than a small snapshot takes to audit, and few have observations.
    import pyarrow as pa

    from replica_audit.snapshot.replica_progress import plan_progress, read_progress

    tables: list[pa.Table] = []
    for part in plan_progress(snapshot, inventory.progress_files):
        if isinstance(part, QuarantineRow):
            quarantine.append(part._asdict())
            continue
        for item in read_progress(snapshot, part, topics):
            if isinstance(item, QuarantineRow):
                quarantine.append(item._asdict())
            else:
                tables.append(item)
    return dict(rows_by_partition(pa.concat_tables(tables))) if tables else {}


def rows_by_partition(rows: pa.Table) -> Iterable[tuple[TopicPartition, pa.Table]]:
    """Rows with the columns topic and partition, partition after partition."""
    rows = rows.sort_by([("topic", "ascending"), ("partition", "ascending")]).combine_chunks()
    counted = rows.group_by(["topic", "partition"], use_threads=False).aggregate([([], "count_all")])
    start = 0
    for group in counted.sort_by([("topic", "ascending"), ("partition", "ascending")]).to_pylist():
        yield TopicPartition(group["topic"], group["partition"]), rows.slice(start, group["count_all"])
        start += group["count_all"]


def _may_bear_on(row: Row, partition: TopicPartition, log_dirs: Iterable[str]) -> bool:
    """True if unused input may be of `partition`: not if it lies in the directory of another one."""
    for log_dir in log_dirs:
        below = f"{log_dir}/" if log_dir else ""
        if row["path"].startswith(below):
            name = parse_directory_name(row["path"][len(below) :].partition("/")[0])
            if name.kind != "metadata" and name.topic_partition not in (None, partition):
                return False
    return True
