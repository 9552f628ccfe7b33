"""A collection that ends early, however it does: nothing is taken for whole that is not."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.collected import UNLIMITED, answers, collect_into
from tests.support.encoder import Record, encode_batch
from tests.support.snapshots import Replica, write_pair

from replica_audit.cli.capture_plan_command import collector_text

KILLS = 6


def _snapshot(place: Path, **fields: str) -> Path:
    """Two brokers with some megabytes in several segments."""
    value = random.Random(5).randbytes(200_000)
    batches = [encode_batch(number, [Record(b"k", value)], 0) for number in range(24)]
    replica = Replica(batches, per_segment=6, **fields)
    return write_pair(place, replica, replica)


def _start(log_dir: Path, out: int, *arguments: str, limit: Callable[[], None] | None = None) -> subprocess.Popen:
    command = [sys.executable, "-I", "-B", "-", "--log-dir", str(log_dir), *arguments]
    running = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=subprocess.PIPE, preexec_fn=limit)
    assert running.stdin is not None
    running.stdin.write(collector_text().encode())
    running.stdin.close()
    return running


def test_a_collector_that_is_killed_at_any_moment_leaves_nothing_that_is_taken_for_whole(tmp_path: Path) -> None:
    snapshot, evidence = _snapshot(tmp_path / "snapshot"), tmp_path / "evidence"
    evidence.mkdir()
    (evidence / "kafka-topics-describe.txt").write_bytes((snapshot / "kafka-topics-describe.txt").read_bytes())
    collect_into(evidence / "evidence-2.tar", "--log-dir", str(snapshot / "broker-2"))
    archive = evidence / "evidence-1.tar"
    chance = random.Random(11)
    for number in range(KILLS):
        with archive.open("wb") as out:
            running = _start(snapshot / "broker-1", out.fileno(), "--rate-mib", "2", "--iops", "1e9")
            # Whatever the machine does besides: a share of what a whole archive has.
            until = chance.randrange(1, 6_000) if number else 0
            while archive.stat().st_size < until and running.poll() is None:
                time.sleep(0.005)
            running.send_signal(chance.choice((signal.SIGKILL, signal.SIGTERM)))
            assert running.stderr is not None
            running.stderr.read()
            assert running.wait(60) != 0
        found = answers(evidence)
        refused = [row["reason"] for row in found["quarantine"] if row["code"] == "CAP-UNREADABLE"]
        assert len(refused) == 1 and "collect this broker again" in refused[0], archive.stat().st_size
        assert {row["broker_id"] for row in found["replicas"]} == {2}
        assert not [row for row in found["findings"] if row["severity"] == "critical"]


def _small_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))


def test_a_full_disk_at_the_receiver_ends_it_with_1(tmp_path: Path) -> None:
    snapshot = _snapshot(tmp_path / "snapshot")
    for path, limit, said in (
        (Path("/dev/full"), None, b"No space left on device"),
        (tmp_path / "evidence-1.tar", _small_files, b"File too large"),
    ):
        with path.open("wb") as out:
            running = _start(snapshot / "broker-1", out.fileno(), *UNLIMITED, limit=limit)
            assert running.stderr is not None
            text = running.stderr.read()
        assert running.wait(60) == 1 and text == b"collect.py: the archive could not be written: " + said + b"\n"


@pytest.mark.parametrize("kept", [1, 300_000])
def test_a_pipe_that_breaks_in_the_middle_ends_it_with_1(tmp_path: Path, kept: int) -> None:
    snapshot = _snapshot(tmp_path / "snapshot", topic="__consumer_offsets")
    read, write = os.pipe()
    running = _start(snapshot / "broker-1", write, *UNLIMITED)
    os.close(write)
    while kept > 0:
        kept -= len(os.read(read, kept))
    os.close(read)
    assert running.stderr is not None
    text = running.stderr.read()
    assert running.wait(60) == 1 and text == b"collect.py: the archive could not be written: Broken pipe\n"
