"""Every official dump beside a capture gives the same batches as the segments that it shows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.support.scanned import CAPTURES, FIXTURES, batches_of, damage_of, scan_file
from tests.support.some import some

from replica_audit.segments.record_batch import BATCH_DTYPE
from replica_audit.snapshot.discovery import discover
from replica_audit.snapshot.dump.dump_text import find_sections
from replica_audit.snapshot.dump.dumped_segment import DumpListing, assemble_dumped_log, parse_listing
from replica_audit.snapshot.provenance import UNPROVEN, SecondHandLog
from replica_audit.snapshot.storage import Snapshot

KINDS = ("batches", "records")
DUMPED = [
    pytest.param(capture, kinds, id=f"{capture}-{'+'.join(kinds)}")
    for capture in CAPTURES
    for kinds in ((KINDS[0],), (KINDS[1],), KINDS)
    if all(list((FIXTURES / capture).glob(f"dump/*.{kind}.txt")) for kind in kinds)
]
#: Fields that a word of `UNPROVEN` excuses.
EXCUSED = {
    "first_timestamps": ("base_timestamp",),
    "base_offsets": ("base_offset", "record_count"),
    "record_counts": ("record_count",),
    "sizes": ("size",),
    "batch_checksums": ("crc", "attributes"),
    "leader_epochs": ("leader_epoch",),
}


def listings_of(capture: str, kinds: tuple[str, ...]) -> dict[str, list[DumpListing]]:
    """The listings of each dumped path, in the order of `kinds`."""
    found: dict[str, list[DumpListing]] = {}
    for kind in kinds:
        for text in sorted((FIXTURES / capture / "dump").glob(f"*.{kind}.txt")):
            with text.open("rb") as stream:
                for section in find_sections(stream):
                    found.setdefault(section.dumped_path, []).append(parse_listing(stream, section))
    return found


def logs_of(capture: str, kinds: tuple[str, ...]) -> dict[Path, SecondHandLog]:
    """Content of the text for each segment file that still exists."""
    paths = {FIXTURES / capture / name: listings for name, listings in listings_of(capture, kinds).items()}
    return {
        path: assemble_dumped_log(listings, int(path.name[:20])) for path, listings in paths.items() if path.is_file()
    }


@pytest.mark.parametrize(("capture", "kinds"), DUMPED)
def test_text_and_segment_agree_in_every_field_that_the_text_carries(capture, kinds):
    logs = logs_of(capture, kinds)
    assert logs
    for path, log in logs.items():
        items = scan_file(path)
        batches, damage = batches_of(items), damage_of(items)
        assert (
            set(log.unproven) <= set(UNPROVEN) and "left_out" not in log.unproven and "one_moment" not in log.unproven
        )
        if damage and damage[0].kind == "corrupt":
            # The tool stops at the first damage; how much it sees of what lies there depends on its version.
            batches = batches[batches["position"] < damage[0].position]
            assert log.damage and log.damage[0].position >= damage[0].position, path
            log = log._replace(batches=log.batches[: len(batches)])
        elif "rest" not in log.unproven:
            assert log.size_bytes == path.stat().st_size or "sizes" in log.unproven, path
            assert [(one.position, one.length) for one in log.damage] == [(one.position, one.length) for one in damage]
        if capture == "corrupted-batch-codec-7" and len(log.batches) != len(batches):
            batches = batches[: len(log.batches)]
            assert [one.kind for one in log.damage] == ["garbage"]
        assert len(log.batches) == len(batches), path
        excused = {name for word in log.unproven for name in EXCUSED.get(word, ())}
        for name in set(BATCH_DTYPE.names) - excused:
            assert np.array_equal(log.batches[name], batches[name]), (path, name)


@pytest.mark.parametrize(("capture", "kinds"), [one for one in DUMPED if "+" in one.id])
def test_shallow_and_deep_together_leave_little_open(capture, kinds):
    for path, log in some(logs_of(capture, kinds).items()):
        assert set(log.unproven) <= {"checksums", "first_timestamps", "tail", "rest"}, path
        assert log.form in ("batches", "entries"), path


def test_deep_text_of_0_11_to_2_1_has_neither_epochs_nor_checksums():
    logs = logs_of("kip279-1-before", ("records",))
    for log in logs.values():
        assert {"leader_epochs", "batch_checksums", "contents"} <= set(log.unproven)
        assert (log.batches["leader_epoch"] == -1).all() and log.form == "records of kafka-dump-log"
    assert len(logs) == 4


def test_texts_of_all_generations_are_among_those_compared():
    shapes = {
        "0.10": "payloadsize: ",
        "1.1": "compresscodec: SNAPPY crc:",
        "2.8": "| offset: 0 isValid: true crc: null",
        "3.x": "deleteHorizonMs: OptionalLong.empty",
    }
    seen = set()
    for path in FIXTURES.glob("*/dump/*.txt"):
        text = path.read_text(encoding="utf-8")
        seen |= {name for name, words in shapes.items() if words in text}
    assert seen == set(shapes)


@pytest.mark.parametrize("capture", CAPTURES)
def test_texts_beside_the_segments_are_only_counted(capture):
    inventory = discover(Snapshot.open(FIXTURES / capture))
    assert {file.source for file in inventory.segments} <= {"segment"}
    assert not [row for row in inventory.quarantine if "dump" in row.path]
    texts = len(list((FIXTURES / capture).glob("dump/*.txt")))
    assert inventory.counts.get("dump_text", 0) == texts
    if texts:
        assert inventory.counts["log_superseded_by_segments"] > 0
