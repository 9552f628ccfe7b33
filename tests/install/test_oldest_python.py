"""Features that every Python from 3.10 on has: CI runs most tests with a newer one."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.support.imports import LIBRARY
from tests.support.some import some

#: Names that Python 3.10 does not have where they are imported from.
LATER = {
    "typing": "NotRequired Required Self Never Unpack LiteralString TypeVarTuple assert_never assert_type reveal_type override",
    "datetime": "UTC",
    "enum": "StrEnum",
    "itertools": "batched",
    "tomllib": "load loads",
}


def _later(path: Path) -> list[str]:
    return [
        f"{path}:{node.lineno}: {node.module}.{alias.name}"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 10)))
        if isinstance(node, ast.ImportFrom) and node.module in LATER
        for alias in node.names
        if alias.name in LATER[node.module].split()
    ]


def test_nothing_is_imported_that_python_3_10_lacks(tmp_path: Path) -> None:
    found = [line for path in some(sorted(LIBRARY.rglob("*.py"))) for line in _later(path)]
    assert not found, "\n".join(found)
    wrong = tmp_path / "wrong.py"
    wrong.write_text("from typing import NamedTuple, NotRequired\n")
    assert len(_later(wrong)) == 1
