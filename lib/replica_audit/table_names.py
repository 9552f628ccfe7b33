"""Checks names of tables, columns and choices that users give; the error for an unknown one suggests the closest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from replica_audit.config import nearest
from replica_audit.errors import UsageError
from replica_audit.schema import Column


class UnknownNameError(UsageError, KeyError):
    """A table or column that is not there; its message names the closest one that is."""

    __str__ = UsageError.__str__


def check_table(name: str, known: Iterable[str]) -> str:
    """`name`, if it is one of the tables `known`; raises UnknownNameError."""
    known = tuple(known)
    if name not in known:
        raise UnknownNameError(f"{name}: no such table; {nearest(name, known)}")
    return name


def choose_columns(of: Sequence[Column], asked: Sequence[str], table: str) -> tuple[Column, ...]:
    """The columns `asked` for, in that order; all of them where none is. Raises UnknownNameError."""
    named = {column.name: column for column in of}
    for name in asked:
        if name not in named:
            raise UnknownNameError(f"{name}: no such column of {table}; {nearest(name, named)}")
    return tuple(named[name] for name in asked) or tuple(of)


def check_choices(argument: str, values: Iterable[str], choices: Sequence[str]) -> None:
    """Raises UnknownNameError for a value of `argument` that is not one of its `choices`."""
    for value in values:
        if value not in choices:
            raise UnknownNameError(
                f"{argument}: {value!r} is not one of {', '.join(choices)}; {nearest(value, choices)}"
            )
