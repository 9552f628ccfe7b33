"""Findings as rows and back: what is a finding's row, and what is not (`test_captures` has those of every capture)."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from tests.support.report_rows import finding
from tests.support.source_trees import nodes_of

import replica_audit
from replica_audit.row_classes import to_dict
from replica_audit.schema import REPORT_TABLES, FindingRow
from replica_audit.typed_json import ShapeError, from_object

LIBRARY = Path(replica_audit.__file__).parent


def test_evidence_has_the_columns_of_the_table():
    (kind,) = (column.type for column in REPORT_TABLES["findings"] if column.name == "evidence")
    item = {"kind": "file", "broker_id": 1, "path": "p", "position": 5, "value": "v", "text": "t"}
    assert re.findall(r"(\w+):", kind) == list(item)
    (found,) = to_dict(from_object(FindingRow, finding("LOG-GAP", "low", finding_id="1", evidence=[item])))["evidence"]
    assert found == item
    assert list(found) == list(item)


def test_columns_of_a_later_version_are_passed_over():
    row = finding("LOG-GAP", "low", finding_id="1")
    assert to_dict(from_object(FindingRow, {**row, "owner": "storage"})) == row


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (None, "expected an object"),
        ({"finding_id": "1"}, "code: expected a value"),
        (finding("LOG-GAP", "low"), "finding_id: expected text"),
        (finding("LOG-GAP", "low", finding_id="1", broker_id="1"), "broker_id: expected a whole number"),
        (finding("LOG-GAP", "low", finding_id="1", broker_id=True), "broker_id: expected a whole number"),
        (finding("LOG-GAP", "low", finding_id="1", evidence=[{"path": "p"}]), r"evidence\[0\].kind: expected a value"),
    ],
)
def test_what_is_not_a_findings_row_is_refused_by_its_column(row, said):
    with pytest.raises(ShapeError, match=said):
        from_object(FindingRow, row)


def test_no_other_module_makes_such_a_row():
    """A mapping written out with the names that only the row of a finding, or of its evidence, has."""
    found = []
    for path in LIBRARY.rglob("*.py"):
        for node in nodes_of(path):
            if isinstance(node, ast.Dict):
                names = {key.value for key in node.keys if isinstance(key, ast.Constant)}
                if {"finding_id", "message"} <= names or {"kind", "value", "text"} <= names:
                    found.append(f"{path.relative_to(LIBRARY)}:{node.lineno}")
    assert not [place for place in found if not place.startswith("auditing/finding.py")]
