"""The collector: what it takes and leaves, and how it ends where it cannot."""

from __future__ import annotations

import ast
import fcntl
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from tests.support.collected import collect_into, head_of, lines_of, payload_of
from tests.support.encoder import Record, encode_batch, encode_marker
from tests.support.snapshots import Replica, write_snapshot

from replica_audit.cli.capture_plan_command import collector_text
from replica_audit.cli.main import main
from replica_audit.collect import collect

SECRET = b"nobody-may-see-this"


def _snapshot(place: Path, **fields: object) -> Path:
    """One broker with a sound batch, a marker, and a tail that holds a record."""
    batches = [
        encode_batch(0, [Record(b"k", SECRET)], 0),
        encode_marker(1, "COMMIT", 0, producer_id=7, producer_epoch=0),
    ]
    replica = Replica(batches, tail=b"\x09" * 20 + SECRET, **fields)  # type: ignore[arg-type]
    return write_snapshot(place, {1: replica}) / "broker-1"


def _run(arguments: list[str], **options: object) -> subprocess.CompletedProcess:
    command = [sys.executable, "-I", "-B", "-", *arguments]
    return subprocess.run(command, input=collector_text().encode(), capture_output=True, **options)  # type: ignore[call-overload]


def test_it_is_python_3_6() -> None:
    ast.parse(collector_text(), feature_version=(3, 6))
    imported = {
        node.names[0].name if isinstance(node, ast.Import) else node.module
        for node in ast.walk(ast.parse(collector_text()))
        if isinstance(node, (ast.Import, ast.ImportFrom))
    }
    assert {name for name in imported if name not in sys.stdlib_module_names} == {"google_crc32c"}


def test_the_command_prints_the_file_whose_checksum_a_release_has(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["capture-plan", "--collector"]) == 0
    assert capsys.readouterr().out.encode() == Path(collect.__file__).read_bytes()


def test_it_runs_from_standard_input_and_writes_a_tar(tmp_path: Path) -> None:
    log_dir = _snapshot(tmp_path / "snapshot")
    ended = _run(["--log-dir", str(log_dir)])
    assert (ended.returncode, ended.stderr) == (0, b"")
    archive = tmp_path / "evidence.tar"
    archive.write_bytes(ended.stdout)
    with tarfile.open(archive) as tar:
        assert tar.getnames()[-1] == "evidence-1.json"
        assert all(info.mode == 0o600 for info in tar)


def test_only_a_broker_that_is_seen_to_run_is_said_to_be_live(tmp_path: Path) -> None:
    log_dir = _snapshot(tmp_path / "snapshot")
    (log_dir / ".lock").touch()
    given = f"--log-dir={log_dir}"
    collect_into(tmp_path / "down", given)
    with (log_dir / ".lock").open("r+") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        collect_into(tmp_path / "up", given)
        collect_into(tmp_path / "told", given, "--kind", "killed")
    assert [head_of(tmp_path / name)["kind"] for name in ("down", "up", "told")] == [None, "live", "killed"]


def test_no_record_is_taken_unless_it_is_asked_for(tmp_path: Path) -> None:
    log_dir = _snapshot(tmp_path / "snapshot")
    collect_into(tmp_path / "plain.tar", "--log-dir", str(log_dir))
    assert SECRET not in payload_of(tmp_path / "plain.tar")
    (log,) = (one for one in lines_of(tmp_path / "plain.tar") if one["path"].endswith(".log"))
    assert log["not_captured"] == 20 + len(SECRET)
    collect_into(tmp_path / "raw.tar", "--log-dir", str(log_dir), "--raw")
    assert payload_of(tmp_path / "raw.tar").count(SECRET) == 1


def test_kafkas_own_topics_are_whole(tmp_path: Path) -> None:
    log_dir = _snapshot(tmp_path / "snapshot", topic="__consumer_offsets")
    collect_into(tmp_path / "evidence.tar", "--log-dir", str(log_dir))
    assert payload_of(tmp_path / "evidence.tar").count(SECRET) == 2


def test_the_same_file_gives_the_same_frames(tmp_path: Path) -> None:
    log_dir = _snapshot(tmp_path / "snapshot")
    for name in ("one", "two"):
        collect_into(tmp_path / f"{name}.tar", "--log-dir", str(log_dir))
    one, two = ([line.get("parts") for line in lines_of(tmp_path / name)] for name in ("one.tar", "two.tar"))
    assert one == two


