"""Seekable streams: one over a source of known size, and a moving window over one, so that memory does not grow with the file."""

from __future__ import annotations

import io
import zlib
from typing import BinaryIO

import google_crc32c

from replica_audit.errors import FormatError


class PositionedReads(io.RawIOBase, BinaryIO):
    """A stream of `size_bytes`, for subclasses that `read` from `_position` on."""

    def __init__(self, size_bytes: int) -> None:
        super().__init__()
        self.size_bytes = size_bytes
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, position: int, whence: int = 0) -> int:
        self._position = max(0, position + (0, self._position, self.size_bytes)[whence])
        return self._position

    def _end_of(self, count: int | None) -> int:
        """Position after the next `count` bytes, limited to the end; all that are left if `count` is None or negative."""
        return self.size_bytes if count is None or count < 0 else min(self.size_bytes, self._position + count)


_STEP = 1 << 20


class SegmentWindow:
    """Bytes of a seekable binary stream of `size_bytes` bytes, `capacity` of them at a time."""

    def __init__(self, stream: BinaryIO, size_bytes: int, capacity: int) -> None:
        self.size_bytes = size_bytes
        self.capacity = capacity
        self._stream = stream
        self._data = b""
        self._start = 0

    def view(self, position: int) -> tuple[bytes, int]:
        """The loaded bytes and the index of `position` in them; moves the window there unless it is loaded."""
        held = position - self._start
        if 0 <= held < len(self._data):
            return self._data, held
        return self.load(position)

    def load(self, position: int, length: int | None = None) -> tuple[bytes, int]:
        """The window moved to `position`: `length` bytes (default the capacity), fewer only at the end of the file.

        Loaded bytes are not read again unless so few that joining them costs more. Raises FormatError if the file is shorter than given.
        """
        length = min(self.capacity if length is None else length, self.size_bytes - position)
        held = position - self._start
        kept = self._data[held : held + length] if 0 <= held < len(self._data) else b""
        if len(kept) < length // 8:
            kept = self._read(position, length)
        elif len(kept) < length:
            kept += self._read(position + len(kept), length - len(kept))
        self._data, self._start = kept, position
        return kept, 0

    def peek(self, position: int, length: int) -> bytes:
        """Up to `length` bytes at `position`, without moving the window."""
        length = max(0, min(length, self.size_bytes - position))
        held = position - self._start
        if held >= 0 and held + length <= len(self._data):
            return self._data[held : held + length]
        return self._read(position, length)

    def crc32c(self, position: int, end: int) -> int:
        """CRC-32C of the bytes from `position` to `end`, read in steps unless they are loaded."""
        crc = 0
        for start in range(position, end, _STEP):
            crc = google_crc32c.extend(crc, self.peek(start, min(_STEP, end - start)))
        return crc

    def crc32(self, position: int, end: int) -> int:
        """CRC-32 (zlib) of the bytes from `position` to `end`."""
        crc = 0
        for start in range(position, end, _STEP):
            crc = zlib.crc32(self.peek(start, min(_STEP, end - start)), crc)
        return crc

    def _read(self, position: int, length: int) -> bytes:
        self._stream.seek(position)
        parts = []
        while length > 0:
            part = self._stream.read(length)
            if not part:
                hint = "the file was cut while it was read: take the snapshot again"
                expected, found = f"a file of {self.size_bytes} bytes", f"its end {length} bytes early"
                raise FormatError("segment", position, expected, found, hint)
            parts.append(part)
            position += len(part)
            length -= len(part)
        return b"".join(parts) if len(parts) != 1 else parts[0]
