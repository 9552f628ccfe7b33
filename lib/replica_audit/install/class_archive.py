"""Makes the class archive that local sessions start from, and the settings for spark-submit that name it.

Loading and checking some 20,000 classes of Spark and Delta costs seconds at every start; the JVM's application
class-data sharing (JEP 350) maps them from a file instead. The file is a cache: it belongs to one Java and one set of
JARs, the JVM checks that once more, and without it everything works, more slowly.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from replica_audit.install.environment import check_jars, find_java
from replica_audit.install.installation import share_directory
from replica_audit.install.session_settings import archive_path, local_settings

#: What starts a session, runs jobs in it and has the JVM write its classes; the session stands above this room.
TRAINING = "replica_audit.spark.class_training"

_TRAINING_SECONDS = 300


def make_archive() -> None:
    """Make the archive unless it is there; archives of other Javas or JARs are removed.

    Raises EngineError when Java or JARs do not fit. A failed training is a warning on stderr, not an error: the archive only
    saves time.
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
    # In a group of its own, so that a training that hangs is ended with its JVM.
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
        last = said.decode(errors="replace").strip().splitlines()[-1:] or ["nothing"]
        print(
            f"warning: no class archive (sessions start some seconds later); training said: {last[0]}", file=sys.stderr
        )
        return
    os.replace(scratch, path)


def submit_settings() -> Path:
    """Where `spark-local.conf` lies; it need not exist."""
    return share_directory() / "spark-local.conf"


def write_submit_settings() -> Path:
    """Write `spark-local.conf`, a properties file: with it spark-submit starts on this machine as a local session does."""
    settings = {**local_settings("", {}), "spark.pyspark.python": sys.executable}
    given = {name: value for name, value in settings.items() if name not in ("spark.app.name", "spark.master")}
    path = submit_settings()
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (f"{name} {value}\n".replace("\\", "\\\\") for name, value in sorted(given.items()))
    path.write_text("".join(lines), encoding="utf-8")
    return path
