"""Scans of captured segments: what the official tool saw in sound ones, what truth.json says of edited ones."""

from __future__ import annotations

import io
import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.support.encoder import encode_batch, encode_legacy, flip
from tests.support.scanned import (
    CAPTURES,
    DUMP_LINE,
    FIXTURES,
    MESSAGE_LINE,
    batches_of,
    damage_of,
    scan_file,
    truth,
)
from tests.support.some import some

from replica_audit.errors import FormatError
from replica_audit.model import Damage
from replica_audit.segments.record_batch import BATCH_DTYPE
from replica_audit.segments.resync import CREDIT_PER_BYTE
from replica_audit.segments.scan import account_for_bytes, scan_segment
from replica_audit.segments.streams import SegmentWindow

#: At a damaged place the dump tool stops and the scan goes on (test_dump_captures looks at these).
STOPPED = {
    "corrupted-all-empty",
    "corrupted-batch-codec-7",
    "corrupted-batch-length-huge",
    "corrupted-batch-length-negative",
    "corrupted-batch-length-off-by-one",
    "corrupted-middle-zeros",
}
DUMPED = [
    capture for capture in CAPTURES if capture not in STOPPED and list((FIXTURES / capture).glob("dump/*.batches.txt"))
]


def _dumped_batches(capture: str, kind: str = "batches"):
    """(segment, lines) for every segment of the capture that the official dump shows."""
    for dump in sorted((FIXTURES / capture / "dump").glob(f"*.{kind}.txt")):
        path, lines = None, []
        for line in dump.read_text(encoding="utf-8").split("\n"):
            if line.startswith("Dumping "):
                if path is not None:
                    yield path, lines
                path, lines = FIXTURES / capture / line.removeprefix("Dumping ").strip(), []
            elif line.startswith(("baseOffset: ", "offset: ")):
                lines.append(line)
        if path is not None:
            yield path, lines


def _shows_messages(capture: str) -> bool:
    return any("payloadsize: " in line for _, lines in _dumped_batches(capture) for line in lines)


MESSAGES_DUMPED = [capture for capture in DUMPED if _shows_messages(capture)]
BATCHES_DUMPED = [capture for capture in DUMPED if capture not in MESSAGES_DUMPED]


def _each_with_its_line(capture: str, form: re.Pattern[str]) -> Iterator[tuple[Path, np.void, re.Match[str]]]:
    """Every batch of the capture with its line of the dump, of which there are as many."""
    for path, lines in _dumped_batches(capture):
        batches = batches_of(scan_file(path))
        assert len(batches) == len(lines), path
        for batch, text in zip(batches, lines, strict=True):
            line = form.match(text)
            assert line is not None, (path, text)
            yield path, batch, line


@pytest.mark.parametrize("capture", BATCHES_DUMPED)
def test_batches_agree_with_the_official_dump(capture):
    for path, batch, line in some(_each_with_its_line(capture, DUMP_LINE)):
        assert batch["last_offset"] == int(line["last"] or line["offset"]), path
        for name in ("position", "size", "magic", "crc"):
            assert batch[name] == int(line[name]), (path, name)
        assert batch["crc_valid"] == ((line["valid"] or line["early"]) == "true"), path
        assert batch["max_timestamp"] == int(line["time"]), path
        codec = ("none", "gzip", "snappy", "lz4", "zstd")[batch["attributes"] & 7]
        assert codec == line["codec"].lower(), path
        if line["base"] is not None:
            for name, field in (
                ("base_offset", "base"),
                ("record_count", "count"),
                ("base_sequence", "sequence"),
                ("producer_id", "producer"),
                ("producer_epoch", "producer_epoch"),
                ("leader_epoch", "epoch"),
            ):
                assert line[field] is None or batch[name] == int(line[field]), (path, name)


