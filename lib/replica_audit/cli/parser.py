"""The argument parser: commands and options, each option only where it was given, so that sources can be told apart."""

from __future__ import annotations

import argparse
import difflib
from functools import cache, partial
from typing import Any, NoReturn

from replica_audit import __version__
from replica_audit.cli.capture_plan_command import add_capture_arguments
from replica_audit.cli.elect_command import add_elect_arguments
from replica_audit.cli.options import GROUPS, OPTIONS, PLACES, one_of
from replica_audit.cli.output import print_result
from replica_audit.cli.restore_command import add_restore_arguments
from replica_audit.cli.salvage_command import add_salvage_arguments
from replica_audit.config import KEYS, nearest
from replica_audit.errors import UsageError
from replica_audit.report.layout import text_width, wrap

SHELLS = ("bash", "zsh", "fish")

_COMMANDS = {
    "run": "ingest a snapshot, audit it, check the quality and report: the main job",
    "ingest": "read a snapshot into the warehouse",
    "audit": "audit an ingested snapshot",
    "quality": "check the quality of a finished audit with Great Expectations",
    "report": "write the report of a finished audit",
    "history": "show the audits of a warehouse: verdicts over time, when findings first appeared",
    "show": "audit in the terminal, without Spark: one partition, or the triage of all",
    "elect": "say what each choice of leader costs, which is best, and how it is carried out",
    "verify": "say of two snapshots of one cluster whether every follower kept exactly what it should have",
    "salvage": "take out the records that other copies hold and the leader's log does not",
    "restore": "put salvaged records into a cluster, each once; the only command that talks to one",
    "capture-plan": "print how to copy the log dirs of given brokers, as a shell script",
    "explain": "say what a finding or a verdict means, how it is proven and what to do; alone: list all codes",
}

#: Commands about the program itself: they take none of the common options.
_OF_PROGRAM = {
    "completion": "print the script that completes commands and options in your shell",
    "help": "show this help, or that of a command",
}

_ARGUMENTS = {
    "run": "SNAPSHOT",
    "ingest": "SNAPSHOT",
    "show": "SNAPSHOT [TOPIC-PARTITION]",
    "elect": "SNAPSHOT [TOPIC-PARTITION...]",
    "verify": "BEFORE AFTER",
    "salvage": "SNAPSHOT --to DIR",
    "restore": "DIR --bootstrap-servers HOST:PORT",
    "capture-plan": "BROKER...",
    "explain": "[CODE | FINDING_ID]",
    "completion": "SHELL",
    "help": "[COMMAND]",
}

_EPILOG = """exit status:
  0    nothing at or above --fail-on
  1    findings at or above --fail-on
  2    usage or configuration
  3    the audit cannot be trusted whole
  4    engine or internal error
  130  interrupted (143: terminated)
"""

_EPILOGS = {
    "verify": """exit status:
  0    every replica kept exactly what it should have
  1    one did not, has not followed yet, or committed records are lost
  2    usage or configuration
  3    part of it could not be judged
  4    internal error
""",
    "salvage": """exit status:
  0    all that is there was written (without --payloads: can be read)
  1    records that are known to be there were not
  2    usage or configuration
  3    something that may hold records could not be read
  4    internal error
""",
    "restore": """exit status:
  0    all records are there (--check: once, in order)
  1    --check found a difference
  2    usage, configuration, or refused: nothing was produced
  4    the cluster did not do what it was asked to
""",
}


