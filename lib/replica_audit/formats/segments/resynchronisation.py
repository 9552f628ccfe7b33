"""Finding the next sound batch of a segment after bytes that are not a batch: candidate headers, and the ones that
hold.

The length chain is broken, so every byte may begin a batch. Candidates are found by cheap fields over many bytes at
once, and only they are given to the CRC, within a budget that grows with the bytes searched: the search stays linear,
also over bytes made to look like headers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from replica_audit.batch_header import KNOWN_ATTRIBUTES
from replica_audit.formats.segments.batches import (
    CRC_FROM,
    GREATEST_SPAN,
    HEADER_BYTES,
    HEADER_DTYPE,
    MAGIC_AT,
    PREFIX_BYTES,
)
from replica_audit.formats.segments.legacy import OVERHEAD_BYTES
from replica_audit.formats.segments.tails import breaks_off
from replica_audit.formats.segments.windows import SegmentWindow

#: Bytes looked at in one go, at first and at most: 61 bytes are gathered for each candidate among them.
_FIRST_STEP = 4 * 1024
_GREATEST_STEP = 256 * 1024
#: Bytes of CRC that each byte searched pays for, and what a scan has to begin with.
CREDIT_PER_BYTE = 64
FIRST_CREDIT = 256 << 20


class Candidate(NamedTuple):
    """A header that could be one: `last_offset` is the entry's offset for magic 0 and 1."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    magic: int
    crc: int

    @property
    def end(self) -> int:
        return self.position + self.size


def find_candidates(data: bytes, position: int, size_bytes: int, lowest: int, end_offset: int) -> list[Candidate]:
    """Headers in `data`, which lies at `position` of a file of `size_bytes`, whose cheap fields could be sound.

    Magic 0 to 2, a length that the file has room for, an offset from `lowest` up to `end_offset`, no unknown
    attribute bits, for magic 2 a last offset not below the base. Only starts with `HEADER_BYTES` bytes of `data` after
    them are seen, so pad the end of a file.
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
    return [Candidate(*row) for row in zip(*(column[chosen].tolist() for column in columns), strict=True)]


class Resynchroniser:
    """The search for the next sound batch in one segment, and the budget that bounds it."""

    def __init__(self, window: SegmentWindow, base_offset: int) -> None:
        self._window = window
        self._credit = FIRST_CREDIT
        self.end_offset = base_offset + GREATEST_SPAN + 1
        self.skipped = 0
        """Candidates that were not checked, for lack of credit, since the last search began."""

    def candidate_at(self, position: int, lowest: int) -> Candidate | None:
        """The header at `position` if its cheap fields could be sound."""
        data = self._window.peek(position, HEADER_BYTES).ljust(HEADER_BYTES, b"\0")
        found = find_candidates(data, position, self._window.size_bytes, lowest, self.end_offset)
        return found[0] if found else None

    def affords(self, size: int) -> bool:
        """Take `size` bytes of CRC from the budget; False, and nothing taken, when there is not so much."""
        if size > self._credit:
            return False
        self._credit -= size
        return True

    def refund(self, size: int) -> None:
        """Give back what was taken for a CRC that turned out right."""
        self._credit += size

    def has_right_crc(self, candidate: Candidate) -> bool:
        """Whether the candidate's CRC is right; False also where the budget does not pay for it (`skipped`)."""
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

    def _has_fitting_lengths(self, candidate: Candidate) -> bool:
        """Whether key and value of a legacy entry fill it exactly: its other fields are so few that zeros pass them."""
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

    def find_sound(self, start: int, stop: int, lowest: int, end_offset: int, expected: int | None) -> Candidate | None:
        """The first batch with a right CRC that begins at `start` or after and ends by `stop`.

        Its base offset is from `lowest` up to `end_offset`. One that begins below `expected` is believed only where its
        own length leads to the batch that follows it (broken off by the end of the file, perhaps), or to the end of the
        file: a record may hold a batch's bytes.
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
                    # Only what was searched pays.
                    self._credit = max(0, self._credit - max(0, start - candidate.position) * CREDIT_PER_BYTE)
                    return candidate
        return None

    def _is_followed(self, candidate: Candidate) -> bool:
        end, size_bytes, next_offset = candidate.end, self._window.size_bytes, candidate.last_offset + 1
        if end == size_bytes:
            return True
        following = self.candidate_at(end, next_offset)
        if following is not None:
            return following.magic < 2 or following.base_offset == next_offset
        head = self._window.peek(end, MAGIC_AT + 1)
        return breaks_off(head, end, size_bytes, size_bytes, next_offset, next_offset + 1)
