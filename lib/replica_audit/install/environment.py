"""Checks of what a session needs before it starts; each failure is one sentence with the remedy.

Spark, Delta and Java fail late and obscurely when they do not fit each other (a worker that "crashed", a class that is
not defined), hence these checks first.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from replica_audit.errors import EngineError
from replica_audit.install.extras import check_extra
from replica_audit.install.installation import JARS_VARIABLE, check_spark, jar_directory, jar_problems, locked_jars

#: Spark 4 runs on these; Spark 4.2 deprecates Java 25 below 25.0.3 for a fault of its G1 collector (SPARK-55852).
JAVA_VERSIONS = (17, 21)

_INSTALL_JAVA = "install OpenJDK 17 or 21 (Debian: apt-get install openjdk-17-jre-headless) or point JAVA_HOME to one"


@dataclass(frozen=True, slots=True)
class Java:
    """An installed Java: executable, home, feature release and full version text."""

    executable: Path
    home: Path
    release: int
    version: str


def probe_java(executable: Path) -> Java:
    """Run a `java` to find out its version. Raises EngineError if it cannot be run or does not say."""
    try:
        result = subprocess.run(
            [str(executable), "-XshowSettings:properties", "-version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=60,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineError(f"{executable} could not be run ({error}); {_INSTALL_JAVA}") from error
    release = re.search(r"java\.specification\.version = (?:1\.)?(\d+)", result.stdout)
    version = re.search(r"java\.vm\.version = (.+)", result.stdout)
    home = re.search(r"java\.home = (.+)", result.stdout)
    if result.returncode != 0 or not (release and version and home):
        raise EngineError(f"{executable} did not say its version (status {result.returncode}); {_INSTALL_JAVA}")
    return Java(executable, Path(home[1].strip()), int(release[1]), version[1].strip())


def usual_places() -> list[Path]:
    """Java executables in the places used by Linux distributions."""
    return sorted(Path("/usr/lib/jvm").glob("*/bin/java"))


def find_java() -> Java:
    """The Java of a local session: that of JAVA_HOME, else on the PATH, else one in /usr/lib/jvm.

    A set JAVA_HOME is final. Raises EngineError if it names none or a wrong one, or no Java of `JAVA_VERSIONS` is found.
    """
    expected = " or ".join(map(str, JAVA_VERSIONS))
    home = os.environ.get("JAVA_HOME")
    if home:
        executable = Path(home) / "bin" / "java"
        if not executable.is_file():
            raise EngineError(f"JAVA_HOME is {home}, but there is no bin/java in it; unset it, or {_INSTALL_JAVA}")
        java = probe_java(executable)
        if java.release not in JAVA_VERSIONS:
            raise EngineError(
                f"JAVA_HOME is Java {java.release} ({home}), expected {expected}; unset it, or {_INSTALL_JAVA}"
            )
        return java
    on_path = shutil.which("java")
    refused = []
    places = usual_places() if on_path is None else [Path(on_path), *usual_places()]
    for executable in places:
        try:
            java = probe_java(executable)
        except EngineError as error:
            refused.append(str(error))
            continue
        if java.release in JAVA_VERSIONS:
            return java
        refused.append(f"{executable} is Java {java.release}")
    found = "; ".join(refused) or "none on the PATH, JAVA_HOME not set"
    raise EngineError(f"no usable Java: expected {expected}, found {found}; {_INSTALL_JAVA}")


def check_packages() -> str:
    """The version of the installed pyspark. Raises EngineError if there is none or it is unsupported (`installation.RELEASES`)."""
    check_extra("spark", "a session of Spark")
    import pyspark

    check_spark(pyspark.__version__)
    return pyspark.__version__


def check_jars() -> list[Path]:
    """Paths of the engine's JARs. Raises EngineError with every one that is missing or differs from the lock."""
    directory = jar_directory()
    if problems := jar_problems(directory, locked_jars()):
        where = f" ({JARS_VARIABLE} names the directory)" if os.environ.get(JARS_VARIABLE) else ""
        raise EngineError(
            f"JARs of Delta are not as locked{where}: {'; '.join(problems.values())}; run: replica-audit setup"
        )
    return [directory / jar.file_name for jar in locked_jars()]


def worker_python(environment: dict[str, str], configured: str | None) -> str:
    """The interpreter of Spark's Python workers: PYSPARK_PYTHON, else spark.pyspark.python, else python3."""
    return environment.get("PYSPARK_PYTHON") or configured or "python3"


def check_worker_python(executable: str, remote: bool) -> None:
    """Raise EngineError unless `executable` is a Python of the driver's minor version, as far as can be checked here.

    With `remote` workers, a path missing here (`./environment/bin/python` of an archive) exists on the executors only
    and is left to Spark's own check.
    """
    if remote and os.sep in executable and not os.path.exists(executable):
        return
    if executable == sys.executable:
        return
    expected = "{}.{}".format(*sys.version_info)
    try:
        result = subprocess.run(
            [executable, "-c", "import sys; print('{}.{}'.format(*sys.version_info))"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=60,
        )  # fmt: skip
        said = result.stdout.strip()
        found = f"Python {said}" if said else f"no Python (status {result.returncode})"
    except (OSError, subprocess.TimeoutExpired) as error:
        found = f"no Python ({error})"
    if found != f"Python {expected}":
        raise EngineError(
            f"Spark's workers would run {executable}, which is {found}, but the driver is Python {expected}; "
            f"set PYSPARK_PYTHON={sys.executable} (on a cluster: the same Python on every node)"
        )


def lacking_package(error: Exception) -> EngineError | None:
    """The error to raise if a Spark job failed because executors lack a package; None for any other `error`."""
    found = re.search(r"ModuleNotFoundError: No module named '(\w+)", str(error))
    if found is None or type(error).__module__.split(".")[0] not in ("pyspark", "py4j"):
        return None
    if found[1] == "replica_audit":
        remedy = "give spark-submit --py-files build/replica_audit.zip (make zip)"
    else:
        remedy = (
            "unpack build/environment.tar.gz (make environment) on every worker, and give spark-submit "
            "--conf spark.pyspark.python=PLACE/bin/python"
        )
    return EngineError(f"the executors' Python has no {found[1]}; {remedy}")


def main() -> int:
    """Print the Java that a local session would use (`python -m replica_audit.install.environment`)."""
    try:
        check_packages()
        java = find_java()
    except EngineError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_status
    print(f"Java {java.version} in {java.home}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
