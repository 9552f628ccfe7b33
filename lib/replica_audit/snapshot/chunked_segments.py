"""Segments as Aiven's plugin stores them: cut into chunks, each transformed on its own, with a manifest that describes them.

Source: `SegmentManifestV1`, `FixedSizeChunkIndex`, `VariableSizeChunkIndex`, `ChunkSizesBinaryCodec`,
`CompressionChunkEnumeration` and `EncryptionChunkEnumeration` of github.com/Aiven-Open/tiered-storage-for-apache-kafka.
"""

from __future__ import annotations

import base64
import binascii
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import BinaryIO

from replica_audit.cached_property import cached_property
from replica_audit.errors import FormatError
from replica_audit.parsing import INT32, fits, is_whole, parse_json, show_value
from replica_audit.segments.compression import GREATEST_EXPANSION, ZSTD, CodecError, ExpansionError, decompress
from replica_audit.segments.streams import PositionedReads

_HINT = "give the store of a version of Aiven's plugin that writes manifests of version 1"
#: Limits for the list of chunk sizes, in bytes (`TransformedChunksDeserializer.MAX_DECOMPRESSED_SIZE`), and for the number of chunks.
_GREATEST_INDEX, _GREATEST_NUMBER = 10 << 20, 1 << 20
#: Only large chunks are expanded beyond this size.
_PLENTY = 32 << 20


@dataclass(frozen=True)
class ChunkedSegment:
    """A manifest: a segment of `size_bytes`, cut into chunks of `chunk_bytes`, the last of which may be smaller."""

    size_bytes: int
    chunk_bytes: int
    stored: Sequence[int]
    """Size of each chunk in the object, in order."""
    is_compressed: bool
    """True if each chunk is a zstd frame, encrypted or not."""
    is_encrypted: bool

    @cached_property
    def ends(self) -> Sequence[int]:
        """End of each chunk in the object."""
        return tuple(accumulate(self.stored))

    def size_of(self, chunk: int) -> int:
        """Number of segment bytes in a chunk."""
        return min(self.chunk_bytes, self.size_bytes - chunk * self.chunk_bytes)

    def bytes_in(self, object_bytes: int) -> int:
        """Number of segment bytes in the complete chunks of an object of this size."""
        return min(self.size_bytes, self.chunk_bytes * bisect_right(self.ends, object_bytes))


def parse_manifest(data: bytes, path: str) -> ChunkedSegment:
    """The manifest at `path`. Raises FormatError for one that the plugin would reject, or of another version."""
    value = parse_json(data, path, _HINT)
    index = {"type": str, "originalChunkSize": int, "originalFileSize": int}
    if not fits(value, {"version": str, "chunkIndex": index, "compression": bool}) or value["version"] != "1":
        raise FormatError(path, None, "a manifest of version 1", show_value(value), _HINT)
    index = value["chunkIndex"]
    size, each = index["originalFileSize"], index["originalChunkSize"]
    if not 0 <= size <= INT32 or not 0 < each <= INT32:
        raise FormatError(path, None, f"sizes up to {INT32}", show_value(index), _HINT)
    number = -(-size // each)
    if number > _GREATEST_NUMBER:
        raise FormatError(path, None, f"up to {_GREATEST_NUMBER} chunks", str(number), _HINT)
    try:
        stored = _stored_sizes(index, number)
    except (CodecError, ValueError) as error:
        raise FormatError(path, None, f"the sizes of {number} chunks", str(error), _HINT) from error
    return ChunkedSegment(size, each, stored, value["compression"], value.get("encryption") is not None)


def _stored_sizes(index: dict, number: int) -> Sequence[int]:
    """Sizes of `number` chunks in the object. Raises ValueError and CodecError."""
    if index["type"] == "fixed":
        each, last = index.get("transformedChunkSize"), index.get("finalTransformedChunkSize")
        if not (is_whole(each, 0, INT32) and is_whole(last, 0, INT32)):
            raise ValueError(show_value(index))
        return (*[each] * (number - 1), last) if number else ()
    if index["type"] != "variable" or not isinstance(index.get("transformedChunks"), str):
        raise ValueError(show_value(index))
    try:
        data = decompress(ZSTD, base64.b64decode(index["transformedChunks"], validate=True), _GREATEST_INDEX)
    except binascii.Error as error:
        raise ValueError(str(error)) from error
    sizes = _decode_sizes(data)
    if len(sizes) != number:
        raise ValueError(f"those of {len(sizes)}")
    return sizes


def _decode_sizes(data: bytes) -> Sequence[int]:
    """Decode the output of `ChunkSizesBinaryCodec`: count; if above 1, a base, the width of the differences, and the
    difference from the base of each size but the last; then the last size. Raises ValueError."""
    count = int.from_bytes(data[:4], "big")
    if count == 0:
        if len(data) != 4:
            raise ValueError(f"{len(data)} bytes for no size")
        return ()
    last = int.from_bytes(data[-4:], "big")
    width = data[8] if count > 1 and len(data) > 8 else 0
    head, body = (4, 0) if count == 1 else (9, (count - 1) * width)
    if len(data) != head + body + 4 or width > 4:
        raise ValueError(f"{len(data)} bytes for {count} sizes of width {width}")
    base = int.from_bytes(data[4:8], "big") if count > 1 else 0
    places = (slice(head + width * number, head + width * (number + 1)) for number in range(count - 1))
    sizes = (*(base + int.from_bytes(data[place], "big") for place in places), last)
    if max(sizes) > INT32:
        raise ValueError(f"a size of {max(sizes)}")
    return sizes


class DecompressedChunks(PositionedReads):
    """The segment in a compressed object, as a seekable stream. Memory: one chunk, at most `GREATEST_EXPANSION`.

    A broken or incomplete chunk reads as zeros, which contain no batch: the scan reports the missing offsets and continues
    after it. Raises OSError for a chunk that expands beyond the limit.
    """

    def __init__(self, stream: BinaryIO, segment: ChunkedSegment, path: str) -> None:
        super().__init__(segment.size_bytes)
        self._stream = stream
        self._segment = segment
        self._path = path
        self._chunk = -1
        self._data = b""

    def close(self) -> None:
        self._stream.close()
        super().close()

    def read(self, count: int | None = -1) -> bytes:
        """Up to `count` bytes, fewer only at the end."""
        end = self._end_of(count)
        parts = []
        while self._position < end:
            chunk, at = divmod(self._position, self._segment.chunk_bytes)
            part = self._decompressed(chunk)[at : at + end - self._position]
            parts.append(part)
            self._position += len(part)
        return b"".join(parts)

    def _decompressed(self, chunk: int) -> bytes:
        if chunk != self._chunk:
            size, stored = self._segment.size_of(chunk), self._segment.stored[chunk]
            if size > GREATEST_EXPANSION:
                raise OSError(f"{self._path}: chunk {chunk} expands to more than {GREATEST_EXPANSION} bytes")
            self._stream.seek(self._segment.ends[chunk] - stored)
            try:
                data = decompress(ZSTD, self._stream.read(stored), max(size, _PLENTY))
            except CodecError as error:
                if isinstance(error, ExpansionError) and size > _PLENTY:
                    raise OSError(f"{self._path}: chunk {chunk} {error}") from error
                data = b""
            self._chunk, self._data = chunk, data if len(data) == size else bytes(size)
        return self._data
