"""Commands of the documentation that no test runs: the program takes them, files that they name are there, and targets of make too."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from replica_audit.cli.commands import COMMANDS
from replica_audit.cli.parser import parse_arguments

ROOT = Path(__file__).parents[2]
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))
}
_NOT_RUN = re.compile(r"^<!-- not run: [^\n]* -->\n```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: Arguments up to where a shell does something else with the output.
_CALL = re.compile(r"(?:^|[ /(])replica-audit ((?:[^\n|>&;`\\]|\\\n)+)")


def _calls() -> list[tuple[str, str]]:
    return [
        (name, found[1].replace("\\\n", " ").strip())
        for name, text in PAGES.items()
        for block in _NOT_RUN.findall(text)
        for found in _CALL.finditer(block)
    ]


CALLS = _calls()


@pytest.mark.parametrize(("page", "call"), CALLS, ids=[f"{page}: {call[:40]}" for page, call in CALLS])
def test_the_program_takes_what_is_told(page: str, call: str) -> None:
    parsed = parse_arguments(shlex.split(call))
    assert parsed.command in COMMANDS, page


def test_such_commands_are_found() -> None:
    assert len(CALLS) > 10 and {"docs/evidence.md", "docs/capture.md"} <= {page for page, _ in CALLS}


@pytest.mark.parametrize("page", PAGES)
def test_targets_of_make_and_files_of_the_clone_are_there(page: str) -> None:
    targets = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    code = "\n".join(re.findall(r"`[^`\n]+`|^\$ .*", PAGES[page], re.M))
    told = {name for words in re.findall(r"\bmake((?: [a-z][a-z0-9-]+)+)", code) for name in words.split()}
    assert told <= targets, page
    named = re.findall(r"\b((?:tests|benchmarks|jobs|conf|\.ci)/[\w./-]+\.\w+)", PAGES[page])
    assert [one for one in named if not (ROOT / one).exists()] == []
