"""Spark Connect: a server of its own process, a client without a JVM, and the answers of a classic session."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pyspark
import pytest
from tests.support.long_logs import write_long_logs
from tests.support.quality_checks import built_in
from tests.support.samples import SAMPLES
from tests.support.spark_starts import BRIEF_LAUNCHER, BRIEF_SPARK, archived_classes

import replica_audit
from replica_audit.install.environment import find_java
from replica_audit.install.session_settings import LOCAL_JAVA_FLAGS
from replica_audit.schema import REPORT_TABLES

ROOT = Path(__file__).parents[2]
SAMPLE = SAMPLES / "last-replica-standing"

pytestmark = pytest.mark.spark

_RUN = "import sys; from replica_audit.cli.main import main; sys.exit(main())"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The address of a local Connect server whose workers are this Python; skipped without the client's packages."""
    pytest.importorskip("grpc", reason="the client of Spark Connect is not installed: make install")
    pytest.importorskip("grpc_status", reason="the client of Spark Connect is not installed: make install")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    home = Path(pyspark.__file__).parent
    settings = {
        "spark.connect.grpc.binding.port": port,
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
    }
    class_path, archive = archived_classes()
    command = [str(home / "bin" / "spark-submit"), "--master", "local[2]", "--driver-class-path", class_path]
    command += ["--driver-java-options", " ".join((*LOCAL_JAVA_FLAGS, archive)), *BRIEF_SPARK]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    log = tmp_path_factory.mktemp("connect") / "server.log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            command,
            cwd=log.parent,
            env=_environment(SPARK_HOME=str(home), **BRIEF_LAUNCHER),
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
        )
    try:
        end = time.monotonic() + 120
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert process.poll() is None and time.monotonic() < end, log.read_text()[-2000:]
            time.sleep(0.5)
        yield f"sc://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=60)


def _environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("REPLICA_AUDIT_", "SPARK_"))}
    own = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "JAVA_HOME": str(find_java().home)}
    return {**kept, **own, "PYTHONPATH": f"{ROOT / 'lib'}{os.pathsep}{ROOT}", **more}


def _run(server: str, arguments: list[str], directory: Path) -> subprocess.CompletedProcess:
    # Without a Java to be found, nothing can fall back on a JVM of the client's own.
    environment = {**_environment(SPARK_REMOTE=server), "JAVA_HOME": "/nowhere"}
    return subprocess.run(
        [sys.executable, *arguments], cwd=directory, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=300,
    )  # fmt: skip


def test_the_whole_sample_audit_on_a_connect_server(server, tmp_path):
    ran = _run(server, ["-c", _RUN, "run", str(SAMPLE)], tmp_path)
    assert ran.returncode == 1, ran.stderr
    assert ran.stdout.splitlines()[-1].startswith("CRITICAL: 1 partition, COMMITTED_LOSS")
    told = json.loads((tmp_path / "replica-audit-report" / "audit.json").read_text())
    expected = replica_audit.show(str(SAMPLE)).results
    for table in ("partitions", "findings", "divergences", "truncations", "high_watermarks", "replicas"):
        assert told[table] == json.loads(json.dumps([dict(row) for row in expected.rows(table)])), table
    assert len(told["quality"]) == built_in()


_PROGRAM = """
import json, sys
from pyspark.sql import SparkSession
import replica_audit
from replica_audit.spark.tasks import SparkExecutor, is_remote

spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
assert is_remote(spark)
ended = []
def work(task):
    from pyspark import TaskContext
    context = TaskContext.get()
    yield from ((context.partitionId(), number) for number in range(task))
found = SparkExecutor(spark).map([3, 0, 2, 5], work, ended.append)
assert [number for _, number in found] == [0, 1, 2, 0, 1, 0, 1, 2, 3, 4], found
assert [place for place, _ in found] == [0, 0, 0, 2, 2, 3, 3, 3, 3, 3], found
assert ended == [3, 0, 2, 5], ended
assert SparkExecutor(spark).parallelism >= 1
audit = replica_audit.audit(spark, sys.argv[2], warehouse=sys.argv[3])
rows = audit.findings.orderBy("finding_id").collect()
assert [row.finding_id for row in rows] == sorted(row["finding_id"] for row in audit.rows("findings"))
batches = replica_audit.read_batches(spark, sys.argv[2], brokers=[1])
expected = audit.batches.where("broker_id = 1").count()
assert batches.count() == expected > 0
try:
    SparkExecutor(spark).map([1], lambda task: 1 / 0)
except Exception as error:
    assert "ZeroDivisionError" in str(error)
else:
    raise AssertionError("an error in a task was lost")
assert spark.range(3).count() == 3, "the caller's session lives on"
print(audit.verdict)
"""


