"""Turns of phrase that a native technical writer would not use, in strings, docstrings, comments and pages."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.source_trees import nodes_of

ROOT = Path(__file__).parents[2]

#: Each with what to write instead.
PATTERNS = {
    r"(?<!there )(?<!There )\b(?:is|are|was|were) no "
    r"(?!longer|more|fewer|less|greater|later|earlier|further|older|newer|larger|worse|better)(?=\w)": "is not a",
    r"(?<!there )(?<!There )\b(?:is|are) none\b(?! of)": "say what it is instead",
    r"\b(?:is|are|was|were|be|been) told\b(?! apart| to )": "is reported, is shown, says",
    r"\bdecides? nothing\b|\bsays? nothing\b(?! else| more| of)": "has no weight, is ignored",
    r"\bat hand\b": "captured, in memory, given",
    r"\bbut for\b": "except",
    r"\bwhat is none\b": "anything else",
    r"\b(?:is|are|was|were) not whole\b": "is incomplete",
    r"\b(?:has|have|had) not (?:the|a|an|any)\b": "does not have",
    r"\bbeside (?:each other|one another)\b": "side by side, compared",
    r"\bone and the same\b": "the same",
}
ANY = re.compile("|".join(PATTERNS))


def _texts(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of every string, docstring and comment of a module, and every line of a page outside code blocks, with
    the one after it where a sentence may go on there."""
    source = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        in_code = False
        lines = source.splitlines()
        for number, (line, after) in enumerate(zip(lines, [*lines[1:], ""]), 1):
            in_code ^= line.startswith("```")
            if not in_code:
                yield number, f"{line} {after.strip()}" if after[:1].isalpha() or after.startswith("  ") else line
        return
    for node in nodes_of(path):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, " ".join(node.value.split())
    # Few files have a line to look at, and tokens take long.
    if not any("#" in line and ANY.search(line) for line in source.splitlines()):
        return
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def _found(path: Path) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{number}: “{match[0]}” → {instead}"
        for number, text in _texts(path)
        if ANY.search(text)
        for pattern, instead in PATTERNS.items()
        for match in re.finditer(pattern, text)
    ]


def test_phrases_that_nobody_would_write_are_not_there():
    modules = [*(ROOT / "lib").rglob("*.py"), *(ROOT / "jobs").rglob("*.py")]
    pages = [
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "lib").rglob("*.md"),
        *ROOT.glob("*.md"),
        *(ROOT / "conf").glob("*.yaml"),
    ]
    found = [line for path in sorted([*modules, *pages]) if path.name != "CHANGELOG.md" for line in _found(path)]
    assert not found, "\n".join(found)


#: Docstrings, of fields too, are definitions: they name the thing, and begin with none of these words.
OPENINGS = re.compile(r"(?:What|Whether|Of|Where|Which|The same|Those|How|Up to where|Why|Who)\b")


def test_a_docstring_defines_and_does_not_ask():
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {text.splitlines()[0]}"
        for path in sorted((ROOT / "lib").rglob("*.py"))
        for node in nodes_of(path)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(text := node.value.value, str)
        and OPENINGS.match(text)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text", ["this is no plan", "the case is told", "the replicas at hand", "the same but for the id"]
)
def test_the_list_sees_them(text):
    assert len([line for pattern in PATTERNS for line in re.findall(pattern, f"It says that {text}.")]) == 1
