"""The jobs under spark-submit, where the code comes from the zip and from nowhere else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from replica_audit.setup.environment import check_jars

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
    """Run a job as docs/operations.md says, from another directory, with the JARs of the installation and no network."""
    import pyspark

    home = Path(pyspark.__file__).parent
    directory = tmp_path_factory.mktemp("elsewhere")
    kept = {key: value for key, value in os.environ.items() if key in ("PATH", "JAVA_HOME", "LANG", "TMPDIR")}
    environment = {
        **kept, "HOME": str(directory), "SPARK_HOME": str(home), "PYSPARK_PYTHON": str(executors_python),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }  # fmt: skip

    def run(job: str, *arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [str(home / "bin" / "spark-submit"), "--master", "local[2]",
             "--properties-file", str(ROOT / "conf" / "spark-defaults.conf"),
             "--conf", f"spark.jars.ivySettings={ROOT / 'conf' / 'ivysettings.xml'}",
             "--conf", "spark.jars.packages=", "--jars", ",".join(map(str, check_jars())),
             "--conf", "spark.ui.enabled=false", "--conf", "spark.log.level=WARN",
             "--conf", "spark.sql.shuffle.partitions=2",
             "--driver-java-options", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
             "--py-files", str(archive), str(ROOT / "jobs" / job), *arguments],
            env=environment, cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=400,
        )  # fmt: skip

    return run


def last_line(result: subprocess.CompletedProcess) -> str:
    return result.stdout.splitlines()[-1]


def answer(result: subprocess.CompletedProcess) -> list[str]:
    """What the job itself wrote to stdout: spark-submit adds a line of Ivy's, and the job's stderr."""
    return [line for line in result.stdout.splitlines() if not line.startswith((":: loading settings", "report: "))]


CRITICAL = "CRITICAL: 1 partition, COMMITTED_LOSS; findings: 2 critical, 1 medium, 1 low"


def test_the_stages_one_after_the_other_then_the_main_job(submit, tmp_path):
    place = ["--warehouse", str(tmp_path / "warehouse"), "--report", str(tmp_path / "report")]
    verdict = tmp_path / "report" / "verdict.json"

    ingest = submit("ingest.py", str(SAMPLE), *place)
    assert ingest.returncode == 0, ingest.stderr[-3000:]
    word, snapshot_id = last_line(ingest).split()
    assert word == "snapshot" and len(snapshot_id) == 32

    audit = submit("audit.py", *place)
    assert (audit.returncode, last_line(audit)) == (1, CRITICAL), audit.stderr[-3000:]
    assert not verdict.exists()

    # The suites, and the frames of Data Docs, come out of the zip.
    quality = submit("quality.py", *place, "--fail-on", "never")
    assert quality.returncode == 0, quality.stderr[-3000:]
    assert last_line(quality) == "WARNING: 15 expectations; failed: 1 critical, 1 medium, 1 low"
    assert (tmp_path / "report" / "data_docs" / "index.html").is_file()

    report = submit("report.py", *place, "--fail-on", "never")
    assert report.returncode == 0, report.stderr[-3000:]
    assert answer(report)[:-1] == answer(audit)[:-1]
    first = json.loads(verdict.read_text())
    assert (first["exit_status"], first["fail_on"], first["verdict"]) == (0, "never", "COMMITTED_LOSS")

    run = submit("run.py", str(SAMPLE), *place)
    assert (run.returncode, last_line(run)) == (1, CRITICAL), run.stderr[-3000:]
    assert f"of snapshot {snapshot_id}" in run.stdout
    second = json.loads(verdict.read_text())
    assert (second["exit_status"], second["status"]) == (1, "CRITICAL")
    assert second["audit_id"] != first["audit_id"]
    content = json.loads((tmp_path / "report" / "audit.json").read_text())
    assert content["audit"]["snapshot_id"] == snapshot_id


def test_the_history_job_takes_the_same_arguments():
    job = [sys.executable, str(ROOT / "jobs" / "history.py")]
    result = subprocess.run([*job, "--limit", "0"], capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stdout) == (2, "")
    assert "'0' is not a whole number of 1 or more" in result.stderr
