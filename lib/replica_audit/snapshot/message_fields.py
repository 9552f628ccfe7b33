"""Decoding of the fields of Kafka's messages: flexible ones (KIP-482), and strings of older ones (`ByteBufferAccessor`)."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Iterable
from typing import NamedTuple

_INT8, _INT16, _UINT16, _INT32, _INT64 = (struct.Struct(f">{code}") for code in "bhHiq")
_UUID_BYTES = 16
#: `Uuid.ZERO_UUID` as Kafka prints it: no id.
ZERO_UUID = "A" * 22


class MessageError(ValueError):
    """Bytes that are not the expected message; the text says what was expected and found, and at which byte."""


class FieldReader:
    """Reads one message from front to back. Every method raises MessageError for missing or invalid bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    @property
    def left(self) -> int:
        """Number of bytes not read yet."""
        return len(self._data) - self._position

    def take(self, count: int) -> bytes:
        begin, end = self._position, self._position + count
        if not begin <= end <= len(self._data):
            raise MessageError(f"expected {count} bytes at byte {begin} of the message, found {self.left}")
        self._position = end
        return self._data[begin:end]

    def uvarint(self) -> int:
        """An unsigned varint of at most 32 bits: seven bits per byte, lowest first."""
        first = self._data[self._position : self._position + 1]
        if first and first[0] < 0x80:
            # Nearly all are of one byte.
            self._position += 1
            return first[0]
        value = 0
        for number in range(5):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << 7 * number
            if byte < 0x80 and value < 2**32:
                return value
            if byte < 0x80:
                break
        raise MessageError(f"expected a varint of at most 32 bits before byte {self._position}, found a longer one")

    def int8(self) -> int:
        return _INT8.unpack(self.take(1))[0]

    def int16(self) -> int:
        return _INT16.unpack(self.take(2))[0]

    def uint16(self) -> int:
        return _UINT16.unpack(self.take(2))[0]

    def int32(self) -> int:
        return _INT32.unpack(self.take(4))[0]

    def int64(self) -> int:
        return _INT64.unpack(self.take(8))[0]

    def boolean(self) -> bool:
        return self.take(1) != b"\x00"

    def uuid(self) -> str:
        """A UUID as Kafka prints it: base64url without padding, 22 characters."""
        return base64.urlsafe_b64encode(self.take(_UUID_BYTES)).rstrip(b"=").decode("ascii")

    def nullable_string(self) -> str | None:
        """A compact string; None for null."""
        length = self.uvarint()
        if not length:
            return None
        data = self.take(length - 1)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            raise MessageError(
                f"expected UTF-8 before byte {self._position} of the message, found other bytes"
            ) from None

    def string(self) -> str:
        """A compact string that is not null."""
        text = self.nullable_string()
        if text is None:
            raise MessageError(f"expected a string before byte {self._position} of the message, found null")
        return text

    def old_string(self) -> str:
        """A string of a message that is not flexible; other bytes than UTF-8 are replaced."""
        return self.take(self.int16()).decode("utf-8", "replace")

    def skip_compact(self) -> None:
        """Skip a compact string or compact bytes, null or not."""
        self.take(max(0, self.uvarint() - 1))

    def array_length(self) -> int:
        """Length of a compact array, 0 for null; never more than the bytes left."""
        length = max(0, self.uvarint() - 1)
        if length > self.left:
            raise MessageError(
                f"expected an array within the message before byte {self._position}, found {length} elements"
            )
        return length

    def ids(self) -> tuple[int, ...]:
        """A compact array of int32."""
        return tuple(self.int32() for _ in range(self.array_length()))

    def uuids(self) -> tuple[str, ...]:
        """A compact array of UUIDs."""
        return tuple(self.uuid() for _ in range(self.array_length()))

    def tags(self) -> dict[int, FieldReader]:
        """The tagged fields at the end of a structure, by tag, including those of later versions."""
        found: dict[int, FieldReader] = {}
        last = -1
        for _ in range(self.uvarint()):
            tag, size = self.uvarint(), self.uvarint()
            if tag <= last:
                raise MessageError(
                    f"expected tags in ascending order before byte {self._position}, found {tag} after {last}"
                )
            found[tag], last = FieldReader(self.take(size)), tag
        return found

    def finish(self) -> None:
        """Raise MessageError unless everything was read."""
        if self.left:
            raise MessageError(
                f"expected the end of the message at byte {self._position}, found {self.left} more bytes"
            )


class Field(NamedTuple):
    """One field of a structure, as Kafka's message schemas (`*.json`) list them."""

    name: str | None
    """None for a field that is skipped."""
    read: Callable[[FieldReader], object]
    since: int = 0
    """First version that has it."""
    tag: int | None = None
    """Number of a tagged field; None for others."""


def read_structure(reader: FieldReader, fields: Iterable[Field], version: int = 0) -> dict[str, object]:
    """The fields of a structure by name, except those that the version lacks and absent tagged ones.

    Raises MessageError.
    """
    found, tagged = {}, []
    for field in fields:
        if version < field.since:
            continue
        if field.tag is not None:
            tagged.append(field)
            continue
        value = field.read(reader)
        if field.name is not None:
            found[field.name] = value
    tags = reader.tags()
    for field in tagged:
        if field.tag in tags and field.name is not None:
            found[field.name] = field.read(tags[field.tag])
    return found


def array_of(*fields: Field) -> Callable[[FieldReader], list[dict[str, object]]]:
    """Reader of a compact array of structures."""

    def read(reader: FieldReader) -> list[dict[str, object]]:
        return [read_structure(reader, fields) for _ in range(reader.array_length())]

    return read
