"""One table of the answers on stdout, as --table, --columns and --format ask for it."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from replica_audit.cli.output import print_pieces
from replica_audit.config import Settings
from replica_audit.report.table_text import render_table
from replica_audit.results import Results
from replica_audit.schema import REPORT_ROWS, Row, columns
from replica_audit.table_names import check_table, choose_columns


class AskedTable(NamedTuple):
    """A table that was asked for, and the columns of it: all where none is named."""

    name: str
    columns: tuple[str, ...]


def asked_table(
    arguments: argparse.Namespace, settings: Settings, kinds: Mapping[str, type] = REPORT_ROWS, *, whole: bool = True
) -> AskedTable | None:
    """The table of `kinds` that is to be printed, the first of them unless one is named; None where the whole answer is.

    `whole` answers have a Markdown of their own. Raises UsageError for a table or a column that is not there, before anything is
    read.
    """
    names = tuple(arguments.columns or ())
    forms = ("csv",) if whole else ("csv", "markdown")
    if arguments.table is None and not names and settings.format not in forms:
        return None
    table = check_table(arguments.table or next(iter(kinds)), kinds)
    choose_columns(columns(kinds[table]), names, table)
    return AskedTable(table, names)


def print_table(asked: AskedTable, parts: Iterable[Sequence[Row]], kind: type, settings: Settings) -> None:
    """Print the rows of `parts`, which are of class `kind`."""
    chosen = choose_columns(columns(kind), asked.columns, asked.name)
    print_pieces(render_table(parts, chosen, settings.format))


def print_answer_table(asked: AskedTable, results: Results, settings: Settings) -> None:
    """Print a table of the answers of an audit."""
    print_table(asked, table_parts(results, asked.name), REPORT_ROWS[asked.name], settings)


def table_parts(results: Results, name: str) -> Iterator[Sequence[Row]]:
    """All rows of a report table, some partitions at a time."""
    return (part.table(name) for part in results.parts((name,)))
