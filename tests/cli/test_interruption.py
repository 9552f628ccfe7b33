"""Ctrl-C, SIGTERM and SIGHUP: 130, 143 and 129 within five seconds, said in verdict.json, and nothing left, wherever the program is."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.encoder import encode_batch
from tests.support.led_by_first import COMMON, LEADER, led_by_first, replica
from tests.support.samples import write_cluster

ROOT = Path(__file__).parents[2]

#: The signal, how a shell sees it, and what is said.
ENDINGS = [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated"), (signal.SIGHUP, 129, "hung up")]
SECONDS = 5

#: What begins a program: a shell in the background may have its children ignore Ctrl-C.
_START = (
    "import signal, sys, time; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "signal.signal(signal.SIGHUP, signal.SIG_DFL); "
)
_PROGRAM = "from replica_audit.cli.main import entry_point; "


@contextmanager
def _running(tmp_path: Path, code: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A program in a session of its own, as in a terminal; its temporary directory is `tmp_path`/tmp."""
    (tmp_path / "tmp").mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("REPLICA_AUDIT_")}
    environment |= {"PYTHONPATH": str(ROOT / "lib"), "TMPDIR": str(tmp_path / "tmp"), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        [sys.executable, "-c", _START + code, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=environment,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def _end(process: subprocess.Popen[str], number: int) -> tuple[int, str, str, float]:
    began = time.monotonic()
    # A terminal sends Ctrl-C to all processes of the group, and a supervisor SIGTERM to one.
    os.killpg(process.pid, number) if number == signal.SIGINT else os.kill(process.pid, number)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err, time.monotonic() - began


def _is_left(tmp_path: Path) -> list[str]:
    """Processes that know of the test's directory, and what is in its temporary directory."""
    left = [str(path) for path in (tmp_path / "tmp").iterdir()]
    for path in Path("/proc").glob("[0-9]*"):
        try:
            command = (path / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if str(tmp_path) in command:
            left.append(command)
    return left


def _verdict(tmp_path: Path) -> tuple[str, int, str]:
    verdict = json.loads((tmp_path / "replica-audit-report" / "verdict.json").read_text())
    assert (verdict["audit_id"], verdict["verdict"]) == (None, "INCONCLUSIVE")
    return verdict["status"], verdict["exit_status"], verdict["untrusted"]


def test_a_program_that_is_being_loaded_ends_without_a_traceback(tmp_path: Path) -> None:
    loading = (
        "import sys, time; from replica_audit.cli.start import entry_point; "
        "slow = lambda name, *_: (print('here', flush=True), time.sleep(60)) if name == 'replica_audit.cli.main' else None; "
        "sys.meta_path.insert(0, type('Slow', (), {'find_spec': staticmethod(slow)})); entry_point()"
    )
    with _running(tmp_path, loading) as process:
        assert process.stdout is not None and process.stdout.readline() == "here\n"
        assert _end(process, signal.SIGINT)[:3] == (-signal.SIGINT, "", "")


@pytest.mark.parametrize(("number", "status", "said"), ENDINGS)
def test_show_ends_at_once(number: int, status: int, said: str, tmp_path: Path) -> None:
    write_cluster(tmp_path / "snapshot", 1, ("zombie",))
    slow = "import replica_audit.runner.audit_stage as s; s.audit_partitions = lambda *_, **__: (print('here'), time.sleep(60)); "
    call = "entry_point(['show', 'snapshot'])"
    with _running(tmp_path, slow + _PROGRAM + call) as process:
        assert process.stdout is not None and process.stdout.readline() == "here\n"
        assert _end(process, number)[:3] == (status, "", f"replica-audit: {said}\n")
    assert _is_left(tmp_path) == []
    assert not (tmp_path / "replica-audit-report").exists()


@pytest.mark.parametrize(("number", "status", "said"), ENDINGS)
def test_a_run_ends_before_its_session_exists(number: int, status: int, said: str, tmp_path: Path) -> None:
    """A verdict of an earlier run does not outlive the beginning of this one; files in the making go too."""
    (tmp_path / "snapshot").mkdir()
    report = tmp_path / "replica-audit-report"
    report.mkdir()
    (report / "verdict.json").write_text('{"status": "OK"}')
    slow = (
        "import replica_audit.spark.session as s, tempfile; s.start_session = lambda *_, **__: (tempfile.mkstemp(), "
        "print(open('replica-audit-report/verdict.json').read() if __import__('os').path.exists("
        "'replica-audit-report/verdict.json') else 'none'), time.sleep(60)); "
    )
    call = "entry_point(['run', 'snapshot', '--no-quality'])"
    with _running(tmp_path, slow + _PROGRAM + call) as process:
        assert process.stdout is not None and process.stdout.readline() == "none\n"
        assert _end(process, number)[:3] == (status, "", f"replica-audit: {said}\n")
    assert _is_left(tmp_path) == []
    assert _verdict(tmp_path) == ("UNKNOWN", status, said)


def test_a_child_that_does_not_listen_and_a_report_that_cannot_be_written_hold_nothing_up(tmp_path: Path) -> None:
    (tmp_path / "snapshot").mkdir()
    child = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(60)"
    slow = (
        "import replica_audit.spark.session as s, subprocess, sys; s.start_session = lambda *_, **__: (subprocess.Popen("
        f"[sys.executable, '-c', {child!r}, sys.argv[1]]), time.sleep(60)); import replica_audit.cli.warehouse_commands as c; "
        "c.leave_verdict = lambda *_: 1 / 0; "
    )
    call = "entry_point(['run', 'snapshot', '--no-quality'])"
    with _running(tmp_path, slow + _PROGRAM + call, str(tmp_path)) as process:
        assert process.stdout is not None and process.stdout.readline() == "1\n"
        status, _, err, seconds = _end(process, signal.SIGTERM)
    assert status == 143 and seconds < SECONDS
    assert err == "replica-audit: terminated\nreplica-audit: verdict.json could not be written: division by zero\n"
    assert _is_left(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_background_process_goes_on_ignoring_what_it_was_told_to_ignore(tmp_path: Path, number: int) -> None:
    program = f"signal.signal({int(number)}, signal.SIG_IGN); import replica_audit.cli.main as m; "
    slow = "m.main = lambda argv: (print('here'), time.sleep(1), 7)[2]; m.entry_point()"
    with _running(tmp_path, program + slow) as process:
        assert process.stdout is not None and process.stdout.readline() == "here\n"
        assert _end(process, number)[0] == 7


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A snapshot that a job scans for a while."""
    path = tmp_path_factory.mktemp("large") / "snapshot"
    write_cluster(path, 40)
    return path


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(("number", "status", "said"), ENDINGS[:2])
def test_a_run_ends_in_the_middle_of_a_spark_job(
    number: int, status: int, said: str, large: Path, tmp_path: Path
) -> None:
    """By the signal that workers and the JVM get too, and by one that only the program gets, as SIGHUP."""
    with _running(tmp_path, _PROGRAM + "entry_point(['run', sys.argv[1]])", str(large)) as process:
        batches = tmp_path / "replica-audit-warehouse" / "batches"
        until = time.monotonic() + 240
        # Tasks write here while the job of the scan runs.
        while not any(batches.rglob("*.parquet*")):
            assert process.poll() is None and time.monotonic() < until
            time.sleep(0.02)
        assert any((tmp_path / "tmp").iterdir())
        ended, out, err, seconds = _end(process, number)
    assert (ended, out) == (status, "") and seconds < SECONDS
    assert [line for line in err.splitlines() if not line.startswith("replica-audit: scanning")] == [
        f"replica-audit: {said}"
    ]
    assert _is_left(tmp_path) == []
    assert _verdict(tmp_path) == ("UNKNOWN", status, said)


_SLOW_SALVAGE = (
    "from replica_audit.salvage import written_salvage as w; w.hash_file = lambda *_: (print('here'), time.sleep(60)); "
)
_SALVAGE = "entry_point(['salvage', 'snapshot', '--to', 'out', '--payloads', '--quiet'])"


def _write_losses(tmp_path: Path) -> None:
    follower = replica([*COMMON, encode_batch(10, 8, 0, mark="hunter2")], ((0, 0),))
    led_by_first(tmp_path / "snapshot", LEADER, follower)


@pytest.mark.parametrize(("number", "status", "said"), ENDINGS)
def test_an_interrupted_salvage_leaves_no_record_behind(number: int, status: int, said: str, tmp_path: Path) -> None:
    _write_losses(tmp_path)
    with _running(tmp_path, _SLOW_SALVAGE + _PROGRAM + _SALVAGE) as process:
        assert process.stdout is not None and process.stdout.readline() == "here\n"
        assert any(b"hunter2" in path.read_bytes() for path in tmp_path.rglob(".out.*/**/*.log"))
        ended, out, err, seconds = _end(process, number)
    assert (ended, out, err) == (status, "", f"replica-audit: {said}\n") and seconds < SECONDS
    assert sorted(path.name for path in tmp_path.iterdir()) == ["snapshot", "tmp"]


def test_an_interrupted_salvage_names_what_it_could_not_remove(tmp_path: Path) -> None:
    _write_losses(tmp_path)
    stuck = "import shutil; shutil.rmtree = lambda *_, **__: None; "
    with _running(tmp_path, stuck + _SLOW_SALVAGE + _PROGRAM + _SALVAGE) as process:
        assert process.stdout is not None and process.stdout.readline() == "here\n"
        ended, _, err, _ = _end(process, signal.SIGTERM)
    (left,) = tmp_path.glob(".out.*")
    told = f"{left.name} could not be removed, and holds what was written so far: remove it yourself\n"
    assert ended == 143 and err.startswith("replica-audit: terminated\nreplica-audit: ") and err.endswith(told)


def test_one_that_takes_too_long_to_remove_is_named(tmp_path: Path) -> None:
    _write_losses(tmp_path)
    slow = "import shutil; shutil.rmtree = lambda *_, **__: time.sleep(60); "
    with _running(tmp_path, slow + _SLOW_SALVAGE + _PROGRAM + _SALVAGE) as process:
        assert process.stdout is not None and process.stdout.readline() == "here\n"
        ended, _, err, seconds = _end(process, signal.SIGTERM)
    assert ended == 143 and seconds < SECONDS and "could not be removed" in err
