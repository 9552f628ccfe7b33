"""The tables of tables and columns in docs/reference.md, made of the classes of rows.

`python -m tests.docs.reference_tables` writes them anew; a test holds that this changes nothing.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

from replica_audit.batch_header import BATCH_COLUMNS
from replica_audit.bronze_tables import BRONZE_ROWS
from replica_audit.schema import REPORT_ROWS, AttemptRow

REFERENCE = Path(__file__).parents[2] / "docs" / "reference.md"

#: Every table of the warehouse, where a table of both is as it is ingested.
ROWS = {**BRONZE_ROWS, **REPORT_ROWS, **BRONZE_ROWS, "audits": AttemptRow}


def with_tables(text: str) -> str:
    """The page with both tables made anew."""
    for heading, lines in (("table | a row is", _meanings()), ("columns of |", _columns())):
        made = "".join(f"| `{table}` | {cell} |\n" for table, cell in lines)
        text, count = re.subn(
            rf"^(\| {re.escape(heading)} \|\n\|[-|]+\|\n)(?:\|.*\n)+",
            lambda at, rows=made: at[1] + rows,
            text,
            flags=re.M,
        )
        assert count == 1, heading
    return text


def _meanings() -> Iterator[tuple[str, str]]:
    for table, row in ROWS.items():
        meaning = " ".join(inspect.getdoc(row).split()).removesuffix(".")
        yield table, meaning[0].lower() + meaning[1:]


def _columns() -> Iterator[tuple[str, str]]:
    for table, row in ROWS.items():
        meanings = _texts_below_fields(row)
        if table == "batches":
            meanings |= {name: field.meaning for name, field in BATCH_COLUMNS.items()}
        yield table, ", ".join(f"`{name}` ({text})" if text else f"`{name}`" for name, text in meanings.items())


def _texts_below_fields(row: type) -> dict[str, str]:
    """Docstring below each field of a class, '' without one."""
    found, name = {}, ""
    for node in ast.parse(inspect.getsource(row)).body[0].body:
        if isinstance(node, ast.AnnAssign):
            name = node.target.id
            found[name] = ""
        elif name and isinstance(node, ast.Expr):
            found[name] = " ".join(node.value.value.split()).removesuffix(".")
    return found


if __name__ == "__main__":
    REFERENCE.write_text(with_tables(REFERENCE.read_text(encoding="utf-8")), encoding="utf-8")
