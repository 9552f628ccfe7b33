"""Checksums by a JVM, where no library computes them: the same evidence, nothing left behind, and no JVM that is taken on trust."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import google_crc32c
import pytest
from tests.support.collected import NO_LIBRARY, UNLIMITED, collect_into
from tests.support.encoder import Record, encode_batch
from tests.support.fixtures import FIXTURES
from tests.support.snapshots import Replica, write_snapshot

from replica_audit.cli.capture_plan_command import collector_text
from replica_audit.collect import collect

ROOT = Path(__file__).parents[2]
JAVA = shutil.which("java")
needs_java = pytest.mark.skipif(JAVA is None, reason="no java in PATH")
CLASS = base64.b64decode(collect.JAVA_CLASS)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """$TMPDIR, where neither a library nor a broker's JVM is."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr(collect.tempfile, "tempdir", None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(collect, "find_libraries", lambda: iter(()))
    monkeypatch.setattr(collect, "javas_of_brokers", lambda _: iter(()))
    return tmp_path / "temporary"


@pytest.fixture
def checksums(place: Path) -> Iterator[collect.JavaChecksums]:
    found = collect.find_checksums(True)
    assert isinstance(found, collect.JavaChecksums)
    yield found
    found.close()


def _java(place: Path, text: str) -> str:
    """A JAVA_HOME with this script as its `java`."""
    path = place / "home" / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    path.chmod(0o700)
    return str(place / "home")


def _members(archive: Path) -> dict[str, bytes]:
    """Everything in an archive but what its manifest says of the run."""
    with tarfile.open(archive) as tar:
        found = {info.name: tar.extractfile(info).read() for info in tar}  # type: ignore[union-attr]
    for name in [name for name in found if name.endswith(".json")]:
        head = json.loads(found[name])
        assert head.pop("collector") and head.pop("log_dirs")
        found[name] = json.dumps(head).encode()
    return found


def _run(log_dir: Path, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-I", "-B", "-", "--log-dir", str(log_dir), "--broker-id", "1", *arguments]
    running = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **environment},
        # Under nohup it would inherit that it is ignored.
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    )
    assert running.stdin is not None
    running.stdin.write((NO_LIBRARY + collector_text()).encode())
    running.stdin.close()
    running.stdin = None
    return running


def _child_of(process: int) -> int:
    """The process that this one started, once there is one."""
    while True:
        found = Path(f"/proc/{process}/task/{process}/children").read_text().split()
        if found:
            return int(found[0])
        time.sleep(0.01)


def _slow_log(tmp_path: Path) -> Path:
    """A log dir that takes many seconds at `--rate-mib 1`."""
    batches = [encode_batch(base, [Record(b"k", os.urandom(1 << 16))], 0) for base in range(256)]
    return write_snapshot(tmp_path / "snapshot", {1: Replica(batches)}) / "broker-1"


def test_the_class_is_the_source_compiled(tmp_path: Path) -> None:
    javac = shutil.which("javac")
    if javac is None:
        pytest.skip("no javac in PATH: the embedded class is not compared with its source")
    source = ROOT / "lib/replica_audit/collect/Crc32cPipe.java"
    subprocess.run([javac, "--release", "9", "-g:none", "-d", str(tmp_path), str(source)], check=True)
    assert (tmp_path / "Crc32cPipe.class").read_bytes() == CLASS


def test_the_class_is_one_of_java_9_with_the_sha256_that_is_said() -> None:
    assert CLASS[:8] == bytes.fromhex("cafebabe 0000 0035")
    assert hashlib.sha256(CLASS).hexdigest() == collect.JAVA_CLASS_SHA256


@needs_java
def test_it_computes_what_a_library_does(checksums: collect.JavaChecksums) -> None:
    data = os.urandom(3 << 20)
    ends = [0, 0, 5, 9, 2, 1 << 20, 1 << 20, 3 << 20, 0, 3 << 20]
    expected = [google_crc32c.value(data[begin:end]) for begin, end in zip(ends[::2], ends[1::2])]
    for _ in range(2):
        assert list(checksums.of_ranges(data, ends)) == expected
        assert checksums.of_pieces(data[at : at + 700_000] for at in range(0, len(data), 700_000)) == expected[-1]


@needs_java
def test_a_file_that_cannot_be_read_on_does_not_change_the_next_checksum(checksums: collect.JavaChecksums) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"1234"
        raise OSError

    with pytest.raises(OSError):
        checksums.of_pieces(pieces())
    assert checksums.are_right()