@pytest.mark.parametrize("capture", MESSAGES_DUMPED)
def test_legacy_entries_agree_with_the_official_dump(capture):
    for path, batch, line in some(_each_with_its_line(capture, MESSAGE_LINE)):
        found = [int(batch[name]) for name in ("last_offset", "position", "magic", "crc", "max_timestamp")]
        assert found == [int(line[name]) for name in ("offset", "position", "magic", "crc", "time")], path
        assert batch["crc_valid"] == (line["valid"] == "true"), path


@pytest.mark.parametrize("capture", ["old-formats", "old-silent-2-healed"])
def test_the_offsets_inside_wrappers_agree_with_the_official_dump_of_messages(capture):
    wrappers = 0
    for path, lines in _dumped_batches(capture, "records"):
        entries: dict[int, list[int]] = {}
        for text in lines:
            line = MESSAGE_LINE.match(text)
            if line:
                entries.setdefault(int(line["position"]), []).append(int(line["offset"]))
        batches = batches_of(scan_file(path))
        assert batches["position"].tolist() == list(entries), path
        for batch, offsets in zip(batches, entries.values(), strict=True):
            found = [int(batch[name]) for name in ("base_offset", "last_offset", "record_count")]
            assert found == [offsets[0], offsets[-1], len(offsets)], path
            wrappers += len(offsets) > 1
    assert wrappers > 3


def test_the_dumps_that_are_compared_are_those_of_four_generations():
    assert {"healthy", "diverged-unclean", "old-upgraded", "kip279-1-before"} <= set(BATCHES_DUMPED)
    assert {"old-formats", "old-silent-2-healed", "kip101-isr-4-healed"} <= set(MESSAGES_DUMPED)


@pytest.mark.parametrize("capture", [capture for capture in CAPTURES if not capture.startswith("corrupted-")])
def test_every_batch_of_an_unedited_capture_is_sound_whatever_the_window(capture):
    for path in some(sorted((FIXTURES / capture).rglob("*.log"))):
        items = scan_file(path)
        batches = batches_of(items)
        assert batches["crc_valid"].all() and (batches["record_count"] >= 0).all(), path
        torn = capture == "live-torn" and path.parts[-3:-1] == ("broker-2", "blobs-0")
        assert [damage.kind for damage in damage_of(items)] == ["partial"] * torn, path
        assert (batches_of(scan_file(path, 200)) == batches).all(), path


#: What the scan says of the edited segment: positions and lengths follow from truth.json, see `_expected_damage`.
TAILS = {
    "corrupted-tail-garbage": "garbage",
    "corrupted-tail-zeros": "zero_filled",
    "corrupted-tail-torn": "partial",
    "corrupted-tail-torn-5-bytes": "partial",
    "corrupted-tail-torn-in-header": "partial",
}
BROKEN_FRAMES = (
    "corrupted-batch-length-huge",
    "corrupted-batch-length-negative",
    "corrupted-batch-length-off-by-one",
)
WRONG_CRC = (
    "corrupted-batch-codec-7",
    "corrupted-batch-count-huge",
    "corrupted-flip-crc",
    "corrupted-flip-payload",
)
CRC_BLIND = {
    "corrupted-batch-baseoffset-changed": ("base_offset", 1080),
    "corrupted-batch-epoch-changed": ("leader_epoch", 7),
    "corrupted-batch-magic-9": ("magic", 9),
}


def _edited(capture: str):
    """Path of the edited segment, and of the same segment on the good broker."""
    facts = truth(capture)
    file = f"{facts['partition']}/{facts['file']}"
    return tuple(FIXTURES / capture / f"broker-{facts[who]}" / file for who in ("damaged_broker", "good_broker"))


@pytest.mark.parametrize("capture", TAILS)
def test_a_damaged_tail_is_named_and_measured(capture):
    facts, (damaged, good) = truth(capture), _edited(capture)
    items = scan_file(damaged)
    end = facts.get("valid_bytes") or facts["last_whole_batch_ends_at"]
    (damage,) = damage_of(items)
    assert (damage.position, damage.length, damage.kind) == (end, damaged.stat().st_size - end, TAILS[capture])
    sound = batches_of(items)
    assert (sound == batches_of(scan_file(good))[: len(sound)]).all() and sound["crc_valid"].all()
    assert (damage.expected_offset, damage.next_offset) == (int(sound["last_offset"][-1]) + 1, None)


