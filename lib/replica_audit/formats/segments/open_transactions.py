"""Transactions that a segment leaves open and producers that it has markers of, from batch headers alone.

Kafka: `ProducerStateManager`, `ProducerStateEntry.currentTxnFirstOffset`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from replica_audit.batch_header import CONTROL, TRANSACTIONAL
from replica_audit.model import OpenTransaction, SegmentSummary

if TYPE_CHECKING:
    import numpy as np


class TransactionFinder:
    """Follows the transactional batches of one file in their order."""

    def __init__(self) -> None:
        self._open: dict[int, OpenTransaction] = {}
        self._ended: set[int] = set()

    def watch(self, batches: np.ndarray) -> None:
        """Take the next array of `BATCH_DTYPE`; batches with a wrong checksum are ignored."""
        chosen = (batches["attributes"] & TRANSACTIONAL != 0) & (batches["magic"] == 2) & batches["crc_valid"]
        if not chosen.any():
            return
        rows = batches[chosen]
        names = ("producer_id", "producer_epoch", "base_offset", "last_offset", "max_timestamp", "attributes")
        for producer, epoch, base, last, timestamp, attributes in zip(
            *(rows[name].tolist() for name in names), strict=True
        ):
            if attributes & CONTROL:
                self._open.pop(producer, None)
                self._ended.add(producer)
                continue
            known = self._open.get(producer)
            self._open[producer] = _joined(known, OpenTransaction(producer, epoch, epoch, base, last, timestamp))

    def open_transactions(self) -> tuple[OpenTransaction, ...]:
        """Those whose last batch in the file is not a marker, by producer id."""
        return tuple(self._open[producer] for producer in sorted(self._open))

    def ended_producers(self) -> tuple[int, ...]:
        """Producers with a marker in the file: what earlier files left open of them is over."""
        return tuple(sorted(self._ended))


def open_at_end(segments: Iterable[SegmentSummary]) -> dict[int, OpenTransaction]:
    """The transactions that a log of `segments`, in order of base offset, leaves open, by producer id."""
    found: dict[int, OpenTransaction] = {}
    for segment in segments:
        for producer in segment.ended_producers:
            found.pop(producer, None)
        for transaction in segment.open_transactions:
            found[transaction.producer_id] = _joined(found.get(transaction.producer_id), transaction)
    return found


def _joined(known: OpenTransaction | None, later: OpenTransaction) -> OpenTransaction:
    if known is None:
        return later
    return replace(later, first_epoch=known.first_epoch, first_offset=known.first_offset)
