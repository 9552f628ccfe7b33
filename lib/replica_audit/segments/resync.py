"""Resynchronisation after bytes that belong to no batch: the start of the next sound batch, and the kind of the tail.

The length chain is broken, so every byte may begin a batch. Candidates are found by cheap fields over many bytes at once, and
only they are given to the CRC, within a budget that grows with the bytes searched: the search stays linear, also over bytes
made to look like headers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from replica_audit.batch_header import CODEC_MASK, KNOWN_ATTRIBUTES
from replica_audit.literals import DamageKind
from replica_audit.segments.message_set import OVERHEAD_BYTES
from replica_audit.segments.record_batch import (
    CRC_FROM,
    GREATEST_SPAN,
    HEADER_BYTES,
    HEADER_DTYPE,
    MAGIC_AT,
    PREFIX_BYTES,
)
from replica_audit.segments.streams import SegmentWindow

_STEP = 1 << 20
_NULL_LENGTH = (-1).to_bytes(4, "big", signed=True)
_LEAST_SIZE = {**OVERHEAD_BYTES, 2: HEADER_BYTES}


def judge_tail(window: SegmentWindow, start: int, expected: int, end_offset: int) -> DamageKind:
    """Kind of the bytes from `start` to the end of the file, with no sound batch after `start`.

    `partial`: the available header bytes could begin the batch of offset `expected` or later, and its length passes the end of the file (or,
    in a preallocated file, the last nonzero byte). `zero_filled`: only zeros, and more than could begin an offset. `garbage`: anything else.
    """
    head = window.peek(start, MAGIC_AT + 1)
    written = _end_of_data(window, start)
    if breaks_off(head, start, window.size_bytes, written, expected, end_offset):
        return "partial"
    return "zero_filled" if written == start else "garbage"


def torn_wrapper(window: SegmentWindow, start: int, expected: int, end_offset: int) -> int | None:
    """Offset of a compressed entry of magic 0 or 1 at `start` that is cut off by the end of the file; None without one.

    The messages inside it, with offsets up to its own, may look like entries of the log. Shifted bytes easily look like
    such an entry, whose offset would hide all batches below it: so its key must be null, as every wrapper's is
    (`LegacyRecord.writeCompressedRecordHeader`), and its value must fill it.
    """
    head = window.peek(start, HEADER_BYTES)
    if len(head) < MAGIC_AT + 2 or head[MAGIC_AT] > 1 or not head[MAGIC_AT + 1] & CODEC_MASK:
        return None
    value_at = OVERHEAD_BYTES[head[MAGIC_AT]] - 4
    key, value = head[value_at - 4 : value_at], head[value_at : value_at + 4]
    filling = int.from_bytes(head[8:12], "big", signed=True) + PREFIX_BYTES - OVERHEAD_BYTES[head[MAGIC_AT]]
    if key != _NULL_LENGTH or len(value) < 4 or int.from_bytes(value, "big", signed=True) != filling:
        return None
    torn = breaks_off(head[: MAGIC_AT + 1], start, window.size_bytes, window.size_bytes, expected, end_offset)
    return int.from_bytes(head[:8], "big") if torn else None


def describe_header(head: bytes, position: int, size_bytes: int, lowest: int, end_offset: int) -> str:
    """One sentence on the bytes where a batch should begin; `head` is the first 61 of them, or fewer.

    Fields are shown only if these bytes are a header with an offset from `lowest` up to `end_offset`: other bytes may be a record's.
    """
    if len(head) < MAGIC_AT + 1:
        return f"expected a batch header, found the last {len(head)} bytes of the file"
    if not any(head):
        return "expected a batch header, found zeros"
    if not lowest <= int.from_bytes(head[:8], "big", signed=True) < end_offset:
        return "expected a batch header, found other bytes"
    size = int.from_bytes(head[8:12], "big", signed=True) + PREFIX_BYTES
    magic = head[MAGIC_AT]
    least = _LEAST_SIZE.get(magic, HEADER_BYTES)
    if size < least:
        return f"expected a batch of at least {least} bytes, found a length field for {size} (magic byte {magic})"
    if position + size > size_bytes:
        left = size_bytes - position
        return f"expected a batch that ends within the file, found a length for {size} bytes with {left} left"
    return f"expected a sound batch, found {size} bytes (magic byte {magic}) with a wrong CRC or frame, no header after"


def breaks_off(head: bytes, start: int, size_bytes: int, written: int, expected: int, end_offset: int) -> bool:
    """True if `head`, at most the first 17 bytes at `start`, could begin a batch that passes the end of the written bytes.

    The batch's offset must be from `expected` up to `end_offset`; the file has `size_bytes`, zero from `written` on.
    """
    lowest, highest = expected.to_bytes(8, "big"), (end_offset - 1).to_bytes(8, "big")
    known = head[:8]
    if not lowest[: len(known)] <= known <= highest[: len(known)]:
        return False
    if len(head) < PREFIX_BYTES:
        return True
    size = int.from_bytes(head[8:12], "big", signed=True) + PREFIX_BYTES
    magic = head[MAGIC_AT] if len(head) > MAGIC_AT else 0
    return magic in _LEAST_SIZE and size >= _LEAST_SIZE[magic] and start + size > min(size_bytes, written)


def _end_of_data(window: SegmentWindow, start: int) -> int:
    """Position after the last nonzero byte from `start` on; `start` if all are zero."""
    end = window.size_bytes
    while end > start:
        begin = max(start, end - _STEP)
        part = window.peek(begin, end - begin).rstrip(b"\0")
        if part:
            return begin + len(part)
        end = begin
    return start


#: Bytes searched at a time, at first and at most: each candidate takes a copy of 61 bytes.
_FIRST_STEP = 4 * 1024
_GREATEST_STEP = 256 * 1024
#: Bytes of CRC that each searched byte earns, and the initial credit of a scan.
CREDIT_PER_BYTE = 64
FIRST_CREDIT = 256 << 20


class CandidateHeader(NamedTuple):
    """A possible header; `last_offset` is the entry's offset for magic 0 and 1."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    magic: int
    crc: int

    @property
    def end(self) -> int:
        return self.position + self.size


