"""The argument parser: commands and options, each option only where it was given, so that sources can be told apart."""

from __future__ import annotations

import argparse
import difflib
from functools import cache, partial
from typing import Any, NoReturn

from replica_audit import __version__
from replica_audit.cli.commands import COMMANDS
from replica_audit.cli.options import GROUPS, OPTIONS, PLACES
from replica_audit.cli.output import print_result
from replica_audit.cli.own_arguments import EXIT_STATUS
from replica_audit.config import KEYS, Settings, nearest
from replica_audit.errors import UsageError
from replica_audit.report.layout import text_width, wrap


class _Parser(argparse.ArgumentParser):
    """Raises UsageError with a usage of one line instead of leaving the program."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}\n{self.format_usage().rstrip()}")

    def print_help(self, file: Any = None) -> None:
        print_result(self.format_help())


def build_parser(asked: str | None = None) -> argparse.ArgumentParser:
    """The parser of `replica-audit`; `command` of its namespace is one of `COMMANDS`.

    Of these only the one that is `asked` for has its arguments, and all where None is; the others have name and line.
    """
    formatter = partial(argparse.RawDescriptionHelpFormatter, width=text_width(), max_help_position=30)
    parser = _Parser(
        prog="replica-audit",
        usage="replica-audit COMMAND [ARGUMENT...] [OPTION...]",
        description="\n".join(
            wrap("Audits Kafka replica logs offline: high watermark, divergence, what a truncation drops.")
        ),
        epilog=f"replica-audit help COMMAND says what a command takes.\n\n{EXIT_STATUS}",
        formatter_class=formatter,
        allow_abbrev=False,
    )
    _add_version(parser)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND, one of", title="commands")
    for name, command in COMMANDS.items():
        of_command = commands.add_parser(
            name,
            usage=" ".join(filter(None, ["replica-audit", name, command.takes, "[OPTION...]"])),
            help=command.line,
            description="\n".join(wrap(command.line[0].upper() + command.line[1:] + ".")),
            epilog=command.epilog,
            formatter_class=formatter,
            allow_abbrev=False,
        )
        if asked in (name, None):
            command.add_arguments(of_command)
            if command.common:
                _add_options(name, of_command)
            _add_version(of_command)
    return parser


@cache
def _parser_of(asked: str | None, width: int) -> argparse.ArgumentParser:
    """The one that parses wherever text is so wide, however often a process does: parsing leaves it as it is."""
    return build_parser(asked)


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    """The parsed arguments, those of `help` where there are none; raises UsageError, and SystemExit(0) after --help."""
    if not argv:
        return argparse.Namespace(command="help", about=None)
    asked, is_option = argv[0], argv[0].startswith("-")
    parser = _parser_of("" if asked in ("-h", "--help") else None if is_option else asked, text_width())
    if not is_option and asked not in COMMANDS:
        raise UsageError(f"{asked}: no such command; {nearest(asked, COMMANDS)}\n{parser.format_usage().rstrip()}")
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


def print_help(arguments: argparse.Namespace, settings: Settings) -> int:
    """Print the help of a command, or of the program."""
    about = arguments.about or ""
    parser = _parser_of(about, text_width())
    (parsers_of(parser)[about] if about else parser).print_help()
    return 0


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
