"""Records that a salvage has to return, from the captures' own records of production, computed with another decoder."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from functools import cache
from pathlib import Path

from kafka.record import MemoryRecords
from tests.support.fixtures import CAPTURES, FIXTURES, truth

#: (offset, first 16 hex digits of the value's SHA-256, None for null).
Held = set[tuple[int, str | None]]

PRODUCED = [name for name in CAPTURES if not name.startswith("corrupted-") and truth(name).get("produced")]


def short_hash(value: bytes | None) -> str | None:
    return None if value is None else hashlib.sha256(value).hexdigest()[:16]


@cache
def acknowledged(capture: str) -> dict[str, Held]:
    """By partition every record that a producer was told of."""
    rows, columns = truth(capture)["produced"], truth(capture)["produced_columns"]
    found: dict[str, Held] = defaultdict(set)
    for row in (dict(zip(columns, row, strict=True)) for row in rows):
        if row["error"] is None and row["offset"] is not None:
            found[f"{row['topic']}-{row['partition']}"].add((row["offset"], row["value_sha256_16"]))
    return found


def records_of(directory: Path) -> Held:
    """The records of all `.log` and `.log.deleted` files of a partition's directory, by kafka-python."""
    found: Held = set()
    for path in [*directory.glob("*.log"), *directory.glob("*.log.deleted")]:
        records = MemoryRecords(path.read_bytes())
        while (batch := records.next_batch()) is not None:
            if not getattr(batch, "is_control_batch", False):
                found |= {(record.offset, short_hash(record.value)) for record in batch}
    return found


def copies_of(capture: str, partition: str, topic_id: str | None) -> list[Path]:
    """Every directory of a partition of this topic, put aside or not."""
    found = [path for path in (FIXTURES / capture).rglob(f"{partition}*") if path.is_dir()]
    return [
        path
        for path in found
        if path.name.split(".")[0] == partition.split(".")[0]
        and (path.name == partition or path.name.startswith(f"{partition}."))
        and (topic_id is None or not (path / "partition.metadata").exists() or _is_of(path, topic_id))
    ]


def _is_of(path: Path, topic_id: str) -> bool:
    return topic_id in (path / "partition.metadata").read_text()


def is_compacted(capture: str, topic: str) -> bool:
    config = truth(capture)["topics"].get(topic, {}).get("config", {})
    return "compact" in config.get("cleanup.policy", "")
