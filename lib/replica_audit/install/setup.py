"""What `replica-audit setup` brings beside packages for runs on this machine: JARs of Delta, a class archive, settings of spark-submit.

It lies in one directory (`installation.share_directory`), which `remove` deletes.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from replica_audit.errors import EngineError
from replica_audit.install import class_archive, session_settings
from replica_audit.install.environment import check_packages, find_java
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
    found = [_java(), Requirement("Spark", check_packages(), True)]
    problems = [problem for jar in locked_jars() if (problem := jar_problem(jar_directory(), jar))]
    state = "; ".join(problems) or f"{len(locked_jars())} in {jar_directory()}, as locked"
    found.append(Requirement("JARs of Delta", state, not problems))
    if problems or not found[0].there:
        return [
            *found,
            Requirement("class archive", "not made before Java and the JARs are there", False, needed=False),
        ]
    archive = session_settings.archive_path(find_java(), [jar_directory() / jar.file_name for jar in locked_jars()])
    there = archive.is_file()
    found.append(Requirement("class archive", str(archive) if there else f"{archive} is missing", there, needed=False))
    settings = class_archive.submit_settings()
    there = settings.is_file()
    found.append(
        Requirement("settings of spark-submit", str(settings) if there else f"{settings} is missing", there, False)
    )
    return found


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


def _java() -> Requirement:
    try:
        java = find_java()
    except EngineError as error:
        return Requirement("Java", str(error), False)
    return Requirement("Java", f"{java.version} in {java.home}", True)
