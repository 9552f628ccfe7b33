"""The summary of a segment: what the audit needs of it, short of its batches; and that as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, BinaryIO

import numpy as np

from replica_audit.batch_header import DELETE_HORIZON
from replica_audit.closed_sets import TailKind
from replica_audit.formats.segments.digests import (
    ContentDigest,
    digest_chunks,
    merge_chunks,
)
from replica_audit.formats.segments.irregularities import IrregularityFinder
from replica_audit.formats.segments.open_transactions import TransactionFinder
from replica_audit.formats.segments.scan import WINDOW_BYTES, scan_segment
from replica_audit.model import ChunkDigest, Damage, EpochStart, Irregularity, OpenTransaction, SegmentSummary

__all__ = [
    "Summariser",
    "digest_chunks",
    "merge_chunks",
    "summarise_segment",
    "summary_from_json",
    "summary_to_json",
]

_GREATEST_PRODUCER_EPOCH = (1 << 15) - 1
#: Batches that are summed up at once; a window of large batches has too few of them to be worth calling numpy for.
_ROWS = 4096


class Summariser:
    """Builds the `SegmentSummary` of one file from the items of `scan_segment`, in their order.

    `facts`: source, form and unproven, where they are not those of a segment file.
    """

    def __init__(self, path: str, base_offset: int, size_bytes: int, **facts: Any) -> None:
        self._facts: dict[str, Any] = {"path": path, "base_offset": base_offset, "size_bytes": size_bytes, **facts}
        self._finder = IrregularityFinder(base_offset)
        self._transactions = TransactionFinder()
        self._chunks: dict[int, ChunkDigest] = {}
        self._content = ContentDigest()
        self._damage: list[Damage] = []
        self._epoch_starts: list[EpochStart] = []
        self._batch_count = 0
        self._sound_end = 0
        self._waiting: list[np.ndarray] = []
        self._waiting_rows = 0

    def add(self, item: np.ndarray | Damage) -> None:
        """Take the next array of `BATCH_DTYPE`, or the next damage."""
        if isinstance(item, Damage):
            self._sum_up()
            self._content.add(item)
            self._damage.append(item)
            self._finder.pass_damage()
        elif len(item):
            self._waiting.append(item)
            self._waiting_rows += len(item)
            if self._waiting_rows >= _ROWS:
                self._sum_up()

    def _sum_up(self) -> None:
        if not self._waiting:
            return
        batches = self._waiting[0] if len(self._waiting) == 1 else np.concatenate(self._waiting)
        self._waiting, self._waiting_rows = [], 0
        self._content.add(batches)
        self._finder.watch(batches)
        self._transactions.watch(batches)
        self._add_facts(batches)
        self._add_epochs(batches)
        self._chunks = merge_chunks((self._chunks.values(), digest_chunks(batches)))

    def finish(self) -> SegmentSummary:
        """The summary of everything that was added.

        A batch at the end with a wrong CRC is a batch, but not a sound one: what follows the last sound batch, such
        batches included, is the tail.
        """
        self._sum_up()
        tail_length = self._facts["size_bytes"] - self._sound_end
        tail_kind: TailKind = "clean" if not tail_length else "garbage"
        if self._damage and self._damage[-1].kind != "corrupt":
            tail_kind = self._damage[-1].kind
        chunks = tuple(self._chunks.values())
        firsts = [chunk.first_timestamp_ms for chunk in chunks if chunk.first_timestamp_ms is not None]
        lasts = [chunk.last_timestamp_ms for chunk in chunks if chunk.last_timestamp_ms is not None]
        return SegmentSummary(
            **self._facts,
            batch_count=self._batch_count,
            record_count=sum(chunk.record_count for chunk in chunks),
            greatest_last_offset=max((chunk.last_offset for chunk in chunks), default=None),
            epoch_starts=tuple(self._epoch_starts),
            irregularities=self._finder.found(),
            irregularity_counts=dict(sorted(self._finder.counts.items())),
            damage=tuple(self._damage),
            tail_kind=tail_kind,
            tail_length=tail_length,
            chunks=chunks,
            first_timestamp_ms=min(firsts, default=None),
            last_timestamp_ms=max(lasts, default=None),
            open_transactions=self._transactions.open_transactions(),
            ended_producers=self._transactions.ended_producers(),
            digest=self._content.hex_digits(),
        )

    def _add_facts(self, batches: np.ndarray) -> None:
        facts, magic = self._facts, batches["magic"]
        if not self._batch_count:
            facts["first_base_offset"] = int(batches["base_offset"][0])
            facts["first_leader_epoch"] = int(batches["leader_epoch"][0])
        sound = batches["crc_valid"].nonzero()[0]
        if len(sound):
            last = batches[sound[-1]]
            facts["last_base_offset"] = int(last["base_offset"])
            facts["last_offset"] = int(last["last_offset"])
            facts["last_leader_epoch"] = int(last["leader_epoch"])
            self._sound_end = int(last["position"] + last["size"])
        self._batch_count += len(batches)
        self._note("least_magic", min, int(magic.min()))
        self._note("greatest_magic", max, int(magic.max()))
        new = magic == 2
        span = batches["last_offset"] - batches["base_offset"] + 1
        self._note("has_epochs", max, bool((new & (batches["leader_epoch"] >= 0)).any()))
        # The bits and counts of a batch whose CRC is wrong do not prove a cleaner.
        new = new & batches["crc_valid"]
        self._note("has_delete_horizon", max, bool((new & (batches["attributes"] & DELETE_HORIZON != 0)).any()))
        self._note("has_sparse_batch", max, bool((new & (batches["record_count"] < span)).any()))

    def _note(self, name: str, choose: Callable, value: Any) -> None:
        known = self._facts.get(name)
        self._facts[name] = value if known is None else choose(known, value)

    def _add_epochs(self, batches: np.ndarray) -> None:
        epochs = batches["leader_epoch"]
        changes = np.concatenate(([not self._epoch_starts], epochs[1:] != epochs[:-1]))
        if self._epoch_starts:
            changes[0] = int(epochs[0]) != self._epoch_starts[-1].leader_epoch
        for index in np.flatnonzero(changes).tolist():
            batch = batches[index]
            start = EpochStart(int(batch["leader_epoch"]), int(batch["base_offset"]), int(batch["position"]))
            self._epoch_starts.append(start)


def summarise_segment(
    stream: BinaryIO, path: str, base_offset: int, size_bytes: int, window: int = WINDOW_BYTES
) -> SegmentSummary:
    """Scan a segment file and summarise it; `stream` and the errors as in `scan_segment`, `path` is the name that
    errors give it.
    """
    summariser = Summariser(path, base_offset, size_bytes)
    for item in scan_segment(stream, size_bytes, base_offset, window):
        summariser.add(item)
    return summariser.finish()


def summary_to_json(summary: SegmentSummary) -> str:
    """The summary as one JSON object with sorted keys: the same summary gives the same text."""
    return _ENCODER.encode(summary)


def _fields(one: Any) -> dict[str, Any]:
    return {name: getattr(one, name) for name in one.__dataclass_fields__}


#: `asdict` would copy every value first.
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=_fields)


def summary_from_json(text: str) -> SegmentSummary:
    """The summary that `summary_to_json` wrote; raises ValueError, KeyError or TypeError for anything else."""
    fields = json.loads(text)
    for name, kind in (
        ("epoch_starts", EpochStart),
        ("irregularities", Irregularity),
        ("damage", Damage),
        ("chunks", ChunkDigest),
        ("open_transactions", OpenTransaction),
    ):
        fields[name] = tuple(kind(**one) for one in fields[name])
    fields["ended_producers"] = tuple(map(_ended, fields["ended_producers"]))
    fields["unproven"] = tuple(fields.get("unproven", ()))
    return SegmentSummary(**fields)


def _ended(entry: int | list[int]) -> tuple[int, int]:
    """An entry of `ended_producers`; earlier versions wrote the producer id alone, whose markers ended everything."""
    return (entry, _GREATEST_PRODUCER_EPOCH) if isinstance(entry, int) else (entry[0], entry[1])