@needs_java
@pytest.mark.parametrize(
    "name", ["lagging-caught-up", "corrupted-flip-payload", "corrupted-middle-zeros", "compacted-skewed-1"]
)
@pytest.mark.parametrize("step", [1 << 20, 100])
def test_the_evidence_is_the_same(
    name: str, step: int, tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collect, "STEP", step)
    log_dirs = sorted(path.parent for path in (FIXTURES / name).rglob("meta.properties"))
    arguments = [f"--log-dir={path}" for path in log_dirs[:1]] + ["--broker-id", "1", "--raw"]
    collect_into(tmp_path / "java.tar", *arguments)
    monkeypatch.undo()
    monkeypatch.setattr(collect, "STEP", step)
    collect_into(tmp_path / "library.tar", *arguments)
    one, other = _members(tmp_path / "java.tar"), _members(tmp_path / "library.tar")
    assert one == other and any(name.endswith(".frames") for name in one)


@needs_java
def test_the_manifest_says_it_and_nothing_is_left(tmp_path: Path, place: Path) -> None:
    log_dir = write_snapshot(tmp_path / "snapshot", {1: Replica([encode_batch(0, 3, 0)])}) / "broker-1"
    collect_into(tmp_path / "evidence.tar", "--log-dir", str(log_dir))
    with tarfile.open(tmp_path / "evidence.tar") as tar:
        said = json.loads(tar.extractfile("evidence-1.json").read())["collector"]  # type: ignore[union-attr]
    assert said["crc32c"] == f"java.util.zip.CRC32C of {JAVA}"
    assert said["java_class"] == collect.JAVA_CLASS_SHA256
    assert list(place.iterdir()) == []


@needs_java
def test_its_class_is_gone_before_anything_is_collected(checksums: collect.JavaChecksums, place: Path) -> None:
    assert list(place.iterdir()) == []


@needs_java
def test_variables_of_the_broker_do_not_reach_it(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"):
        monkeypatch.setenv(name, "-javaagent:/nowhere.jar")
    collect.find_checksums(True).close()


def test_it_is_not_started_where_that_is_forbidden(tmp_path: Path, place: Path) -> None:
    log_dir = write_snapshot(tmp_path / "snapshot", {1: Replica([encode_batch(0, 3, 0)])}) / "broker-1"
    with pytest.raises(collect.CollectError, match=r"no library, and --no-java was given\): install google-crc32c"):
        collect_into(tmp_path / "evidence.tar", "--log-dir", str(log_dir), "--no-java")


def test_a_library_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collect, "find_javas", lambda: pytest.fail("a JVM was looked for"))
    assert collect.find_checksums(True).name == "google_crc32c"


def test_wanted_ranges_need_neither(tmp_path: Path, place: Path) -> None:
    log_dir = write_snapshot(tmp_path / "snapshot", {1: Replica([encode_batch(0, 3, 0)])}) / "broker-1"
    (tmp_path / "wanted.json").write_text('{"format": 1, "wanted": []}')
    arguments = ("--log-dir", str(log_dir), "--wanted", str(tmp_path / "wanted.json"), "--no-java")
    assert collect_into(tmp_path / "evidence.tar", *arguments) == 0


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("#!/bin/sh\necho cannot be started >&2\nexit 1\n", "ended: cannot be started"),
        ("#!/bin/sh\nexec /bin/cat\n", "it computes something else"),
        ("#!/bin/sh\necho a warning of the JVM\nexec /bin/cat\n", "gave another answer"),
        ("#!/bin/sh\nexec /bin/sleep 60\n", "does not answer"),
        ("#!/nowhere/sh\n", "No such file or directory"),
        (
            f"#!{sys.executable}\nimport sys\nread = sys.stdin.buffer.read\n"
            "while True:\n"
            "    head = read(16)\n"
            "    read(8 * head[7] + head[15])\n"
            "    sys.stdout.buffer.write(head[:4] + bytes(4 * head[7]))\n"
            "    sys.stdout.flush()\n",
            "it computes something else",
        ),
    ],
)
def test_a_java_that_does_not_do_is_told(script: str, said: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collect, "ANSWER_SECONDS", 3.0)
    home = _java(place.parent, script)
    monkeypatch.setenv("JAVA_HOME", home)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(collect.CollectError, match="nothing computes CRC-32C here") as raised:
        collect.find_checksums(True)
    assert raised.value.status == 2
    assert f"{home}/bin/java: " in str(raised.value) and said in str(raised.value)
    assert list(place.iterdir()) == []


