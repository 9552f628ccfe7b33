"""The session: Delta works in it, it starts without a network, stdout stays clean, spark-submit's settings are kept."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest
from tests.support.spark_starts import BRIEF_JAVA, BRIEF_LAUNCHER, BRIEF_SPARK

from replica_audit.errors import EngineError
from replica_audit.install import setup as archive
from replica_audit.install.environment import check_jars, find_java
from replica_audit.install.installation import JARS_VARIABLE
from replica_audit.install.session_settings import CLUSTER_SETTINGS, DELTA_EXTENSION, WORKER_DAEMON, local_settings
from replica_audit.spark.session import build_session, start_session

ROOT = Path(__file__).parents[2]


def test_delta_tables_are_written_replaced_and_read(spark, tmp_path):
    def same(batches):
        yield from batches

    path = str(tmp_path / "a table")
    for audit, rows in (("a", 5), ("b", 3), ("a", 4)):
        frame = spark.createDataFrame([(audit, i) for i in range(rows)], "audit_id string, start_offset bigint")
        frame.write.format("delta").mode("overwrite").option("replaceWhere", f"audit_id = '{audit}'").save(path)
    read = spark.read.format("delta").load(path)
    counts = {row.audit_id: row["count"] for row in read.groupBy("audit_id").count().collect()}
    assert counts == {"a": 4, "b": 3}
    assert read.mapInArrow(same, read.schema).count() == 7


def test_settings_of_a_local_session(spark):
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
    assert spark.conf.get("spark.ui.enabled") == "false"
    assert spark.conf.get("spark.master") == "local[*]"
    assert os.environ["PYSPARK_PYTHON"] == sys.executable


def test_workers_import_pyspark_as_it_is_installed(spark):
    def places(_):
        import py4j
        import pyspark

        return [pyspark.__file__, py4j.__file__]

    import py4j
    import pyspark

    found = spark.sparkContext.parallelize([1], 1).mapPartitions(places).collect()
    assert found == [pyspark.__file__, py4j.__file__]  # and not from a zip, which has no bytecode


def test_a_running_session_is_used_and_takes_what_can_be_changed(spark):
    again = build_session("another", {"spark.sql.shuffle.partitions": "3", "spark.driver.memory": "9g"})
    try:
        assert again.sparkContext.applicationId == spark.sparkContext.applicationId
        assert again.conf.get("spark.sql.shuffle.partitions") == "3"
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", "2")


def test_settings_are_replaced_but_flags_and_extensions_are_joined():
    mine = {
        "spark.sql.shuffle.partitions": "8",
        "spark.sql.extensions": f"org.example.Mine,{DELTA_EXTENSION}",
        "spark.driver.extraJavaOptions": "-Dmine=1",
        "spark.driver.extraClassPath": "/mine.jar",
    }
    settings = local_settings("name", mine, find_java())
    assert settings["spark.sql.shuffle.partitions"] == "8"
    assert settings["spark.sql.extensions"] == f"{DELTA_EXTENSION},org.example.Mine"
    assert settings["spark.driver.extraJavaOptions"].startswith("-XX:TieredStopAtLevel=1 ")
    assert settings["spark.driver.extraJavaOptions"].endswith(" -Dmine=1")
    assert settings["spark.driver.extraClassPath"] == ":".join([*map(str, check_jars()), "/mine.jar"])
    assert settings["spark.app.name"] == "name"


def test_the_settings_for_spark_submit_are_those_of_a_local_session(monkeypatch, tmp_path):
    own, place = local_settings("name", {}, find_java()), tmp_path / "with spaces" / "share"
    monkeypatch.setattr(archive, "share_directory", lambda: place)
    monkeypatch.setattr(archive, "local_settings", lambda name, settings, java: {**own, "odd": "a\\b"})
    archive.write_submit_settings()
    local, cluster = (
        dict(line.split(" ", 1) for line in (place / f"spark-{name}.conf").read_text().splitlines())
        for name in ("local", "cluster")
    )
    assert local.pop("spark.pyspark.python") == sys.executable
    assert local.pop("spark.python.daemon.module") == WORKER_DAEMON
    assert local.pop("odd") == "a\\\\b", "as a properties file wants it"
    assert local == {key: value for key, value in own.items() if key not in ("spark.master", "spark.app.name")}
    # The driver's JVM is the same, so that the class archive fits it; it logs as Spark does.
    flags, logging = own["spark.driver.extraJavaOptions"].rsplit(" ", 1)
    assert logging.startswith("-Dlog4j2.configurationFile=")
    assert cluster == {
        **CLUSTER_SETTINGS,
        "spark.driver.extraJavaOptions": flags,
        "spark.driver.extraClassPath": own["spark.driver.extraClassPath"],
        "spark.pyspark.driver.python": sys.executable,
    }
    assert "spark.jars" not in " ".join(cluster), "no JAR is handed to executors"


def test_without_jars_no_session_is_started(monkeypatch, tmp_path):
    monkeypatch.setenv(JARS_VARIABLE, str(tmp_path))
    with pytest.raises(EngineError, match="is missing.*run: replica-audit setup"):
        local_settings("name", {}, find_java())


def test_what_lacks_of_spark_connect_is_named_in_one_sentence(monkeypatch):
    monkeypatch.setenv("SPARK_REMOTE", "sc://127.0.0.1:1")
    lacks = importlib.util.find_spec("grpc") is None
    with pytest.raises(
        EngineError, match="lacks grpc" if lacks else "no Spark Connect server answers at sc://127.0.0.1:1"
    ):
        start_session("name")


def run_python(program: str, home: Path, **environment: str) -> subprocess.CompletedProcess:
    """Run `program` in a process of its own, with an empty home and no network worth the name."""
    home.mkdir(exist_ok=True)
    nowhere = {f"{name}_proxy": "http://127.0.0.1:9" for name in ("http", "https")}
    flags = "-Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=9 -Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=9"
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_", "_PYSPARK"))}
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env={**kept, **nowhere, "HOME": str(home), "SPARK_SUBMIT_OPTS": flags, **environment},
        cwd=home, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300,
    )  # fmt: skip


@pytest.mark.spark
def test_a_session_starts_offline_and_writes_nothing_but_results(tmp_path):
    program = """
        from replica_audit.spark.session import build_session
        session = build_session("offline")
        session.range(3).write.format("delta").save("a table")
        print("rows", session.read.format("delta").load("a table").count())
        print("tables", len(session.catalog.listTables()))
        session.stop()
    """
    result = run_python(program, tmp_path / "an empty home")
    assert (result.stdout, result.stderr, result.returncode) == ("rows 3\ntables 0\n", "", 0)
    assert [path.name for path in (tmp_path / "an empty home").iterdir()] == ["a table"]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        (
            "spark.driver.extraJavaOptions",
            "-XX:+UseZGC",
            "Java did not start; it said: .*Multiple garbage collectors selected",
        ),
        ("spark.driver.memory", "100m", "Spark did not start: .*spark.driver.memory"),
    ],
    ids=["the JVM", "Spark"],
)
def test_what_does_not_start_is_told_with_its_words(tmp_path, setting, value, said):
    program = f"""
        from replica_audit.errors import EngineError
        from replica_audit.spark.session import build_session
        try:
            build_session("broken", {{{setting!r}: {value!r}}})
        except EngineError as error:
            print(error)
    """
    result = run_python(program, tmp_path)
    assert result.returncode == 0, result.stderr
    assert re.match(said, result.stdout, re.DOTALL)


#: What needs no Delta, then a job that does: without Delta's JARs, and with them. Each has a session of its own in the one Java.
_JOBS = """
import runpy, sys
from numpy import array, int64
from replica_audit.spark.session import start_session
from pyspark import SparkContext

