"""Places where an installation keeps what Python packages do not bring: JARs, class archive, settings of spark-submit.

A clone keeps it in its environment, a package installed by pip in the user's cache directory. Nothing here starts a JVM
or uses the network.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from replica_audit.errors import EngineError
from replica_audit.scratch import hash_file


@dataclass(frozen=True, slots=True)
class Release:
    """Versions of Spark and Delta, for one minor of Spark, that the locks pin and the tests run on."""

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

#: File name of Delta's JAR, also in Ivy's form: the minor of Spark that it was built for, and its version.
_DELTA_JAR = re.compile(r"delta-spark(?:_(?P<line>\d+\.\d+))?_2\.\d+-(?P<version>\d+\.\d+\.\d+)[^/]*\.jar$")


def minor_of(version: str) -> str:
    """Major and minor of a version: `4.2` of `4.2.0`."""
    return ".".join(version.split(".")[:2])


def check_spark(version: str) -> Release:
    """The tested release for the minor of Spark `version`. Raises EngineError if there is none."""
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
    """Raise EngineError if Delta's JAR, a path or URI, is known not to work with this Spark; the error names the one that does.

    A JAR whose name has no version, as on some platforms, is accepted.
    """
    found = _DELTA_JAR.search(jar)
    if found is None:
        return
    release, minor = check_spark(spark_version), minor_of(spark_version)
    built_for = found.group("line") or _built_for(found.group("version"))
    if built_for is not None and built_for != minor:
        raise EngineError(
            f"Delta {found['version']} as loaded is for Spark {built_for}, but this is Spark {spark_version}; "
            f"give spark-submit --packages {release.package}"
        )


def _built_for(delta_version: str) -> str | None:
    """The minor of Spark for a Delta version whose JAR name leaves it out, if there is only one."""
    return {"3.3": "3.5", "4.0": "4.0"}.get(minor_of(delta_version))


#: Environment variable: directory of JARs to use in place of the installation's own (also checked against the lock).
JARS_VARIABLE = "REPLICA_AUDIT_JARS_DIR"


@dataclass(frozen=True, slots=True)
class LockedJar:
    """One JAR of the lock: Maven coordinates and SHA-256 in hex."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def file_name(self) -> str:
        return f"{self.artifact}-{self.version}.jar"

    @property
    def coordinates(self) -> str:
        return f"{self.group}:{self.artifact}:{self.version}"


def share_directory() -> Path:
    """Directory that `setup` fills for this environment; it need not exist."""
    if (Path(__file__).parents[3] / "pyproject.toml").is_file():
        return Path(sys.prefix) / "share" / "replica-audit"
    from platformdirs import user_cache_path

    return user_cache_path("replica-audit") / hashlib.sha256(sys.prefix.encode()).hexdigest()[:8]


def jar_directory() -> Path:
    """Directory of the engine's JARs; it need not exist."""
    chosen = os.environ.get(JARS_VARIABLE)
    return Path(chosen) if chosen else share_directory() / "jars"


def conf_file(name: str) -> Path | None:
    """A file of `conf/`, also part of the wheel; None where it is absent (a --py-files zip)."""
    path = Path(__file__).parent / "conf" / name
    return path if path.is_file() else None


def parse_lock(text: str, source: str) -> tuple[LockedJar, ...]:
    """JARs of a lock file: one `group:artifact:version sha256:hex` per line, `#` begins a comment.

    Raises EngineError with the first malformed line, or if there is no entry.
    """
    jars = []
    for number, line in enumerate(text.splitlines(), 1):
        entry = line.partition("#")[0].split()
        if not entry:
            continue
        names = entry[0].split(":")
        algorithm, _, digest = (entry[1] if len(entry) == 2 else "").partition(":")
        if len(names) != 3 or algorithm != "sha256" or len(digest) != 64:
            expected = "'group:artifact:version sha256:hex'"
            raise EngineError(f"{source} line {number}: expected {expected}, found {line.strip()!r}")
        group, artifact, version = names
        jars.append(LockedJar(group, artifact, version, digest.lower()))
    if not jars:
        raise EngineError(f"{source}: expected at least one JAR, found none; restore the file")
    return tuple(jars)


def locked_jars(spark_version: str | None = None) -> tuple[LockedJar, ...]:
    """JARs of the tested Delta for a version of Spark, by default the installed one.

    Raises EngineError for an untested Spark, and where the lock is not installed.
    """
    if spark_version is None:
        import pyspark

        spark_version = pyspark.__version__
    name = f"jars-{minor_of(check_spark(spark_version).spark)}.lock"
    path = conf_file(name)
    if path is None:
        raise EngineError(f"this package has no conf/{name}; reinstall replica-audit")
    return parse_lock(path.read_text(encoding="utf-8"), str(path))


def jar_problems(directory: Path, jars: Iterable[LockedJar]) -> dict[LockedJar, str]:
    """JARs that `directory` lacks or holds with other bytes than the lock says, each with the problem."""
    found = {}
    for jar in jars:
        path = directory / jar.file_name
        if not path.is_file():
            found[jar] = f"{path} is missing"
        elif (digest := hash_file(path)) != jar.sha256:
            found[jar] = f"{path} ({path.stat().st_size} bytes) has SHA-256 {digest}, expected {jar.sha256}"
    return found
