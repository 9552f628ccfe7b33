"""Imports of modules, and the step of each room."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from tests.support.source_trees import nodes_of, statements_of

import replica_audit

LIBRARY = Path(replica_audit.__file__).parent
#: Rooms from the bottom up; a room imports itself and what is on a lower step, never the same step or above.
STEPS = {
    "": 0,  # the modules beside the rooms: model, schema, errors, config, results, text
    "collect": 1,
    "protocol": 1,
    "segments": 1,
    "snapshot": 2,
    "auditing": 3,
    "elect": 4,
    "quorum": 5,
    "verify": 5,
    "warehouse": 4,
    "quality": 4,
    "salvage": 5,
    "runner": 5,
    "install": 5,
    "restore": 6,
    "observe": 6,
    "spark": 7,
    "report": 7,
    "api": 8,
    "cli": 9,
    "jobs": 10,
}
#: Who may import what is not for everybody.
ONLY_IN = {
    "pyspark": ("install", "spark", "api"),
    "delta": ("spark",),
    "py4j": ("spark",),
    "deltalake": ("warehouse",),
    "great_expectations": ("quality",),
    "pandas": ("quality", "api"),
    "confluent_kafka": ("restore",),
    "kafka": ("observe",),
    "airflow": (),
}


@cache
def imports(path: Path) -> list[tuple[int, str]]:
    """Line and full name of everything that a module imports, relative imports resolved; nobody may change the list."""
    found: list[tuple[int, str]] = []
    for node in statements_of(path):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = path.relative_to(LIBRARY.parent).parts[: -node.level]
                base = ".".join([*package, *filter(None, [base])])
            # `from replica_audit import spark` names a room too.
            found += [(node.lineno, f"{base}.{alias.name}") for alias in node.names]
    return found


def is_there(parts: list[str]) -> bool:
    """True if the parts name a package, a module, or something that a module binds at its top."""
    place = LIBRARY.joinpath(*parts)
    if place.is_dir() or place.with_suffix(".py").is_file():
        return True
    module = place.parent / "__init__.py" if place.parent.is_dir() else place.parent.with_suffix(".py")
    return module.is_file() and parts[-1] in _bound(module)


@cache
def _bound(module: Path) -> frozenset[str]:
    nodes = nodes_of(module)
    names = {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    names |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    for node in nodes:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {alias.asname or alias.name for alias in node.names}
    return frozenset(names)
