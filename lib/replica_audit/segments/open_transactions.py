"""Transactions that a segment leaves open and producers whose markers it has, from batch headers alone.

Kafka: `ProducerStateManager`, `ProducerStateEntry.currentTxnFirstOffset`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from replica_audit.batch_header import CONTROL, TRANSACTIONAL
from replica_audit.model import OpenTransaction, SegmentSummary

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from replica_audit.batch_header import Batch


class TransactionFinder:
    """Follows the transactional batches of one file in order; `known` are transactions that earlier files leave open."""

    def __init__(self, known: Mapping[int, OpenTransaction] | None = None) -> None:
        self._open: dict[int, OpenTransaction] = dict(known or {})
        self._ended: dict[int, int] = {}

    def watch(self, batches: NDArray[np.void]) -> None:
        """Add the next array of `BATCH_DTYPE`; batches with a wrong checksum are ignored."""
        chosen = (batches["attributes"] & TRANSACTIONAL != 0) & (batches["magic"] == 2) & batches["crc_valid"]
        if not chosen.any():
            return
        rows = batches[chosen]
        names = ("producer_id", "producer_epoch", "base_offset", "last_offset", "max_timestamp", "attributes")
        for producer, epoch, base, last, timestamp, attributes in zip(
            *(rows[name].tolist() for name in names), strict=True
        ):
            known = self._open.get(producer)
            if attributes & CONTROL:
                if known is not None and epoch >= known.last_epoch:
                    del self._open[producer]
                self._ended[producer] = max(epoch, self._ended.get(producer, epoch))
                continue
            self._open[producer] = _joined(known, OpenTransaction(producer, epoch, epoch, base, last, timestamp))

    def open_transactions(self) -> tuple[OpenTransaction, ...]:
        """Transactions whose last batch in the file is not a marker, by producer id."""
        return tuple(self._open[producer] for producer in sorted(self._open))

    def ended_producers(self) -> tuple[tuple[int, int], ...]:
        """(producer id, greatest epoch of its markers in the file). A marker ends transactions up to that epoch that
        earlier files left open."""
        return tuple(sorted(self._ended.items()))


def open_at_end(segments: Iterable[SegmentSummary]) -> dict[int, OpenTransaction]:
    """The transactions that a log of `segments`, in order of base offset, leaves open, by producer id."""
    found: dict[int, OpenTransaction] = {}
    for segment in segments:
        for producer, epoch in segment.ended_producers:
            if producer in found and epoch >= found[producer].last_epoch:
                del found[producer]
        for transaction in segment.open_transactions:
            found[transaction.producer_id] = _joined(found.get(transaction.producer_id), transaction)
    return found


def next_part(transaction: OpenTransaction, batches: Iterable[Batch]) -> Batch | None:
    """Next batch of a transaction in `batches`, in order of offset: more data, or its marker. None if the producer has no such batch
    there.

    A marker has the epoch of the data or a later one: the coordinator raises it on a timeout, and with KIP-890 at every end. A
    transaction whose marker was lost, and whose producer goes on in later epochs, ends in an earlier epoch in another log. Its
    producer's next transaction does not end it, but the marker of that ends both (`ProducerAppendInfo.appendEndTxnMarker`).
    """
    for batch in batches:
        is_part = batch.magic >= 2 and batch.attributes & TRANSACTIONAL and batch.crc_valid
        if not is_part or batch.producer_id != transaction.producer_id:
            continue
        if batch.is_control:
            return batch if batch.producer_epoch >= transaction.first_epoch else None
        if batch.producer_epoch <= transaction.last_epoch:
            return batch if batch.producer_epoch >= transaction.first_epoch else None
    return None


def marker_of(transaction: OpenTransaction, batches: Iterable[Batch]) -> Batch | None:
    """The marker that ends a transaction in `batches`, in order of offset; None if it is not there."""
    remaining = iter(batches)
    part = next_part(transaction, remaining)
    while part is not None and not part.is_control:
        part = next_part(transaction, remaining)
    return part


def _joined(known: OpenTransaction | None, later: OpenTransaction) -> OpenTransaction:
    if known is None:
        return later
    return later._replace(first_epoch=known.first_epoch, first_offset=known.first_offset)
