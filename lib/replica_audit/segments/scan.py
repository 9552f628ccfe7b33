"""Scan of a segment file: its batches in order, the damage between them, and the kind of its tail.

Kafka stops at the first wrong byte (`FileLogInputStream.nextBatch`, `LogSegment.recover`); here scanning continues at the next
sound batch, since an audit must say what a restart would destroy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from replica_audit.errors import FormatError
from replica_audit.model import Damage
from replica_audit.segments.frames import FrameStream
from replica_audit.segments.message_set import decode_entries
from replica_audit.segments.record_batch import (
    BATCH_DTYPE,
    CRC_FROM,
    HEADER_BYTES,
    LEAST_ENTRY_BYTES,
    MAGIC_AT,
    PREFIX_BYTES,
    decode_batches,
    decode_headers,
    follow_lengths,
    gather_headers,
)
from replica_audit.segments.resync import Resynchroniser, describe_header, judge_tail, torn_wrapper
from replica_audit.segments.streams import SegmentWindow

#: Small enough to stay in the processor's cache between reading, checksums and headers.
WINDOW_BYTES = 2 << 20
GREATEST_SEGMENT = 2**31 - 1
#: An entry of magic 0 or 1 is loaded completely; no broker was ever sent a larger one.
_GREATEST_LEGACY = 256 << 20
_EVERY = 1 << 62
#: Entries decoded after damage before the scan trusts the chain again; doubles, so that damage costs no rereading.
_CAUTIOUS = 64


def scan_segment(
    stream: BinaryIO,
    size_bytes: int,
    base_offset: int,
    window: int = WINDOW_BYTES,
    known: Iterable[NDArray[np.void]] = (),
) -> Iterator[NDArray[np.void] | Damage]:
    """Everything in a segment file, in order of position: arrays of `BATCH_DTYPE`, and `Damage` between them.

    `stream` is binary and seekable, `size_bytes` its length, `base_offset` the offset in its name. Positions, sizes and lengths
    of damage tile the file exactly. A batch whose length leads to a plausible next header (or the end of the file) but whose
    CRC is wrong is a batch with `crc_valid` False; if the frame itself is wrong it is damage. Memory: a few windows, or one
    legacy entry if that is larger. `known` are the batches that the file begins with, if an earlier scan found nothing wrong up
    to their end: they come first, and reading begins after them. For evidence they are the batches of its headers.

    Raises FormatError if the file is shorter than `size_bytes`, larger than Kafka opens (`FileRecords`), or not completely accounted for.
    """
    if size_bytes > GREATEST_SEGMENT:
        expected = f"a segment of at most {GREATEST_SEGMENT} bytes"
        raise FormatError("segment", None, expected, f"{size_bytes} bytes", "Kafka refuses to open such a file")
    if isinstance(stream, FrameStream):
        known = stream.known()
    items = _Scan(SegmentWindow(stream, size_bytes, max(window, 2 * HEADER_BYTES)), base_offset).items(known)
    yield from account_for_bytes(items, size_bytes)


def account_for_bytes(
    items: Iterable[NDArray[np.void] | Damage], size_bytes: int
) -> Iterator[NDArray[np.void] | Damage]:
    """`items` unchanged, while each begins at the end of its predecessor and the last one ends with the file.

    Raises FormatError for bytes that are left out or counted twice: nothing in a segment may be skipped silently.
    """
    end = 0
    for item in items:
        if isinstance(item, Damage):
            found, after = item.position, item.position + item.length
            whole = found == end and item.length > 0
        elif len(item):
            starts, ends = item["position"], item["position"] + item["size"]
            found, after = int(starts[0]), int(ends[-1])
            whole = found == end and bool((starts[1:] == ends[:-1]).all())
        else:
            continue
        if not whole:
            hint = "the audit goes on without this segment; please report how it was made"
            raise FormatError("segment", found, f"every byte once, from {end} on", f"an item at {found}", hint)
        yield item
        end = after
    if end != size_bytes:
        hint = "please report how this segment was made"
        raise FormatError("segment", end, f"{size_bytes} bytes accounted for", f"{end} bytes", hint)


class SmallFiles(NamedTuple):
    """The batches of small files that are chains of sound batches of magic 2 and nothing else."""

    numbers: list[int]
    """Index of each such file among those given."""
    starts: NDArray[np.int64]
    """Index of each file's first batch."""
    batches: NDArray[np.void]
    """`BATCH_DTYPE`, file after file."""

    def each(self) -> Iterator[tuple[int, NDArray[np.void]]]:
        """Number and batches of each file."""
        for number, start, end in zip(
            self.numbers, self.starts.tolist(), [*self.starts[1:].tolist(), len(self.batches)]
        ):
            yield number, self.batches[start:end]


