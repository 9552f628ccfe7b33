"""Batches that their producer sent again to the next leader, which has them at another offset: no record of them is lost.

A batch's checksum covers neither its offset nor its leader epoch, but its producer, sequence, times and records. Clients
before 2.5 begin at sequence 0 again under one producer epoch, so that the number alone proves nothing (KAFKA-5494).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from replica_audit.auditing.comparing.alignment import Alignment, Difference
from replica_audit.auditing.comparing.contents import Reading
from replica_audit.batch_header import TRANSACTIONAL, Batch

if TYPE_CHECKING:
    from replica_audit.auditing.replicas.facts import ReplicaFacts


def with_resent(
    reference: ReplicaFacts, follower: ReplicaFacts, alignment: Alignment, reading: Reading | None
) -> Alignment:
    """`alignment` with the twins of the follower's conflicting batches, where the reference has one past the fork.

    A batch of a transaction needs the same outcome on both, which only the records of the markers tell.
    """
    conflicts = [item for item in alignment.differences if item.kind == "epoch" and item.batches]
    senders = [batch for item in conflicts for batch in item.batches if _is_sent(batch)]
    if not senders:
        return alignment
    fork = min(item.start_offset for item in conflicts)
    twins: dict[tuple, list[Batch]] = defaultdict(list)
    for batch in alignment.reference:
        if batch.base_offset >= fork and _is_sent(batch):
            twins[_identity(batch)].append(batch)

    def twin_of(batch: Batch) -> Batch | None:
        found = next(iter(twins.get(_identity(batch), ())), None) if _is_sent(batch) else None
        if found is None or not batch.attributes & TRANSACTIONAL:
            return found
        if reading is None:
            return None
        own = _outcome(follower, batch, alignment.own, reading)
        return found if own is not None and own == _outcome(reference, found, alignment.reference, reading) else None

    return replace(alignment, differences=tuple(_with_twins(alignment.differences, twin_of)))


def _with_twins(differences: Sequence[Difference], twin_of) -> Iterator[Difference]:
    for item in differences:
        is_open = item.kind == "epoch" and not item.written_again and len(item.batches) == 1
        twin = twin_of(item.batches[0]) if is_open else None
        yield item if twin is None else replace(item, written_again=True, twin=twin)


def _is_sent(batch: Batch) -> bool:
    """Whether an idempotent producer sent it, and it can be read."""
    return batch.magic >= 2 and batch.producer_id >= 0 and not batch.is_control and batch.crc_valid


def _identity(batch: Batch) -> tuple:
    return (
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.record_count,
        batch.last_offset - batch.base_offset,
        batch.crc,
        batch.size,
    )


def _outcome(facts: ReplicaFacts, batch: Batch, batches: Sequence[Batch], reading: Reading) -> int | None:
    """How the transaction of a batch ended in a log; None where it has not."""
    marker = next(
        (
            one
            for one in batches
            if one.base_offset > batch.base_offset
            and one.is_control
            and one.producer_id == batch.producer_id
            and one.producer_epoch >= batch.producer_epoch
        ),
        None,
    )
    if marker is None:
        return None
    rows, _ = reading.rows(facts, [marker])
    return int(rows["marker"][0]) if len(rows) else None
