"""Spark's zips on the module search path, beside an installed pyspark."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from replica_audit.compiled_pyspark import without_zips_of_spark

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
