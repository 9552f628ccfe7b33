"""Families of findings: the codes and their rules lie in the one file that is named after their family."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from tests.support.made_cases import LINEAGE, case, compared, log
from tests.support.some import some
from tests.support.source_trees import nodes_of, tree_of

import replica_audit
from replica_audit.auditing.catalogue import CATALOGUE, FAMILIES, codes_with
from replica_audit.auditing.finding import TRAITS, Code, finding
from replica_audit.auditing.findings import MODULES

LIBRARY = Path(replica_audit.__file__).parent
FAMILY_FILES = LIBRARY / "auditing" / "findings"

#: Rooms that name codes without making a finding: readers say what a file goes by in `quarantine`, answers look findings up.
NAMING = (
    "snapshot/",
    "segments/",
    "report/facts/",
    "report/partition_story",
    "auditing/bronze_rows",
    "auditing/open",
    "runner/",
    "warehouse/",
)


def _names_of_codes(tree: ast.Module) -> dict[str, str]:
    """The module's own constants that are codes: name → code."""
    return {
        node.targets[0].id: node.value.args[0].value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and _called(node.value) == "Code"
    }


def _called(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _codes_emitted(path: Path) -> set[str]:
    """Names of constants that stand in the first argument of what makes findings."""
    makers = ("finding", "damaged_pair", "unread_records", "unusable_input")
    calls = [node for node in nodes_of(path) if isinstance(node, ast.Call) and _called(node) in makers and node.args]
    return {part.id for call in calls for part in ast.walk(call.args[0]) if isinstance(part, ast.Name)}


def _literals(path: Path) -> set[str]:
    return {node.value for node in nodes_of(path) if isinstance(node, ast.Constant) and node.value in CATALOGUE}


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_a_family_has_the_rules_of_its_codes(module) -> None:
    name = module.__name__.rpartition(".")[2]
    path = Path(module.__file__)
    own = _names_of_codes(tree_of(path))
    assert set(own.values()) <= CATALOGUE.keys()
    prefix = name.partition("_")[0].upper()
    assert {code.partition("-")[0] for code in own.values()} == {prefix}
    for constant, code in own.items():
        assert constant == code.replace("-", "_")
        read = [node for node in nodes_of(path) if isinstance(node, ast.Name) and node.id == constant]
        # Its assignment, and the rule.
        assert len(read) > 1, f"{name}: no rule for {code}"
    assert callable(module.judge)


def test_every_file_of_the_families_is_one() -> None:
    files = {path.stem for path in FAMILY_FILES.glob("*.py")} - {"__init__"}
    assert files == {module.__name__.rpartition(".")[2] for module in MODULES}


def test_findings_are_made_in_the_file_of_their_family_and_nowhere_else() -> None:
    for file in some(LIBRARY.rglob("*.py")):
        path, own = str(file.relative_to(LIBRARY)), _names_of_codes(tree_of(file))
        others = _codes_emitted(file) & {code.replace("-", "_") for code in CATALOGUE} - set(own)
        assert not others, f"{path} makes findings of {others}"
        if not path.startswith("auditing/findings/"):
            assert not own, f"{path} defines {own}"
            allowed = path.startswith(NAMING)
            assert allowed or not _literals(file), f"{path} names {_literals(file)}"


def test_a_family_names_no_code_of_another() -> None:
    for path in some(FAMILY_FILES.glob("*.py")):
        assert _literals(path) == set(_names_of_codes(tree_of(path)).values()), path.name


def test_reports_keep_no_lists_of_codes() -> None:
    """What decides what users read is a trait of the code, in the file of its family."""
    known = {*CATALOGUE, *(f"{family}-" for family in FAMILIES)}
    for room in ("report", "warehouse", "elect"):
        for path in some((LIBRARY / room).rglob("*.py")):
            for node in nodes_of(path):
                if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
                    listed = [
                        part.value for part in node.elts if isinstance(part, ast.Constant) and part.value in known
                    ]
                    assert len(listed) < 2, f"{path}:{node.lineno}: {listed}"


def test_every_trait_is_some_code_s_and_an_unknown_one_is_refused() -> None:
    for trait in TRAITS:
        assert codes_with(trait)
    with pytest.raises(KeyError):
        codes_with("loud")
    with pytest.raises(ValueError, match="unknown traits"):
        Code("LOG-GAP", ("low",), traits=("loud",))


def test_a_severity_below_the_worst_causes_no_verdict_unless_one_is_given() -> None:
    code = Code("LOG-GAP", ("high", "info"), ("COMMITTED_LOSS", "INCONCLUSIVE"))
    assert finding(code, "").verdict == finding(code, "", severity="high").verdict == "COMMITTED_LOSS"
    assert finding(code, "", severity="info").verdict is None and finding(code, "", verdict=None).verdict is None
    assert finding(code, "", severity="info", verdict="INCONCLUSIVE").verdict == "INCONCLUSIVE"
    with pytest.raises(ValueError, match="cannot have severity medium"):
        finding(code, "", severity="medium")


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_no_rule_finds_anything_of_healthy_replicas(module) -> None:
    assert list(module.judge(case(log(1, *LINEAGE), compared(log(2, *LINEAGE))))) == []
