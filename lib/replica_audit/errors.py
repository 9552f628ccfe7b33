"""Errors that the user can do something about; each class carries the exit status that it ends the program with.

Anything else that is raised is a fault of the program, is shown with its traceback, and ends with status 4 too.
"""

from __future__ import annotations


class ReplicaAuditError(Exception):
    """An error whose text is enough for the user; `exit_status` is what the command returns."""

    exit_status = 4


class UsageError(ReplicaAuditError):
    """A wrong argument, setting or path: nothing was done."""

    exit_status = 2


class InputError(ReplicaAuditError):
    """A snapshot that cannot be audited whole: no log directory or partition in it, or unreadable."""

    exit_status = 3


class EngineError(ReplicaAuditError):
    """The engine (Java, Spark, Delta, the warehouse) could not do its part."""

    exit_status = 4


class FormatError(ValueError):
    """A file that breaks its format, with all that is needed to find the place.

    `position` is a byte position, or None where the whole file is meant; text formats put the line number into
    `expected`. Pickles, so that it survives the way back from an executor.
    """

    def __init__(self, path: str, position: int | None, expected: str, found: str, hint: str) -> None:
        super().__init__(path, position, expected, found, hint)
        self.path = path
        self.position = position
        self.expected = expected
        self.found = found
        self.hint = hint

    def __str__(self) -> str:
        place = self.path if self.position is None else f"{self.path} at byte {self.position}"
        return f"{place}: expected {self.expected}, found {self.found}; {self.hint}"
