"""Where an installation keeps what Python packages do not bring: JARs, class archive, settings of spark-submit.

A clone keeps it in its environment, a package that was installed by pip in the user's cache directory. Nothing here
starts a JVM or reaches the network.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from replica_audit.errors import EngineError
from replica_audit.install.releases import check_spark, minor_of

#: Directory of JARs to use in place of the installation's own (they are still held to the lock).
JARS_VARIABLE = "REPLICA_AUDIT_JARS_DIR"


@dataclass(frozen=True, slots=True)
class LockedJar:
    """One JAR of the lock: its Maven coordinates and the SHA-256 of its bytes in hex."""

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
    """Directory of what `setup` brings for this environment; it need not exist."""
    if (Path(__file__).parents[3] / "pyproject.toml").is_file():
        return Path(sys.prefix) / "share" / "replica-audit"
    from platformdirs import user_cache_path

    return user_cache_path("replica-audit") / hashlib.sha256(sys.prefix.encode()).hexdigest()[:8]


def jar_directory() -> Path:
    """Directory of the engine's JARs; it need not exist."""
    chosen = os.environ.get(JARS_VARIABLE)
    return Path(chosen) if chosen else share_directory() / "jars"


def conf_file(name: str) -> Path | None:
    """A file of `conf/`, which a wheel has too; None where there is none (a --py-files zip)."""
    path = Path(__file__).parent / "conf" / name
    return path if path.is_file() else None


def parse_lock(text: str, source: str) -> tuple[LockedJar, ...]:
    """JARs of a lock file: one `group:artifact:version sha256:hex` a line, `#` begins a comment.

    Raises EngineError with the line of the first entry that is not of this form, or when there is none at all.
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
    """The JARs of the tested Delta for a version of Spark, the installed one unless named.

    Raises EngineError for a Spark that there is none for, and where the lock is not installed.
    """
    if spark_version is None:
        import pyspark

        spark_version = pyspark.__version__
    name = f"jars-{minor_of(check_spark(spark_version).spark)}.lock"
    path = conf_file(name)
    if path is None:
        raise EngineError(f"this package has no conf/{name}; reinstall replica-audit")
    return parse_lock(path.read_text(encoding="utf-8"), str(path))


def sha256_of(path: Path) -> str:
    """SHA-256 of a file in hex."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def jar_problems(directory: Path, jars: Iterable[LockedJar]) -> dict[LockedJar, str]:
    """Those of `jars` that are not in `directory` as locked, each with what is wrong: it is missing, or has other bytes."""
    found = {}
    for jar in jars:
        path = directory / jar.file_name
        if not path.is_file():
            found[jar] = f"{path} is missing"
        elif (digest := sha256_of(path)) != jar.sha256:
            found[jar] = f"{path} ({path.stat().st_size} bytes) has SHA-256 {digest}, expected {jar.sha256}"
    return found