def decode_small(contents: Sequence[bytes]) -> SmallFiles:
    """Decode files that are given whole, with one call for all of them; those left out need `scan_segment`."""
    chains = [follow_lengths(content, 0, _EVERY) for content in contents]
    numbers = [number for number, (_, end) in enumerate(chains) if 0 < len(contents[number]) == end]
    if not numbers:
        return SmallFiles([], np.empty(0, np.int64), np.empty(0, BATCH_DTYPE))
    sizes = np.array([len(contents[number]) for number in numbers])
    counts = np.array([len(chains[number][0]) for number in numbers])
    origins, firsts = np.repeat(np.cumsum(sizes) - sizes, counts), np.cumsum(counts) - counts
    # An old last entry may be shorter than a header.
    data = b"".join((*(contents[number] for number in numbers), bytes(HEADER_BYTES)))
    batches, broken = decode_batches(data, np.concatenate([chains[n][0] for n in numbers]) + origins, -origins)
    is_new = (batches["magic"] < 0) | (batches["magic"] >= 2)
    sound = is_new & (batches["size"] >= HEADER_BYTES) & batches["crc_valid"] & ~broken
    whole = np.logical_and.reduceat(sound, firsts)
    counts = counts[whole]
    found = [number for number, is_whole in zip(numbers, whole.tolist(), strict=True) if is_whole]
    return SmallFiles(found, np.cumsum(counts) - counts, batches[np.repeat(whole, np.diff(firsts, append=len(sound)))])