@needs_java
def test_a_java_older_than_the_class_is_told(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    newer = CLASS[:7] + bytes([CLASS[7] + 60]) + CLASS[8:]
    monkeypatch.setattr(collect, "JAVA_CLASS", base64.b64encode(newer).decode())
    with pytest.raises(collect.CollectError, match="it is older than Java 9"):
        collect.find_checksums(True)


@needs_java
def test_the_next_java_is_tried(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", _java(place.parent, "#!/bin/sh\nexit 1\n"))
    found = collect.find_checksums(True)
    found.close()
    assert found.name == f"java.util.zip.CRC32C of {JAVA}"


def _process(processes: Path, number: str, exe: str, *words: str) -> None:
    (processes / number).mkdir()
    (processes / number / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in words))
    (processes / number / "exe").symlink_to(exe)


def test_the_java_of_a_running_broker_is_found(tmp_path: Path) -> None:
    _process(tmp_path, "7", "/opt/other/bin/java", "java", "-cp", "x", "org.example.Main")
    _process(tmp_path, "8", "/opt/kafka/bin/java", "java", "-Xmx6G", "kafka.Kafka", "server.properties")
    _process(tmp_path, "9", "/usr/bin/less", "less", "kafka.Kafka")
    _process(tmp_path, "10", "/opt/cp/bin/java", "java", "io.confluent.support.metrics.SupportedKafka", "x")
    assert list(collect.javas_of_brokers(str(tmp_path))) == ["/opt/cp/bin/java", "/opt/kafka/bin/java"]


def test_what_another_user_may_replace_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "java").write_text("")
    (tmp_path / "proc").mkdir()
    _process(tmp_path / "proc", "8", str(tmp_path / "java"), "java", "kafka.Kafka")
    user = os.geteuid()
    monkeypatch.setattr(collect.os, "geteuid", lambda: user + 1)
    tmp_path.chmod(0o777)
    assert list(collect.javas_of_brokers(str(tmp_path / "proc"))) == []


@needs_java
def test_a_jvm_that_is_killed_ends_it_with_1_and_without_a_manifest(tmp_path: Path, place: Path) -> None:
    running = _run(_slow_log(tmp_path), "--rate-mib", "1")
    assert running.stdout is not None
    begun = running.stdout.read(512)  # the first side file: the class has been loaded
    os.kill(_child_of(running.pid), signal.SIGKILL)
    out, said = running.communicate()
    assert running.returncode == 1
    assert b"collect.py: the JVM that computes the checksums ended" in said
    assert b"evidence-1.json" not in begun + out
    assert list(place.iterdir()) == []


@needs_java
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_collector_that_is_ended_leaves_neither_its_class_nor_its_jvm(
    number: signal.Signals, tmp_path: Path, place: Path
) -> None:
    running = _run(_slow_log(tmp_path), "--rate-mib", "1")
    assert running.stdout is not None
    begun = running.stdout.read(512)
    child = _child_of(running.pid)
    running.send_signal(number)
    out, _ = running.communicate()
    assert running.returncode in (128 + number, -number)
    assert b"evidence-1.json" not in begun + out
    assert list(place.iterdir()) == []
    _await_end(child)


def test_a_collector_that_is_ended_while_its_jvm_starts_leaves_nothing(tmp_path: Path, place: Path) -> None:
    # As a JVM does, it says nothing yet, keeps its output open, and ends when nobody writes to it any more.
    home = _java(tmp_path, "#!/bin/sh\nexec cat 3>&1 >/dev/null\n")
    running = _run(_slow_log(tmp_path), JAVA_HOME=home)
    child = _child_of(running.pid)
    assert [path.name for path in place.glob("*/*")] == ["Crc32cPipe.class"]
    assert [path.stat().st_mode & 0o777 for path in place.iterdir()] == [0o700]
    running.terminate()
    running.communicate()
    assert running.returncode == 128 + signal.SIGTERM
    assert list(place.iterdir()) == []
    _await_end(child)


def _await_end(process: int) -> None:
    with suppress(FileNotFoundError, ProcessLookupError):
        while "(zombie)" not in Path(f"/proc/{process}/status").read_text():
            time.sleep(0.01)


@needs_java
def test_it_works_from_standard_input(tmp_path: Path, place: Path) -> None:
    running = _run(_slow_log(tmp_path), *UNLIMITED)
    out, said = running.communicate()
    assert (running.returncode, said) == (0, b"")
    assert b"evidence-1.json" in out and b"java.util.zip.CRC32C" in out