SparkContext._ensure_initialized()
thread = SparkContext._jvm.java.lang.Thread.currentThread()
with_jars = thread.getContextClassLoader()
# spark-submit puts what --jars names into a loader below that of its own classes.
thread.setContextClassLoader(with_jars.getParent())
session = start_session("plain")
print(session.sparkContext.parallelize([1], 1).map(str).collect(), "pandas" in sys.modules)
from pyspark.sql.functions import lit
print(*session.range(1).select(lit(int64(7)), lit(array([1, 2]))).first())
session.stop()
print("without Delta:")
try:
    runpy.run_path("job.py", run_name="__main__")
except SystemExit as ended:
    print("status", ended.code)
SparkContext._active_spark_context.stop()
thread.setContextClassLoader(with_jars)
print("with Delta:")
runpy.run_path("job.py", run_name="__main__")
"""

#: Runs from the zip of lib/.
_JOB = """
import sys
from replica_audit.errors import EngineError
from replica_audit.spark.session import build_session
import replica_audit

def where(batches):
    import replica_audit
    import pyarrow
    for _ in batches:
        yield pyarrow.RecordBatch.from_pydict({"file": [replica_audit.__file__]})

if "replica_audit.zip" not in replica_audit.__file__:
    sys.exit(f"imported from {replica_audit.__file__}")
