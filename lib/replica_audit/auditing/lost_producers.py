"""Producers of the records that the reference lost, with transactional ids, from batch headers and `__transaction_state`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter

from replica_audit.auditing.case import Case
from replica_audit.auditing.compare.divergent_ranges import DivergentRange
from replica_audit.batch_header import TRANSACTIONAL
from replica_audit.model import TransactionState
from replica_audit.schema import LostProducerRow
from replica_audit.segments.batch_rows import Batches, Tally


def lost_producer_rows(case: Case) -> Iterator[LostProducerRow]:
    """Yield a row for each broker with lost records and each producer of them; a null id means no idempotence."""
    for item in case.comparisons:
        written: dict[int, list[tuple[DivergentRange, Batches]]] = defaultdict(list)
        for run in (run for run in item.runs if run.is_lost):
            sent = run.batches.where(~run.batches.control & (run.batches.rows["record_count"] != 0))
            for producer in set(sent.rows["producer_id"].tolist()):
                written[producer].append((run, sent.where(sent.rows["producer_id"] == producer)))
        for producer, parts in sorted(written.items(), key=itemgetter(0)):
            sums = [batches.tally for _, batches in parts]
            span = sum(sums, Tally())
            yield LostProducerRow(
                topic=case.topic_partition.topic,
                partition=case.topic_partition.partition,
                broker_id=item.follower.broker_id,
                producer_id=producer if producer >= 0 else None,
                transactional=any(
                    ((batches.rows["magic"] >= 2) & (batches.rows["attributes"] & TRANSACTIONAL != 0)).any()
                    for _, batches in parts
                ),
                transactional_id=None,
                transaction_state=None,
                start_offset=min(max(int(batches.starts.min()), run.start_offset) for run, batches in parts),
                end_offset=max(min(int(batches.ends.max()), run.end_offset) for run, batches in parts),
                record_count=sum(batches.records_between(run.start_offset, run.end_offset) for run, batches in parts),
                first_timestamp_ms=span.first_timestamp_ms,
                last_timestamp_ms=span.last_timestamp_ms,
            )


def transactional_producers(rows: Iterable[LostProducerRow]) -> frozenset[int]:
    """Producers whose transactions the coordinator may know."""
    return frozenset(row.producer_id for row in rows if row.transactional and row.producer_id is not None)


def awaits_coordinator(row: LostProducerRow) -> bool:
    """True if the coordinator may know the row's producer."""
    return bool(transactional_producers([row]))


def with_transactions(
    rows: Iterable[LostProducerRow], states: Mapping[int, TransactionState]
) -> Iterator[LostProducerRow]:
    """Add the coordinator's latest state of each producer's transaction to `rows`, if known."""
    for row in rows:
        state = None if row.producer_id is None else states.get(row.producer_id)
        if state is not None:
            row = row._replace(transactional_id=state.transactional_id, transaction_state=state.state)
        yield row