class _Scan:
    """One pass over one file: its position, and the offset expected next."""

    def __init__(self, window: SegmentWindow, base_offset: int) -> None:
        self._window = window
        self._size = window.size_bytes
        self._search = Resynchroniser(window, base_offset)
        self._lowest = base_offset
        self._expected: int | None = None
        self._confirmed = base_offset
        self._position = 0
        self._limit = _EVERY

    def items(self, known: Iterable[NDArray[np.void]]) -> Iterator[NDArray[np.void] | Damage]:
        """Arrays of batches, and damage, in order of position."""
        for batches in known:
            self._accept(batches)
            yield batches
        while self._position < self._size:
            batches, broken = self._decode_stretch()
            if len(batches):
                count = self._count_believed(batches, broken)
                if count:
                    self._accept(batches[:count])
                    yield batches[:count]
                if count == len(batches):
                    self._limit = min(self._limit * 2, _EVERY)
                    continue
            yield self._resynchronise()

    def _accept(self, batches: NDArray[np.void]) -> None:
        last = batches[-1]
        self._position = int(last["position"] + last["size"])
        before = int(batches[-2]["last_offset"]) + 1 if len(batches) > 1 else self._expected
        self._expected = int(last["last_offset"]) + 1
        # No CRC covers a base offset: one that does not continue its neighbour's must not hide the batches below it.
        before = self._lowest if before is None else before
        self._confirmed = self._expected if last["base_offset"] == before else min(before, self._expected)
        self._lowest = min(self._lowest, int(batches["base_offset"].min()))

    def _decode_stretch(self) -> tuple[NDArray[np.void], NDArray[np.bool_]]:
        """Entries of one kind from the current position on, and a mask of those with an impossible frame."""
        data, at = self._window.view(self._position)
        starts, end = follow_lengths(data, at, self._limit)
        if not len(starts):
            return self._decode_single()
        file_position = self._position - at
        legacy = np.frombuffer(data, np.uint8)[starts + MAGIC_AT] < 2
        changes = (legacy != legacy[0]).nonzero()[0]
        sizes = np.concatenate((starts[1:], [end])) - starts
        if len(changes):
            starts, sizes = starts[: changes[0]], sizes[: changes[0]]
        if legacy[0]:
            return decode_entries(data, starts, sizes, file_position, self._expected)
        short = (sizes < HEADER_BYTES).nonzero()[0]
        return decode_batches(data, starts[: short[0]] if len(short) else starts, file_position)

    def _decode_single(self) -> tuple[NDArray[np.void], NDArray[np.bool_]]:
        """The entry at the current position, which does not end within the window; empty if its length is wrong.

        Charged to the budget of the resynchronisation and refunded if the CRC matches, so that crafted lengths cannot cause
        quadratic reads.
        """
        nothing = np.empty(0, BATCH_DTYPE), np.empty(0, bool)
        head = self._window.peek(self._position, HEADER_BYTES)
        size = int.from_bytes(head[8:12], "big", signed=True) + PREFIX_BYTES
        left = self._size - self._position
        if len(head) < LEAST_ENTRY_BYTES or not LEAST_ENTRY_BYTES <= size <= left:
            return nothing
        legacy = head[MAGIC_AT] < 2
        if (size < HEADER_BYTES and not legacy) or not self._search.affords(size):
            return nothing
        if legacy and size > _GREATEST_LEGACY:
            return nothing
        if legacy or size <= self._window.capacity:
            data, _ = self._window.load(self._position, max(size, self._window.capacity))
            start = np.array([0])
            if legacy:
                entry, broken = decode_entries(data, start, np.array([size]), self._position, self._expected)
            else:
                entry, broken = decode_batches(data, start, self._position)
        else:
            entry, broken = decode_headers(gather_headers(head, np.array([0])), np.array([self._position]))
            crc = self._window.crc32c(self._position + CRC_FROM, self._position + size)
            entry["crc_valid"] = entry["crc"] == crc
        if entry["crc_valid"][0]:
            self._search.refund(size)
        return entry, broken

    def _count_believed(self, batches: NDArray[np.void], broken: NDArray[np.bool_]) -> int:
        """Number of `batches`, from the first on, whose frames are credible."""
        for index in (broken | ~batches["crc_valid"]).nonzero()[0].tolist():
            if broken[index] or not self._is_framed(batches[index]):
                return index
        return len(batches)

    def _is_framed(self, batch: np.void) -> bool:
        """True if the length field of a batch with a wrong CRC is credible.

        It must lead to the end of the file or to a possible next header. If that header does not continue the offsets, the
        length may have jumped over sound batches: then there must be none within.
        """
        last, end = int(batch["last_offset"]), int(batch["position"] + batch["size"])
        end_offset = self._search.end_offset
        if not self._lowest <= batch["base_offset"] <= last < end_offset:
            return False
        if end < self._size:
            following = self._search.candidate_at(end, last + 1)
            if following is None:
                return False
            if following.base_offset == last + 1:
                return True
            end_offset = following.base_offset
        start = int(batch["position"]) + 1
        return self._search.find_sound(start, end, last + 1, end_offset, None) is None

    def _resynchronise(self) -> Damage:
        start, end_offset = self._position, self._search.end_offset
        expected = self._expected
        due = self._lowest if expected is None else expected
        torn = torn_wrapper(self._window, start, due, end_offset)
        lowest = self._lowest if torn is None else torn + 1
        found = self._search.find_sound(start + 1, self._size, lowest, end_offset, self._confirmed)
        self._position = self._size if found is None else found.position
        self._limit = _CAUTIOUS
        length = self._position - start
        head = self._window.peek(start, HEADER_BYTES)
        reason = describe_header(head, start, self._size, self._lowest, end_offset)
        if self._search.skipped:
            reason += f"; {self._search.skipped} places that look like headers were not checked, there are too many"
        if found is not None:
            return Damage(start, length, reason, "corrupt", expected, found.base_offset)
        kind = judge_tail(self._window, start, due, end_offset)
        return Damage(start, length, reason, kind, expected, None)
