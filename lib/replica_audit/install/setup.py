"""Installation by `replica-audit setup` of what a run on this machine needs besides packages: Delta's JARs, a class
archive, settings of spark-submit.

It lies in one directory (`installation.share_directory`), which `remove` deletes. The class archive speeds up local
sessions: loading and checking some 20,000 classes of Spark and Delta costs seconds at every start; the JVM's
application class-data sharing (JEP 350) maps them from a file instead. An archive fits one Java and one set of JARs,
which the JVM checks; without one everything works, only more slowly.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from replica_audit.errors import EngineError
from replica_audit.install.environment import check_jars, check_packages, find_java
from replica_audit.install.installation import conf_file, jar_directory, locked_jars, share_directory
from replica_audit.install.jars import copy_jars, install_jars
from replica_audit.install.session_settings import WORKER_DAEMON, archive_path, cluster_settings, local_settings

#: Module that starts a session, runs jobs in it and has the JVM write its classes; named as text, since the session is
#: on a higher step.
TRAINING = "replica_audit.spark.class_training"

_TRAINING_SECONDS = 900


@dataclass(frozen=True, slots=True)
class Requirement:
    """One thing that a run on this machine needs, or is faster with."""

    name: str
    state: str
    """Words for what was found, or is missing."""
    there: bool
    needed: bool = True
    """False if it only saves time."""


def requirements() -> list[Requirement]:
    """State of Java, Spark, the JARs, the class archive and the settings of spark-submit; nothing is changed."""
    java, jars = _found("Java", _say_java), _found("JARs of Delta", _say_jars)
    found = [java, _found("Spark", check_packages), jars]
    if not (java.there and jars.there):
        state = "not made before Java and the JARs are there"
        return [*found, Requirement("class archive", state, False, needed=False)]
    archive = archive_path(find_java(), check_jars())
    return [
        *found,
        _file("class archive", archive),
        *(_file("settings of spark-submit", path) for path in submit_settings()),
    ]


def set_up(ivy_settings: Path | None, offline: Path | None) -> None:
    """Install what `requirements` lists as missing: JARs come from the repository of `ivy_settings`, or from the directory `offline`.

    Raises EngineError where Java or Spark does not fit, or the JARs cannot be had as locked. A class archive that
    cannot be made stays missing without an error, since it only saves time.
    """
    check_packages()
    find_java()
    if offline is None:
        install_jars(locked_jars(), jar_directory(), ivy_settings or conf_file("ivysettings.xml"))
    else:
        copy_jars(locked_jars(), offline, jar_directory())
    make_archive()
    write_submit_settings()


def remove() -> Path | None:
    """Delete everything that was installed; returns the directory, or None if there was none."""
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


def make_archive() -> None:
    """Make the archive unless it exists; archives for other Javas or JARs are removed.

    Raises EngineError where Java or JARs do not fit. A failed training is a warning on stderr, not an error: the archive only saves time.
    """
    path = archive_path(find_java(), check_jars())
    if path.is_file():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    for old in path.parent.glob("*.jsa"):
        old.unlink()
    scratch = path.with_suffix(".part")
    scratch.unlink(missing_ok=True)
    command = [sys.executable, "-m", TRAINING, str(scratch)]
    # In its own process group, so that a training that hangs is ended with its JVM.
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    try:
        said, _ = process.communicate(timeout=_TRAINING_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        said, _ = process.communicate()
        said += f"\nno end after {_TRAINING_SECONDS} s".encode()
    if process.returncode != 0 or not scratch.is_file():
        scratch.unlink(missing_ok=True)
        print(
            f"warning: no class archive (sessions start some seconds later); training said: {reason_of(said)}",
            file=sys.stderr,
        )
        return
    os.replace(scratch, path)


def reason_of(said: bytes) -> str:
    """The output line of a program that says why it failed: Java's deepest cause, else the last line."""
    lines = said.decode(errors="replace").strip().splitlines()
    return ([line for line in lines if line.startswith("Caused by: ")] or lines or ["nothing"])[-1]


def submit_settings() -> tuple[Path, Path]:
    """Paths of `spark-local.conf` and `spark-cluster.conf`; they need not exist."""
    return share_directory() / "spark-local.conf", share_directory() / "spark-cluster.conf"


def write_submit_settings() -> None:
    """Write the properties files of spark-submit: with one it starts on this machine as a local session does, with the other its
    driver does, while the rest runs on a cluster."""
    java = find_java()
    local = {**local_settings("", {}, java), "spark.pyspark.python": sys.executable}
    local["spark.python.daemon.module"] = WORKER_DAEMON
    for path, settings in zip(submit_settings(), (local, cluster_settings(java)), strict=True):
        given = {name: value for name, value in settings.items() if name not in ("spark.app.name", "spark.master")}
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = (f"{name} {value}\n".replace("\\", "\\\\") for name, value in sorted(given.items()))
        path.write_text("".join(lines), encoding="utf-8")
