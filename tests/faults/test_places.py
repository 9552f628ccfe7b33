"""Disks that are full or read-only, and warehouses and snapshots that change under a run: one sentence that says what to do,
a verdict.json that says it too, and after the repair the answers of an undisturbed run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.samples import SAMPLES

SAMPLE = SAMPLES / "last-replica-standing"
ROOT = Path(__file__).parents[2]

#: A user who is nobody elsewhere may mount here, where the kernel lets him.
_UNSHARE = ("unshare", "--user", "--mount", "--map-root-user", "sh", "-ec")


def _can_mount() -> bool:
    if shutil.which("unshare") is None:
        return False
    done = subprocess.run([*_UNSHARE, 'mount -t tmpfs tmpfs "$1"', "-", "/mnt"], capture_output=True)
    return done.returncode == 0


needs_mounts = pytest.mark.skipif(not _can_mount(), reason="the kernel lets nobody but root mount (unshare --user)")


class Runs:
    """Runs of the sample in one directory, each in a process without a JVM."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.warehouse, self.report = directory / "warehouse", directory / "report"
        self.temporary = directory / "temporary"
        for path in (self.warehouse, self.report, self.temporary):
            path.mkdir()

    def command(self, name: str = "run", *arguments: str) -> list[str]:
        places = ["--warehouse", str(self.warehouse)]
        if name == "run":
            places += ["--report", str(self.report), "--no-quality"]
        return [sys.executable, "-m", "tests.faults.command", name, *arguments, *places]

    def run(self, *command: str, before: str = "", after: str = "") -> subprocess.CompletedProcess[str]:
        """A command, by default of the sample, between shell lines in which `$1` is the directory."""
        environment = {
            **os.environ,
            "TMPDIR": str(self.temporary),
            "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
        }
        line = list(command or self.command("run", str(SAMPLE)))
        if before or after:
            text = f'{before}\nstatus=0; "$@" || status=$?\n{after}\nexit $status'
            line = [*_UNSHARE, f"cd {self.directory}\n{text}", "-", *line]
        return subprocess.run(line, capture_output=True, text=True, env=environment, cwd=ROOT, timeout=120)

    def verdict(self) -> dict:
        return json.loads((self.report / "verdict.json").read_text())


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path)


def _sentence(done: subprocess.CompletedProcess[str]) -> str:
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
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory in which the sample was run once."""
    runs = Runs(tmp_path_factory.mktemp("sound"))
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
    done = runs.run(*runs.command("audit"))
    if harm != "garbage" and "audits" in what and path.suffix == ".json":
        # A log that ends earlier is that of a moment before: the audit's row is gone, the ingest's is there.
        assert done.returncode == 1
        return
    sentence = _sentence(done)
    assert "is damaged" in sentence or "segments is not a Delta table" in sentence
    assert path.name in sentence or path.suffix == ".json"


@pytest.fixture(scope="module")
def ingested(tmp_path_factory: pytest.TempPathFactory) -> tuple[Runs, dict]:
    """Runs after an ingest of `snapshot` beside them, and the answers of an undisturbed audit."""
    runs = Runs(tmp_path_factory.mktemp("ingested"))
    snapshot = runs.directory / "snapshot"
    shutil.copytree(SAMPLE, snapshot)
    assert runs.run(*runs.command("ingest", str(snapshot))).returncode == 0
    return runs, json.loads(runs.run(*runs.command("audit"), "--format", "json").stdout)


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
    done = runs.run(*runs.command("audit"), "--format", "json")
    answers = json.loads(done.stdout)
    assert "Traceback" not in done.stderr
    # Headers are in the warehouse; records, where they have to be compared, are read from the snapshot.
    assert answers["partitions"] == undisturbed["partitions"] or "run ingest again" in done.stdout
