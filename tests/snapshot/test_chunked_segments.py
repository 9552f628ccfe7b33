"""Segments in chunks, as Aiven's plugin stores them: sizes of chunks, compressed content, and what cannot be right."""

from __future__ import annotations

import base64
import io
import json
import random
import struct
from typing import Any

import cramjam
import pytest
from tests.support.remote_stores import compressed, encode_sizes, manifest

from replica_audit.errors import FormatError
from replica_audit.segments.compression import decompress
from replica_audit.snapshot import chunked_segments
from replica_audit.snapshot.chunked_segments import DecompressedChunks, parse_manifest

PATH = "t-id/0/00000000000000000000-id.rsm-manifest"


def variable(chunks: str, *, size: int = 100, each: int = 64) -> bytes:
    index = {"type": "variable", "originalChunkSize": each, "originalFileSize": size, "transformedChunks": chunks}
    return manifest(size, compression=True, index=index)


def packed(data: bytes) -> str:
    return base64.b64encode(bytes(cramjam.zstd.compress(data))).decode()


def opened(stored: bytes, head: bytes) -> DecompressedChunks:
    return DecompressedChunks(io.BytesIO(stored), parse_manifest(head, PATH), "the object")


@pytest.mark.parametrize("seed", range(40))
def test_sizes_of_any_width_are_read_as_they_were_written(seed: int) -> None:
    made = random.Random(seed)
    sizes = [made.randrange(1 << made.choice((4, 8, 16, 24, 30))) for _ in range(made.choice((1, 2, 3, 50)))]
    found = parse_manifest(variable(encode_sizes(sizes), size=len(sizes), each=1), PATH)
    assert list(found.stored) == sizes and found.ends[-1] == sum(sizes)


def test_an_example_of_the_plugin_is_read() -> None:
    """Base 1000000, one byte for each but the last (javadoc of `ChunkSizesBinaryCodec`)."""
    data = struct.pack(">iiB3si", 4, 1_000_000, 1, bytes((0, 10, 20)), 7)
    found = parse_manifest(variable(packed(data), size=4, each=1), PATH)
    assert list(found.stored) == [1_000_000, 1_000_010, 1_000_020, 7]


@pytest.mark.parametrize("seed", range(20))
def test_any_read_gets_the_bytes_that_were_copied(seed: int) -> None:
    made = random.Random(seed)
    content = made.randbytes(made.randrange(1, 2000))
    each = made.randrange(1, 700)
    stream = opened(*compressed(content, each))
    assert stream.size_bytes == len(content) and stream.read() == content and stream.read() == b""
    for _ in range(30):
        at, count = made.randrange(len(content)), made.randrange(300)
        stream.seek(at)
        assert stream.read(count) == content[at : at + count]


def test_a_broken_chunk_reads_as_zeros_and_the_others_as_they_are() -> None:
    content = random.Random(1).randbytes(200)
    stored, head = compressed(content)
    start, end = (parse_manifest(head, PATH).ends[at] for at in (0, 1))
    broken = stored[:start] + bytes(end - start) + stored[end:]
    assert opened(broken, head).read() == content[:64] + bytes(64) + content[128:]
    assert opened(stored[: end - 1], head).read() == content[:64] + bytes(136)
    assert parse_manifest(head, PATH).bytes_in(end - 1) == 64


def test_a_chunk_of_another_size_than_the_manifest_has_is_broken() -> None:
    content = b"x" * 100
    chunk = bytes(cramjam.zstd.compress(content))
    assert opened(chunk, variable(encode_sizes([len(chunk)]), size=99, each=200)).read() == bytes(99)


def test_a_bomb_is_not_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    """256 MiB of zeros, of which a manifest says that they are one chunk, and then that they are 100 bytes."""
    bomb = bytes(cramjam.zstd.compress(bytes(256 << 20)))
    head = variable(encode_sizes([len(bomb)]), size=(1 << 31) - 1, each=(1 << 31) - 1)
    for stored in (bomb, b""):
        with pytest.raises(OSError, match="the object: chunk 0 expands to more than"):
            opened(stored, head).read(1)
    large = variable(encode_sizes([len(bomb)]), size=200 << 20, each=200 << 20)
    with pytest.raises(OSError, match="the object: chunk 0 expands to more than"):
        opened(bomb, large).read(1)

    # Less of it than the ratio that no bomb may have would stop.
    dense = bytes(cramjam.zstd.compress(random.Random(1).randbytes(20_000) + bytes(64 << 20)))
    expanded = []

    def watched(*arguments: Any) -> bytes:
        expanded.append(decompress(*arguments))
        return expanded[-1]

    monkeypatch.setattr(chunked_segments, "decompress", watched)
    assert opened(dense, variable(encode_sizes([len(dense), 0]))).read() == bytes(100)
    assert expanded and max(map(len, expanded)) < 100, "only the sizes"


@pytest.mark.parametrize(
    "chunks",
    [
        "",
        "?",
        base64.b64encode(b"no frame").decode(),
        packed(b""),
        packed(struct.pack(">i", 0)),
        packed(struct.pack(">i", 2)),
        packed(struct.pack(">iiBi", 2, 0, 200, 0)),
        packed(struct.pack(">iiBi", -1, 0, 1, 0)),
        packed(struct.pack(">ii", 1, 5)),
        packed(struct.pack(">iiBBi", 2, -1, 1, 1, 5)),
        packed(struct.pack(">i", 3) + bytes(8)),
        encode_sizes([1, 2, 3]),
    ],
)
def test_sizes_that_cannot_be_are_refused(chunks: str) -> None:
    with pytest.raises(FormatError, match="the sizes of 2 chunks"):
        parse_manifest(variable(chunks), PATH)


def test_sizes_that_expand_to_more_than_any_list_of_them_are_not_expanded() -> None:
    with pytest.raises(FormatError, match=f"more than {10 << 20} bytes"):
        parse_manifest(variable(packed(bytes(20 << 20))), PATH)


@pytest.mark.parametrize("data", [b"", bytes(3), bytes(5), bytes(13), bytes(100)])
@pytest.mark.parametrize("size", [0, 64])
def test_no_sizes_are_followed_by_nothing(data: bytes, size: int) -> None:
    with pytest.raises(FormatError, match="for no size"):
        parse_manifest(variable(packed(data), size=size), PATH)


@pytest.mark.parametrize(
    "changed",
    [
        {"originalFileSize": -1},
        {"originalFileSize": 1 << 31},
        {"originalChunkSize": 0},
        {"originalChunkSize": 1, "originalFileSize": (1 << 31) - 1},
        {"type": "other"},
        {"transformedChunkSize": -1},
        {"finalTransformedChunkSize": None},
    ],
)
def test_an_index_that_cannot_be_is_refused(changed: dict[str, Any]) -> None:
    value = json.loads(manifest(100))
    value["chunkIndex"].update(changed)
    with pytest.raises(FormatError):
        parse_manifest(json.dumps(value).encode(), PATH)


def test_a_segment_without_bytes_has_no_chunk() -> None:
    found = parse_manifest(manifest(0), PATH)
    assert (list(found.stored), found.bytes_in(0), found.bytes_in(9)) == ([], 0, 0)
