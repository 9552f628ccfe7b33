"""Download of the engine's JARs, once per installation (`replica-audit setup`).

The JARs of `conf/jars-*.lock`, one lock for each minor of Spark, are all that Delta needs besides pyspark's own. They
are resolved with pyspark's Ivy, with settings that leave out the local Maven repository, and each is checked against
the lock before it is moved into place; so starting a session resolves nothing and never uses the network.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit
from xml.sax.saxutils import quoteattr

from replica_audit.errors import EngineError
from replica_audit.install.environment import find_java
from replica_audit.install.installation import LockedJar, conf_file, jar_problems, locked_jars
from replica_audit.scratch import hash_file


def module_descriptor(jars: Sequence[LockedJar]) -> str:
    """An ivy.xml that depends on exactly `jars`; not transitive, since the lock is complete."""
    dependencies = "".join(
        f"<dependency org={quoteattr(jar.group)} name={quoteattr(jar.artifact)} rev={quoteattr(jar.version)}"
        ' transitive="false" conf="default->default"/>'
        for jar in jars
    )
    return (
        '<ivy-module version="2.0"><info organisation="local" module="replica-audit"/>'
        f'<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )


def proxy_flags(environment: dict[str, str]) -> list[str]:
    """JVM flags for the proxies that https_proxy and http_proxy name, which Java does not read itself."""
    flags = []
    for scheme in ("https", "http"):
        value = environment.get(f"{scheme}_proxy") or environment.get(f"{scheme.upper()}_PROXY")
        proxy = urlsplit(value) if value else None
        if proxy and proxy.hostname:
            flags += [f"-D{scheme}.proxyHost={proxy.hostname}", f"-D{scheme}.proxyPort={proxy.port or 80}"]
    return flags


def ivy_jar() -> Path:
    """The Ivy JAR of the installed pyspark."""
    import pyspark

    directory = Path(pyspark.__file__).parent / "jars"
    found = sorted(directory.glob("ivy-*.jar"))
    if not found:
        raise EngineError(f"{directory}: expected ivy-*.jar of pyspark, found none; reinstall pyspark")
    return found[-1]


def retrieve(jars: Sequence[LockedJar], target: Path, settings: Path | None) -> None:
    """Resolve `jars` with Ivy into `target`, under their `LockedJar.file_name`.

    Uses a cache below `target`, so that the user's own is neither used nor changed. Raises EngineError with the end of Ivy's output.
    """
    descriptor = target / "ivy.xml"
    descriptor.write_text(module_descriptor(jars), encoding="utf-8")
    command = [str(find_java().executable), *proxy_flags(dict(os.environ)), "-jar", str(ivy_jar())]
    if settings:
        command += ["-settings", str(settings)]
    command += ["-ivy", str(descriptor), "-cache", str(target / "cache")]
    command += ["-retrieve", f"{target}/[artifact]-[revision].[ext]"]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    if result.returncode != 0:
        complaints = [line.strip() for line in result.stdout.splitlines() if "::" in line or "rror" in line]
        said = "\n".join(complaints[-15:] or result.stdout.splitlines()[-15:])
        raise EngineError(
            f"Ivy could not resolve the locked JARs of Delta (status {result.returncode}):\n{said}\n"
            "check the network, or name your mirror in a copy of conf/ivysettings.xml: replica-audit setup --ivy-settings FILE"
        )


def install_jars(jars: Sequence[LockedJar], directory: Path, settings: Path | None) -> list[LockedJar]:
    """Install those of `jars` that `directory` lacks or that differ from the lock, and return them.

    Raises EngineError if what was resolved differs from the lock; nothing is then moved into place.
    """
    wanted = list(jar_problems(directory, jars))
    if not wanted:
        return []
    with _beside(directory) as scratch:
        retrieve(wanted, scratch, settings)
        for jar, problem in jar_problems(scratch, wanted).items():
            raise EngineError(
                f"{jar.coordinates} as resolved: {problem}; nothing was installed, ask whoever runs the mirror"
            )
        _move(wanted, scratch, directory)
    return wanted


def copy_jars(jars: Sequence[LockedJar], source: Path, directory: Path) -> None:
    """Copy those of `jars` that `directory` lacks from `source`, where they have their Maven names.

    Raises EngineError with each one that `source` lacks or that differs from the lock; nothing is then copied.
    """
    wanted = list(jar_problems(directory, jars))
    if problems := jar_problems(source, wanted):
        raise EngineError(f"{source}: {'; '.join(problems.values())}; nothing was copied")
    with _beside(directory) as scratch:
        for jar in wanted:
            shutil.copyfile(source / jar.file_name, scratch / jar.file_name)
        _move(wanted, scratch, directory)


@contextmanager
def _beside(directory: Path) -> Iterator[Path]:
    """A temporary directory on the file system of `directory`, for files that are moved there."""
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory, prefix=".resolving-") as scratch:
        yield Path(scratch)


def _move(jars: Sequence[LockedJar], scratch: Path, directory: Path) -> None:
    for jar in jars:
        os.replace(scratch / jar.file_name, directory / jar.file_name)


def relocked(jars: Sequence[LockedJar], settings: Path | None) -> str:
    """Lock lines for the coordinates of `jars`, with the checksums of what the repository serves now."""
    with tempfile.TemporaryDirectory() as scratch:
        retrieve(jars, Path(scratch), settings)
        return "".join(f"{jar.coordinates} sha256:{hash_file(Path(scratch) / jar.file_name)}\n" for jar in jars)


def main(argv: Sequence[str] | None = None) -> int:
    """Print a lock with the checksums that the repository serves now: `python -m replica_audit.install.jars`."""
    parser = argparse.ArgumentParser(
        prog="python -m replica_audit.install.jars", description="Prints a new lock of the JARs."
    )
    parser.add_argument("--settings", type=Path, default=conf_file("ivysettings.xml"), help="Ivy settings (mirror)")
    arguments = parser.parse_args(argv)
    try:
        sys.stdout.write(relocked(locked_jars(), arguments.settings))
    except EngineError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main())
