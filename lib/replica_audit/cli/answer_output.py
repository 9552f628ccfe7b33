"""Printing of answers on stdout, as --format, --table and --columns say: summary, audit.json, summary.md, or one table."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from replica_audit.auditing.known_findings import Baseline
from replica_audit.cli.output import print_note, print_pieces, print_result
from replica_audit.config import Settings
from replica_audit.report.audit_json import render_audit_json
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.report.markdown import render_markdown
from replica_audit.report.quality_text import render_failed
from replica_audit.report.show_text import render_summary
from replica_audit.report.table_text import render_table
from replica_audit.report.verdict_object import render_status_line
from replica_audit.results import Results
from replica_audit.row_classes import Row, columns
from replica_audit.schema import REPORT_ROWS
from replica_audit.table_names import check_table, choose_columns


class AskedTable(NamedTuple):
    """The table that --table or --columns asks for, and its columns; no columns: all."""

    name: str
    columns: tuple[str, ...]


def asked_table(
    arguments: argparse.Namespace, settings: Settings, kinds: Mapping[str, type] = REPORT_ROWS, *, whole: bool = True
) -> AskedTable | None:
    """The table of `kinds` to print, by default the first; None if the whole answer is to be printed.

    `whole` answers have a Markdown form of their own. Raises UsageError for an unknown table or column, before anything is read.
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


def table_parts(results: Results, name: str) -> Iterator[Sequence[Row]]:
    """All rows of a report table, some partitions at a time."""
    return (part.table(name) for part in results.parts((name,)))


def print_answers(results: Results, settings: Settings, asked: AskedTable | None = None) -> int:
    """Print the answers, or only the table `asked` for, and return their exit status."""
    verdict = build_verdict(results, settings.fail_on)
    if asked is not None:
        print_table(asked, table_parts(results, asked.name), REPORT_ROWS[asked.name], settings)
    elif settings.format == "markdown":
        print_result(render_markdown(results, verdict))
    elif settings.format == "json":
        print_pieces(render_audit_json(results, verdict))
    else:
        print_result(render_summary(results))
        if failed := render_failed(results):
            print_result(failed)
        print_result(render_status_line(verdict))
    return verdict["exit_status"]


def print_written(path: str, settings: Settings) -> None:
    """Print the path of the report on stderr."""
    if not settings.quiet:
        print_note(f"report: {path}")


def print_unused(baseline: Baseline, results: Results, settings: Settings) -> None:
    """Name on stderr the entries of --accept that match no finding."""
    if unused := baseline.unused(results):
        print_note(f"note: {settings.accept} accepts findings that are not there: {', '.join(unused)}")
