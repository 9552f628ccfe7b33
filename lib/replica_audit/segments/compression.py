"""Expansion, within a bound, of compressed payloads as Kafka frames them.

gzip members; snappy in the xerial stream that Java writes or as one raw block (librdkafka); LZ4 frames, including those of
magic 0 whose header checksum is wrong (KAFKA-3160); zstd frames. Kafka: `Compression`, `Lz4BlockInputStream`.
"""

from __future__ import annotations

import struct
import zlib

import cramjam

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")

#: Default bound of expansion; a broker's largest message is far below it.
GREATEST_EXPANSION = 256 << 20

_GREATEST_RATIO, _ALWAYS_EXPANDED = 4096, 32 << 20

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES = 16
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_ZSTD_MAGIC, _ZSTD_SKIPPED = b"\x28\xb5\x2f\xfd", b"\x2a\x4d\x18"
_RAW, _RLE, _, _RESERVED = range(4)
_GREATEST_ZSTD_BLOCK = 128 << 10
#: Far more than a producer makes for the largest message.
_GREATEST_BLOCKS, _GREATEST_MEMBERS = 1 << 16, 1000


class CodecError(ValueError):
    """Compressed bytes that cannot be expanded: broken, or of an unknown codec."""


class ExpansionError(CodecError):
    """Compressed bytes that expand beyond the bound; Kafka may well expand them."""


def decompress(codec: int, data: bytes | memoryview, limit: int = GREATEST_EXPANSION) -> bytes:
    """`data` expanded by the codec number in the attributes (0–4). Raises CodecError, beyond the bound ExpansionError.

    At most `limit` bytes, and fewer for little data: no records compress by more than `_GREATEST_RATIO`, but bombs do.
    """
    if codec == NONE:
        return bytes(data)
    limit = min(limit, max(_ALWAYS_EXPANDED, _GREATEST_RATIO * len(data)))
    expand = {GZIP: _gunzip, SNAPPY: _unsnap, LZ4: _unlz4, ZSTD: _unzstd}.get(codec)
    if expand is None:
        raise CodecError(f"codec {codec} does not exist")
    try:
        return expand(bytes(data), limit)
    except (cramjam.DecompressionError, zlib.error, struct.error, IndexError, OSError) as error:
        raise CodecError(f"{CODEC_NAMES[codec]} data cannot be expanded: {error}") from error


def _too_large(limit: int) -> ExpansionError:
    return ExpansionError(f"expands to more than {limit} bytes")


def _gunzip(data: bytes, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    for _ in range(_GREATEST_MEMBERS):
        member = zlib.decompressobj(wbits=31)
        part = member.decompress(data, limit - size + 1)
        size += len(part)
        if size > limit:
            raise _too_large(limit)
        if not member.eof:
            raise CodecError("gzip data ends within a member")
        parts.append(part)
        data = member.unused_data
        # Java's GZIPInputStream reads on after a member only if the next bytes begin like another one.
        if not data.startswith(b"\x1f\x8b"):
            return b"".join(parts)
    raise ExpansionError(f"has more than {_GREATEST_MEMBERS} gzip members")


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
            raise CodecError("a snappy block does not fit into its stream")
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
    """Expand an LZ4 frame. A library would reject the header checksum of magic 0, and cannot be bounded."""
    if not data.startswith(_LZ4_MAGIC):
        raise CodecError("no LZ4 frame")
    flags, descriptor = data[4], data[5]
    if flags >> 6 != 1 or not flags & 0x20:
        raise CodecError("LZ4 frame of another version or with dependent blocks, which Kafka does not write")
    greatest_block = 1 << (8 + 2 * (descriptor >> 4 & 7))
    position = 6 + (8 if flags & 0x08 else 0) + 1
    parts: list[bytes] = []
    size = 0
    block = bytearray(min(greatest_block, limit + 1))
    view = memoryview(block)
    while True:
        (word,) = struct.unpack_from("<I", data, position)
        position += 4
        if word == 0:
            return b"".join(parts)
        length = word & 0x7FFFFFFF
        if position + length > len(data):
            raise CodecError("an LZ4 block does not fit into its frame")
        part = data[position : position + length]
        if not word >> 31:
            part = bytes(view[: cramjam.lz4.decompress_block_into(part, block)])
        size += len(part)
        if size > limit:
            raise _too_large(limit)
        parts.append(part)
        position += length + (4 if flags & 0x10 else 0)


def _unzstd(data: bytes, limit: int) -> bytes:
    bound = _bound_zstd(data, limit)
    block = bytearray(min(bound, limit + 1))
    try:
        size = cramjam.zstd.decompress_into(data, block)
    except cramjam.DecompressionError:
        if bound > limit:
            raise _too_large(limit) from None
        raise
    if size > limit:
        raise _too_large(limit)
    return bytes(memoryview(block)[:size])


def _bound_zstd(data: bytes, limit: int) -> int:
    """Upper bound of the expanded size, by the headers of the blocks (RFC 8878). Raises ExpansionError beyond `limit`.

    Kafka writes frames without their content size. A block states its size, or expands to at most 128 KiB, so that no
    allocation depends on a claim in the data.
    """
    position = bound = certain = blocks = 0
    while position < len(data):
        if data[position + 1 : position + 4] == _ZSTD_SKIPPED and data[position] >> 4 == 5:
            position += 8 + int.from_bytes(data[position + 4 : position + 8], "little")
            continue
        if data[position : position + 4] != _ZSTD_MAGIC:
            raise CodecError("no zstd frame")
        descriptor = data[position + 4]
        is_single, has_checksum, dictionary = descriptor & 0x20, descriptor & 0x04, (0, 1, 2, 4)[descriptor & 3]
        content_size = (1 if is_single else 0, 2, 4, 8)[descriptor >> 6]
        position += 5 + (0 if is_single else 1) + dictionary + content_size
        is_last = False
        while not is_last:
            if position + 3 > len(data):
                raise CodecError("zstd data ends within a frame")
            header = int.from_bytes(data[position : position + 3], "little")
            is_last, kind, size = bool(header & 1), header >> 1 & 3, header >> 3
            position += 3 + (1 if kind == _RLE else size)
            bound += size if kind in (_RAW, _RLE) else _GREATEST_ZSTD_BLOCK
            certain += size if kind in (_RAW, _RLE) else 0
            blocks += 1
            if kind == _RESERVED:
                raise CodecError(f"zstd block {blocks} cannot be")
            if blocks > _GREATEST_BLOCKS:
                raise ExpansionError(f"has more than {_GREATEST_BLOCKS} zstd blocks")
            if certain > limit:
                raise _too_large(limit)
        position += 4 if has_checksum else 0
    if position > len(data):
        raise CodecError("zstd data ends within a frame")
    return bound
