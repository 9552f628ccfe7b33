"""What a task does with a partition: the functions of `auditing`, with what they ask for.

A task asks the summaries what has to be looked at, reads the batches of just these chunks out of the table's files, and
reads from the segments the records of the few batches that differ though their offsets agree, or that belong to
compacted replicas.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from replica_audit.auditing.evidence import AuditOptions
from replica_audit.model import Place, TopicPartition, TransactionState
from replica_audit.warehouse.table_layout import DataFile

if TYPE_CHECKING:
    from replica_audit.auditing.comparison_plan import ComparisonPlan

#: A partition and its evidence: rows by table, as `partition_evidence` takes them, without summaries (`read_summaries`).
Group = tuple[Place, dict[str, list[dict]]]
Rows = dict[str, list[dict]]


@dataclass(frozen=True, slots=True)
class PartitionWork:
    """What every task needs besides its partitions."""

    options: AuditOptions
    location: str
    """Of the snapshot."""
    directory: str
    """Of the table `batches`."""
    segments_directory: str
    """Of the table `segments`, whose summaries a task reads."""
    driver_rows: int
    """So many report rows go to the driver; of more, tasks write the tables' files."""
    report_directories: Mapping[str, str] = field(default_factory=dict)
    """Of the report tables; none where there cannot be so many rows."""
    ids: Mapping[str, str | None] = field(default_factory=dict)
    """Of every report row."""
    transactions: Mapping[int, TransactionState] | None = None
    """The coordinator's states; None before they were read."""


@dataclass(frozen=True, slots=True)
class PartitionAnswer:
    """What a task has of one partition: rows by report table, or what they wait for."""

    rows: Rows = field(default_factory=dict)
    producers: frozenset[int] = frozenset()
    """Of transactions that have no end in the partition."""
    files: Mapping[str, DataFile] = field(default_factory=dict)
    """With rows of this and other partitions, by table."""


def audit_group(group: Group, work: PartitionWork) -> PartitionAnswer:
    """Audit one partition, or say what it waits for. One that raises is CAP-NOT-AUDITED, and all others are
    answered."""
    from replica_audit.auditing.answer_rows import failure_rows
    from replica_audit.auditing.conclude import conclude
    from replica_audit.elect.election_rows import decided_rows
    from replica_audit.snapshot.record_reader import RecordReader
    from replica_audit.warehouse.batch_files import read_batches

    place, rows = group
    try:
        plan = _plan(group, work)
        if work.transactions is None and plan.producers:
            return PartitionAnswer(producers=plan.producers)
        needed = plan.batches
        batches = read_batches(work.directory, rows.get("segments", ()), needed) if needed else {}
        audit = conclude(plan, batches, RecordReader(work.location), work.transactions or {})
        return PartitionAnswer(decided_rows(audit, batches))
    except Exception as error:
        return PartitionAnswer(failure_rows(TopicPartition(*place), error, work.options.cluster_id))


def _plan(group: Group, work: PartitionWork) -> ComparisonPlan:
    from replica_audit.auditing.comparison_plan import plan_audit
    from replica_audit.auditing.evidence import VERIFIED, partition_evidence
    from replica_audit.warehouse.segment_index import TABLE as SEGMENTS
    from replica_audit.warehouse.segment_index import read_summaries

    place, rows = group
    read = {name: list(read_summaries(work.segments_directory, rows.get(name, ()))) for name in (SEGMENTS, VERIFIED)}
    return plan_audit(partition_evidence(TopicPartition(*place), {**rows, **read}, work.options))