def test_topics_that_were_not_asked_for_are_left_out(tmp_path: Path) -> None:
    replicas = [Replica([encode_batch(0, 3, 0)], topic=topic) for topic in ("orders", "orders.eu", "users")]
    log_dir = write_snapshot(tmp_path / "snapshot", {1: replicas}) / "broker-1"
    collect_into(tmp_path / "evidence.tar", "--log-dir", str(log_dir), "--topic", "orders*")
    taken = {line["path"] for line in lines_of(tmp_path / "evidence.tar") if line["as"] == "directory"}
    assert taken == {"broker-1/orders-0", "broker-1/orders.eu-0"}


def test_what_cannot_be_read_is_named_and_ends_with_1(tmp_path: Path) -> None:
    log_dir = _snapshot(tmp_path / "snapshot")
    os.mkfifo(log_dir / "orders-0" / "00000000000000000099.log")
    ended = _run(["--log-dir", str(log_dir)])
    assert ended.returncode == 1
    assert b"broker-1/orders-0/00000000000000000099.log: not a file" in ended.stderr


def test_a_receiver_that_goes_away_ends_it_with_1(tmp_path: Path) -> None:
    log_dir = _snapshot(tmp_path / "snapshot")
    command = [sys.executable, "-I", "-B", "-", "--log-dir", str(log_dir)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdin is not None and running.stdout is not None and running.stderr is not None
        running.stdout.close()
        running.stdin.write(collector_text().encode())
        running.stdin.close()
        said = running.stderr.read()
    assert running.returncode == 1
    assert b"the archive could not be written" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--log-dir", "/nowhere/at/all", "--broker-id", "1"], b"no such directory"),
        (["--log-dir", "/proc"], b"no broker.id or node.id in meta.properties"),
        (["--log-dir", "/proc=../x", "--broker-id", "1"], b"not the name of a directory"),
        (["--log-dir", "/proc", "--broker-id", "1", "--wanted", "/nowhere"], b"--wanted /nowhere"),
        (["--log-dir", "/proc", "--rate-mib", "0"], b"have to be above 0"),
        (["--log-dir", "/proc", "--rate-mib", "nan"], b"have to be above 0"),
        (["--log-dir", "/proc", "--broker-id", "-1"], b"has to be from 0 to"),
        (["--log-dir", "/proc=./x", "--broker-id", "1"], b"not the name of a directory"),
        (["--log-dir", "/proc=x", "--log-dir", "/sys=x", "--broker-id", "1"], b"give each its own"),
        (["--log-dir", "/proc=x/y", "--log-dir", "/sys=x", "--broker-id", "1"], b"give each its own"),
        (["--log-dir", "/proc", "--log-dir", "/proc/.", "--broker-id", "1"], b"are the same directory"),
        (["--log-dir", "/proc=\udcff", "--broker-id", "1"], b"is not UTF-8"),
        (["--log-dir", "/proc", "--broker-id", "1", "--wanted", sys.executable], b"not UTF-8"),
    ],
)
def test_wrong_arguments_end_it_with_2_before_anything_is_written(arguments: list[str], said: bytes) -> None:
    ended = _run(arguments)
    assert (ended.returncode, ended.stdout) == (2, b"")
    assert said in ended.stderr


@pytest.mark.parametrize("name", ["", "=broker-1/disk-1"])
def test_a_log_dir_may_have_an_equals_sign(tmp_path: Path, name: str) -> None:
    _snapshot(tmp_path / "a").rename(tmp_path / "a=b")
    collect_into(tmp_path / "evidence.tar", "--log-dir", f"{tmp_path}/a=b{name}")
    assert any(line["path"] == f"{name[1:] or 'broker-1'}/orders-0" for line in lines_of(tmp_path / "evidence.tar"))


def test_an_id_may_have_ten_digits(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=1921681001\n")
    assert collect.find_broker_id([str(tmp_path)]) == 1921681001


@pytest.mark.parametrize("text", ["[" * 100_000, "[]", '{"format": 1, "wanted": [{"path": 7, "ranges": []}]}'])
def test_wanted_ranges_of_another_form_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "wanted.json").write_text(text)
    with pytest.raises(collect.CollectError, match="the wanted ranges could not be read"):
        collect.read_wanted(str(tmp_path / "wanted.json"))


