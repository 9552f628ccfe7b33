"""Checks before a session starts: each wrong thing is told in one sentence that says what to do."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from replica_audit.errors import EngineError
from replica_audit.install import environment
from replica_audit.install.environment import (
    check_packages,
    check_worker_python,
    find_java,
    lacking_package,
    worker_python,
)
from replica_audit.install.installation import check_delta_jar


def a_java(home: Path, release: int, status: int = 0) -> Path:
    """A `java` in `home` that reports version `release`."""
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(
        "#!/bin/sh\n"
        f"echo '    java.specification.version = {release}'\n"
        f"echo '    java.vm.version = {release}.0.1+1'\n"
        f"echo '    java.home = {home}'\n"
        f"exit {status}\n"
    )
    executable.chmod(0o755)
    return executable


@pytest.fixture
def no_java(monkeypatch):
    """A machine without any Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(environment, "usual_places", list)


@pytest.mark.parametrize("release", [17, 21])
def test_java_home_is_taken(tmp_path, monkeypatch, no_java, release):
    executable = a_java(tmp_path / "jdk", release)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    java = find_java()
    assert (java.executable, java.home, java.release) == (executable, tmp_path / "jdk", release)


@pytest.mark.parametrize("release", [8, 11, 25])
def test_a_wrong_java_home_is_refused_with_the_remedy(tmp_path, monkeypatch, release):
    a_java(tmp_path / "jdk", release)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    said = rf"JAVA_HOME is Java {release} .*expected 17 or 21; unset it, or install OpenJDK"
    with pytest.raises(EngineError, match=said):
        find_java()


def test_an_empty_java_home_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(EngineError, match="no bin/java in it"):
        find_java()


def test_a_usable_java_is_preferred_over_a_wrong_one_on_the_path(tmp_path, monkeypatch, no_java):
    on_path = a_java(tmp_path / "new", 25)
    usual = a_java(tmp_path / "usual", 17)
    monkeypatch.setenv("PATH", str(on_path.parent))
    monkeypatch.setattr(environment, "usual_places", lambda: [usual])
    assert find_java().executable == usual


def test_no_usable_java_lists_what_was_found(tmp_path, monkeypatch, no_java):
    wrong = a_java(tmp_path / "new", 25)
    broken = a_java(tmp_path / "broken", 17, status=1)
    monkeypatch.setattr(environment, "usual_places", lambda: [wrong, broken])
    said = rf"expected 17 or 21, found {wrong} is Java 25; {broken} did not say its version"
    with pytest.raises(EngineError, match=said):
        find_java()


def test_no_java_at_all(no_java):
    with pytest.raises(EngineError, match="found none on the PATH.*apt-get install openjdk-17-jre-headless") as caught:
        find_java()
    assert caught.value.exit_status == 4


def test_workers_of_another_python_are_refused(tmp_path):
    other = tmp_path / "python"
    other.write_text("#!/bin/sh\necho 3.6\n")
    other.chmod(0o755)
    with pytest.raises(EngineError, match=rf"{other}, which is Python 3.6, but .* set PYSPARK_PYTHON={sys.executable}"):
        check_worker_python(str(other), remote=False)


def test_workers_without_python_are_refused(tmp_path):
    with pytest.raises(EngineError, match="which is no Python"):
        check_worker_python(str(tmp_path / "none"), remote=False)


def test_an_interpreter_of_the_executors_is_left_to_them():
    check_worker_python("./environment/bin/python", remote=True)
    with pytest.raises(EngineError):
        check_worker_python("./environment/bin/python", remote=False)


def test_the_drivers_own_python_is_accepted():
    check_worker_python(sys.executable, remote=False)


def test_the_workers_interpreter_is_chosen_as_spark_does():
    assert worker_python({"PYSPARK_PYTHON": "a"}, "b") == "a"
    assert worker_python({}, "b") == "b"
    assert worker_python({}, None) == "python3"


@pytest.mark.parametrize("version", ["3.5.8", "4.3.0"])
def test_a_spark_without_a_tested_delta_is_refused_with_what_to_install(monkeypatch, version):
    check_packages()
    monkeypatch.setattr("pyspark.__version__", version)
    said = f"Spark is {version}, expected 4.0, 4.1 or 4.2; install a pair that works: pip install pyspark=="
    with pytest.raises(EngineError, match=re.escape(said)):
        check_packages()


@pytest.mark.parametrize(
    ("spark_version", "jar", "package"),
    [
        ("4.1.1", "file:/ivy/io.delta_delta-spark_2.13-4.0.0.jar", "io.delta:delta-spark_4.1_2.13:4.1.0"),
        ("4.0.2", "file:/jars/delta-spark_4.2_2.13-4.4.0.jar", "io.delta:delta-spark_2.13:4.0.0"),
        ("4.2.0", "file:/jars/delta-spark_2.13-3.3.2.jar", "io.delta:delta-spark_4.2_2.13:4.4.0"),
    ],
)
def test_a_delta_of_another_spark_is_refused_with_the_one_to_give(spark_version, jar, package):
    with pytest.raises(
        EngineError, match=f"but this is Spark {spark_version}; give spark-submit --packages {package}$"
    ):
        check_delta_jar(spark_version, jar)


@pytest.mark.parametrize(
    ("spark_version", "jar"),
    [
        ("4.0.5", "file:/jars/delta-spark_2.13-4.0.1.jar"),
        ("4.0.2", "file:/ivy/io.delta_delta-spark_4.0_2.13-4.4.0.jar"),
        ("4.2.1", "file:/jars/delta-spark_4.2_2.13-4.4.0.jar"),
        ("4.1.1", "dbfs:/platform/delta-core-edge.jar"),
    ],
)
def test_a_delta_that_fits_or_says_nothing_is_taken(spark_version, jar):
    check_delta_jar(spark_version, jar)


@pytest.mark.parametrize(
    ("package", "remedy"),
    [
        ("pyarrow", "unpack build/environment.tar.gz (make environment) on every worker"),
        ("replica_audit", "give spark-submit --py-files build/replica_audit"),
    ],
)
def test_a_package_that_executors_lack_is_named_with_the_remedy(package, remedy):
    from pyspark.errors import PythonException

    said = f"An exception was thrown:\n  __import__(name)\nModuleNotFoundError: No module named '{package}.x'\n"
    found = lacking_package(PythonException(said))
    assert f"the executors' Python has no {package}; {remedy}" in str(found)
    assert found.exit_status == 4


def test_other_failures_of_a_job_are_left_alone():
    from pyspark.errors import PythonException

    assert lacking_package(PythonException("ValueError: No module named 'x'")) is None
    assert lacking_package(ModuleNotFoundError("ModuleNotFoundError: No module named 'x'")) is None
