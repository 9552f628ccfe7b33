"""Disks of brokers that are down: their content, and damage to it."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from kafka.record import MemoryRecords
from tests.support.salvaged_captures import short_hash
from tests.support.snapshots import make_uuid

from replica_audit.snapshot.log_dir_names import META_PROPERTIES


def cut_tail(directory: Path, records: int) -> None:
    """Cut whole batches with at least so many records off a partition's last segment, as a loss of power does."""
    last = max(directory.glob("*.log"))
    content = last.read_bytes()
    starts = _bounds(content)
    cut = 0
    while cut < records:
        start = starts[len(starts) - 2]
        cut += int.from_bytes(content[start + 57 : start + 61])
        starts.pop()
    os.truncate(last, starts[-1])


def cut_middle(directory: Path, batches: int) -> None:
    """Cut so many whole batches out of the middle of a partition's first segment, with its indexes."""
    segment = min(directory.glob("*.log"))
    content = segment.read_bytes()
    starts = _bounds(content)
    first = (len(starts) - 1 - batches) // 2
    assert first > 0
    segment.write_bytes(content[: starts[first]] + content[starts[first + batches] :])
    for index in directory.glob(f"{segment.stem}.*index"):
        index.unlink()


def _bounds(content: bytes) -> list[int]:
    """Positions at which the batches of a segment begin, and its end."""
    starts = [0]
    while starts[-1] < len(content):
        starts.append(starts[-1] + 12 + int.from_bytes(content[starts[-1] + 8 : starts[-1] + 12]))
    return starts


def format_disk(place: Path, like: Path) -> None:
    """Make an empty log directory of the broker that has the log directory `like`."""
    place.mkdir()
    identity = [one for one in (like / META_PROPERTIES).read_text().splitlines() if not one.startswith("directory")]
    lines = [*identity, f"directory.id={make_uuid(str(place))}"]
    (place / META_PROPERTIES).write_text("".join(f"{one}\n" for one in lines))


def values_of(directories: Iterable[Path]) -> Counter[str | None]:
    """The short hashes of the values in partitions' directories, those at one offset once."""
    found: set[tuple[int, str | None]] = set()
    for path in (file for directory in directories for file in directory.glob("*.log*")):
        records = MemoryRecords(_without_zeros(path.read_bytes()))
        while (batch := records.next_batch()) is not None:
            if not getattr(batch, "is_control_batch", False):
                found |= {(record.offset, short_hash(record.value)) for record in batch}
    return Counter(value for _, value in found)


def copies_of(snapshot: Path, partition: str) -> list[Path]:
    """Every directory of a partition, put aside or not."""
    return [path for name in (partition, f"{partition}.*") for path in snapshot.rglob(name) if path.is_dir()]


def digests(directories: Iterable[Path]) -> dict[str, str]:
    """Every file below the directories, with its SHA-256."""
    files = (path for directory in directories for path in directory.rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def write_manifest(snapshot: Path, version: str, killed: Iterable[int]) -> None:
    """Write a manifest by which every broker was killed before it was copied."""
    brokers = [
        {
            "broker_id": broker,
            "log_dir": str(path.parent.relative_to(snapshot)),
            "started": "2026-01-01T00:00:00Z",
            "finished": "2026-01-01T00:01:00Z",
            "kind": "killed",
        }
        for broker in killed
        for path in sorted((snapshot / f"broker-{broker}").rglob(META_PROPERTIES))
    ]
    manifest = {"schema_version": 1, "quiesced": True, "kafka_version": version, "brokers": brokers}
    (snapshot / "manifest.json").write_text(json.dumps(manifest))


def _without_zeros(content: bytes) -> bytes:
    """A segment as far as it has batches: after a loss of power its file may go on with zero bytes."""
    position = 0
    while position + 12 <= len(content) and (size := int.from_bytes(content[position + 8 : position + 12])):
        position += 12 + size
    return content[:position]
