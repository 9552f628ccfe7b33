"""Every name of a module or of something in it that stands in a text names what is there: in code, papers, settings and the Makefile."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.imports import LIBRARY, imports, is_there
from tests.support.some import some

import replica_audit

ROOT = Path(__file__).parents[2]
#: Directories and files that name modules of today; the change log and captures name those of their time.
PLACES = (
    "lib",
    "tests",
    "jobs",
    "benchmarks",
    "docs",
    "conf",
    ".ci",
    "Makefile",
    "pyproject.toml",
    "README.md",
    "CONTRIBUTING.md",
)
SUFFIXES = ("", ".py", ".pyi", ".md", ".ipynb", ".toml", ".txt", ".yaml", ".conf", ".lock", ".xml", ".properties")
LEFT_OUT = ("tests/fixtures", "tests/attacks")
DOTTED = re.compile(r"(?<![\w./-])replica_audit((?:\.[A-Za-z_]\w*)+)")
#: Assets of the DAG are named after tables.
ASSET = re.compile(r"""Asset\(f?["']$""")
#: The archive of the library, a table in a schema of that name, and a slip that a test makes on purpose.
NO_MODULES = ("zip", "partitions", "adit")


def _texts() -> Iterator[Path]:
    for place in PLACES:
        path = ROOT / place
        for file in [path] if path.is_file() else sorted(path.rglob("*")):
            name = file.relative_to(ROOT).as_posix()
            if file.is_file() and file.suffix in SUFFIXES and not name.startswith(LEFT_OUT) and file != Path(__file__):
                yield file


def is_named_rightly(parts: list[str]) -> bool:
    """Whether the parts lead to a module, or to what a module binds at its top; what comes after that is its own affair."""
    for count in range(len(parts), 0, -1):
        place = LIBRARY.joinpath(*parts[:count])
        if place.is_dir() or place.with_suffix(".py").is_file():
            return count == len(parts) or is_there(parts[: count + 1])
    return False


def unresolved(text: str) -> list[str]:
    """Dotted names below `replica_audit` that are neither a module, nor in one, nor public."""
    found = []
    for match in DOTTED.finditer(text):
        parts = match[1].split(".")[1:]
        public = parts[0] in replica_audit.__all__ or parts[0].startswith("__")
        if not public and parts[0] not in NO_MODULES and not ASSET.search(text[: match.start()]):
            found += [] if is_named_rightly(parts) else [match[0]]
    return found


def test_every_dotted_name_is_there() -> None:
    found = []
    for path in some(_texts()):
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [f"{path.relative_to(ROOT)}: {name}" for name in unresolved(text)]
    assert not found, "\n".join(found)


def test_every_path_of_a_module_is_there() -> None:
    pattern = re.compile(r"(?<![\w/])lib/replica_audit/[\w/]+\.py\b")
    for path in some(_texts()):
        if path.suffix != ".ipynb":
            for name in set(pattern.findall(path.read_text(encoding="utf-8", errors="replace"))):
                assert (ROOT / name).is_file(), f"{path.relative_to(ROOT)} names {name}"


def test_what_tests_and_benchmarks_import_is_there() -> None:
    missing = []
    for path in (file for place in ("tests", "benchmarks", ".ci") for file in sorted((ROOT / place).rglob("*.py"))):
        for line, name in imports(path):
            parts = name.split(".")
            if parts[0] == "replica_audit" and len(parts) > 1 and parts[1] not in replica_audit.__all__:
                missing += [] if is_there(parts[1:]) else [f"{path.relative_to(ROOT)}:{line}: {name}"]
    assert not missing, "\n".join(missing)


@pytest.mark.parametrize(
    "text", ["python -m replica_audit.no_such", "replica_audit.cli.main.no_such()", '"replica_audit.cli.nowhere:main"']
)
def test_a_name_of_nothing_is_seen(text: str) -> None:
    assert unresolved(text)


@pytest.mark.parametrize(
    "text",
    [
        "replica_audit.cli.start:entry_point",
        "replica_audit.show(path)",
        'Asset("replica_audit.findings")',
        "replica_audit.zip",
    ],
)
def test_what_is_there_is_not_held_against_it(text: str) -> None:
    assert not unresolved(text)
