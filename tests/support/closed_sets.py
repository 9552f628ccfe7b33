"""Columns that have a closed set of values."""

from __future__ import annotations

from typing import Literal, get_args, get_origin, get_type_hints

from replica_audit.schema import REPORT_ROWS, GoneRecordsRow


def _words(kind: object) -> set[str]:
    """Values that a column of this type can have; empty if its type is no closed set."""
    if get_origin(kind) is Literal:
        return set(get_args(kind))
    return {word for part in get_args(kind) for word in _words(part)}


#: Closed sets by table and column.
COLUMNS = {
    (table, column): words
    for table, row in {**REPORT_ROWS, "gone_records": GoneRecordsRow}.items()
    for column, kind in get_type_hints(row).items()
    if (words := _words(kind))
}
