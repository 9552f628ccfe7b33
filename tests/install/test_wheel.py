"""The wheel: what is in it, and that its core answers where nothing but the core's packages are installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from email.parser import Parser
from importlib import metadata
from pathlib import Path

import pytest
from tests.support.lost_records import write_lost_records
from tests.support.some import some

import replica_audit
from replica_audit.cli.commands import COMMANDS

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "data" / "samples" / "last-replica-standing"
#: The distributions that `pip install replica-audit` brings, without those that they bring themselves.
CORE = {"numpy", "pyarrow", "google-crc32c", "cramjam", "pyyaml", "shtab"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("wheel")
    source = place / "source"
    for name in ("lib", "conf"):
        shutil.copytree(
            ROOT / name, source / name, symlinks=True, ignore=shutil.ignore_patterns("*.egg-info", "__pycache__")
        )
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--no-index",
    ]
    subprocess.run([*command, "--no-build-isolation", "-w", str(place), str(source)], check=True, timeout=300)
    (built,) = place.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def bare(wheel, tmp_path_factory) -> Path:
    """An environment with the wheel and the packages of its core; returns its python."""
    home = tmp_path_factory.mktemp("bare")
    venv.create(home, symlinks=True)
    (target,) = home.glob("lib/python3*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
    for name in CORE:
        for top in {
            Path(file).parts[0] for file in metadata.files(name) or () if not file.parts[0].startswith((".", "bin"))
        }:
            if (found := Path(metadata.distribution(name).locate_file(top))).exists() and not (target / top).exists():
                (target / top).symlink_to(found)
    return home / "bin" / "python"


def run(python: Path, *words: str, cwd: Path) -> subprocess.CompletedProcess:
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "SPARK", "PYSPARK"))
    }
    return subprocess.run(
        [python, "-c", "from replica_audit.cli.main import entry_point; entry_point()", *words],
        cwd=cwd, env={**environment, "HOME": str(cwd)}, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def test_a_wheel_has_the_modules_and_their_files_and_nothing_beside_them(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    tops = {"replica_audit", "pyspark_kafka_log", f"replica_audit-{replica_audit.__version__}.dist-info"}
    assert {name.split("/")[0] for name in names} == tops
    for name in some(path.name for path in (ROOT / "conf").glob("*.lock")):
        assert f"replica_audit/install/conf/{name}" in names
    sources = [
        path
        for path in (ROOT / "lib" / "replica_audit").rglob("*")
        if path.suffix in (".py", ".pyi", ".js", ".css", ".html", ".md")
    ]
    for path in some(sources):
        assert path.relative_to(ROOT / "lib").as_posix() in names
    assert "replica_audit/py.typed" in names


def test_its_metadata_say_what_a_registry_shows(wheel):
    archive = zipfile.ZipFile(wheel)
    (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    found = Parser().parsestr(archive.read(name).decode())
    assert found["Version"] == replica_audit.__version__ and found["License-Expression"] == "Apache-2.0"
    assert found["Description-Content-Type"] == "text/markdown" and "Incident now?" in found.get_payload()
    core = {re.match(r"[\w-]+", one)[0].lower() for one in found.get_all("Requires-Dist") if "extra ==" not in one}
    assert core == CORE
    assert {"report", "spark", "quality", "restore", "cluster", "all"} <= set(found.get_all("Provides-Extra"))


#: What each command is asked on the core alone, its status, and words of its answer.
ON_THE_CORE = {
    "show": (["show", str(SAMPLE)], 1, "7 committed records are missing from the leader"),
    "elect": (["elect", str(SAMPLE)], 0, "Elect broker 2."),
    "quorum": (["quorum", str(SAMPLE.parent / "lost-quorum")], 0, "One copy is the best"),
    "verify": (["verify", str(SAMPLE), str(SAMPLE)], 1, "orders"),
    "salvage": (["salvage", str(SAMPLE), "--to", "out"], 0, "7 records"),
    "capture-plan": (["capture-plan", "1=/data"], 0, "#!/usr/bin/env bash"),
    "evidence": (["evidence", "."], 0, ""),
    "explain": (["explain", "HWM-LOSS"], 0, "HWM-LOSS"),
    "completion": (["completion", "bash"], 0, "replica-audit"),
    "help": (["help"], 0, "usage:"),
}
#: What each other command is asked there, and the extra that it names.
NOT_ON_THE_CORE = {
    "run": (["run", str(SAMPLE)], "spark"),
    "ingest": (["ingest", str(SAMPLE)], "spark"),
    "audit": (["audit"], "spark"),
    "setup": (["setup"], "spark"),
    "quality": (["quality"], "quality"),
    "report": (["report"], "report"),
    "history": (["history"], "report"),
    "restore": (["restore", "lost/salvaged", "--bootstrap-servers", "127.0.0.1:1", "--yes"], "restore"),
    "observe": (["observe", "--bootstrap-servers", "127.0.0.1:1", "--to", "new", "--yes"], "cluster"),
}


def test_every_command_is_asked_on_the_core():
    assert ON_THE_CORE.keys() | NOT_ON_THE_CORE.keys() == COMMANDS.keys()


@pytest.mark.parametrize("command", ON_THE_CORE)
def test_the_core_answers_without_the_packages_of_any_extra(command, bare, tmp_path):
    words, status, said = ON_THE_CORE[command]
    ended = run(bare, *words, cwd=tmp_path)
    assert (ended.returncode, said in ended.stdout) == (status, True), ended.stdout + ended.stderr


@pytest.mark.parametrize("command", NOT_ON_THE_CORE)
def test_a_command_that_the_core_lacks_the_extra_of_names_it_in_a_line(command, bare, tmp_path):
    words, extra = NOT_ON_THE_CORE[command]
    write_lost_records(tmp_path / "lost", {0: 1})
    ended = run(bare, *words, cwd=tmp_path)
    assert ended.returncode == 4 and f"pip install 'replica-audit[{extra}]'" in ended.stderr, ended.stderr
    assert len(ended.stderr.splitlines()) == 1
    # `run` leaves its status where schedulers look for it.
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"lost", *(["replica-audit-report"] if command == "run" else [])}
    helped = run(bare, command, "--help", cwd=tmp_path)
    assert helped.returncode == 0 and helped.stdout.startswith("usage:"), helped.stderr
