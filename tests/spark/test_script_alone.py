"""A script run by the Python of an environment that is not activated, where the directory has a file named as a module of Python."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.samples import SAMPLES
from tests.support.spark_starts import brief_script

pytestmark = pytest.mark.spark
_SESSION = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
"""
BY_NAME = f"""{_SESSION}
print(spark.read.format("kafka_log").load(sys.argv[1]).count())
"""
AUDIT = """
import replica_audit

print(replica_audit.audit(spark, sys.argv[1], warehouse=sys.argv[2]).verdict)
print(replica_audit.read_batches(spark, sys.argv[1]).count())
replica_audit.register(spark)
print(spark.read.format("kafka_log").load(sys.argv[1]).count())
"""
#: Python 3.10 does not know PYTHONSAFEPATH.
AS_BY_3_10 = """
import sys, types
known = [name for name in dir(sys.flags) if name.islower() and name[0] != "_" and not callable(getattr(sys.flags, name))]
sys.flags = types.SimpleNamespace(**{name: getattr(sys.flags, name) for name in known if name != "safe_path"})
"""
#: A module of Python's, where the script runs: whatever imports it ends.
NUMBERS = "raise SystemExit('this is not the numbers of Python')\n"
#: By name first, when python3 is the system's, which has none of the packages; then as the reference says, in that session and,
#: as Python 3.10 would, in another.
BY_NAME_AT_FIRST = f"""{_SESSION}
from pathlib import Path

try:
    spark.read.format("kafka_log").load(sys.argv[1]).count()
except Exception as error:
    assert "[DATA_SOURCE_NOT_FOUND]" in str(error) and "kafka_log" in str(error), error
    print("not found")
Path("numbers.py").write_text({NUMBERS!r})
{AUDIT}
spark.stop()
sys.argv[2] += "-of-3.10"
{AS_BY_3_10}{_SESSION}{AUDIT}"""


def run(directory: Path, script: str, **chosen: str) -> subprocess.CompletedProcess:
    """Run a script from another directory than its own; no environment is on the path."""
    (directory / "script").mkdir()
    (directory / "script" / "script.py").write_text(script)
    kept = {name: os.environ[name] for name in ("JAVA_HOME", "HOME") if name in os.environ}
    words = [directory / "script" / "script.py", SAMPLES / "last-replica-standing", directory / "warehouse"]
    return subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=directory, env={**kept, **brief_script(), **chosen, "PATH": "/usr/bin:/bin"}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip


@pytest.fixture(scope="module")
def at_first(tmp_path_factory) -> subprocess.CompletedProcess:
    return run(tmp_path_factory.mktemp("by name"), BY_NAME_AT_FIRST)


def test_by_name_alone_spark_says_what_the_reference_explains(at_first):
    text = (Path(__file__).parents[2] / "docs" / "reference.md").read_text(encoding="utf-8")
    assert "where `PYSPARK_PYTHON` names that Python; if Spark says DATA_SOURCE_NOT_FOUND" in text
    assert at_first.stdout.startswith("not found\n"), at_first.stderr[-3000:]


def test_after_that_workers_are_of_the_scripts_python_and_import_nothing_from_where_it_runs(at_first):
    """In both sessions."""
    assert at_first.stdout.split()[2:] == 2 * ["COMMITTED_LOSS", "40", "40"], at_first.stderr[-3000:]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 does not know PYTHONSAFEPATH")
def test_by_name_the_environment_says_which_python_and_that_nothing_is_imported_from_where_it_runs(tmp_path):
    (tmp_path / "numbers.py").write_text(NUMBERS)
    ran = run(tmp_path, BY_NAME, PYSPARK_PYTHON=sys.executable, PYTHONSAFEPATH="1")
    assert ran.stdout.split() == ["40"], ran.stderr[-3000:]
