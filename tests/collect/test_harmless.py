"""The collector and the broker's machine: its page cache, its memory, and the operator's command that has reading wait."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.support.collected import UNLIMITED, collect_into
from tests.support.encoder import Record, encode_batch
from tests.support.snapshots import Replica, write_snapshot
from tests.support.some import some

from replica_audit.cli.capture_plan_command import collector_text
from replica_audit.collect import collect

MIB = 1 << 20
PAGE = collect.mmap.PAGESIZE


@pytest.fixture
def disk() -> Iterator[Path]:
    """A directory on a disk: what is in memory is in memory anyway."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
        (Path(place) / "probe").write_bytes(bytes(MIB))
        _forget(Path(place) / "probe")
        if any(_resident(Path(place) / "probe")):
            pytest.skip("/var/tmp is on no disk")
        yield Path(place)


def _forget(path: Path, keep: int = 0) -> None:
    """Take a file out of the page cache, and read `keep` bytes of it again."""
    number = os.open(path, os.O_RDONLY)
    os.fsync(number)
    os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
    os.posix_fadvise(number, 0, 0, os.POSIX_FADV_RANDOM)
    os.pread(number, keep, 0)
    os.close(number)


def _resident(path: Path) -> bytes:
    number = os.open(path, os.O_RDONLY)
    try:
        return bytes(byte & 1 for byte in collect.resident_pages(number, 0, path.stat().st_size))
    finally:
        os.close(number)


def _log(place: Path, segments: int = 3) -> Path:
    """A partition of segments of about 2 MiB."""
    value = random.Random(1).randbytes(100_000)
    batches = [encode_batch(number, [Record(b"k", value)], 0) for number in range(20 * segments)]
    return write_snapshot(place / "snapshot", {1: Replica(batches, per_segment=20)}) / "broker-1"


def _without_direct(*arguments: object) -> int:
    if len(arguments) == 3 and int(str(arguments[2])) & os.O_DIRECT:
        raise OSError(22, "Invalid argument")
    return 0


