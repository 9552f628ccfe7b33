"""A script run by the Python of an environment that is not activated, where the directory has a file named as a module of Python."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.samples import SAMPLES
from tests.support.spark_starts import BRIEF_SCRIPT

pytestmark = pytest.mark.spark
SCRIPT = """
import sys
from pyspark.sql import SparkSession
import replica_audit

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
print(replica_audit.audit(spark, sys.argv[1], warehouse=sys.argv[2]).verdict)
print(replica_audit.read_batches(spark, sys.argv[1]).count())
replica_audit.register(spark)
print(spark.read.format("kafka_log").load(sys.argv[1]).count())
"""


BY_NAME = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
print(spark.read.format("kafka_log").load(sys.argv[1]).count())
"""


def test_by_name_alone_spark_says_what_the_reference_explains(tmp_path):
    """python3 is then the system's, which has none of the packages."""
    (tmp_path / "script.py").write_text(BY_NAME)
    kept = {name: os.environ[name] for name in ("JAVA_HOME", "HOME") if name in os.environ}
    words = [str(tmp_path / "script.py"), str(SAMPLES / "last-replica-standing")]
    ran = subprocess.run(
        [sys.executable, *words],
        cwd=tmp_path, env={**kept, **BRIEF_SCRIPT, "PATH": "/usr/bin:/bin"}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    text = (Path(__file__).parents[2] / "docs" / "reference.md").read_text(encoding="utf-8")
    assert "where `PYSPARK_PYTHON` names that Python; if Spark says DATA_SOURCE_NOT_FOUND" in text
    said = ran.stderr[-3000:]
    assert ran.returncode == 1 and "[DATA_SOURCE_NOT_FOUND]" in ran.stderr and "kafka_log" in ran.stderr, said


#: Python 3.10 does not know PYTHONSAFEPATH.
AS_BY_3_10 = """
import sys, types
known = [name for name in dir(sys.flags) if name.islower() and name[0] != "_" and not callable(getattr(sys.flags, name))]
sys.flags = types.SimpleNamespace(**{name: getattr(sys.flags, name) for name in known if name != "safe_path"})
"""
OF_3_11 = pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 does not know PYTHONSAFEPATH")


@pytest.mark.parametrize(
    ("script", "chosen", "printed"),
    [
        (SCRIPT, {}, ["COMMITTED_LOSS", "40", "40"]),
        (AS_BY_3_10 + SCRIPT, {}, ["COMMITTED_LOSS", "40", "40"]),
        pytest.param(BY_NAME, {"PYSPARK_PYTHON": sys.executable, "PYTHONSAFEPATH": "1"}, ["40"], marks=OF_3_11),
    ],
)
def test_workers_are_of_the_scripts_python_and_import_nothing_from_where_it_runs(script, chosen, printed, tmp_path):
    (tmp_path / "script").mkdir()
    (tmp_path / "script" / "script.py").write_text(script)
    (tmp_path / "numbers.py").write_text("raise SystemExit('this is not the numbers of Python')\n")
    # No environment on the path: python3 is the system's, which has none of the packages.
    kept = {name: os.environ[name] for name in ("JAVA_HOME", "HOME") if name in os.environ}
    words = [tmp_path / "script" / "script.py", SAMPLES / "last-replica-standing", tmp_path / "warehouse"]
    ran = subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=tmp_path, env={**kept, **BRIEF_SCRIPT, **chosen, "PATH": "/usr/bin:/bin"}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert ran.stdout.split() == printed, ran.stderr[-3000:]
    assert Path(tmp_path / "warehouse" / "findings").is_dir() == (script != BY_NAME)