def test_without_a_library_for_the_checksums_it_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google_crc32c", None)
    monkeypatch.setattr(collect.ctypes, "CDLL", lambda _: (_ for _ in ()).throw(OSError()))
    with pytest.raises(collect.CollectError, match="nothing computes CRC-32C here"):
        collect.find_checksums(False)


def test_a_library_that_computes_something_else_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrong:
        implementation = "c"

        @staticmethod
        def extend(crc: int, data: bytes) -> int:
            return 0

    monkeypatch.setitem(sys.modules, "google_crc32c", Wrong)
    monkeypatch.setattr(collect.ctypes, "CDLL", lambda _: (_ for _ in ()).throw(OSError()))
    with pytest.raises(collect.CollectError):
        collect.find_checksums(False)


def _segment(path: Path, tar: Path) -> tuple[collect.SegmentFrames, collect.BrokerFile]:
    source = collect.BrokerFile(str(path), collect.Limit(1e15, 1e15))
    out = collect.Tar(os.open(tar, os.O_WRONLY | os.O_CREAT))
    return collect.SegmentFrames(source, collect.Parts(out, "x", 0), collect.find_checksums(False), False), source


def test_a_batch_that_was_half_written_is_taken_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "log"
    first, second, third = (encode_batch(base, 3, 0) for base in (0, 3, 6))
    path.write_bytes(first + second[:-10])
    frames, source = _segment(path, tmp_path / "tar")
    path.write_bytes(first + second + third)
    frames.write()
    source.close()
    assert (frames.batches, frames.size, frames.not_captured) == (2, len(first + second), 0)


def test_a_file_that_is_cut_while_it_is_read_is_not_taken(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(encode_batch(0, 3, 0) + encode_batch(3, 3, 0))
    frames, source = _segment(path, tmp_path / "tar")
    original = source.read

    def read(position: int, size: int) -> bytes:
        data = original(position, size)
        path.write_bytes(encode_batch(0, 3, 0) + encode_batch(3, 3, 1))
        return data

    source.read = read  # type: ignore[method-assign]
    with pytest.raises(collect.FileChangedError):
        frames.write()


def test_batches_longer_than_a_step_are_checked_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batches = [encode_batch(base, [Record(b"k", os.urandom(500))], 0) for base in range(9)]
    log_dir = write_snapshot(tmp_path / "snapshot", {1: Replica(batches)}) / "broker-1"
    collect_into(tmp_path / "one.tar", "--log-dir", str(log_dir))
    monkeypatch.setattr(collect, "STEP", 128)
    collect_into(tmp_path / "two.tar", "--log-dir", str(log_dir))
    one, two = ([line.get("parts") for line in lines_of(tmp_path / name)] for name in ("one.tar", "two.tar"))
    assert one == two


def test_reads_are_spread_over_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(collect.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(collect.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    limit = collect.Limit(10 << 20, 100)
    for _ in range(50):
        limit.take(1 << 20)
    assert now[0] == pytest.approx(100 + 5 - 1)  # a second's burst
    for _ in range(1000):
        limit.take(1)
    assert now[0] == pytest.approx(100 + 5 - 1 + 10)
    assert (limit.reads, limit.bytes_read) == (1050, 50 * (1 << 20) + 1000)


def test_no_part_is_larger_than_it_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batches = [encode_batch(base, 1, 0, producer_id=base * 7919) for base in range(3000)]
    log_dir = write_snapshot(tmp_path / "snapshot", {1: Replica(batches)}) / "broker-1"
    monkeypatch.setattr(collect, "PART_BYTES", 8_000)
    monkeypatch.setattr(collect, "BATCHES_IN_FRAME", 500)
    monkeypatch.setattr(collect, "LIST_BYTES", 200)
    collect_into(tmp_path / "evidence.tar", "--log-dir", str(log_dir))
    with tarfile.open(tmp_path / "evidence.tar") as tar:
        sizes = {info.name: info.size for info in tar if ".frames" in info.name}
    assert len(sizes) > 1 and max(sizes.values()) <= 8_000
