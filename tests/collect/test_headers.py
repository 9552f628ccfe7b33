"""Headers alone: what is read and taken, when that is done by itself, and what is left to bytes."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest
from tests.support.collected import NO_LIBRARY, UNLIMITED, collect_into, head_of, lines_of, payload_of, settle
from tests.support.encoder import Record, encode_batch, encode_legacy, encode_marker
from tests.support.snapshots import Replica, write_snapshot

from replica_audit.cli.capture_plan_command import collector_text
from replica_audit.collect import collect
from replica_audit.segments.frames import FrameFile

LOG = "broker-1/orders-0/00000000000000000000.log"
ALWAYS = ("--headers", "always")
#: As the defaults are: a read takes the time of 256 KiB.
RATES = ("--rate-mib", "50000", "--iops", "200000")


def _log_dir(place: Path, batches: list[bytes], **fields: object) -> Path:
    return write_snapshot(place, {1: Replica(batches, **fields)}) / "broker-1"  # type: ignore[arg-type]


def _frames(archive: Path, path: str = LOG) -> list[tuple[str, int, int, int, bytes]]:
    """Type, start, end, batches and inflated payload of each frame of a file."""
    with tarfile.open(archive) as tar:
        parts = [tar.extractfile(info).read() for info in tar if info.name.startswith(f"{path}.frames")]  # type: ignore[union-attr]
    file = FrameFile(path, [lambda part=part: part for part in parts])  # type: ignore[misc]
    return [
        (one.kind.decode(), one.position, one.end, one.batches, file.inflate(one) if one.size else b"")
        for one in file.frames
    ]


def _large(count: int, size: int = 1 << 20) -> list[bytes]:
    return [encode_batch(base, [Record(b"k", bytes(size))], 0) for base in range(count)]


def test_headers_are_those_that_are_taken_with_their_checksums(tmp_path: Path) -> None:
    marker = encode_marker(50, "COMMIT", 0, producer_id=7, producer_epoch=0)
    log_dir = _log_dir(tmp_path, [*(encode_batch(base, 5, 0) for base in range(0, 50, 5)), marker])
    collect_into(tmp_path / "checked.tar", "--log-dir", str(log_dir))
    collect_into(tmp_path / "headers.tar", "--log-dir", str(log_dir), *ALWAYS)
    checked, headers = _frames(tmp_path / "checked.tar"), _frames(tmp_path / "headers.tar")
    assert [one[0] for one in checked] == ["V", "X"] and [one[0] for one in headers] == ["H", "X"]
    assert [one[1:] for one in checked] == [one[1:] for one in headers]
    assert marker in payload_of(tmp_path / "headers.tar")


def test_no_record_is_in_headers(tmp_path: Path) -> None:
    batches = [encode_batch(base, [Record(b"a secret key", b"a secret value")], 0) for base in range(3)]
    log_dir = _log_dir(tmp_path, batches, tail=b"a secret tail")
    collect_into(tmp_path / "headers.tar", "--log-dir", str(log_dir), *ALWAYS)
    found = payload_of(tmp_path / "headers.tar")
    assert bytes(batch[plane] for plane in range(61) for batch in batches[:2]) in found
    assert b"secret" not in found


def test_a_frame_has_no_more_batches_than_it_may_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log_dir = _log_dir(tmp_path, [encode_batch(base, 1, 0) for base in range(7)], tail=b"\x07" * 99)
    monkeypatch.setattr(collect, "BATCHES_IN_FRAME", 3)
    collect_into(tmp_path / "headers.tar", "--log-dir", str(log_dir), *ALWAYS)
    assert [(one[0], one[3]) for one in _frames(tmp_path / "headers.tar")] == [("H", 3), ("H", 3), ("U", 0), ("U", 0)]


def test_payload_is_passed_over(tmp_path: Path) -> None:
    log_dir = _log_dir(tmp_path, _large(20))
    size = (log_dir / "orders-0" / f"{0:020d}.log").stat().st_size
    collect_into(tmp_path / "checked.tar", "--log-dir", str(log_dir))
    collect_into(tmp_path / "headers.tar", "--log-dir", str(log_dir), *RATES, *ALWAYS)
    checked, headers = head_of(tmp_path / "checked.tar"), head_of(tmp_path / "headers.tar")
    assert checked["bytes_read"] > size and checked["unchecked"] == 0
    assert headers["bytes_read"] < collect.STEP + 20 * 4096
    assert (headers["batches"], headers["unchecked"], headers["headers"]) == (20, 20, "always")


def _counts(tmp_path: Path, batches: list[bytes], *options: str) -> tuple[int, int, int]:
    """Bytes of a log, how many of them are read, and in how many reads."""
    log_dir = _log_dir(tmp_path / "log", batches)
    collect_into(tmp_path / "counted.tar", "--log-dir", str(log_dir), *RATES, *options)
    head = head_of(tmp_path / "counted.tar")
    assert head["batches"] == len(batches) and not head["not_captured"]
    return sum(map(len, batches)), head["bytes_read"], head["reads"]


def _between(large: list[bytes], *small: int) -> list[bytes]:
    """The large ones, each followed by small ones with values of so many bytes."""
    found = []
    for one in large:
        found.append(one[8:])
        found += [encode_batch(0, [Record(b"k", bytes(size))], 0)[8:] for size in small]
    return [struct.pack(">q", base) + one for base, one in enumerate(found)]


def test_what_lies_between_large_batches_and_markers_is_passed_over(tmp_path: Path) -> None:
    batches = []
    for number in range(20):
        fields = {"producer_id": 7, "producer_epoch": 0, "base_sequence": number, "transactional": True}
        batches.append(encode_batch(2 * number, [Record(b"k", bytes(1 << 20))], 0, **fields))  # type: ignore[arg-type]
        batches.append(encode_marker(2 * number + 1, "COMMIT", 0, producer_id=7, producer_epoch=0))
    _, read, reads = _counts(tmp_path, batches, *ALWAYS)
    assert read < collect.STEP + 20 * 8192 and reads < 30
    assert [one[0] for one in _frames(tmp_path / "counted.tar")] == ["H", "X"]


@pytest.mark.parametrize("small", [(10,), (10, 3000, 10), (20_000, 20_000)])
def test_what_lies_between_large_batches_and_small_ones_is_passed_over(tmp_path: Path, small: tuple[int, ...]) -> None:
    batches = _between(_large(40, 300 << 10), *small)
    size, read, reads = _counts(tmp_path, batches, *ALWAYS)
    assert read < collect.STEP + 40 * (sum(small) + 3 * 4096) < size / 3
    # Reading one costs as much as a read.
    assert reads < 50


def test_small_batches_behind_large_ones_are_read_in_steps(tmp_path: Path) -> None:
    small = [encode_batch(base, [Record(b"k", bytes(1000))], 0) for base in range(20, 4020)]
    size, read, reads = _counts(tmp_path, [*_large(20), *small], *ALWAYS)
    assert reads < 40 and read < size - 18 * (1 << 20) + collect.STEP


@pytest.mark.parametrize("size", [1000, (1 << 20) - 100, (1 << 20) + 100, 5 << 19])
def test_what_is_checked_is_read_once(tmp_path: Path, size: int) -> None:
    batches = _large(10, size)
    total, read, reads = _counts(tmp_path, batches)
    assert read < total + 1000
    assert [one[0] for one in _frames(tmp_path / "counted.tar")] == ["V"]
    assert reads < 20 + total / collect.STEP


def test_small_batches_are_read_in_steps(tmp_path: Path) -> None:
    log_dir = _log_dir(tmp_path, [encode_batch(base, 5, 0) for base in range(0, 5000, 5)])
    collect_into(tmp_path / "headers.tar", "--log-dir", str(log_dir), *ALWAYS)
    assert head_of(tmp_path / "headers.tar")["reads"] < 20


@pytest.mark.parametrize(("size", "kind"), [(1 << 20, "H"), (300 << 10, "H"), (200 << 10, "V"), (100, "V")])
def test_auto_hops_where_a_read_takes_less_time_than_a_batch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], size: int, kind: str
) -> None:
    log_dir = _log_dir(tmp_path, _large(2 + (3 << 20) // size if size > 1000 else 20_000, size))
    collect_into(tmp_path / "evidence.tar", "--log-dir", str(log_dir), "--headers", "auto", *RATES)
    assert _frames(tmp_path / "evidence.tar")[0][0] == kind
    said = capsys.readouterr().err
    assert (
        "headers alone were taken of 1 of 1 segments" if kind == "H" else "all checksums of what was read were computed"
    ) in said
    assert "larger than 256 KiB" in said


def _run(log_dir: Path, *options: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-I", "-B", "-", "--log-dir", str(log_dir), "--no-java", *UNLIMITED, *options]
    return subprocess.run(command, input=(NO_LIBRARY + collector_text()).encode(), capture_output=True, check=False)


def test_where_nothing_computes_checksums_headers_are_taken_if_they_are_asked_for(tmp_path: Path) -> None:
    log_dir = _log_dir(tmp_path, [encode_batch(0, 3, 0)])
    refused = _run(log_dir)
    assert refused.returncode == 2 and not refused.stdout
    assert b"or take headers alone (--headers always), which do not show damage inside batches" in refused.stderr
    for mode, why in (("auto", b"nothing computes CRC-32C here"), ("always", b"--headers always")):
        taken = _run(log_dir, "--headers", mode)
        assert taken.returncode == 0
        said = b"headers alone were taken of 1 of 1 segments, and damage inside 1 of their batches is not seen (" + why
        assert said in taken.stderr
        archive = tmp_path / f"{mode}.tar"
        archive.write_bytes(taken.stdout)
        assert [one[0] for one in _frames(archive)] == ["H"]


@pytest.mark.parametrize(
    ("count", "said", "unchecked"),
    [(2, ", and damage inside 2 of their batches is not seen (", 2), (0, " (", 0)],
    ids=["batches and markers", "markers alone"],
)
def test_damage_to_markers_is_seen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], count: int, said: str, unchecked: int
) -> None:
    markers = [encode_marker(base, "COMMIT", 0, producer_id=7, producer_epoch=0) for base in range(count, count + 3)]
    log_dir = _log_dir(tmp_path, [*(encode_batch(base, 1, 0) for base in range(count)), *markers])
    collect_into(tmp_path / "evidence.tar", "--log-dir", str(log_dir), *ALWAYS)
    assert "headers alone were taken of 1 of 1 segments" + said in capsys.readouterr().err
    head = head_of(tmp_path / "evidence.tar")
    assert (head["batches"], head["unchecked"]) == (count + 3, unchecked)


BATCHES = [encode_batch(base, 5, 0) for base in range(0, 20, 5)]
SIZES = [len(batch) for batch in BATCHES]


def _field(batch: bytes, position: int, code: str, value: int) -> bytes:
    data = bytearray(batch)
    struct.pack_into(code, data, position, value)
    return bytes(data)


@pytest.mark.parametrize(
    "damaged",
    [
        _field(BATCHES[2], 0, ">q", 4),  # base offset below the end of the batch before
        _field(BATCHES[2], 0, ">q", 1 << 40),  # further than a segment reaches
        _field(BATCHES[2], 8, ">i", 40),  # length
        _field(BATCHES[2], 8, ">i", 1 << 30),
        _field(BATCHES[2], 16, ">b", 3),  # magic
        _field(BATCHES[2], 21, ">h", 7),  # codec
        _field(BATCHES[2], 21, ">h", 0x80),  # unknown attribute
        _field(BATCHES[2], 23, ">i", -1),  # last offset delta
        _field(BATCHES[2], 57, ">i", 6),  # more records than offsets
        _field(BATCHES[2], 57, ">i", -1),
        encode_legacy(10, b"value"),
    ],
)
def test_headers_end_two_before_one_that_no_broker_writes(tmp_path: Path, damaged: bytes) -> None:
    """One more than the odd one is left to bytes: its length may be what led there."""
    log_dir = _log_dir(tmp_path, [*BATCHES[:2], damaged, BATCHES[3]])
    rest = len(damaged) + SIZES[3]
    for raw, kind in (((), "U"), (("--raw",), "R")):
        archive = tmp_path / f"{kind}.tar"
        collect_into(archive, "--log-dir", str(log_dir), *ALWAYS, *raw)
        first, odd = SIZES[0], SIZES[0] + SIZES[1]
        assert [one[:4] for one in _frames(archive)] == [
            ("H", 0, first, 1),
            (kind, first, odd, 0),
            (kind, odd, odd + rest, 0),
        ]


def test_zeros_behind_the_last_batch_are_not_asked_for(tmp_path: Path) -> None:
    log_dir = _log_dir(tmp_path, BATCHES, tail=bytes(5000))
    collect_into(tmp_path / "evidence.tar", "--log-dir", str(log_dir), *ALWAYS)
    end = sum(SIZES)
    assert [one[:3] for one in _frames(tmp_path / "evidence.tar")] == [
        ("H", 0, end - SIZES[3]),
        ("U", end - SIZES[3], end),
        ("Z", end, end + 5000),
    ]
    (line,) = (one for one in lines_of(tmp_path / "evidence.tar") if one["path"] == LOG)
    assert (line["not_captured"], line["unchecked"]) == (SIZES[3], 3)


def test_a_marker_that_is_given_back_is_not_kept(tmp_path: Path) -> None:
    markers = [encode_marker(base, "COMMIT", 0, producer_id=7, producer_epoch=0) for base in (20, 21)]
    log_dir = _log_dir(tmp_path, [*BATCHES, *markers], tail=b"\x07" * 70)
    collect_into(tmp_path / "evidence.tar", "--log-dir", str(log_dir), *ALWAYS)
    kept = next(one[4] for one in _frames(tmp_path / "evidence.tar") if one[0] == "X")
    assert kept == struct.pack(">QI", sum(SIZES), len(markers[0])) + markers[0]
    assert head_of(tmp_path / "evidence.tar")["unchecked"] == len(BATCHES)


def _segment(path: Path, tar: Path) -> tuple[collect.SegmentFrames, collect.BrokerFile]:
    source = collect.BrokerFile(str(path), collect.Limit(1e15, 1e15))
    parts = collect.Parts(collect.Tar(os.open(tar, os.O_WRONLY | os.O_CREAT)), "x", 0)
    return collect.SegmentFrames(source, parts, collect.Checksums(), False, "always"), source


def test_a_batch_that_was_half_written_is_taken_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(BATCHES[0] + BATCHES[1][:-10])
    frames, source = _segment(path, tmp_path / "tar")
    path.write_bytes(b"".join(BATCHES[:3]))
    frames.write()
    source.close()
    assert (frames.batches, frames.size, frames.not_captured) == (2, SIZES[0] + SIZES[1], 0)


def test_a_file_that_is_cut_while_it_is_read_is_not_taken(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"".join(BATCHES))
    frames, source = _segment(path, tmp_path / "tar")
    original = source.read

    def read(position: int, size: int) -> bytes:
        data = original(position, size)
        path.write_bytes(BATCHES[0])
        return data

    source.read = read  # type: ignore[method-assign]
    with pytest.raises(collect.FileChangedError):
        frames.write()


def test_checksums_that_were_not_computed_are_when_they_are_asked_for_again(tmp_path: Path) -> None:
    log_dir = _log_dir(tmp_path, BATCHES)
    settle(log_dir)
    given = ("--log-dir", str(log_dir))
    collect_into(tmp_path / "headers.tar", *given, *ALWAYS)
    time.sleep(1.1)  # archives tell their times in seconds
    after = ("--after", str(tmp_path / "headers.tar"))
    for name, options, kind in (
        ("same", ALWAYS, "same"),
        ("checked", (), "frames"),
        ("auto", ("--headers", "auto"), "same"),
    ):
        collect_into(tmp_path / f"{name}.tar", *given, *options, *after)
        (line,) = (one for one in lines_of(tmp_path / f"{name}.tar") if one["path"] == LOG)
        assert line["as"] == kind, name
    assert [one[0] for one in _frames(tmp_path / "checked.tar")] == ["V"]
    collect_into(tmp_path / "last.tar", *given, *after, "--after", str(tmp_path / "checked.tar"))
    (line,) = (one for one in lines_of(tmp_path / "last.tar") if one["path"] == LOG)
    assert line["as"] == "same"
