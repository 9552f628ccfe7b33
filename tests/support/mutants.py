"""The mutants of a module: single changes that cosmic-ray makes, but for those that nothing can notice.

Left out, because they are certain to change no behaviour: types in annotations and what is imported for them only, how a
dataclass stores its fields (`slots`, `frozen`), caches taken away, the markers `*` and `/` of a signature (no valid
syntax without them), changes that compile to the same code; and `is` in place of another comparison, which depends
on what the interpreter caches. An arithmetic operator is replaced by its opposite only.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
#: Keywords of `dataclass` without a say in what is computed.
_STORAGE = {"slots", "frozen"}
_CACHES = {"cache", "lru_cache", "functools.cache", "functools.lru_cache", "cached_property"}

#: Operators that compare what is equal by where it lies, and all arithmetic ones but the opposite.
_LEFT_OUT = re.compile(
    r"Comparison\w*_(Eq|NotEq|Lt|LtE|Gt|GtE)_Is(Not)?$"
    r"|Binary\w*_(?!Add_Sub|Sub_Add|Mul_FloorDiv|FloorDiv_Mul|Div_Mul|Mod_Mul|Pow_Mul|BitOr_BitAnd|BitAnd_BitOr)\w+_\w+$"
)


class Mutant(NamedTuple):
    """One change of one module."""

    path: str
    function: str
    #: First line of the statement that is changed.
    statement: int
    #: The line, with what is changed as `{before -> after}`.
    change: str
    source: str

    @property
    def name(self) -> str:
        """How the list of survivors names it; line numbers move, so there are none."""
        return f"{self.path} {self.function}: {self.change}"


def mutants(path: Path) -> Iterator[Mutant]:
    """Every mutant of a module, in the order of its lines."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.plugins import get_operator, operator_names

    text, name = path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix()
    tree, original, parsed = ast.parse(text), compile(text, name, "exec"), get_ast(text)
    silent = [_span(node) for node in _unnoticed(tree)]
    kinds = [get_operator(kind) for kind in sorted(operator_names()) if not _LEFT_OUT.search(kind)]
    operators = [kind() for kind in kinds if not kind.arguments()]
    for node in list(ast_nodes(parsed)):
        for operator in operators:
            for number, (start, _) in enumerate(operator.mutation_positions(node)):
                if any(first <= start < end for first, end in silent):
                    continue
                source = _mutated(parsed, node, operator, number)
                if not same_code(source, original, name):
                    yield Mutant(name, *_place(tree, start[0]), _change(text, source), source)


def _mutated(parsed: Any, node: Any, operator: Any, number: int) -> str:
    """The source with one change; operators change a node, its children or what these are, so all is put back."""
    unchanged, children = parsed.get_code(), list(getattr(node, "children", ()))
    values = [(one, one.value) for one in (node, *children) if hasattr(one, "value")]
    siblings = node.parent.children if node.parent else [node]
    beside, at = list(siblings), next(index for index, one in enumerate(siblings) if one is node)
    changed = operator.mutate(node, number)
    siblings[at : at + 1] = [] if changed is None else [changed]
    source = parsed.get_code()
    siblings[:] = beside
    if children:
        node.children[:] = children
    for one, value in values:
        one.value = value
    if parsed.get_code() != unchanged:
        raise AssertionError(f"{type(operator).__name__} changed more of {node.get_code()!r} than itself")
    return source


def same_code(source: str, original: CodeType, name: str) -> bool:
    """True if the interpreter sees no difference, or no program at all."""
    try:
        return compile(source, name, "exec") == original
    except SyntaxError:
        return True


def statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """Every statement, the outer ones first."""
    return (node for node in ast.walk(tree) if isinstance(node, ast.stmt))


def _unnoticed(tree: ast.Module) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        for part in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            if part is not None:
                yield part
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield node
        if isinstance(node, ast.keyword) and node.arg in _STORAGE:
            yield node
        for decorator in getattr(node, "decorator_list", []):
            if ast.unparse(decorator).partition("(")[0] in _CACHES:
                yield ast.copy_location(_from_at(decorator), decorator)


def _from_at(decorator: ast.expr) -> ast.expr:
    """The decorator with its `@`."""
    return ast.Expr(
        decorator,
        lineno=decorator.lineno,
        col_offset=decorator.col_offset - 1,
        end_lineno=decorator.end_lineno,
        end_col_offset=decorator.end_col_offset,
    )


def _span(node: ast.AST) -> tuple[tuple[int, int], tuple[int, int]]:
    return (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)


def _place(tree: ast.Module, line: int) -> tuple[str, int]:
    """The names of the classes and functions around a line, and where its innermost statement begins."""
    around = [node for node in statements(tree) if _first_line(node) <= line <= node.end_lineno]
    around.sort(key=lambda node: (_first_line(node), -node.end_lineno))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    names = [node.name for node in around if isinstance(node, kinds)]
    return ".".join(names) or "module", around[-1].lineno if around else line


def _first_line(node: ast.stmt) -> int:
    return min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])


def _change(text: str, source: str) -> str:
    """The lines that differ, with what differs in braces; as few words as say it."""
    lines, others = text.splitlines(), source.splitlines()
    same = len(os.path.commonprefix([lines, others]))
    tail = len(os.path.commonprefix([lines[same:][::-1], others[same:][::-1]]))
    before, after = (_words(one[same : len(one) - tail]) for one in (lines, others))
    same = len(os.path.commonprefix([before, after]))
    tail = len(os.path.commonprefix([before[same:][::-1], after[same:][::-1]]))
    old, new = before[same : len(before) - tail], after[same : len(after) - tail]
    end = before[len(before) - tail :]
    return " ".join(
        "".join([*before[:same], "{", "".join(old).strip(), " -> ", "".join(new).strip(), "}", *end]).split()
    )


def _words(lines: Iterable[str]) -> list[str]:
    return re.findall(r"\w+|\s+|[^\w\s]+", " ".join(" ".join(line.split()) for line in lines))
