"""Words conclude nothing: outside `report/facts` no code, severity, verdict or role is compared, and in the story of a partition,
which finds and tells, not in a function that tells.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from replica_audit import report
from replica_audit.auditing.catalogue import CATALOGUE
from replica_audit.literals import NOT_COMPARED, SEVERITIES, VERDICTS

ROOM = Path(report.__file__).parent
JUDGED = {*CATALOGUE, *SEVERITIES, *VERDICTS, *NOT_COMPARED, "compared", "reference", "resolved"}
#: Modules that find and tell.
FIND_AND_TELL = (ROOM / "partition_story.py",)
#: What tells codes and severities apart.
JUDGING = {"at_or_above", "codes_with", "audit_verdict", "worst_verdict"}


def judgements(text: str) -> Iterator[str]:
    """Each comparison with a word that a finding or a partition is judged by, and each import of a function that judges."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Compare):
            words = {
                one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str)
            }
            if words & JUDGED:
                yield f"{node.lineno}: {ast.unparse(node)}"
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.lineno}: {one.name}" for one in node.names if one.name in JUDGING)


def telling(text: str) -> str:
    """The functions of a module whose result is sentences, as a text of their own."""
    functions = [
        one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.FunctionDef) and one.returns is not None
    ]
    return "\n".join(ast.unparse(one) for one in functions if "Sentence" in ast.unparse(one.returns))


def test_no_report_judges() -> None:
    paths = [path for path in sorted(ROOM.rglob("*.py")) if path.parent.name != "facts" and path not in FIND_AND_TELL]
    found = [f"{path.name}:{one}" for path in paths for one in judgements(path.read_text())]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("path", FIND_AND_TELL, ids=lambda path: path.stem)
def test_what_tells_does_not_judge(path: Path) -> None:
    told = telling(path.read_text())
    assert told
    assert not list(judgements(told))


def test_only_functions_that_tell_are_asked_for_judgements() -> None:
    finds = "def find(row: Row) -> bool:\n    return row.status != 'resolved'\n"
    assert not list(judgements(telling(finds)))
    assert list(judgements(telling(finds.replace("bool", "Iterator[Sentence]"))))


@pytest.mark.parametrize(
    "line",
    [
        "told = [row for row in rows if row['status'] != 'resolved']",
        "if row['code'] in ('HWM-LOSS', other): pass",
        "from replica_audit.auditing.catalogue import at_or_above",
    ],
)
def test_a_judgement_is_seen(line: str) -> None:
    assert list(judgements(line))
