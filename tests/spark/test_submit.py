"""The jobs under spark-submit, where the code comes from the zip and from nowhere else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.support.quality_checks import built_in
from tests.support.spark_starts import BRIEF_LAUNCHER, BRIEF_SPARK

from replica_audit.install.setup import submit_settings

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "data" / "samples" / "last-replica-standing"

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def archive() -> Path:
    """The zip that `make zip` builds."""
    path = ROOT / "build" / "replica_audit.zip"
    subprocess.run(["make", "--silent", "zip"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL, timeout=60)
    return path


@pytest.fixture(scope="module")
def executors_python(tmp_path_factory) -> Path:
    """An interpreter with the packages that executors need, but without replica_audit, as on a cluster."""
    home = tmp_path_factory.mktemp("executor") / "environment"
    venv.create(home, with_pip=False, symlinks=True)
    own = home / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    # A path named in a .pth file is searched, but the .pth files in it (the editable install) are not read.
    (own / "packages.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    python = home / "bin" / "python"
    assert subprocess.run([python, "-c", "import pyarrow, pyspark, google_crc32c"], cwd=home, env={}).returncode == 0
    found = subprocess.run([python, "-c", "import replica_audit"], cwd=home, env={}, capture_output=True, text=True)
    assert "No module named 'replica_audit'" in found.stderr
    return python


@pytest.fixture(scope="module")
def submit(archive, executors_python, tmp_path_factory):
    """Run a job as docs/operations.md says, from another directory, with no network and the code from the zip."""
    import pyspark

    _, cluster = submit_settings()
    home = Path(pyspark.__file__).parent
    directory = tmp_path_factory.mktemp("elsewhere")
    kept = {key: value for key, value in os.environ.items() if key in ("PATH", "JAVA_HOME", "LANG", "TMPDIR")}
    environment = {
        **kept, "HOME": str(directory), "SPARK_HOME": str(home), "PYSPARK_PYTHON": str(executors_python),
        "SPARK_LOCAL_IP": "127.0.0.1", **BRIEF_LAUNCHER,
    }  # fmt: skip

    def run(job: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess:
        own = [part for name, value in settings.items() for part in ("--conf", f"spark.{name}={value}")]
        return subprocess.run(
            [str(home / "bin" / "spark-submit"), "--master", "local[2]",
             "--properties-file", str(cluster), "--conf", f"spark.pyspark.driver.python={executors_python}",
             "--conf", "spark.log.level=WARN", "--conf", "spark.sql.shuffle.partitions=2",
             *BRIEF_SPARK, *own, "--py-files", str(archive), str(job), *arguments],
            env=environment, cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=400,
        )  # fmt: skip

    return run


#: Runs mains of jobs/ one after the other, each with a session of its own, in one Java; says after each what verdict there is.
JOBS_IN_TURN = """
import json, pathlib, runpy, sys

jobs, verdict = json.loads(sys.argv[1])
verdict = pathlib.Path(verdict)
for job, *arguments in jobs:
    sys.argv = [job, *arguments]
    try:
        runpy.run_path(job, run_name="__main__")
    except SystemExit as end:
        found = json.loads(verdict.read_text()) if verdict.exists() else None
        print("exit status", end.code, json.dumps(found), flush=True)
