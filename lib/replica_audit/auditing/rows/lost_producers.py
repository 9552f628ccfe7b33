"""Who wrote the records that the reference lost: producers and their transactional ids, by batch headers and the coordinator."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from replica_audit.auditing.comparing.loss import is_lost
from replica_audit.auditing.comparing.runs import records_between
from replica_audit.auditing.findings.case import Case
from replica_audit.batch_header import TRANSACTIONAL, Batch
from replica_audit.model import TransactionState

Row = dict[str, Any]


def lost_producer_rows(case: Case) -> Iterator[Row]:
    """One row for each broker that holds lost records and each producer of them; without an id, idempotence was off."""
    for item in case.comparisons:
        written: dict[int, list[tuple[Batch, int, int]]] = defaultdict(list)
        for run in item.runs:
            if is_lost(run):
                for batch in run.batches:
                    if not batch.is_control and batch.record_count != 0:
                        start, end = max(batch.base_offset, run.start_offset), min(batch.end_offset, run.end_offset)
                        written[batch.producer_id].append((batch, start, end))
        for producer, parts in sorted(written.items()):
            times = [time for batch, _, _ in parts for time in batch.timestamps]
            yield {
                "topic": case.topic_partition.topic,
                "partition": case.topic_partition.partition,
                "broker_id": item.follower.broker_id,
                "producer_id": producer if producer >= 0 else None,
                "transactional": any(batch.magic >= 2 and batch.attributes & TRANSACTIONAL for batch, _, _ in parts),
                "transactional_id": None,
                "transaction_state": None,
                "start_offset": min(start for _, start, _ in parts),
                "end_offset": max(end for _, _, end in parts),
                "record_count": sum(records_between((batch,), start, end) for batch, start, end in parts),
                "first_timestamp_ms": min(times, default=None),
                "last_timestamp_ms": max(times, default=None),
            }


def transactional_producers(rows: Iterable[Mapping[str, Any]]) -> frozenset[int]:
    """Producers of which the coordinator may know more."""
    return frozenset(row["producer_id"] for row in rows if awaits_coordinator(row))


def awaits_coordinator(row: Mapping[str, Any]) -> bool:
    """Whether the coordinator may know more of the producer of a row."""
    return row["transactional"] and row["producer_id"] is not None


def with_transactions(rows: Sequence[Row], states: Mapping[int, TransactionState]) -> list[Row]:
    """The same with what the coordinator says last of each producer's transaction, where it knows it."""
    named = []
    for row in rows:
        state = states.get(row["producer_id"])
        known = {} if state is None else {"transactional_id": state.transactional_id, "transaction_state": state.state}
        named.append({**row, **known})
    return named
