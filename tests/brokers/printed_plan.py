"""The text that `replica-audit elect` prints, read as an operator reads it: steps, and in them lines for a shell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_STEP = re.compile(r"(\d+)\. ")
_INDENT = "   "
_COMMAND = re.compile(
    r"(tar|printf|kill|tail|mkdir|mv|sed|cp|bash|kafka-[a-z-]+\.sh|"
    r"replica-audit (capture-plan|elect|quorum|salvage|show|restore|verify)) |# "
)
_LABEL = re.compile(r"# (?:before Kafka (?P<before>[\d.]+)|Kafka (?P<since>[\d.]+) and later|every version):")


@dataclass(frozen=True)
class PrintedStep:
    """One step: all of its text, and its commands, each with the lines that it was printed in."""

    number: int
    text: str
    commands: tuple[str, ...]

    def of_version(self, version: str) -> Iterator[str]:
        """The commands that are for a version of Kafka; a label holds until the next one."""
        is_ours = True
        for command in self.commands:
            label = _LABEL.fullmatch(command)
            if label is None:
                if is_ours:
                    yield command
            elif label["since"]:
                is_ours = _numbers(version) >= _numbers(label["since"])
            else:
                is_ours = not label["before"] or _numbers(version) < _numbers(label["before"])


def printed_steps(text: str, heading: str = "The plan") -> list[PrintedStep]:
    """The steps that are printed below a heading."""
    lines = text.splitlines()
    if heading not in lines:
        return []
    found: list[list[str]] = []
    for line in lines[lines.index(heading) + 1 :]:
        if not line:
            break
        if _STEP.match(line):
            found.append([])
        found[-1].append(line)
    return [_read_step(one) for one in found]


def as_words(step: PrintedStep) -> list[list[str]]:
    """Its commands as a shell splits them."""
    return [shlex.split(one.replace("\\\n", "")) for one in step.commands]


def planned_words(step: Mapping[str, Any]) -> list[list[str]]:
    """The commands of a step of plan.json as it has to be printed: first those that write its files."""
    files = [["printf", "%s\\n", content.rstrip("\n"), ">", name] for name, content in step["files"].items()]
    return [*files, *(shlex.split(one) for one in step["commands"])]


def _read_step(lines: Iterable[str]) -> PrintedStep:
    first, *rest = lines
    commands: list[str] = []
    is_open = False
    for line in (one.removeprefix(_INDENT) for one in rest):
        if is_open:
            commands[-1] += f"\n{line}"
        elif _COMMAND.match(line):
            commands.append(line)
        else:
            continue
        is_open = line.endswith("\\") or (commands[-1].startswith("printf ") and commands[-1].count("'") % 2 == 1)
    return PrintedStep(int(_STEP.match(first)[1]), "\n".join([first, *rest]), tuple(commands))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
