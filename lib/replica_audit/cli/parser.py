"""The argument parser, made from the table of commands and the settings. An option that is not given sets no value, so
that other sources of settings count."""

from __future__ import annotations

import argparse
import difflib
from functools import cache, partial
from typing import NoReturn

from replica_audit import __version__
from replica_audit.cli.commands import COMMANDS, EXIT_STATUS, one_of
from replica_audit.cli.output import print_result
from replica_audit.config import (
    DEFAULTS,
    GROUPS,
    KEYS,
    SETTINGS,
    Flag,
    Setting,
    Settings,
    Text,
    Texts,
    flag_of,
    nearest,
)
from replica_audit.errors import UsageError
from replica_audit.report.layout import text_width, wrap


class _Parser(argparse.ArgumentParser):
    """A parser that raises UsageError with a one-line usage instead of exiting."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}\n{self.format_usage().rstrip()}")

    def print_help(self, file: object = None) -> None:
        print_result(self.format_help())


def build_parser(asked: str | None = None) -> argparse.ArgumentParser:
    """The parser of `replica-audit`; `command` in its namespace is one of `COMMANDS`.

    Only the command `asked` for gets its arguments (None: all commands do); the others have a name and a line of help.
    """
    formatter = partial(argparse.RawDescriptionHelpFormatter, width=text_width(), max_help_position=30)
    parser = _Parser(
        prog="replica-audit",
        usage="replica-audit COMMAND [ARGUMENT...] [OPTION...]",
        description="\n".join(
            wrap(
                "Audits Kafka replica logs offline: high watermarks, divergence, and the records that a truncation would drop."
            )
        ),
        epilog=f"Run replica-audit help COMMAND for the arguments of a command.\n\n{EXIT_STATUS}",
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
                _add_settings(name, of_command)
            _add_version(of_command)
    return parser


@cache
def _parser_of(asked: str | None, width: int) -> argparse.ArgumentParser:
    """`build_parser` for text `width` columns wide, cached: parsing does not change it."""
    return build_parser(asked)


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    """The parsed arguments; an empty `argv` means `help`. Raises UsageError, and SystemExit(0) after --help."""
    if not argv:
        return argparse.Namespace(command="help", about=None)
    asked = argv[0]
    is_option = asked.startswith("-")
    named = None if is_option else asked
    parser = _parser_of("" if asked in ("-h", "--help") else named, text_width())
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
        parsers_of(parser)[arguments.command].error("two snapshots are needed: BEFORE and AFTER")
    return arguments


def print_help(arguments: argparse.Namespace, settings: Settings) -> int:
    """Print the help of a command, or of the program."""
    about = arguments.about or ""
    parser = _parser_of(about, text_width())
    (parsers_of(parser)[about] if about else parser).print_help()
    return 0


def parsers_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parser of each command, by name."""
    (commands,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return dict(commands.choices)


def given_flags(arguments: argparse.Namespace) -> dict[str, object]:
    """Settings given as flags, by field name."""
    given = vars(arguments)
    return {name: given[name] for name in KEYS.values() if name in given}


def _say_unknown(unknown: list[str], command: argparse.ArgumentParser) -> str:
    """Error text for the first argument that the command does not take."""
    option = next((text.partition("=")[0] for text in unknown if text.startswith("-") and text != "-"), None)
    if option is None:
        takes_several = any(action.nargs == "*" for action in command._actions if not action.option_strings)
        return f"{unknown[0]!r} " + (
            "follows an option: give it before" if takes_several else "is one argument too many"
        )
    known = [flag for action in command._actions if action.help != argparse.SUPPRESS for flag in action.option_strings]
    begun = [flag for flag in known if option.startswith(f"{flag}-")]
    near = begun or difflib.get_close_matches(option, known, n=1)
    return f"{option}: no such option" + (f"; did you mean {near[0]}?" if near else "")


def _add_version(parser: argparse.ArgumentParser) -> None:
    version = f"replica-audit {__version__}"
    parser.add_argument("-V", "--version", action="version", version=version, help="show the version")


def _add_settings(command: str, parser: argparse.ArgumentParser) -> None:
    """Add an option for each setting that has one, hidden if it has no effect on `command`, and the options that name settings."""
    groups = {title: parser.add_argument_group(title) for title in GROUPS}
    place = groups[SETTINGS["warehouse"].group].add_mutually_exclusive_group()
    for name, setting in SETTINGS.items():
        if not setting.file_only:
            seen = setting.commands is None or command in setting.commands
            target = place if name in ("warehouse", "catalog") else groups[setting.group]
            # The command's own option takes precedence over one without effect.
            if seen or flag_of(name) not in parser._option_string_actions:
                _add_setting(command, target, name, setting, seen)
    output = groups["settings and output"]
    output.add_argument(
        "--config", metavar="FILE", help="read settings from a YAML file; conf/audit.yaml explains them"
    )
    output.add_argument("--print-config", action="store_true", help="show the settings and where they come from")


def _add_setting(command: str, target: argparse._ActionsContainer, name: str, setting: Setting, seen: bool) -> None:
    flag = flag_of(name)
    is_on = getattr(DEFAULTS, name) is True
    text = _help_of(command, name, setting) if seen else argparse.SUPPRESS
    unset = argparse.SUPPRESS
    if isinstance(setting, Flag):
        names = (flag,) if setting.letter is None else (setting.letter, flag)
        action = "store_false" if is_on else "store_true"
        target.add_argument(*names, dest=name, action=action, default=unset, help=text)
    elif isinstance(setting, Texts):
        target.add_argument(flag, dest=name, action="append", metavar=setting.metavar, default=unset, help=text)
    elif isinstance(setting, Text) and setting.choices:
        choices = setting.choices_of(command)
        kind = one_of(choices)
        target.add_argument(flag, type=kind, choices=choices, metavar=setting.metavar, default=unset, help=text)
    else:
        target.add_argument(flag, metavar=setting.metavar, default=unset, help=text)


def _help_of(command: str, name: str, setting: Setting) -> str:
    """Help of a setting, with its choices and default."""
    text = setting.help
    value = getattr(DEFAULTS, name)
    if isinstance(setting, Flag):
        return text if setting.help_off is None else setting.help_off
    if isinstance(setting, Texts):
        return f"{text}; repeatable"
    if isinstance(setting, Text) and setting.choices:
        text = f"{text}: {', '.join(setting.choices_of(command))}"
    default = value if setting.default is None else setting.default
    return text if default is None else f"{text} (default: {default})"
