"""Lines of `replica_progress`, JSON or CSV, as columns; where Arrow refuses a part, line by line."""

from __future__ import annotations

import csv
import io
from collections import Counter

import pyarrow as pa
import pyarrow.csv
import pyarrow.json

from replica_audit.formats.format_error import FormatError
from replica_audit.formats.progress.progress_columns import HINT, LISTS, PROGRESS_SCHEMA, REQUIRED, from_columns
from replica_audit.formats.progress.progress_rows import NULLS, plainly_none
from replica_audit.model import QuarantineRow

#: How often a group of lines with a bad one among them is halved.
_HALVINGS = 500
_GREATEST_HEADER = 64 << 10


def from_text(path: str, form: str, header: bytes, data: bytes, position: int) -> tuple[pa.Table, list[QuarantineRow]]:
    """The rows among whole lines that lie at `position` of their file, and a quarantine row for each of the others."""
    if position == 0 and data.startswith(b"\xef\xbb\xbf"):
        data = data[3:]
    names = _header_names(path, header) if form == "csv" else []
    if not data.strip():
        return PROGRESS_SCHEMA.empty_table(), []
    try:
        return from_columns(_parse_csv(names, data) if form == "csv" else _parse_json(data)), []
    except (pa.ArrowException, FormatError):
        return _find_rows(path, form, names, data, position)


def _find_rows(
    path: str, form: str, names: list[str], data: bytes, position: int
) -> tuple[pa.Table, list[QuarantineRow]]:
    """The lines that are rows, and a quarantine row for each of the others. Arrow decides, over many lines at once:
    those that are plainly no rows are taken out first, and a group that it refuses is halved, as often as `_HALVINGS`
    allows.
    """
    is_plainly_none = plainly_none(form, names, PROGRESS_SCHEMA)
    lines: list[tuple[int, bytes]] = []
    bad: list[tuple[int, bytes, str]] = []
    at = position
    for line in data.splitlines(keepends=True):
        reason = is_plainly_none(line) if line.strip() else None
        if reason is not None:
            bad.append((at, line, reason))
        elif line.strip():
            lines.append((at, line if line.endswith(b"\n") else line + b"\n"))
        at += len(line)
    tables, groups, left = [], [lines] if lines else [], _HALVINGS
    while groups:
        group = groups.pop()
        text = b"".join(line for _, line in group)
        try:
            tables.append(from_columns(_parse_csv(names, text) if form == "csv" else _parse_json(text)))
        except (pa.ArrowException, FormatError) as error:
            half = len(group) // 2
            if half and left:
                left -= 1
                groups += [group[half:], group[:half]]
            else:
                bad += [(at, line, " ".join(str(error).split())[:120]) for at, line in group]
    rows = [
        QuarantineRow(
            None, path, at, len(line), "INPUT-IGNORED", f"expected a row of replica_progress, found {reason}; {HINT}"
        )
        for at, line, reason in sorted(bad)
    ]
    return pa.concat_tables(tables) if tables else PROGRESS_SCHEMA.empty_table(), rows


def _parse_json(data: bytes) -> pa.Table:
    fields = [*PROGRESS_SCHEMA, pa.field("time", pa.string())]
    options = pa.json.ParseOptions(explicit_schema=pa.schema(fields), unexpected_field_behavior="ignore")
    read = pa.json.ReadOptions(block_size=max(1 << 20, len(data) + 1))
    return pa.json.read_json(io.BytesIO(data), read, options)


def _parse_csv(names: list[str], data: bytes) -> pa.Table:
    types = {field.name: pa.string() if field.name in LISTS else field.type for field in PROGRESS_SCHEMA}
    convert = pa.csv.ConvertOptions(
        column_types={name: types.get(name, pa.string()) for name in names},
        null_values=list(NULLS),
        strings_can_be_null=True,
        quoted_strings_can_be_null=True,
        true_values=["true", "True", "TRUE", "1"],
        false_values=["false", "False", "FALSE", "0"],
    )
    read = pa.csv.ReadOptions(column_names=names, block_size=max(1 << 20, len(data) + 1))
    return pa.csv.read_csv(io.BytesIO(data), read, pa.csv.ParseOptions(newlines_in_values=False), convert)


def _header_names(path: str, header: bytes) -> list[str]:
    if len(header) > _GREATEST_HEADER:
        raise FormatError(path, 0, f"a header of at most {_GREATEST_HEADER} bytes", f"{len(header)} bytes", HINT)
    try:
        names = [name.strip() for name in next(csv.reader([header.decode("utf-8-sig").strip()]), [])]
    except csv.Error as error:
        raise FormatError(path, 0, "a header, and lines that end in LF or CRLF", str(error), HINT) from None
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise FormatError(path, 0, "each column once", f"{twice[0][:80]!r} twice", HINT)
    lacking = [name for name in REQUIRED if name not in names]
    if lacking:
        raise FormatError(
            path, 0, f"a header with the columns {', '.join(REQUIRED)}, time_ms", f"none called {lacking[0]}", HINT
        )
    return names