@pytest.mark.parametrize("capture", BROKEN_FRAMES)
def test_a_wrong_length_is_damage_of_that_batch_only(capture):
    facts, (damaged, good) = truth(capture), _edited(capture)
    items = scan_file(damaged)
    (damage,) = damage_of(items)
    assert (damage.position, damage.length) == (facts["batch_position"], facts["batch_size"])
    first, last = facts["batch_offsets"]
    assert (damage.kind, damage.expected_offset, damage.next_offset) == ("corrupt", first, last + 1)
    expected = batches_of(scan_file(good))
    assert (batches_of(items) == expected[expected["position"] != facts["batch_position"]]).all()


@pytest.mark.parametrize("capture", WRONG_CRC)
def test_a_wrong_crc_in_a_sound_frame_is_a_batch_that_says_so(capture):
    facts, (damaged, good) = truth(capture), _edited(capture)
    items = scan_file(damaged)
    batches, expected = batches_of(items), batches_of(scan_file(good))
    assert not damage_of(items)
    assert batches["position"][~batches["crc_valid"]].tolist() == [facts["batch_position"]]
    for name in ("position", "size", "base_offset", "last_offset", "leader_epoch"):
        assert (batches[name] == expected[name]).all()


@pytest.mark.parametrize("capture", CRC_BLIND)
def test_a_changed_field_outside_the_crc_is_given_as_found(capture):
    facts, (name, value), (damaged, _) = truth(capture), CRC_BLIND[capture], _edited(capture)
    items = scan_file(damaged)
    batches = batches_of(items)
    assert not damage_of(items) and batches["crc_valid"].all()
    assert batches[name][batches["position"] == facts["batch_position"]].tolist() == [value]


def test_zeros_in_the_middle_are_damage_from_the_batch_they_begin_in_to_the_next_sound_one():
    begin, end = truth("corrupted-middle-zeros")["zeroed"]
    damaged, good = _edited("corrupted-middle-zeros")
    items, expected = scan_file(damaged), batches_of(scan_file(good))
    ends = expected["position"] + expected["size"]
    lost = (ends > begin) & (expected["position"] < end)
    (damage,) = damage_of(items)
    assert damage.position == expected["position"][lost][0] and damage.position + damage.length == ends[lost][-1]
    assert damage.expected_offset == expected["base_offset"][lost][0]
    assert damage.next_offset == expected["last_offset"][lost][-1] + 1
    assert (batches_of(items) == expected[~lost]).all()


def test_every_edited_segment_is_looked_at_by_one_of_these_tests():
    seen = {*TAILS, *BROKEN_FRAMES, *WRONG_CRC, *CRC_BLIND, "corrupted-middle-zeros"}
    holes = {"corrupted-batch-duplicated", "corrupted-batch-missing", "corrupted-last-log-empty"}
    edited = {
        name for name in CAPTURES if name.startswith("corrupted-") and str(truth(name).get("file")).endswith(".log")
    }
    assert edited == seen | holes


def _scan(data: bytes, base_offset: int = 0, window: int = 8 << 20) -> list:
    return list(scan_segment(io.BytesIO(data), len(data), base_offset, window))


def _offsets(items: list) -> list:
    return [("damage", item.kind) if isinstance(item, Damage) else item["base_offset"].tolist() for item in items]


def test_an_empty_file_holds_nothing():
    assert _scan(b"") == []


def test_a_length_that_jumps_over_sound_batches_is_not_believed():
    batches = [encode_batch(number * 2, 2, 0) for number in range(5)]
    swallowed = len(batches[1]) + len(batches[2])
    liar = batches[1][:8] + struct.pack(">i", swallowed - 12) + batches[1][12:]
    items = _scan(batches[0] + liar + b"".join(batches[2:]))
    assert _offsets(items) == [[0], ("damage", "corrupt"), [4, 6, 8]]
    to_the_end = batches[1][:8] + struct.pack(">i", sum(map(len, batches[1:])) - 12) + batches[1][12:]
    items = _scan(batches[0] + to_the_end + b"".join(batches[2:]))
    assert _offsets(items) == [[0], ("damage", "corrupt"), [4, 6, 8]]


