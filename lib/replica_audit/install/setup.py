"""What `replica-audit setup` brings beside packages for runs on this machine: JARs of Delta, a class archive, settings of spark-submit.

It lies in one directory (`installation.share_directory`), which `remove` deletes.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from replica_audit.errors import EngineError
from replica_audit.install import class_archive, session_settings
from replica_audit.install.environment import check_jars, check_packages, find_java
from replica_audit.install.installation import (
    LockedJar,
    conf_file,
    jar_directory,
    jar_problem,
    locked_jars,
    share_directory,
)
from replica_audit.install.jars import install_jars


@dataclass(frozen=True, slots=True)
class Requirement:
    """One thing that a run on this machine needs, or is faster with."""

    name: str
    state: str
    """What is there, or what is missing, in words."""
    there: bool
    needed: bool = True
    """False for what only saves time."""


def requirements() -> list[Requirement]:
    """Java, Spark, the JARs, the class archive and the settings of spark-submit, as they are found; nothing is changed."""
    java, jars = _found("Java", _say_java), _found("JARs of Delta", _say_jars)
    found = [java, _found("Spark", check_packages), jars]
    if not (java.there and jars.there):
        state = "not made before Java and the JARs are there"
        return [*found, Requirement("class archive", state, False, needed=False)]
    archive = session_settings.archive_path(find_java(), check_jars())
    return [*found, _file("class archive", archive), _file("settings of spark-submit", class_archive.submit_settings())]


def set_up(ivy_settings: Path | None, offline: Path | None) -> None:
    """Bring what is missing of `requirements`: the JARs from the repository of `ivy_settings`, or from the directory `offline`.

    Raises EngineError where Java or Spark does not fit, or the JARs cannot be had as locked. A class archive that
    cannot be made is only missing afterwards, since it saves time and nothing else.
    """
    check_packages()
    find_java()
    if offline is None:
        install_jars(locked_jars(), jar_directory(), ivy_settings or conf_file("ivysettings.xml"))
    else:
        copy_jars(locked_jars(), offline, jar_directory())
    class_archive.make_archive()
    class_archive.write_submit_settings()


def copy_jars(jars: Sequence[LockedJar], source: Path, target: Path) -> None:
    """Copy those of `jars` that `target` lacks from `source`, a directory that has them under their Maven names.

    Raises EngineError with each one that is missing in `source` or differs from the lock; then nothing is copied.
    """
    wanted = [jar for jar in jars if jar_problem(target, jar)]
    if problems := [problem for jar in wanted if (problem := jar_problem(source, jar))]:
        raise EngineError(f"{source}: {'; '.join(problems)}; nothing was copied")
    target.mkdir(parents=True, exist_ok=True)
    for jar in wanted:
        scratch = target / f".{jar.file_name}.part"
        shutil.copyfile(source / jar.file_name, scratch)
        scratch.replace(target / jar.file_name)


def remove() -> Path | None:
    """Delete the directory with everything that was brought; returns it, or None where there is none."""
    place = share_directory()
    if not place.is_dir():
        return None
    shutil.rmtree(place)
    return place


def _found(name: str, check: Callable[[], str]) -> Requirement:
    try:
        return Requirement(name, check(), True)
    except EngineError as error:
        return Requirement(name, str(error), False)


def _say_java() -> str:
    java = find_java()
    return f"{java.version} in {java.home}"


def _say_jars() -> str:
    return f"{len(check_jars())} in {jar_directory()}, as locked"


def _file(name: str, path: Path) -> Requirement:
    there = path.is_file()
    return Requirement(name, str(path) if there else f"{path} is missing", there, needed=False)
