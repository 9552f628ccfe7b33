"""Sources as trees, each parsed once for all tests of a run that look at it; nobody may change one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of the tree."""
    return tuple(ast.walk(tree_of(path)))


def statements_of(path: Path) -> Iterator[ast.stmt]:
    """All statements of the tree, the outer ones first: a small part of its nodes."""
    found: list[ast.AST] = [tree_of(path)]
    for node in found:
        for name in ("body", "orelse", "handlers", "finalbody", "cases"):
            found += getattr(node, name, ())
        if isinstance(node, ast.stmt):
            yield node
