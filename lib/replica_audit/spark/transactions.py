"""The coordinator's states of producers that left a transaction open, read on the executors, where there are any."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from replica_audit.formats.storage import Entry, Snapshot
from replica_audit.formats.transaction_log import find_transaction_logs, latest_states, read_transaction_states
from replica_audit.model import TransactionState
from replica_audit.spark.warehouse import Warehouse

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_GREATEST_TASKS = 1000


def read_transactions(
    spark: SparkSession, warehouse: Warehouse, snapshot_id: str, location: str, producers: Collection[int]
) -> dict[int, TransactionState]:
    """The latest state of those of `producers` that the snapshot's `__transaction_state` knows; none: nothing is read.

    A segment that cannot be read is passed over: it is in quarantine since the scan.
    """
    if not producers:
        return {}
    rows = warehouse.read("replica_dirs", snapshot_id=snapshot_id).select("log_dir").distinct().collect()
    try:
        snapshot = Snapshot.open(location)
        segments = find_transaction_logs(snapshot, [row["log_dir"] for row in rows])
    except OSError:
        segments = []  # the snapshot is gone: records that have to be compared will say so
    if not segments:
        return {}
    wanted = frozenset(producers)

    def read_segments(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            for index in batch.column(0).to_pylist():
                rows = [json.dumps(asdict(state)) for state in _states(snapshot, segments[index], wanted)]
                yield pa.RecordBatch.from_pydict({"payload": pa.array(rows, pa.string())})

    found = spark.range(0, len(segments), 1, min(len(segments), _GREATEST_TASKS)).mapInArrow(
        read_segments, "payload string"
    )
    return latest_states(_state(row["payload"]) for row in found.collect())


def _states(snapshot: Snapshot, segment: Entry, wanted: frozenset[int]) -> Iterable[TransactionState]:
    try:
        return latest_states(read_transaction_states(snapshot, segment, wanted)).values()
    except OSError:
        return ()


def _state(payload: str) -> TransactionState:
    fields = json.loads(payload)
    return TransactionState(
        **{**fields, "partitions": tuple((topic, partition) for topic, partition in fields["partitions"])}
    )