def test_the_python_api_in_a_session_of_the_callers(server, tmp_path):
    """On the same server, which lives on after a run, as after this."""
    ran = _run(server, ["-c", _PROGRAM, server, str(SAMPLE), str(tmp_path / "warehouse")], tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == ["COMMITTED_LOSS"]


_SPREAD = """
import sys
from replica_audit.cli.main import main
from replica_audit.runner.ingest import SpreadTasks
from replica_audit.snapshot import spread_discovery
from replica_audit.spark.tasks import SparkExecutor, is_remote

spread_discovery.SPREAD_ABOVE, spread_discovery.STRETCH_DIRECTORIES = 0, 3
read = SpreadTasks.read
def reading(self, reader, stretches):
    assert isinstance(self._executor, SparkExecutor) and is_remote(self._executor._spark)
    found = read(self, reader, stretches)
    print(len(stretches), sum(pack.replica_count for one in found for pack in one.packs))
    return found
SpreadTasks.read = reading
sys.exit(main(["run", sys.argv[1], "--no-quality", "--quiet", "--fail-on", "never"]))
"""


def test_directories_are_read_by_tasks_of_the_server(server, tmp_path):
    snapshot = tmp_path / "snapshot"
    write_long_logs(snapshot, 1, 8)
    ran = _run(server, ["-c", _SPREAD, str(snapshot)], tmp_path)
    assert ran.returncode == 0, ran.stderr
    tasks, replicas = map(int, ran.stdout.split()[:2])
    told = json.loads((tmp_path / "replica-audit-report" / "audit.json").read_text())
    assert tasks > 1 and replicas == told["audit"]["inputs"]["replicas"]
    expected = replica_audit.show(str(snapshot)).results
    for table in REPORT_TABLES:
        assert told[table] == json.loads(json.dumps(expected.rows(table))), table


_REPORT = """
import sys
from pathlib import Path
from replica_audit.auditing import detailed_partitions
from replica_audit.cli.main import main
from replica_audit.warehouse import answer_parts
from replica_audit.warehouse.answer_tables import load_results
from replica_audit.warehouse.delta_tables import Warehouse
from replica_audit.report.report_files import write_report

detailed_partitions.WHOLE = detailed_partitions.DETAILED = detailed_partitions.NAMED = 2
answer_parts.STRETCH = 3
jobs, run = [], answer_parts.AnswerParts.map
def mapping(self, *given):
    jobs.append(self.outlet is not None)
    return run(self, *given)
answer_parts.AnswerParts.map = mapping
status = main(["run", sys.argv[1], "--config", "audit.yaml", "--no-quality", "--quiet", "--fail-on", "never"])
assert set(jobs) == {True}, jobs
tried = len(jobs)
lines = Path("replica-audit-report/audit.jsonl.gz").read_bytes()
write_report(load_results(Warehouse("replica-audit-warehouse"), None, "never"), "replica-audit-report", "never")
assert set(jobs[tried:]) == {False}, jobs
assert lines == Path("replica-audit-report/audit.jsonl.gz").read_bytes()
assert not list(Path("replica-audit-warehouse/partitions").glob("*.part"))
sys.exit(status)
"""


def test_lines_of_a_large_audit_are_written_by_tasks_of_the_server(server, tmp_path):
    write_long_logs(tmp_path / "snapshot", 1, 8)
    (tmp_path / "audit.yaml").write_text("driver_rows: 1\n")
    ran = _run(server, ["-c", _REPORT, str(tmp_path / "snapshot")], tmp_path)
    assert ran.returncode == 0, ran.stderr


def test_a_server_that_does_not_answer_is_told(server, tmp_path):
    ran = _run("sc://127.0.0.1:1/;token=hidden-token", ["-c", _RUN, "run", str(SAMPLE)], tmp_path)
    assert ran.returncode == 4
    assert (
        "no Spark Connect server answers at sc://127.0.0.1:1/ (SPARK_REMOTE)" in ran.stderr
        and "hidden-token" not in ran.stderr
    )
