"""Batches that are readable but break a rule of their log, judged against the batch before them in the same segment."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np

from replica_audit.batch_header import CODEC_MASK, KNOWN_ATTRIBUTES
from replica_audit.closed_sets import IrregularityKind
from replica_audit.formats.segments.batches import GREATEST_SPAN
from replica_audit.model import Irregularity

#: How many of each kind are kept; all are counted.
GREATEST_KEPT = 100

#: After the greatest sequence number, 2^31-1, comes 0.
_SEQUENCES = 1 << 31


class _Producer(NamedTuple):
    least: int
    greatest: int
    """Sequence of the last record, counted on where it went past the greatest."""
    last_offset: int


class IrregularityFinder:
    """Watches the batches of one segment, array by array, in file order."""

    def __init__(self, base_offset: int) -> None:
        self.counts: Counter[str] = Counter()
        self._kept: dict[str, list[Irregularity]] = {}
        self._base_offset = base_offset
        self._last_offset: int | None = None
        self._after_damage = False
        self._leader_epoch = -1
        self._producers: dict[tuple[int, int], _Producer] = {}

    def pass_damage(self) -> None:
        """Say that bytes were lost here: the next batch then makes no gap."""
        self._after_damage = True

    def found(self) -> tuple[Irregularity, ...]:
        """The first `GREATEST_KEPT` of each kind, by position and kind."""
        kept = [one for some in self._kept.values() for one in some]
        return tuple(sorted(kept, key=lambda one: (one.position, one.kind)))

    def watch(self, batches: np.ndarray) -> None:
        """Judge an array of `BATCH_DTYPE`, not empty."""
        wrong = ~batches["crc_valid"]
        self._keep("crc", batches, wrong, None, lambda b, _: f"stored CRC {b['crc']} is not that of the bytes")
        self._watch_producers(batches)
        self._watch_offsets(batches)
        self._watch_epochs(batches)
        self._watch_fields(batches)
        self._after_damage = False

    def _keep(
        self, kind: IrregularityKind, batches: np.ndarray, mask: np.ndarray, previous: np.ndarray | None, describe
    ) -> None:
        flagged = mask.nonzero()[0]
        if not len(flagged):
            return
        self.counts[kind] += len(flagged)
        kept = self._kept.setdefault(kind, [])
        for index in flagged[: GREATEST_KEPT - len(kept)].tolist():
            batch = batches[index]
            before = None if previous is None else int(previous[index])
            position, base, last, epoch = (
                int(batch[name]) for name in ("position", "base_offset", "last_offset", "leader_epoch")
            )
            kept.append(Irregularity(kind, position, base, last, epoch, before, describe(batch, before)))

    def _watch_offsets(self, batches: np.ndarray) -> None:
        base, last = batches["base_offset"], batches["last_offset"]
        first = self._base_offset
        outside = (base < first) | (last - first > GREATEST_SPAN)
        self._keep("segment_name", batches, outside, None, lambda b, _: f"not what a segment named {first} may hold")
        before = int(base[0]) - 1 if self._last_offset is None else self._last_offset
        previous = np.concatenate(([before], last[:-1]))
        gap = base > previous + 1
        gap[0] &= not self._after_damage
        back = base <= previous
        known = back & (last <= previous)
        self._keep("gap", batches, gap, previous, _describe_offsets)
        self._keep("regression", batches, back & ~known, previous, _describe_offsets)
        self._keep("duplicate", batches, known, previous, lambda b, p: f"all of it lies below {p + 1}, the next offset")
        self._last_offset = int(last[-1])

    def _watch_epochs(self, batches: np.ndarray) -> None:
        epochs = batches["leader_epoch"]
        known = np.where(epochs >= 0, np.arange(1, len(epochs) + 1), 0)
        # Index of the latest batch with an epoch, so that those without are passed over.
        latest = np.maximum.accumulate(known)
        carried = np.concatenate(([self._leader_epoch], epochs))[latest]
        previous = np.concatenate(([self._leader_epoch], carried[:-1]))
        falls = (epochs >= 0) & (epochs < previous)
        self._keep("epoch_regression", batches, falls, previous, lambda b, p: f"epoch {b['leader_epoch']} after {p}")
        self._leader_epoch = int(carried[-1])

    def _watch_fields(self, batches: np.ndarray) -> None:
        magic, attributes, count = batches["magic"], batches["attributes"], batches["record_count"]
        new = (magic < 0) | (magic >= 2)
        span = batches["last_offset"] - batches["base_offset"] + 1
        codec = attributes & CODEC_MASK
        wrong = (count < 0) | (new & (count > span)) | (magic < 0) | (magic > 2)
        wrong |= np.where(new, (attributes & ~KNOWN_ATTRIBUTES) != 0, (attributes & 0xF0) != 0)
        wrong |= np.where(new, codec > 4, codec > 3)
        self._keep("field", batches, wrong, None, _describe_fields)

    def _watch_producers(self, batches: np.ndarray) -> None:
        """Same producer id, epoch and sequence at another offset.

        Known sequences are kept as one range for each producer and epoch: a sound log's only grow, so a base sequence
        inside the range was there before. Batches that repeat offsets are reported as such, not here. A sequence that
        restarts at 0 is reported with the last offset before it: where the log had been deleted up to there, the
        broker made the producer restart (UNKNOWN_PRODUCER_ID, up to 2.4; KIP-360).
        """
        idempotent = ((batches["producer_id"] >= 0) & (batches["base_sequence"] >= 0)).nonzero()[0]
        if not len(idempotent):
            return
        repeats, begun_anew = np.zeros(len(batches), bool), np.zeros(len(batches), bool)
        last_before = np.full(len(batches), -1, np.int64)
        before = -1 if self._last_offset is None else self._last_offset
        seen_to = np.concatenate(([before], batches["last_offset"][:-1]))
        chosen = batches[idempotent]
        spans = chosen["last_offset"] - chosen["base_offset"]
        names = ("producer_id", "producer_epoch", "base_sequence", "last_offset")
        columns = (idempotent, *(chosen[name] for name in names), spans, chosen["base_offset"] <= seen_to[idempotent])
        rows = zip(*(column.tolist() for column in columns), strict=True)
        producers = self._producers
        for index, producer_id, epoch, sequence, last_offset, span, is_known_offset in rows:
            key = (producer_id, epoch)
            known = producers.get(key)
            if known is None or known.greatest + 1 == sequence + _SEQUENCES:
                producers[key] = _Producer(sequence, sequence + span, last_offset)
                continue
            if known.least <= sequence <= known.greatest and not is_known_offset:
                if sequence == 0:
                    begun_anew[index], last_before[index] = True, known.last_offset
                    producers[key] = _Producer(sequence, sequence + span, last_offset)
                    continue
                repeats[index] = True
            least, greatest = min(known.least, sequence), max(known.greatest, sequence + span)
            producers[key] = _Producer(least, greatest, max(known.last_offset, last_offset))
        self._keep("producer_duplicate", batches, repeats, None, _describe_producer)
        self._keep("producer_duplicate", batches, begun_anew, last_before, _describe_producer)


def _describe_offsets(batch: np.void, previous: int | None) -> str:
    return f"it begins at {batch['base_offset']}, though the next offset was {(previous or 0) + 1}"


def _describe_fields(batch: np.void, _: int | None) -> str:
    return (
        f"magic {batch['magic']}, attributes {int(batch['attributes']):#06x}, {batch['record_count']} records"
        f" for offsets {batch['base_offset']} to {batch['last_offset']}"
    )


def _describe_producer(batch: np.void, _: int | None) -> str:
    producer = f"producer {batch['producer_id']} epoch {batch['producer_epoch']}"
    return f"sequence {batch['base_sequence']} of {producer} was there before"
