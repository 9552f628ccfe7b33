"""The rooms of docs/architecture.md: which may import which, and which stay free of the engine."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.imports import LIBRARY, ONLY_IN, STEPS, imports, is_there
from tests.support.some import some
from tests.support.source_trees import nodes_of, tree_of

ROOT = LIBRARY.parent.parent
JOBS = ROOT / "jobs"
SAMPLE = ROOT / "data" / "samples" / "last-replica-standing"


#: Packages inside a room, from the bottom up: one imports what stands before it, and itself.
INSIDE = {
    "auditing": ("replicas", "compare", "leadership", "findings"),
    "report": ("facts", "page"),
}

PURE_ROOMS = (
    "",
    "collect",
    "protocol",
    "segments",
    "snapshot",
    "auditing",
    "elect",
    "quorum",
    "verify",
    "warehouse",
    "salvage",
    "report",
    "runner",
)


def _room(path: Path) -> str:
    if path.is_relative_to(JOBS):
        return "jobs"
    parts = path.relative_to(LIBRARY).parts
    # A room may be one module.
    name = path.relative_to(LIBRARY).with_suffix("").parts[0]
    return name if len(parts) > 1 or name in STEPS else ""


def _violations(path: Path) -> list[str]:
    room = _room(path)
    wrong = []
    for line, name in imports(path):
        parts = name.split(".")
        if parts[0] in ONLY_IN and room not in ONLY_IN[parts[0]]:
            wrong.append(f"{path}:{line}: {room or 'top'} imports {name}")
        if parts[0] == "replica_audit":
            other = parts[1] if len(parts) > 1 and parts[1] in STEPS else ""
            if other != room and STEPS[other] >= STEPS[room]:
                wrong.append(f"{path}:{line}: {room or 'top'} imports {name}, which is not below it")
    return wrong


def _modules() -> list[Path]:
    return [*sorted(LIBRARY.rglob("*.py")), *sorted(JOBS.glob("*.py"))]


def test_imports_go_one_way() -> None:
    wrong = [line for path in _modules() for line in _violations(path)]
    assert not wrong, "\n".join(wrong)


def _arrows(room: str) -> dict[tuple[str, str], str]:
    """Which packages or modules of a room import which others of it, each with one place where they do."""
    arrows = {}
    for path in sorted((LIBRARY / room).rglob("*.py")):
        own = path.relative_to(LIBRARY / room).with_suffix("").parts[0]
        for line, name in imports(path):
            parts = name.split(".")
            if parts[:2] == ["replica_audit", room] and len(parts) > 2 and parts[2] != own:
                arrows[own, parts[2]] = f"{path}:{line}: {own} imports {name}"
    return arrows


@pytest.mark.parametrize("room", INSIDE)
def test_the_packages_of_a_room_go_one_way(room: str) -> None:
    held = {path.stem for path in (LIBRARY / room).iterdir() if any(path.glob("*.py"))}
    assert held == set(INSIDE[room])
    arrows, place = {pair: where for pair, where in _arrows(room).items() if held.issuperset(pair)}, INSIDE[room].index
    wrong = [where for (own, other), where in arrows.items() if place(own) < place(other)]
    assert arrows and not wrong, "\n".join(wrong)


@pytest.mark.parametrize("room", sorted(set(STEPS) - {"", "jobs"}))
def test_nothing_inside_a_room_imports_itself_on_a_detour(room: str) -> None:
    arrows = _arrows(room)
    above: dict[str, set[str]] = {own: set() for own, _ in arrows}
    for own, other in arrows:
        above[own].add(other)
    while free := [own for own, others in above.items() if not others & above.keys()]:
        for own in free:
            del above[own]
    circle = {own: sorted(others & above.keys()) for own, others in above.items()}
    assert not circle, "\n".join(arrows[own, other] for own, others in circle.items() for other in others)


def test_every_room_is_on_a_step() -> None:
    rooms = {path.name for path in LIBRARY.iterdir() if path.is_dir() and any(path.glob("*.py"))}
    assert rooms <= set(STEPS), rooms - set(STEPS)


def test_what_is_imported_from_the_library_is_there() -> None:
    """Also of rooms that need an engine, and of names that are imported within a function."""
    missing = []
    for path in _modules():
        for line, name in imports(path):
            parts = name.split(".")
            if parts[0] == "replica_audit" and not is_there(parts[1:]):
                missing.append(f"{path}:{line}: {name}")
    assert not missing, "\n".join(missing)


@pytest.mark.parametrize("tree", [LIBRARY, LIBRARY.parent.parent / "tests"], ids=["library", "tests"])
def test_no_file_name_occurs_twice(tree: Path) -> None:
    special = ("__init__.py", "__main__.py", "conftest.py")
    paths = [path.relative_to(tree) for path in tree.rglob("*.py") if path.name not in special]
    by_name: dict[str, list[str]] = {}
    for path in paths:
        by_name.setdefault(path.name, []).append(str(path))
    assert not {name: found for name, found in by_name.items() if len(found) > 1}


@pytest.mark.parametrize(
    ("line", "room"),
    [
        ("from replica_audit.auditing import findings", "snapshot"),
        ("import replica_audit.spark.session", "report"),
        ("from replica_audit import cli", "spark"),
        ("from ..spark import session", "auditing"),
        ("def later():\n    import pyspark.sql", "auditing"),
        ("import pandas as pd", "spark"),
        ("from great_expectations import x", "spark"),
        ("from replica_audit.snapshot import batches", ""),
    ],
)
def test_the_walk_sees_a_wrong_import(line: str, room: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for module in (__name__, "tests.support.imports"):
        monkeypatch.setattr(sys.modules[module], "LIBRARY", tmp_path / "replica_audit")
    path = tmp_path / "replica_audit" / room / "wrong.py"
    path.parent.mkdir(parents=True)
    path.write_text(line + "\n")
    assert len(_violations(path)) == 1


def test_pure_rooms_import_without_the_engine() -> None:
    names = []
    for room in PURE_ROOMS:
        paths = [path for path in sorted(LIBRARY.rglob("*.py")) if _room(path) == room]
        assert paths, room
        for path in paths:
            parts = path.relative_to(LIBRARY.parent).with_suffix("").parts
            names.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    blocked = ("pyspark", "delta", "py4j", "pandas", "great_expectations", "confluent_kafka", "kafka")
    program = (
        "import importlib, sys\n"
        f"sys.modules.update(dict.fromkeys({blocked!r}))\n"
        f"for name in {names!r}: importlib.import_module(name)\n"
        f"assert not [name for name in {blocked!r} if sys.modules[name] is not None]\n"
    )
    _run(program)


_ENGINE = ("pyspark", "delta", "deltalake", "py4j", "pandas", "great_expectations")


@pytest.mark.parametrize(
    ("argv", "not_loaded"),
    [
        (argv, (*_ENGINE, "pyarrow", "numpy", *more))
        for argv, more in {
            "--help": ("replica_audit.schema", "replica_audit.model", "replica_audit.auditing", "replica_audit.elect"),
            "run --help": ("replica_audit.schema", "replica_audit.model", "replica_audit.auditing"),
            "help show": ("replica_audit.schema", "replica_audit.model", "replica_audit.auditing"),
            "--version": ("replica_audit.schema", "replica_audit.model", "replica_audit.auditing"),
            "run --print-config": (
                "replica_audit.schema",
                "replica_audit.auditing",
                "replica_audit.cli.warehouse_commands",
            ),
            "completion bash": ("replica_audit.elect", "replica_audit.spark"),
            "explain HWM-LOSS": ("replica_audit.elect", "replica_audit.spark"),
            "capture-plan 1=/data": ("replica_audit.auditing", "replica_audit.elect"),
        }.items()
    ]
    + [
        (
            f"show {SAMPLE}",
            (
                *_ENGINE,
                "pyarrow",
                "http",
                "replica_audit.spark",
                "replica_audit.warehouse",
                "replica_audit.api",
                "replica_audit.collect",
            ),
        )
    ],
)
def test_a_command_loads_only_what_it_needs(argv: str, not_loaded: tuple[str, ...]) -> None:
    program = (
        "import sys\n"
        "from replica_audit.cli.main import main\n"
        f"assert main({argv.split()!r}) in (0, 1)\n"
        f"found = [name for name in {not_loaded!r} for one in sys.modules if f'{{one}}.'.startswith(f'{{name}}.')]\n"
        "assert not found, sorted(set(found))\n"
    )
    _run(program)


def test_what_a_run_needs_after_java_starts_is_not_loaded_before(tmp_path: Path) -> None:
    """Java takes a second to start, in which the rest is loaded."""
    _run(
        "import os, sys\n"
        "os.environ['JAVA_HOME'] = '/none'\n"
        "from replica_audit.cli.main import main\n"
        f"places = ['--warehouse', {str(tmp_path / 'w')!r}, '--report', {str(tmp_path / 'r')!r}]\n"
        f"assert main(['run', {str(SAMPLE)!r}, '--no-quality', *places]) == 4\n"
        "found = {'pyspark', 'pyarrow', 'jinja2', 'deltalake', 'replica_audit.api', 'replica_audit.snapshot.discovery'} & set(sys.modules)\n"
        "assert found == {'pyspark'}, found\n"
    )


def test_show_makes_few_dataclasses() -> None:
    """Python makes a dataclass in half a millisecond at every start, and a named tuple in a tenth of that: of 231 are left those
    with cached properties, with defaults that are made, with fields that change, and of published JSON."""
    _run(
        "import sys\n"
        "from replica_audit.cli.main import main\n"
        f"assert main(['show', {str(SAMPLE)!r}]) == 1\n"
        "modules = {name: vars(one) for name, one in sys.modules.items() if name.startswith('replica_audit.')}\n"
        "kinds = {(name, kind) for name, names in modules.items() for kind, one in names.items()\n"
        "         if '__dataclass_fields__' in getattr(one, '__dict__', ()) and getattr(one, '__module__', None) == name}\n"
        "assert 60 < len(kinds) < 80, (len(kinds), sorted(kinds))\n"
    )


def _run(program: str) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("REPLICA_AUDIT_")}
    environment["PYTHONPATH"] = str(LIBRARY.parent)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr


#: Public, in spite of their names.
_OF_NAMED_TUPLES = ("_asdict", "_fields", "_make", "_replace")


def _private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("_") and name not in _OF_NAMED_TUPLES


def _private_uses(path: Path) -> list[str]:
    """Places where a test or a benchmark imports, patches or reads a private name of the library, also in a program in a text."""
    of_library = {
        (alias.asname or alias.name).partition(".")[0]
        for node in nodes_of(path)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
        if (node.module or "" if isinstance(node, ast.ImportFrom) else alias.name).startswith("replica_audit")
    }
    found = []
    for node in nodes_of(path):
        used: list[str] = []
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("replica_audit"):
            used = [alias.name for alias in node.names]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in of_library:
            used = [node.attr]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "setattr":
            texts = [part.value for part in node.args[:2] if isinstance(part, ast.Constant)]
            used = [str(text).rpartition(".")[2] for text in texts]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "import replica_audit" in node.value:
            used = re.findall(r"\.(_\w+)", node.value)
        found += [f"{path}:{node.lineno}: {name}" for name in used if _private(name)]
    return found


def test_tests_use_no_private_name_of_the_library() -> None:
    """What a test needs to reach is public: else it holds how something is done, not what it does."""
    root = LIBRARY.parent.parent
    paths = [*(root / "tests").rglob("*.py"), *(root / "benchmarks").rglob("*.py")]
    found = [line for path in paths for line in _private_uses(path)]
    assert not found, "\n".join(found)


def test_no_class_name_occurs_twice() -> None:
    places: dict[str, list[str]] = {}
    for path in LIBRARY.rglob("*.py"):
        for node in tree_of(path).body:
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(str(path.relative_to(LIBRARY)))
    assert not {name: found for name, found in places.items() if len(found) > 1}


#: Tests of real brokers share an election among themselves.
BROKERS = ROOT / "tests" / "brokers"
#: Packages with models of replication, and with what was seen of real brokers, which tests of other rooms ask.
MODELS = ("property", "exhaustive", "fuzz", "brokers")


def test_what_tests_share_is_in_support():
    """No test module imports another one, nor what belongs to another room."""
    wrong = []
    for path in some(sorted((ROOT / "tests").rglob("*.py"))):
        room = path.relative_to(ROOT / "tests").parts[0]
        for line, name in imports(path):
            parts = name.split(".")
            if parts[0] != "tests" or BROKERS in path.parents:
                continue
            is_elsewhere = (ROOT / "tests" / parts[1]).is_dir() and parts[1] not in ("support", room, *MODELS)
            if any(part.startswith("test_") for part in parts) or is_elsewhere:
                wrong.append(f"{path.relative_to(ROOT)}:{line} {name}")
    assert not wrong, "\n".join(wrong)
