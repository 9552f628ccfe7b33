"""Which releases of Spark and Delta work together: one of each minor is tested, and what is known to fail is refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from replica_audit.errors import EngineError


@dataclass(frozen=True, slots=True)
class Release:
    """The pair of a minor of Spark that the locks pin and the tests run on."""

    spark: str
    delta: str
    package: str
    """Maven coordinates of this Delta, for spark-submit --packages."""


RELEASES: Mapping[str, Release] = MappingProxyType(
    {
        "4.0": Release("4.0.2", "4.0.0", "io.delta:delta-spark_2.13:4.0.0"),
        "4.1": Release("4.1.1", "4.1.0", "io.delta:delta-spark_4.1_2.13:4.1.0"),
        "4.2": Release("4.2.0", "4.4.0", "io.delta:delta-spark_4.2_2.13:4.4.0"),
    }
)

#: The file name of Delta's JAR, also as Ivy calls it: the minor of Spark that it was built for, and its version.
_DELTA_JAR = re.compile(r"delta-spark(?:_(?P<line>\d+\.\d+))?_2\.\d+-(?P<version>\d+\.\d+\.\d+)[^/]*\.jar$")


def minor_of(version: str) -> str:
    """`4.2` of `4.2.0`."""
    return ".".join(version.split(".")[:2])


def check_spark(version: str) -> Release:
    """The tested pair of the minor of Spark `version`. Raises EngineError for one that there is none of."""
    release = RELEASES.get(minor_of(version))
    if release is None:
        *others, newest = RELEASES.values()
        expected = f"{', '.join(minor_of(one.spark) for one in others)} or {minor_of(newest.spark)}"
        raise EngineError(
            f"Spark is {version}, expected {expected}; install a pair that works: "
            f"pip install pyspark=={newest.spark} delta-spark=={newest.delta}"
        )
    return release


def check_delta_jar(spark_version: str, jar: str) -> None:
    """Raise EngineError when Delta's JAR, a path or URI, is known not to work with this Spark, saying which one does.

    A JAR whose name does not give a version, as on some platforms, is taken as it is.
    """
    found = _DELTA_JAR.search(jar)
    if found is None:
        return
    release, minor = check_spark(spark_version), minor_of(spark_version)
    built_for = found["line"] or _built_for(found["version"])
    if built_for is not None and built_for != minor:
        raise EngineError(
            f"Delta {found['version']} as loaded is for Spark {built_for}, but this is Spark {spark_version}; "
            f"give spark-submit --packages {release.package}"
        )


def _built_for(delta_version: str) -> str | None:
    """The minor of Spark that a JAR without it in its name is for, where there is only one."""
    return {"3.3": "3.5", "4.0": "4.0"}.get(minor_of(delta_version))
