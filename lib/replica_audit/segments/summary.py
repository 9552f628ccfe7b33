"""The summary of a segment, everything that the audit needs of it besides its batches, and its JSON."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from heapq import nlargest
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from replica_audit.batch_header import CODEC_MASK, DELETE_HORIZON, KNOWN_ATTRIBUTES, TRANSACTIONAL, Batch
from replica_audit.literals import IrregularityKind, SegmentSource, TailKind
from replica_audit.model import ChunkDigest, Damage, EpochStart, Irregularity, OpenTransaction, SegmentSummary
from replica_audit.segments.digests import ContentDigest, digest_chunks, kept_bytes, merge_chunks
from replica_audit.segments.open_transactions import TransactionFinder
from replica_audit.segments.record_batch import BATCH_DTYPE, GREATEST_SPAN, SEQUENCES

#: Maximum number of irregularities kept of each kind; all are counted.
GREATEST_KEPT = 100


class _Producer(NamedTuple):
    least: int
    greatest: int
    """Sequence of the last record, counted on past the greatest sequence number."""
    last_offset: int


class IrregularityFinder:
    """Finds irregularities in one segment, array by array, in file order."""

    def __init__(self, base_offset: int) -> None:
        self.counts: Counter[str] = Counter()
        self._kept: dict[str, list[Irregularity]] = {}
        self._base_offset = base_offset
        self._last_offset: int | None = None
        self._after_damage = False
        self._leader_epoch = -1
        self._producers: dict[tuple[int, int], _Producer] = {}
        self._first_sequences: list[tuple[int, int, int]] = []

    def pass_damage(self) -> None:
        """Note that bytes were lost here, so that the next batch makes no gap."""
        self._after_damage = True

    def found(self) -> tuple[Irregularity, ...]:
        """The first `GREATEST_KEPT` of each kind, by position and kind."""
        kept = [one for some in self._kept.values() for one in some]
        return tuple(sorted(kept, key=lambda one: (one.position, one.kind)))

    def first_sequences(self) -> tuple[tuple[int, int, int], ...]:
        """Value of `SegmentSummary.first_sequences`."""
        return tuple(self._first_sequences)

    def last_sequences(self) -> tuple[tuple[int, int, int], ...]:
        """Value of `SegmentSummary.last_sequences`."""
        latest = nlargest(GREATEST_KEPT, self._producers.items(), key=lambda one: one[1].last_offset)
        return tuple((*key, known.greatest % SEQUENCES) for key, known in reversed(latest))

    @property
    def before(self) -> tuple[int | None, int]:
        """Last offset of the preceding batches (None without any), and their latest epoch (-1 without one)."""
        return self._last_offset, self._leader_epoch

    def pass_regular(self, last_offset: int, leader_epoch: int) -> None:
        """Note where batches end in which `irregular_groups` found nothing, after `watch_producers` saw them."""
        self._last_offset, self._leader_epoch = last_offset, leader_epoch
        self._after_damage = False

    def watch(self, batches: NDArray[np.void]) -> None:
        """Check the next array of `BATCH_DTYPE`, which must not be empty."""
        wrong = ~batches["crc_valid"]
        self._keep("crc", batches, wrong, None, lambda b, _: f"stored CRC {b['crc']} is not that of the bytes")
        self.watch_producers(batches)
        self._watch_offsets(batches)
        self._watch_epochs(batches)
        self._keep("field", batches, _wrong_fields(batches), None, _describe_fields)
        self._after_damage = False

    def _keep(
        self,
        kind: IrregularityKind,
        batches: NDArray[np.void],
        mask: NDArray[np.bool_],
        previous: NDArray[np.int64] | None,
        describe: Callable[[np.void, int | None], str],
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

    def _watch_offsets(self, batches: NDArray[np.void]) -> None:
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
        self._keep("duplicate", batches, known, previous, _describe_duplicate)
        self._last_offset = int(last[-1])

    def _watch_epochs(self, batches: NDArray[np.void]) -> None:
        epochs = batches["leader_epoch"]
        known = np.where(epochs >= 0, np.arange(1, len(epochs) + 1), 0)
        # Index of the latest batch with an epoch, so that batches without one are skipped.
        latest = np.maximum.accumulate(known)
        carried = np.concatenate(([self._leader_epoch], epochs))[latest]
        previous = np.concatenate(([self._leader_epoch], carried[:-1]))
        falls = (epochs >= 0) & (epochs < previous)
        self._keep("epoch_regression", batches, falls, previous, lambda b, p: f"epoch {b['leader_epoch']} after {p}")
        self._leader_epoch = int(carried[-1])

    def watch_producers(self, batches: NDArray[np.void]) -> None:
        """Find repeated sequences: same producer id, epoch and sequence at another offset.

        Known sequences are kept as one range for each producer and epoch: in a sound log they only grow, so a base sequence
        inside the range occurred before. Batches that repeat offsets are reported as such, not here. A sequence that restarts
        at 0 is reported with the last offset before it: if the log had been deleted up to there, the broker made the producer
        restart (UNKNOWN_PRODUCER_ID, up to 2.4; KIP-360). Places where sequences are missing are counted: a broker refuses such
        a batch (ProducerAppendInfo.checkSequence) while it knows the producer.
        """
        idempotent = ((batches["producer_id"] >= 0) & (batches["base_sequence"] >= 0)).nonzero()[0]
        if not len(idempotent):
            return
        repeats, begun_anew = np.zeros(len(batches), bool), np.zeros(len(batches), bool)
        last_before = np.full(len(batches), -1, np.int64)
        skipped = 0
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
            if known is None and len(self._first_sequences) < GREATEST_KEPT:
                self._first_sequences.append((producer_id, epoch, sequence))
            if known is None or known.greatest + 1 == sequence + SEQUENCES:
                producers[key] = _Producer(sequence, sequence + span, last_offset)
                continue
            if known.least <= sequence <= known.greatest and not is_known_offset:
                if sequence == 0:
                    begun_anew[index], last_before[index] = True, known.last_offset
                    producers[key] = _Producer(sequence, sequence + span, last_offset)
                    continue
                repeats[index] = True
            skipped += sequence > known.greatest + 1
            least, greatest = min(known.least, sequence), max(known.greatest, sequence + span)
            producers[key] = _Producer(least, greatest, max(known.last_offset, last_offset))
        if skipped:
            self.counts["sequence_gap"] += skipped
        self._keep("producer_duplicate", batches, repeats, None, _describe_producer)
        self._keep("producer_duplicate", batches, begun_anew, last_before, _describe_producer)


def _wrong_fields(batches: NDArray[np.void]) -> NDArray[np.bool_]:
    magic, attributes, count = batches["magic"], batches["attributes"], batches["record_count"]
    new = (magic < 0) | (magic >= 2)
    span = batches["last_offset"] - batches["base_offset"] + 1
    codec = attributes & CODEC_MASK
    wrong = (count < 0) | (new & (count > span)) | (magic < 0) | (magic > 2)
    wrong |= np.where(new, (attributes & ~KNOWN_ATTRIBUTES) != 0, (attributes & 0xF0) != 0)
    return wrong | np.where(new, codec > 4, codec > 3)


def irregular_groups(
    batches: NDArray[np.void], starts: NDArray[np.int64], files: Sequence[tuple[int, IrregularityFinder]]
) -> list[bool]:
    """For each group of batches, one from each of `starts` on: True if the finder of its file (base offset, finder) has to look at them.

    Batches that producers sent twice are not looked for here.
    """
    base, last, epoch = (batches[name] for name in ("base_offset", "last_offset", "leader_epoch"))
    before = [finder.before for _, finder in files]
    first = np.repeat(
        np.array([base_offset for base_offset, _ in files], np.int64), np.diff(starts, append=len(batches))
    )
    due, least = np.concatenate(([0], last[:-1] + 1)), np.concatenate(([0], epoch[:-1]))
    due[starts] = [int(base[at]) if end is None else end + 1 for at, (end, _) in zip(starts.tolist(), before)]
    least[starts] = [latest for _, latest in before]
    found = ~batches["crc_valid"] | (base < first) | (last - first > GREATEST_SPAN)
    found |= (base != due) | (last < base) | (epoch < least) | _wrong_fields(batches)
    return np.logical_or.reduceat(found, starts).tolist()


def _describe_offsets(batch: np.void, previous: int | None) -> str:
    return f"it begins at {batch['base_offset']}, though the next offset was {(previous or 0) + 1}"


def _describe_duplicate(_: np.void, previous: int | None) -> str:
    return f"all of it lies below {(previous or 0) + 1}, the next offset"


def _describe_fields(batch: np.void, _: int | None) -> str:
    return (
        f"magic {batch['magic']}, attributes {int(batch['attributes']):#06x}, {batch['record_count']} records"
        f" for offsets {batch['base_offset']} to {batch['last_offset']}"
    )


def _describe_producer(batch: np.void, _: int | None) -> str:
    producer = f"producer {batch['producer_id']} epoch {batch['producer_epoch']}"
    return f"sequence {batch['base_sequence']} of {producer} was there before"


#: Batches summed up at a time: a window has too few large ones to be worth a call of numpy.
_ROWS = 4096
#: Up to so few batches the calls would cost more than the sums: replicas with equal ones share a summary.
_FEW_ROWS = 256


class Summariser:
    """Builds the `SegmentSummary` of one file from the items of `scan_segment`, in their order."""

    def __init__(
        self,
        path: str,
        base_offset: int,
        size_bytes: int,
        *,
        source: SegmentSource = "segment",
        form: str = "batches",
        unproven: tuple[str, ...] = (),
    ) -> None:
        self._path, self._base_offset, self._size_bytes = path, base_offset, size_bytes
        self._source, self._form, self._unproven = source, form, unproven
        self._finder = IrregularityFinder(base_offset)
        self._transactions = TransactionFinder()
        self._chunks: dict[int, ChunkDigest] = {}
        self._content = ContentDigest()
        self._damage: list[Damage] = []
        self._epoch_starts: list[EpochStart] = []
        self._batch_count = 0
        self._unchecked_count = 0
        self._unchecked_end: int | None = None
        self._first: Batch | None = None
        self._last_sound: Batch | None = None
        self._magics: frozenset[int] = frozenset()
        self._has_epochs = self._has_delete_horizon = self._has_sparse_batch = False
        self._waiting: list[NDArray[np.void]] = []
        self._waiting_rows = 0

    def add(self, item: NDArray[np.void] | Damage) -> None:
        """Add the next array of `BATCH_DTYPE`, or the next damage."""
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
        if self._waiting:
            batches = self._waiting[0] if len(self._waiting) == 1 else np.concatenate(self._waiting)
            self._waiting, self._waiting_rows = [], 0
            sum_up([self], batches, np.zeros(1, np.int64))

    def finish(self) -> SegmentSummary:
        """The summary of everything added.

        A batch at the end with a wrong CRC is a batch, but not a sound one: what follows the last sound batch, such batches
        included, is the tail.
        """
        if self._damage or self._batch_count or not 0 < self._waiting_rows <= _FEW_ROWS:
            return self._finish()
        rows = b"".join(item.tobytes() for item in self._waiting)
        shared = _summary_of_few(rows, self._base_offset, self._size_bytes, self._source, self._form, self._unproven)
        return replace(shared, path=self._path)

    def _finish(self) -> SegmentSummary:
        self._sum_up()
        first, last = self._first, self._last_sound
        tail_length = self._size_bytes - (0 if last is None else last.position + last.size)
        # Bytes that evidence lacks may be anything.
        tail_kind: TailKind = "clean" if not tail_length or self._source == "evidence" else "garbage"
        if self._damage and self._damage[-1].kind != "corrupt":
            tail_kind = self._damage[-1].kind
        chunks = tuple(self._chunks.values())
        firsts = [chunk.first_timestamp_ms for chunk in chunks if chunk.first_timestamp_ms is not None]
        lasts = [chunk.last_timestamp_ms for chunk in chunks if chunk.last_timestamp_ms is not None]
        return SegmentSummary(
            self._path,
            self._base_offset,
            self._size_bytes,
            batch_count=self._batch_count,
            unchecked_count=self._unchecked_count,
            unchecked_end=self._unchecked_end,
            record_count=sum(chunk.record_count for chunk in chunks),
            first_base_offset=None if first is None else first.base_offset,
            first_leader_epoch=None if first is None else first.leader_epoch,
            last_base_offset=None if last is None else last.base_offset,
            last_offset=None if last is None else last.last_offset,
            last_leader_epoch=None if last is None else last.leader_epoch,
            greatest_last_offset=max((chunk.last_offset for chunk in chunks), default=None),
            epoch_starts=tuple(self._epoch_starts),
            irregularities=self._finder.found(),
            irregularity_counts=dict(sorted(self._finder.counts.items())),
            first_sequences=self._finder.first_sequences(),
            last_sequences=self._finder.last_sequences(),
            damage=tuple(self._damage),
            tail_kind=tail_kind,
            tail_length=tail_length,
            chunks=chunks,
            greatest_magic=max(self._magics, default=None),
            has_epochs=self._has_epochs,
            has_delete_horizon=self._has_delete_horizon,
            has_sparse_batch=self._has_sparse_batch,
            first_timestamp_ms=min(firsts, default=None),
            last_timestamp_ms=max(lasts, default=None),
            open_transactions=self._transactions.open_transactions(),
            ended_producers=self._transactions.ended_producers(),
            source=self._source,
            form=self._form,
            unproven=self._unproven,
            digest=self._content.hex_digits(),
        )

    def _take(self, batches: NDArray[np.void], facts: _Facts) -> None:
        self._content.add_kept(facts.kept)
        if facts.is_irregular:
            self._finder.watch(batches)
        else:
            if facts.has_producers:
                self._finder.watch_producers(batches)
            self._finder.pass_regular(facts.end.last_offset, facts.end.leader_epoch)
        if facts.has_transactions:
            self._transactions.watch(batches)
        self._first, self._last_sound = self._first or facts.first, facts.last_sound or self._last_sound
        self._batch_count += len(batches)
        self._unchecked_count += facts.unchecked_count
        self._unchecked_end = facts.end.position if facts.is_open else None
        self._magics |= facts.magics
        self._has_epochs |= facts.has_epochs
        self._has_delete_horizon |= facts.has_delete_horizon
        self._has_sparse_batch |= facts.has_sparse_batch
        for start in facts.epoch_starts:
            if not self._epoch_starts or start.leader_epoch != self._epoch_starts[-1].leader_epoch:
                self._epoch_starts.append(start)
        self._chunks = merge_chunks((self._chunks.values(), facts.chunks))


class _Facts(NamedTuple):
    """Facts of an array of batches of one file."""

    kept: NDArray[np.uint8]
    is_irregular: bool
    has_producers: bool
    has_transactions: bool
    first: Batch
    end: Batch
    last_sound: Batch | None
    unchecked_count: int
    is_open: bool
    """The checksum of its last batch was not computed, and it has fewer records than offsets."""
    magics: frozenset[int]
    has_epochs: bool
    has_delete_horizon: bool
    has_sparse_batch: bool
    epoch_starts: list[EpochStart]
    chunks: list[ChunkDigest]


def sum_up(summarisers: Sequence[Summariser], batches: NDArray[np.void], starts: NDArray[np.int64]) -> None:
    """Give each of `summarisers` the next batches of its file: those from its start on in an array of `BATCH_DTYPE`, at least one.

    Many small files share each call of numpy, which would cost more than their batches.
    """
    if not summarisers:
        return
    ends = [*starts[1:].tolist(), len(batches)]
    for one, start, end, facts in zip(
        summarisers, starts.tolist(), ends, _facts(summarisers, batches, starts, ends), strict=True
    ):
        one._take(batches[start:end], facts)


def _facts(
    summarisers: Sequence[Summariser], batches: NDArray[np.void], starts: NDArray[np.int64], ends: list[int]
) -> Iterator[_Facts]:
    sound, magic, attributes, epochs = (batches[name] for name in ("crc_valid", "magic", "attributes", "leader_epoch"))
    new, lasts = magic == 2, np.array(ends) - 1
    sparse = batches["record_count"] < batches["last_offset"] - batches["base_offset"] + 1

    def any_of(mask: NDArray[np.bool_]) -> list[bool]:
        return np.logical_or.reduceat(mask, starts).tolist()

    last_sound = np.maximum.reduceat(np.where(sound, np.arange(len(batches)), -1), starts)
    begins = np.concatenate(([True], epochs[1:] != epochs[:-1]))
    begins[starts] = True
    changes = begins.nonzero()[0]
    names = ("leader_epoch", "base_offset", "position")
    epoch_starts = [EpochStart(*row) for row in zip(*(batches[name][changes].tolist() for name in names), strict=True)]
    bounds = [*np.searchsorted(changes, starts).tolist(), len(changes)]
    kept = kept_bytes(batches)
    # The bits and counts of a batch whose CRC is wrong do not prove a cleaner.
    sound_new = new & sound
    columns = (
        irregular_groups(batches, starts, [(one._base_offset, one._finder) for one in summarisers]),
        any_of((batches["producer_id"] >= 0) & (batches["base_sequence"] >= 0)),
        any_of(sound_new & (attributes & TRANSACTIONAL != 0)),
        batches[starts].tolist(),
        batches[lasts].tolist(),
        [None if at < 0 else row for at, row in zip(last_sound.tolist(), batches[last_sound].tolist(), strict=True)],
        np.add.reduceat(batches["crc_unchecked"], starts, dtype=np.int64).tolist(),
        (batches["crc_unchecked"] & new & sparse)[lasts].tolist(),
        zip(np.minimum.reduceat(magic, starts).tolist(), np.maximum.reduceat(magic, starts).tolist(), strict=True),
        any_of(new & (epochs >= 0)),
        any_of(sound_new & (attributes & DELETE_HORIZON != 0)),
        any_of(sound_new & sparse),
        digest_chunks(batches, starts.tolist()),
    )
    for number, (irregular, producers, transactions, first, end, last, *others) in enumerate(
        zip(*columns, strict=True)
    ):
        unchecked, is_open, magics, has_epochs, horizon, is_sparse, chunks = others
        yield _Facts(
            kept[starts[number] : ends[number]],
            irregular,
            producers,
            transactions,
            Batch._make(first),
            Batch._make(end),
            None if last is None else Batch._make(last),
            unchecked,
            is_open,
            frozenset(magics),
            has_epochs,
            horizon,
            is_sparse,
            epoch_starts[bounds[number] : bounds[number + 1]],
            chunks,
        )


@lru_cache(maxsize=64)
def _summary_of_few(
    rows: bytes, base_offset: int, size_bytes: int, source: SegmentSource, form: str, unproven: tuple[str, ...]
) -> SegmentSummary:
    """Summary, without path, of a segment with these batches (`BATCH_DTYPE`)."""
    summariser = Summariser("", base_offset, size_bytes, source=source, form=form, unproven=unproven)
    summariser.add(np.frombuffer(rows, BATCH_DTYPE))
    return summariser._finish()


def summary_to_json(summary: SegmentSummary) -> str:
    """The summary as one JSON object with sorted keys: equal summaries give equal text."""
    # `asdict` would copy every value first.
    fields = {name: getattr(summary, name) for name in summary.__dataclass_fields__}
    objects = {name: [one._asdict() for one in fields[name]] for name in _OBJECTS}
    return _ENCODER.encode(fields | objects)


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"))

#: Fields whose items are JSON objects, and their classes.
_OBJECTS = {
    "epoch_starts": EpochStart,
    "irregularities": Irregularity,
    "damage": Damage,
    "chunks": ChunkDigest,
    "open_transactions": OpenTransaction,
}


def summary_from_json(text: str) -> SegmentSummary:
    """The summary that `summary_to_json` wrote, without fields unknown to this version. Raises ValueError, KeyError or
    TypeError for anything else."""
    path = _PATH.search(text)
    if path is None:
        raise ValueError("a summary without a path")
    without = f'{text[: path.start(1)]}""{text[path.end(1) :]}'
    read = _summary_of_short if len(without) <= _SHORT else _summary_of_text
    return replace(read(without), path=json.loads(path[1]))


#: The first `path` key is the summary's own: keys that sort before it have no nested one.
_PATH = re.compile(r'"path":("(?:[^"\\]|\\.)*")')
#: Maximum number of characters of a summary kept for equal segments of other replicas.
_SHORT = 4096


def _summary_of_text(text: str) -> SegmentSummary:
    known = SegmentSummary.__dataclass_fields__
    fields = {name: value for name, value in json.loads(text).items() if name in known}
    for name, kind in _OBJECTS.items():
        fields[name] = tuple(kind(**one) for one in fields[name])
    for name in ("ended_producers", "first_sequences", "last_sequences"):
        fields[name] = tuple(map(tuple, fields[name]))
    fields["unproven"] = tuple(fields["unproven"])
    return SegmentSummary(**fields)


_summary_of_short = lru_cache(maxsize=16)(_summary_of_text)
