"""Compressed payloads as Kafka frames them, expanded within a bound.

gzip members; snappy in the xerial stream that Java writes or as one raw block (librdkafka); LZ4 frames, also those of
magic 0 whose header checksum is wrong (KAFKA-3160); zstd frames. Kafka: `Compression`, `Lz4BlockInputStream`.
"""

from __future__ import annotations

import struct
import zlib

import cramjam
import pyarrow

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")

#: Nothing is expanded past this unless the caller says so; a broker's largest message is far below it.
GREATEST_EXPANSION = 256 << 20

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES = 16
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_CHUNK = 64 * 1024


class CodecError(ValueError):
    """Compressed bytes that cannot be expanded: broken, of an unknown codec, or larger than the bound."""


def decompress(codec: int, data: bytes, limit: int = GREATEST_EXPANSION) -> bytes:
    """`data` expanded by the codec number of the attributes (0–4), at most `limit` bytes; raises CodecError."""
    if codec == NONE:
        return bytes(data)
    expand = {GZIP: _gunzip, SNAPPY: _unsnap, LZ4: _unlz4, ZSTD: _unzstd}.get(codec)
    if expand is None:
        raise CodecError(f"codec {codec} does not exist")
    try:
        return expand(bytes(data), limit)
    except (cramjam.DecompressionError, zlib.error, struct.error, IndexError, OSError) as error:
        raise CodecError(f"{CODEC_NAMES[codec]} data cannot be expanded: {error}") from error


def _too_large(limit: int) -> CodecError:
    return CodecError(f"expands to more than {limit} bytes")


def _gunzip(data: bytes, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while data:
        member = zlib.decompressobj(wbits=31)
        part = member.decompress(data, limit - size + 1)
        size += len(part)
        if size > limit:
            raise _too_large(limit)
        if not member.eof:
            raise CodecError("gzip data ends within a member")
        parts.append(part)
        data = member.unused_data
        # Java's GZIPInputStream takes what follows a member for another one only if it begins as one.
        if not data.startswith(b"\x1f\x8b"):
            break
    return b"".join(parts)


def _unsnap(data: bytes, limit: int) -> bytes:
    if not data.startswith(_XERIAL_MAGIC):
        return _unsnap_block(data, limit)
    parts: list[bytes] = []
    size = 0
    position = _XERIAL_HEADER_BYTES
    while position < len(data):
        (length,) = struct.unpack_from(">i", data, position)
        position += 4
        if length < 0 or position + length > len(data):
            raise CodecError(f"snappy block of {length} bytes does not fit into its stream")
        part = _unsnap_block(data[position : position + length], limit - size)
        size += len(part)
        parts.append(part)
        position += length
    return b"".join(parts)


def _unsnap_block(block: bytes, limit: int) -> bytes:
    if cramjam.snappy.decompress_raw_len(block) > limit:
        raise _too_large(limit)
    return bytes(cramjam.snappy.decompress_raw(block))


def _unlz4(data: bytes, limit: int) -> bytes:
    """The frame is read here, since a library would refuse the header checksum of magic 0, and cannot be bounded."""
    if not data.startswith(_LZ4_MAGIC):
        raise CodecError("no LZ4 frame")
    flags, descriptor = data[4], data[5]
    if flags >> 6 != 1 or not flags & 0x20:
        raise CodecError("LZ4 frame of another version or with dependent blocks, which Kafka does not write")
    greatest_block = 1 << (8 + 2 * (descriptor >> 4 & 7))
    position = 6 + (8 if flags & 0x08 else 0) + 1
    parts: list[bytes] = []
    size = 0
    while True:
        (word,) = struct.unpack_from("<I", data, position)
        position += 4
        if word == 0:
            return b"".join(parts)
        length = word & 0x7FFFFFFF
        if position + length > len(data):
            raise CodecError(f"LZ4 block of {length} bytes does not fit into its frame")
        part = data[position : position + length]
        if not word >> 31:
            block = bytearray(greatest_block)
            part = bytes(block[: cramjam.lz4.decompress_block_into(part, block)])
        size += len(part)
        if size > limit:
            raise _too_large(limit)
        parts.append(part)
        position += length + (4 if flags & 0x10 else 0)


def _unzstd(data: bytes, limit: int) -> bytes:
    # Arrow's reader stops where it is told; Kafka writes frames without their content size, so it cannot be looked up.
    with pyarrow.CompressedInputStream(pyarrow.BufferReader(data), "zstd") as reader:
        parts: list[bytes] = []
        size = 0
        while part := reader.read(min(_CHUNK, limit - size + 1)):
            size += len(part)
            if size > limit:
                raise _too_large(limit)
            parts.append(part)
    return b"".join(parts)
