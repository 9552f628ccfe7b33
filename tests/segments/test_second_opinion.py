"""The scan of segments against kafka-python, which shares no code with it, and old formats against the official dumps."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka.record import MemoryRecords
from tests.support.scanned import CAPTURES, FIXTURES, batches_of, damage_of, scan_file

OLD = (
    "old-formats",
    "old-upgraded",
    "old-silent-1-before",
    "old-silent-2-healed",
    "kip101-isr-4-healed",
    "kip279-1-before",
)
#: Captures whose segments were edited; their damage is told in tests of their own.
EDITED = [capture for capture in CAPTURES if capture.startswith("corrupted-")]
_RECORD = re.compile(
    r"(?:\| )?offset: (\d+)(?: position: \d+)? (?:isValid: \w+ crc: \w+ keySize: -?\d+ valueSize: -?\d+ )?\w+: (-?\d+)"
)


def opinions(data: bytes) -> Iterator[tuple[int, int, int, bool, int]]:
    """(magic, first offset, last offset, CRC right, records) of every batch or legacy entry that kafka-python finds."""
    records = MemoryRecords(data)
    while records.has_next():
        batch = records.next_batch()
        valid = batch.validate_crc()
        offsets = [record.offset for record in batch]
        if batch.magic == 2:
            # A cleaner may have taken the first or last record; the batch keeps its span.
            yield 2, batch.base_offset, batch.base_offset + batch.last_offset_delta, valid, len(offsets)
        else:
            yield batch.magic, offsets[0], offsets[-1], valid, len(offsets)


def segments_of(capture: str) -> list[Path]:
    return sorted((FIXTURES / capture).glob("**/*.log"))


@pytest.mark.parametrize("capture", [capture for capture in CAPTURES if capture not in EDITED])
def test_kafka_python_finds_the_same_batches(capture):
    compared = 0
    for path in segments_of(capture):
        items = scan_file(path)
        batches = batches_of(items)
        sound = sum(int(size) for size in batches["size"])
        assert sum(one.length for one in damage_of(items)) + sound == path.stat().st_size
        found = list(opinions(path.read_bytes()[:sound]))
        names = ("magic", "base_offset", "last_offset", "crc_valid", "record_count")
        assert found == [tuple(batch[name].item() for name in names) for batch in batches], path
        compared += len(found)
    assert compared > 0


@pytest.mark.parametrize("capture", OLD)
def test_records_of_old_formats_are_those_of_the_official_dump(capture):
    compared = 0
    for text in sorted((FIXTURES / capture / "dump").glob("*.records.txt")):
        shown: dict[str, list[int]] = {}
        invalid: dict[str, int] = {}
        for line in text.read_text(encoding="utf-8").split("\n"):
            if line.startswith("Dumping "):
                path = line.removeprefix("Dumping ").strip()
                shown[path], invalid[path] = [], 0
            elif " size: " in line[:100]:
                pass  # the line of a whole entry, above those of its records
            elif match := _RECORD.match(line):
                shown[path].append(int(match.group(1)))
                invalid[path] += "alid: false" in line[:200]
        for path, offsets in shown.items():
            data = (FIXTURES / capture / path).read_bytes()
            batches = batches_of(scan_file(FIXTURES / capture / path))
            own = [record.offset for batch in _batches(data) for record in batch]
            assert own == offsets, path
            assert int(batches["record_count"].sum()) == len(offsets), path
            assert invalid[path] == 0 and batches["crc_valid"].all(), path
            compared += len(offsets)
    assert compared > 0


def _batches(data: bytes) -> Iterator:
    records = MemoryRecords(data)
    while records.has_next():
        yield records.next_batch()


def test_formats_of_all_kinds_are_among_those_compared():
    kinds = set()
    for capture in ("old-formats", "old-upgraded", "healthy"):
        for path in segments_of(capture):
            kinds |= {(int(batch["magic"]), int(batch["attributes"]) & 7) for batch in batches_of(scan_file(path))}
    assert kinds >= {(magic, codec) for magic in (0, 1) for codec in range(4)} | {(2, codec) for codec in range(5)}
