"""Words of closed sets: code compares a column with words that it can have, and answers have no others."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

import pytest
from tests.support.captures import CAPTURES, audit_capture
from tests.support.closed_sets import COLUMNS
from tests.support.source_trees import nodes_of

import replica_audit
from replica_audit.schema import REPORT_TABLES

LIBRARY = Path(replica_audit.__file__).parent


#: What a column of this name may hold, in whatever table.
WORDS = {
    name: {word for (_, column), words in COLUMNS.items() for word in words if column == name} for _, name in COLUMNS
}
#: verdict.json has a status, too, of a run.
WORDS["status"].add("UNKNOWN")
#: Columns whose name other things have, too, with words of their own.
MANIFOLD = ("source", "role", "choice", "state")


def _text(node: ast.AST) -> set[str]:
    """The texts that something is compared with."""
    parts = node.elts if isinstance(node, (ast.Tuple, ast.Set, ast.List)) else [node]
    return {part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)}


def _column(node: ast.AST) -> str | None:
    """The name in `row["name"]` or `row.get("name")`."""
    key = node.slice if isinstance(node, ast.Subscript) else None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get" and node.args:
        key = node.args[0]
    return key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else None


def _compared(nodes: Iterable[ast.AST]) -> list[tuple[int, str, str]]:
    """Line, column and word of each comparison of a column of a closed set."""
    found = []
    for node in nodes:
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            names = {name for side in sides if (name := _column(side)) in WORDS and name not in MANIFOLD}
            words = {word for side in sides for word in _text(side)}
            found += [(node.lineno, name, word) for name in names for word in words]
    return found


def test_code_compares_columns_with_words_that_they_can_have():
    compared = [
        (f"{path.relative_to(LIBRARY)}:{line}", name, word)
        for path in LIBRARY.rglob("*.py")
        for line, name, word in _compared(nodes_of(path))
    ]
    # Comparisons of typed rows are the type checker's.
    assert compared
    assert not [item for item in compared if item[2] not in WORDS[item[1]]]


@pytest.mark.parametrize(
    "source", ['row["severity"] == "hihg"', 'row["status"] in ("new", "konwn")', '"LOST" == row.get("verdict")']
)
def test_a_word_that_a_column_cannot_have_is_seen(source):
    assert any(word not in WORDS[name] for _, name, word in _compared(ast.walk(ast.parse(source))))


def test_answers_have_words_of_the_sets_only():
    seen: dict[tuple[str, str], set[str]] = {key: set() for key in COLUMNS}
    for capture in CAPTURES[::6]:
        for results in audit_capture(capture).values():
            for (table, column), values in seen.items():
                held = [row[column] for row in results.rows(table)] if table in REPORT_TABLES else []
                values |= {word for one in held for word in (one if isinstance(one, list) else [one])} - {None}
    for key, values in seen.items():
        assert values <= COLUMNS[key], key
    assert len(seen["partitions", "verdict"]) > 3
    assert len(seen["findings", "severity"]) == 5