"""


class Ended(NamedTuple):
    """A job's status, what it wrote to stdout itself (spark-submit adds a line of Ivy's, and stderr), and the verdict.json
    that was there when it ended."""

    status: int
    lines: list[str]
    verdict: dict | None


def in_turn(submit, directory: Path, verdict: Path, *jobs: list[str]) -> list[Ended]:
    """How jobs ended; what happened in their sessions Spark writes into files in `directory`/events."""
    program = directory / "jobs_in_turn.py"
    program.write_text(JOBS_IN_TURN, encoding="utf-8")
    (directory / "events").mkdir()
    ran = submit(
        program,
        json.dumps([[[str(ROOT / "jobs" / job), *arguments] for job, *arguments in jobs], str(verdict)]),
        **{"eventLog.enabled": "true", "eventLog.compress": "false", "eventLog.dir": (directory / "events").as_uri()},
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    answers, own = [], []
    for line in ran.stdout.splitlines():
        if line.startswith("exit status "):
            _, _, status, found = line.split(maxsplit=3)
            answers.append(Ended(int(status), own, json.loads(found)))
            own = []
        elif not line.startswith((":: loading settings", "report: ", "replica-audit: ")):
            own.append(line)
    assert len(answers) == len(jobs), ran.stdout + ran.stderr[-3000:]
    return answers


def events_of_sessions(directory: Path) -> list[Counter[str]]:
    """How often what happened in each session, one after the other."""
    sessions = []
    for path in directory.rglob("*"):
        if path.is_file() and path.stat().st_size and path.name[0] != ".":
            events = [json.loads(line) for line in path.read_text().splitlines()]
            (began,) = [one["Timestamp"] for one in events if one["Event"] == "SparkListenerApplicationStart"]
            sessions.append((began, Counter(one["Event"] for one in events)))
    return [happened for _, happened in sorted(sessions, key=lambda one: one[0])]


CRITICAL = "CRITICAL: 1 partition, COMMITTED_LOSS; findings: 2 critical, 1 medium, 1 low"


def test_the_stages_one_after_the_other_then_the_main_job(submit, tmp_path):
    place = ["--warehouse", str(tmp_path / "warehouse"), "--report", str(tmp_path / "report")]
    never = ["--fail-on", "never"]
    verdict = tmp_path / "report" / "verdict.json"

    ingest, audit, quality, report, run = in_turn(
        submit, tmp_path, verdict, ["ingest.py", str(SAMPLE), *place], ["audit.py", *place],
        ["quality.py", *place, *never], ["report.py", *place, *never], ["run.py", str(SAMPLE), *place],
    )  # fmt: skip
    word, snapshot_id = ingest.lines[-1].split()
    assert (ingest.status, word, len(snapshot_id)) == (0, "snapshot", 32)
    assert (audit.status, audit.lines[-1]) == (1, CRITICAL)
    assert audit.verdict is None
    # The suites, and the frames of Data Docs, come out of the zip.
    assert (quality.status, quality.lines[-1]) == (
        0,
        f"WARNING: {built_in()} expectations; failed: 1 critical, 1 medium, 1 low",
    )
    assert (tmp_path / "report" / "data_docs" / "index.html").is_file()
    assert (report.status, report.lines[:-1]) == (0, audit.lines[:-1])
    first = report.verdict
    assert (first["exit_status"], first["fail_on"], first["verdict"]) == (0, "never", "COMMITTED_LOSS")

    # Submitted itself, it ends spark-submit with its status: tests/spark/test_standalone.py.
    assert (run.status, run.lines[-1]) == (1, CRITICAL)
    assert any(f"of snapshot {snapshot_id}" in line for line in run.lines)
    assert (run.verdict["exit_status"], run.verdict["status"]) == (1, "CRITICAL")
    assert run.verdict["audit_id"] != first["audit_id"]
    content = json.loads((tmp_path / "report" / "audit.json").read_text())
    assert content["audit"]["snapshot_id"] == snapshot_id

    # Ingest and audit take a job each; of a snapshot that is there a run takes that of the audit alone, and checks take no query.
    assert len(content["quality"]) == built_in()
    sessions = events_of_sessions(tmp_path / "events")
    assert [one["SparkListenerJobStart"] for one in sessions] == [1, 1, 1]
    assert all(one["SparkListenerApplicationEnd"] == 1 for one in sessions)
    assert not [event for one in sessions for event in one if "sql" in event], sessions


def test_the_history_job_takes_the_same_arguments():
    job = [sys.executable, str(ROOT / "jobs" / "history.py")]
    result = subprocess.run([*job, "--limit", "0"], capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stdout) == (2, "")
    assert "'0' is not a whole number of 1 or more" in result.stderr
