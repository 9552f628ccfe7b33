"""What the bytes after the last sound batch of a segment are: an incomplete batch, zeros, or neither."""

from __future__ import annotations

from replica_audit.batch_header import CODEC_MASK
from replica_audit.closed_sets import DamageKind
from replica_audit.formats.segments.batches import HEADER_BYTES, MAGIC_AT, PREFIX_BYTES
from replica_audit.formats.segments.legacy import OVERHEAD_BYTES
from replica_audit.formats.segments.windows import SegmentWindow

_STEP = 1 << 20
_NULL_LENGTH = (-1).to_bytes(4, "big", signed=True)
_LEAST_SIZE = {**OVERHEAD_BYTES, 2: HEADER_BYTES}


def judge_tail(window: SegmentWindow, start: int, expected: int, end_offset: int) -> DamageKind:
    """Kind of the bytes from `start` to the end of the file, which no sound batch follows.

    `partial`: what is there of a header could begin the batch of offset `expected` or later, and its length passes the
    end of the file (or, in a preallocated file, the last byte that is not zero). `zero_filled`: nothing but zeros, and
    more of them than could begin an offset. `garbage`: else.
    """
    head = window.peek(start, MAGIC_AT + 1)
    written = _end_of_data(window, start)
    if breaks_off(head, start, window.size_bytes, written, expected, end_offset):
        return "partial"
    return "zero_filled" if written == start else "garbage"


def torn_wrapper(window: SegmentWindow, start: int, expected: int, end_offset: int) -> int | None:
    """The offset of a compressed entry of magic 0 or 1 at `start` that the end of the file breaks off; None if there is none.

    Its messages may lie in it as they are, with offsets up to its own. They are not entries of the log. Bytes that are
    shifted look like such an entry easily, and its offset would hide all batches below it: so its key has to be null,
    as every wrapper's is (`LegacyRecord.writeCompressedRecordHeader`), and its value has to fill it.
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


def describe_place(head: bytes, position: int, size_bytes: int, lowest: int, end_offset: int) -> str:
    """One sentence on the bytes at a place where a batch should begin; `head` is its first 61 bytes or fewer.

    Fields are shown only of a header, whose offset is from `lowest` up to `end_offset`: other bytes may be a record's.
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
    """Whether `head`, the first 17 bytes or fewer at `start`, could begin a batch that passes the end of what is written.

    Its offset is from `expected` up to `end_offset`; the file has `size_bytes`, the last of them not zero at `written`.
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
    """Position after the last byte from `start` on that is not zero; `start` when all are."""
    end = window.size_bytes
    while end > start:
        begin = max(start, end - _STEP)
        part = window.peek(begin, end - begin).rstrip(b"\0")
        if part:
            return begin + len(part)
        end = begin
    return start
