"""One table of the answers as text, CSV, Markdown or JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence

from replica_audit.report.layout import align_columns, clean, elide, natural_width, paint, text_width, wrap
from replica_audit.report.markdown import escape
from replica_audit.row_classes import Column, Row, to_dict

#: Maximum cell width of a text table, and the least before a column is left out.
_WIDEST = 100
_NARROWEST = 16
#: Characters that spreadsheets take for the start of a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def render_table(parts: Iterable[Sequence[Row]], columns: Sequence[Column], form: str) -> Iterator[str]:
    """Render the `columns` of a table in pieces; its rows (objects of `schema`) come in `parts`, and `form` is csv, markdown,
    json or text.

    Nulls are empty, in text `-`; lists and structs are JSON. CSV has an apostrophe before a text that a spreadsheet would take
    for a formula. Text has as many columns as fit, and names the others.
    """
    names = [column.name for column in columns]
    rows = (_values(row, names) for part in parts for row in part)
    if form == "csv":
        return _csv(names, rows)
    if form == "markdown":
        return _markdown(columns, rows)
    if form == "json":
        return _json(names, rows)
    return _text(columns, rows)


def _values(row: Row, names: Sequence[str]) -> list[object]:
    """Values of the columns `names`, structs as dicts."""
    values = to_dict(row)
    return [values[name] for name in names]


def _csv(names: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    yield _line(names)
    for row in rows:
        yield _line([_guarded(value) if isinstance(value, str) else _plain(value) for value in row])


def _line(cells: Sequence[str]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(cells)
    return line.getvalue()


def _guarded(text: str) -> str:
    return clean(f"'{text}" if text.startswith(_FORMULA) else text)


def _plain(value: object) -> str:
    """Text of a value in a cell; empty for null."""
    if value is None:
        return ""
    if isinstance(value, str):
        return clean(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _markdown(columns: Sequence[Column], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    yield f"| {' | '.join(escape(column.name) for column in columns)} |\n"
    yield f"|{'|'.join('--:' if _is_number(column) else '---' for column in columns)}|\n"
    for row in rows:
        yield f"| {' | '.join(escape(_plain(value)) for value in row)} |\n"


def _json(names: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    mark = "["
    for row in rows:
        yield mark + "\n" + json.dumps(dict(zip(names, row, strict=True)))
        mark = ","
    yield "[]\n" if mark == "[" else "\n]\n"


def _text(columns: Sequence[Column], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    table = [[column.name.upper() for column in columns], *([_plain(value) or "-" for value in row] for row in rows)]
    shown = len(columns)
    while shown > 1 and natural_width(_cut(table, shown, _NARROWEST)) > text_width():
        shown -= 1
    width = _WIDEST
    while width > _NARROWEST and natural_width(_cut(table, shown, width)) > text_width():
        width -= 1
    right = [number for number, column in enumerate(columns[:shown]) if _is_number(column)]
    lines = align_columns(_cut(table, shown, width), right)
    yield paint(lines[0], "head") + "\n"
    yield from (f"{line}\n" for line in lines[1:])
    if shown < len(columns):
        left = ", ".join(column.name for column in columns[shown:])
        told = f"Not shown, for lack of width: {left} (--columns, --format csv or json)"
        yield "\n" + "\n".join(wrap(told)) + "\n"


def _cut(table: Sequence[Sequence[str]], columns: int, width: int) -> list[list[str]]:
    """The first `columns` of a table, with no cell wider than `width`."""
    return [[elide(cell, width) for cell in row[:columns]] for row in table]


def _is_number(column: Column) -> bool:
    return column.type in ("bigint", "int", "smallint", "tinyint")