def test_a_batch_inside_a_record_is_not_taken_for_one_of_the_log():
    from tests.support.encoder import Record

    inner = b"".join(encode_batch(number, 1, 9) for number in range(50, 60))
    outer = flip(encode_batch(0, (Record(b"k", inner),), 0))
    items = _scan(outer + encode_batch(1, 1, 0))
    assert _offsets(items) == [[0, 1]] and items[0]["crc_valid"].tolist() == [False, True]


def test_batches_after_a_damage_are_found_though_their_offsets_go_back():
    batches = [encode_batch(number, 1, 0) for number in range(4)]
    items = _scan(encode_batch(1000, 1, 0) + b"\xff" * 33 + b"".join(batches))
    assert _offsets(items) == [[1000], ("damage", "corrupt"), [0, 1, 2, 3]]


_BACK = encode_batch(5, 2, 0)


@pytest.mark.parametrize(
    ("following", "found"),
    [
        (b"", [[5]]),
        (encode_batch(7, 1, 0), [[5, 7]]),
        (encode_batch(20, 1, 0), [[5, 20]]),
        (flip(encode_batch(20, 1, 0)), []),
        (encode_legacy(7, b"x"), [[5], [7]]),
        (encode_legacy(9, b"x"), [[5], [9]]),
        (encode_batch(7, 1, 0)[:40], [[5], ("damage", "partial")]),
        (encode_batch(9, 1, 0)[:40], []),
        (b"\xff" * 100, []),
    ],
    ids=[
        "end of the file",
        "the next offset",
        "a later offset, right CRC",
        "a later offset, wrong CRC",
        "a legacy entry",
        "a later legacy entry",
        "torn at the next offset",
        "torn at a later offset",
        "other bytes",
    ],
)
def test_a_batch_below_what_was_confirmed_counts_only_where_its_length_leads_on(following: bytes, found: list) -> None:
    """A record may hold the bytes of a batch, with a right CRC."""
    items = _scan(encode_batch(0, 10, 0) + b"\xff" * 33 + _BACK + following)
    assert _offsets(items)[0] == [0] and isinstance(items[1], Damage)
    assert _offsets(items)[2:] == found


def test_a_file_that_begins_with_damage_expects_no_offset():
    items = _scan(b"\xff" * 100 + encode_batch(7, 1, 0), 5)
    assert _offsets(items) == [("damage", "corrupt"), [7]]
    assert (items[0].expected_offset, items[0].next_offset) == (None, 7)


def test_a_batch_longer_than_the_window_is_read_and_checked():
    from tests.support.encoder import Record

    long = encode_batch(0, (Record(None, os.urandom(50_000)),), 0)
    legacy = encode_legacy(1, b"x" * 30_000)
    flipped = flip(encode_batch(2, (Record(None, b"y" * 20_000),), 0), 10_000)
    data = long + legacy + bytes(flipped) + encode_batch(3, 1, 0)
    batches = batches_of(_scan(data, window=1000))
    assert batches["base_offset"].tolist() == [0, 1, 2, 3]
    assert batches["crc_valid"].tolist() == [True, True, False, True]


