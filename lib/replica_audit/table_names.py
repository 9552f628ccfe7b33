"""Checks of names of tables, columns and choices given by users; the error for an unknown one suggests the closest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from replica_audit.config import nearest
from replica_audit.errors import UsageError
from replica_audit.row_classes import Column


class UnknownNameError(UsageError, KeyError):
    """An unknown table or column; the message names the closest known one."""

    __str__ = UsageError.__str__


def check_table(name: str, known: Iterable[str]) -> str:
    """Return `name` if it is one of the `known` tables. Raises UnknownNameError."""
    known = tuple(known)
    if name not in known:
        raise UnknownNameError(f"{name}: no such table; {nearest(name, known)}")
    return name


def choose_columns(of: Sequence[Column], asked: Sequence[str], table: str) -> tuple[Column, ...]:
    """The columns `asked` for, in that order, or all if `asked` is empty. Raises UnknownNameError."""
    named = {column.name: column for column in of}
    for name in asked:
        if name not in named:
            raise UnknownNameError(f"{name}: no such column of {table}; {nearest(name, named)}")
    return tuple(named[name] for name in asked) or tuple(of)


def check_values(argument: str, values: Iterable[str], choices: Sequence[str]) -> None:
    """Raise UnknownNameError for a value of `argument` that is not one of its `choices`."""
    for value in values:
        if value not in choices:
            raise UnknownNameError(
                f"{argument}: {value!r} is not one of {', '.join(choices)}; {nearest(value, choices)}"
            )
