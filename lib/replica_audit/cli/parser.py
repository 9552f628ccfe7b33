"""The argument parser: commands and options, each option only where it was given, so that sources can be told apart."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from replica_audit import __version__
from replica_audit.cli.capture_plan import add_capture_arguments
from replica_audit.config import FAIL_LEVELS, FORMATS, KEYS, Settings
from replica_audit.errors import UsageError
from replica_audit.model import PROTOCOLS

#: Commands of the public interface that this version does not have yet.
NOT_YET = ("verify", "elect", "salvage")

_COMMANDS = {
    "run": "ingest a snapshot, audit it, check the quality and report: the main job",
    "ingest": "read a snapshot into the warehouse",
    "audit": "audit an ingested snapshot",
    "quality": "check the quality of a finished audit with Great Expectations",
    "report": "write the report of a finished audit",
    "history": "show the audits of a warehouse: verdicts over time, when findings first appeared",
    "show": "audit in the terminal, without Spark: one partition, or the triage of all",
    "capture-plan": "print how to copy the log dirs of given brokers, as a shell script",
    "explain": "say what a finding means, how it is proven and what to do",
}

_EPILOG = """exit status:
  0  nothing at or above --fail-on
  1  findings at or above --fail-on
  2  usage or configuration
  3  the audit cannot be trusted whole
  4  engine or internal error
"""


class _Parser(argparse.ArgumentParser):
    """Raises UsageError instead of leaving the program."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}\n{self.format_usage().rstrip()}")


def build_parser() -> argparse.ArgumentParser:
    """The parser of `replica-audit`; `command` of its namespace is one of the command names."""
    parser = _Parser(
        prog="replica-audit",
        description="Audits Kafka replica logs offline: high watermark, divergence, what a truncation would drop.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"replica-audit {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    options = _common_options()
    for name, text in _COMMANDS.items():
        command = commands.add_parser(
            name,
            help=text,
            description=text[0].upper() + text[1:] + ".",
            epilog=_EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            parents=[options],
            allow_abbrev=False,
        )
        _add_arguments(name, command)
    return parser


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    """The parsed arguments; raises UsageError, and SystemExit(0) after --help and --version."""
    parser = build_parser()
    if argv and argv[0] in NOT_YET:
        raise UsageError(f"{argv[0]}: not part of version {__version__}; commands are {', '.join(_COMMANDS)}")
    arguments = parser.parse_args(argv)
    needed = [name for name in ("snapshot", "code") if getattr(arguments, name, "") is None]
    if needed and not arguments.print_config:
        names = ", ".join(name.upper().replace("_", "-") for name in needed)
        raise UsageError(f"the following arguments are required: {names}; see replica-audit {arguments.command} --help")
    return arguments


def given_flags(arguments: argparse.Namespace) -> dict[str, Any]:
    """Values of the settings that were given as flags, by field name."""
    given = vars(arguments)
    return {name: given[name] for name in KEYS.values() if name in given}


def _add_arguments(name: str, command: argparse.ArgumentParser) -> None:
    # Positional arguments may be left out together with --print-config; parse_arguments asks for them otherwise.
    if name in ("run", "ingest", "show"):
        command.add_argument("snapshot", metavar="SNAPSHOT", nargs="?", help="directory or URI of the copied log dirs")
    if name == "show":
        command.add_argument("topic_partition", metavar="TOPIC-PARTITION", nargs="?", help="for example orders-0")
    if name == "capture-plan":
        add_capture_arguments(command)
    if name == "explain":
        command.add_argument("code", metavar="CODE", nargs="?", help="for example HWM-LOSS")
    if name == "audit":
        command.add_argument("--snapshot-id", metavar="ID", help="which ingested snapshot (default: the latest)")
    if name == "history":
        command.add_argument("--limit", metavar="N", type=_count, help="only the latest N audits (default: all)")
        command.add_argument(
            "--prune", action="store_true", help="first remove audits that keep_days and keep_audits do not keep"
        )
    if name in ("report", "quality"):
        command.add_argument("--audit-id", metavar="ID", help="which finished audit (default: the latest)")


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of 1 or more")
    return int(text)


def _common_options() -> argparse.ArgumentParser:
    help_of = {item.name: item.metadata["help"] for item in Settings.__dataclass_fields__.values()}
    default = Settings()
    parser = _Parser(add_help=False, argument_default=argparse.SUPPRESS, allow_abbrev=False)
    group = parser.add_argument_group("options of every command")
    place = group.add_mutually_exclusive_group()
    place.add_argument("--warehouse", metavar="DIR", help=f"{help_of['warehouse']} (default: {default.warehouse})")
    place.add_argument("--catalog", metavar="NAME.SCHEMA", help=help_of["catalog"])
    group.add_argument("--report", metavar="DIR", help=f"{help_of['report']} (default: {default.report})")
    group.add_argument("--config", metavar="FILE", default=None, help="settings in YAML; conf/audit.yaml explains them")
    topic_help = f"{help_of['topics']}; repeatable"
    group.add_argument("--topic", dest="topics", metavar="GLOB", action="append", help=topic_help)
    group.add_argument("--leadership", metavar="FILE", help=help_of["leadership"])
    group.add_argument(
        "--protocol", choices=PROTOCOLS, metavar="NAME",
        help=f"{help_of['protocol']}: {', '.join(PROTOCOLS)} (default: that of --kafka-version or the manifest, else fetch)",
    )  # fmt: skip
    group.add_argument("--kafka-version", metavar="V", help=help_of["kafka_version"])
    group.add_argument(
        "--fail-on", choices=FAIL_LEVELS, metavar="LEVEL",
        help=f"{help_of['fail_on']}: {', '.join(FAIL_LEVELS)} (default: {default.fail_on})",
    )  # fmt: skip
    group.add_argument("--baseline", metavar="FILE", help=help_of["baseline"])
    group.add_argument("--format", choices=FORMATS, help=f"{help_of['format']} (default: {default.format})")
    group.add_argument("--no-quality", dest="quality", action="store_false", help="leave the quality checks out")
    group.add_argument("--suites", metavar="FILE", action="append", help=f"{help_of['suites']}; repeatable")
    group.add_argument("--keep-days", metavar="N", help=f"{help_of['keep_days']} (default: all are kept)")
    group.add_argument("--keep-audits", metavar="N", help=f"{help_of['keep_audits']} (default: all)")
    group.add_argument(
        "--time-travel-days", metavar="N", help=f"{help_of['time_travel_days']} (default: {default.time_travel_days})"
    )
    group.add_argument("--quiet", action="store_true", help=help_of["quiet"])
    shown = "show the settings and where they come from"
    group.add_argument("--print-config", action="store_true", default=False, help=shown)
    group.add_argument("--version", action="version", version=f"replica-audit {__version__}", help="show the version")
    return parser