def find_candidates(data: bytes, position: int, size_bytes: int, lowest: int, end_offset: int) -> list[CandidateHeader]:
    """Headers in `data`, which lies at `position` of a file of `size_bytes`, whose cheap fields could be sound.

    Magic 0 to 2, a length that fits in the file, an offset from `lowest` up to `end_offset`, no unknown attribute bits, for
    magic 2 a last offset not below the base. Only starts with `HEADER_BYTES` bytes of `data` after them are seen, so pad the
    end of a file.
    """
    raw = np.frombuffer(data, np.uint8)
    starts = len(raw) - HEADER_BYTES + 1
    if starts <= 0:
        return []
    lengths_high = raw[8 : 8 + starts]
    at = np.flatnonzero((raw[MAGIC_AT : MAGIC_AT + starts] <= 2) & (lengths_high < 0x80) & (raw[:starts] < 0x80))
    # A length of 0 is dropped before 61 bytes are gathered for each candidate: zeros are common.
    at = at[(lengths_high[at] | raw[9 + at] | raw[10 + at] | raw[11 + at]) != 0]
    if not len(at):
        return []
    rows = np.lib.stride_tricks.sliding_window_view(raw, HEADER_BYTES)[at]
    header = rows.reshape(-1).view(HEADER_DTYPE)
    magic = header["magic"]
    size = header["length"].astype(np.int64) + PREFIX_BYTES
    base = header["base_offset"].astype(np.int64)
    new = magic == 2
    delta = np.where(new, header["last_offset_delta"], 0).astype(np.int64)
    least = np.where(new, HEADER_BYTES, np.where(magic == 1, OVERHEAD_BYTES[1], OVERHEAD_BYTES[0]))
    attributes = np.where(new, header["attributes"] & ~KNOWN_ATTRIBUTES, rows[:, MAGIC_AT + 1] & 0xF0)
    sound = (size >= least) & (at + position + size <= size_bytes) & (attributes == 0) & (delta >= 0)
    sound &= (base >= lowest) & (base < end_offset) & (base + delta < end_offset)
    crc = np.where(new, header["crc"], header["leader_epoch"].astype(np.int64) & 0xFFFFFFFF)
    chosen = np.flatnonzero(sound)
    columns = (at + position, size, base, base + delta, magic, crc)
    return [CandidateHeader(*row) for row in zip(*(column[chosen].tolist() for column in columns), strict=True)]


