"""The start of our processes: freed memory is reused, no thread only burns time, and the installed pyspark is before Spark's zips."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tests.support.samples import SAMPLES

from replica_audit.process_start import without_zips_of_spark

_PROGRAM = """
import resource, sys
from replica_audit.process_start import keep_freed_memory
if sys.argv[1] == "kept":
    keep_freed_memory()
def allocate():
    bytearray(40 << 20)  # above what glibc keeps by itself
allocate()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    allocate()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library has no such setting")
def test_freed_memory_is_kept() -> None:
    faults = {
        how: int(
            subprocess.run([sys.executable, "-c", _PROGRAM, how], capture_output=True, text=True, check=True).stdout
        )
        for how in ("kept", "left alone")
    }
    assert faults["kept"] < 100 < faults["left alone"]


_COUNT_THREADS = """
import atexit, os
from replica_audit.cli.start import entry_point
names = ("OPENBLAS_NUM_THREADS", "ARROW_DEFAULT_MEMORY_POOL")
atexit.register(lambda: print(len(os.listdir("/proc/self/task")), *map(os.environ.get, names)))
entry_point()
"""


def _threads(**environment: str) -> list[str]:
    set_here = ("_NUM_THREADS", "_MEMORY_POOL")
    unset = {name: value for name, value in os.environ.items() if not name.endswith(set_here)}
    done = subprocess.run(
        [sys.executable, "-c", _COUNT_THREADS, "show", "-q", str(SAMPLES / "last-replica-standing")],
        capture_output=True,
        text=True,
        env=unset | environment,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    return done.stdout.splitlines()[-1].split()


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="the system does not list threads")
def test_numpy_starts_no_threads() -> None:
    assert _threads() == _threads(OPENBLAS_NUM_THREADS="1")


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="the system does not list threads")
def test_what_the_user_has_set_stays() -> None:
    assert _threads(OPENBLAS_NUM_THREADS="2")[1] == "2"
    assert _threads(ARROW_DEFAULT_MEMORY_POOL="mimalloc")[2] == "mimalloc"


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="the system does not list threads")
def test_arrow_takes_its_memory_from_the_c_library() -> None:
    *_, pool = _threads()
    name = "import pyarrow; print(pyarrow.default_memory_pool().backend_name)"
    chosen = {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": pool}
    done = subprocess.run([sys.executable, "-c", name], capture_output=True, text=True, check=True, env=chosen)
    assert done.stdout.split() == ["system"]


OTHERS = ["", "/opt/jobs/my-src.zip", "/opt/pyspark.zip/tools", "/srv/python/lib/mine.zip"]


@pytest.fixture
def of_spark(tmp_path: Path) -> list[str]:
    """The zips of a Spark 4.2.0, in a directory with a space."""
    place = tmp_path / "a b" / "python" / "lib"
    place.mkdir(parents=True)
    for name, module in (("pyspark", "pyspark"), ("py4j-0.10.9.9-src", "py4j")):
        with zipfile.ZipFile(place / f"{name}.zip", "w") as archive:
            archive.writestr(f"{module}/__init__.py", "")
            archive.writestr(f"{module}/version.py", "__version__ = '4.2.0'\n")
    return [str(place / "pyspark.zip"), str(place / "py4j-0.10.9.9-src.zip")]


def installed(place: Path, version: str, *modules: str) -> str:
    for module in modules:
        (place / module).mkdir(parents=True)
        (place / module / "__init__.py").touch()
        (place / module / "version.py").write_text(f"__version__ = '{version}'\n")
    return str(place)


def test_zips_of_spark_are_left_out_and_those_of_others_stay(of_spark: list[str], tmp_path: Path) -> None:
    place = installed(tmp_path / "site", "4.2.0", "pyspark", "py4j")
    assert without_zips_of_spark([*of_spark, *OTHERS, place]) == [*OTHERS, place]


def test_they_stay_where_no_pyspark_of_their_release_is_installed(of_spark: list[str], tmp_path: Path) -> None:
    nothing = [*of_spark, *OTHERS]
    another = [*of_spark, installed(tmp_path / "another", "4.2.1", "pyspark", "py4j")]
    without_py4j = [*of_spark, installed(tmp_path / "half", "4.2.0", "pyspark")]
    for places in (nothing, another, without_py4j, OTHERS):
        assert without_zips_of_spark(places) == places
