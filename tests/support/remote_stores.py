"""Remote stores for tests: directories with the objects of segments, in the layouts that are known."""

from __future__ import annotations

import base64
import json
import os
import struct
from collections.abc import Sequence
from pathlib import Path

import cramjam
from tests.support.snapshots import TOPIC, TOPIC_ID, make_uuid


def segment_id(start: int, end: int, *epochs: tuple[int, int], number: int = 0) -> str:
    """Segment id in the form of `remote_log.copied`."""
    return make_uuid(f"{start} {end} {epochs} {number}")


def plain_path(segment: str, start: int, kind: str = "log", topic_id: str = TOPIC_ID) -> str:
    """Path in LocalTieredStorage."""
    return f"kafka-tiered-storage/{TOPIC}-0-{topic_id}/{start:020d}-{segment}.{kind}"


def chunked_path(segment: str, start: int, kind: str = "log", topic_id: str = TOPIC_ID) -> str:
    """Path in Aiven's plugin, with a prefix."""
    return f"some/prefix-{TOPIC}-{topic_id}/0/{start:020d}-{segment}.{kind}"


def manifest(size: int, *, compression: bool = False, encryption: object = None, index: object = None) -> bytes:
    """A `.rsm-manifest` as Aiven's plugin writes it, of chunks that are stored as they are unless `index` says otherwise."""
    sizes = {"transformedChunkSize": 64, "finalTransformedChunkSize": size % 64 or 64}
    plain = {"type": "fixed", "originalChunkSize": 64, "originalFileSize": size, **sizes}
    value = {"version": "1", "chunkIndex": index or plain, "segmentIndexes": {}, "compression": compression}
    return json.dumps(value if encryption is None else {**value, "encryption": encryption}).encode()


def encode_sizes(sizes: Sequence[int]) -> str:
    """`transformedChunks` of a manifest, as `TransformedChunksSerializer` and `ChunkSizesBinaryCodec` write them."""
    data = struct.pack(">i", len(sizes))
    if len(sizes) > 1:
        base = min(sizes[:-1])
        width = max(1, *(-(-(one - base).bit_length() // 8) for one in sizes[:-1]))
        data += struct.pack(">iB", base, width) + b"".join((one - base).to_bytes(width, "big") for one in sizes[:-1])
    data += struct.pack(">i", sizes[-1]) if sizes else b""
    return base64.b64encode(bytes(cramjam.zstd.compress(data))).decode()


def compressed(data: bytes, chunk_bytes: int = 64) -> tuple[bytes, bytes]:
    """(`.log`, `.rsm-manifest`) of a segment whose chunks are compressed."""
    chunks = [bytes(cramjam.zstd.compress(data[at : at + chunk_bytes])) for at in range(0, len(data), chunk_bytes)]
    sizes = {"originalChunkSize": chunk_bytes, "originalFileSize": len(data)}
    index = {"type": "variable", **sizes, "transformedChunks": encode_sizes([len(one) for one in chunks])}
    return b"".join(chunks), manifest(len(data), compression=True, index=index)


def put(store: Path, path: str, content: bytes = b"x" * 100, modified_ms: int | None = None) -> None:
    """One object; `modified_ms` is its last change."""
    place = store / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content)
    if modified_ms is not None:
        os.utime(place, ns=(modified_ms * 1_000_000,) * 2)


def write_listing(snapshot: Path, *objects: tuple[str, int], listed: str | None = None, name: str = "") -> None:
    """A listing at the root of a snapshot: (path, size) of each object."""
    snapshot.mkdir(parents=True, exist_ok=True)
    head = [] if listed is None else [{"listed": listed}]
    rows = [*head, *({"path": path, "size_bytes": size} for path, size in objects)]
    (snapshot / f"remote_objects{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
