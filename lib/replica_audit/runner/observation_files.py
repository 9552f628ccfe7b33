"""Ingest of observations of a running cluster, with their timeline, and of brokers' own logs: tasks read them and write the
rows, since both may be far larger than everything else."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from replica_audit.auditing.leadership.timeline_deviations import summary_from_text
from replica_audit.model import TopicPartition
from replica_audit.protocol.high_watermark_rule import Rule
from replica_audit.row_classes import columns
from replica_audit.runner.executor import Executor, TimelineNews, deal
from replica_audit.runner.timeline_batches import AssignedReplica
from replica_audit.schema import QuarantineRow
from replica_audit.snapshot.inventory import BrokerLogFile
from replica_audit.snapshot.replica_progress import ProgressPart, plan_progress, read_progress
from replica_audit.snapshot.storage import Snapshot
from replica_audit.warehouse.delta_tables import Warehouse
from replica_audit.warehouse.table_files import GROUP_ROWS, TableFileWriter
from replica_audit.warehouse.table_layout import DataFile

if TYPE_CHECKING:
    import pyarrow as pa

    from replica_audit.auditing.leadership.timeline_deviations import TimelineSummary

_Part = TypeVar("_Part")
#: Reads the parts of a task; yields the file that was written, and quarantine rows.
_Read = Callable[[list[_Part]], Iterator[tuple[DataFile | None, list[QuarantineRow]]]]

PROGRESS, LOG_EVENTS, TIMELINE_TABLE = "replica_progress", "broker_log_events", "high_watermark_timeline"

#: Columns of the timeline that the driver receives, as `TimelineNews`.
_HEARD = ["topic", "partition", "summary"]

#: Most tasks that read files.
_GREATEST_TASKS = 1000


def scan_progress(
    executor: Executor,
    snapshot: Snapshot,
    files: tuple[tuple[str, int], ...],
    directory: str,
    constants: Mapping[str, str | None],
    topics: tuple[str, ...],
) -> tuple[list[DataFile], list[QuarantineRow]]:
    """Files of `replica_progress` below `directory`, and quarantine rows for unusable input."""
    parts = list(plan_progress(snapshot, files))
    problems = [part for part in parts if isinstance(part, QuarantineRow)]
    planned = [part for part in parts if isinstance(part, ProgressPart)]

    def read(of_task: list[ProgressPart]) -> Iterator[tuple[DataFile | None, list[QuarantineRow]]]:
        writer = TableFileWriter(directory, PROGRESS, constants)
        unused: list[QuarantineRow] = []
        for part in of_task:
            for item in read_progress(snapshot, part, topics):
                if isinstance(item, QuarantineRow):
                    unused.append(item)
                else:
                    for batch in item.to_batches(max_chunksize=GROUP_ROWS):
                        writer.add_arrow(batch)
        yield writer.close(), unused

    return _run(executor, planned, read, problems)


def scan_broker_logs(
    executor: Executor,
    snapshot: Snapshot,
    files: tuple[BrokerLogFile, ...],
    directory: str,
    constants: Mapping[str, str | None],
) -> tuple[list[DataFile], list[QuarantineRow]]:
    """Files of `broker_log_events` below `directory`, and quarantine rows for unreadable logs."""

    def read(of_task: list[BrokerLogFile]) -> Iterator[tuple[DataFile | None, list[QuarantineRow]]]:
        from replica_audit.snapshot.broker_logs import read_broker_log

        writer = TableFileWriter(directory, LOG_EVENTS, constants)
        unused: list[QuarantineRow] = []
        for file in of_task:
            items = read_broker_log(snapshot, file.path, file.broker_id)
            while some := list(islice(items, 10_000)):
                unused += [one for one in some if isinstance(one, QuarantineRow)]
                writer.add_rows(one for one in some if not isinstance(one, QuarantineRow))
        yield writer.close(), unused

    return _run(executor, list(files), read, [])


def _run(
    executor: Executor, parts: list[_Part], read: _Read[_Part], problems: list[QuarantineRow]
) -> tuple[list[DataFile], list[QuarantineRow]]:
    if not parts:
        return [], problems
    found = executor.map(deal(parts, _GREATEST_TASKS), read)
    return [file for file, _ in found if file], [*problems, *(row for _, rows in found for row in rows)]


def write_timeline(
    executor: Executor,
    warehouse: Warehouse,
    attempt: Mapping[str, str | None],
    ids: Mapping[str, str | None],
    rule: Rule,
) -> dict[TopicPartition, TimelineSummary]:
    """Recompute the timeline of every observed partition of a snapshot into its table.

    `attempt` has the snapshot_id and ingest_id of the observations. Returns a summary of each timeline; empty without observations.
    """
    if not warehouse.files(PROGRESS, attempt["snapshot_id"]):
        return {}
    target = warehouse.directory(TIMELINE_TABLE)
    constants = {name: value for name, value in ids.items() if name != "audit_id"}

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        from replica_audit.arrow_rows import arrow_schema, rows_to_arrow

        writer = TableFileWriter(target, TIMELINE_TABLE, constants)
        ends: list[pa.RecordBatch] = []
        for batch in batches:
            writer.add_arrow(batch)
            ends.append(batch.select(_HEARD).filter(pa.compute.is_valid(batch["summary"])))
        for found in ends:
            yield found.rename_columns(TimelineNews._fields)
        if (file := writer.close()) is not None:
            told = TimelineNews(None, None, json.dumps(asdict(file)))
            yield from rows_to_arrow([told], arrow_schema(columns(TimelineNews))).to_batches()

    rows = executor.follow_timelines(warehouse, attempt, _assigned_replicas(warehouse, attempt), rule, write)
    written = [DataFile(**json.loads(row.payload)) for row in rows if row.topic is None]
    warehouse.append(TIMELINE_TABLE, (), ids, written)
    return {
        TopicPartition(row.topic, row.partition): summary_from_text(row.payload)
        for row in rows
        if row.topic is not None and row.partition is not None
    }


class _Replicas(NamedTuple):
    topic: str
    partition: int
    replicas: Sequence[int] | None


def _assigned_replicas(warehouse: Warehouse, attempt: Mapping[str, str | None]) -> pa.Table:
    """(topic, partition, broker_id) of every replica named in states or directories
    (`auditing.leadership.timeline_deviations.assigned_replicas`)."""
    from replica_audit.arrow_rows import arrow_schema, rows_to_arrow

    states = warehouse.read("partition_states", _Replicas, **attempt)
    found = {AssignedReplica(row.topic, row.partition, broker_id) for row in states for broker_id in row.replicas or ()}
    found.update(warehouse.read("replica_dirs", AssignedReplica, **attempt))
    return rows_to_arrow(sorted(found), arrow_schema(columns(AssignedReplica)))