class Resynchroniser:
    """The search for the next sound batch in one segment, and its budget."""

    def __init__(self, window: SegmentWindow, base_offset: int) -> None:
        self._window = window
        self._credit = FIRST_CREDIT
        self.end_offset = base_offset + GREATEST_SPAN + 1
        self.skipped = 0
        """Candidates left unchecked for lack of credit since the last search began."""

    def candidate_at(self, position: int, lowest: int) -> CandidateHeader | None:
        """The header at `position` if its cheap fields could be sound."""
        data = self._window.peek(position, HEADER_BYTES).ljust(HEADER_BYTES, b"\0")
        found = find_candidates(data, position, self._window.size_bytes, lowest, self.end_offset)
        return found[0] if found else None

    def affords(self, size: int) -> bool:
        """Take `size` bytes of CRC from the budget; False, without taking any, if too few are left."""
        if size > self._credit:
            return False
        self._credit -= size
        return True

    def refund(self, size: int) -> None:
        """Return to the budget what a right CRC cost."""
        self._credit += size

    def has_right_crc(self, candidate: CandidateHeader) -> bool:
        """True if the candidate's CRC matches; False also if the budget does not cover it (`skipped`)."""
        if candidate.magic < 2 and not self._has_fitting_lengths(candidate):
            return False
        if not self.affords(candidate.size):
            self.skipped += 1
            return False
        if candidate.magic == 2:
            crc = self._window.crc32c(candidate.position + CRC_FROM, candidate.end)
        else:
            crc = self._window.crc32(candidate.position + MAGIC_AT, candidate.end)
        if crc == candidate.crc:
            self.refund(candidate.size)
        return crc == candidate.crc

    def _has_fitting_lengths(self, candidate: CandidateHeader) -> bool:
        """True if key and value fill a legacy entry exactly: with so few other fields even zeros would pass."""
        key_at = candidate.position + OVERHEAD_BYTES[candidate.magic] - 8
        left = candidate.size - OVERHEAD_BYTES[candidate.magic]
        key = self._length_at(key_at)
        if not -1 <= key <= left:
            return False
        left -= max(key, 0)
        value = self._length_at(key_at + 4 + max(key, 0))
        return value == left or (value == -1 and left == 0)

    def _length_at(self, position: int) -> int:
        return int.from_bytes(self._window.peek(position, 4), "big", signed=True)

    def find_sound(
        self, start: int, stop: int, lowest: int, end_offset: int, expected: int | None
    ) -> CandidateHeader | None:
        """The first batch with a right CRC that begins at `start` or later and ends by `stop`.

        Its base offset is from `lowest` up to `end_offset`. One that begins below `expected` counts only if its own length
        leads to the batch that follows it (possibly broken off by the end of the file), or to the end of the file: a record may
        hold a batch's bytes.
        """
        self.skipped = 0
        step = _FIRST_STEP
        while start < stop:
            position = start
            data = self._window.peek(position, min(step + HEADER_BYTES - 1, stop - position))
            start += step
            self._credit += min(step, len(data)) * CREDIT_PER_BYTE
            step = min(2 * step, _GREATEST_STEP)
            if data.count(0) == len(data):
                continue
            if position + len(data) == stop:
                data += b"\0" * (HEADER_BYTES - 1)
            for candidate in find_candidates(data, position, stop, lowest, end_offset):
                if not self.has_right_crc(candidate):
                    continue
                if expected is None or candidate.base_offset >= expected or self._is_followed(candidate):
                    # Only searched bytes earn credit.
                    self._credit = max(0, self._credit - max(0, start - candidate.position) * CREDIT_PER_BYTE)
                    return candidate
        return None

    def _is_followed(self, candidate: CandidateHeader) -> bool:
        end, size_bytes, next_offset = candidate.end, self._window.size_bytes, candidate.last_offset + 1
        if end == size_bytes:
            return True
        following = self.candidate_at(end, next_offset)
        if following is not None:
            return following.magic < 2 or following.base_offset == next_offset or self.has_right_crc(following)
        head = self._window.peek(end, MAGIC_AT + 1)
        return breaks_off(head, end, size_bytes, size_bytes, next_offset, next_offset + 1)
