"""A machine without any Java: the core answers, and what needs Java says so in one line before it does anything."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.samples import SAMPLES

SAMPLE = str(SAMPLES / "last-replica-standing")
SENTENCE = (
    "no usable Java: expected 17 or 21, found none on the PATH, JAVA_HOME not set; install OpenJDK 17 or 21 "
    "(Debian: apt-get install openjdk-17-jre-headless) or point JAVA_HOME to one"
)
#: The places where distributions put Java are looked at too, and cannot be taken away here.
PROGRAM = """
from replica_audit.install import environment
environment.usual_places = list
from replica_audit.cli.main import entry_point
try:
    entry_point()
finally:
    import pathlib, sys
    pathlib.Path("imported").write_text(" ".join(sys.modules))
"""


def _ended(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    tools = place / "tools"
    tools.mkdir(exist_ok=True)
    for name in ("sh", "env", "uname"):
        found = shutil.which(name)
        assert found is not None
        if not (tools / name).exists():
            (tools / name).symlink_to(found)
    environment = {"PATH": str(tools), "HOME": str(place), "LANG": os.environ.get("LANG", "C.UTF-8")}
    command = [sys.executable, "-c", PROGRAM, *arguments]
    return subprocess.run(command, env=environment, cwd=place, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["show", SAMPLE], 1, "CRITICAL: 1 partition, COMMITTED_LOSS"),
        (["elect", SAMPLE], 0, "Elect broker 2."),
        (["quorum", str(SAMPLES / "lost-quorum")], 0, "One copy is the best"),
        (["verify", SAMPLE, SAMPLE], 1, "orders"),
        (["salvage", SAMPLE, "--to", "salvaged"], 0, "7"),
        (["explain", "HWM-LOSS"], 0, "HWM-LOSS"),
        (["capture-plan", "1=/data"], 0, "#!/usr/bin/env bash"),
    ],
    ids=lambda one: one[0] if isinstance(one, list) else "",
)
def test_the_core_answers(arguments: list[str], status: int, said: str, tmp_path: Path) -> None:
    ended = _ended(tmp_path, *arguments)
    assert (ended.returncode, said in ended.stdout) == (status, True), ended.stdout + ended.stderr


@pytest.mark.parametrize("command", ["run", "ingest"])
def test_a_run_says_it_in_one_line_and_begins_nothing(command: str, tmp_path: Path) -> None:
    ended = _ended(tmp_path, command, SAMPLE, "--warehouse", "warehouse", "--report", "report")
    assert ended.returncode == 4 and ended.stderr == f"replica-audit: {SENTENCE}\n"
    assert not (tmp_path / "warehouse").exists()
    assert ended.stdout.splitlines()[1:] == [] and "Traceback" not in ended.stdout
    imported = (tmp_path / "imported").read_text().split()
    assert "replica_audit.spark.session" in imported and "great_expectations" not in imported, "it takes seconds"


def test_setup_says_it_too(tmp_path: Path) -> None:
    checked = _ended(tmp_path, "setup", "--check")
    assert checked.returncode == 4 and checked.stdout.startswith(f"missing Java: {SENTENCE}\n")
