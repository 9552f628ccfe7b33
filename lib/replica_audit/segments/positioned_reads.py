"""A seekable binary stream over something of known size; what it is read from is the subclass's."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


class PositionedReads(io.RawIOBase, BinaryIO):
    """A stream of `size_bytes`, read from `_position` on by the `read` of a subclass."""

    def __init__(self, size_bytes: int) -> None:
        super().__init__()
        self.size_bytes = size_bytes
        self._position = 0

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def tell(self) -> int:
        """Position of the next read."""
        return self._position

    def seek(self, position: int, whence: int = 0) -> int:
        """As of any binary file."""
        self._position = max(0, position + (0, self._position, self.size_bytes)[whence])
        return self._position

    def readinto(self, buffer: WriteableBuffer) -> int:
        """As of any binary file."""
        view = memoryview(buffer)
        data = self.read(len(view)) or b""
        view[: len(data)] = data
        return len(data)
