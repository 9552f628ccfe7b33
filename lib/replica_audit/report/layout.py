"""Text for a terminal: aligned columns, wrapped lines, and no control sequences from input."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING

from replica_audit.redaction import redact
from replica_audit.text import count

if TYPE_CHECKING:
    from replica_audit.schema import PartitionRow

#: Maximum line length if the screen's width is unknown.
WIDTH = 100

#: Limits of the text's width: narrower tables are useless, wider lines hard to read.
LEAST_WIDTH = 60
GREATEST_WIDTH = 120

_width: ContextVar[int] = ContextVar("width", default=WIDTH)

_colour: ContextVar[bool] = ContextVar("colour", default=False)

_SGR = {"critical": "1;31", "high": "31", "medium": "33", "low": "36", "info": "2", "head": "1", "good": "32"}


def text_width() -> int:
    """Maximum number of characters in a line."""
    return _width.get()


def set_text_width(columns: int | None) -> None:
    """Fit the text to a screen of `columns`, within limits; None (not a screen) sets `WIDTH`."""
    _width.set(WIDTH if columns is None else min(GREATEST_WIDTH, max(LEAST_WIDTH, columns)))


def set_colour(colour: bool) -> None:
    """Switch colours on or off."""
    _colour.set(colour)


def paint(text: str, style: str) -> str:
    """Colour `text` in the `_SGR` style `style` if colours are on; its width on screen is unchanged."""
    return f"\x1b[{_SGR[style]}m{text}\x1b[0m" if _colour.get() else text


def clean(value: object) -> str:
    """Return `value` as text without control characters: file names come from an untrusted disk."""
    text = "-" if value is None else str(value)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def elide(text: str, width: int) -> str:
    """`text` cut in its middle to `width` characters."""
    if len(text) <= width:
        return text
    tail = (width - 3) // 2
    return f"{text[: width - 3 - tail]}...{text[len(text) - tail :]}"


def wrap(text: str, indent: str = "", hanging: str | None = None) -> list[str]:
    """Wrap `text` to `text_width()`; longer words are broken.

    Credentials are removed first, since after wrapping they could no longer be recognised.
    """
    following = indent if hanging is None else hanging
    wrapper = textwrap.TextWrapper(
        text_width(), initial_indent=indent, subsequent_indent=following, break_on_hyphens=False
    )
    return wrapper.wrap(clean(redact(text))) or [indent.rstrip()]


def align_columns(rows: Sequence[Sequence[str]], right: Sequence[int] = (), indent: str = "") -> list[str]:
    """Align rows, at least one, in columns two spaces apart; the columns with an index in `right` are right-aligned."""
    widths = [max(len(row[number]) for row in rows) for number in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [cell.rjust(widths[n]) if n in right else cell.ljust(widths[n]) for n, cell in enumerate(row)]
        lines.append((indent + "  ".join(cells)).rstrip())
    return lines


def drop_columns(rows: Sequence[Sequence[str]], order: Sequence[str]) -> list[list[str]]:
    """Drop columns, by heading in the given order, until the table fits the text's width."""
    kept = [list(row) for row in rows]
    for heading in order:
        if natural_width(kept) <= text_width():
            break
        if heading in kept[0]:
            number = kept[0].index(heading)
            kept = [row[:number] + row[number + 1 :] for row in kept]
    return kept


def fit_columns(rows: Sequence[Sequence[str]], right: Sequence[int] = (), indent: str = "") -> list[str]:
    """Align headings and rows within the text's width.

    If the table is too wide, columns with the same value in every row move to a line below it; if that is not enough, each row
    becomes a list of headings and cells.
    """
    kept = list(range(len(rows[0])))
    alike: list[int] = []

    def table() -> list[list[str]]:
        return [[row[n] for n in kept] for row in rows]

    def told(row: Sequence[str], columns: Sequence[int]) -> str:
        return ", ".join(f"{rows[0][n].lower()} {row[n].strip()}" for n in columns)

    room = text_width() - len(indent)
    for number in reversed(kept[1:]):
        if natural_width(table()) > room and len(rows) > 2 and len({row[number] for row in rows[1:]}) == 1:
            kept.remove(number)
            alike.insert(0, number)
    if natural_width(table()) > room:
        return [line for row in rows[1:] for line in wrap(told(row, range(len(row))), indent, f"{indent}  ")]
    lines = align_columns(table(), [kept.index(number) for number in right if number in kept], indent)
    return lines + (wrap(f"in each row: {told(rows[-1], alike)}", indent, f"{indent}  ") if alike else [])


def cut_column(rows: Sequence[Sequence[str]], column: int = 0, least: int = 9) -> list[list[str]]:
    """Shorten a column's cells in their middle until the table fits, but not below `least` characters."""
    widest = max(len(row[column]) for row in rows)
    room = max(least, widest - max(0, natural_width(rows) - text_width()))
    return [[*row[:column], elide(row[column], room), *row[column + 1 :]] for row in rows]


def natural_width(rows: Sequence[Sequence[str]]) -> int:
    """Width of `align_columns(rows)`, with trailing spaces."""
    return sum(max(len(row[n]) for row in rows) for n in range(len(rows[0]))) + 2 * (len(rows[0]) - 1)


def render_rest(left: int, indent: str = "", noun: str = "") -> list[str]:
    """Render a closing line for a list that leaves out `left` rows, named by `noun`; empty if it shows all."""
    what = f"{left} more" if not noun else count(left, f"more {noun}")
    return [f"{indent}and {what} (--format json has all)"] if left > 0 else []


def render_range(start: int | None, end: int | None) -> str:
    """Half-open range of offsets, e.g. [6, 10); from 6 on without an end."""
    return f"from {start} on" if end is None and start is not None else f"[{clean(start)}, {clean(end)})"


def render_interval(lower: int | None, upper: int | None) -> str:
    """Render a high watermark: a number if the bounds are equal, "at least N" without an upper bound, else [lower, upper]; - if
    unknown."""
    if lower is None and upper is None:
        return "-"
    if upper is None:
        return f"at least {lower}"
    return str(lower) if lower == upper else f"[{clean(lower)}, {clean(upper)}]"


def render_lost(row: PartitionRow, records: int | None) -> str:
    """Render the number of records a partition lost, with its bound: 41, at most 41, at least 41; - if unknown."""
    if not records:
        return "-" if records is None else "0"
    return f"{name_bound(at_most=row.lost_at_most, at_least=row.lost_at_least)}{records}"


def render_committed(row: PartitionRow, *, is_likely: bool) -> str:
    """Render how many of the lost records were committed, as `render_lost` does: 41, or 41 likely where that is not proven."""
    return f"{render_lost(row, row.lost_committed)}{' likely' if is_likely else ''}"


def name_bound(*, at_most: bool | None, at_least: bool | None) -> str:
    """Prefix for a number that is a bound, with a trailing space; empty for an exact number."""
    return {(True, False): "at most ", (False, True): "at least ", (True, True): "about "}.get(
        (bool(at_most), bool(at_least)), ""
    )


def render_size(size_bytes: int) -> str:
    """A size in the largest unit that keeps it at 1 or more, e.g. 1.5 MiB."""
    size = float(size_bytes)
    units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]
    while size >= 1024 and len(units) > 1:
        size /= 1024
        units = units[1:]
    return f"{size_bytes} B" if units[0] == "B" else f"{size:.1f} {units[0]}"


def render_object(content: Mapping[str, object]) -> str:
    """A JSON object, indented, with a line end. Raises ValueError for numbers that JSON does not have."""
    return json.dumps(content, indent=2, allow_nan=False) + "\n"
