"""Disks that are full or read-only, and warehouses and snapshots that change under a run: one sentence that says what to do,
a verdict.json that says it too, and after the repair the answers of an undisturbed run."""

from __future__ import annotations

import json
import shutil
import subprocess
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.faults.command import run_command
from tests.support.samples import SAMPLES

SAMPLE = SAMPLES / "last-replica-standing"

#: A user who is nobody elsewhere may mount here, where the kernel lets him.
_UNSHARE = ("unshare", "--user", "--mount", "--map-root-user", "sh", "-ec")


def _can_mount() -> bool:
    if shutil.which("unshare") is None:
        return False
    done = subprocess.run([*_UNSHARE, 'mount -t tmpfs tmpfs "$1"', "-", "/mnt"], capture_output=True)
    return done.returncode == 0


needs_mounts = pytest.mark.skipif(not _can_mount(), reason="the kernel lets nobody but root mount (unshare --user)")


class Done(NamedTuple):
    """How a run ended, and what it said."""

    returncode: int | None
    stdout: str
    stderr: str


class Runs:
    """Runs of the sample in one directory, each in a process without a JVM."""

    def __init__(self, directory: Path, processes: BaseContext) -> None:
        self.directory, self._processes = directory, processes
        self.warehouse, self.report = directory / "warehouse", directory / "report"
        for path in (self.warehouse, self.report, directory / "temporary"):
            path.mkdir()

    def run(self, name: str = "run", *arguments: str, before: str = "", after: str = "") -> Done:
        """A command, by default of the sample, between shell lines that run in the directory, with mounts of their own."""
        places = ["--warehouse", str(self.warehouse)]
        if name == "run":
            arguments = (str(SAMPLE), *arguments)
            places += ["--report", str(self.report), "--no-quality"]
        command = [name, *arguments, *places]
        process = self._processes.Process(target=run_command, args=(str(self.directory), command, before, after))
        process.start()
        process.join(120)
        said = [(self.directory / stream).read_text() for stream in ("stdout", "stderr")]
        return Done(process.exitcode, *said)

    def verdict(self) -> dict:
        return json.loads((self.report / "verdict.json").read_text())


@pytest.fixture
def runs(tmp_path: Path, processes: BaseContext) -> Runs:
    return Runs(tmp_path, processes)


def _sentence(done: Done) -> str:
    """The one line that a failed run says of its fault; no trace of Python, Java or Rust is on the terminal."""
    assert done.returncode in (3, 4), done.stderr
    (line,) = [line for line in done.stderr.splitlines() if not line.startswith("replica-audit: read ")]
    assert line.startswith("replica-audit: ")
    return line


@needs_mounts
@pytest.mark.parametrize("kib", [8, 40, 100, 140, 200])
def test_a_warehouse_on_a_full_disk(kib: int, runs: Runs) -> None:
    keep = 'cp -a warehouse "kept"'
    done = runs.run(before=f"mount -t tmpfs -o size={kib}k tmpfs warehouse", after=keep)
    assert "no space is left on the disk" in _sentence(done)
    assert runs.verdict()["exit_status"] == 4
    assert "no space is left" in runs.verdict()["untrusted"]
    # With room again, the same warehouse, what the failed run left in it included.
    shutil.rmtree(runs.warehouse)
    (runs.directory / "kept").rename(runs.warehouse)
    assert runs.run().returncode == 1
    assert runs.verdict()["verdict"] == "COMMITTED_LOSS"


@needs_mounts
@pytest.mark.parametrize("kib", [0, 60])
def test_a_report_on_a_full_disk(kib: int, runs: Runs) -> None:
    mount = f"mount -t tmpfs -o size={max(kib, 4)}k tmpfs report" + (
        "; dd if=/dev/zero of=report/full 2>&1 || true" if not kib else ""
    )
    done = runs.run(before=mount, after="if [ -f report/verdict.json ]; then cp report/verdict.json kept; fi")
    assert done.returncode == 4
    assert "no space is left on the disk" in done.stderr
    assert "Traceback" not in done.stderr
    kept = runs.directory / "kept"
    if kib == 60:
        assert json.loads(kept.read_text())["exit_status"] == 4
    assert runs.run().returncode == 1


@needs_mounts
@pytest.mark.parametrize("name", ["warehouse", "report"])
def test_a_read_only_place(name: str, runs: Runs) -> None:
    done = runs.run(before=f"mount --bind {name} {name}; mount -o remount,bind,ro {name}")
    assert done.returncode in (2, 4)
    assert "Read-only file system" in done.stderr or "no permission to write" in done.stderr
    assert str(runs.directory / name) in done.stderr
    assert "Traceback" not in done.stderr


def _newest(runs: Runs, pattern: str) -> Path:
    return max(runs.warehouse.glob(pattern), key=lambda path: path.stat().st_mtime_ns)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory, processes: BaseContext) -> Path:
    """A directory in which the sample was run once."""
    runs = Runs(tmp_path_factory.mktemp("sound"), processes)
    assert runs.run().returncode == 1
    return runs.directory


@pytest.mark.parametrize("harm", ["gone", "garbage"])
@pytest.mark.parametrize(
    "what", ["segments/*.parquet", "segments/_delta_log/*.json", "audits/*.parquet", "audits/_delta_log/*.json"]
)
def test_a_damaged_warehouse(harm: str, what: str, runs: Runs, sound: Path) -> None:
    shutil.copytree(sound / "warehouse", runs.warehouse, dirs_exist_ok=True)
    path = _newest(runs, what)
    if harm == "gone":
        path.unlink()
    else:
        path.write_bytes(b"PAR1" + bytes(100))
    done = runs.run("audit")
    if harm != "garbage" and "audits" in what and path.suffix == ".json":
        # A log that ends earlier is that of a moment before: the audit's row is gone, the ingest's is there.
        assert done.returncode == 1
        return
    sentence = _sentence(done)
    assert "is damaged" in sentence
    assert path.name in sentence or path.suffix == ".json"


@pytest.fixture(scope="module")
def ingested(tmp_path_factory: pytest.TempPathFactory, processes: BaseContext) -> tuple[Runs, dict]:
    """Runs after an ingest of `snapshot` beside them, and the answers of an undisturbed audit."""
    runs = Runs(tmp_path_factory.mktemp("ingested"), processes)
    snapshot = runs.directory / "snapshot"
    shutil.copytree(SAMPLE, snapshot)
    assert runs.run("ingest", str(snapshot)).returncode == 0
    return runs, json.loads(runs.run("audit", "--format", "json").stdout)


@pytest.mark.parametrize("harm", ["gone", "cut", "changed"])
def test_a_snapshot_that_changes_between_ingest_and_audit(harm: str, ingested: tuple[Runs, dict]) -> None:
    runs, undisturbed = ingested
    snapshot = runs.directory / "snapshot"
    shutil.rmtree(snapshot)
    shutil.copytree(SAMPLE, snapshot)
    harmed = list(snapshot.glob("broker-2/orders-0/*.log"))
    assert harmed
    for path in harmed:
        data = path.read_bytes()
        path.write_bytes(
            {"gone": b"", "cut": data[: len(data) // 2], "changed": data[:100] + bytes(20) + data[120:]}[harm]
        )
        if harm == "gone":
            path.unlink()
    done = runs.run("audit", "--format", "json")
    answers = json.loads(done.stdout)
    assert "Traceback" not in done.stderr
    # Headers are in the warehouse; records, where they have to be compared, are read from the snapshot.
    assert answers["partitions"] == undisturbed["partitions"] or "run ingest again" in done.stdout
