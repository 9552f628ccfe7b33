"""The options that commands have in common: which group of a command's help each is in, and which commands it matters to."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from replica_audit.config import FAIL_LEVELS, FORMATS, SETTINGS, Settings
from replica_audit.literals import LEADERSHIP_SOURCES, PROTOCOLS

#: Commands with a warehouse.
_STAGES = ("run", "ingest", "audit", "quality", "report")
_AUDITING = ("run", "audit", "show", "elect", "verify", "salvage")
_ANSWERING = ("run", "audit", "quality", "report", "show")

#: Groups of a command's help, in their order.
GROUPS = ("input", "audit", "answer", "quality checks", "warehouse and report", "settings and output")

_HELP = {name: setting.help for name, setting in SETTINGS.items()}
_DEFAULT = Settings()


@dataclass(frozen=True, slots=True)
class Option:
    """One option; `commands` are those that it has an effect on, None for all. The others take it and do nothing."""

    flags: tuple[str, ...]
    group: str
    help: str
    commands: tuple[str, ...] | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    """Arguments of `add_argument`."""

    def add(self, target: Any, command: str) -> None:
        """Add the option to a group of the parser of `command`, unseen where it has no effect."""
        seen = self.commands is None or command in self.commands
        text = self.help if seen else argparse.SUPPRESS
        target.add_argument(*self.flags, help=text, **{"default": argparse.SUPPRESS, **self.settings})


def one_of(choices: Sequence[str]) -> Callable[[str], str]:
    """An argparse type: one of `choices`; anything else is answered with what it may have been meant for."""

    def check(text: str) -> str:
        if text not in choices:
            near = difflib.get_close_matches(text, choices, n=1, cutoff=0.5)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(choices)}{hint}")
        return text

    return check


def _chosen(choices: Sequence[str], **more: Any) -> dict[str, Any]:
    return {"type": one_of(choices), "choices": choices, **more}


#: These two name the same thing, so that only one of them can be given.
PLACES = (
    Option(
        ("--warehouse",),
        "warehouse and report",
        f"{_HELP['warehouse']} (default: {_DEFAULT.warehouse})",
        (*_STAGES, "history"),
        {"metavar": "DIR"},
    ),
    Option(
        ("--catalog",),
        "warehouse and report",
        _HELP["catalog"],
        (*_STAGES, "history"),
        {"metavar": "NAME.SCHEMA"},
    ),
)

OPTIONS = (
    Option(
        ("--topic",),
        "input",
        f"{_HELP['topics']}; repeatable",
        ("run", "ingest", "show", "elect", "verify", "salvage", "history"),
        {"dest": "topics", "metavar": "GLOB", "action": "append"},
    ),
    Option(("--full",), "input", _HELP["full"], ("run", "ingest"), {"action": "store_true"}),
    Option(
        ("--leadership",),
        "input",
        _HELP["leadership"],
        ("run", "ingest", "show", "elect", "verify", "salvage"),
        {"metavar": "FILE"},
    ),
    Option(
        ("--leadership-source",),
        "input",
        f"{_HELP['leadership_source']}: {', '.join(LEADERSHIP_SOURCES)}",
        ("run", "ingest", "show", "elect", "verify", "salvage"),
        _chosen(LEADERSHIP_SOURCES, metavar="NAME"),
    ),
    Option(("--kafka-version",), "audit", _HELP["kafka_version"], (*_AUDITING, "capture-plan"), {"metavar": "V"}),
    Option(
        ("--protocol",),
        "audit",
        f"{_HELP['protocol']}: {', '.join(PROTOCOLS)} (default: that of --kafka-version or the manifest, else fetch)",
        _AUDITING,
        _chosen(PROTOCOLS, metavar="NAME"),
    ),
    Option(("--since",), "audit", _HELP["since"], ("run", "audit"), {"metavar": "AUDIT"}),
    Option(
        ("--fail-on",),
        "answer",
        f"{_HELP['fail_on']}: {', '.join(FAIL_LEVELS)} (default: {_DEFAULT.fail_on})",
        _ANSWERING,
        _chosen(FAIL_LEVELS, metavar="LEVEL"),
    ),
    Option(("--baseline",), "answer", _HELP["baseline"], _ANSWERING, {"metavar": "FILE"}),
    Option(("--accept",), "answer", _HELP["accept"], _ANSWERING, {"metavar": "FILE"}),
    Option(
        ("--no-quality",),
        "quality checks",
        "leave the quality checks out",
        ("run",),
        {"dest": "quality", "action": "store_false"},
    ),
    Option(
        ("--suites",),
        "quality checks",
        f"{_HELP['suites']}; repeatable",
        ("run", "quality"),
        {"metavar": "FILE", "action": "append"},
    ),
    Option(
        ("--report",),
        "warehouse and report",
        f"{_HELP['report']} (default: {_DEFAULT.report})",
        ("run", "quality", "report", "explain"),
        {"metavar": "DIR"},
    ),
    Option(
        ("--keep-days",),
        "warehouse and report",
        f"{_HELP['keep_days']} (default: all are kept)",
        ("run", "history"),
        {"metavar": "N"},
    ),
    Option(
        ("--keep-audits",),
        "warehouse and report",
        f"{_HELP['keep_audits']} (default: all)",
        ("run", "history"),
        {"metavar": "N"},
    ),
    Option(
        ("--time-travel-days",),
        "warehouse and report",
        f"{_HELP['time_travel_days']} (default: {_DEFAULT.time_travel_days})",
        ("run", "ingest", "audit", "quality"),
        {"metavar": "N"},
    ),
    Option(
        ("--format",),
        "settings and output",
        f"{_HELP['format']}: {', '.join(FORMATS)} (default: {_DEFAULT.format})",
        None,
        _chosen(FORMATS, metavar="FORMAT"),
    ),
    Option(
        ("--quiet",),
        "settings and output",
        _HELP["quiet"],
        ("run", "ingest", "audit", "report", "history", "show", "verify", "salvage", "restore"),
        {"action": "store_true"},
    ),
    Option(
        ("--config",),
        "settings and output",
        "settings in YAML; conf/audit.yaml explains them",
        None,
        {"metavar": "FILE", "default": None},
    ),
    Option(
        ("--print-config",),
        "settings and output",
        "show the settings and where they come from",
        None,
        {"action": "store_true", "default": False},
    ),
)
