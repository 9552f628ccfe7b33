"""The commands that a plan prints for salvage and restore are taken by this program as they were meant, whatever the names."""

from __future__ import annotations

import shlex

import pytest

from replica_audit.cli.parser import parse_arguments
from replica_audit.deciding.recovery_commands import restore_command, salvage_command

NAMES = ["plain", "with space", "-leading", "--to", "it's", "$(touch x)", "a;b", "-- c", "ü*?", "-"]


@pytest.mark.parametrize("name", NAMES)
def test_salvage_takes_the_names_that_were_given(name: str) -> None:
    command = shlex.split(salvage_command(f"{name}1", f"{name}2", f"{name}3"))
    arguments = parse_arguments(command[1:])
    assert (command[0], arguments.command, arguments.payloads) == ("replica-audit", "salvage", True)
    assert (arguments.snapshot, arguments.plan, arguments.to) == (f"{name}1", f"{name}2", f"{name}3")


@pytest.mark.parametrize("name", NAMES)
def test_restore_takes_the_names_that_were_given(name: str) -> None:
    command = shlex.split(restore_command(f"{name}1", "a:1,b:2", f"{name}2", to_original=True, yes=True))
    arguments = parse_arguments(command[1:])
    assert (arguments.command, arguments.directory) == ("restore", f"{name}1")
    assert (arguments.bootstrap_servers, arguments.command_config) == ("a:1,b:2", f"{name}2")
    assert (arguments.to_original, arguments.skip_present, arguments.yes) == (True, False, True)


def test_the_text_of_a_simple_one() -> None:
    assert salvage_command("snapshot", "plan.json", "salvaged") == (
        "replica-audit salvage --plan plan.json --to salvaged --payloads snapshot"
    )
    assert restore_command("salvaged") == "replica-audit restore --bootstrap-servers HOST:PORT salvaged"