class _Parser(argparse.ArgumentParser):
    """Raises UsageError with a usage of one line instead of leaving the program."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}\n{self.format_usage().rstrip()}")

    def print_help(self, file: Any = None) -> None:
        print_result(self.format_help())


def build_parser() -> argparse.ArgumentParser:
    """The parser of `replica-audit`; `command` of its namespace is one of the command names."""
    formatter = partial(argparse.RawDescriptionHelpFormatter, width=text_width(), max_help_position=30)
    parser = _Parser(
        prog="replica-audit",
        usage="replica-audit COMMAND [ARGUMENT...] [OPTION...]",
        description="\n".join(
            wrap("Audits Kafka replica logs offline: high watermark, divergence, what a truncation drops.")
        ),
        epilog=f"replica-audit help COMMAND says what a command takes.\n\n{_EPILOG}",
        formatter_class=formatter,
        allow_abbrev=False,
    )
    _add_version(parser)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND, one of", title="commands")
    for name, text in {**_COMMANDS, **_OF_PROGRAM}.items():
        command = commands.add_parser(
            name,
            usage=" ".join(filter(None, ["replica-audit", name, _ARGUMENTS.get(name), "[OPTION...]"])),
            help=text,
            description="\n".join(wrap(text[0].upper() + text[1:] + ".")),
            epilog=_EPILOGS.get(name, _EPILOG) if name in _COMMANDS else None,
            formatter_class=formatter,
            allow_abbrev=False,
        )
        _add_arguments(name, command)
        if name in _COMMANDS:
            _add_options(name, command)
        _add_version(command)
    return parser


@cache
def _parser_of(width: int) -> argparse.ArgumentParser:
    """The one that parses wherever text is so wide, however often a process does: parsing leaves it as it is."""
    return build_parser()


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    """The parsed arguments, those of `help` where there are none; raises UsageError, and SystemExit(0) after --help."""
    parser = _parser_of(text_width())
    known = [*_COMMANDS, *_OF_PROGRAM]
    if not argv:
        return argparse.Namespace(command="help", about=None)
    if not argv[0].startswith("-") and argv[0] not in known:
        raise UsageError(f"{argv[0]}: no such command; {nearest(argv[0], known)}\n{parser.format_usage().rstrip()}")
    arguments, unknown = parser.parse_known_args(argv)
    if arguments.command is None:
        parser.error(_say_unknown(unknown, parser) if unknown else "no command")
    if unknown:
        of_command = parsers_of(parser)[arguments.command]
        of_command.error(_say_unknown(unknown, of_command))
    if getattr(arguments, "snapshot", "") is None and not arguments.print_config:
        parsers_of(parser)[arguments.command].error("SNAPSHOT is missing: give the directory of the copied log dirs")
    if getattr(arguments, "after", "") is None and not arguments.print_config:
        parsers_of(parser)[arguments.command].error("two snapshots are needed: that of before and that of after")
    return arguments


def help_text(command: str | None) -> str:
    """The help of a command; None: of the program."""
    parser = _parser_of(text_width())
    return (parser if command is None else parsers_of(parser)[command]).format_help()


def parsers_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parser of each command."""
    (commands,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return dict(commands.choices)


def given_flags(arguments: argparse.Namespace) -> dict[str, Any]:
    """Values of the settings that were given as flags, by field name."""
    given = vars(arguments)
    return {name: given[name] for name in KEYS.values() if name in given}


def _say_unknown(unknown: list[str], command: argparse.ArgumentParser) -> str:
    """What is wrong with the first argument that nothing takes."""
    option = next((text.partition("=")[0] for text in unknown if text.startswith("-") and text != "-"), None)
    if option is None:
        return f"{unknown[0]!r} is one argument too many"
    known = [flag for action in command._actions if action.help != argparse.SUPPRESS for flag in action.option_strings]
    near = difflib.get_close_matches(option, known, n=1, cutoff=0.5)
    return f"{option}: no such option" + (f"; did you mean {near[0]}?" if near else "")


def _add_version(parser: argparse.ArgumentParser) -> None:
    version = f"replica-audit {__version__}"
    parser.add_argument("-V", "--version", action="version", version=version, help="show the version")


def _add_arguments(name: str, command: argparse.ArgumentParser) -> None:
    arguments = command.add_argument_group("arguments")
    # The snapshot may be left out together with --print-config; parse_arguments asks for it otherwise.
    if name in ("run", "ingest", "show", "salvage", "elect"):
        text = "directory or URI of the copied log dirs"
        arguments.add_argument("snapshot", metavar="SNAPSHOT", nargs="?", help=text)
    if name == "show":
        text = "for example orders-0; without, all partitions are triaged"
        arguments.add_argument("topic_partition", metavar="TOPIC-PARTITION", nargs="?", help=text)
    if name == "elect":
        add_elect_arguments(command, arguments)
    if name == "verify":
        arguments.add_argument("before", metavar="BEFORE", nargs="?", help="the log dirs as they were")
        arguments.add_argument("after", metavar="AFTER", nargs="?", help="those of the same cluster, copied later")
        command.add_argument(
            "--plan", metavar="FILE", help="plan.json of elect: say whether what it predicted happened"
        )
    if name == "salvage":
        add_salvage_arguments(command)
    if name == "restore":
        add_restore_arguments(command, arguments)
    if name == "capture-plan":
        add_capture_arguments(command, arguments)
    if name == "explain":
        text = "a code such as HWM-LOSS, the beginning of some such as DIV, a verdict, or the id of a finding"
        arguments.add_argument("code", metavar="CODE", nargs="?", help=text)
    if name == "audit":
        text = "which ingested snapshot (default: the latest)"
        command.add_argument("--snapshot-id", metavar="ID", help=text)
    if name == "history":
        text = "only the latest N audits (default: all)"
        command.add_argument("--limit", metavar="N", type=_count, help=text)
        text = "first remove audits that keep_days and keep_audits do not keep, and what killed runs left"
        command.add_argument("--prune", action="store_true", help=text)
    if name in ("report", "quality"):
        text = "which finished audit (default: the latest)"
        command.add_argument("--audit-id", metavar="ID", help=text)
    if name == "completion":
        arguments.add_argument("shell", metavar="SHELL", type=one_of(SHELLS), choices=SHELLS, help=", ".join(SHELLS))
    if name == "help":
        known = (*_COMMANDS, *_OF_PROGRAM)
        arguments.add_argument("about", metavar="COMMAND", nargs="?", type=one_of(known), choices=known, help="which")


def _add_options(name: str, command: argparse.ArgumentParser) -> None:
    for title in GROUPS:
        group = command.add_argument_group(title)
        if title == PLACES[0].group:
            exclusive = group.add_mutually_exclusive_group()
            for option in PLACES:
                option.add(exclusive, name)
        for option in OPTIONS:
            if option.group == title:
                option.add(group, name)


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more")
    return int(text)
