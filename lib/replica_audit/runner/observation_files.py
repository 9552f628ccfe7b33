"""What was seen of a running cluster, read in tasks: observations with their timeline, and brokers' own logs.

Both may be far larger than all else that is ingested, so tasks write the rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Any

from replica_audit.auditing.evidence import LOG_EVENTS
from replica_audit.protocol.high_watermark import Rule
from replica_audit.runner.executor import Executor, deal
from replica_audit.schema import QuarantineRow
from replica_audit.snapshot.inventory import BrokerLogFile
from replica_audit.snapshot.replica_progress import ProgressPart, plan_progress, read_progress
from replica_audit.snapshot.storage import Snapshot
from replica_audit.warehouse.delta_tables import Warehouse
from replica_audit.warehouse.table_files import GROUP_ROWS, TableFileWriter
from replica_audit.warehouse.table_layout import DataFile

if TYPE_CHECKING:
    import pyarrow as pa

PROGRESS, TIMELINE_TABLE = "replica_progress", "high_watermark_timeline"

#: Tasks that read files.
_GREATEST_TASKS = 1000


def scan_progress(
    executor: Executor,
    snapshot: Snapshot,
    files: tuple[tuple[str, int], ...],
    directory: str,
    constants: Mapping[str, str | None],
    topics: tuple[str, ...],
) -> tuple[list[DataFile], list[dict]]:
    """Files of `replica_progress` below `directory`, and quarantine rows of what could not be used."""
    parts = list(plan_progress(snapshot, files))
    problems = [part._asdict() for part in parts if isinstance(part, QuarantineRow)]
    planned = [part for part in parts if isinstance(part, ProgressPart)]

    def read(of_task: list[ProgressPart]) -> Iterator[tuple[DataFile | None, list[dict]]]:
        writer, unused = TableFileWriter(directory, PROGRESS, constants), []
        for part in of_task:
            for item in read_progress(snapshot, part, topics):
                if isinstance(item, QuarantineRow):
                    unused.append(item._asdict())
                else:
                    for batch in item.to_batches(max_chunksize=GROUP_ROWS):
                        writer.add(dict(zip(batch.schema.names, batch.columns, strict=True)), batch.num_rows)
        yield writer.close(), unused

    return _run(executor, planned, read, problems)


def scan_broker_logs(
    executor: Executor,
    snapshot: Snapshot,
    files: tuple[BrokerLogFile, ...],
    directory: str,
    constants: Mapping[str, str | None],
    topics: tuple[str, ...],
) -> tuple[list[DataFile], list[dict]]:
    """Files of `broker_log_events` below `directory`, and quarantine rows of logs that could not be read."""

    def read(of_task: list[BrokerLogFile]) -> Iterator[tuple[DataFile | None, list[dict]]]:
        from replica_audit.arrow_rows import rows_to_arrow
        from replica_audit.auditing.leadership.broker_log_evidence import event_row
        from replica_audit.snapshot.broker_logs import read_broker_log

        writer, unused = TableFileWriter(directory, LOG_EVENTS, constants), []
        for file in of_task:
            items = read_broker_log(snapshot, file.path, file.broker_id)
            while some := list(islice(items, 10_000)):
                unused += [one._asdict() for one in some if isinstance(one, QuarantineRow)]
                rows = [event_row(one) for one in some if not isinstance(one, QuarantineRow)]
                table = rows_to_arrow(rows, writer.schema)
                writer.add(dict(zip(table.schema.names, table.columns, strict=True)), len(rows))
        yield writer.close(), unused

    return _run(executor, list(files), read, [])


def _run(executor: Executor, parts: list, read, problems: list[dict]) -> tuple[list[DataFile], list[dict]]:
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
) -> dict[tuple[str, int], dict[str, Any]]:
    """Recompute the timeline of every observed partition of a snapshot into its table.

    `attempt` has the snapshot_id and ingest_id whose observations count. Returns what each timeline comes to
    (`auditing.leadership.timeline_deviations.summary_row`), by topic and partition; nothing where nothing was observed.
    """
    if not warehouse.files(PROGRESS, attempt["snapshot_id"]):
        return {}
    target = warehouse.directory(TIMELINE_TABLE)
    constants = {name: value for name, value in ids.items() if name != "audit_id"}

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        writer, found = TableFileWriter(target, TIMELINE_TABLE, constants), []
        for batch in batches:
            rows = pa.Table.from_batches([batch])
            writer.add(dict(zip(rows.schema.names, rows.columns, strict=True)), rows.num_rows)
            ends = rows.filter(pa.compute.is_valid(rows["summary"])).select(["topic", "partition", "summary"])
            found += [(row["topic"], row["partition"], row["summary"]) for row in ends.to_pylist()]
        file = writer.close()
        written = [json.dumps(asdict(file))] if file else []
        yield pa.RecordBatch.from_pydict(
            {
                "topic": pa.array([topic for topic, _, _ in found] + [None] * len(written), pa.string()),
                "partition": pa.array([partition for _, partition, _ in found] + [None] * len(written), pa.int32()),
                "payload": pa.array([summary for _, _, summary in found] + written, pa.string()),
            }
        )

    rows = executor.follow_timelines(warehouse, attempt, _assigned_replicas(warehouse, attempt), rule, write)
    written = [DataFile(**json.loads(row["payload"])) for row in rows if row["topic"] is None]
    warehouse.append(TIMELINE_TABLE, (), ids, written)
    return {(row["topic"], row["partition"]): json.loads(row["payload"]) for row in rows if row["topic"] is not None}


def _assigned_replicas(warehouse: Warehouse, attempt: Mapping[str, str | None]) -> pa.Table:
    """(topic, partition, broker_id) of every replica that states or directories name: `auditing.leadership.timeline_deviations.assigned_replicas`."""
    import pyarrow as pa

    states = warehouse.read("partition_states", ("topic", "partition", "replicas"), **attempt)
    found = {(row["topic"], row["partition"], broker_id) for row in states for broker_id in row["replicas"] or ()}
    directories = warehouse.read("replica_dirs", ("topic", "partition", "broker_id"), **attempt)
    found |= {(row["topic"], row["partition"], row["broker_id"]) for row in directories}
    schema = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("broker_id", pa.int32())])
    return pa.Table.from_pylist([dict(zip(schema.names, one)) for one in sorted(found)], schema)
