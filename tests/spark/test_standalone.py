"""The main job on a cluster of its own: a master and a worker on this machine, executors that know nothing of .venv."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.support.spark_starts import BRIEF_LAUNCHER, BRIEF_SPARK, archived_classes

from replica_audit.install.environment import find_java
from replica_audit.install.session_settings import LOCAL_JAVA_FLAGS
from replica_audit.install.setup import submit_settings

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "data" / "samples" / "last-replica-standing"

pytestmark = [pytest.mark.spark, pytest.mark.slow]


class Cluster:
    """A standalone master with one worker on loopback, at ports that are free."""

    def __init__(self, directory: Path, started: ExitStack) -> None:
        import pyspark

        class_path, archive = archived_classes()
        self.directory, self.home = directory, Path(pyspark.__file__).parent
        self.work = directory / "work"
        self.environment = {
            # No directory of .venv: what the executors' Python has must come from the archive.
            "PATH": "/usr/bin:/bin",
            "HOME": str(directory),
            "JAVA_HOME": str(find_java().home),
            "SPARK_HOME": str(self.home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            # As driver and executors: master and worker live for seconds too.
            "SPARK_DAEMON_JAVA_OPTS": " ".join((*LOCAL_JAVA_FLAGS, archive)),
            "SPARK_DAEMON_CLASSPATH": class_path,
            **BRIEF_LAUNCHER,
        }
        master = ["master.Master", "--host", "127.0.0.1", "--port", "0"]
        self.url = self._start(started, master, r"Starting Spark master at (spark://127\.0\.0\.1:\d+)")
        worker = ["worker.Worker", "--cores", "2", "--memory", "1g", "--work-dir", str(self.work), self.url]
        self._start(started, worker, r"(Successfully registered) with master")

    def _start(self, started: ExitStack, command: list[str], sign: str) -> str:
        log = self.directory / f"{command[0]}.log"
        program = [str(self.home / "bin" / "spark-class"), f"org.apache.spark.deploy.{command[0]}"]
        with log.open("wb") as stream:
            process = subprocess.Popen(
                [*program, *command[1:], "--webui-port", "0"],
                env=self.environment, cwd=self.directory, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream,
            )  # fmt: skip
        started.callback(process.wait, 30)
        started.callback(process.terminate)
        for _ in range(600):
            found = re.search(sign, log.read_text(errors="replace"))
            if found:
                return found[1]
            assert process.poll() is None, log.read_text(errors="replace")
            time.sleep(0.1)
        raise AssertionError(f"{command[0]} did not start within a minute:\n{log.read_text(errors='replace')}")

    def submit(self, *arguments: str) -> subprocess.CompletedProcess:
        """The command of docs/operations.md, with a driver that finds the code of this project in the zip only."""
        _, settings = submit_settings()
        return subprocess.run(
            [str(self.home / "bin" / "spark-submit"), "--master", self.url, "--properties-file", str(settings),
             "--conf", "spark.sql.shuffle.partitions=2", *BRIEF_SPARK,
             "--py-files", str(ROOT / "build" / "replica_audit.zip"), *arguments],
            env=self.environment, cwd=self.directory, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=500,
        )  # fmt: skip

    def executors(self) -> set[Path]:
        """Working directories of all executors so far."""
        return set(self.work.glob("app-*/*"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    venv = os.path.relpath(sys.prefix, ROOT)
    packages = f"{venv}/.stamps/packages"
    subprocess.run(
        # Packed anew, as if the Makefile had changed: it may be there with the packages of another minor of Spark.
        ["make", "--silent", f"VENV={venv}", "LEVEL=0", "-o", packages, "-W", "Makefile", "zip", "environment"],
        cwd=ROOT, check=True, stdout=subprocess.DEVNULL, timeout=120,
    )  # fmt: skip
    with ExitStack() as started:
        yield Cluster(tmp_path_factory.mktemp("cluster"), started)


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory) -> Path:
    """The archive for executors, unpacked as on each worker."""
    place = tmp_path_factory.mktemp("python")
    subprocess.run(["tar", "-xzf", ROOT / "build" / "environment.tar.gz", "-C", place], check=True, timeout=120)
    return place


#: Says where a worker has its packages from, and when it collects garbage.
WHERE = """
from replica_audit.spark.session import start_session

def places(_):
    import gc, pyarrow, pyspark, replica_audit
    return [pyspark.__file__, pyarrow.__file__, replica_audit.__file__, gc.get_threshold()[0]]

session = start_session("where")
print("found", *session.sparkContext.parallelize([1], 1).mapPartitions(places).collect(), sep="\\n")
session.stop()
"""


def test_executors_start_with_the_python_of_their_disk_and_fetch_the_code_only(cluster, unpacked):
    before = cluster.executors()
    program = cluster.directory / "where.py"
    program.write_text(WHERE)
    ran = cluster.submit("--conf", f"spark.pyspark.python={unpacked}/bin/python", str(program))
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-4000:]
    (executor,) = cluster.executors() - before
    pyspark, pyarrow, own, objects = ran.stdout.split("found\n")[1].splitlines()
    # pyspark is compiled there, and is not in Spark's zip; the daemon's settings are inherited.
    assert int(objects) == 100_000
    assert Path(pyspark).is_relative_to(unpacked) and Path(pyarrow).is_relative_to(unpacked)
    assert own.startswith(f"{executor}/replica_audit.zip/")
    assert {path.name for path in executor.iterdir()} == {"replica_audit.zip", "stdout", "stderr"}, "no JAR, no archive"


def test_the_archive_has_compiled_modules_and_nothing_of_java(unpacked):
    (packages,) = unpacked.glob("lib/python3.*/site-packages")
    names = {path.name for path in packages.iterdir() if "-info" not in path.name and not path.name.endswith(".libs")}
    assert names == {"numpy", "pyarrow", "google_crc32c", "cramjam", "pyspark", "py4j"}
    files = [path.relative_to(packages) for path in packages.rglob("*") if path.is_file()]
    assert not [path for path in files if path.suffix == ".jar" or "tests" in path.parts or path.parts[1] == "jars"]
    assert list((packages / "pyspark" / "__pycache__").glob("worker.*.pyc"))


def test_the_executors_live_on_the_archive_alone(cluster):
    python = "spark.pyspark.python=./environment/bin/python"
    archive = f"{ROOT / 'build' / 'environment.tar.gz'}#environment"
    ran = cluster.submit(
        "--archives", archive, "--conf", python,
        str(ROOT / "jobs" / "run.py"), str(SAMPLE), "--warehouse", "warehouse", "--report", "report", "--no-quality",
    )  # fmt: skip
    assert ran.returncode == 1, ran.stdout[-2000:] + ran.stderr[-4000:]
    last = ran.stdout.splitlines()[-1]
    assert last == "CRITICAL: 1 partition, COMMITTED_LOSS; findings: 2 critical, 1 medium, 1 low"
    verdict = json.loads((cluster.directory / "report" / "verdict.json").read_text())
    assert (verdict["verdict"], verdict["exit_status"]) == ("COMMITTED_LOSS", 1)
    (interpreter,) = cluster.work.glob("app-*/*/environment/bin/python")
    own = subprocess.run([interpreter, "-c", "import pyarrow; print(pyarrow.__file__)"], capture_output=True, text=True)
    assert Path(own.stdout.strip()).is_relative_to(interpreter.parents[1]), own.stderr
    assert "No module named" not in ran.stderr
