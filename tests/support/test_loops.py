"""A test whose every assertion stands in a loop proves nothing when the loop has no turn: such a loop goes over `some(…)`."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from tests.support.some import some
from tests.support.source_trees import nodes_of

TESTS = Path(__file__).parents[1]
#: What has as many things as its arguments.
_AS_MANY = {"enumerate", "sorted", "list", "tuple", "set", "reversed", "zip", "product", "items", "keys", "values"}


def _has_things(node: ast.expr, known: set[str]) -> bool:
    """True if an iterable certainly has items: written down here, a constant (checked where it is used), or `some`."""
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        return bool(node.elts)
    if isinstance(node, ast.Dict):
        return bool(node.keys)
    if isinstance(node, ast.Constant):
        return bool(node.value)
    if isinstance(node, ast.Name):
        return node.id in known or node.id.isupper()
    if isinstance(node, ast.BinOp):
        return _has_things(node.left, known) or _has_things(node.right, known)
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        of = node.args or ([node.func.value] if isinstance(node.func, ast.Attribute) else [])
        return name in ("some", "range") or name in _AS_MANY and all(_has_things(one, known) for one in of)
    return False


def _loops(test: ast.FunctionDef) -> Iterator[ast.expr | None]:
    """For each assertion what the outermost loop around it goes over that may have no turn; None where there is none."""
    known = set()
    for node in ast.walk(test):
        if isinstance(node, ast.Assign) and _has_things(node.value, known):
            known |= {target.id for target in node.targets if isinstance(target, ast.Name)}

    def look(node: ast.AST, around: ast.expr | None) -> Iterator[ast.expr | None]:
        if isinstance(node, ast.For) and around is None and not _has_things(node.iter, known):
            around = node.iter
        if isinstance(node, ast.For) and _is_some(node.iter):
            yield None
            return
        if isinstance(node, ast.Assert):
            yield around or _of_all(node.test, known)
        if isinstance(node, ast.With) and "raises" in ast.unparse(node.items[0]):
            yield around
        for child in ast.iter_child_nodes(node):
            yield from look(child, around)

    return look(test, None)


def _is_some(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "some"


def _of_all(test: ast.expr, known: set[str]) -> ast.expr | None:
    """Iterable of `all(… for … in …)`, which may be empty."""
    if isinstance(test, ast.Call) and getattr(test.func, "id", "") == builtins.all.__name__:
        over = test.args[0]
        if isinstance(over, (ast.GeneratorExp, ast.ListComp)) and not _has_things(over.generators[0].iter, known):
            return over.generators[0].iter
    return None


def passing_over_nothing(nodes: Iterable[ast.AST]) -> dict[str, list[ast.expr]]:
    """Tests of a module that may pass without one assertion, with what their loops go over."""
    found = {}
    for node in nodes:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            loops = list(_loops(node))
            if loops and None not in loops:
                found[node.name] = loops
    return found


@pytest.mark.parametrize(
    ("body", "may"),
    [
        ("for one in read(): assert one", True),
        ("assert all(one for one in read())", True),
        ("for name in ('a', 'b'):\n  for one in read(name): assert one", True),
        ("for one in some(read()): assert one", False),
        ("for one in NAMES: assert one", False),
        ("found = read()\n assert found\n for one in found: assert one", False),
    ],
)
def test_loops_without_a_turn_are_seen(body: str, may: bool) -> None:
    assert bool(passing_over_nothing(ast.walk(ast.parse(f"def test_it():\n {body}")))) == may


def test_no_test_passes_over_nothing() -> None:
    found = {
        f"{path.relative_to(TESTS)}: {name}": [ast.unparse(one) for one in loops]
        for path in some(TESTS.rglob("test_*.py"))
        for name, loops in passing_over_nothing(nodes_of(path)).items()
    }
    assert not found