@pytest.mark.parametrize("direct", [True, False])
def test_what_was_in_memory_stays_and_nothing_else_comes_in(
    disk: Path, direct: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_dir = _log(disk)
    logs = sorted(log_dir.rglob("*.log"))
    assert len(logs) == 3
    for log in logs:
        _forget(log, keep=MIB // 2 + 100)
    before = [_resident(log) for log in logs]
    assert all(0 < sum(one) < len(one) for one in before)
    if not direct:
        monkeypatch.setattr(collect.fcntl, "fcntl", _without_direct)
    collect_into(disk / "evidence.tar", "--log-dir", str(log_dir))
    after = [_resident(log) for log in logs]
    assert after[:2] == before[:2]
    # The segment that is written is read as everyone reads it, and left as it is.
    assert all(now or not then for then, now in zip(before[2], after[2], strict=True))


def test_a_file_system_that_refuses_direct_reads_is_read_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_dir = _log(tmp_path)
    collect_into(tmp_path / "one.tar", "--log-dir", str(log_dir))

    def refuse(*_: object) -> int:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(collect.os, "readv", refuse)
    collect_into(tmp_path / "two.tar", "--log-dir", str(log_dir))
    monkeypatch.setattr(collect.ctypes, "CDLL", lambda _: (_ for _ in ()).throw(OSError()))
    collect_into(tmp_path / "three.tar", "--log-dir", str(log_dir))
    sizes = {(tmp_path / f"{name}.tar").stat().st_size for name in ("one", "two", "three")}
    assert len(sizes) == 1


@pytest.mark.parametrize("direct", [True, False])
def test_any_range_of_a_file_is_read_as_it_is(disk: Path, direct: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(7)
    data = chance.randbytes(2 * MIB + 777)
    (disk / "x.log").write_bytes(data)
    if not direct:
        monkeypatch.setattr(collect.fcntl, "fcntl", _without_direct)
    source = collect.BrokerFile(str(disk / "x.log"), collect.Limit(1e15, 1e15), False)
    ranges = [(chance.randrange(len(data)), chance.randrange(1, 1 << chance.randrange(1, 22))) for _ in range(300)]
    ranges += [(0, len(data)), (len(data), 61), (len(data) + 9999, 61), (len(data) - 1, 1), (PAGE - 1, PAGE + 2)]
    for start, size in some(ranges):
        assert source.read(start, size) == data[start : start + size], (start, size)
    source.close()


#: Put before the collector: it says its peak memory in KiB.
_TELL_PEAK = """import atexit, re, sys
atexit.register(lambda: sys.stderr.write(re.search("VmHWM:\\\\s*([0-9]+)", open("/proc/self/status").read()).group(1)))
"""


def _peak_mib(log_dir: Path, archive: Path, *arguments: str) -> float:
    command = [sys.executable, "-I", "-B", "-", "--log-dir", str(log_dir), *UNLIMITED, *arguments]
    with archive.open("wb") as out:
        ended = subprocess.run(
            command, input=(_TELL_PEAK + collector_text()).encode(), stdout=out, stderr=subprocess.PIPE, check=True
        )
    return int(ended.stderr) / 1024


@pytest.mark.parametrize("kind", ["coordinator", "legacy", "garbage", "small batches"])
def test_memory_does_not_grow_with_a_log(tmp_path: Path, kind: str) -> None:
    topic = "__consumer_offsets" if kind == "coordinator" else "orders"
    log_dir = write_snapshot(tmp_path / "snapshot", {1: Replica([encode_batch(0, 1, 0)], topic=topic)}) / "broker-1"
    log = next(log_dir.rglob("*.log"))
    piece = random.Random(3).randbytes(MIB)
    if kind == "legacy":
        piece = (b"\0" * 8 + (1014).to_bytes(4, "big") + b"\0" * 4 + b"\1" + piece[: 1026 - 17]) * 1022
    elif kind == "small batches":
        one = encode_batch(0, [Record(b"k", b"v" * 90)], 0)
        piece = b"".join(number.to_bytes(8, "big") + one[8:] for number in range(MIB // len(one)))
    with log.open("wb") as file:
        for _ in range(48):
            file.write(piece)
    assert _peak_mib(log_dir, tmp_path / "evidence.tar", "--raw") < 56


def test_memory_does_not_grow_with_files(tmp_path: Path) -> None:
    log_dir = tmp_path / "broker-1"
    batch = encode_batch(0, 1, 0)
    for number in range(500):
        (log_dir / f"orders-{number}").mkdir(parents=True)
        for segment in range(10):
            (log_dir / f"orders-{number}" / f"{segment:020d}.log").write_bytes(batch)
    given = ("--broker-id", "1")
    first = _peak_mib(log_dir, tmp_path / "evidence.tar", *given)
    again = _peak_mib(log_dir, tmp_path / "again.tar", *given, "--after", str(tmp_path / "evidence.tar"))
    assert max(first, again) < 40


def _watch(tmp_path: Path, *arguments: str) -> collect.Watch:
    given = collect.parse_arguments(["--log-dir", "/", "--watch", f"cat {tmp_path}/number", *arguments])
    return collect.Watch(given.watch, given.watch_limit)


@pytest.mark.parametrize(
    ("limit", "up"), [((), "4"), (("--watch-limit", "9.5"), "10"), ((), ""), ((), "nan"), ((), "no number")]
)
def test_reading_waits_while_the_broker_is_in_need(
    tmp_path: Path, limit: tuple[str, ...], up: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now, number = [100.0], tmp_path / "number"
    number.write_text("3\n")

    def sleep(seconds: float) -> None:
        now[0] += seconds
        if now[0] > 140:
            number.write_text("3")

    monkeypatch.setattr(collect, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    read = collect.Limit(1e15, 1e15, _watch(tmp_path, *limit))
    number.write_text(up)
    read.take(1)
    assert now == [100.0]
    now[0] = 111.0
    read.take(1)
    assert now == [141.0] and capsys.readouterr().err.count("reading waits: --watch: ") == 1


def test_a_broker_that_stays_in_need_ends_the_collection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    (tmp_path / "number").write_text("0")

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(collect, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    watch = _watch(tmp_path)
    (tmp_path / "number").write_text("1")
    now[0] += 20
    with pytest.raises(
        collect.CollectError, match="--watch: 1, above 0, and not better in 15 minutes: .*--after"
    ) as raised:
        watch.wait()
    assert raised.value.status == 1 and now[0] < 100 + 20 + 1000


def test_a_command_that_takes_too_long_is_ended_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collect, "WATCH_SECONDS", 0.5)
    with pytest.raises(collect.CollectError, match="the command failed"):
        collect.Watch(f"sh -c 'echo $$ >{tmp_path}/started; sleep 60; echo 1'; echo 1", None)
    started = (tmp_path / "started").read_text().strip()
    stat = Path(f"/proc/{started}/stat")
    for _ in range(100):
        if not stat.exists() or stat.read_text().split()[2] == "Z":
            return
        time.sleep(0.05)
    pytest.fail("it still runs")


@pytest.mark.parametrize("command", ["exit 1", "echo none", "echo 1; exit 3", "echo", "echo nan"])
def test_a_command_that_gives_no_number_at_first_is_refused(tmp_path: Path, command: str) -> None:
    log_dir = write_snapshot(tmp_path / "snapshot", {1: Replica([encode_batch(0, 1, 0)])}) / "broker-1"
    given = [sys.executable, "-I", "-B", "-", "--log-dir", str(log_dir), "--watch", command]
    ended = subprocess.run(given, input=collector_text().encode(), capture_output=True)
    assert (ended.returncode, ended.stdout) == (2, b"") and b"--watch: the command failed" in ended.stderr
