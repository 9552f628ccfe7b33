"""Rules that stand in one place: version gates, names of epochs, and what the rest of the library does not repeat."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from tests.support.source_trees import nodes_of

import replica_audit
from replica_audit.protocol import versions

LIBRARY = Path(replica_audit.__file__).parent
ROOMS = ("auditing", "protocol", "segments", "snapshot", "runner", "verify")


def _sources(rooms: tuple[str, ...]) -> list[Path]:
    return [path for room in rooms for path in sorted((LIBRARY / room).rglob("*.py"))]


def _gates(path: Path) -> list[str]:
    """Comparisons of something that is called a version with numbers."""
    found = []
    for node in nodes_of(path):
        if isinstance(node, ast.Compare):
            text = ast.unparse(node)
            if "version" in text and any(isinstance(part, ast.Tuple) for part in ast.walk(node)):
                found.append(f"{path}:{node.lineno}: {text}")
    return found


def test_version_gates_have_names_in_one_module() -> None:
    own = Path(versions.__file__)
    assert _gates(own)
    # Options of Kafka's tools differ by version in the module that writes its commands.
    elsewhere = {path for path in LIBRARY.rglob("*.py") if _gates(path)} - {own}
    assert elsewhere == {LIBRARY / "elect" / "kafka_commands.py"}


@pytest.mark.parametrize("name", ["led_epoch", "lineage_epoch", "current_epoch", "augmented_lineage"])
def test_an_epoch_has_no_other_name(name: str) -> None:
    """docs/semantics.md F.0 defines leader_epoch, last_leader_epoch and log_epoch."""
    assert not [path for path in LIBRARY.rglob("*.py") if re.search(rf"\b{name}\b", path.read_text(encoding="utf-8"))]


@pytest.mark.parametrize(
    ("pattern", "home"),
    [
        (r"max\(\w+(\.\w+)?\.local_start_offset, \w+(\.\w+)?\.local_start_offset\)", "offset_ranges.py"),
        (r"one\[0\] < two\[0\] and one\[1\] < two\[1\]", "lineage.py"),
        (r'\("epoch", "content"\)', "alignment.py"),
        (r"assign\(epoch, self\.facts\.log_end_offset\)", "reference.py"),
    ],
    ids=["first offset that two logs share", "entries increase", "kinds that conflict", "completed lineage"],
)
def test_a_rule_has_one_implementation(pattern: str, home: str) -> None:
    found = [path.name for path in _sources(ROOMS) for _ in re.finditer(pattern, path.read_text(encoding="utf-8"))]
    assert found == [home]