try:
    session = build_session("job", {"spark.sql.shuffle.partitions": "7", "spark.driver.memory": "5g"})
except EngineError as error:
    print(error)
    sys.exit(error.exit_status)
conf = session.conf
print(conf.get("spark.master"), conf.get("spark.sql.shuffle.partitions"), conf.get("spark.app.name"))
session.range(4).write.format("delta").save(sys.argv[1])
print(session.read.format("delta").load(sys.argv[1]).count())
print("replica_audit.zip" in session.range(1).mapInArrow(where, "file string").first().file)
"""


@pytest.fixture(scope="module")
def submitted(tmp_path_factory) -> list[str]:
    """What is printed under spark-submit by what needs no Delta, by the job without Delta, and by the job with it."""
    import pyspark

    directory = tmp_path_factory.mktemp("submission")
    with zipfile.ZipFile(directory / "replica_audit.zip", "w") as archive:
        for path in sorted((ROOT / "lib" / "replica_audit").rglob("*.py")):
            archive.write(path, path.relative_to(ROOT / "lib"))
    (directory / "job.py").write_text(_JOB)
    (directory / "jobs.py").write_text(_JOBS)
    home = Path(pyspark.__file__).parent
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_", "_PYSPARK"))}
    # The editable install stays visible; --py-files goes before it on sys.path, which the job checks.
    command = [str(home / "bin" / "spark-submit"), "--master", "local[1]", "--name", "given", *BRIEF_JAVA, *BRIEF_SPARK]
    command += ["--jars", ",".join(map(str, check_jars())), "--conf", "spark.sql.shuffle.partitions=5"]
    command += ["--py-files", str(directory / "replica_audit.zip"), "jobs.py", "table"]
    result = subprocess.run(
        command,
        env={
            **kept, **BRIEF_LAUNCHER, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert result.returncode == 0, (result.stdout, result.stderr)
    return re.split(r"with(?:out)? Delta:\n", result.stdout)


@pytest.mark.spark
def test_spark_submits_settings_are_kept_and_ours_added(submitted):
    assert submitted[2] == "local[1] 5 given\n4\nTrue\n"


@pytest.mark.spark
def test_spark_submit_without_delta_is_told_which_option_is_missing(submitted):
    said, status = submitted[1].splitlines()
    assert status == "status 4"
    assert said.startswith(f"the session's JVM has no class {DELTA_EXTENSION}; give spark-submit --packages")


@pytest.mark.spark
def test_jobs_import_no_pandas_and_sql_takes_values_of_numpy_and_needs_no_delta(submitted):
    assert submitted[0] == "['1'] False\n7 [1, 2]\n"
