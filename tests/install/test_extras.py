"""Extras: what each brings is what its commands import, and a command that lacks one says so before it does anything."""

from __future__ import annotations

import re
import sys
from importlib import metadata
from pathlib import Path

import pytest
from tests.support.some import some

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from replica_audit.cli.commands import COMMANDS
from replica_audit.cli.main import main
from replica_audit.install.extras import EXTRAS, check_extra

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]


def packages(extra: str) -> set[str]:
    """The names of packages that an extra brings beyond the core, those of extras that it names too."""
    found = set()
    for wanted in PROJECT["optional-dependencies"][extra]:
        if inner := re.fullmatch(r"replica-audit\[([\w,]+)]", wanted):
            found.update(*(packages(name) for name in inner[1].split(",")))
        else:
            found.add(re.match(r"[\w-]+", wanted)[0].lower())
    return found


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_brings_what_its_commands_import(extra):
    brought_by = metadata.packages_distributions()
    for module in some(EXTRAS[extra]):
        assert {name.lower().replace("_", "-") for name in brought_by[module]} & packages(extra), module


def test_all_brings_every_extra_of_a_command():
    assert packages("all") == set().union(*(packages(extra) for extra in (*EXTRAS, "restore", "cluster")))


#: Commands that lack a module of their extra, and those of which an option wants another one.
LACKING = [
    *((name, one.extra, module) for name, one in COMMANDS.items() if one.extra for module in EXTRAS[one.extra]),
    *((f"{command} --catalog c.s", "spark", "pyspark") for command in ("quality", "report", "history")),
    ("explain 0123456789abcdef --warehouse .", "report", "deltalake"),
]


@pytest.mark.parametrize(("words", "extra", "lacking"), LACKING)
def test_a_command_that_lacks_its_extra_says_so_in_a_line(words, extra, lacking, monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, lacking, None)
    monkeypatch.chdir(tmp_path)
    command, *rest = words.split()
    needed = {"run": ["x"], "ingest": ["x"]}
    assert main([command, *needed.get(command, []), *rest]) == 4
    said = capsys.readouterr().err.strip()
    assert f" needs {lacking} of the extra {extra}: pip install 'replica-audit[{extra}]'" in said
    assert "\n" not in said
    assert not (tmp_path / "replica-audit-warehouse").exists()


def test_what_is_there_is_not_complained_about():
    for extra in some(EXTRAS):
        check_extra(extra, "a command")