def test_a_preallocated_file_with_a_torn_last_batch_has_a_partial_tail():
    whole, torn = encode_batch(0, 3, 0), encode_batch(3, 30, 0, mark="a long mark")
    items = _scan(whole + torn[: len(torn) // 2] + b"\0" * 5000)
    assert _offsets(items) == [[0], ("damage", "partial")]


@pytest.mark.parametrize("left", [1, 7, 8, 11, 12, 16, 17, 30, 60, 61, 62])
def test_whatever_is_left_of_the_last_batch_it_is_partial(left):
    data = encode_batch(0, 3, 0) + encode_batch(3, 3, 0)[:left]
    assert _offsets(_scan(data)) == [[0], ("damage", "partial")]


@pytest.mark.parametrize("count", [9, 17, 61, 5000, 3 << 20])
def test_zeros_after_the_last_batch_are_a_zero_filled_tail(count):
    assert _offsets(_scan(encode_batch(0, 3, 0) + b"\0" * count, window=1 << 16)) == [[0], ("damage", "zero_filled")]


def test_a_file_shorter_than_said_is_an_error_with_its_place():
    data = encode_batch(0, 3, 0)
    with pytest.raises(FormatError, match="cut while it was read"):
        list(scan_segment(io.BytesIO(data), len(data) + 10, 0))


def _bytes_checked(data: bytes, monkeypatch) -> int:
    """How many bytes a scan of `data` puts through a checksum."""
    checked = []
    with monkeypatch.context() as patch:
        for name in ("crc32c", "crc32"):
            real = getattr(SegmentWindow, name)

            def counted(window, start, end, real=real):
                checked.append(end - start)
                return real(window, start, end)

            patch.setattr(SegmentWindow, name, counted)
        _scan(data)
    return sum(checked)


@pytest.mark.parametrize(
    "pattern",
    [
        b"\x02",
        b"\x01",
        struct.pack(">qiib", 5, 1 << 20, 0, 2) + bytes(44),
        struct.pack(">qiib", 5, 8000, 0, 2) + bytes(44),
        struct.pack(">qiibb", 5, 300, 0, 0, 0) + b"\xff" * 8 + bytes(30),
    ],
    ids=["all 2", "all 1", "huge lies", "middling lies", "legacy lies"],
)
def test_searching_bytes_made_to_look_like_headers_checks_no_byte_many_times(pattern, monkeypatch):
    data = b"\xff" * 100 + pattern * ((2 << 20) // len(pattern))
    credit = 2 << 20
    monkeypatch.setattr("replica_audit.segments.resync.FIRST_CREDIT", credit)
    # So much for each byte searched, whatever the lengths in it claim (the huge ones together some 30 GB).
    assert _bytes_checked(data, monkeypatch) <= credit + CREDIT_PER_BYTE * len(data)


def test_a_scan_of_many_damaged_places_finds_every_sound_batch():
    batches = [bytearray(encode_batch(number, 1, 0)) for number in range(2000)]
    for number in range(0, 2000, 2):
        batches[number][8] = 0xFF
    found = batches_of(_scan(b"".join(batches), window=1 << 14))
    assert found["base_offset"].tolist() == list(range(1, 2000, 2))
    assert isinstance(found, np.ndarray)


def test_the_budget_of_the_search_is_not_used_up_by_damage_between_sound_batches(monkeypatch):
    # Zeros in records pass for legacy headers; each such candidate used to cost a checksum that was never earned back.
    monkeypatch.setattr("replica_audit.segments.resync.FIRST_CREDIT", 100_000)
    batches = [bytearray(encode_batch(number, 1, 0, mark="x" * 60)) for number in range(3000)]
    for number in range(0, 3000, 2):
        batches[number][8] = 0xFF
    assert batches_of(_scan(b"".join(batches)))["base_offset"].tolist() == list(range(1, 3000, 2))


@pytest.mark.parametrize("change", ["gap", "twice", "short", "damage missing"])
def test_bytes_that_are_passed_over_or_taken_twice_are_an_error(change):
    batches = np.zeros(3, BATCH_DTYPE)
    batches["position"], batches["size"] = [0, 100, 200], 100
    items = [batches, Damage(300, 50, "x", "garbage", None, None)]
    assert [type(item) for item in account_for_bytes(items, 350)] == [np.ndarray, Damage]
    if change == "gap":
        batches["position"][2] = 201
    elif change == "twice":
        items.insert(1, batches)
    elif change == "damage missing":
        items.pop()
    with pytest.raises(
        FormatError, match="accounted for" if change in ("short", "damage missing") else "every byte once"
    ):
        list(account_for_bytes(items, 360 if change == "short" else 350))
