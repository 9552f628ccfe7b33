"""Remote stores for tests: directories with the objects of segments, in the layouts that are known."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.support.snapshots import TOPIC, TOPIC_ID, make_uuid


def segment_id(start: int, end: int, *epochs: tuple[int, int], number: int = 0) -> str:
    """As `remote_log.copied` gives it."""
    return make_uuid(f"{start} {end} {epochs} {number}")


def plain_path(segment: str, start: int, kind: str = "log", topic_id: str = TOPIC_ID) -> str:
    """Of LocalTieredStorage."""
    return f"kafka-tiered-storage/{TOPIC}-0-{topic_id}/{start:020d}-{segment}.{kind}"


def chunked_path(segment: str, start: int, kind: str = "log", topic_id: str = TOPIC_ID) -> str:
    """Of Aiven's plugin, with a prefix."""
    return f"some/prefix-{TOPIC}-{topic_id}/0/{start:020d}-{segment}.{kind}"


def manifest(size: int, *, compression: bool = False, encryption: object = None) -> bytes:
    """A `.rsm-manifest` as Aiven's plugin writes it."""
    index = {"type": "fixed", "originalChunkSize": 64, "originalFileSize": size, "transformedChunkSize": 64}
    value = {"version": "1", "chunkIndex": index, "segmentIndexes": {}, "compression": compression}
    return json.dumps(value if encryption is None else {**value, "encryption": encryption}).encode()


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
