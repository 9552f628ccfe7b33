"""Shell completion of commands, options and their values: a script that shtab writes from the parser."""

from __future__ import annotations

import argparse

import shtab

from replica_audit.auditing.catalogue import CATALOGUE, FAMILIES
from replica_audit.cli.commands import KIND_OF_BROKER
from replica_audit.cli.output import print_result
from replica_audit.cli.parser import build_parser, parsers_of
from replica_audit.config import Settings
from replica_audit.literals import CAPTURE_KINDS, VERDICTS

#: Metavars that are completed as paths.
_PATHS = {"FILE": "FILE", "DIR": "DIRECTORY", "SNAPSHOT": "DIRECTORY"}


def print_completion(arguments: argparse.Namespace, settings: Settings) -> int:
    """Print the completion script for a shell."""
    print_result(render_completion(arguments.shell))
    return 0


def render_completion(shell: str) -> str:
    """The script for bash, zsh or fish."""
    parser = build_parser()
    for command in parsers_of(parser).values():
        for action in command._actions:
            if kind := _PATHS.get(_name_of(action)):
                action.complete = getattr(shtab, kind)  # type: ignore[attr-defined]
            elif _name_of(action) == "CODE":
                action.choices = (*CATALOGUE, *FAMILIES, *VERDICTS)
            elif _name_of(action) == KIND_OF_BROKER:
                action.choices = CAPTURE_KINDS
    return shtab.complete(parser, shell=shell)


def _name_of(action: argparse.Action) -> str:
    return action.metavar if isinstance(action.metavar, str) else ""
